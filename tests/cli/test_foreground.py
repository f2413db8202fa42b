"""`wcache daemon start --foreground`: the daemon itself under a supervisor, no wrapper around it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.commands import clean_environ, in_process, in_processes, ok
from support.corpus import make_checkpoint
from support.daemon import wait_until

from wcache.core.model.errors import DaemonRunning, UsageError


@pytest.fixture
def places(short_path: Path) -> dict[str, str]:
    return {"WCACHE_RUNTIME_DIR": str(short_path / "run"), "WCACHE_STATE_DIR": str(short_path / "state")}


@pytest.fixture
def supervised(places: dict[str, str], short_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """As a supervisor starts it: in the foreground, its output kept."""
    with (short_path / "output").open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "wcache.cli", "daemon", "start", "--foreground"],
            env={**clean_environ(), **places},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_is_the_process_that_was_started_and_its_signals_reach_it(
    supervised: subprocess.Popen[bytes], places: dict[str, str], short_path: Path, number: signal.Signals
) -> None:
    wcache = in_process(places)
    wait_until(lambda: "Weight cache daemon READY" in (short_path / "output").read_text(), what="the READY line on its own output")
    status = ok(wcache("status", "--json"))
    assert (status["vault_pid"], status["state"]) == (supervised.pid, "ready")
    assert ok(wcache("load", str(make_checkpoint(short_path / "m")), "--json"))["residency"]
    second = in_processes(places)("daemon", "start", "--foreground")
    assert second.returncode == DaemonRunning.exit_code and str(supervised.pid) in second.stderr
    supervised.send_signal(number)
    assert supervised.wait(60) == 0
    assert ok(wcache("status", "--json"), 6)["state"] == "absent"
    assert ok(wcache("ledger", "verify", "--json"))["problems"] == []
    assert "Traceback" not in (short_path / "output").read_text()


def test_stop_ends_it_with_success(supervised: subprocess.Popen[bytes], places: dict[str, str]) -> None:
    wcache = in_process(places)
    wait_until(lambda: wcache("status").returncode == 0)
    assert ok(wcache("status", "--json"))["vault_pid"] == supervised.pid
    assert ok(wcache("daemon", "stop", "--json"))["state"] == "stopped"
    assert supervised.wait(60) == 0


def test_what_stands_in_its_way_is_one_line(places: dict[str, str], short_path: Path) -> None:
    """D6: a socket's path that the kernel cannot hold; a runtime directory that others may enter."""
    deep = in_processes({**places, "WCACHE_RUNTIME_DIR": str(short_path / ("x" * 100))})("daemon", "start", "--foreground")
    assert (deep.returncode, len(deep.stderr.splitlines())) == (UsageError.exit_code, 1)
    assert "107" in deep.stderr
    (short_path / "run").mkdir()
    (short_path / "run").chmod(0o777)
    shared = in_processes(places)("daemon", "start", "--foreground")
    assert shared.returncode != 0 and "chmod 700" in shared.stderr
    assert "Traceback" not in shared.stderr
    assert os.listdir(short_path / "run") == []
