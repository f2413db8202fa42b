"""Frames over one non-blocking stream socket: what a client's connection and a worker's pipe have in common."""

from __future__ import annotations

import errno
import fcntl
import socket
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Protocol

from wcache.core.model.errors import ProtocolError
from wcache.core.wire.frames import Frame, FrameDecoder, close_fds, encode_frame, receive_some, send_some
from wcache.daemon.loop import READ, WRITE, Loop

_READS_PER_TURN = 4  # then the others have their turn
_RETRY_S = 0.05


class Screen(Protocol):
    """Looks at received descriptors before anything else does, closing included."""

    def look(self, fds: Sequence[int]) -> str:
        """Why they must not be touched, or nothing."""

    def discard(self, fds: Sequence[int]) -> None:
        """Get rid of them without touching them here."""


class Link:
    """`on_frame(frame)` for every frame that arrives; `on_broken(why)` once, when the other side is gone or talks no frames.

    Sent descriptors are duplicates that the link owns until the kernel has them, so the sender may close its own at any time.
    """

    def __init__(
        self,
        loop: Loop,
        sock: socket.socket,
        max_frame_bytes: int,
        on_frame: Callable[[Frame], None],
        on_broken: Callable[[str], None],
        screen: Screen | None = None,
    ) -> None:
        sock.setblocking(False)
        self._loop = loop
        self._sock = sock
        self._decoder = FrameDecoder(max_frame_bytes)
        self._on_frame = on_frame
        self._on_broken = on_broken
        self._screen = screen
        self._unsent: deque[tuple[memoryview, tuple[int, ...]]] = deque()
        self._stalled = False  # the kernel's limit of descriptors in flight was hit; a timer retries
        self.frame_began_s: float | None = None
        self.unsent_since_s: float | None = None
        self.closed = False
        loop.watch(sock.fileno(), READ, self._ready)

    def send(self, body: bytes, fds: Sequence[int] = ()) -> None:
        """Queue a frame and send what goes at once."""
        if self.closed:
            return
        owned = tuple(fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 3) for fd in fds)
        self._unsent.append((memoryview(encode_frame(body)), owned))
        if len(self._unsent) == 1:
            self._flush()

    @property
    def quiet(self) -> bool:
        """Nothing is half received or half sent."""
        return not self._unsent and not self._decoder.in_frame

    def pause(self) -> None:
        """Read no more, until `resume()`."""
        self._loop.unwatch(self._sock.fileno())

    def resume(self) -> None:
        if not self.closed:
            self._loop.watch(self._sock.fileno(), READ, self._ready)

    def close(self) -> None:
        """Idempotent; `on_broken` is not called."""
        if self.closed:
            return
        self.closed = True
        self._loop.unwatch(self._sock.fileno())
        self._sock.close()
        self._decoder.close()
        for _, fds in self._unsent:
            close_fds(fds)
        self._unsent.clear()

    def _break(self, why: str) -> None:
        if not self.closed:
            self.close()
            self._on_broken(why)

    def _ready(self, ready: int) -> None:
        if ready & WRITE:
            self._flush()
        if ready & READ and not self.closed:
            self._read()

    def _read(self) -> None:
        for _ in range(_READS_PER_TURN):
            try:
                data, fds = receive_some(self._sock, self._screen.discard if self._screen else None)
                if self._screen and fds and (why := self._screen.look(fds)):
                    self._screen.discard(fds)
                    return self._break(why)
                frames = self._decoder.feed(data, fds) if data else []
            except BlockingIOError:
                break
            except ProtocolError as error:
                return self._break(error.what)
            except OSError as error:
                return self._break(error.strerror or str(error))
            if not data:
                return self._break("closed")
            for position, frame in enumerate(frames):
                if self.closed:  # an earlier frame of this read ended the connection
                    for left in frames[position:]:
                        left.close()
                    return None
                self._on_frame(frame)
            if self.closed:
                return None
        if not self._decoder.in_frame:
            self.frame_began_s = None
        elif self.frame_began_s is None or frames:
            self.frame_began_s = time.monotonic()
        return None

    def _flush(self) -> None:
        while self._unsent and not self._stalled:
            data, fds = self._unsent[0]
            try:
                sent = send_some(self._sock, data, fds)
            except BlockingIOError:
                break
            except OSError as error:
                if error.errno != errno.ETOOMANYREFS:
                    return self._break(error.strerror or str(error))
                self._stalled = True
                self._loop.call_later(_RETRY_S, self._retry)
                break
            close_fds(fds)
            self.unsent_since_s = None  # something went: the peer reads
            if sent == len(data):
                self._unsent.popleft()
            else:
                self._unsent[0] = (data[sent:], ())
        if self._unsent and self.unsent_since_s is None:
            self.unsent_since_s = time.monotonic()
        waiting = bool(self._unsent) and not self._stalled
        self._loop.watch(self._sock.fileno(), READ | WRITE if waiting else READ, self._ready)
        return None

    def _retry(self) -> None:
        self._stalled = False
        if not self.closed:
            self._flush()
