"""One client's connection: its handshake, its requests one after another, its deadlines, its lease.

Nothing that a client does or leaves undone costs the others more than the size of this object.
"""

from __future__ import annotations

import os
import socket
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

import msgspec

from wcache.core import __version__
from wcache.core.model.errors import ProtocolError, WcacheError
from wcache.core.model.events import Peer
from wcache.core.model.vocabulary import Reason
from wcache.core.wire.channel import failure_of
from wcache.core.wire.frames import Frame, close_fds
from wcache.core.wire.messages import (
    MAX_HELLO_BYTES,
    MAX_REQUEST_BYTES,
    PROTOCOL_VERSION,
    AnyRequest,
    Failure,
    Message,
    Progress,
    decode_plain,
    decode_request,
    encode,
)
from wcache.daemon.link import Link, Screen
from wcache.daemon.loop import Loop

if TYPE_CHECKING:
    from wcache.daemon.attaches import Attach
    from wcache.daemon.proofs import Proof
    from wcache.daemon.publishes import Publication
    from wcache.daemon.residencies import Residency

HANDSHAKE_S = 2.0
FRAME_S = 10.0  # a frame that has begun must be complete, a reply must be read, descriptors be acknowledged
IDLE_S = 30.0
IDLE_ATTACH_S = 600.0  # between two requests of one attach a loader may look at a slow file system, or read the disk
PROGRESS_EVERY_S = 1.0
_QUEUE_MAX = 64


class Desk(Protocol):
    """What a connection asks of the server."""

    def welcome(self) -> Message: ...
    def handle(self, connection: Connection, request: AnyRequest, fds: tuple[int, ...]) -> None: ...
    def gone(self, connection: Connection, why: str) -> None: ...
    def screen(self, peer: Peer) -> Screen: ...


class Connection:
    """A handler answers each request with exactly one `reply()`, now or later; until then the next request waits."""

    def __init__(self, loop: Loop, desk: Desk, sock: socket.socket, peer: Peer) -> None:
        self._desk = desk
        self._queue: deque[Frame] = deque()
        self.greeted = False
        self._opened_s = self.active_s = time.monotonic()
        self._told_s = 0.0
        self.sock = sock
        self.peer = peer
        self.closed = False
        self.busy = False
        self.attach: Attach | None = None
        self.publication: Publication | None = None  # what it began to publish and has not handed over, or waits for
        self.kept: tuple[str, str] | None = None  # under which key the vault has a copy
        self.hashed: set[str] = set()  # content fingerprints that were taken for this connection
        self.parts: list[int] = []  # descriptors of a HashRequest that is not complete
        self.foreign = peer.uid != os.geteuid()  # another user's, in shared mode
        self.proof: Proof | None = None  # what another user showed that it may read
        self.observed = 0
        self.unacked = 0
        self.progress: Callable[[], Progress] | None = None  # what a waiting client is told
        self.on_gone: Callable[[], None] | None = None  # of the request that it waits for
        self._link = Link(loop, sock, MAX_REQUEST_BYTES, self._frame, self.close, desk.screen(peer) if self.foreign else None)

    @property
    def leased(self) -> bool:
        return self.attach is not None and self.attach.leased

    def sees(self, residency: Residency) -> bool:
        """Whether this peer may be told of these weights."""
        return not self.foreign or (self.proof is not None and self.proof.shows(residency))

    @property
    def idle(self) -> bool:
        """Nothing of it is in progress and it holds nothing: it may be closed to make place."""
        return not self.busy and not self.leased and self.publication is None and (self.attach is None or self.attach.decided)

    @property
    def movable(self) -> bool:
        """Between two requests: another server could go on with it."""
        handing_over = self.attach is not None and bool(self.attach.unsent)
        return not (self.busy or self._queue or self.parts or self.unacked or handing_over) and self._link.quiet

    def pause(self) -> None:
        """Read nothing more: what comes waits in the kernel for whoever goes on with it."""
        self._link.pause()

    def resume(self) -> None:
        self._link.resume()

    def send(self, message: Message, fds: Sequence[int] = ()) -> None:
        self._link.send(encode(message), fds)
        self.active_s = self._told_s = time.monotonic()

    def reply(self, message: Message) -> None:
        """The answer to the present request; then the next one has its turn."""
        if self.closed:
            return
        self.send(message)
        self.proceed()

    def proceed(self) -> None:
        """The present request is dealt with."""
        self.busy = False
        self.progress = self.on_gone = None
        self._next()

    def fail(self, error: WcacheError) -> None:
        self.reply(failure_of(error))

    def wait_for(self, progress: Callable[[], Progress], on_gone: Callable[[], None]) -> None:
        """The reply will take long: tell the client how far it is, and tell us when it no longer waits."""
        self.progress = progress
        self.on_gone = on_gone
        self.send(progress())

    def tell_progress(self, now_s: float, every_s: float = PROGRESS_EVERY_S) -> None:
        if self.progress is not None and now_s - self._told_s >= every_s and self._link.unsent_since_s is None:
            self.send(self.progress())

    def overdue(self, now_s: float) -> str:
        """Why this connection has to go now, or nothing."""
        link = self._link
        if not self.greeted:
            return "no handshake in time" if now_s - self._opened_s > HANDSHAKE_S else ""
        if link.frame_began_s is not None and now_s - link.frame_began_s > FRAME_S:
            return "a request took too long to arrive"
        if link.unsent_since_s is not None and now_s - link.unsent_since_s > FRAME_S:
            return "replies were not read"
        if self.unacked and now_s - self.active_s > FRAME_S:
            return "descriptors were not acknowledged"
        if self.busy or self.leased:
            return ""
        limit_s = IDLE_S if self.attach is None and self.publication is None else IDLE_ATTACH_S
        return "idle" if now_s - self.active_s > limit_s else ""

    def close(self, why: str) -> None:
        """Idempotent. The server is told once."""
        if self.closed:
            return
        self.closed = True
        self._link.close()
        while self._queue:
            self._queue.popleft().close()
        close_fds(self.parts)
        if self.on_gone is not None:
            self.on_gone()
        self._desk.gone(self, why)

    def _frame(self, frame: Frame) -> None:
        self.active_s = time.monotonic()
        if not self.greeted:
            self._hello(frame)
            return
        if len(self._queue) >= _QUEUE_MAX or (self.foreign and self.busy and frame.fds):  # another user's descriptors are not stored up
            frame.close()
            self.close("requests piled up")
            return
        self._queue.append(frame)
        self._next()

    def _next(self) -> None:
        while self._queue and not self.busy and not self.closed:
            frame = self._queue.popleft()
            try:
                request = decode_request(frame.body)
            except msgspec.MsgspecError as error:
                frame.close()
                self._refuse(failure_of(ProtocolError(f"this is no request of protocol {PROTOCOL_VERSION}: {error}")))
                return
            self.busy = True
            self._desk.handle(self, request, frame.fds)

    def _hello(self, frame: Frame) -> None:
        frame.close()
        plain = decode_plain(frame.body) if len(frame.body) <= MAX_HELLO_BYTES else {}
        if plain.get("m") != "Hello":
            self._refuse(failure_of(ProtocolError("the first message must be Hello")))
            return
        if plain.get("protocol") != PROTOCOL_VERSION:
            self._refuse(
                Failure(
                    code=Reason.VERSION_MISMATCH,
                    what=f"this daemon ({__version__}) speaks protocol {PROTOCOL_VERSION}, the client {plain.get('protocol')}",
                    remedy="install the same version of wcache on both sides and restart the daemon",
                )
            )
            return
        self.greeted = True
        self.send(self._desk.welcome())

    def _refuse(self, failure: Failure) -> None:
        self.send(failure)
        self.close(failure.what)
