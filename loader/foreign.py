"""An attach to another user's daemon (shared mode, DESIGN §11): prove that the weights may be read, then ask; what counts is what that
daemon found itself."""

from __future__ import annotations

import time
from collections.abc import Callable

import msgspec

from wcache.core.checkpoint.checkpoint import OpenCheckpoint, hold_checkpoint, recheck_paths
from wcache.core.checkpoint.fingerprint import pinned_fingerprint
from wcache.core.checkpoint.reader import Reader
from wcache.core.checkpoint.spelling import resolve_root
from wcache.core.model.decide import Decision, ResidencyView, agrees, decide, serves_device
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
from wcache.core.model.evidence import Fingerprint
from wcache.core.model.vocabulary import Reason, ResidencyState
from wcache.core.settings import Settings
from wcache.core.wire.messages import AttachOffer, Progress
from wcache.loader.gathered import Gathered, Price
from wcache.loader.question import Question, whole_of
from wcache.loader.session import Session

_POLL_S = 0.1
_STALL_S = 30.0


def gather_from_other(
    session: Session,
    question: Question,
    settings: Settings,
    *,
    reader: Reader,
    may_hash: bool = True,
    on_progress: Callable[[Progress], None] | None = None,
) -> Gathered:
    """As `gather`, with a daemon that takes nobody's word. Waits for a load in progress up to `policy.wait_s`."""
    asking = _Asking(session, question, settings, reader, may_hash, on_progress)
    try:
        return asking.run()
    finally:
        asking.close()


class _Asking:
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
        self.policy = settings.policy.for_another_user()
        self.reader = reader
        self.may_hash = may_hash
        self.on_progress = on_progress
        self.request = question.request()
        self.evidence: list[Fingerprint] = []
        self.held: OpenCheckpoint | None = None
        self.price: Price | None = None
        self.note = ""
        self.offer: AttachOffer

    def close(self) -> None:
        if self.held is not None:
            self.held.close()
            self.held = None

    def run(self) -> Gathered:
        deadline = time.monotonic() + self.policy.wait_s
        while True:
            self._look()
            decision = self._decide()
            if decision.reason is not Reason.STILL_LOADING or not self._wait(decision.residency, deadline):
                break
        checkpoint = self.held.checkpoint if self.held else None
        return Gathered(self.request, decision, tuple(self.evidence), self.offer, checkpoint, self.price, self.note)

    def _decide(self) -> Decision:
        offer = self.offer
        return decide(offer.residencies, self.evidence, self.request, self.policy, time.time_ns(), contradictions=offer.contradictions)

    def _look(self) -> None:
        """Open, prove, ask, and pay for a hash only where it decides."""
        self.close()
        self.evidence.clear()
        self.price, self.note = None, ""
        q = self.question
        spelling = whole_of(q.spelling, self.reader) if q.is_file else q.spelling
        self.request = q.request(Identity(spelling))
        proved = False
        try:
            resolved = resolve_root(spelling, q.revision)
            self.request = q.request(Identity(spelling, resolved.root, resolved.repo, resolved.commit))
            self.held = hold_checkpoint(spelling, revision=q.revision, reader=self.reader)
            proved = self._prove(self.held, spelling)
        except (CheckpointInvalid, CheckpointUnreadable, CheckpointChanged) as error:
            if error.detail == "not_permitted":
                self.note = str(error)  # nothing can be proved: the daemon says what it makes of that, and puts it on record
            else:
                detail = f"{error.detail or error.code}: {error}"
                self.request = msgspec.structs.replace(self.request, obstacle=Reason.CHECKPOINT_INVALID, obstacle_detail=detail)
        self.offer = self.session.begin(self.request, self.policy, q.launch, q.host, q.engine, q.ranks)
        if not proved or self.held is None:
            return
        self._pin(self.held)
        if self._decide().reason is Reason.EVIDENCE_INSUFFICIENT and self._candidates():
            self._hash(self.held, spelling)

    def _prove(self, held: OpenCheckpoint, spelling: str) -> bool:
        location = held.checkpoint.location
        try:
            header = self.session.prove(spelling, location, self._descriptors(held))
        except (RequestRefused, EvidenceUnavailable) as error:
            self.note = f"the daemon took no proof: {error.what}"
            return False
        # The server's words about our files, under the name by which we know them.
        self.evidence.append(msgspec.structs.replace(header, location=location))
        asked = msgspec.structs.replace(self.request.asked, key=location.key(), table_digest=header.table_digest)
        self.request = msgspec.structs.replace(self.request, asked=asked)
        return True

    def _pin(self, held: OpenCheckpoint) -> None:
        for base in self.offer.known:
            found = pinned_fingerprint(base, held.checkpoint.location, reader=self.reader, network_fs=self.policy.network_fs)
            if found is not None:
                self._take(found)
                return

    def _hash(self, held: OpenCheckpoint, spelling: str) -> None:
        checkpoint = held.checkpoint
        limit = self.policy.max_read_bytes
        descriptors = self._descriptors(held)
        if not self.may_hash or (limit is not None and checkpoint.total_bytes > limit):
            self.price = Price.of(checkpoint, len(descriptors))
            allowed = "" if limit is None or checkpoint.total_bytes <= limit else f", max_read_bytes allows {limit}"
            self.note = f"only a full hash can tell, which would read {checkpoint.total_bytes} bytes{allowed}"
            return
        try:
            found = self.session.hash(spelling, checkpoint.location, descriptors, self.on_progress)
            if found.location is not None:
                own = msgspec.structs.replace(
                    found.location,
                    root=checkpoint.location.root,
                    directory=checkpoint.location.directory,
                    repo=checkpoint.location.repo,
                    commit=checkpoint.location.commit,
                )
                found = msgspec.structs.replace(found, location=own)
                recheck_paths(msgspec.structs.replace(checkpoint, location=own), reader=self.reader)
            self._take(found)
        except (EvidenceUnavailable, NoRoom, RequestRefused, WorkerDied) as error:
            self.note = f"the daemon could not hash it: {error.what}"
        except (CheckpointChanged, CheckpointInvalid, CheckpointUnreadable) as error:
            detail = f"{error.detail or error.code}: {error}"
            self.request = msgspec.structs.replace(self.request, obstacle=Reason.CHECKPOINT_INVALID, obstacle_detail=detail)

    def _take(self, found: Fingerprint) -> None:
        self.evidence.append(found)
        key = found.location.key() if found.location else self.request.asked.key
        asked = msgspec.structs.replace(self.request.asked, key=key, digest=found.weights_digest)
        self.request = msgspec.structs.replace(self.request, asked=asked)

    def _candidates(self) -> list[ResidencyView]:
        request = self.request
        return [
            one
            for one in self.offer.residencies
            if one.state is ResidencyState.RESIDENT
            and one.kind is request.kind
            and serves_device(one, request)
            and not any(agrees(item, one) is False for item in self.evidence)
        ]

    @staticmethod
    def _descriptors(held: OpenCheckpoint) -> list[int]:
        return [file.descriptor for file in (*held.files.values(), *((held.index,) if held.index else ()))]

    def _wait(self, residency: str | None, deadline: float) -> bool:
        """Until that load has ended; False when it stalls or `deadline` passes."""
        seen: tuple[str | None, int] | None = None
        moved = time.monotonic()
        while (now := time.monotonic()) < deadline and now - moved < _STALL_S:
            time.sleep(min(_POLL_S, deadline - now))
            loading = [
                one
                for one in self.session.status().residencies
                if one.view.residency == residency and one.view.state is ResidencyState.LOADING
            ]
            if not loading:
                return True
            if (loading[0].phase, loading[0].done_bytes) != seen:
                one = loading[0]
                seen, moved = (one.phase, one.done_bytes), time.monotonic()
                if self.on_progress is not None:
                    self.on_progress(Progress(phase=one.phase or "wait", done_bytes=one.done_bytes, total_bytes=one.total_bytes))
        return False
