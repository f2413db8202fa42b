"""What the vault leaves with the service manager, so that the next vault of the unit gets it back (systemd.service(5),
FileDescriptorStoreMax=). Standard library only.

A deposit is stored as a set: its descriptors below one name, and below that name with `.text` a sealed memory file that says what the
deposit is and which files (device, inode) its descriptors are, in order. So a set that comes back is known to be whole whatever the order,
and one that is not whole is no set. Nothing waits for the store: it is a third copy, after those of vault and server.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import select
import time
from collections import deque
from collections.abc import Callable, MutableMapping
from contextlib import suppress
from typing import Any, NamedTuple

from wcache.core.memory import memfd
from wcache.core.model.errors import WcacheError
from wcache.daemon.deposits import FDS_MAX, RETRY_S, SEGMENTS, Deposit, Key, close_all
from wcache.daemon.notify import manager_address, tell

_PREFIX = "wcache."
_TEXT = ".text"
_TEXT_MAX_BYTES = 64 << 20
_FIRST_FD = 3  # SD_LISTEN_FDS_START
_ANSWER_S = 2.0  # a manager that has not looked by then is not waited for
_LATER = (errno.EAGAIN, errno.ETOOMANYREFS, errno.ENOBUFS, errno.ENOMEM)


class Returned(NamedTuple):
    """What a manager handed to this process: whole deposits of one instance, and the names of sets that are of no use."""

    instance: str | None
    deposits: list[Deposit]
    useless: list[str]


def returned() -> Returned:
    """Take over the descriptors that this process was started with (sd_listen_fds(3)), and let no child see the variables.

    Descriptors that are not of a whole set are closed.
    """
    named = _passed(os.environ)
    texts = {name.removesuffix(_TEXT): fd for name, fd in named if name.startswith(_PREFIX) and name.endswith(_TEXT)}
    found: list[Deposit] = []
    instance: str | None = None
    useless = {name.removesuffix(_TEXT) for name, _ in named if name.startswith(_PREFIX)}
    used: set[int] = set()
    for name, text_fd in texts.items():
        try:
            said = _read(text_fd)
            files = {_file(fd): fd for other, fd in named if other == name}
            deposit = Deposit(str(said["kind"]), str(said["id"]), str(said["text"]), tuple(files[tuple(file)] for file in said["files"]))
            of_instance = str(said["instance"])
        except (WcacheError, OSError, ValueError, KeyError, TypeError):
            continue
        if _name(deposit.key) != name or instance not in (None, of_instance):
            continue
        instance = of_instance
        found.append(deposit)
        used.update(deposit.fds)
        useless.discard(name)
    close_all([fd for _, fd in named if fd not in used])
    return Returned(instance, found, sorted(useless))


def _passed(environ: MutableMapping[str, str]) -> list[tuple[str, int]]:
    """(name, descriptor), close-on-exec."""
    pid, count, names = (environ.pop(name, "") for name in ("LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"))
    environ.pop("LISTEN_PIDFDID", None)
    if pid != str(os.getpid()) or not count.isdigit():
        return []
    split = names.split(":") if names else []
    fds = range(_FIRST_FD, _FIRST_FD + int(count))
    for fd in fds:
        with suppress(OSError):
            os.set_inheritable(fd, False)
    return list(zip(split if len(split) == len(fds) else [""] * len(fds), fds, strict=True))


class Store:
    """The way to the manager. Messages that it does not take now wait here, in order, with duplicates of their descriptors."""

    def __init__(self, room: int, instance: str, *, adopted: bool) -> None:
        """`room`: as many descriptors as the manager takes of this unit. `adopted`: an earlier vault of this life left something there."""
        self.room = room
        self._instance = instance
        self._adopted = adopted
        self._sizes: dict[Key, int] = {}
        self._unsent: deque[tuple[str, tuple[int, ...]]] = deque()
        self._looking: dict[int, tuple[float, Callable[[], None]]] = {}  # read end of a barrier -> until when, who waits

    @classmethod
    def of_manager(cls, instance: str, came: Returned | None) -> Store | None:
        """None unless a manager says that it keeps descriptors: systemd does since 254, and the unit for older ones (`FDSTORE`).

        `came` is what it returned to this process; None for a vault that was adopted.
        """
        said = os.environ.get("FDSTORE", "")
        room = int(said) if said.isdigit() else 0
        if manager_address() is None or not (room or (came is not None and (came.deposits or came.useless))):
            return None
        store = cls(room, instance, adopted=came is None)
        if came is not None:
            store._sizes = {deposit.key: len(deposit.fds) + 1 for deposit in came.deposits}
            for name in came.useless:
                store._remove(name)
        return store

    def put(self, deposit: Deposit) -> bool:
        """In the place of an earlier one of that key. False when there is no room for all of it: then nothing of it is stored."""
        name = _name(deposit.key)
        if self._sizes.pop(deposit.key, 0) or self._adopted:
            self._remove(name)
        size = len(deposit.fds) + 1
        if sum(self._sizes.values()) + size > self.room:
            return False
        try:
            text_fd = _text_file(deposit, self._instance)
        except (WcacheError, OSError):
            return False
        # Memory is always ready to be read; a connection whose other end is gone may go from the store as well (FDPOLL=1).
        more = "\nFDPOLL=0" if deposit.kind == SEGMENTS else ""
        for start in range(0, len(deposit.fds), FDS_MAX):
            self._send(f"FDSTORE=1\nFDNAME={name}{more}", deposit.fds[start : start + FDS_MAX])
        self._send(f"FDSTORE=1\nFDNAME={name}{_TEXT}\nFDPOLL=0", (text_fd,))
        os.close(text_fd)
        self._sizes[deposit.key] = size
        return True

    def forget(self, key: Key, then: Callable[[], None] = lambda: None) -> None:
        """`then()` once the manager has let go of memory, or does not answer."""
        if self._sizes.pop(key, None) is None and not self._adopted:
            then()
            return
        self._remove(_name(key))
        if key[0] != SEGMENTS:
            then()
            return
        read_fd, write_fd = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._looking[read_fd] = (time.monotonic() + _ANSWER_S, then)
        self._send("BARRIER=1", (write_fd,))
        os.close(write_fd)

    def clear(self) -> None:
        for key in list(self._sizes):
            self.forget(key)

    @property
    def watched(self) -> list[int]:
        """Descriptors that report POLLHUP when there is something for `turn()` to do."""
        return list(self._looking)

    @property
    def due_s(self) -> float | None:
        """When `turn()` has something to do at the latest, on the monotonic clock."""
        due = [until_s for until_s, _ in self._looking.values()]
        if self._unsent:
            due.append(time.monotonic() + RETRY_S)
        return min(due, default=None)

    def turn(self) -> None:
        """Send what waits, and tell those who wait for the manager."""
        self._flush()
        poller = select.poll()
        for fd in self._looking:
            poller.register(fd, 0)
        answered = {fd for fd, _ in poller.poll(0)} if self._looking else set()
        now_s = time.monotonic()
        for fd, (until_s, then) in list(self._looking.items()):
            if fd in answered or now_s >= until_s:
                del self._looking[fd]
                os.close(fd)
                then()

    def settle(self) -> None:
        """Wait, for a while, until the manager has taken everything: the last thing before this process ends."""
        until_s = time.monotonic() + _ANSWER_S
        while (self._unsent or self._looking) and time.monotonic() < until_s:
            poller = select.poll()
            for fd in self._looking:
                poller.register(fd, 0)
            poller.poll(RETRY_S * 1000)
            self.turn()

    def _remove(self, name: str) -> None:
        self._send(f"FDSTOREREMOVE=1\nFDNAME={name}")
        self._send(f"FDSTOREREMOVE=1\nFDNAME={name}{_TEXT}")

    def _send(self, text: str, fds: tuple[int, ...] = ()) -> None:
        try:
            owned = tuple(fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 3) for fd in fds)
        except OSError:  # no descriptor left: that set will not be whole, and says so when it comes back
            owned = ()
        self._unsent.append((text, owned))
        self._flush()

    def _flush(self) -> None:
        while self._unsent:
            text, fds = self._unsent[0]
            try:
                tell(text, fds)
            except OSError as error:
                if error.errno in _LATER:
                    return  # any other failure: there is nobody to tell
            close_all(fds)
            self._unsent.popleft()


def _name(key: Key) -> str:
    return f"{_PREFIX}{key[0]}.{key[1]}"


def _file(fd: int) -> tuple[int, int]:
    found = os.fstat(fd)
    return found.st_dev, found.st_ino


def _text_file(deposit: Deposit, instance: str) -> int:
    said = {"instance": instance, "kind": deposit.kind, "id": deposit.id, "text": deposit.text, "files": [_file(fd) for fd in deposit.fds]}
    data = json.dumps(said).encode()
    fd = memfd.create("deposit", len(data))
    try:
        os.pwrite(fd, data, 0)
        memfd.seal(fd)
    except BaseException:
        os.close(fd)
        raise
    return fd


def _read(fd: int) -> dict[str, Any]:
    """Raises WcacheError, OSError or ValueError for what `_text_file` did not make."""
    size_bytes = os.fstat(fd).st_size
    memfd.check_sealed(fd, size_bytes)
    said = json.loads(os.pread(fd, min(size_bytes, _TEXT_MAX_BYTES), 0))
    if not isinstance(said, dict):
        raise ValueError("not an object")
    return said
