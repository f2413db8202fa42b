"""What the server writes on its deposits, so that the next server can go on where this one ended. Fields are only ever added: the two
may be of different releases."""

from __future__ import annotations

import fcntl
import secrets
import struct
import termios
from typing import TYPE_CHECKING

import msgspec

from wcache.core.wire.messages import RESTARTED, AttachBegin, Progress
from wcache.core.wire.peer import peer_pidfd
from wcache.daemon.deposits import CONNECTION, SEGMENTS, Deposit
from wcache.daemon.proofs import Proof
from wcache.daemon.residencies import Lease, Residency

if TYPE_CHECKING:
    from wcache.daemon.connection import Connection


class KeptAttach(msgspec.Struct, kw_only=True):
    attach: str
    begin: AttachBegin
    decided: bool
    committed: bool
    lease: Lease | None = None


class KeptConnection(msgspec.Struct, kw_only=True):
    """A connection between two requests."""

    greeted: bool
    hashed: tuple[str, ...] = ()
    proof: Proof | None = None
    attach: KeptAttach | None = None


def segments_of(residency: Residency, *, pinned: bool | None = None) -> Deposit:
    """State and times are the ledger's to say, leases and reservations their connections'."""
    pinned = residency.pinned if pinned is None else pinned
    plain = msgspec.structs.replace(residency, pinned=pinned, fds=[], leases={}, reserved={})
    return Deposit(SEGMENTS, residency.residency, msgspec.json.encode(plain).decode(), tuple(residency.fds))


def residency_of(deposit: Deposit) -> Residency | None:
    """None for what this release cannot read. The residency shares the deposit's descriptors and closes them."""
    try:
        residency = msgspec.json.decode(deposit.text, type=Residency)
    except msgspec.MsgspecError:
        return None
    residency.fds = list(deposit.fds)
    return residency if len(residency.fds) == len(residency.segments) else None


def connection_deposit(connection: Connection) -> Deposit:
    attach = connection.attach
    kept = KeptConnection(greeted=connection.greeted, hashed=tuple(sorted(connection.hashed)), proof=connection.proof)
    if attach is not None:
        lease = None if attach.lease is None else msgspec.structs.replace(attach.lease, pidfd=None)
        kept.attach = KeptAttach(attach=attach.attach, begin=attach.begin, decided=attach.decided, committed=attach.committed, lease=lease)
    name = attach.attach if attach is not None and attach.leased else f"c-{secrets.token_hex(8)}"
    return Deposit(CONNECTION, name, msgspec.json.encode(kept).decode(), (connection.sock.fileno(),))


def kept_connection(deposit: Deposit) -> KeptConnection | None:
    """None for what this release cannot read."""
    try:
        return msgspec.json.decode(deposit.text, type=KeptConnection)
    except msgspec.MsgspecError:
        return None


def renewed(lease: Lease, connection: Connection) -> Lease:
    """The lease with a descriptor of its process in this server."""
    return msgspec.structs.replace(lease, pidfd=peer_pidfd(connection.sock))


def tell_restart(connection: Connection) -> None:
    """Once a client that waits for a reply must hear that none will come. Not into a queue that it does not read: it would fill."""
    waiting = fcntl.ioctl(connection.sock.fileno(), termios.TIOCOUTQ, b"\0" * 4)
    if struct.unpack("i", waiting)[0] == 0:
        connection.send(Progress(phase=RESTARTED, done_bytes=0, total_bytes=0))
