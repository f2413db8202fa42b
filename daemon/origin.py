"""What published weights were made from, by this daemon's own records: whoever publishes names an attach, and is believed no more.

Their lineage is proven where the bytes came from a sealed residency whose digest is known, or from files that were the same, by identity,
before and after they were read. Everything else is unproven, with its reason; where nobody knows any digest, nothing is published.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import msgspec

from wcache.core.model.errors import RequestRefused
from wcache.core.model.events import AttachDecided, Identity
from wcache.core.model.evidence import FileIdentity, Fingerprint, Location, known_of
from wcache.core.model.policy import Policy
from wcache.core.model.vocabulary import Kind, Lineage, Outcome, Proof, ResidencyState, Tier
from wcache.core.wire.messages import PublishBegin, identity_of
from wcache.daemon.admission import Admission

if TYPE_CHECKING:
    from wcache.daemon.connection import Connection
    from wcache.daemon.server import Server

DISK = "disk"
_SETTLED_NS = 2_000_000_000  # a change so soon after another may leave ctime as it is (DESIGN: pinned)
_LOAD_FIRST = "hash the checkpoint first (`wcache load`), and publish what is made from that"


class Origin(NamedTuple):
    """The checkpoint that weights were made from, as it was asked for and as it is known. `source` is the residency that the bytes came
    from, or `disk`; `why` is what a proven lineage lacks. `unrecorded` is evidence that the ledger has yet to learn."""

    asked: Identity
    served: Identity
    weights_digest: str
    known: dict[str, str]
    fingerprints: tuple[str, ...]
    source: str
    why: str
    unrecorded: tuple[Fingerprint, ...] = ()

    @property
    def lineage(self) -> Lineage:
        return Lineage.UNPROVEN if self.why else Lineage.PROVEN


def find_origin(server: Server, connection: Connection, request: PublishBegin, now_ns: int) -> Origin:
    """Raises RequestRefused where the attach is another checkpoint's, or nobody knows the digest of what the weights were made from."""
    decided = server.recorder.knowledge.decided(request.source) if request.source else None
    if request.source and decided is None:
        raise RequestRefused("the ledger knows no such attach", where=request.source, remedy=_LOAD_FIRST)
    if decided is not None and not _same_checkpoint(request.asked, decided.asked):
        raise RequestRefused(
            f"the attach was about {decided.asked.spelling}, not {request.asked.spelling}",
            where=request.source or "",
            detail="other_source",
        )
    row = server.recorder.knowledge.attach(decided.attach) if decided is not None else None
    if decided is not None and row is not None and row["decision"] == Outcome.HIT.value:
        return _from_residency(server, decided, row)
    return _from_files(server, connection, request, decided, now_ns)


def _same_checkpoint(asked: Identity, decided: Identity) -> bool:
    """A trusted attach may have looked at nothing but the spelling."""
    if asked.root is not None and decided.root is not None:
        return asked.root == decided.root
    return asked.spelling == decided.spelling


def _from_residency(server: Server, decided: AttachDecided, row: dict[str, object]) -> Origin:
    load = server.recorder.knowledge.completed(decided.residency or "")
    if load is None or load.kind is not Kind.RAW:
        raise RequestRefused(
            "what is processed can only be made from raw weights, and this attach had others", where=decided.attach, remedy=_LOAD_FIRST
        )
    held = server.holdings.get(load.residency)
    why = ""
    if decided.decided_by != "server":
        why = "no daemon decided the attach that the weights were read by"
    elif decided.tier not in (Tier.PINNED, Tier.CONTENT):
        why = f"the weights were read by a hit at {decided.tier} only"
    elif row["proof"] == Proof.REFUTED.value:
        why = f"the hit that the weights were read by was refuted (seq {row['proof_seq']})"
    elif row["mapped_bytes"] is None:
        why = "the attach never said that it had the weights"
    elif held is not None and (held.flaw or held.state is ResidencyState.SUSPECT):
        why = f"{load.residency}, which they were made from, failed its own digests"
    recorded = [server.recorder.knowledge.fingerprint(name) for name in load.fingerprints]
    served = load.served  # a weaker hit does not make what was asked for the same
    if decided.tier in (Tier.PINNED, Tier.CONTENT):
        served = msgspec.structs.replace(decided.asked, table_digest=load.table_digest, digest=load.weights_digest)
    return Origin(
        asked=decided.asked,
        served=served,
        weights_digest=load.weights_digest,
        known=known_of([item for item in recorded if item is not None]),
        fingerprints=load.fingerprints,
        source=load.residency,
        why=why,
    )


def _from_files(server: Server, connection: Connection, request: PublishBegin, decided: AttachDecided | None, now_ns: int) -> Origin:
    policy = Policy(network_fs=server.settings.policy.network_fs)
    knowledge = server.recorder.knowledge
    admission = Admission(
        knowledge,
        attach="",
        asked=request.asked,
        policy=policy,
        grants=knowledge.grants(),
        hashed=connection.hashed,
        instance=server.instance,
        now_ns=now_ns,
    )
    admitted, unrecorded = admission.admit(request.evidence)
    after = next((item for item in admitted if item.tier in (Tier.PINNED, Tier.CONTENT) and item.weights_digest is not None), None)
    if after is None or after.location is None or after.weights_digest is None:
        raise RequestRefused(
            "nobody knows which weights these were made from", where=request.asked.spelling, remedy=_LOAD_FIRST, detail="no_content"
        )
    served = identity_of(after.location, request.asked.spelling, table_digest=after.table_digest, digest=after.weights_digest)
    return Origin(
        asked=served,
        served=served,
        weights_digest=after.weights_digest,
        known=known_of(admitted),
        fingerprints=tuple(item.id() for item in admitted),
        source=DISK,
        why=_why_not_pinned(server, decided, after, admission),
        unrecorded=tuple(unrecorded),
    )


def _why_not_pinned(server: Server, decided: AttachDecided | None, after: Fingerprint, admission: Admission) -> str:
    """Why the files may have been others while they were read than they are now; nothing: they were the same."""
    now = after.location
    if decided is None or now is None:
        return "nobody recorded which files they were before they were read"
    if decided.decided_by != "server":
        return "no daemon decided the attach that came before the files were read"
    if not admission.pins_hold(now) or not after.pinnable:
        return f"an unchanged file identity does not mean unchanged bytes on {now.fs_kind}, or not yet"
    recorded = [server.recorder.knowledge.fingerprint(item.fingerprint) for item in decided.evidence]
    evidence = [item for item in recorded if item is not None and item.location is not None]
    if not evidence:
        return "nobody recorded which files they were before they were read"
    if {item.location.key() for item in evidence if item.location is not None} != {now.key()}:
        return "the files are not those that lay there before they were read"
    row = server.recorder.knowledge.attach(decided.attach)
    began_ns = int(row["decided_ns"] if row else 0) - int(sum(item.coverage.seconds for item in evidence) * 1e9)
    if began_ns - _newest_ns(now) < _SETTLED_NS:
        return "the files were written right before they were read, so a change in that moment would not show"
    return ""


def _newest_ns(location: Location) -> int:
    files: list[FileIdentity] = [*location.files, *([location.index] if location.index is not None else [])]
    return max(max(one.mtime_ns, one.ctime_ns) for one in files)
