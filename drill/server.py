"""A server under observation: started in a session of its own, asked for its health every second, and gone with all its children."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import time
import urllib.request
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType

from wcache.core.model.errors import UsageError
from wcache.drill.interrupts import uninterrupted

POLL_S = 1.0
STOP_S = 30.0
_HEALTH_S = 2.0
_END_LINES = 8
_END_BYTES = 1 << 20
_ERROR = re.compile(r"\w(Error|Exception|Miss|Invalid): ")
_direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # a proxy of the environment has no business with this host


class RunningServer:
    """A context manager: whatever happens inside, no process of the session is left.

    `pid` is also the process group and session. `exit_status` is None while it runs; 128+n says that signal n ended it.
    """

    def __init__(self, words: Sequence[str], environ: Mapping[str, str], log: Path) -> None:
        self._words = list(words)
        self._environ = dict(environ)
        self._process: subprocess.Popen[bytes]
        self.log = log
        self.began_s = 0.0
        self.killed = False  # SIGINT was not enough

    def __enter__(self) -> RunningServer:
        """Raises UsageError where the command cannot be started."""
        try:
            with uninterrupted(), self.log.open("wb") as sink:
                self._process = subprocess.Popen(
                    self._words, env=self._environ, stdin=subprocess.DEVNULL, stdout=sink, stderr=subprocess.STDOUT, start_new_session=True
                )
        except OSError as error:
            raise UsageError(f"cannot be started: {error.strerror}", where=self._words[0]) from None
        except KeyboardInterrupt:
            self.stop()
            raise
        self.began_s = time.monotonic()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def exit_status(self) -> int | None:
        code = self._process.poll()
        return code if code is None or code >= 0 else 128 - code

    @property
    def elapsed_s(self) -> float:
        return time.monotonic() - self.began_s

    def wait_healthy(self, url: str, wait_s: float) -> bool:
        """Until `url`/health answers 200; False when the server ended, or did not do so within `wait_s`."""
        while True:
            if self.exit_status is not None:
                return False
            if _healthy(f"{url}/health"):
                return True
            left_s = wait_s - self.elapsed_s
            if left_s <= 0:
                return False
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(min(POLL_S, left_s))

    def stop(self) -> None:
        """SIGINT to the server, SIGKILL to all that is left of its session after 30 s or at its end. Idempotent."""
        try:
            if self.exit_status is None:
                self._process.send_signal(signal.SIGINT)
                try:
                    self._process.wait(STOP_S)
                except subprocess.TimeoutExpired:
                    self.killed = True
        finally:
            for pid in sorted(session_of(self.pid), reverse=True):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            self._process.wait()

    def last_words(self) -> list[str]:
        """The end of its log, blank lines left out, below the last errors before it: what a dying engine says last is rarely why."""
        try:
            with self.log.open("rb") as file:
                file.seek(max(0, self.log.stat().st_size - _END_BYTES))
                text = file.read().decode("utf-8", "replace")
        except OSError:
            return []
        lines = [line.rstrip() for line in text.splitlines() if line.strip()]
        before = [line for line in lines[:-_END_LINES] if _ERROR.search(line)]
        return [*before[-_END_LINES // 2 :], *lines[-_END_LINES:]]


def _healthy(url: str) -> bool:
    try:
        with _direct.open(url, timeout=_HEALTH_S) as answer:
            return bool(answer.status == 200)
    except (OSError, ValueError):
        return False


def session_of(leader: int) -> set[int]:
    """Pids of a session that are no zombies, and the descendants of its leader that have left it (proc_pid_stat(5))."""
    parents: dict[int, int] = {}
    members: set[int] = set()
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        with suppress(OSError, IndexError, ValueError):
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
            if fields[0] in "ZX":
                continue
            pid = int(entry.name)
            parents[pid] = int(fields[1])
            if int(fields[3]) == leader:
                members.add(pid)
    grown = True
    while grown:
        more = {pid for pid, parent in parents.items() if parent in members} - members
        members |= more
        grown = bool(more)
    return members


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
