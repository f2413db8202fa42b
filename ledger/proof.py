"""What content says of a hit afterwards: proved, refuted or unprovable, and the event that says so (DESIGN: weaker hits are proved later).

Values in, values out: who reads the bytes, through what, and when, is `ledger.prove`'s and the daemon's.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import msgspec

from wcache.core.checkpoint.identity import pinnable
from wcache.core.model.errors import LedgerCorrupt
from wcache.core.model.events import AttachDecided, Event, LoadCompleted, VerifyFailed, VerifyInconclusive, VerifyPassed
from wcache.core.model.evidence import Fingerprint, Grant, Location
from wcache.core.model.vocabulary import Kind, Lineage, Proof, Tier
from wcache.ledger.immutable import store_granted
from wcache.ledger.knowledge import Knowledge

# A change right after the evidence may leave ctime as it was: the kernel stamps with its tick (10 ms at most), file systems of whole
# seconds with those.
_TICK_NS = 100_000_000
_WHOLE_SECONDS_NS = 2_000_000_000


class Unprovable(Exception):
    """One of the three outcomes, with its reason; never leaves the functions that look at hits."""


class Place(NamedTuple):
    """Where the asked checkpoint lay, as recorded; `evidence` is the fingerprint that says so."""

    location: Location
    evidence: Fingerprint


class Hit(msgspec.Struct, frozen=True, kw_only=True):
    """A hit with everything that was recorded of it. `seq` is that of its decision, `load` what made the served weights resident."""

    seq: int
    attach: str
    decided: AttachDecided
    decided_ns: int
    evidence: tuple[Fingerprint, ...]
    load: LoadCompleted | None

    @property
    def served_digest(self) -> str | None:
        served = self.decided.served
        if served is not None and served.digest is not None:
            return served.digest
        return self.load.weights_digest if self.load is not None else None

    def place(self, knowledge: Knowledge) -> Place | None:
        """Where the evidence that decided found the files. Trusted evidence found nothing itself: what it reuses did."""
        decided = self.decided
        for item in sorted(self.evidence, key=lambda item: (item.tier is not decided.tier, -(item.tier.rank or 0))):
            if item.location is not None:
                return Place(item.location, item)
            earlier = knowledge.fingerprint(item.reuses) if item.reuses else None
            if earlier is not None and earlier.location is not None:
                return Place(earlier.location, item)
            if item.tier is Tier.TRUSTED and item.reuses is None and self.load is not None:
                for name in self.load.fingerprints:
                    own = knowledge.fingerprint(name)
                    if own is not None and own.location is not None:
                        return Place(own.location, item)
        return None

    def require_fixed(self, then: Location, grants: Iterable[Grant], network_fs: str) -> None:
        """Raises Unprovable unless the recorded identities of the files fix what they held at the attach: whatever else has these
        identities, earlier or later, is the same bytes."""
        keys = {item.location.key() for item in self.evidence if item.location is not None}
        if len(keys) > 1:
            raise Unprovable("the files changed while evidence was taken at the attach")
        require_pins(then, then.fs_kind, grants, network_fs, self.decided)
        self._require_settled(then)

    def _require_settled(self, then: Location) -> None:
        """A change within one tick of the clock after the evidence would not show in ctime: the files must have been older than that."""
        began_ns = self.decided_ns - int(sum(item.coverage.seconds for item in self.evidence) * 1e9)
        identities = [*then.files, *((then.index,) if then.index else ())]
        newest_ns = max(max(item.mtime_ns, item.ctime_ns) for item in identities)
        whole = all(item.ctime_ns % 1_000_000_000 == 0 for item in identities)
        if began_ns - newest_ns < (_WHOLE_SECONDS_NS if whole else _TICK_NS):
            raise Unprovable("the files were written in the very moment of the attach, so a change right after it would not show")


class Verdict(NamedTuple):
    """What was found of one hit, and the event to be appended. `why` is a sentence."""

    proof: Proof
    why: str
    asked_digest: str | None
    event: Event

    @property
    def decides(self) -> bool:
        return self.proof is not Proof.UNPROVABLE


def require_pins(then: Location, fs_kind: str, grants: Iterable[Grant], network_fs: str, decided: AttachDecided) -> None:
    """Raises Unprovable where an unchanged identity does not mean unchanged bytes."""
    granted = store_granted(grants, then.root, time.time_ns())
    coherent = "coherent" in (network_fs, decided.policy_body.network_fs)
    holds, why = pinnable(fs_kind, "coherent" if coherent else "refuse", granted)
    if not holds:
        raise Unprovable(f"an unchanged file identity does not mean unchanged bytes here: {why or fs_kind}")


def hit_of(knowledge: Knowledge, attach: str) -> Hit:
    """The hit of an attach as the ledger has it. Raises LedgerCorrupt where its decision cannot be read."""
    found = knowledge.decided_at(attach)
    if found is None:
        raise LedgerCorrupt("the attach's decision is not there, or was redacted", where=f"attach/{attach}")
    seq, decided_ns, decided = found
    return hit_from(knowledge, seq, decided_ns, decided)


def hit_from(knowledge: Knowledge, seq: int, decided_ns: int, decided: AttachDecided) -> Hit:
    evidence = (knowledge.fingerprint(item.fingerprint) for item in decided.evidence)
    return Hit(
        seq=seq,
        attach=decided.attach,
        decided=decided,
        decided_ns=decided_ns,
        evidence=tuple(item for item in evidence if item is not None),
        load=knowledge.completed(decided.residency) if decided.residency else None,
    )


def judge(hit: Hit, content: Fingerprint, how: str, seconds: float = 0.0) -> Verdict:
    """The verdict on a hit whose asked content is known. `how` says in a sentence how that is known. Never raises: what cannot be said
    is a verdict too."""
    served_digest, asked_digest = hit.served_digest, content.weights_digest or content.digest
    try:
        if served_digest is None:
            raise Unprovable("the ledger does not know the digest of what was served")
        if asked_digest == served_digest and hit.decided.kind is Kind.PROCESSED:
            how += f", and {_lineage(hit.load)}"
    except Unprovable as unprovable:
        return inconclusive(hit, str(unprovable))
    common: dict[str, Any] = {
        "subject": "hit", "attach": hit.attach, "residency": hit.decided.residency, "expected": served_digest, "found": asked_digest,
        "seconds": seconds,
    }  # fmt: skip
    if asked_digest == served_digest:
        return Verdict(Proof.PROVED, how, asked_digest, VerifyPassed(**common))
    asked, location = hit.decided.asked, content.location
    root = asked.root or (location.root if location else None)
    # A relative spelling means something else elsewhere: it must not deny other checkpoints.
    spelling = asked.spelling if asked.repo or not root or asked.spelling.startswith(("/", "~")) else None
    names = tuple(dict.fromkeys(name for name in (spelling, root) if name))
    event = VerifyFailed(**common, asked_key=asked.key or (location.key() if location else None), spellings=names)
    return Verdict(Proof.REFUTED, f"{how}; {asked_digest[:16]} was asked for, {served_digest[:16]} was served", asked_digest, event)


def inconclusive(hit: Hit, why: str) -> Verdict:
    event = VerifyInconclusive(subject="hit", attach=hit.attach, residency=hit.decided.residency, why=why)
    return Verdict(Proof.UNPROVABLE, why, None, event)


def _lineage(load: LoadCompleted | None) -> str:
    """How it is known that processed weights were made from the bytes with that digest. Raises Unprovable."""
    if load is None or load.lineage is not Lineage.PROVEN:
        why = load.unproven_why if load is not None else "nothing is recorded of them"
        raise Unprovable(f"the checkpoint is the right one, but the lineage of the processed weights is unproven: {why}")
    return f"the processed weights were made from {'those files' if load.source == 'disk' else load.source}"


def others_of(
    knowledge: Knowledge, content: Fingerprint, hits: Sequence[Hit], grants: Sequence[Grant], network_fs: str = "refuse"
) -> list[Hit]:
    """Further weak hits, not looked at or not provable so far, that asked for the very files whose content is known now (`content`) and
    got the weights of one of `hits`: what decides these decides them. `hits` themselves are not among them."""
    if content.location is None:
        return []
    known = {hit.attach for hit in hits}
    key = content.location.key()
    digests = {hit.served_digest for hit in hits if hit.served_digest is not None}
    found = []
    for attach in knowledge.open_hits(key, digests):
        if attach in known:
            continue
        hit = hit_of(knowledge, attach)
        place = hit.place(knowledge)
        if place is None or place.location.key() != key:
            continue
        try:
            hit.require_fixed(place.location, grants, network_fs)
        except Unprovable:
            continue
        found.append(hit)
    return found
