"""Who may talk to this daemon: in private mode its own user, in shared mode (DESIGN §11) a group too, and what that group may ask.

Another user's process is outside of the trust boundary: nothing that it says counts, nothing that it sends is touched before it is known
to be harmless, and what it may cost is counted.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from wcache.core.model.errors import RequestRefused
from wcache.core.model.events import Peer, PeerRefused
from wcache.core.wire.frames import close_fds
from wcache.core.wire.messages import Ack, AttachBegin, Decide, HashRequest, Message, Observe, Prove, ReleaseRequest, StatusRequest
from wcache.core.wire.peer import peer_groups
from wcache.daemon.descriptors import why_not_touched

if TYPE_CHECKING:
    from wcache.daemon.connection import Connection
    from wcache.daemon.server import Server

CONNECTIONS_MAX_OF_ONE = 128
CONNECTIONS_MAX_OF_OTHERS = 512
REQUESTS_A_MINUTE = 3000  # of one user: each may become an event
OBSERVED_MAX = 16  # events about one attach
_NAME_MAX = 4096
_RECORD_EVERY_S = 60.0  # of one user and cause: a refused peer must not fill the ledger
_MAY_ASK = (AttachBegin, HashRequest, Prove, Decide, Observe, Ack, StatusRequest, ReleaseRequest)
"""What another user may ask at all. Whatever is not here, and every message that a later release adds, is the daemon's user's."""


class PeerScreen:
    """The descriptors of one connection of another user, before anybody else looks at them."""

    def __init__(self, door: Door, peer: Peer) -> None:
        self._door = door
        self._peer = peer

    def look(self, fds: Sequence[int]) -> str:
        why = next((why for fd in fds if (why := why_not_touched(fd))), "")
        if why:
            self._door.record(self._peer, why)
        return why

    def discard(self, fds: Sequence[int]) -> None:
        self._door.discard(self._peer, fds)


class Door:
    """Looks at every peer once, when it connects, and at every request of another user. `gid` is None in private mode."""

    def __init__(self, server: Server, gid: int | None) -> None:
        self._server = server
        self.gid = gid
        self.refused = 0
        self._recorded_s: dict[tuple[int, str], float] = {}
        self._open: dict[int, int] = {}
        self._discarding: dict[int, threading.Thread] = {}
        self._asked: dict[int, tuple[float, int]] = {}

    def refuses(self, sock: socket.socket, peer: Peer) -> str:
        """Why this peer is turned away, or nothing."""
        own = os.geteuid()
        if peer.uid == own:
            return ""
        if self.gid is None:
            return f"this daemon serves uid {own} only"
        try:
            member = self.gid in peer_groups(sock)
        except OSError as error:
            return f"the groups of the peer cannot be known: {error.strerror}"
        if not member:
            return f"this daemon serves uid {own} and group {self.gid}, of which the peer is no member"
        discarding = self._discarding.get(peer.uid)
        if discarding is not None and discarding.is_alive():
            return "this user sent a descriptor of a file system that does not answer"
        if self._open.get(peer.uid, 0) >= CONNECTIONS_MAX_OF_ONE:
            return f"this user has {CONNECTIONS_MAX_OF_ONE} connections already"
        if sum(count for uid, count in self._open.items() if uid != own) >= CONNECTIONS_MAX_OF_OTHERS:
            return f"other users have {CONNECTIONS_MAX_OF_OTHERS} connections already"
        return ""

    def entered(self, peer: Peer) -> None:
        self._open[peer.uid] = self._open.get(peer.uid, 0) + 1

    def left(self, peer: Peer) -> None:
        self._open[peer.uid] = self._open.get(peer.uid, 1) - 1
        if self._open[peer.uid] <= 0:
            del self._open[peer.uid]

    def record(self, peer: Peer, why: str) -> None:
        """`peer.refused`, once a minute for one user and cause."""
        self.refused += 1
        now_s = time.monotonic()
        last_s = self._recorded_s.get((peer.uid, why))
        if last_s is None or now_s - last_s >= _RECORD_EVERY_S:
            self._recorded_s = {key: at_s for key, at_s in self._recorded_s.items() if now_s - at_s < _RECORD_EVERY_S}
            self._recorded_s[peer.uid, why] = now_s
            self._server.recorder.observe(PeerRefused(peer=peer, why=why))

    # --- descriptors ---

    def screen(self, peer: Peer) -> PeerScreen:
        return PeerScreen(self, peer)

    def discard(self, peer: Peer, fds: Sequence[int]) -> None:
        """Close descriptors that did not pass, in a thread: close(2) asks a FUSE server, which may be the peer's and never answer. While
        that hangs, nobody of this user gets in."""
        if fds:
            thread = threading.Thread(target=close_fds, args=(tuple(fds),), name="wcache-discard", daemon=True)
            self._discarding[peer.uid] = thread
            thread.start()

    # --- requests ---

    def admit(self, connection: Connection, request: Message) -> None:
        """Raises RequestRefused for what another user may not ask at all, or not so often."""
        try:
            self._admit(connection, request)
        except RequestRefused as error:
            self.record(connection.peer, f"{type(request).__name__}: {error.what}")
            raise

    def _admit(self, connection: Connection, request: Message) -> None:
        own_only = f"only the daemon's user (uid {os.geteuid()}) may ask for this"
        if not isinstance(request, _MAY_ASK):
            raise RequestRefused(own_only, where=type(request).__name__, remedy="ask that user to do it", detail="not_owner")
        if isinstance(request, ReleaseRequest):
            self._admit_release(connection, request)
        if isinstance(request, AttachBegin):
            names = (request.launch, request.host, request.engine.name, request.engine.version, request.request.asked.spelling)
            if any(len(name) > _NAME_MAX for name in names):
                raise RequestRefused(f"a name of more than {_NAME_MAX} characters", detail="too_large")
        if isinstance(request, Observe):
            connection.observed += 1
            if connection.observed > OBSERVED_MAX or len(request.payload) > 4 * _NAME_MAX:
                raise RequestRefused(f"more than {OBSERVED_MAX} events about one attach, or a very long one", detail="too_many")
        if not isinstance(request, Ack):
            self._count(connection.peer.uid)

    def _admit_release(self, connection: Connection, request: ReleaseRequest) -> None:
        """Only plainly, only what it may read, and only what nobody else has mapped."""
        if request != ReleaseRequest(residency=request.residency, why=request.why):
            raise RequestRefused("another user may only ask for a plain release", where=request.residency, detail="not_owner")
        seen = {one.residency: one for one in self._server.holdings.held() if connection.sees(one)}
        found = seen.get(request.residency)
        if found is None:
            what = "another user may give back only weights that it proved to be able to read on this connection"
            raise RequestRefused(what, where=request.residency, remedy="ask the daemon's user", detail="not_proved")
        own = connection.attach.attach if connection.attach is not None else ""
        if set(found.leases) - {own}:
            raise RequestRefused("others have it mapped", where=request.residency, remedy="ask the daemon's user", detail="leased")

    def _count(self, uid: int) -> None:
        now_s = time.monotonic()
        began_s, count = self._asked.get(uid, (now_s, 0))
        if now_s - began_s > 60:
            began_s, count = now_s, 0
        self._asked[uid] = (began_s, count + 1)
        if count >= REQUESTS_A_MINUTE:
            raise RequestRefused(f"more than {REQUESTS_A_MINUTE} requests a minute", remedy="wait a minute", detail="too_many")
