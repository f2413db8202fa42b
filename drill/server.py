"""A server under observation: started in a session of its own, asked for its health every second, and gone with all its children."""

from __future__ import annotations

import ctypes
import os
import re
import signal
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType

from wcache.core.model.errors import UsageError
from wcache.drill.busy import busy_s, others_share, spent_s
from wcache.drill.interrupts import uninterrupted

POLL_S = 1.0
STOP_S = 30.0
_HEALTH_S = 30.0  # SGLang computes a token before it says 200, and gives itself 20 s for that
_END_LINES = 8
_END_BYTES = 1 << 20
_ERROR = re.compile(r"\w(Error|Exception|Miss|Invalid): ")
_PR_SET_CHILD_SUBREAPER = 36  # linux/prctl.h
_direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # a proxy of the environment has no business with this host


class RunningServer:
    """A context manager: whatever happens inside, no process is left that the server started, also none that became a daemon.

    While it runs, whatever it leaves without a parent becomes a child of this process (prctl(2), PR_SET_CHILD_SUBREAPER).
    `pid` is also the process group and session. `exit_status` is None while it runs; 128+n says that signal n ended it.
    """

    def __init__(self, words: Sequence[str], environ: Mapping[str, str], log: Path) -> None:
        self._words = list(words)
        self._environ = dict(environ)
        self._process: subprocess.Popen[bytes]
        self._others: set[int] = set()  # this process's children of before
        self.log = log
        self.began_s = 0.0
        self._busy_before_s = 0.0
        self.killed = False  # SIGINT was not enough

    def __enter__(self) -> RunningServer:
        """Raises UsageError where the command cannot be started."""
        self._others = set(_children())
        _adopt(True)
        try:
            with uninterrupted(), self.log.open("wb") as sink:
                self._process = subprocess.Popen(
                    self._words, env=self._environ, stdin=subprocess.DEVNULL, stdout=sink, stderr=subprocess.STDOUT, start_new_session=True
                )
        except OSError as error:
            _adopt(False)
            raise UsageError(f"cannot be started: {error.strerror}", where=self._words[0]) from None
        except KeyboardInterrupt:
            self.stop()
            raise
        self.began_s, self._busy_before_s = time.monotonic(), busy_s()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()

    @property
    def pid(self) -> int:
        return self._process.pid

    def processes(self) -> set[int]:
        """Pids of its session and of all its descendants, wherever they went; no zombies."""
        return session_of(self.pid, self._adopted())

    def _adopted(self) -> dict[int, str]:
        """What became a child of this process meanwhile, and its state (proc_pid_stat(5))."""
        return {pid: state for pid, state in _children().items() if pid not in self._others and pid != self.pid}

    @property
    def exit_status(self) -> int | None:
        code = self._process.poll()
        return code if code is None or code >= 0 else 128 - code

    @property
    def elapsed_s(self) -> float:
        return time.monotonic() - self.began_s

    def others_cpu_share(self) -> float:
        """Of the processors' time since its start, what other work took, 0 to 1. To be asked while it runs."""
        return others_share(self._busy_before_s, self.elapsed_s, spent_s(self.processes()))

    def wait_healthy(self, url: str, wait_s: float) -> bool:
        """Until `url`/health answers 200; False when the server ended, or did not do so within `wait_s`."""
        while True:
            if self.exit_status is not None:
                return False
            if _healthy(f"{url}/health", min(_HEALTH_S, max(POLL_S, wait_s - self.elapsed_s))):
                return True
            left_s = wait_s - self.elapsed_s
            if left_s <= 0:
                return False
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(min(POLL_S, left_s))

    def stop(self) -> None:
        """SIGINT to the server, SIGKILL to all that is left of it after 30 s or at its end. Idempotent."""
        try:
            if self.exit_status is None:
                self._process.send_signal(signal.SIGINT)
                try:
                    self._process.wait(STOP_S)
                except subprocess.TimeoutExpired:
                    self.killed = True
        finally:
            deadline_s = time.monotonic() + STOP_S
            while (left := self.processes()) and time.monotonic() < deadline_s:  # again: one that is killed may just have started another
                for pid in sorted(left, reverse=True):
                    with suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
                time.sleep(0.01)
            self._process.wait()
            for pid in self._adopted():
                with suppress(ChildProcessError):
                    os.waitpid(pid, os.WNOHANG)
            _adopt(False)

    def last_words(self) -> list[str]:
        """The end of its log below the last errors before it, since what a dying engine says last is rarely why. Without blank lines and
        the pointers of tracebacks."""
        try:
            with self.log.open("rb") as file:
                file.seek(max(0, self.log.stat().st_size - _END_BYTES))
                text = file.read().decode("utf-8", "replace")
        except OSError:
            return []
        lines = [line.rstrip() for line in text.splitlines() if line.strip(" ^~")]
        before = [line for line in lines[:-_END_LINES] if _ERROR.search(line)]
        return [*before[-_END_LINES // 2 :], *lines[-_END_LINES:]]


def _healthy(url: str, timeout_s: float) -> bool:
    try:
        with _direct.open(url, timeout=timeout_s) as answer:
            return bool(answer.status == 200)
    except (OSError, ValueError):
        return False


def session_of(leader: int, more: Iterable[int] = ()) -> set[int]:
    """Pids of a session and those of `more` that are no zombies, and all descendants of these, also those that have left the session."""
    running = {pid: (parent, session) for pid, state, parent, session in _stats() if state not in "ZX"}
    members = {pid for pid, (_, session) in running.items() if session == leader or pid in more}
    grown = True
    while grown:
        found = {pid for pid, (parent, _) in running.items() if parent in members} - members
        members |= found
        grown = bool(found)
    return members


def _children() -> dict[int, str]:
    """This process's, and the state of each."""
    return {pid: state for pid, state, parent, _ in _stats() if parent == os.getpid()}


def _stats() -> Iterator[tuple[int, str, int, int]]:
    """Pid, state, parent and session of every process (proc_pid_stat(5))."""
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        with suppress(OSError, IndexError, ValueError):
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
            yield int(entry.name), fields[0], int(fields[1]), int(fields[3])


def _adopt(orphans: bool) -> None:
    """Whether what this process's descendants leave without a parent becomes its child, instead of that of init."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, int(orphans), 0, 0, 0)


def port_taken(host: str, port: int) -> bool:
    """Whether somebody listens there already."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise UsageError(f"this cannot be an address to listen on: {error.strerror}", where=host) from None
    family, kind, number, _, address = found[0]
    with socket.socket(family, kind, number) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(address)
        except OSError as error:
            return bool(error.errno in (98, 13))
    return False


def wait_port_free(host: str, port: int) -> bool:
    """What a killed server leaves of its socket takes the kernel a moment."""
    deadline_s = time.monotonic() + STOP_S
    while port_taken(host, port):
        if time.monotonic() > deadline_s:
            return False
        time.sleep(0.05)
    return True
