"""The command line as a user has it: a process, with a real daemon."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from subprocess import CompletedProcess
from unittest.mock import patch

import pytest
from support.daemon import DaemonProcess

from wcache.cli.main import run

Cli = Callable[..., CompletedProcess[str]]


def in_processes(env: dict[str, str]) -> Cli:
    """`run_it("audit", "attaches", COLUMNS="80")` -> the finished process, output as text."""

    def run_it(*arguments: str, **more: str) -> CompletedProcess[str]:
        clean = {name: value for name, value in os.environ.items() if not name.startswith("WCACHE_") and name != "COLUMNS"}
        command = [sys.executable, "-m", "wcache.cli", *arguments]
        return subprocess.run(command, env={**clean, **env, **more}, capture_output=True, text=True, timeout=60, check=False)

    return run_it


def in_process(env: dict[str, str]) -> Cli:
    """As `in_processes`, without a new interpreter for every question: importing SQLAlchemy takes longer than all of them."""

    def run_here(*arguments: str, **more: str) -> CompletedProcess[str]:
        out, err = io.StringIO(), io.StringIO()
        clean = {name: value for name, value in os.environ.items() if not name.startswith("WCACHE_") and name != "COLUMNS"}
        with patch.dict(os.environ, {**clean, **env, **more}, clear=True), redirect_stdout(out), redirect_stderr(err):
            code = run(arguments)
        return CompletedProcess(arguments, code, out.getvalue(), err.getvalue())

    return run_here


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
    return in_processes({"WCACHE_RUNTIME_DIR": str(short_path / "run"), "WCACHE_STATE_DIR": str(short_path / "state")})
