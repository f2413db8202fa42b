"""The server's side of the vault: what it deposits there, and the new vault that it starts when the old one dies."""

from __future__ import annotations

import argparse
import logging
import os
import select
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

from wcache.core.model.errors import NoRoom, WcacheError
from wcache.daemon.deposits import RETRY_S, Deposit, Key, Line, pair
from wcache.daemon.loop import READ, WRITE, Loop

log = logging.getLogger("wcache")

_RESTORE_S = 30.0
_FLUSH_S = 5.0
_PAUSE_S = 1.0
_PAUSE_MAX_S = 5.0

Kept = Callable[[WcacheError | None], None]


class VaultClient:
    """Deposits are texts with descriptors that the caller owns: they must stay open until `drop()`, since a new vault gets them again.

    Callbacks run in the loop. Nothing is sent to a vault that does not exist: it all follows when there is one again.
    """

    def __init__(self, sock: socket.socket, pid: int, listener_fd: int, lock_fd: int, instance: str, arguments: Sequence[str]) -> None:
        """`arguments` are those of the server that a vault needs to start one: a new vault gets them too."""
        self.pid = pid
        self.instance = instance
        self.on_signal: Callable[[str, bool], None] = lambda name, stored: None
        self._line = Line(sock)
        self._listener_fd = listener_fd
        self._lock_fd = lock_fd
        self._loop: Loop | None = None
        self._command = [sys.executable, "-m", "wcache.daemon.vault", "--adopt", "--instance", instance, *arguments]
        self._items: dict[Key, Deposit] = {}
        self._keeping: dict[Key, Kept] = {}
        self._dropping: dict[Key, Callable[[], None]] = {}
        self._child: subprocess.Popen[bytes] | None = None
        self._started_s = 0.0
        self._pause_s = 0.0
        self._leaving = False
        self._retrying = False
        self._early: list[dict[str, Any]] = []

    @classmethod
    def inherited(cls, options: argparse.Namespace, arguments: Sequence[str]) -> VaultClient:
        """From the descriptors that a vault passed to this process."""
        for fd in (options.vault_fd, options.listen_fd, options.lock_fd):
            os.set_inheritable(fd, False)
        return cls(
            socket.socket(fileno=options.vault_fd), options.vault_pid, options.listen_fd, options.lock_fd, options.instance, arguments
        )

    def restored(self) -> list[Deposit]:
        """What the vault kept from an earlier server. Blocks. Raises WcacheError when the vault dies over it."""
        found: list[Deposit] = []
        deadline_s = time.monotonic() + _RESTORE_S
        poller = select.poll()
        poller.register(self._line.sock, select.POLLIN)
        while poller.poll(max(0, int((deadline_s - time.monotonic()) * 1000))):
            done = False
            for message, fds in self._line.receive():
                if message["op"] == "deposit":
                    deposit = self._line.assemble(message, fds)
                    if deposit is not None:
                        found.append(deposit)
                        self._items[deposit.key] = deposit
                elif message["op"] == "restored":
                    done = True
                elif message["op"] == "signal":
                    self._early.append(message)
            if done:
                return found
            if self._line.closed:
                break
        raise WcacheError("the vault did not hand over what it holds", where=f"pid {self.pid}", remedy="start the daemon again")

    def join(self, loop: Loop) -> None:
        """From now on the loop listens to the vault."""
        self._loop = loop
        self._watch()
        for message in self._early:
            self._hear(message)

    @property
    def pending(self) -> bool:
        """Whether some deposit or drop is not acknowledged yet."""
        return bool(self._keeping or self._dropping or self._line.sending)

    def keep(self, deposit: Deposit, then: Kept = lambda error: None) -> None:
        """`then(None)` once the vault has it, `then(error)` when it cannot take it."""
        self._items[deposit.key] = deposit
        self._keeping[deposit.key] = then
        self._line.deposit(deposit)
        self._watch()

    def drop(self, key: Key, then: Callable[[], None] = lambda: None) -> None:
        """`then()` once the vault has let go of it. Harmless for what was never kept."""
        self._keeping.pop(key, None)
        if self._items.pop(key, None) is None:
            then()
            return
        self._dropping[key] = then
        self._line.send("drop", kind=key[0], id=key[1])
        self._watch()

    def ready(self) -> None:
        self._line.send("ready")
        self._watch()

    def stopping(self) -> None:
        """From here on the server's death is no accident."""
        self._leaving = True
        self._line.send("stopping")
        self._watch()

    def bye(self, code: int, *, left: bool) -> None:
        """The last word: the vault ends with it. `left`: what it holds stays with the service manager. Blocks until it is sent."""
        self._leaving = True
        self._line.send("bye", code=code, left=left)
        self._flush()

    def fail(self, line: bytes, code: int) -> None:
        """Why this server cannot start. Blocks until it is sent."""
        self._line.send("failed", line=line.decode(), code=code)
        self._flush()

    def leave(self) -> None:
        """Another server takes over: say nothing, the vault starts it when this process has ended."""
        self._leaving = True

    def close(self) -> None:
        if self._loop is not None and not self._line.closed:
            self._loop.unwatch(self._line.sock.fileno())
        self._line.close()

    def _flush(self) -> None:
        deadline_s = time.monotonic() + _FLUSH_S
        while self._line.sending and not self._line.closed and time.monotonic() < deadline_s:
            select.select([], [self._line.sock], [], RETRY_S)
            self._line.flush()

    def _watch(self) -> None:
        loop, line = self._loop, self._line
        if loop is None or line.closed:
            return
        if line.stalled and not self._retrying:
            self._retrying = True
            loop.call_later(RETRY_S, self._retry)
        loop.watch(line.sock.fileno(), READ | WRITE if line.sending and not line.stalled else READ, self._ready)

    def _retry(self) -> None:
        self._retrying = False
        if not self._line.closed:
            self._line.flush()
            self._watch()

    def _ready(self, ready: int) -> None:
        line, loop = self._line, self._loop
        fileno = line.sock.fileno()
        if ready & WRITE:
            line.flush()
        if ready & READ:
            for message, fds in line.receive():
                for fd in fds:
                    os.close(fd)
                self._hear(message)
        if self._line is not line:
            return
        if not line.closed:
            self._watch()
            return
        if loop is not None:
            loop.unwatch(fileno)
        line.close()
        if not self._leaving:
            log.warning("the vault (pid %d) died; starting another", self.pid)
            self._replace()

    def _hear(self, message: dict[str, Any]) -> None:
        op = message["op"]
        if op == "signal":
            self.on_signal(message["name"], message.get("stored", False))
        elif op == "ping":
            self._line.send("pong")
        elif op in ("kept", "refused"):
            then = self._keeping.pop((message["kind"], message["id"]), None)
            if then is not None:
                full = NoRoom(
                    "the vault could not take the descriptors", where=message["id"], remedy="raise the limit of open files (ulimit -n)"
                )
                then(None if op == "kept" else full)
        elif op == "dropped":
            self._dropping.pop((message["kind"], message["id"]), lambda: None)()

    # --- a new vault ---

    def _replace(self) -> None:
        """A vault that keeps dying at its start is tried again less often."""
        now_s = time.monotonic()
        self._pause_s = min(_PAUSE_MAX_S, self._pause_s + _PAUSE_S) if self._child and now_s - self._started_s < _PAUSE_S else 0.0
        if self._child is not None:
            self._child.kill()  # it closed its line: it is dead, or of no use
            self._child.wait()
        if self._pause_s and self._loop is not None:
            self._loop.call_later(self._pause_s, self._start)
        else:
            self._start()

    def _start(self) -> None:
        if self._leaving:
            return
        ours, theirs = pair()
        passed = (theirs.fileno(), self._listener_fd, self._lock_fd)
        numbers = ("--server-pid", os.getpid(), "--server-fd", passed[0], "--listen-fd", passed[1], "--lock-fd", passed[2])
        self._started_s = time.monotonic()
        try:
            with theirs:
                self._child = subprocess.Popen(
                    [*self._command, *map(str, numbers)], stdin=subprocess.DEVNULL, pass_fds=passed, start_new_session=True, cwd="/"
                )
        except OSError as error:
            ours.close()
            log.error("no vault could be started: %s", error.strerror)
            if self._loop is not None:
                self._loop.call_later(_PAUSE_MAX_S, self._start)
            return
        self.pid = self._child.pid
        self._line = Line(ours)
        for kind, name in self._dropping:  # the new vault never had it, but the service manager may
            self._line.send("drop", kind=kind, id=name)
        for deposit in self._items.values():
            self._line.deposit(deposit)
        self._watch()
