"""The command line as a user has it: a process, with a real daemon."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.commands import Cli, in_process
from support.daemon import DaemonProcess


@pytest.fixture(scope="module")
def daemon() -> Iterator[DaemonProcess]:
    process = DaemonProcess()
    try:
        yield process.start()
    finally:
        process.cleanup()


@pytest.fixture(scope="module")
def wcache(daemon: DaemonProcess) -> Cli:
    """The command in this process, with a running daemon that a module's tests share."""
    return in_process(daemon.env)


@pytest.fixture
def lonely(short_path: Path) -> Cli:
    """The command, with places of its own and no daemon."""
    return in_process({"WCACHE_RUNTIME_DIR": str(short_path / "run"), "WCACHE_STATE_DIR": str(short_path / "state")})
