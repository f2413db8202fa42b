"""A throwaway daemon for a measurement: its own runtime and state directories, the SmolLM2 checkpoint, and an end."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "demo"))


def checkpoint() -> Path:
    """SmolLM2-135M: 3 shards, 272 tensors, 269 MB; made on first use."""
    import recipes

    return recipes.smollm2()


@contextmanager
def places() -> Iterator[dict[str, str]]:
    """The environment of a daemon that is not running yet; whatever runs there is stopped at the end."""
    with tempfile.TemporaryDirectory(prefix="wc-bench-") as scratch:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("WCACHE_")}
        config = Path(scratch) / "wcache.toml"
        config.touch()
        environ = {
            **kept, "WCACHE_RUNTIME_DIR": f"{scratch}/run", "WCACHE_STATE_DIR": f"{scratch}/state", "WCACHE_CONFIG": str(config),
        }  # fmt: skip
        try:
            yield environ
        finally:
            wcache(environ, "daemon", "stop", "--force", check=False)


def wcache(environ: dict[str, str], *arguments: str, check: bool = True) -> str:
    """Runs one `wcache` command and returns its stdout. Raises CalledProcessError."""
    command = [sys.executable, "-m", "wcache.cli", *arguments]
    return subprocess.run(command, env=environ, check=check, capture_output=True, text=True).stdout
