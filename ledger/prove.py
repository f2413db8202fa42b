"""Proving hits afterwards: is what is served what was asked for? (DESIGN: weaker hits are proved later)

Only bytes that are known to be those of the moment of the attach may prove or refute: the files stand as they stood then (the same
device, inode, size, mtime and ctime as recorded), or were hashed while they did, or an immutable name (a sha256 that a hub vouched for)
says what they were. Everything else is `unprovable`, with the reason.

A run first looks at all hits without reading a byte, so it knows what has to be read; then it reads each distinct content once, and what
it says of all hits is on record before the next one is read: a run that was broken off goes on there.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any

import msgspec

from wcache.core.checkpoint.checkpoint import OpenCheckpoint, current_location, hold_checkpoint, open_checkpoint
from wcache.core.checkpoint.content import CHUNK_BYTES
from wcache.core.checkpoint.fingerprint import attested_fingerprint, pinned_fingerprint
from wcache.core.checkpoint.reader import Reader
from wcache.core.checkpoint.retries import Retries
from wcache.core.checkpoint.spelling import resolve_root
from wcache.core.model.errors import CheckpointChanged, CheckpointInvalid, CheckpointUnreadable, EvidenceUnavailable, UsageError
from wcache.core.model.evidence import Fingerprint, Location
from wcache.core.model.policy import Policy
from wcache.core.model.vocabulary import Outcome, Proof, Tier
from wcache.ledger.audit import Audit
from wcache.ledger.evidence import append_events, hash_held, recorded
from wcache.ledger.knowledge import Knowledge
from wcache.ledger.proof import Hit, Place, Unprovable, Verdict, hit_of, inconclusive, judge, others_of, require_pins

if TYPE_CHECKING:
    from wcache.ledger.store import Ledger

Progress = Callable[[int, int], None]
"""(bytes done, bytes in all) of everything that this run has to read."""

_BATCH = 256  # hits whose verdicts are appended in one transaction


class Proving(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one hit. `why` is a sentence; `read_bytes` is what finding out cost: of many hits on one content, the first has it.
    `proof_seq` is the event that says so."""

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


class _Source(msgspec.Struct, frozen=True, kw_only=True):
    """Where what was asked for can be known from: files that stand as recorded (`then`), whose content is `known` already or has to be
    read; or files that `names` say the content of, because `refused` says why the first does not do."""

    then: Location
    known: Fingerprint | None = None
    names: dict[str, str] = {}
    refused: str = ""

    @property
    def key(self) -> tuple[str, ...]:
        if not self.names:
            return (self.then.key(),)
        return (self.then.root, self.refused, *sorted(f"{name}={digest}" for name, digest in self.names.items()))

    @property
    def to_read_bytes(self) -> int:
        """Named files are read twice: for their sha256, and for the weights digest."""
        if self.known is not None:
            return 0
        return sum(one.size_bytes for one in self.then.files) * (2 if self.names else 1)


def prove(
    ledger: Ledger, seqs: Sequence[int] = (), *, every: bool = False, policy: Policy | None = None, progress: Progress | None = None
) -> Iterator[Proving]:
    """Looks at hits and records what was found: those at `seqs`, else every unproven one below `pinned`, or with `every` at any tier;
    and whichever other hits are decided by the same content. Grouped by content, each of which is read once.

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
        prover = _Prover(ledger, knowledge, policy or Policy(), progress)
        yield from prover.run([hit_of(knowledge, attach) for attach in dict.fromkeys(row["attach"] for row in rows)])


class _Prover:
    def __init__(self, ledger: Ledger, knowledge: Knowledge, policy: Policy, progress: Progress | None) -> None:
        self._ledger = ledger
        self._knowledge = knowledge
        self._policy = policy
        self._progress = progress
        self._grants = knowledge.grants()
        self._now: dict[tuple[str, str], Location | None] = {}
        self._done_bytes = 0
        self._total_bytes = 0

    def run(self, hits: Sequence[Hit]) -> Iterator[Proving]:
        groups: dict[tuple[str, ...], tuple[_Source, list[Hit]]] = {}
        lost: list[tuple[Hit, str]] = []
        for hit in hits:
            source = self._source(hit)
            if isinstance(source, _Source):
                groups.setdefault(source.key, (source, []))[1].append(hit)
            else:
                lost.append((hit, source))
        self._total_bytes = sum(source.to_read_bytes for source, _ in groups.values())
        yield from self._record([(hit, inconclusive(hit, why)) for hit, why in lost])
        # What needs no reading first, then what decides most hits for its bytes.
        by_cost = sorted(groups.values(), key=lambda group: group[0].to_read_bytes / len(group[1]))
        asked = {hit.attach for hit in hits}
        for source, members in by_cost:
            yield from self._conclude(source, members, asked)

    def _conclude(self, source: _Source, hits: list[Hit], asked: set[str]) -> Iterator[Proving]:
        began_s = time.monotonic()
        before_bytes = self._done_bytes
        try:
            content, how = self._content(source, hits[0])
        except Unprovable as unprovable:
            yield from self._record([(hit, inconclusive(hit, str(unprovable))) for hit in hits])
            return
        finally:
            self._done_bytes = before_bytes + source.to_read_bytes
        seconds = time.monotonic() - began_s
        others = others_of(self._knowledge, content, hits, self._grants, self._policy.network_fs)
        also = f"{how}, which decides this hit on the same files too"
        verdicts = [(hit, judge(hit, content, how, seconds)) for hit in hits]
        verdicts += [(hit, verdict) for hit in others if hit.attach not in asked and (verdict := judge(hit, content, also)).decides]
        yield from self._record(verdicts, content)

    def _record(self, verdicts: Sequence[tuple[Hit, Verdict]], content: Fingerprint | None = None) -> Iterator[Proving]:
        """Appends, in few transactions; the content first, so that no later run reads it again."""
        new = content is not None and content.tier is Tier.CONTENT and self._knowledge.fingerprint(content.id()) is None
        read_bytes = content.coverage.read_bytes if content is not None and content.tier is Tier.CONTENT else 0
        for start in range(0, len(verdicts), _BATCH):
            part = verdicts[start : start + _BATCH]
            events: list[Any] = [verdict.event for _, verdict in part]
            if new and content is not None and start == 0:
                events.insert(0, recorded(content, part[0][0].decided.asked.spelling, "wcache audit prove"))
            seqs = append_events(self._ledger, *events)[-len(part) :]
            for (hit, verdict), proof_seq in zip(part, seqs, strict=True):
                decided = hit.decided
                yield Proving(
                    seq=hit.seq, attach=hit.attach, checkpoint=decided.asked.spelling, residency=decided.residency,
                    tier=decided.tier.value if decided.tier else None, proof=verdict.proof, why=verdict.why,
                    asked_digest=verdict.asked_digest, served_digest=hit.served_digest, read_bytes=read_bytes, proof_seq=proof_seq,
                )  # fmt: skip
                read_bytes = 0

    # --- which bytes were asked for, without reading any -------------------------------------------------------------------

    def _source(self, hit: Hit) -> _Source | str:
        """What can tell the content that was asked for, or why nothing can."""
        if hit.served_digest is None:
            return "the ledger does not know the digest of what was served"
        place = hit.place(self._knowledge)
        refused = "nothing was recorded about the files that were asked for"
        if place is not None:
            try:
                return self._as_then(hit, place)
            except Unprovable as unprovable:
                refused = str(unprovable)
        return self._named(hit, refused) or refused

    def _named(self, hit: Hit, refused: str) -> _Source | None:
        reader = Reader()
        for item in hit.evidence:
            names = self._immutable_names(item, reader)
            if names and item.location is not None:
                return _Source(then=item.location, names=names, refused=refused)
        return None

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

    def _as_then(self, hit: Hit, place: Place) -> _Source:
        """Raises Unprovable unless the content of the recorded identities is known, or the files at the recorded place have them now."""
        then = place.location
        hit.require_fixed(then, self._grants, self._policy.network_fs)
        if place.evidence.location is None:
            self._require_leads_to(hit, then)
        known = self._known(then)
        if known is not None:
            return _Source(then=then, known=known)
        now = self._stands_now(then)
        if now is None:
            raise Unprovable(f"files of it are gone, or the directory has changed since the attach ({then.root})")
        if now.key() != then.key():
            raise Unprovable(f"{_changed(then, now)} since the attach ({then.root})")
        require_pins(then, now.fs_kind, self._grants, self._policy.network_fs, hit.decided)
        return _Source(then=then)

    def _stands_now(self, then: Location) -> Location | None:
        key = (then.root, then.key())
        if key not in self._now:
            self._now[key] = current_location(then)
        return self._now[key]

    @staticmethod
    def _require_leads_to(hit: Hit, then: Location) -> None:
        """A trusted attach looked at no path, so the spelling must lead by itself to where the reused content was hashed."""
        asked = hit.decided.asked
        spelling = asked.spelling
        if asked.root is not None:
            if asked.root != then.root:
                raise Unprovable(f"{spelling} led to {asked.root}, the trusted content was hashed at {then.root}")
            return
        try:
            resolved = resolve_root(spelling)
        except (CheckpointUnreadable, UsageError):
            raise Unprovable(f"{spelling} leads nowhere now, and nobody looked where it led at the attach") from None
        if resolved.repo is None and not os.path.isabs(os.path.expanduser(spelling)):  # noqa: PTH111, PTH117
            raise Unprovable(f"{spelling} is relative, and nobody recorded to what directory")
        if resolved.root != then.root:
            raise Unprovable(f"{spelling} now leads to {resolved.root}, and nobody looked where it led at the attach")

    def _known(self, then: Location) -> Fingerprint | None:
        for earlier in self._knowledge.fingerprints_at(key=then.key()):
            pinned = pinned_fingerprint(earlier, then, network_fs="coherent", store_granted=True)  # whether pins hold was asked before
            if pinned is not None:
                return pinned
        return None

    # --- reading ----------------------------------------------------------------------------------------------------------

    def _content(self, source: _Source, first: Hit) -> tuple[Fingerprint, str]:
        """The content that was asked for, and how that is known. Raises Unprovable."""
        if source.known is not None:
            return source.known, "the files were hashed as they were at the attach"
        if not source.names:
            try:
                return self._read(source.then), "the files are as they were at the attach"
            except Unprovable as unprovable:
                named = self._named(first, str(unprovable))
                if named is None:
                    raise
                source = named
        found = self._by_names(source.then, source.names, source.refused)
        return found, f"the files have the sha256 that named them at the attach ({source.refused})"

    def _advance(self, read_bytes: int) -> None:
        self._done_bytes += read_bytes
        if self._progress is not None:
            self._progress(min(self._done_bytes, self._total_bytes), self._total_bytes)

    def _hash(self, held: OpenCheckpoint, reader: Reader) -> Fingerprint:
        done_bytes = 0

        def advance(done: int, _total: int) -> None:
            nonlocal done_bytes
            self._advance(done - done_bytes)
            done_bytes = done

        return hash_held(held, reader, self._policy, self._grants, progress=advance)

    def _read(self, then: Location) -> Fingerprint:
        try:
            reader = Reader(Retries())
            with self._held(then, reader) as held:
                content = self._hash(held, reader)
        except (CheckpointInvalid, CheckpointUnreadable, CheckpointChanged) as error:
            raise Unprovable(f"the files cannot be read: {error}") from None
        if content.location is None or content.location.key() != then.key():
            raise Unprovable(f"other files than at the attach were found in {then.root}")
        return content

    @staticmethod
    def _held(then: Location, reader: Reader) -> OpenCheckpoint:
        alone = then.directory is None and len(then.files) == 1
        return hold_checkpoint(os.path.join(then.root, then.files[0].name) if alone else then.root, reader=reader)  # noqa: PTH118

    def _by_names(self, where: Location, names: dict[str, str], refused: str) -> Fingerprint:
        """Content at the recorded place whose files all still have the sha256 that they were attested by. Raises Unprovable."""
        try:
            reader = Reader(Retries())
            with self._held(where, reader) as held:
                if set(held.files) != set(names):
                    raise Unprovable(refused)
                before = held.identities()
                for name, file in held.files.items():
                    digest = hashlib.sha256()
                    size = next(shard.size_bytes for shard in held.checkpoint.shards if shard.name == name)
                    for offset in range(0, size, CHUNK_BYTES):
                        length = min(CHUNK_BYTES, size - offset)
                        digest.update(file.read_at(offset, length))
                        self._advance(length)
                    if digest.hexdigest() != names[name]:
                        raise Unprovable(f"{refused}; {name} no longer has the sha256 that named it at the attach")
                content = self._hash(held, reader)
                if held.identities() != before:
                    raise Unprovable(f"{refused}; the files changed while they were read")
        except (CheckpointInvalid, CheckpointUnreadable, CheckpointChanged) as error:
            raise Unprovable(f"{refused}; the files cannot be read: {error}") from None
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
