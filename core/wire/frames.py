"""Frames on a Unix stream socket: a 4-byte big-endian length, then a msgpack body; descriptors ride beside a frame's first byte.

Received descriptors are close-on-exec from the start and are closed on every error path (unix(7), SCM_RIGHTS; recv(2), MSG_CTRUNC).
"""

from __future__ import annotations

import array
import os
import socket
import struct
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import NamedTuple

from wcache.core.model.errors import ProtocolError
from wcache.core.wire.messages import MAX_FDS

LENGTH = struct.Struct(">I")
_FD_BYTES = array.array("i").itemsize
_ANCILLARY_BYTES = socket.CMSG_SPACE(MAX_FDS * _FD_BYTES)
_RECEIVE_BYTES = 64 << 10


class Frame(NamedTuple):
    """One received body with the descriptors that came along, which now belong to whoever holds the frame."""

    body: bytes
    fds: tuple[int, ...]

    def close(self) -> None:
        close_fds(self.fds)


class FrameDecoder:
    """Cuts a byte stream into frames. A length over `max_bytes` is refused when its four bytes are there; memory grows only with bytes
    that really arrived."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._buffer = bytearray()
        self._fds: list[int] = []

    @property
    def in_frame(self) -> bool:
        """Whether a frame has begun and is not complete."""
        return bool(self._buffer)

    def feed(self, data: bytes, fds: Sequence[int] = ()) -> list[Frame]:
        """The frames that `data` completes. Descriptors belong to the last frame that `data` touches: recvmsg(2) never reads on past
        bytes that carry some. Raises ProtocolError, after closing every descriptor it holds."""
        frames: list[Frame] = []
        self._buffer += data
        try:
            while len(self._buffer) >= LENGTH.size:
                (length,) = LENGTH.unpack_from(self._buffer)
                if length > self._max_bytes:
                    raise ProtocolError(f"a frame of {length} bytes was announced, the cap is {self._max_bytes} bytes")
                end = LENGTH.size + length
                if len(self._buffer) < end:
                    break
                body = bytes(memoryview(self._buffer)[LENGTH.size : end])
                del self._buffer[:end]
                held = (*self._fds, *(() if self._buffer else fds))
                fds = fds if self._buffer else ()
                self._fds.clear()
                frames.append(Frame(body, held))
                if len(held) > MAX_FDS:
                    raise ProtocolError(f"{len(held)} descriptors came with one frame, the cap is {MAX_FDS}")
            self._fds += fds
            fds = ()
            if len(self._fds) > MAX_FDS:
                raise ProtocolError(f"{len(self._fds)} descriptors came with one frame, the cap is {MAX_FDS}")
        except ProtocolError:
            for frame in frames:
                frame.close()
            close_fds(fds)
            self.close()
            raise
        return frames

    def close(self) -> None:
        """Drop what is incomplete."""
        close_fds(self._fds)
        self._fds.clear()
        self._buffer.clear()


def encode_frame(body: bytes) -> bytes:
    return LENGTH.pack(len(body)) + body


def send_some(sock: socket.socket, data: memoryview | bytes, fds: Sequence[int] = ()) -> int:
    """One sendmsg(2): how many bytes went. Where any went, all descriptors went with them."""
    if not fds:
        return sock.send(data, socket.MSG_NOSIGNAL)
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))]
    return sock.sendmsg([data], rights, socket.MSG_NOSIGNAL)


def receive_some(sock: socket.socket, discard: Callable[[Sequence[int]], None] | None = None) -> tuple[bytes, list[int]]:
    """One recvmsg(2): bytes and descriptors; no bytes mean that the peer closed. Raises ProtocolError when descriptors were cut off;
    `discard` then gets those that arrived, instead of their being closed here."""
    data, ancillary, flags, _ = sock.recvmsg(_RECEIVE_BYTES, _ANCILLARY_BYTES, socket.MSG_CMSG_CLOEXEC)
    fds: list[int] = []
    for level, kind, payload in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            numbers = array.array("i")
            numbers.frombytes(payload[: len(payload) - len(payload) % _FD_BYTES])
            fds.extend(numbers)
    if flags & socket.MSG_CTRUNC:
        (discard or close_fds)(fds)
        raise ProtocolError(
            "descriptors were cut off on their way: this process may open no more files",
            remedy="raise its limit (ulimit -n)",
            detail="emfile",
        )
    return data, fds


def close_fds(fds: Sequence[int]) -> None:
    for fd in fds:
        with suppress(OSError):
            os.close(fd)
