"""The journal: what waits while the ledger cannot be written."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest
from support import history

from wcache.core.model import events as ev
from wcache.core.model.errors import LedgerUnavailable
from wcache.core.model.vocabulary import Outcome
from wcache.ledger.journal import Journal, Merge
from wcache.ledger.lock import FileLock
from wcache.ledger.replay import replay
from wcache.ledger.store import Ledger, NewEvent, Unit
from wcache.ledger.upgrade import lock_path
from wcache.ledger.verify import verify


def unit(*events: ev.Event, at_ns: int = 1000) -> Unit:
    return tuple(NewEvent(event=event, occurred_ns=at_ns) for event in events)


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    return Journal(tmp_path / "run" / "journal.jsonl")


def gaps(ledger: Ledger) -> list[ev.LedgerGap]:
    return [item.event for item in ledger.events(types=["ledger.gap"]) if isinstance(item.event, ev.LedgerGap)]


def test_what_was_journalled_is_merged_once_and_the_gap_is_counted(ledger: Ledger, journal: Journal) -> None:
    """L2"""
    fallback = unit(history.decided("a-1", Outcome.FALLBACK), at_ns=100)
    done = unit(history.fell_back("a-1"), at_ns=200)
    journal.write(fallback)
    journal.write(done)
    assert journal.pending() == 2
    assert oct(journal.path.stat().st_mode & 0o777) == "0o600"
    assert journal.merge(ledger) == Merge(merged=2, lost=0, gap_seq=3)
    assert [(item.seq, item.event_id, item.occurred_ns) for item in ledger.events()][:2] == [
        (1, fallback[0].event_id, 100),
        (2, done[0].event_id, 200),
    ]
    assert gaps(ledger) == [ev.LedgerGap(from_ns=100, to_ns=200, merged=2, lost=0, why="the ledger could not be written")]
    assert journal.pending() == 0
    assert journal.merge(ledger) == Merge(merged=0, lost=0)
    assert len(gaps(ledger)) == 1


def test_a_merge_that_was_cut_off_before_the_file_was_emptied_counts_nothing_twice(ledger: Ledger, journal: Journal) -> None:
    journal.write(unit(history.decided("a-1", Outcome.FALLBACK)))
    kept = journal.path.read_bytes()
    journal.merge(ledger)
    journal.path.write_bytes(kept)
    journal.merge(ledger)
    assert ledger.head()[0] == 2
    assert len(gaps(ledger)) == 1


def test_a_torn_last_line_is_counted_lost_and_the_next_write_is_whole(ledger: Ledger, journal: Journal) -> None:
    journal.write(unit(history.decided("a-1", Outcome.FALLBACK)))
    journal.write(unit(history.decided("a-2", Outcome.FALLBACK)))
    os.truncate(journal.path, journal.path.stat().st_size - 20)
    journal.write(unit(history.decided("a-3", Outcome.FALLBACK)))
    merge = journal.merge(ledger)
    assert (merge.merged, merge.lost) == (2, 1)
    assert gaps(ledger)[0].why == "0 refused, 1 unreadable"
    assert {item.stream for item in ledger.events()} == {"attach/a-1", "attach/a-3", "ledger"}


def test_a_full_journal_refuses_and_counts_what_it_refused(ledger: Ledger, tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal.jsonl", max_bytes=3000)
    written = refused = 0
    for number in range(10):
        try:
            journal.write(unit(history.decided(f"a-{number}", Outcome.FALLBACK)))
            written += 1
        except LedgerUnavailable as error:
            assert "full" in str(error)
            refused += 1
    assert written and refused
    merge = journal.merge(ledger)
    assert (merge.merged, merge.lost) == (written, refused)


def test_a_late_event_in_the_merge_is_flagged_and_changes_no_state(ledger: Ledger, journal: Journal) -> None:
    """L2"""
    ledger.append_batch([unit(history.load_started(), history.load_completed()), unit(history.decided(), history.granted())])
    journal.write(unit(history.mapped()))
    ledger.append_batch([unit(history.lease_ended())])
    journal.merge(ledger)
    assert [item.type for item in ledger.events() if item.late] == ["map.completed"]
    assert replay(ledger) == []
    assert verify(ledger.path).ok


def test_a_journalled_hit_whose_residency_is_gone_keeps_its_decision(ledger: Ledger, journal: Journal) -> None:
    ledger.append_batch([unit(history.load_started(), history.load_completed())])
    journal.write(unit(history.decided(), history.granted()))
    ledger.append_batch([unit(ev.ResidencyLost(residency="r-1", why="the daemon died"))])
    merge = journal.merge(ledger)
    assert (merge.merged, merge.lost) == (1, 1)
    assert [item.type for item in ledger.events(after_seq=3)] == ["attach.decided", "ledger.gap"]


def test_a_journal_stays_while_the_ledger_cannot_be_written(ledger: Ledger, journal: Journal) -> None:
    journal.write(unit(history.decided("a-1", Outcome.FALLBACK)))
    with FileLock(lock_path(ledger.path)).held(), pytest.raises(LedgerUnavailable):
        journal.merge(ledger)
    assert journal.pending() == 1


def test_an_absent_journal_is_an_empty_one(ledger: Ledger, journal: Journal) -> None:
    assert journal.pending() == 0
    assert journal.merge(ledger) == Merge(merged=0, lost=0)
    assert not journal.path.exists()


def test_a_line_is_written_at_once_while_a_merge_waits_for_the_ledger_and_is_merged_with_the_rest(ledger: Ledger, journal: Journal) -> None:
    """L2: the server's loop writes here; it must not stand still because a merge does."""
    journal.write(unit(history.decided("a-1", Outcome.FALLBACK)))
    merges: list[Merge] = []
    merging = threading.Thread(target=lambda: merges.append(journal.merge(ledger)))
    with FileLock(lock_path(ledger.path)).held():
        merging.start()
        journal.write(unit(history.decided("a-2", Outcome.FALLBACK)))
        assert merging.is_alive()
    merging.join(60)
    assert [merge.merged for merge in merges] == [2]
    assert {item.stream for item in ledger.events(types=["attach.decided"])} == {"attach/a-1", "attach/a-2"}
    assert journal.size_bytes() == 0
