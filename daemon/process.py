"""The server's process as the vault sees it. Standard library only."""

from __future__ import annotations

import os
import select
import signal
import time
from contextlib import suppress

from wcache.daemon.deposits import Line


class Server:
    """A child, or (after an adoption) the process that started this vault."""

    def __init__(self, pid: int, line: Line, *, is_child: bool) -> None:
        self.pid = pid
        self.line = line
        self.is_child = is_child
        self.code: int | None = None  # how a child ended: its exit status, or a signal as a negative number
        self.pidfd: int | None = None
        with suppress(ProcessLookupError):
            self.pidfd = os.pidfd_open(pid)
        self.started_s = time.monotonic()
        self.kill_at_s: float | None = None
        self.ready = not is_child
        self.stopping = False
        self.exit_code: int | None = None  # it said goodbye
        self.failure: tuple[str, int] | None = None  # it said why it cannot start: a line, an exit code

    def dead(self) -> bool:
        if self.is_child:
            if self.code is None:
                pid, status = os.waitpid(self.pid, os.WNOHANG)
                self.code = os.waitstatus_to_exitcode(status) if pid else None
            return self.code is not None
        if self.pidfd is None:
            return True
        poller = select.poll()
        poller.register(self.pidfd, select.POLLIN)
        return bool(poller.poll(0))

    def kill(self) -> None:
        if self.pidfd is not None:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self.pidfd, signal.SIGKILL)

    def close(self) -> None:
        self.line.close()
        if self.pidfd is not None:
            os.close(self.pidfd)


def spawn(command: list[str], fds: tuple[int, ...]) -> int:
    """A child in a session of its own, since a terminal's Ctrl-C is the vault's to hand on; its pid. Not by `subprocess`, which would cost
    a megabyte: this process has one thread, and every descriptor but `fds` is close-on-exec."""
    pid = os.fork()
    if pid:
        return pid
    try:
        signal.set_wakeup_fd(-1)  # the pipe is shared with the vault
        os.setsid()
        os.chdir("/")
        for fd in fds:
            os.set_inheritable(fd, True)
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, 0)
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        os.execv(command[0], command)  # noqa: S606
    finally:
        os._exit(127)


def how_it_ended(code: int | None) -> str:
    if code is None:
        return "died"
    return f"was ended by {signal.Signals(-code).name}" if code < 0 else f"exited with {code}"
