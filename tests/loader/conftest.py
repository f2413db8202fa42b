"""Fixtures of the loader's tests: places of its own for each test, a real daemon, and its ledger to read back."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest
from support.daemon import DaemonProcess
from support.ledgers import Record

from wcache.core.checkpoint.identity import filesystem_kind, pinnable
from wcache.core.settings import Settings, load_settings


@pytest.fixture(scope="session")
def shared_disk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """As `disk_path`, for checkpoints that several tests only read."""
    found = tmp_path_factory.mktemp("shared")
    if pinnable(filesystem_kind(found))[0]:
        yield found
        return
    with tempfile.TemporaryDirectory(prefix=".scratch-", dir=Path(__file__).parent) as scratch:
        yield Path(scratch)


@pytest.fixture
def settings(disk_path: Path, short_path: Path) -> Settings:
    """Of a host without a daemon."""
    return load_settings({}, runtime_dir=short_path, state_dir=disk_path / "state", wait_s=10)


@pytest.fixture
def record(settings: Settings) -> Record:
    return Record(settings)


class Host:
    """A daemon, the settings that find it, and its ledger. Nothing is looked at behind a weak hit unless a test asks for that: most are
    about what happens until somebody looks."""

    def __init__(self, daemon: DaemonProcess) -> None:
        self.daemon = daemon
        policy = msgspec.structs.replace(daemon.settings.policy, on_miss="strict", verify_behind="off")
        self.settings = msgspec.structs.replace(daemon.settings, policy=policy)
        self.record = Record(daemon.settings)

    def leases(self) -> int:
        return sum(one.leases for one in self.daemon.status().residencies)


@contextmanager
def _running(state_dir: Path, **environ: str) -> Iterator[Host]:
    daemon = DaemonProcess(state_dir, environ=environ)
    try:
        yield Host(daemon.start())
    finally:
        daemon.cleanup()


@pytest.fixture
def host(disk_path: Path) -> Iterator[Host]:
    """Strict by default, so that a test that expects a hit says why there was none."""
    with _running(disk_path / "state") as found:
        yield found


_KILL_WORKERS = """
import os, signal, sys
from pathlib import Path

if "wcache.daemon.worker" in sys.orig_argv and Path(__file__).with_name("kill").exists():
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def frail_host(disk_path: Path) -> Iterator[Host]:
    """As `host`; while there is a file `site/kill` in `disk_path`, its workers are killed as they start."""
    site = disk_path / "site"
    site.mkdir()
    (site / "sitecustomize.py").write_text(_KILL_WORKERS)
    with _running(disk_path / "state", PYTHONPATH=str(site)) as found:
        yield found


@pytest.fixture(scope="module")
def shared_host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    """As `host`, for tests that do not mind what else is resident and on record."""
    with _running(tmp_path_factory.mktemp("shared-host") / "state") as found:
        yield found
