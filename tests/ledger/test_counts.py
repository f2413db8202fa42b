"""Counters that survive a restart: what the projections give and what following the events gives are the same numbers."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st
from support import history

from wcache.core.model import events as ev
from wcache.core.model.vocabulary import Outcome
from wcache.ledger.counts import Counts
from wcache.ledger.journal import Journal
from wcache.ledger.store import Ledger, NewEvent

units = st.lists(st.lists(history.events(), min_size=1, max_size=3), min_size=1, max_size=20)


def counts_of(ledger: Ledger) -> Counts:
    return Counts(ledger.path, Journal(ledger.path.with_name("journal.jsonl")))


@settings(max_examples=40, deadline=None)
@given(batches=st.lists(units, min_size=1, max_size=5))
def test_a_counter_is_the_same_after_a_restart(batches: list[list[list[ev.Event]]]) -> None:
    with tempfile.TemporaryDirectory(prefix="wcache-counts-") as directory, Ledger.open(Path(directory) / "ledger.sqlite") as ledger:
        following = counts_of(ledger)
        following.refresh()
        start: list[list[ev.Event]] = [history.legal_starts(), [history.decided("a-1"), history.granted("a-1"), history.mapped("a-1")]]
        for batch in [start, *batches]:
            ledger.append_batch([tuple(NewEvent(event=event) for event in unit) for unit in batch])
            before = following.totals
            following.refresh()
            fresh = counts_of(ledger)
            fresh.refresh()
            assert +following.totals == +fresh.totals
            assert +following.proofs == +fresh.proofs
            assert all(following.totals[key] >= number for key, number in before.items())


def test_a_decision_in_the_journal_counts_at_once_and_only_once(ledger: Ledger) -> None:
    """L2: `ledger_unavailable` shows while the ledger is away, not after."""
    counts = counts_of(ledger)
    journal = Journal(ledger.path.with_name("journal.jsonl"))
    journal.write((NewEvent(event=history.decided("a-1", Outcome.FALLBACK)),))
    counts.refresh()
    assert counts.totals["decisions", "fallback", "not_resident"] == 1
    kept = journal.path.read_bytes()
    journal.merge(ledger)
    counts.refresh()
    assert counts.totals["decisions", "fallback", "not_resident"] == 1
    assert counts.totals["gap_merged",] == 1
    journal.path.write_bytes(kept)  # a merge that was cut off before the file was emptied
    counts.refresh()
    assert counts.totals["decisions", "fallback", "not_resident"] == 1


def test_the_newest_signed_checkpoint_is_known_to_who_follows_and_to_who_begins(ledger: Ledger) -> None:
    """A timer that stopped shows: events that no checkpoint covers, and the time of the last one."""
    following = counts_of(ledger)
    following.refresh()
    assert (following.signed_size, following.signed_ns) == (0, 0)
    for size in (0, 1):
        ledger.append_batch([(NewEvent(event=ev.CheckpointSigned(origin=ledger.origin, size=size, root="00" * 32)),)])
    following.refresh()
    fresh = counts_of(ledger)
    fresh.refresh()
    (*_, newest) = ledger.events(types=(ev.CheckpointSigned.type,))
    for counts in (following, fresh):
        assert (counts.signed_size, counts.signed_ns) == (1, newest.recorded_ns)
