"""A server takes over from one that died: what the vault kept, against what the ledger says (DESIGN §3).

Runs before anybody is served. Every residency and lease of this instance that the ledger believes in is either here afterwards or has
an event that says what became of it; whatever else the vault kept is let go.
"""

from __future__ import annotations

import socket
from collections.abc import Mapping
from typing import TYPE_CHECKING

from wcache.core.model.errors import WcacheError, WorkerDied
from wcache.core.model.events import Event, LeaseEnded, LoadFailed, ReleaseCompleted, ResidencyLost, ResidencyReadopted
from wcache.core.model.machines import LIVE_RESIDENCY
from wcache.core.model.vocabulary import ResidencyState
from wcache.core.wire.peer import peer_of
from wcache.daemon.attaches import Attach, reserve
from wcache.daemon.connection import Connection
from wcache.daemon.deposits import CONNECTION, SEGMENTS, Deposit
from wcache.daemon.kept import KeptAttach, kept_connection, renewed, residency_of, tell_restart
from wcache.daemon.recorder import new_event
from wcache.daemon.releases import resume_release
from wcache.daemon.residencies import Residency
from wcache.ledger.knowledge import KnownResidency

if TYPE_CHECKING:
    from wcache.daemon.server import Server

_GRANTED = ("granted", "mapped", "copied")


def take_over(server: Server, deposits: list[Deposit]) -> None:
    """Raises WcacheError where the ledger cannot say or take it: the start fails then, and the vault goes on keeping everything."""
    segments = {deposit.id: deposit for deposit in deposits if deposit.kind == SEGMENTS}
    connections = [deposit for deposit in deposits if deposit.kind == CONNECTION]
    known = {one.view.residency: one for one in server.recorder.knowledge.residencies() if one.instance == server.instance}
    events = [event for one in known.values() if (event := _residency(server, one, segments)) is not None]
    for deposit in segments.values():
        if server.holdings.get(deposit.id) is None:
            _let_go(server, deposit)
    restored = [connection for deposit in connections if (connection := _connection(server, deposit)) is not None]
    leased = {connection.attach.attach for connection in restored if connection.attach is not None and connection.attach.leased}
    events += _ended(server, leased, known)
    if events:
        (result,) = server.recorder.ledger.append_batch([tuple(new_event(event) for event in events)])
        if isinstance(result, WcacheError):
            raise result
        server.recorder.seq = result[-1]
    for connection in restored:
        tell_restart(connection)
    for residency in list(server.holdings):
        if residency.state is ResidencyState.RELEASING:
            resume_release(server, residency)


def _residency(server: Server, known: KnownResidency, segments: Mapping[str, Deposit]) -> Event | None:
    """The event that says what became of it; what stays is in the holdings afterwards."""
    view = known.view
    deposit = segments.get(view.residency)
    if view.state is ResidencyState.LOADING:
        return LoadFailed(residency=view.residency, asked=view.served, code=WorkerDied.code, message="the server died during the load")
    residency = residency_of(deposit) if deposit is not None else None
    if view.state is ResidencyState.RELEASING and residency is None:
        return ReleaseCompleted(residency=view.residency, bytes=view.bytes)  # it was dropped, and that is all that was missing
    flaw = residency.memory_flaw() if residency is not None else ""
    if residency is None or flaw:
        why = flaw or ("the server ended, and the vault did not have it" if deposit is None else "what the vault kept cannot be used")
        return ResidencyLost(residency=view.residency, why=why)
    residency.state = view.state
    residency.loaded_ns = known.loaded_ns
    residency.touch()
    server.holdings.add(residency)
    if view.state is ResidencyState.RELEASING:
        return None  # goes on once its leases are known
    return ResidencyReadopted(residency=view.residency, instance=server.instance)


def _let_go(server: Server, deposit: Deposit) -> None:
    server.vault.drop(deposit.key)
    deposit.close()


def _connection(server: Server, deposit: Deposit) -> Connection | None:
    """The client sees no difference. A lease that the ledger has ended is ended."""
    kept = kept_connection(deposit)
    attach = kept.attach if kept is not None else None
    if kept is None or (attach is not None and attach.lease is not None and not _lives(server, attach)):
        _let_go(server, deposit)
        return None
    sock = socket.socket(fileno=deposit.fds[0])
    peer = peer_of(sock)
    server.door.entered(peer)
    connection = Connection(server.loop, server, sock, peer)
    connection.kept = deposit.key
    connection.greeted = kept.greeted
    connection.hashed.update(kept.hashed)
    connection.proof = kept.proof
    server.connections.add(connection)
    if attach is not None:
        connection.attach = _attach(server, connection, attach)
    if not connection.leased:  # the vault keeps what holds weights; this one was only carried over
        server.vault.drop(deposit.key)
        connection.kept = None
    return connection


def _lives(server: Server, attach: KeptAttach) -> bool:
    row = server.recorder.knowledge.attach(attach.attach)
    if row is not None:
        return row["state"] in _GRANTED
    # Recorded in the journal only; or the ledger is another one than it was.
    lease = attach.lease
    return lease is not None and (server.holdings.get(lease.residency) is not None or _past(server, lease.residency) is not None)


def _attach(server: Server, connection: Connection, kept: KeptAttach) -> Attach:
    attach = Attach(kept.attach, kept.begin)
    attach.decided, attach.committed = kept.decided, kept.committed
    if not kept.decided:
        reserve(server, connection, attach)
    if kept.lease is None:
        return attach
    attach.lease = lease = renewed(kept.lease, connection)
    residency = server.holdings.get(lease.residency) or _gone(server, lease.residency)
    residency.leases[attach.attach] = lease
    return attach


def _past(server: Server, name: str) -> KnownResidency | None:
    known = server.recorder.knowledge.residencies(frozenset(ResidencyState) - LIVE_RESIDENCY)
    return next((one for one in known if one.view.residency == name), None)


def _gone(server: Server, name: str) -> Residency:
    """It was released by force, or lost, while somebody had it mapped: that lease still counts."""
    known = _past(server, name)
    if known is None:
        raise WcacheError("the ledger does not know the residency of a lease", where=name)
    asked = known.view.served
    residency = Residency(residency=name, asked=asked, served=asked, bytes=known.view.bytes, loaded_ns=known.loaded_ns)
    server.holdings.add(residency)
    server.holdings.retire(residency, known.view.state)
    return residency


def _ended(server: Server, leased: set[str], known: Mapping[str, KnownResidency]) -> list[LeaseEnded]:
    """Leases that the ledger believes in and that have no connection: their hand-over was not over, or their client is gone."""
    knowledge = server.recorder.knowledge
    ours = set(known)
    missing = [attach for attach in knowledge.open_attaches() if attach not in leased]
    rows = [row for attach in missing if (row := knowledge.attach(attach)) is not None]
    if any(row["residency"] not in ours for row in rows):
        ours = {one.view.residency for one in knowledge.residencies(frozenset(ResidencyState)) if one.instance == server.instance}
    return [LeaseEnded(attach=row["attach"], how="server died") for row in rows if row["residency"] in ours]
