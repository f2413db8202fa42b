"""Proving hits afterwards: is what was served what was asked for? (DESIGN: weaker hits are proved later)

Only bytes that are known to be those of the moment of the attach may prove or refute: the files stand as they stood then (the same
device, inode, size, mtime and ctime as recorded), or an immutable name (a sha256 that a hub vouched for) says what they were. Everything
else is `unprovable`, with the reason.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from wcache.core.checkpoint.checkpoint import OpenCheckpoint, current_location, hold_checkpoint, open_checkpoint
from wcache.core.checkpoint.content import CHUNK_BYTES
from wcache.core.checkpoint.fingerprint import attested_fingerprint, pinned_fingerprint
from wcache.core.checkpoint.identity import pinnable
from wcache.core.checkpoint.reader import Reader
from wcache.core.checkpoint.spelling import resolve_root
from wcache.core.model.errors import (
    CheckpointChanged,
    CheckpointInvalid,
    CheckpointUnreadable,
    EvidenceUnavailable,
    LedgerCorrupt,
    UsageError,
)
from wcache.core.model.events import AttachDecided, Event, LoadCompleted, VerifyFailed, VerifyInconclusive, VerifyPassed
from wcache.core.model.evidence import Fingerprint, Location
from wcache.core.model.policy import Policy
from wcache.core.model.vocabulary import Kind, Lineage, Outcome, Proof, Tier
from wcache.ledger.audit import Audit
from wcache.ledger.evidence import append_events, hash_held, recorded, store_granted
from wcache.ledger.knowledge import Knowledge

if TYPE_CHECKING:
    from wcache.ledger.store import Ledger

Progress = Callable[[int, int], None]

# A change right after the evidence may leave ctime as it was: the kernel stamps with its tick (10 ms at most), file systems of whole
# seconds with those.
_TICK_NS = 100_000_000
_WHOLE_SECONDS_NS = 2_000_000_000


class Proving(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one hit. `why` is a sentence; `read_bytes` is what finding out cost; `proof_seq` the event that says so."""

    seq: int
    attach: str
    checkpoint: str
    residency: str | None
    tier: str | None
    proof: Proof
    why: str
    asked_digest: str | None = None
    served_digest: str | None = None
    read_bytes: int = 0
    proof_seq: int | None = None


class _Place(NamedTuple):
    """Where the asked checkpoint lay, as recorded; `evidence` is the fingerprint that says so."""

    location: Location
    evidence: Fingerprint


class _Unprovable(Exception):
    """One of the three outcomes, with its reason; never leaves this module."""


def prove(
    ledger: Ledger, seqs: Sequence[int] = (), *, every: bool = False, policy: Policy | None = None, progress: Progress | None = None
) -> Iterator[Proving]:
    """Looks at hits and records what was found, one at a time: those at `seqs`, else every unproven one below `pinned`, or with
    `every` at any tier. Each distinct content is read once.

    Raises NotFound or UsageError for a seq that is no hit's decision, before anything is read.
    """
    with Audit(ledger.path) as audit, closing(Knowledge(ledger)) as knowledge:
        rows = [audit.attach_at(seq) for seq in seqs]
        for seq, row in zip(seqs, rows, strict=True):
            if row["decision"] != Outcome.HIT.value:
                raise UsageError(
                    f"the decision was {row['decision']}: nothing was served, so there is nothing to prove", where=f"seq {seq}"
                )
        if not seqs:
            rows = audit.hits(unproven=not every)
            if every:
                rows = [row for row in rows if row["proof"] == Proof.UNPROVEN.value]
        audit.refresh()
        prover = _Prover(ledger, audit, knowledge, policy or Policy(), progress)
        for row in {row["attach"]: row for row in rows}.values():
            yield prover.prove(row)


class _Prover:
    def __init__(self, ledger: Ledger, audit: Audit, knowledge: Knowledge, policy: Policy, progress: Progress | None) -> None:
        self._ledger = ledger
        self._audit = audit
        self._knowledge = knowledge
        self._policy = policy
        self._progress = progress
        self._hashed: dict[tuple[str, str], Fingerprint | _Unprovable] = {}

    def prove(self, row: dict[str, Any]) -> Proving:
        began_s = time.monotonic()
        decided = self._decision(row)
        served_digest = self._served_digest(decided)
        base = {
            "seq": row["seq"], "attach": row["attach"], "checkpoint": row["checkpoint"], "residency": row["residency"], "tier": row["tier"],
            "served_digest": served_digest,
        }  # fmt: skip
        reader = Reader()
        content: Fingerprint | None = None
        try:
            if served_digest is None:
                raise _Unprovable("the ledger does not know the digest of what was served")
            content, why = self._asked_content(decided, row["decided_ns"], reader)
            if decided.kind is Kind.PROCESSED and (content.weights_digest or content.digest) == served_digest:
                why += f", and {self._require_lineage(decided)}"
        except _Unprovable as unprovable:
            event: Event = VerifyInconclusive(subject="hit", attach=row["attach"], residency=row["residency"], why=str(unprovable))
            return Proving(**base, proof=Proof.UNPROVABLE, why=str(unprovable), proof_seq=append_events(self._ledger, event)[0])
        asked_digest = content.weights_digest or content.digest
        passed = asked_digest == served_digest
        common: dict[str, Any] = {
            "subject": "hit", "attach": row["attach"], "residency": row["residency"], "expected": served_digest, "found": asked_digest,
            "seconds": time.monotonic() - began_s,
        }  # fmt: skip
        if passed:
            event = VerifyPassed(**common)
        else:
            root = decided.asked.root or (content.location.root if content.location else None)
            # A relative spelling means something else elsewhere: it must not deny other checkpoints.
            spelling = decided.asked.spelling if decided.asked.repo or not root or decided.asked.spelling.startswith(("/", "~")) else None
            names = tuple(dict.fromkeys(name for name in (spelling, root) if name))
            key = decided.asked.key or (content.location.key() if content.location else None)
            event = VerifyFailed(**common, asked_key=key, spellings=names)
            why += f"; {asked_digest[:16]} was asked for, {str(served_digest)[:16]} was served"
        events: list[Event] = [event]
        if content.tier is Tier.CONTENT and self._knowledge.fingerprint(content.id()) is None:
            events.insert(0, recorded(content, decided.asked.spelling, "wcache audit prove"))
        return Proving(
            **base,
            proof=Proof.PROVED if passed else Proof.REFUTED,
            why=why,
            asked_digest=asked_digest,
            read_bytes=content.coverage.read_bytes if content.tier is Tier.CONTENT else 0,
            proof_seq=append_events(self._ledger, *events)[-1],
        )

    def _decision(self, row: dict[str, Any]) -> AttachDecided:
        event = self._audit.event(row["first_seq"]).event
        self._audit.refresh()
        if not isinstance(event, AttachDecided):
            raise LedgerCorrupt("the attach's first event is no decision", where=f"seq {row['first_seq']}")
        return event

    def _served_digest(self, decided: AttachDecided) -> str | None:
        if decided.served is not None and decided.served.digest is not None:
            return decided.served.digest
        return next((event.weights_digest for event in self._loads(decided)), None)

    def _loads(self, decided: AttachDecided) -> list[LoadCompleted]:
        found = self._audit.stream(f"residency/{decided.residency}")
        self._audit.refresh()
        return [item.event for item in found if isinstance(item.event, LoadCompleted)]

    def _require_lineage(self, decided: AttachDecided) -> str:
        """How it is known that processed weights were made from the bytes with that digest. Raises _Unprovable."""
        load = next(iter(self._loads(decided)), None)
        if load is None or load.lineage is not Lineage.PROVEN:
            why = load.unproven_why if load is not None else "nothing is recorded of them"
            raise _Unprovable(f"the checkpoint is the right one, but the lineage of the processed weights is unproven: {why}")
        return f"the processed weights were made from {'those files' if load.source == 'disk' else load.source}"

    # --- which bytes were asked for ---------------------------------------------------------------------------------------

    def _asked_content(self, decided: AttachDecided, decided_ns: int, reader: Reader) -> tuple[Fingerprint, str]:
        """The content that was asked for, and how that is known. Raises _Unprovable."""
        evidence = [found for item in decided.evidence if (found := self._knowledge.fingerprint(item.fingerprint)) is not None]
        place = self._place(decided, evidence)
        refused = ""
        if place is None:
            refused = "nothing was recorded about the files that were asked for"
        else:
            try:
                self._require_as_then(decided, decided_ns, place, evidence, reader)
                return self._content_of(place.location), "the files are as they were at the attach"
            except _Unprovable as unprovable:
                refused = str(unprovable)
        for item in evidence:
            names = self._immutable_names(item, reader)
            if names and item.location is not None:
                found = self._by_names(item.location, names, refused)
                return found, f"the files have the sha256 that named them at the attach ({refused})"
        raise _Unprovable(refused)

    @staticmethod
    def _immutable_names(item: Fingerprint, reader: Reader) -> dict[str, str]:
        """The sha256 that each file was named by at the attach: attested then, or the links of a snapshot directory that is unchanged."""
        names = item.attested_names
        if not names and item.location is not None and item.location.commit is not None:
            try:
                checkpoint = open_checkpoint(item.location.root, reader=reader)
                if checkpoint.location.directory == item.location.directory:
                    names = attested_fingerprint(checkpoint, reader).attested_names
            except (CheckpointInvalid, CheckpointUnreadable, CheckpointChanged, EvidenceUnavailable):
                return {}
        return names if all(len(name) == 64 for name in names.values()) else {}

    def _place(self, decided: AttachDecided, evidence: Sequence[Fingerprint]) -> _Place | None:
        """Where the evidence that decided found the files. Trusted evidence found nothing itself: what it reuses did."""
        for item in sorted(evidence, key=lambda item: (item.tier is not decided.tier, -(item.tier.rank or 0))):
            if item.location is not None:
                return _Place(item.location, item)
            earlier = self._knowledge.fingerprint(item.reuses) if item.reuses else None
            if earlier is not None and earlier.location is not None:
                return _Place(earlier.location, item)
            if item.tier is Tier.TRUSTED and item.reuses is None:
                for load in self._loads(decided):
                    for name in load.fingerprints:
                        own = self._knowledge.fingerprint(name)
                        if own is not None and own.location is not None:
                            return _Place(own.location, item)
        return None

    def _require_as_then(
        self, decided: AttachDecided, decided_ns: int, place: _Place, evidence: Sequence[Fingerprint], reader: Reader
    ) -> None:
        """Raises _Unprovable unless the files at the recorded place are provably those that stood there at the attach."""
        then = place.location
        keys = {item.location.key() for item in evidence if item.location is not None}
        if len(keys) > 1:
            raise _Unprovable("the files changed while evidence was taken at the attach")
        if place.evidence.location is None:
            self._require_leads_to(decided, then)
        now = current_location(then, reader=reader)
        if now is None:
            raise _Unprovable(f"files of it are gone, or the directory has changed since the attach ({then.root})")
        if now.key() != then.key():
            raise _Unprovable(f"{_changed(then, now)} since the attach ({then.root})")
        granted = store_granted(self._knowledge.grants(), then.root, time.time_ns())
        network_fs = "coherent" if "coherent" in (self._policy.network_fs, decided.policy_body.network_fs) else "refuse"
        holds, why = pinnable(now.fs_kind, network_fs, granted)
        if not holds:
            raise _Unprovable(f"an unchanged file identity does not mean unchanged bytes here: {why or now.fs_kind}")
        self._require_settled(then, decided_ns, evidence)

    @staticmethod
    def _require_settled(then: Location, decided_ns: int, evidence: Sequence[Fingerprint]) -> None:
        """A change within one tick of the clock after the evidence would not show in ctime: the files must have been older than that."""
        began_ns = decided_ns - int(sum(item.coverage.seconds for item in evidence) * 1e9)
        identities = [*then.files, *((then.index,) if then.index else ())]
        newest_ns = max(max(item.mtime_ns, item.ctime_ns) for item in identities)
        whole = all(item.ctime_ns % 1_000_000_000 == 0 for item in identities)
        if began_ns - newest_ns < (_WHOLE_SECONDS_NS if whole else _TICK_NS):
            raise _Unprovable("the files were written in the very moment of the attach, so a change right after it would not show")

    def _require_leads_to(self, decided: AttachDecided, then: Location) -> None:
        """A trusted attach looked at no path, so the spelling must lead by itself to where the reused content was hashed."""
        spelling = decided.asked.spelling
        if decided.asked.root is not None:
            if decided.asked.root != then.root:
                raise _Unprovable(f"{spelling} led to {decided.asked.root}, the trusted content was hashed at {then.root}")
            return
        try:
            resolved = resolve_root(spelling)
        except (CheckpointUnreadable, UsageError):
            raise _Unprovable(f"{spelling} leads nowhere now, and nobody looked where it led at the attach") from None
        if resolved.repo is None and not os.path.isabs(os.path.expanduser(spelling)):  # noqa: PTH111, PTH117
            raise _Unprovable(f"{spelling} is relative, and nobody recorded to what directory")
        if resolved.root != then.root:
            raise _Unprovable(f"{spelling} now leads to {resolved.root}, and nobody looked where it led at the attach")

    # --- reading ----------------------------------------------------------------------------------------------------------

    def _content_of(self, then: Location) -> Fingerprint:
        """The content of files that stand as recorded: known from an earlier hash of the same identities, or read now, once."""
        key = (then.root, then.key())
        if key not in self._hashed:
            try:
                self._hashed[key] = self._known(then) or self._read(then)
            except _Unprovable as unprovable:
                self._hashed[key] = unprovable
        found = self._hashed[key]
        if isinstance(found, _Unprovable):
            raise found
        return found

    def _known(self, then: Location) -> Fingerprint | None:
        granted = store_granted(self._knowledge.grants(), then.root, time.time_ns())
        for earlier in self._knowledge.fingerprints_at(key=then.key()):
            pinned = pinned_fingerprint(earlier, then, network_fs=self._policy.network_fs, store_granted=granted)
            if pinned is not None:
                return pinned
        return None

    def _read(self, then: Location) -> Fingerprint:
        try:
            reader = Reader()
            with self._held(then, reader) as held:
                content = hash_held(held, reader, self._policy, self._knowledge.grants(), progress=self._progress)
        except (CheckpointInvalid, CheckpointUnreadable, CheckpointChanged) as error:
            raise _Unprovable(f"the files cannot be read: {error}") from None
        if content.location is None or content.location.key() != then.key():
            raise _Unprovable(f"other files than at the attach were found in {then.root}")
        return content

    @staticmethod
    def _held(then: Location, reader: Reader) -> OpenCheckpoint:
        alone = then.directory is None and len(then.files) == 1
        return hold_checkpoint(os.path.join(then.root, then.files[0].name) if alone else then.root, reader=reader)  # noqa: PTH118

    def _by_names(self, where: Location, names: dict[str, str], refused: str) -> Fingerprint:
        """Content at the recorded place whose files all still have the sha256 that they were attested by. Raises _Unprovable."""
        try:
            reader = Reader()
            with self._held(where, reader) as held:
                if set(held.files) != set(names):
                    raise _Unprovable(refused)
                before = held.identities()
                for name, file in held.files.items():
                    digest = hashlib.sha256()
                    size = next(shard.size_bytes for shard in held.checkpoint.shards if shard.name == name)
                    for offset in range(0, size, CHUNK_BYTES):
                        digest.update(file.read_at(offset, min(CHUNK_BYTES, size - offset)))
                    if digest.hexdigest() != names[name]:
                        raise _Unprovable(f"{refused}; {name} no longer has the sha256 that named it at the attach")
                content = hash_held(held, reader, self._policy, self._knowledge.grants(), progress=self._progress)
                if held.identities() != before:
                    raise _Unprovable(f"{refused}; the files changed while they were read")
        except (CheckpointInvalid, CheckpointUnreadable, CheckpointChanged) as error:
            raise _Unprovable(f"{refused}; the files cannot be read: {error}") from None
        return content


def _changed(then: Location, now: Location) -> str:
    """Which file differs, and in what."""
    earlier = {item.name: item for item in (*then.files, *((then.index,) if then.index else ()))}
    for item in (*now.files, *((now.index,) if now.index else ())):
        before = earlier.get(item.name)
        if before is not None and before != item:
            fields = [
                field for field in ("dev", "ino", "size_bytes", "mtime_ns", "ctime_ns") if getattr(before, field) != getattr(item, field)
            ]
            return f"{item.name} has changed ({', '.join(fields)})"
    return "the files have changed"
