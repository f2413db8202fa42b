"""What vault and server say to each other: JSON datagrams over a SOCK_SEQPACKET pair, descriptors beside them, at most 32 a message.

A deposit is a text that only servers understand, and its descriptors; both are cut into as many messages as they need. Standard
library only. Either side may be of another release than the other, so messages are only ever added:

    server to vault   deposit, drop, ready, failed, stopping, bye, pong
    vault to server   deposit (handed back), restored, kept, dropped, signal, ping
"""

from __future__ import annotations

import array
import errno
import fcntl
import json
import os
import socket
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NamedTuple

FDS_MAX = 32
TEXT_MAX = 16 << 10  # characters a message: at most 96 KiB as escaped JSON, below the kernel's default buffer
RETRY_S = 0.05
_MESSAGE_MAX_BYTES = 256 << 10
_FD_BYTES = array.array("i").itemsize
_READS_PER_TURN = 64

SEGMENTS = "segments"
CONNECTION = "connection"

Key = tuple[str, str]
"""(kind, id) of a deposit: SEGMENTS and a residency's id, or CONNECTION and an attach's."""


class Deposit(NamedTuple):
    """One thing that the vault keeps; whoever holds the object owns its descriptors."""

    kind: str
    id: str
    text: str
    fds: tuple[int, ...]

    @property
    def key(self) -> Key:
        return self.kind, self.id

    def close(self) -> None:
        close_all(self.fds)


class Line:
    """One end. Nothing blocks; `closed` once the other end is gone. Descriptors that wait to be sent are duplicates."""

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        self.sock = sock
        self.closed = False
        self.stalled = False  # the kernel's limit of descriptors in flight was hit: flush again a little later
        self._unsent: deque[tuple[bytes, tuple[int, ...]]] = deque()
        self._parts: dict[Key, tuple[list[str], list[int]]] = {}

    @property
    def sending(self) -> bool:
        return bool(self._unsent)

    def send(self, op: str, fds: Sequence[int] = (), **fields: Any) -> None:
        if self.closed:
            return
        owned = tuple(fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 3) for fd in fds)
        self._unsent.append((json.dumps({"op": op, **fields}).encode(), owned))
        self.flush()

    def deposit(self, deposit: Deposit) -> None:
        """Send it whole; the caller keeps its descriptors."""
        texts = [deposit.text[start : start + TEXT_MAX] for start in range(0, len(deposit.text), TEXT_MAX)]
        parts = max(1, len(texts), -(-len(deposit.fds) // FDS_MAX))
        for part in range(parts):
            fds = deposit.fds[part * FDS_MAX : (part + 1) * FDS_MAX]
            text = texts[part] if part < len(texts) else ""
            self.send("deposit", fds, kind=deposit.kind, id=deposit.id, part=part, parts=parts, text=text)

    def flush(self) -> None:
        self.stalled = False
        while self._unsent and not self.closed:
            data, fds = self._unsent[0]
            rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
            try:
                self.sock.sendmsg([data], rights, socket.MSG_NOSIGNAL)
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno in (errno.ETOOMANYREFS, errno.ENOBUFS, errno.ENOMEM):
                    self.stalled = True
                else:
                    self._forget()  # reading will find the end
                return
            close_all(fds)
            self._unsent.popleft()

    def receive(self) -> list[tuple[dict[str, Any], list[int]]]:
        """The messages that have arrived, with descriptors that are then the caller's."""
        found: list[tuple[dict[str, Any], list[int]]] = []
        for _ in range(_READS_PER_TURN):
            try:
                data, ancillary, flags, _ = self.sock.recvmsg(
                    _MESSAGE_MAX_BYTES, socket.CMSG_SPACE(FDS_MAX * _FD_BYTES), socket.MSG_CMSG_CLOEXEC
                )
            except BlockingIOError:
                break
            except OSError:
                data, ancillary, flags = b"", [], 0
            fds = array.array("i")
            for level, kind, payload in ancillary:
                if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                    fds.frombytes(payload[: len(payload) - len(payload) % _FD_BYTES])
            if not data:
                self.closed = True
                break
            if flags & (socket.MSG_CTRUNC | socket.MSG_TRUNC):  # no descriptor left here: this deposit stays incomplete, hence not kept
                close_all(fds)
                continue
            found.append((json.loads(data), list(fds)))
        return found

    def assemble(self, message: dict[str, Any], fds: list[int]) -> Deposit | None:
        """The deposit that this part completes. A part out of order drops what was there."""
        key = (str(message["kind"]), str(message["id"]))
        texts, held = self._parts.pop(key, ([], []))
        if message["part"] != len(texts):
            close_all([*held, *fds])
            return None
        texts.append(message["text"])
        held += fds
        if len(texts) < message["parts"]:
            self._parts[key] = (texts, held)
            return None
        return Deposit(*key, "".join(texts), tuple(held))

    def close(self) -> None:
        """Idempotent."""
        self.closed = True
        self._forget()
        for _, held in self._parts.values():
            close_all(held)
        self._parts.clear()
        self.sock.close()

    def _forget(self) -> None:
        for _, fds in self._unsent:
            close_all(fds)
        self._unsent.clear()


def pair() -> tuple[socket.socket, socket.socket]:
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_CLOEXEC)


def close_all(fds: Sequence[int]) -> None:
    for fd in fds:
        with suppress(OSError):
            os.close(fd)
