"""Worker processes as the server sees them: started, listened to, and noticed when they end, however they end."""

from __future__ import annotations

import logging
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import msgspec

from wcache.core.model.errors import WorkerDied
from wcache.core.wire.channel import failure_of
from wcache.core.wire.frames import Frame
from wcache.core.wire.messages import Failure
from wcache.daemon import orders
from wcache.daemon.link import Link
from wcache.daemon.loop import READ, Loop

if TYPE_CHECKING:
    from wcache.daemon.server import Server

log = logging.getLogger("wcache")

WORKER_SILENT_S = 600.0  # syncing what a large download left in memory may take minutes, and says nothing


def retries_told(server: Server, before: orders.Phase, now: orders.Phase) -> None:
    """A worker's file system failed for a moment, perhaps for many reads at once: a line in the log, and the metric."""
    more = now.retried - before.retried
    if more > 0:
        server.retried += more
        log.warning("Tried again %d times what a file system failed for a moment, last %s", more, now.last)


class Job:
    """One worker. `on_report(report, fds)` for what it says (the descriptors are then the receiver's), and `on_end(failure)` exactly once:
    None after `finish()`, else what went wrong. No callback comes after `kill()`."""

    def __init__(
        self,
        loop: Loop,
        order: orders.LoadOrder | orders.HashOrder | orders.ProveOrder | orders.VerifyOrder | orders.PublishOrder,
        fds: Sequence[int],
        on_report: Callable[[orders.Report, tuple[int, ...]], None],
        on_end: Callable[[Failure | None], None],
    ) -> None:
        self._loop = loop
        self._on_report = on_report
        self._on_end: Callable[[Failure | None], None] | None = on_end
        self._failure: Failure | None = None
        self._finished = False
        self.heard_s = time.monotonic()  # when it last said something, or was told to go on
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "wcache.daemon.worker", str(theirs.fileno()), str(os.getpid())],
                pass_fds=(theirs.fileno(), *fds),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                cwd="/",  # `python -m` puts the current directory first on the path
            )
        self._pidfd = os.pidfd_open(self._process.pid)
        self._link = Link(loop, ours, orders.MAX_FRAME_BYTES, self._frame, self._broken)
        loop.watch(self._pidfd, READ, self._exited)
        self._link.send(orders.encode(order))

    @property
    def pid(self) -> int:
        return self._process.pid

    def send(self, order: orders.Order) -> None:
        self.heard_s = time.monotonic()
        self._link.send(orders.encode(order))

    def finish(self) -> None:
        """It has said all that was expected: its end is no failure."""
        self._finished = True

    def kill(self) -> None:
        """End it now, without a callback."""
        self._on_end = None
        self._link.close()
        self._signal()

    def reap(self) -> None:
        """Wait for a killed one, at the server's end."""
        self._process.wait()

    def stalled(self, now_s: float) -> WorkerDied | None:
        """What to say of a worker that is silent for too long: stopped, or waiting for a disk that does not answer."""
        silent_s = now_s - self.heard_s
        if self._finished or silent_s < WORKER_SILENT_S:
            return None
        remedy = "look at the file system that the checkpoint is on"
        return WorkerDied(f"the worker said nothing for {silent_s:.0f} s", where=f"pid {self.pid}", remedy=remedy)

    def _frame(self, frame: Frame) -> None:
        self.heard_s = time.monotonic()
        try:
            report = orders.decode_report(frame.body)
        except msgspec.MsgspecError as error:
            frame.close()
            self._failure = failure_of(WorkerDied(f"the worker said something that is no report: {error}"))
            self._signal()
            return
        if isinstance(report, orders.Failed):
            self._failure = report.failure
        self._on_report(report, frame.fds)

    def _broken(self, _why: str) -> None:
        self._signal()  # it exits by itself; one that only closed its socket must not stay
        self._end()

    def _signal(self) -> None:
        if self._process.returncode is None:
            self._process.kill()

    def _exited(self, _ready: int) -> None:
        self._loop.unwatch(self._pidfd)
        os.close(self._pidfd)
        self._process.wait()
        self._end()

    def _end(self) -> None:
        """Once its last word is read and its exit status known."""
        if not self._link.closed or self._process.returncode is None or self._on_end is None:
            return
        failure = None if self._finished else self._failure or failure_of(self._died())
        call, self._on_end = self._on_end, None
        call(failure)

    def _died(self) -> WorkerDied:
        code = self._process.returncode
        if code is not None and code < 0:
            remedy = "look at the kernel's log: it may have run out of memory" if code == -signal.SIGKILL else "look at the daemon's log"
            return WorkerDied(f"the worker was ended by {signal.Signals(-code).name}", where=f"pid {self.pid}", remedy=remedy)
        return WorkerDied(f"the worker exited with {code} before it was done", where=f"pid {self.pid}", remedy="look at the daemon's log")
