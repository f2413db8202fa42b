"""Another user's attach, in shared mode (DESIGN §11): it proves that it may read the weights before it is offered any, and only evidence
that the server took itself counts.

The proof is an open descriptor, for reading, of every file of the checkpoint. A worker takes the files' identities and headers from them:
a pin then rests on what the server saw, not on what was claimed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from wcache.core.model.decide import Request, ResidencyView
from wcache.core.model.errors import RequestRefused, WcacheError
from wcache.core.model.events import Identity
from wcache.core.model.evidence import Contradiction, Fingerprint, Location
from wcache.core.model.vocabulary import Outcome, Reason, ResidencyState
from wcache.core.wire.channel import failure_of
from wcache.core.wire.frames import close_fds
from wcache.core.wire.messages import AttachOffer, Failure, HashRequest, Progress, Prove, Proved, Status
from wcache.daemon import orders
from wcache.daemon.descriptors import why_no_proof
from wcache.daemon.jobs import Job

if TYPE_CHECKING:
    from wcache.core.model.decide import Decision
    from wcache.daemon.connection import Connection
    from wcache.daemon.residencies import Residency
    from wcache.daemon.server import Server

FILES_MAX_OF_OTHERS = 4096  # descriptors of all other users together that wait for a worker
PROOFS_MAX = 2  # at a time; each is a process that reads headers
_PROOF_S = 30.0
_NAME_MAX = 4096
NOT_PROVED = "the peer did not prove that it may read the checkpoint"


class Proof(msgspec.Struct, frozen=True):
    """What a worker found behind descriptors that a peer could open: `header` has the location with the identities it took."""

    header: Fingerprint

    @property
    def location(self) -> Location:
        location = self.header.location
        assert location is not None  # noqa: S101 (header_fingerprint sets it)
        return location

    def shows(self, residency: Residency) -> bool:
        """Whether it is about these weights: the very files, or the same names, dtypes and shapes. Nothing else is worth telling."""
        if residency.served.key == self.location.key():
            return True
        return residency.table_digest is not None and residency.table_digest == self.header.table_digest


class Proving:
    """One proof, waiting or running. `fds` are owned until the worker has them."""

    def __init__(self, connection: Connection, request: Prove, fds: list[int]) -> None:
        self.connection = connection
        self.request = request
        self.fds = fds
        self.job: Job | None = None


def placed(location: Location, uid: int) -> Location:
    """A location as another user named it. Its root is never taken for a place of ours, whatever it says: what is hashed for one user
    must not come up when the ledger is asked what lies at a path."""
    return msgspec.structs.replace(location, root=f"uid {uid}: {location.root}", directory=None, repo=None, commit=None)


def require_readable(server: Server, connection: Connection, fds: tuple[int, ...]) -> None:
    """Raises RequestRefused, on record, where a descriptor shows nothing, or others already have many open here."""
    held = sum(len(one.parts) for one in server.connections if one.foreign)
    held += sum(len(one.fds) for one in server.proofs) + sum(len(one.fds) for one in server.hashes if one.foreign)
    if held > FILES_MAX_OF_OTHERS:
        what = f"other users have more than {FILES_MAX_OF_OTHERS} files open here"
        server.door.record(connection.peer, what)
        raise RequestRefused(what, remedy="try again in a few seconds", detail="too_many")
    why = next((why for fd in fds if (why := why_no_proof(fd))), "")
    if why:
        server.door.record(connection.peer, f"no proof: {why}")
        raise RequestRefused(why, remedy="open the files of the checkpoint with O_RDONLY", detail="not_proved")


def request_proof(server: Server, connection: Connection, request: Prove, fds: list[int]) -> None:
    """`fds` are all of them, and ours."""
    if not connection.foreign:
        close_fds(fds)
        raise RequestRefused("the daemon's own user has nothing to prove", detail="own_user")
    proving = Proving(connection, request, fds)
    server.proofs.append(proving)
    total_bytes = sum(one.size_bytes for one in request.location.files)
    connection.wait_for(lambda: Progress(phase="prove", done_bytes=0, total_bytes=total_bytes), lambda: _drop(server, proving))
    start_next(server)


def start_next(server: Server) -> None:
    for proving in list(server.proofs)[:PROOFS_MAX]:
        if proving.job is None:
            _start(server, proving)


def _start(server: Server, proving: Proving) -> None:
    request, fds = proving.request, tuple(proving.fds)
    location = placed(request.location, proving.connection.peer.uid)
    try:
        proving.job = Job(
            server.loop,
            orders.ProveOrder(spelling=request.spelling, location=location, fds=fds),
            fds,
            lambda report, extra: _report(server, proving, report, extra),
            lambda failure: _failed(server, proving, failure),
        )
    except OSError as error:
        _failed(server, proving, failure_of(WcacheError(f"no worker could be started: {error.strerror}")))
    else:
        server.loop.call_later(_PROOF_S, lambda: _too_slow(server, proving))
    finally:
        close_fds(fds)
        proving.fds = []


def _report(server: Server, proving: Proving, report: orders.Report, fds: tuple[int, ...]) -> None:
    close_fds(fds)
    if isinstance(report, orders.ProofResult) and proving in server.proofs:
        if proving.job is not None:
            proving.job.finish()
        _end(server, proving)
        proving.connection.proof = Proof(report.header)
        proving.connection.reply(Proved(header=report.header))


def _failed(server: Server, proving: Proving, failure: Failure | None) -> None:
    if failure is None or proving not in server.proofs:
        return
    _end(server, proving)
    if failure.detail == "not_proved":
        server.door.record(proving.connection.peer, f"no proof: {failure.what}")
    proving.connection.reply(failure)


def _too_slow(server: Server, proving: Proving) -> None:
    if proving in server.proofs:
        if proving.job is not None:
            proving.job.kill()
        _failed(server, proving, failure_of(RequestRefused(f"its files could not be looked at within {_PROOF_S:g} s", detail="not_proved")))


def _end(server: Server, proving: Proving) -> None:
    server.proofs.remove(proving)
    server.loop.post(lambda: start_next(server))


def _drop(server: Server, proving: Proving) -> None:
    """Its connection is gone."""
    if proving in server.proofs:
        abandon_proof(server, proving)


def abandon_proof(server: Server, proving: Proving) -> None:
    if proving.job is not None:
        proving.job.kill()
    close_fds(proving.fds)
    proving.fds = []
    _end(server, proving)


# --- what follows from a proof ---


def require_hashable(server: Server, connection: Connection, request: HashRequest) -> HashRequest:
    """Another user's hash is for a checkpoint that it proved, and only where a hit could come of it. The request as it is carried out."""
    proof = connection.proof
    if proof is None or proof.location.key() != request.location.key():
        raise RequestRefused(NOT_PROVED, detail="not_proved")
    if not any(one.state is ResidencyState.RESIDENT for one in server.holdings.resident() if proof.shows(one)):
        raise RequestRefused("no resident weights are like these: there is nothing to compare a hash with", detail="not_resident")
    location = placed(request.location, connection.peer.uid)
    return msgspec.structs.replace(request, location=location, spelling=f"uid {connection.peer.uid}: {request.spelling}")


def offer(server: Server, connection: Connection, attach: str) -> AttachOffer:
    """What another user is told: residencies like the one that it proved, without the names of others, without anything to compare with."""
    proof, knowledge = connection.proof, server.recorder.knowledge
    seen = _seen(server, connection)
    known: tuple[Fingerprint, ...] = ()
    contradictions: tuple[Contradiction, ...] = ()
    if proof is not None:
        key = proof.location.key()
        known = tuple(item for item in knowledge.fingerprints_at(key=key) if knowledge.taken_by_server(item.id()))
        contradictions = tuple(item for item in knowledge.contradictions() if item.asked_key == key)
    return AttachOffer(
        attach=attach,
        residencies=tuple(_redacted(one.view(), proof) for one in seen),
        grants=(),
        contradictions=contradictions,
        known=known,
        idle_bytes=idle_bytes(server, connection),
    )


def views(server: Server, connection: Connection) -> tuple[ResidencyView, ...]:
    """The residencies that may be decided on for this connection."""
    return tuple(one.view() for one in _seen(server, connection)) if connection.foreign else server.holdings.views()


def _seen(server: Server, connection: Connection) -> list[Residency]:
    return [one for one in server.holdings if connection.sees(one)]


def _redacted(view: ResidencyView, proof: Proof | None) -> ResidencyView:
    served = view.served
    if proof is not None and served.key == proof.location.key():
        return msgspec.structs.replace(view, known={})
    hidden = Identity("", key=served.key, table_digest=served.table_digest, digest=served.digest)
    return msgspec.structs.replace(view, served=hidden, spellings=(), known={})


def weigh(server: Server, connection: Connection, network_fs: str) -> tuple[list[Fingerprint], list[Fingerprint]]:
    """All evidence that there is for another user's attach, and the part that the ledger has yet to learn. Its claims are not looked at."""
    from wcache.core.checkpoint.fingerprint import pinned_fingerprint  # a daemon that is not shared needs no hashing in its server

    proof, knowledge = connection.proof, server.recorder.knowledge
    if proof is None:
        return [], []
    found = [proof.header]
    for base in knowledge.fingerprints_at(key=proof.location.key()):
        if knowledge.taken_by_server(base.id()):
            pinned = pinned_fingerprint(base, proof.location, network_fs=network_fs)
            if pinned is not None:
                found.append(pinned)
                break
    # What was hashed for this connection was hashed through its own descriptors. The ledger has it, or there is no hit.
    found += [item for name in sorted(connection.hashed) if (item := knowledge.fingerprint(name)) is not None]
    return found, [item for item in found if knowledge.fingerprint(item.id()) is None]


def wanted_by_other(server: Server, connection: Connection, request: Request) -> Request:
    """The request of another user as far as it counts. Without a proof it is refused, and that is on record."""
    proof = connection.proof
    spelling, root = request.asked.spelling[:_NAME_MAX], (request.asked.root or "")[:_NAME_MAX] or None
    request = msgspec.structs.replace(request, obstacle_detail=request.obstacle_detail[:_NAME_MAX])
    if proof is None:
        asked = Identity(spelling, root)
        if request.obstacle is None:
            server.door.record(connection.peer, NOT_PROVED)
            return msgspec.structs.replace(request, asked=asked, obstacle=Reason.PEER_NOT_ALLOWED, obstacle_detail=NOT_PROVED)
        return msgspec.structs.replace(request, asked=asked)
    asked = Identity(spelling, root, key=proof.location.key(), table_digest=proof.header.table_digest)
    return msgspec.structs.replace(request, asked=asked)


def idle_bytes(server: Server, connection: Connection) -> int:
    """What is resident and mapped by nobody, of what this peer may know of."""
    return sum(one.bytes for one in server.holdings.resident() if not one.leases and connection.sees(one))


def told(connection: Connection, decision: Decision) -> Decision:
    """The decision as it is sent: of weights that another user does not get it learns no name."""
    if not connection.foreign or decision.outcome is Outcome.HIT:
        return decision
    return msgspec.structs.replace(decision, served=None)


def narrowed(server: Server, connection: Connection, status: Status) -> Status:
    """The status as another user sees it."""
    if not connection.foreign:
        return status
    seen = {one.residency: one for one in _seen(server, connection)}
    own = connection.attach.attach if connection.attach is not None else ""
    rows = [
        msgspec.structs.replace(row, view=_redacted(row.view, connection.proof)) for row in status.residencies if row.view.residency in seen
    ]
    leases = tuple(lease for lease in status.leases if lease.attach == own)
    return msgspec.structs.replace(status, residencies=tuple(rows), leases=leases)
