"""Starting vault and server in the background, and hearing that the server is ready, or why it is not."""

from __future__ import annotations

import os
import select
import subprocess
import sys
import time

import msgspec

from wcache.core.model.errors import DaemonUnreachable, WcacheError
from wcache.core.model.vocabulary import Reason
from wcache.core.settings import Settings
from wcache.core.wire.channel import raise_failure
from wcache.core.wire.messages import Failure
from wcache.daemon.place import prepare_directory
from wcache.daemon.vault import READY_LINE

START_TIMEOUT_S = 30.0
LOG_NAME = "daemon.log"


def start_background(settings: Settings, *, timeout_s: float = START_TIMEOUT_S) -> int:
    """Start a vault in its own session, logging to `<state_dir>/daemon.log`; the vault's pid once its server is ready.

    Raises what the server could not start for (DaemonRunning, ...), or DaemonUnreachable when it says nothing in time.
    """
    prepare_directory(settings.state_dir, others_may=0o055)
    log_path = settings.state_dir / LOG_NAME
    ours, theirs = os.pipe2(os.O_CLOEXEC)
    try:
        log_fd = os.open(log_path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            process = subprocess.Popen(
                [*vault_command(settings), "--ready-fd", str(theirs)],
                stdin=subprocess.DEVNULL,
                stdout=log_fd,
                stderr=log_fd,
                pass_fds=(theirs,),
                start_new_session=True,
                cwd="/",
            )
        except OSError as error:
            raise WcacheError(f"cannot start {sys.executable}: {error.strerror}") from None
        finally:
            os.close(log_fd)
            os.close(theirs)
        line = _first_line(ours, time.monotonic() + timeout_s)
    finally:
        os.close(ours)
    if line == READY_LINE:
        return process.pid
    if line:
        process.wait()
        raise_failure(msgspec.json.decode(line, type=Failure))
    process.kill()
    process.wait()
    raise DaemonUnreachable(Reason.DAEMON_SILENT, "the daemon did not become ready", where=str(log_path), remedy="its log says why")


def vault_command(settings: Settings) -> list[str]:
    """The command line of the vault for these settings."""
    places = ("--runtime-dir", settings.runtime_dir, "--state-dir", settings.state_dir, "--ledger", settings.ledger)
    return [sys.executable, "-m", "wcache.daemon.vault", *map(str, places)]


def _first_line(fd: int, deadline_s: float) -> bytes:
    line = b""
    poller = select.poll()
    poller.register(fd, select.POLLIN)
    while not line.endswith(b"\n") and poller.poll(max(0, int((deadline_s - time.monotonic()) * 1000))):
        part = os.read(fd, 65536)
        if not part:
            break
        line += part
    return line
