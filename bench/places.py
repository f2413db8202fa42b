"""A throwaway daemon for a measurement: its own runtime and state directories, the SmolLM2 checkpoint, and an end."""

from __future__ import annotations

import json
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


def sparse_checkpoint(directory: Path, tensors: int, shards: int, size_bytes: int) -> Path:
    """Zeros in bfloat16, which take no room on the disk: what the bytes are makes no difference to an attach. Names differ from one
    directory to the next, so that no two have the same weights."""
    directory.mkdir()
    items = size_bytes // tensors // 2
    weight_map = {}
    for shard in range(shards):
        file = f"model-{shard + 1:05d}-of-{shards:05d}.safetensors"
        names = [f"{directory.name}.layers.{number // 9}.part{number % 9}.weight" for number in range(shard, tensors, shards)]
        table = {
            name: {"dtype": "BF16", "shape": [items], "data_offsets": [2 * items * place, 2 * items * (place + 1)]}
            for place, name in enumerate(names)
        }
        header = json.dumps(table).encode()
        header += b" " * (-len(header) % 8)
        with (directory / file).open("wb") as out:
            out.write(len(header).to_bytes(8, "little") + header)
            out.truncate(8 + len(header) + 2 * items * len(names))
        weight_map.update(dict.fromkeys(names, file))
    (directory / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))
    return directory


@contextmanager
def places() -> Iterator[dict[str, str]]:
    """The environment of a daemon that is not running yet; whatever runs there is stopped at the end."""
    with tempfile.TemporaryDirectory(prefix="wc-bench-") as scratch:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("WCACHE_")}
        kept.pop("PYTHONDONTWRITEBYTECODE", None)  # an installed package has its byte code: compiling it is no part of starting
        config = Path(scratch) / "wcache.toml"
        config.touch()
        environ = {
            **kept, "WCACHE_RUNTIME_DIR": f"{scratch}/run", "WCACHE_STATE_DIR": f"{scratch}/state", "WCACHE_CONFIG": str(config),
            "PYTHONPYCACHEPREFIX": f"{scratch}/pyc",
        }  # fmt: skip
        try:
            yield environ
        finally:
            wcache(environ, "daemon", "stop", "--force", check=False)


def wcache(environ: dict[str, str], *arguments: str, check: bool = True) -> str:
    """Runs one `wcache` command and returns its stdout. Raises CalledProcessError."""
    command = [sys.executable, "-m", "wcache.cli", *arguments]
    return subprocess.run(command, env=environ, check=check, capture_output=True, text=True).stdout
