"""Gathering evidence for one attach: the cheapest first, and no more than it takes to accept a hit or to rule it out (DESIGN §7)."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import msgspec

from wcache.core.checkpoint.checkpoint import OpenCheckpoint, current_location, hold_checkpoint, recheck_paths
from wcache.core.checkpoint.content import seconds_until_listed_safely
from wcache.core.checkpoint.fingerprint import attested_fingerprint, header_fingerprint, pinned_fingerprint, sampled_fingerprint
from wcache.core.checkpoint.identity import pinnable
from wcache.core.checkpoint.reader import Reader
from wcache.core.checkpoint.seed import load_or_create_seed
from wcache.core.checkpoint.spelling import ResolvedRoot, absolute_spelling, hold_root
from wcache.core.model.config import config_difference
from wcache.core.model.decide import Decision, ResidencyView, agrees, decide, locked_in, origin_known, sampled_contradicts, serves_device
from wcache.core.model.errors import (
    CheckpointChanged,
    CheckpointInvalid,
    CheckpointUnreadable,
    EvidenceUnavailable,
    NoRoom,
    RequestRefused,
    WorkerDied,
)
from wcache.core.model.events import Identity
from wcache.core.model.evidence import Fingerprint, Location
from wcache.core.model.vocabulary import BELOW_PINNED, Kind, OptIn, Outcome, Reason, ResidencyState, Tier
from wcache.core.settings import Settings
from wcache.core.wire.messages import AttachOffer, Progress
from wcache.loader.gathered import Gathered as Gathered
from wcache.loader.gathered import Price
from wcache.loader.grants import store_granted, vouched
from wcache.loader.question import Question, recordable, whole_of
from wcache.loader.session import Session
from wcache.loader.waiting import load_ended

_OWN_LIMITS = ("emfile", "enfile")  # say nothing about the checkpoint
_SETTLE_MAX_S = 3.0  # a directory from the future is not waited for: it is then simply not pinned
_KNOWN_PLACES_MAX = 4  # a directory may have been hashed under several layouts; each costs one statx per file


def gather(
    session: Session,
    question: Question,
    settings: Settings,
    *,
    reader: Reader,
    may_hash: bool = True,
    keep_open: bool = False,
    on_progress: Callable[[Progress], None] | None = None,
) -> Gathered:
    """Ask the server, look at the checkpoint as little as possible, and decide. Waits for a load in progress up to `policy.wait_s`.
    `keep_open`: what a weak hit rests on stays open, as the result's `held`.

    Raises DaemonUnreachable; everything that is wrong with the checkpoint becomes the decision's reason.
    """
    if session.foreign:
        from wcache.loader.foreign import gather_from_other

        return gather_from_other(session, question, settings, reader=reader, may_hash=may_hash, on_progress=on_progress)
    gathering = Gathering(session, question, settings, reader, may_hash, on_progress)
    try:
        gathered = gathering.run()
        if keep_open and gathered.decision.tier in BELOW_PINNED and gathered.decision.outcome is Outcome.HIT:
            gathered, gathering.held = gathered._replace(held=gathering.held), None
        return gathered
    finally:
        gathering.close()


class Gathering:
    def __init__(
        self,
        session: Session,
        question: Question,
        settings: Settings,
        reader: Reader,
        may_hash: bool,
        on_progress: Callable[[Progress], None] | None,
    ) -> None:
        self.session = session
        self.question = question
        self.policy = settings.policy
        self.state_dir = settings.state_dir
        self.reader = reader
        self.may_hash = may_hash
        self.on_progress = on_progress
        self.trusting = self.policy.trusted is OptIn.HONOUR
        self.evidence: list[Fingerprint] = []
        self.resolved: ResolvedRoot | None = None
        self.root_fd: int | None = None  # the directory, from the walk that resolved it until a load is waited for
        self.spelling = question.spelling  # of the whole that the asked file belongs to, once it is resolved
        self.held: OpenCheckpoint | None = None
        self.price: Price | None = None
        self.note = ""
        self.offer: AttachOffer
        self.request = question.request()

    def close(self) -> None:
        self._close_files()
        self._leave_root()

    def _close_files(self) -> None:
        if self.held is not None:
            self.held.close()
            self.held = None

    def _leave_root(self) -> None:
        if self.root_fd is not None:
            os.close(self.root_fd)
            self.root_fd = None

    def run(self) -> Gathered:
        # A grant is matched by what was typed, before anything on disk is looked at; everybody else may resolve the name first.
        if self.trusting:
            literal = Identity(recordable(absolute_spelling(self.spelling)))
            self.request = msgspec.structs.replace(self.request, asked=literal)
        else:
            self._resolve()
        self._begin()
        deadline = time.monotonic() + self.policy.wait_s
        while True:
            self._collect()
            decision = self._decide()
            waited = decision.reason is Reason.STILL_LOADING and self._wait(decision.residency, deadline)
            if not waited:
                break
        if self.question.kind is Kind.PROCESSED and decision.outcome is not Outcome.HIT:
            self._note_files()
            decision = self._decide()
        checkpoint = self.held.checkpoint if self.held else None
        return Gathered(self.request, decision, tuple(self.evidence), self.offer, checkpoint, self.price, self.note)

    def _begin(self) -> None:
        q = self.question
        self.offer = self.session.begin(self.request, self.policy, q.launch, q.host, q.engine, q.ranks)

    def _decide(self) -> Decision:
        return decide(
            self.offer.residencies,
            self.evidence,
            self.request,
            self.policy,
            time.time_ns(),
            grants=self.offer.grants,
            contradictions=self.offer.contradictions,
        )

    def _collect(self) -> None:
        """Evidence tier by tier; returns as soon as the decision cannot change any more."""
        self._forget()
        if self.trusting:
            self._take_trusted()
            if self._settled():
                return
            self._resolve()
        if self.resolved is None or self.request.obstacle is not None or not self.offer.residencies:
            return
        try:
            self._take_pinned(self._known_here())
            if self._settled():
                return
            self._open()
            for step in (self._take_header, self._take_attested, self._take_sampled, self._take_content):
                step()
                if self._settled():
                    return
        except (CheckpointInvalid, CheckpointUnreadable, CheckpointChanged) as error:
            self._obstruct(error)

    def _forget(self) -> None:
        """Start anew: while a load was waited for, the files may have changed too."""
        self._close_files()
        self.evidence.clear()
        self.price, self.note = None, ""
        asked = msgspec.structs.replace(self.request.asked, key=None, table_digest=None, digest=None)
        self.request = msgspec.structs.replace(self.request, asked=asked)

    def _obstruct(self, error: CheckpointInvalid | CheckpointUnreadable | CheckpointChanged) -> None:
        detail = f"{error.detail or error.code}: {error}"
        reason = Reason.CHECKPOINT_INVALID
        if error.detail in _OWN_LIMITS:
            reason, detail = Reason.NO_ROOM, f"{detail}; raise the limit of open files (ulimit -n) of this process"
        self.request = msgspec.structs.replace(self.request, obstacle=reason, obstacle_detail=detail)

    def _settled(self) -> bool:
        """Whether more evidence is pointless: a hit, a load to wait for, or no residency left that could still be hit."""
        decision = self._decide()
        if decision.outcome is Outcome.HIT or decision.reason is Reason.STILL_LOADING:
            return True
        return not self._candidates()

    def _candidates(self) -> list[ResidencyView]:
        """The residencies that nothing rules out so far. A grant for other weights does not: it looked at nothing."""
        request, asked = self.request, self.request.asked
        return [
            one
            for one in self.offer.residencies
            if one.state is ResidencyState.RESIDENT
            and one.kind is request.kind
            and serves_device(one, request)
            and locked_in(one, request)
            and (one.kind is Kind.RAW or not config_difference(request.config, one.config))
            and (origin_known(one) or self.trusting or self.policy.accept in ("header", "sampled"))
            and (asked.table_digest is None or asked.table_digest == one.table_digest)
            and not any(agrees(item, one) is False for item in self.evidence if item.tier is not Tier.TRUSTED)
            and not sampled_contradicts(self.evidence, one)
        ]

    def _note_files(self) -> None:
        """The engine will read the files now and may publish what it makes of them: that counts for more if it is on record which files
        they were before."""
        if self.resolved is None or self.request.obstacle is not None or any(item.location is not None for item in self.evidence):
            return
        with suppress(CheckpointInvalid, CheckpointUnreadable, CheckpointChanged):  # the engine finds out itself
            self._take_pinned(self._known_here())
            if not self.evidence:
                self._open()
                self._take_header()

    # --- tiers, cheapest first --------------------------------------------------------------------------------------------

    def _take_trusted(self) -> None:
        spellings = [self.request.asked.spelling]
        if self.question.is_file:
            spellings.append(str(Path(spellings[0]).parent))
        now_ns = time.time_ns()
        for spelling in spellings:
            said = (vouched(grant, spelling, self.offer, self.session.instance, now_ns) for grant in self.offer.grants)
            found = [item for item in said if item is not None]
            if found:
                self.request = msgspec.structs.replace(self.request, asked=Identity(spelling))
                self.evidence.extend(found)
                return

    def _resolve(self) -> None:
        if self.resolved is not None or self.request.obstacle is not None:
            return
        if self.question.is_file:
            self.spelling = whole_of(self.spelling, self.reader)
        asked = Identity(recordable(self.spelling))
        try:
            self.resolved, self.root_fd = hold_root(self.spelling, self.question.revision)
            asked = Identity(asked.spelling, self.resolved.root, self.resolved.repo, self.resolved.commit)
        except CheckpointUnreadable as error:
            self._obstruct(error)
        if not any(item.tier is Tier.TRUSTED for item in self.evidence):  # else the grant's spelling stays the one that counts
            self.request = msgspec.structs.replace(self.request, asked=asked)
        else:
            kept = msgspec.structs.replace(asked, spelling=self.request.asked.spelling)
            self.request = msgspec.structs.replace(self.request, asked=kept)

    def _known_here(self) -> list[Fingerprint]:
        """Content that was hashed at this place earlier, of this very layout as far as one can tell without looking."""
        resolved = self.resolved
        if resolved is None:
            return []
        known = self.session.lookup(root=resolved.root) if self.trusting else self.offer.known
        found = []
        for item in known:
            place = item.location
            if place is None or place.root != resolved.root:
                continue
            names = tuple(one.name for one in place.files)
            alone = names == (resolved.single_file,) and place.index is None
            if alone if resolved.single_file is not None else place.directory is not None:
                found.append(item)
        return found

    def _take_pinned(self, known: list[Fingerprint]) -> None:
        single = self.resolved is not None and self.resolved.single_file is not None
        places: dict[tuple[str, ...], Location | None] = {}
        for item in known:
            place = item.location
            if place is None:
                continue
            if single:
                place = msgspec.structs.replace(place, directory=None)
            names = (*(one.name for one in place.files), place.index.name if place.index else "")
            if names not in places:
                if len(places) == _KNOWN_PLACES_MAX:
                    return
                granted = store_granted(self.offer.grants, place.root, time.time_ns())
                places[names] = current_location(place, reader=self.reader, root_fd=self.root_fd, cached=granted)
            now = places[names]
            if now is not None and self._pin(item, now):
                return

    def _pin(self, earlier: Fingerprint, now: Location) -> bool:
        """Take `earlier` as pinned evidence if the present identities allow it."""
        granted = store_granted(self.offer.grants, now.root, time.time_ns())
        found = pinned_fingerprint(earlier, now, reader=self.reader, network_fs=self.policy.network_fs, store_granted=granted)
        if found is None:
            if earlier.location is not None and earlier.location.key() == now.key():
                why = pinnable(now.fs_kind, self.policy.network_fs, granted)[1] or earlier.not_pinnable
                self.note = f"its files are unchanged since it was hashed, but that does not count: {why}" if why else ""
            return False
        self.evidence.append(found)
        asked = self.request.asked
        asked = msgspec.structs.replace(asked, key=now.key(), table_digest=found.table_digest, digest=found.weights_digest)
        self.request = msgspec.structs.replace(self.request, asked=asked)
        return True

    def _open(self) -> None:
        if self.held is None:
            self.held = hold_checkpoint(self.spelling, revision=self.question.revision, reader=self.reader)
        checkpoint, location = self.held.checkpoint, self.held.checkpoint.location
        # A link or a ref may lead elsewhere than a moment ago: what counts is where the files were opened.
        asked = msgspec.structs.replace(
            self.request.asked, root=location.root, repo=location.repo, commit=location.commit, key=location.key(),
            table_digest=checkpoint.table_digest,
        )  # fmt: skip
        self.request = msgspec.structs.replace(self.request, asked=asked)

    def _take_header(self) -> None:
        held = self._held()
        self.evidence.append(header_fingerprint(held.checkpoint, self.reader))
        if not self._candidates() or any(item.tier is Tier.PINNED for item in self.evidence):
            return
        # The same files reached by another name, or hashed while this loader opened them.
        location = held.checkpoint.location
        for item in self.session.lookup(key=location.key()):
            if self._pin(item, location):
                return

    def _take_attested(self) -> None:
        if self.policy.attested is not OptIn.HONOUR:
            return
        try:
            self.evidence.append(attested_fingerprint(self._held().checkpoint, self.reader))
        except EvidenceUnavailable as error:
            self.note = f"nothing attests it: {error.what}"

    def _take_sampled(self) -> None:
        if self.policy.accept == "header":
            return
        header = next(item.digest for item in self.evidence if item.tier is Tier.HEADER)
        try:
            seed = load_or_create_seed(self.state_dir)
        except EvidenceUnavailable as error:
            self.note = error.diagnostics()
            return
        # Only a residency of the same headers that was sampled at the same places can be compared.
        if any(one.known.get("header") == header and f"sampled:{seed.id}" in one.known for one in self._candidates()):
            self.evidence.append(sampled_fingerprint(self._held(), seed, self.reader))

    def _take_content(self) -> None:
        if self.policy.accept not in ("pinned", "content"):
            return
        held = self._held()
        total_bytes = held.checkpoint.total_bytes
        limit = self.policy.max_read_bytes
        files = [*held.files.values(), *((held.index,) if held.index else ())]
        if not self.may_hash or (limit is not None and total_bytes > limit):
            self.price = Price.of(held.checkpoint, len(files))
            allowed = "" if limit is None or total_bytes <= limit else f", max_read_bytes allows {limit}"
            cost = f"only a full hash can tell, which would read {total_bytes} bytes{allowed}"
            self.note = f"{self.note}; {cost}" if self.note else cost
            return
        location = self._settled_location()
        held = self._held()
        descriptors = [file.descriptor for file in (*held.files.values(), *((held.index,) if held.index else ()))]
        try:
            spelling = recordable(absolute_spelling(self.spelling))
            found = self.session.hash(spelling, location, descriptors, self.on_progress)
        except (EvidenceUnavailable, NoRoom, RequestRefused, WorkerDied) as error:
            self.note = f"the daemon could not hash it: {error.what}"
            return
        if found.location is not None:
            # What was hashed is what the own paths name now, not a file that was moved away meanwhile, or another's.
            hashed = msgspec.structs.replace(found.location, root=location.root, directory=location.directory)
            recheck_paths(msgspec.structs.replace(held.checkpoint, location=hashed), reader=self.reader)
        self.evidence.append(found)
        key = found.location.key() if found.location else self.request.asked.key
        asked = msgspec.structs.replace(self.request.asked, key=key, digest=found.weights_digest)
        self.request = msgspec.structs.replace(self.request, asked=asked)

    def _settled_location(self) -> Location:
        """Where the files are, listed when the directory was old enough: a name added in the moment of a listing may not show in the
        directory's times, and later attaches will look at nothing else."""
        before = self._held().checkpoint.location
        wait_s = seconds_until_listed_safely(before, time.time_ns())
        if wait_s <= 0:
            return before
        time.sleep(min(wait_s, _SETTLE_MAX_S))
        self._close_files()
        self._open()
        now = self._held().checkpoint.location
        if now.key() != before.key():
            raise CheckpointChanged("the files or their names changed while they were looked at", where=before.root)
        return now

    def _held(self) -> OpenCheckpoint:
        if self.held is None:
            self._open()
        assert self.held is not None  # noqa: S101 (_open sets it or raises)
        return self.held

    # --- waiting ------------------------------------------------------------------------------------------------------------

    def _wait(self, residency: str | None, deadline_s: float) -> bool:
        """Until that load has ended, then ask again; False when it did not."""
        self._leave_root()  # by then the path may lead elsewhere
        if not load_ended(self.session, residency, deadline_s, self.on_progress):
            return False
        self._begin()
        return True
