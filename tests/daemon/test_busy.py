"""A daemon that is busy, or stands still, for as long as it likes is still the only one of its directory (D2)."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path

import pytest
from support.attaching import attach
from support.commands import in_processes
from support.corpus import make_checkpoint
from support.daemon import DaemonProcess, wait_until

from wcache.core.model.errors import DaemonRunning
from wcache.core.model.vocabulary import Outcome, ResidencyState
from wcache.daemon.launch import start_background


def _refused(daemon: DaemonProcess) -> None:
    """Any way to start a second one is refused within seconds, names the first, and leaves its socket alone."""
    inode = daemon.settings.socket_path.stat().st_ino
    began_s = time.monotonic()
    with pytest.raises(DaemonRunning, match=f"pid {daemon.vault_pid}"):
        start_background(daemon.settings)
    done = in_processes(daemon.env)("daemon", "start", "--foreground")
    assert done.returncode == DaemonRunning.exit_code, done.stderr
    assert f"pid {daemon.vault_pid}" in done.stderr
    assert "Traceback" not in done.stderr
    assert time.monotonic() - began_s < 30
    assert daemon.settings.socket_path.stat().st_ino == inode


def test_a_load_that_takes_for_ever_keeps_nobody_waiting(daemon: DaemonProcess, checkpoint: Path, tmp_path: Path) -> None:
    """D2, D5: the worker is stopped in the middle of a load; others load, attach and ask as if it were not there."""
    path = make_checkpoint(tmp_path / "fresh", seed=5)
    thread = threading.Thread(target=lambda: daemon.load(path))
    thread.start()
    wait_until(daemon.workers)
    (worker,) = daemon.workers()
    os.kill(worker, signal.SIGSTOP)
    try:
        _refused(daemon)
        daemon.load(checkpoint)
        attached = attach(daemon.settings.socket_path, checkpoint)
        assert attached.decided.decision.outcome is Outcome.HIT
        attached.close()
        states = {one.view.served.spelling: one.view.state for one in daemon.status().residencies}
        assert states == {str(path): ResidencyState.LOADING, str(checkpoint): ResidencyState.RESIDENT}
    finally:
        os.kill(worker, signal.SIGCONT)
    thread.join()
    assert {one.view.state for one in daemon.status().residencies} == {ResidencyState.RESIDENT}


def test_a_daemon_that_does_not_answer_is_not_taken_for_dead(daemon: DaemonProcess, checkpoint: Path) -> None:
    """D2: the lock says that it lives, so its socket is not taken over; when it goes on, nothing has changed."""
    residency = daemon.load(checkpoint).residency.residency
    os.kill(daemon.pid, signal.SIGSTOP)
    try:
        _refused(daemon)
    finally:
        os.kill(daemon.pid, signal.SIGCONT)
    assert [one.view.residency for one in daemon.status().residencies] == [residency]
