"""A running daemon, and checkpoints that are old enough to be pinned by the time they are used twice."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.corpus import make_checkpoint
from support.daemon import DaemonProcess

from wcache.core.checkpoint.identity import filesystem_kind, pinnable


@pytest.fixture
def daemon() -> Iterator[DaemonProcess]:
    process = DaemonProcess()
    try:
        yield process.start()
    finally:
        process.cleanup()


@pytest.fixture
def watched() -> Iterator[DaemonProcess]:
    """A daemon that answers /health and /metrics and expects nothing."""
    process = DaemonProcess(environ={"WCACHE_HEALTH_PORT": "0"})
    try:
        yield process.start()
    finally:
        process.cleanup()


@pytest.fixture(scope="session")
def disk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """As `disk_path`, for the whole session: fresh files make every first load wait for two seconds."""
    path = tmp_path_factory.mktemp("disk")
    if pinnable(filesystem_kind(path))[0]:
        yield path
        return
    scratch = Path(tempfile.mkdtemp(prefix=".scratch-", dir=Path(__file__).parent))
    try:
        yield scratch
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


@pytest.fixture(scope="session")
def checkpoint(disk: Path) -> Path:
    return make_checkpoint(disk / "base", shards=3)


@pytest.fixture(scope="session")
def twin(disk: Path) -> Path:
    """The same names and shapes as `checkpoint`, other bytes."""
    return make_checkpoint(disk / "twin", shards=3, seed=1)


@pytest.fixture(scope="session")
def many_shards(disk: Path) -> Path:
    """More shards than descriptors fit into one message."""
    tensors = {f"layer.{number:03d}.weight": ("U8", (256,), bytes([number]) * 256) for number in range(70)}
    return make_checkpoint(disk / "many", tensors, shards=70)
