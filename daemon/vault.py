"""`python -m wcache.daemon.vault`: the small process that holds descriptors and outlives the server (DESIGN §3).

It takes the instance lock, owns the listening socket, and starts the server, which deposits sealed segments and the connections of
leases here. When the server dies another one is started and gets everything back; when the vault dies the server starts another vault
(`--adopt`) and deposits everything again; when both die, a service manager that keeps descriptors hands them to the next vault. Standard
library only, so that it stays at about ten megabytes and has next to nothing that can fail: no msgspec, no SQLAlchemy, and of wcache
only what imports neither.
"""

from __future__ import annotations

import argparse
import errno
import json
import os
import resource
import select
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

from wcache.core.model.errors import EXIT_DAEMON, EXIT_OK, WcacheError
from wcache.core.places import SOCKET_NAME
from wcache.daemon.deposits import RETRY_S, SEGMENTS, Deposit, Key, Line, pair
from wcache.daemon.descriptor_store import Returned, Store, returned
from wcache.daemon.notify import notify, watchdog_interval_s
from wcache.daemon.place import InstanceLock, listen, prepare_directory
from wcache.daemon.process import Server, how_it_ended, spawn
from wcache.daemon.sharing import DIRECTORY_MODE, GROUP_VARIABLE, SOCKET_MODE, group_of, others_may, share

READY_LINE = b"READY\n"
STARTS_MAX = 5  # in a row that never became ready, before a vault that holds nothing gives up
_QUICK_S = 1.0  # a server that lived for less died of its start
_PAUSE_FIRST_S = 0.1
_PAUSE_MAX_S = 5.0
_KILL_AFTER_S = 2.0  # a server that closed its line and goes on is of no use to anybody
_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class Vault:
    """Holds, starts, hands back. `run()` returns the exit code."""

    def __init__(self, options: argparse.Namespace, lock: InstanceLock, listener_fd: int, instance: str, came: Returned | None) -> None:
        """`came`: what the service manager kept of an earlier vault of this unit; None for one that is adopted."""
        self._options = options
        self._lock = lock
        self._listener_fd = listener_fd
        self._instance = instance
        self._held: dict[Key, Deposit] = {} if came is None else {deposit.key: deposit for deposit in came.deposits}
        self._store = Store.of_manager(instance, came)
        self._left = False  # what is held is the service manager's to keep, for the next start of the unit
        self._server: Server | None = None
        self._start_at_s: float | None = 0.0
        self._quick_deaths = 0
        self._unready_starts = 0
        self._was_ready = False
        self._asked: list[str] = []  # to end, by a signal that the next server hears too, should this one die over it
        self._exit_code: int | None = None
        self._watchdog_s = watchdog_interval_s()
        self._ping_at_s = 0.0
        self._wake_fd, wake_write_fd = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        for number in _SIGNALS:
            signal.signal(number, lambda *_: None)
        signal.set_wakeup_fd(wake_write_fd, warn_on_full_buffer=False)

    def adopt(self, server: Server) -> None:
        self._server = server
        self._start_at_s = None
        self._was_ready = True

    def run(self) -> int:
        while self._exit_code is None:
            self._turn()
        if self._store is not None:
            if self._exit_code == EXIT_OK and not self._left:
                self._store.clear()
            self._store.settle()
        for deposit in self._held.values():
            deposit.close()
        return self._exit_code

    def _turn(self) -> None:
        now_s = time.monotonic()
        if self._server is None and self._start_at_s is not None and now_s >= self._start_at_s:
            self._start()
        server = self._server
        poller = select.poll()
        poller.register(self._wake_fd, select.POLLIN)
        if server is not None:
            if not server.line.closed:
                writing = select.POLLOUT if server.line.sending and not server.line.stalled else 0
                poller.register(server.line.sock, select.POLLIN | writing)
            if server.pidfd is not None:
                poller.register(server.pidfd, select.POLLIN)
        if self._store is not None:
            for fd in self._store.watched:
                poller.register(fd, 0)
        for fd, _ in poller.poll(self._timeout_ms(time.monotonic())):
            if fd == self._wake_fd:
                self._signals()
        if self._store is not None:
            self._store.turn()
        if server is None or self._server is not server:
            return
        dead = server.dead()  # asked before reading: what it said before it died is read now
        self._listen_to(server)
        now_s = time.monotonic()
        if dead:
            while not server.line.closed:
                self._listen_to(server)
            self._ended(server)
        elif server.line.closed:
            if server.kill_at_s is None:
                server.kill_at_s = now_s + _KILL_AFTER_S
            elif now_s >= server.kill_at_s:
                server.kill()
        else:
            server.line.flush()
            if self._watchdog_s is not None and server.ready and now_s >= self._ping_at_s:
                self._ping_at_s = now_s + self._watchdog_s
                server.line.send("ping")

    def _timeout_ms(self, now_s: float) -> int | None:
        due: list[float] = []
        server = self._server
        if self._store is not None and (due_s := self._store.due_s) is not None:
            due.append(due_s)
        if server is None:
            due.append(self._start_at_s or 0.0)
        else:
            if server.line.stalled:
                due.append(now_s + RETRY_S)
            if server.kill_at_s is not None:
                due.append(max(server.kill_at_s, now_s + RETRY_S))
            if self._watchdog_s is not None and server.ready:
                due.append(self._ping_at_s)
        return max(0, int((min(due) - now_s) * 1000) + 1) if due else None

    # --- the server ---

    def _start(self) -> None:
        ours, theirs = pair()
        options = self._options
        command = [
            sys.executable, "-m", "wcache.daemon.main", *options.handed_on,
            "--instance", self._instance, "--vault-pid", str(os.getpid()),
            "--vault-fd", str(theirs.fileno()), "--listen-fd", str(self._listener_fd), "--lock-fd", str(self._lock.fd),
        ]  # fmt: skip
        with theirs:
            try:
                child = spawn(command, (theirs.fileno(), self._listener_fd, self._lock.fd))
            except OSError as error:
                ours.close()
                say("ERROR", f"cannot start {sys.executable}: {error.strerror}")
                self._again(quick=True)
                return
        self._server = server = Server(child, Line(ours), is_child=True)
        self._start_at_s = None
        self._unready_starts += 1
        for deposit in self._held.values():
            server.line.deposit(deposit)
        server.line.send("restored")
        for name in self._asked:
            self._hand_on(server, name)

    def _listen_to(self, server: Server) -> None:
        if server.line.closed:
            return
        for message, fds in server.line.receive():
            self._hear(server, message, fds)

    def _hear(self, server: Server, message: dict[str, Any], fds: list[int]) -> None:
        op = message.get("op")
        if op == "deposit":
            deposit = server.line.assemble(message, fds)
            if deposit is not None:
                self._keep(deposit)
            if message["part"] == message["parts"] - 1:
                server.line.send("kept" if deposit is not None else "refused", kind=message["kind"], id=message["id"])
            return
        for fd in fds:
            os.close(fd)
        if op == "drop":
            self._drop(server, (message["kind"], message["id"]))
        elif op == "ready":
            self._ready(server)
        elif op == "failed":
            server.failure = (str(message["line"]), int(message["code"]))
        elif op == "stopping":
            server.stopping = True
            notify(STOPPING=1, STATUS="stopping")
        elif op == "bye":
            server.exit_code = int(message["code"])
            self._left = bool(message.get("left"))
        elif op == "pong":
            notify(WATCHDOG=1)

    def _keep(self, deposit: Deposit) -> None:
        earlier = self._held.pop(deposit.key, None)
        if earlier is not None:
            earlier.close()
        self._held[deposit.key] = deposit
        if self._store is not None and not self._store.put(deposit):
            say("WARNING", f"no room for {deposit.id} among the {self._store.room} descriptors of FileDescriptorStoreMax=: not stored")

    def _drop(self, server: Server, key: Key) -> None:
        """Memory is given back when everybody has let go of it: only then is the server told."""
        deposit = self._held.pop(key, None)
        if deposit is not None:
            deposit.close()

        def gone() -> None:
            server.line.send("dropped", kind=key[0], id=key[1])

        if self._store is None:
            gone()
        else:
            self._store.forget(key, gone)

    def _ready(self, server: Server) -> None:
        server.ready = True
        self._unready_starts = 0
        notify(READY=1, MAINPID=os.getpid(), STATUS=f"serving, server pid {server.pid}")
        if not self._was_ready:
            self._tell_starter(READY_LINE)
        else:
            say("INFO", f"server {server.pid} took over {self._counts()}")
        self._was_ready = True

    def _ended(self, server: Server) -> None:
        lived_s = time.monotonic() - server.started_s
        server.close()
        self._server = None
        how = how_it_ended(server.code)
        if server.exit_code is not None:
            self._exit_code = server.exit_code
        elif server.stopping:
            say("ERROR", f"server {server.pid} {how} while it was stopping")
            self._exit_code = EXIT_DAEMON
        elif server.failure is not None and not self._was_ready and not self._held:
            line, self._exit_code = server.failure
            self._tell_starter(line.encode() + b"\n")
        elif self._unready_starts >= STARTS_MAX and not self._held:
            self._give_up(f"the server {how} at each of {self._unready_starts} starts")
        else:
            say("WARNING", f"server {server.pid} {how}; starting another, holding {self._counts()}")
            notify(STATUS=f"the server {how}; starting another")
            self._again(quick=lived_s < _QUICK_S or not server.ready)

    def _again(self, *, quick: bool) -> None:
        """At once, unless servers keep dying at their start."""
        self._quick_deaths = self._quick_deaths + 1 if quick else 0
        pause_s = min(_PAUSE_MAX_S, _PAUSE_FIRST_S * 2 ** (self._quick_deaths - 2)) if self._quick_deaths > 1 else 0.0
        self._start_at_s = time.monotonic() + pause_s
        if self._quick_deaths >= STARTS_MAX and not self._held and not self._was_ready:
            self._give_up("the server could not be started")

    def _give_up(self, what: str) -> None:
        say("ERROR", what)
        failure = {
            "m": "Failure",
            "code": "daemon_unreachable",
            "what": what,
            "remedy": "look at the daemon's log",
            "detail": "daemon_closed",
        }
        self._tell_starter(json.dumps(failure).encode() + b"\n")
        with suppress(OSError):
            (Path(self._options.runtime_dir) / SOCKET_NAME).unlink()
        self._exit_code = EXIT_DAEMON

    # --- those who started us ---

    def _signals(self) -> None:
        with suppress(BlockingIOError):
            for number in os.read(self._wake_fd, 64):
                name = signal.Signals(number).name
                if number != signal.SIGINT and name not in self._asked:
                    self._asked.append(name)
                if self._server is not None:
                    self._hand_on(self._server, name)
                else:
                    say("WARNING", f"{name} while no server runs: ended without an ordered stop")
                    self._exit_code = EXIT_DAEMON

    def _hand_on(self, server: Server, name: str) -> None:
        """A service manager ends a unit by SIGTERM whether or not it starts it again, and knows itself what to do with what it keeps."""
        server.line.send("signal", name=name, stored=self._store is not None and name == "SIGTERM")

    def _tell_starter(self, line: bytes) -> None:
        fd, self._options.ready_fd = self._options.ready_fd, None
        if fd is not None:
            with suppress(OSError):  # whoever started us may be gone
                os.write(fd, line)
            os.close(fd)

    def _counts(self) -> str:
        segments = sum(kind == SEGMENTS for kind, _ in self._held)
        return f"{segments} residencies and {len(self._held) - segments} connections"


def say(level: str, text: str) -> None:
    """One line of the daemon's log, in the server's format."""
    now = time.time()
    stamp = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(now)) + f",{int(now * 1000) % 1000:03d}"
    with suppress(OSError):
        os.write(2, f"{stamp} {level} vault {os.getpid()}: {text}\n".encode(errors="replace"))


def _raise_open_files() -> None:
    """Whatever the server may hold has to fit here too; the server inherits it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 65536 if hard == resource.RLIM_INFINITY else min(hard, 65536)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _fail(options: argparse.Namespace, error: WcacheError) -> NoReturn:
    say("ERROR", error.diagnostics())
    if options.ready_fd is not None:
        failure = {"m": "Failure", "code": error.code, "what": error.what, "where": error.where, "remedy": error.remedy}
        with suppress(OSError):
            os.write(options.ready_fd, json.dumps({**failure, "detail": error.detail}).encode() + b"\n")
    raise SystemExit(error.exit_code)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="wcache.daemon.vault", description="The wcache vault; `wcache daemon start` runs it.")
    for name in ("--runtime-dir", "--state-dir", "--ledger"):
        parser.add_argument(name, required=True)
    parser.add_argument("--ready-fd", type=int)
    parser.add_argument("--adopt", action="store_true", help="take over from a vault that died; the server that starts this says the rest")
    parser.add_argument("--instance")
    for name in ("--server-pid", "--server-fd", "--listen-fd", "--lock-fd"):
        parser.add_argument(name, type=int)
    options, others = parser.parse_known_args(arguments)  # the others are the server's
    options.handed_on = ["--runtime-dir", options.runtime_dir, "--state-dir", options.state_dir, "--ledger", options.ledger, *others]
    for fd in (options.ready_fd, options.server_fd, options.listen_fd, options.lock_fd):
        if fd is not None:
            os.set_inheritable(fd, False)
    _raise_open_files()
    runtime_dir = Path(options.runtime_dir)
    if options.adopt:
        import socket

        lock = InstanceLock(runtime_dir, options.lock_fd)
        lock.sign()
        vault = Vault(options, lock, options.listen_fd, options.instance, None)
        vault.adopt(Server(options.server_pid, Line(socket.socket(fileno=options.server_fd)), is_child=False))
        notify(MAINPID=os.getpid())
        return vault.run()
    came = returned()
    try:
        gid = group_of(os.environ.get(GROUP_VARIABLE))
        prepare_directory(runtime_dir, others_may(gid))
        share(runtime_dir, gid, DIRECTORY_MODE)
        prepare_directory(Path(options.state_dir), others_may=0o055)  # what lies in it is 0600
        lock = InstanceLock(runtime_dir)
        lock.sign()
        listener = listen(runtime_dir / SOCKET_NAME)
        share(runtime_dir / SOCKET_NAME, gid, SOCKET_MODE)
    except WcacheError as error:
        _fail(options, error)
    except OSError as error:
        _fail(
            options,
            WcacheError(error.strerror or errno.errorcode.get(error.errno or 0, "OSError"), where=str(error.filename or runtime_dir)),
        )
    return Vault(options, lock, listener.fileno(), came.instance or f"d-{os.urandom(8).hex()}", came).run()


if __name__ == "__main__":
    raise SystemExit(main())
