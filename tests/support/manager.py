"""A service manager with a descriptor store, as systemd's is documented and built: it keeps what FDSTORE=1 brings, suppresses duplicates
(kcmp(2)), lets go of what reports POLLHUP or POLLERR unless FDPOLL=0, answers barriers, and hands everything to the next start of its unit
from descriptor 3 on, in no particular order."""

from __future__ import annotations

import array
import ctypes
import fcntl
import os
import platform
import random
import select
import socket
import subprocess
import sys
import threading
from typing import NamedTuple

from support.daemon import DaemonProcess, wait_until

_FIRST_FD = 3
_KCMP = {"x86_64": 312, "aarch64": 272}
_FDS = 253

# Moves the descriptors that it was given to where the protocol wants them, and becomes the program (sd_listen_fds(3)).
_EXEC = """
import fcntl, os, sys
fds = [fcntl.fcntl(int(fd), fcntl.F_DUPFD, 1000) for fd in sys.argv[1].split(",") if fd]
for number, fd in enumerate(fds):
    os.dup2(fd, 3 + number)
    os.close(fd)
os.closerange(3 + len(fds), 1000)
if fds:
    os.environ["LISTEN_PID"] = str(os.getpid())
os.execv(sys.argv[2], sys.argv[2:])
"""


class Stored(NamedTuple):
    name: str
    fd: int
    polled: bool


class Manager:
    def __init__(self, address: str, room: int) -> None:
        self.room = room
        self.stored: list[Stored] = []
        self.said: list[str] = []
        self.watches = threading.Event()  # whether POLLHUP is looked at
        self.watches.set()
        self._reads = threading.Event()
        self._reads.set()
        self._lock = threading.RLock()
        self._sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
        self._sock.bind(address)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def pause(self) -> None:
        """Read nothing more: its queue fills."""
        self._reads.clear()

    def resume(self) -> None:
        self._reads.set()

    def names(self) -> set[str]:
        with self._lock:
            return {one.name for one in self.stored}

    def taken(self) -> tuple[list[int], list[str]]:
        """Duplicates of everything, shuffled, and their names: the store itself stays as it is."""
        with self._lock:
            shuffled = random.sample(self.stored, len(self.stored))
            return [fcntl.fcntl(one.fd, fcntl.F_DUPFD_CLOEXEC, 3) for one in shuffled], [one.name for one in shuffled]

    def add(self, name: str, fd: int, *, polled: bool = True) -> None:
        with self._lock:
            if len(self.stored) >= self.room or any(_same(one.fd, fd) for one in self.stored):
                os.close(fd)
            else:
                self.stored.append(Stored(name, fd, polled))

    def remove(self, name: str, *, count: int | None = None) -> None:
        with self._lock:
            for one in [one for one in self.stored if one.name == name][:count]:
                self.stored.remove(one)
                os.close(one.fd)

    def empty(self) -> None:
        """What a unit's stop does."""
        for name in self.names():
            self.remove(name)

    def close(self) -> None:
        self._over.set()
        self._thread.join(10)
        self._sock.close()
        self.empty()

    def _run(self) -> None:
        while not self._over.is_set():
            poller = select.poll()
            poller.register(self._sock, select.POLLIN if self._reads.is_set() else 0)
            if self.watches.is_set():
                for one in self.stored:
                    if one.polled:
                        poller.register(one.fd, 0)
            for fd, _ in poller.poll(20):
                if fd == self._sock.fileno():
                    self._receive()
                else:
                    with self._lock:
                        for one in [one for one in self.stored if one.fd == fd]:
                            self.stored.remove(one)
                            os.close(fd)

    def _receive(self) -> None:
        data, ancillary, _, _ = self._sock.recvmsg(65536, socket.CMSG_SPACE(_FDS * 4), socket.MSG_CMSG_CLOEXEC)
        fds = array.array("i")
        for level, kind, payload in ancillary:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                fds.frombytes(payload[: len(payload) - len(payload) % 4])
        text = data.decode()
        fields = dict(line.split("=", 1) for line in text.splitlines())
        name = fields.get("FDNAME", "stored")
        assert len(name) <= 255, name
        assert name.isprintable(), name
        assert ":" not in name, name
        if fields.get("FDSTORE") == "1":
            for fd in fds:
                self.add(name, fd, polled=fields.get("FDPOLL") != "0")
        else:
            for fd in fds:
                os.close(fd)
            if fields.get("FDSTOREREMOVE") == "1":
                self.remove(name)
        self.said.append(text)


class Unit(DaemonProcess):
    """The daemon as a unit of a manager: `start()` hands it what is stored, by the command that a unit file has."""

    def __init__(self, *, room: int = 4096, environ: dict[str, str] | None = None) -> None:
        super().__init__(environ=environ)
        self._heard = 0
        self.manager = Manager(str(self.base / "notify"), room)

    def start(self) -> DaemonProcess:
        self.begin()
        self.wait_ready()
        return self

    def begin(self) -> None:
        fds, names = self.manager.taken()
        self._heard = len(self.manager.said)
        environ = {**self._clean_environ(), **self.env, "NOTIFY_SOCKET": str(self.base / "notify"), **self._environ}
        if self.manager.room:
            environ["FDSTORE"] = str(self.manager.room)
        if fds:
            environ |= {"LISTEN_FDS": str(len(fds)), "LISTEN_FDNAMES": ":".join(names)}
        command = [sys.executable, "-m", "wcache.cli", "daemon", "start", "--foreground"]
        with self.log_path.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-c", _EXEC, ",".join(map(str, fds)), *command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=fds,
                env=environ,
            )
        for fd in fds:
            os.close(fd)

    def wait_ready(self) -> None:
        wait_until(lambda: any("READY=1" in text for text in self.manager.said[self._heard :]), 30, "READY=1")

    def restart(self) -> DaemonProcess:
        """`systemctl restart`."""
        assert self.stop() == 0, self.log()
        return self.start()

    def cleanup(self) -> None:
        super().cleanup()
        self.manager.close()


def _same(left: int, right: int) -> bool:
    number = _KCMP.get(platform.machine())
    found = -1 if number is None else ctypes.CDLL(None).syscall(number, os.getpid(), os.getpid(), 0, left, right)
    return found == 0 if found >= 0 else os.path.sameopenfile(left, right)
