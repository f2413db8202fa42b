"""The server's way into the ledger: appends go through the writer's thread, answers come back to the loop, and where the ledger cannot
take an event the journal does."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from pathlib import Path

from wcache.core.model.errors import LedgerCorrupt, LedgerUnavailable, WcacheError
from wcache.core.model.events import Event
from wcache.daemon.loop import Loop
from wcache.ledger.journal import Journal
from wcache.ledger.knowledge import Knowledge
from wcache.ledger.store import Ledger, NewEvent
from wcache.ledger.writer import LedgerWriter

JOURNAL_NAME = "journal.jsonl"
JOURNAL_MAX_BYTES = 16 << 20

Outcome = list[int] | WcacheError


class Recorder:
    """Appends in the order of the calls. `seq` is the last one known to be committed by this server; `failure` is why the ledger takes
    nothing at present, or None; `serves_unrecorded` says whether the journal has room for hits that the ledger did not take."""

    def __init__(self, loop: Loop, ledger_path: Path, runtime_dir: Path) -> None:
        self._loop = loop
        self.path = ledger_path
        self.ledger = Ledger.open(ledger_path)
        try:
            self.knowledge = Knowledge(ledger_path)
            self.journal = Journal(runtime_dir / JOURNAL_NAME, JOURNAL_MAX_BYTES)
            self.journal.merge(self.ledger)
            self._writer = LedgerWriter(self.ledger)
        except BaseException:
            self.ledger.close()
            raise
        self.seq: int | None = self.ledger.head()[0] or None
        self.failure: LedgerUnavailable | LedgerCorrupt | None = None
        self.serves_unrecorded = True
        self.journalled = 0  # events of this server that went into the journal
        self.unrecorded = 0  # events of this server that not even the journal took
        self._kept = False  # since the last merge something went into the journal
        self._merging: threading.Thread | None = None

    def append(self, unit: Sequence[NewEvent], then: Callable[[Outcome], None]) -> None:
        """All of `unit` in one transaction, or none; `then(seqs or error)` runs in the loop."""

        def finished(future: Future[list[int]]) -> None:
            error = future.exception()
            outcome: Outcome
            if error is None:
                outcome = future.result()
            elif isinstance(error, WcacheError):
                outcome = error
            else:
                outcome = LedgerUnavailable(f"{type(error).__name__}: {error}", where=str(self.path))
            self._loop.post(lambda: self._done(outcome, then))

        try:
            self._writer.submit(tuple(unit)).add_done_callback(finished)
        except WcacheError as error:
            failed = error
            self._loop.post(lambda: self._done(failed, then))

    @property
    def queued(self) -> int:
        return self._writer.queued

    @property
    def commit_s(self) -> float | None:
        """What the last commit took."""
        return self._writer.commit_s

    @property
    def committed_ns(self) -> int | None:
        return self._writer.committed_ns

    def _done(self, outcome: Outcome, then: Callable[[Outcome], None]) -> None:
        if isinstance(outcome, list) and outcome:
            self.seq = max(self.seq or 0, outcome[-1])
            self.failure = None
            if self._kept:
                self._merge_soon()
        elif isinstance(outcome, (LedgerUnavailable, LedgerCorrupt)):
            self.failure = outcome
        then(outcome)

    def retry(self) -> None:
        """To be called now and then: without it a ledger that failed would be tried again only when somebody attaches, and what loaders
        left in the journal would stay there."""
        if self.failure is not None or self.journal.size_bytes():
            self._merge_soon()

    def _merge_soon(self) -> None:
        """What the journal holds goes into the ledger, in a thread of its own: the ledger may be slow or still unwell."""
        if self._merging is not None and self._merging.is_alive():
            return  # `retry` comes again
        self._kept = False
        self._merging = threading.Thread(target=self._merge, name="wcache-merge", daemon=True)
        self._merging.start()

    def _merge(self) -> None:
        try:
            merged = self.journal.merge(self.ledger)
            if merged.gap_seq is None:
                self.ledger.touch()
        except (LedgerUnavailable, LedgerCorrupt) as error:
            failed = error
            self._loop.post(lambda: self._tried(failed))
        except WcacheError:
            self._loop.post(lambda: self._tried(None))
        else:
            self._loop.post(lambda: self._tried(None, merged.gap_seq))

    def _tried(self, failure: LedgerUnavailable | LedgerCorrupt | None, seq: int | None = None) -> None:
        self.failure = failure
        self._kept = self._kept or failure is not None
        self.seq = max(self.seq or 0, seq or 0) or None

    def observe(self, *events: Event, then: Callable[[], None] = lambda: None) -> None:
        """For events whose success changes nothing: appended, else journalled."""
        unit = [new_event(event) for event in events]

        def journalled(outcome: Outcome) -> None:
            if isinstance(outcome, LedgerUnavailable):
                self.keep(unit)
            then()

        self.append(unit, journalled)

    def keep(self, unit: Sequence[NewEvent]) -> bool:
        """Into the journal; False when it is full or cannot be written either."""
        try:
            self.journal.write(tuple(unit))
        except WcacheError:
            self.unrecorded += len(unit)
            return False
        self._kept = True
        self.journalled += len(unit)
        return True

    def close(self) -> None:
        """Commits what is queued."""
        self._writer.close()
        if self._merging is not None:
            self._merging.join()
        self.knowledge.close()
        self.ledger.close()


def new_event(event: Event, *, expected_version: int | None = None) -> NewEvent:
    return NewEvent(event=event, event_id=uuid.uuid4().hex, expected_version=expected_version)
