"""Every event of the ledger: frozen, typed, versioned.

The stored type names are stable strings. A payload is stored as JSON; old payloads are upcast on read (`UPCASTERS`) and never
rewritten. Authority events are checked against the state machines before they get a seq; observations are always accepted.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, TypeVar

import msgspec
from msgspec import UNSET, UnsetType

from wcache.core.model.errors import LedgerCorrupt
from wcache.core.model.evidence import Fingerprint, Grant, Lock
from wcache.core.model.policy import Policy
from wcache.core.model.vocabulary import Kind, Lineage, Mode, Outcome, Reason, Tier


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """Base of all payloads. `type` is the stored name, `schema` the payload's version, `authority` its class."""

    type: ClassVar[str]
    schema: ClassVar[int] = 1
    authority: ClassVar[bool] = False
    says: ClassVar[str] = ""


class Peer(msgspec.Struct, frozen=True):
    """Who is on the other side of a socket, as the kernel says it (SO_PEERCRED). A pid is information only (0 in a foreign namespace)."""

    uid: int
    pid: int


class Engine(msgspec.Struct, frozen=True):
    """Which program asked: its name and version, and the library that loads."""

    name: str
    version: str = ""
    pid: int = 0


class Ranks(msgspec.Struct, frozen=True):
    """Place of this attach in its launch, and the launch's parallel sizes."""

    rank: int = 0
    world: int = 1
    tp: int = 1
    pp: int = 1
    dp: int = 1
    ep: int = 1


class Identity(msgspec.Struct, frozen=True):
    """A checkpoint as one side knows it. `key` is the digest of its file identities, `digest` its weights digest where known."""

    spelling: str
    root: str | None = None
    repo: str | None = None
    commit: str | None = None
    key: str | None = None
    table_digest: str | None = None
    digest: str | None = None


class EvidenceRef(msgspec.Struct, frozen=True):
    """One piece of evidence as a decision used it: the recorded fingerprint and whether it agrees with the residency served."""

    tier: Tier
    fingerprint: str
    digest: str
    agrees: bool | None = None


# --- the daemon -----------------------------------------------------------------------------------------------------------


class DaemonStarted(Event, frozen=True, kw_only=True):
    type = "daemon.started"
    says = "a daemon instance took the instance lock"
    instance: str
    version: str
    boot_id: str
    pid: int
    uid: int
    origin: str
    runtime_dir: str


class DaemonStopped(Event, frozen=True, kw_only=True):
    """`left`: residencies that did not end with it. The service manager keeps them, and the instance goes on when the unit is started
    again; otherwise whoever takes the instance lock next says that they are lost."""

    type = "daemon.stopped"
    says = "a daemon instance stopped in order"
    instance: str
    by: str
    left: tuple[str, ...] = ()


class DaemonLost(Event, frozen=True, kw_only=True):
    type = "daemon.lost"
    says = "an instance ended without `daemon.stopped`; written by whoever next took the instance lock"
    instance: str
    noticed_by: str


# --- loads ----------------------------------------------------------------------------------------------------------------


class LoadStarted(Event, frozen=True, kw_only=True):
    type = "load.started"
    authority = True
    says = "a worker began to read a checkpoint into memory"
    residency: str
    asked: Identity
    kind: Kind
    device: str
    bytes: int
    tensors: int
    shards: int
    instance: str


class LoadCompleted(Event, frozen=True, kw_only=True):
    """`seconds` has one entry a phase: settle (waiting for fresh files to age), read (read, hash and copy), seal; on a GPU also what of
    read was waiting for the disk, for copies and for hashes. `retried`: how many operations on the files failed, as a file system does
    for a moment, and were tried again; left out of what is stored where none was.

    Of processed weights: `weights_digest` is that of the checkpoint, `processed_digest` that of what is resident, `config` the whole
    normalised configuration, `lineage` whether the one is known to be made from the other, and `source` from what (a residency, or disk);
    `by` is the engine that published them, `by_attach` how it came by the bytes, `unproven_why` what is missing of an unproven lineage.
    """

    type = "load.completed"
    authority = True
    says = "the weights are resident and sealed"
    residency: str
    served: Identity
    kind: Kind
    device: str
    bytes: int
    tensors: int
    shards: int
    weights_digest: str
    table_digest: str
    dtypes: tuple[str, ...]
    fingerprints: tuple[str, ...]
    seconds: dict[str, float]
    strays: tuple[str, ...] = ()
    misaligned: int = 0
    pinned: bool = False
    processed_digest: str | None = None
    lineage: Lineage | None = None
    source: str | None = None
    config: dict[str, str] = {}
    by: Engine | None = None
    unproven_why: str = ""
    by_attach: str | None = None
    retried: int | UnsetType = UNSET


class LoadFailed(Event, frozen=True, kw_only=True):
    type = "load.failed"
    authority = True
    says = "the load ended without resident weights; nothing half loaded stays"
    residency: str
    asked: Identity
    code: str
    message: str
    detail: str = ""


# --- evidence and trust ---------------------------------------------------------------------------------------------------


class FingerprintRecorded(Event, frozen=True, kw_only=True):
    type = "fingerprint.recorded"
    says = "evidence about a checkpoint's content was taken, with its coverage and cost"
    fingerprint: str
    evidence: Fingerprint
    spelling: str
    by: str
    uid: int
    instance: str | None = None

    @classmethod
    def of(cls, evidence: Fingerprint, spelling: str, *, by: str, uid: int, instance: str | None = None) -> FingerprintRecorded:
        """Under the evidence's own id, so that equal evidence is stored once."""
        return cls(fingerprint=evidence.id(), evidence=evidence, spelling=spelling, by=by, uid=uid, instance=instance)


class TrustGranted(Event, frozen=True, kw_only=True):
    type = "trust.granted"
    authority = True
    says = "an operator vouches for a checkpoint, a residency, a daemon instance or a store"
    grant: Grant


class TrustRevoked(Event, frozen=True, kw_only=True):
    type = "trust.revoked"
    authority = True
    says = "an operator took a grant back"
    grant: str
    operator_uid: int
    reason: str = ""


# --- attaches -------------------------------------------------------------------------------------------------------------


class AttachDecided(Event, frozen=True, kw_only=True):
    """`lock`: the lock that was in force, by its content."""

    type = "attach.decided"
    authority = True
    says = "one engine rank asked for weights; this is the decision and what it stands on"
    attach: str
    launch: str
    host: str
    engine: Engine
    peer: Peer
    ranks: Ranks
    asked: Identity
    served: Identity | None
    residency: str | None
    kind: Kind
    device: str
    outcome: Outcome
    reason: Reason | None
    detail: str
    tier: Tier | None
    mode: Mode | None
    evidence: tuple[EvidenceRef, ...]
    policy: str
    policy_body: Policy
    decided_by: str
    asked_dtype: str | None = None
    lock: Lock | None = None


class AttachRedecided(Event, frozen=True, kw_only=True):
    type = "attach.redecided"
    authority = True
    says = "a granted map failed, so the attach was decided again; audits count this one"
    attach: str
    outcome: Outcome
    reason: Reason
    detail: str


class LeaseGranted(Event, frozen=True, kw_only=True):
    type = "lease.granted"
    authority = True
    says = "the residency's descriptors were promised to this attach"
    attach: str
    residency: str


class MapCompleted(Event, frozen=True, kw_only=True):
    type = "map.completed"
    says = "the engine has the weights; the mode is the one achieved, proved by address range"
    attach: str
    mode: Mode
    tensors: int
    bytes: int
    copied_tensors: int
    copied_bytes: int
    ms: float


class MapPaused(Event, frozen=True, kw_only=True):
    """The lease goes on: what is resumed is the same memory at the same addresses."""

    type = "map.paused"
    says = "the engine gave its mapping back and kept its lease"
    attach: str
    bytes: int


class MapResumed(Event, frozen=True, kw_only=True):
    type = "map.resumed"
    says = "the engine mapped the weights again, at the addresses they had"
    attach: str
    bytes: int
    ms: float


class MapFailed(Event, frozen=True, kw_only=True):
    type = "map.failed"
    says = "granted weights could not be mapped or copied"
    attach: str
    code: str
    message: str


class LeaseEnded(Event, frozen=True, kw_only=True):
    """`how` is closed, or closed by a child (the process that attached had ended before: the lease was orphaned), or what ended the
    daemon. `checked`: what the resident memory was checked by at this end (seals), or nothing."""

    type = "lease.ended"
    says = "the attach's connection is gone, or the engine gave its lease back"
    attach: str
    how: str
    checked: str = ""


class FallbackCompleted(Event, frozen=True, kw_only=True):
    type = "fallback.completed"
    says = "the engine read the weights from disk instead"
    attach: str
    bytes: int
    seconds: float
    idle_bytes: int


class FallbackFailed(Event, frozen=True, kw_only=True):
    type = "fallback.failed"
    says = "the engine could not read the weights from disk either"
    attach: str
    code: str
    message: str
    idle_bytes: int


# --- releases -------------------------------------------------------------------------------------------------------------


class ReleaseRequested(Event, frozen=True, kw_only=True):
    """`leases` are those that hold it at this time. With `when_free` the release is deferred until the last of them has ended."""

    type = "release.requested"
    authority = True
    says = "resident weights are to be given back, now or when the last lease ends"
    residency: str
    uid: int
    why: str
    force: bool
    leases: tuple[str, ...]
    when_free: bool = False


class ReleaseRefused(Event, frozen=True, kw_only=True):
    type = "release.refused"
    says = "a release was asked for and refused, because somebody has the weights mapped"
    residency: str
    uid: int
    why: str
    leases: tuple[str, ...]


class ReleaseCompleted(Event, frozen=True, kw_only=True):
    """`checked` is what the memory was checked by before it was let go: seals, or digests on request; a finding is `mutation.detected`."""

    type = "release.completed"
    authority = True
    says = "the daemon let go of the memory"
    residency: str
    bytes: int
    checked: str = ""


# --- what was found later ---------------------------------------------------------------------------------------------------


class VerifyPassed(Event, frozen=True, kw_only=True):
    """`by` says how a residency was checked: digests (every byte was hashed) or seals (memory that is sealed since it was hashed)."""

    type = "verify.passed"
    says = "a residency or a past hit was re-hashed and is what it should be"
    subject: str
    attach: str | None
    residency: str | None
    expected: str
    found: str
    seconds: float
    by: str = "digests"


class VerifyFailed(Event, frozen=True, kw_only=True):
    type = "verify.failed"
    says = "a past hit served other weights than were asked for, or a residency is not what was loaded"
    subject: str
    attach: str | None
    residency: str | None
    expected: str
    found: str
    asked_key: str | None
    spellings: tuple[str, ...]
    seconds: float


class VerifyInconclusive(Event, frozen=True, kw_only=True):
    type = "verify.inconclusive"
    says = "a past hit can no longer be proved or refuted; the reason is given"
    subject: str
    attach: str | None
    residency: str | None
    why: str


class MutationDetected(Event, frozen=True, kw_only=True):
    """`why` says what is wrong beside or instead of tensors: a segment that is not sealed, a header that changed."""

    type = "mutation.detected"
    says = "resident bytes no longer match the digests of their load"
    residency: str
    tensors: tuple[str, ...]
    why: str = ""


class ResidencyLost(Event, frozen=True, kw_only=True):
    type = "residency.lost"
    says = "the memory of a residency is gone without a release"
    residency: str
    why: str


class ResidencyReadopted(Event, frozen=True, kw_only=True):
    type = "residency.readopted"
    says = "a new server took over a residency that survived its predecessor"
    residency: str
    instance: str


class PeerRefused(Event, frozen=True, kw_only=True):
    type = "peer.refused"
    says = "a process of another user connected and was turned away"
    peer: Peer
    why: str


# --- the ledger about itself ------------------------------------------------------------------------------------------------


class LedgerGap(Event, frozen=True, kw_only=True):
    type = "ledger.gap"
    says = "for a while decisions could not be recorded durably; this many were merged from the journal, this many are known lost"
    from_ns: int
    to_ns: int
    merged: int
    lost: int
    why: str


class CheckpointSigned(Event, frozen=True, kw_only=True):
    """`size` counts events from the ledger's first, `root` is the Merkle root over them in hex, `key` the public key of who signed."""

    type = "checkpoint.signed"
    says = "a signed checkpoint of the ledger was made"
    origin: str
    size: int
    root: str
    key: str = ""


class SegmentOpened(Event, frozen=True, kw_only=True):
    """`size` events come before it: `root` and `frontier` are those of their Merkle tree (RFC 6962), `chain` is the last one's chain
    hash, `origin` what they are chained under, another than the ledger's own where it was restored here. So a file can begin with this
    event. `state`: stream -> version and state, of what was live.
    """

    type = "segment.opened"
    says = "a ledger segment begins; says what came before it, and carries the live state"
    state: dict[str, tuple[int, str]]
    size: int = 0
    root: str = ""
    frontier: tuple[str, ...] = ()
    chain: str = ""
    origin: str = ""


class SegmentClosed(Event, frozen=True, kw_only=True):
    """`root` is that of the Merkle tree (RFC 6962) of the `size` events before it."""

    type = "segment.closed"
    says = "a ledger segment ends"
    size: int
    root: str
    uid: int = 0


class DroppedSpan(msgspec.Struct, frozen=True, kw_only=True):
    """A range of seqs that is gone: recorded from when to when, dropped when and by whom, and how many events of each type and attaches
    of each decision it had. `root` is that of the Merkle tree of all events up to `last_seq`."""

    first_seq: int
    last_seq: int
    from_ns: int
    to_ns: int
    at_ns: int
    uid: int
    keep_days: int
    root: str
    events: dict[str, int]
    decisions: dict[str, int]


class CarriedEvent(msgspec.Struct, frozen=True, kw_only=True):
    """An event of a dropped segment whose stream still matters, as it was stored; the body of a redacted one is what the redaction kept."""

    seq: int
    stream: str
    version: int
    event_id: str
    type: str
    schema: int
    occurred_ns: int
    recorded_ns: int
    late: bool
    body: dict[str, Any]


class SegmentDropped(Event, frozen=True, kw_only=True):
    """`spans` are all that were ever dropped, the newest last; `versions` where streams go on that are not carried event by event."""

    type = "segment.dropped"
    says = "closed segments older than the policy were dropped; carries the events that what remains stands on"
    spans: tuple[DroppedSpan, ...]
    carried: tuple[CarriedEvent, ...]
    versions: dict[str, int]


class PayloadRedacted(Event, frozen=True, kw_only=True):
    """`body` is what is kept of the payload, whose version is `body_schema`: numbers, ids, digests and members of closed sets. Every other
    text is blanked.
    """

    type = "payload.redacted"
    says = "the payload of an earlier event was removed, keeping its hash, and what states and counts need"
    target_seq: int
    why: str
    uid: int = 0
    body: dict[str, Any] = {}
    body_schema: int = 1


def _all_events() -> dict[str, type[Event]]:
    return {cls.type: cls for cls in Event.__subclasses__()}


EVENT_TYPES: dict[str, type[Event]] = _all_events()
"""Stored type name -> payload class, in the order of this module."""

Upcaster = Callable[[dict[str, Any]], dict[str, Any]]
UPCASTERS: dict[tuple[str, int], Upcaster] = {}
"""(type, old schema) -> function that lifts an old payload by one schema version."""

E = TypeVar("E", bound=Event)


def encode_payload(event: Event) -> bytes:
    """Canonical JSON of the payload: keys in name order, no white space, UTF-8. These very bytes are stored and hashed."""
    return msgspec.json.encode(event, order="deterministic")


def decode_payload(type_name: str, schema: int, payload: bytes | str) -> Event:
    """Raises LedgerCorrupt for a type, version or body that this release does not know."""
    cls = EVENT_TYPES.get(type_name)
    if cls is None or schema > cls.schema:
        raise LedgerCorrupt(
            f"unknown event {type_name} (schema {schema})", remedy="read this ledger with the release that wrote it, or a newer one"
        )
    try:
        if schema == cls.schema:
            return msgspec.json.decode(payload, type=cls)
        body = msgspec.json.decode(payload)
        for version in range(schema, cls.schema):
            body = UPCASTERS[type_name, version](body)
        return msgspec.convert(body, cls)
    except (msgspec.MsgspecError, KeyError, UnicodeDecodeError, RecursionError) as error:
        raise LedgerCorrupt(f"payload of {type_name} cannot be read: {error}") from error


def stream_of(event: Event) -> str:
    """The stream an event belongs to: `attach/…`, `residency/…`, `fingerprint/…`, `trust/…`, `daemon/…` or `ledger`."""
    if isinstance(event, TrustGranted):
        return f"trust/{event.grant.grant}"
    if isinstance(event, TrustRevoked):
        return f"trust/{event.grant}"
    if isinstance(event, (DaemonStarted, DaemonStopped, DaemonLost)):
        return f"daemon/{event.instance}"
    if isinstance(event, (VerifyPassed, VerifyFailed, VerifyInconclusive)):
        return f"attach/{event.attach}" if event.attach else f"residency/{event.residency}"
    for field in ("attach", "residency", "fingerprint"):
        if field in event.__struct_fields__:
            return f"{field}/{getattr(event, field)}"
    return "ledger"
