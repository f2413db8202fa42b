"""Attaches: an offer, a decision that is recorded before anything else happens, then the descriptors, once."""

from __future__ import annotations

import secrets
import time
from typing import TYPE_CHECKING

import msgspec

from wcache.core.model.decide import Decision, Request, decide, decided_event
from wcache.core.model.errors import (
    LedgerCorrupt,
    LedgerError,
    LedgerUnavailable,
    ProtocolError,
    RequestRefused,
    WcacheError,
)
from wcache.core.model.events import (
    AttachDecided,
    FingerprintRecorded,
    Identity,
    LeaseEnded,
    LeaseGranted,
)
from wcache.core.model.evidence import Fingerprint
from wcache.core.model.vocabulary import Outcome, Reason, ResidencyState, Tier
from wcache.core.wire.messages import (
    MAX_FDS,
    Ack,
    AttachBegin,
    AttachOffer,
    Decide,
    Decided,
    Known,
    Lookup,
    SegmentManifest,
    Segments,
)
from wcache.core.wire.peer import has_hung_up, peer_pidfd
from wcache.daemon import proofs
from wcache.daemon.admission import Admission
from wcache.daemon.kept import connection_deposit
from wcache.daemon.recorder import Outcome as Appended
from wcache.daemon.recorder import new_event
from wcache.daemon.releases import lease_gone
from wcache.daemon.residencies import Lease
from wcache.daemon.verifies import check_seals
from wcache.ledger.store import NewEvent

if TYPE_CHECKING:
    from wcache.daemon.connection import Connection
    from wcache.daemon.server import Server

RESERVATION_S = 30.0
_RETRY_S = 0.05


class Attach:
    """One attach of one connection, from the offer to the end of its lease."""

    def __init__(self, attach: str, begin: AttachBegin) -> None:
        self.attach = attach
        self.begin = begin
        self.decided = False
        self.committed = False  # the decision is on record
        self.event: AttachDecided | None = None  # the decision as it is on record, for who looks at it later; after a restart there is none
        self.decided_ns = 0
        self.lease: Lease | None = None
        self.unsent: list[SegmentManifest] = []  # the last ones of the residency; their descriptors are looked up when they are sent

    @property
    def leased(self) -> bool:
        return self.lease is not None


def begin_attach(server: Server, connection: Connection, request: AttachBegin) -> None:
    """The same connection may begin again until it has decided (it waits for a load), and after a miss."""
    attach = connection.attach
    if attach is not None and attach.leased:
        raise RequestRefused("this connection has its lease already", where=attach.attach, remedy="attach on a new connection")
    if attach is None or attach.decided:
        attach = connection.attach = Attach(f"a-{secrets.token_hex(8)}", request)
    if connection.foreign:
        request = msgspec.structs.replace(request, policy=request.policy.for_another_user())
    attach.begin = request
    connection.hashed.clear()  # what was hashed for an earlier question says nothing of now
    knowledge, asked = server.recorder.knowledge, request.request.asked
    reserve(server, connection, attach)
    if connection.foreign:
        connection.reply(proofs.offer(server, connection, attach.attach))
        return
    connection.reply(
        AttachOffer(
            attach=attach.attach,
            residencies=server.holdings.views(),
            grants=knowledge.grants(),
            contradictions=knowledge.contradictions(),
            known=knowledge.fingerprints_at(root=asked.root, spelling=asked.spelling),
            first=knowledge.first_of_instance(server.instance, asked.spelling),
            idle_bytes=server.holdings.idle_bytes(),
        )
    )


def reserve(server: Server, connection: Connection, attach: Attach) -> None:
    until_s = time.monotonic() + RESERVATION_S
    for residency in server.holdings.resident():
        if connection.sees(residency):
            residency.reserved[attach.attach] = until_s


def look_up(server: Server, connection: Connection, request: Lookup) -> None:
    connection.reply(Known(fingerprints=server.recorder.knowledge.fingerprints_at(root=request.root, key=request.key)))


def decide_attach(server: Server, connection: Connection, request: Decide) -> None:
    attach = connection.attach
    if attach is None or attach.attach != request.attach or attach.decided:
        raise RequestRefused("no undecided attach of this id on this connection", where=request.attach)
    knowledge, policy, now_ns = server.recorder.knowledge, attach.begin.policy, time.time_ns()
    grants = knowledge.grants()
    admission = Admission(
        knowledge,
        attach=attach.attach,
        asked=request.request.asked,
        policy=policy,
        grants=grants,
        hashed=connection.hashed,
        instance=server.instance,
        now_ns=now_ns,
    )
    wanted = request.request
    if connection.foreign:
        grants = ()
        wanted = proofs.wanted_by_other(server, connection, wanted)
        admitted, unknown = proofs.weigh(server, connection, policy.network_fs)
    else:
        admitted, unknown = admission.admit(request.evidence)
    asked = _completed(wanted.asked, admitted)
    wanted = msgspec.structs.replace(wanted, asked=asked)
    decision = decide(
        proofs.views(server, connection), admitted, wanted, policy, now_ns, grants=grants, contradictions=knowledge.contradictions()
    )
    attach.decided = True
    recorded = [
        new_event(
            FingerprintRecorded.of(
                item,
                asked.spelling,
                by="server" if connection.foreign else "loader",  # of another user only what the server took itself is here
                uid=connection.peer.uid,
                instance=server.instance,
            )
        )
        for item in unknown
    ]
    attach.event, attach.decided_ns = _decided_event(connection, attach, wanted, decision), now_ns
    unit = [*recorded, new_event(attach.event, expected_version=0)]
    if decision.outcome is Outcome.HIT and decision.residency is not None:
        _lease(server, connection, attach, decision)
        unit.append(new_event(LeaseGranted(attach=attach.attach, residency=decision.residency)))
    _unreserve(server, attach)

    def then(outcome: Appended) -> None:
        _conclude(server, connection, attach, wanted, decision, unit, len(recorded), outcome)

    server.recorder.append(unit, then)


def _completed(asked: Identity, admitted: list[Fingerprint]) -> Identity:
    """The asked identity with what the evidence says about it."""
    known = [item for item in admitted if item.tier in (Tier.PINNED, Tier.CONTENT)]
    # Whatever the client says it asked for: contradictions are matched by what the evidence is about.
    located = next((item.location for item in (*known, *admitted) if item.location is not None), None)
    if located is not None:
        asked = msgspec.structs.replace(asked, root=located.root, key=located.key())
    if known:
        asked = msgspec.structs.replace(
            asked, table_digest=known[0].table_digest or asked.table_digest, digest=known[0].weights_digest or asked.digest
        )
    return asked


def _decided_event(connection: Connection, attach: Attach, request: Request, decision: Decision) -> AttachDecided:
    begin = attach.begin
    return decided_event(
        decision, request, begin.policy, attach=attach.attach, launch=begin.launch, host=begin.host, engine=begin.engine,
        peer=connection.peer, ranks=begin.ranks, by="server",
    )  # fmt: skip


def _lease(server: Server, connection: Connection, attach: Attach, decision: Decision) -> None:
    """From here on nobody may release it, though the decision is not on record yet."""
    residency = server.holdings.get(decision.residency or "")
    if residency is None or residency.state is not ResidencyState.RESIDENT:
        raise RequestRefused("the residency is gone", where=decision.residency or "")
    begin = attach.begin
    attach.lease = residency.leases[attach.attach] = Lease(
        attach=attach.attach,
        residency=residency.residency,
        launch=begin.launch,
        engine=begin.engine,
        rank=begin.ranks.rank,
        since_ns=time.time_ns(),
        tier=decision.tier,
        pidfd=peer_pidfd(connection.sock),
    )
    residency.touch()
    attach.unsent = list(residency.segments)


def _conclude(
    server: Server,
    connection: Connection,
    attach: Attach,
    request: Request,
    decision: Decision,
    unit: list[NewEvent],
    position: int,
    outcome: Appended,
) -> None:
    """The ledger has answered: hand over, or say why not."""
    seq: int | None = None
    if isinstance(outcome, (LedgerUnavailable, LedgerCorrupt)):  # of the ledger's own; another error is about what the client sent
        serve = decision.outcome is Outcome.HIT and attach.begin.policy.on_ledger_failure == "serve" and server.recorder.serves_unrecorded
        if not (serve and server.recorder.keep(unit)):
            decision = _unrecorded(server, connection, attach, request, decision, outcome)
    elif isinstance(outcome, WcacheError):
        _end_lease(server, attach)
        connection.fail(outcome)
        return
    else:
        seq = outcome[position]
    attach.committed = True
    if connection.closed:
        if attach.leased:
            end_lease(server, attach, "closed")
        return
    connection.reply(
        Decided(
            seq=seq,
            decision=proofs.told(connection, decision),
            segments=tuple(attach.unsent),
            idle_bytes=proofs.idle_bytes(server, connection),
        )
    )
    if attach.unsent:
        send_segments(server, connection)


def _unrecorded(
    server: Server, connection: Connection, attach: Attach, request: Request, decision: Decision, error: LedgerError
) -> Decision:
    """No durable record, no weights: what is decided instead goes into the journal."""
    _end_lease(server, attach)
    attach.event = None
    if decision.outcome is Outcome.HIT:
        missed = Outcome.STRICT_MISS if attach.begin.policy.on_miss == "strict" else Outcome.FALLBACK
        decision = msgspec.structs.replace(
            decision, outcome=missed, reason=Reason.LEDGER_UNAVAILABLE, detail=error.diagnostics(), tier=None, mode=None
        )
    server.recorder.keep([new_event(_decided_event(connection, attach, request, decision))])
    return decision


def send_segments(server: Server, connection: Connection) -> None:
    """The next batch; the one after it follows the acknowledgement. While too many descriptors are under way in all, it waits."""
    attach = connection.attach
    if attach is None or attach.lease is None or not attach.unsent or connection.closed or connection.unacked:
        return
    residency = server.holdings.get(attach.lease.residency)
    if residency is None or len(residency.fds) != len(residency.segments):
        # The numbers of closed descriptors may be another residency's by now.
        connection.close("the residency was released by force before all of it was handed over")
        return
    first = len(residency.segments) - len(attach.unsent)
    batch = attach.unsent[:MAX_FDS]
    if server.unacked and server.unacked + len(batch) > server.unacked_max:
        server.loop.call_later(_RETRY_S, lambda: send_segments(server, connection))
        return
    del attach.unsent[: len(batch)]
    server.unacked += len(batch)
    connection.unacked = len(batch)
    message = Segments(names=tuple(manifest.name for manifest in batch), last=not attach.unsent)
    connection.send(message, residency.fds[first : first + len(batch)])


def acknowledge(server: Server, connection: Connection, _request: Ack) -> None:
    """Has no reply."""
    if not connection.unacked:
        raise ProtocolError("nothing is to be acknowledged")
    server.unacked -= connection.unacked
    connection.unacked = 0
    attach = connection.attach
    if attach is not None and attach.leased and not attach.unsent:
        keep_connection(server, connection)  # before the client can say anything more: from here on it outlives this server
    connection.proceed()
    send_segments(server, connection)


def keep_connection(server: Server, connection: Connection) -> None:
    """The hand-over is complete: the vault gets a copy of the connection, so that the lease outlives this server."""
    deposit = connection_deposit(connection)
    connection.kept = deposit.key
    server.vault.keep(deposit)


def leave(server: Server, connection: Connection) -> None:
    """The connection is gone, and with it whatever its attach held."""
    server.unacked -= connection.unacked
    connection.unacked = 0
    if connection.kept is not None:
        server.vault.drop(connection.kept)
    attach = connection.attach
    if attach is None:
        return
    _unreserve(server, attach)
    if attach.leased and attach.committed:
        end_lease(server, attach, "closed")


def end_lease(server: Server, attach: Attach, how: str) -> None:
    """With the cheap check of what was mapped: whether its memory is still sealed."""
    lease = attach.lease
    residency = server.holdings.get(lease.residency) if lease is not None else None
    sealed = residency is not None and check_seals(server, residency)
    if lease is not None and lease.orphaned:
        how += " by a child"
    _end_lease(server, attach)
    server.recorder.observe(LeaseEnded(attach=attach.attach, how=how, checked="seals" if sealed else ""))


def note_orphans(server: Server) -> None:
    """Leases whose process ended and whose connection lives on, in a child of it. A process that ends closes its own copies of the
    connection before its end can be seen, so there is no moment in which both are true of one that had no child."""
    for connection in server.connections:
        lease = connection.attach.lease if connection.attach is not None else None
        if lease is not None and not lease.orphaned and lease.process_ended() and not has_hung_up(connection.sock):
            lease.orphaned = True


def _end_lease(server: Server, attach: Attach) -> None:
    lease, attach.lease = attach.lease, None
    attach.unsent = []
    if lease is None:
        return
    lease.close()
    residency = server.holdings.get(lease.residency)
    if residency is not None:
        residency.leases.pop(attach.attach, None)
        residency.touch()
        server.loop.post(lambda: lease_gone(server, residency))  # after this end is on its way into the ledger


def _unreserve(server: Server, attach: Attach) -> None:
    for residency in server.holdings:
        residency.reserved.pop(attach.attach, None)
