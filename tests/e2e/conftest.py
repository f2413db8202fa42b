"""Real models and a real daemon, driven by the commands that a user types. A download that fails is an error, never a skip."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
ENGINE = Path(__file__).resolve().parent / "engine.py"
sys.path.insert(0, str(ROOT / "demo"))


@pytest.fixture(scope="session")
def smollm2() -> Path:
    import recipes

    return recipes.smollm2()


@pytest.fixture(scope="session")
def smollm2_zeroed() -> Path:
    import recipes

    return recipes.smollm2_zeroed()


@pytest.fixture(scope="session")
def minilm() -> Path:
    import recipes

    return recipes.minilm()


class Host:
    """One host of the tests: its own places, its commands, its engines."""

    def __init__(self, scratch: Path) -> None:
        config = scratch / "wcache.toml"
        config.touch()
        kept = {name: value for name, value in os.environ.items() if not name.startswith("WCACHE_")}
        self.environ = {
            **kept,
            "WCACHE_RUNTIME_DIR": str(scratch / "run"),
            "WCACHE_STATE_DIR": str(scratch / "state"),
            "WCACHE_CONFIG": str(config),
            "HF_HUB_OFFLINE": "1",
        }
        self._engines: subprocess.Popen[str] | None = None  # forks them

    def wcache(self, *arguments: str, code: int = 0) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "wcache.cli", *arguments], env=self.environ, capture_output=True, text=True, timeout=300, check=False
        )
        assert done.returncode == code, f"wcache {' '.join(arguments)}: exit code {done.returncode}\n{done.stdout}{done.stderr}"
        return done.stdout

    def attaches(self) -> list[dict[str, Any]]:
        """The ledger's attaches, oldest first."""
        rows: list[dict[str, Any]] = json.loads(self.wcache("audit", "attaches", "--json"))
        return sorted(rows, key=lambda row: row["seq"])

    def engine(self, task: str, checkpoint: Path, how: str, dtype: str, output: Path, **policy: str) -> dict[str, int]:
        """One engine process to its end; what it computed is in `output`."""
        if self._engines is None:
            pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
            self._engines = subprocess.Popen([sys.executable, str(ENGINE)], env=self.environ, **pipes)
        assert self._engines.stdin is not None and self._engines.stdout is not None
        said, complained = (output.with_name(f"{output.name}.{word}") for word in ("out", "err"))
        order = {
            "arguments": [task, str(checkpoint), how, dtype, str(output)],
            "environ": {**self.environ, **{f"WCACHE_{name.upper()}": value for name, value in policy.items()}},
            "stdout": str(said),
            "stderr": str(complained),
        }
        self._engines.stdin.write(json.dumps(order) + "\n")
        self._engines.stdin.flush()
        assert self._engines.stdout.readline().strip() == "0", complained.read_text()[-4000:]
        report: dict[str, int] = json.loads(said.read_text())
        return report

    def close(self) -> None:
        if self._engines is not None:
            with self._engines as engines:
                assert engines.stdin is not None
                engines.stdin.close()


@pytest.fixture(scope="session")
def host(smollm2: Path, minilm: Path) -> Iterator[Host]:
    """A host whose daemon holds SmolLM2 and MiniLM."""
    scratch = Path(tempfile.mkdtemp(prefix="wc-e2e-"))
    host = Host(scratch)
    try:
        host.wcache("daemon", "start")
        host.wcache("load", str(smollm2))
        host.wcache("load", str(minilm))
        yield host
    finally:
        host.close()
        host.wcache("daemon", "stop", "--force")
        shutil.rmtree(scratch, ignore_errors=True)
