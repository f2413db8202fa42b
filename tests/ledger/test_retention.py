"""Segments: closed beside a writer, dropped whole when they are old; what still lives is carried, and what is gone is told."""

from __future__ import annotations

import sqlite3
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support import history
from support.segments import FIRST, HASHED, LATER_NS, SECOND, UNUSED, add, three_segments
from support.tamper import tamper

from wcache.core.model import events as ev
from wcache.core.model.errors import IllegalTransition, LedgerCorrupt, LedgerUnavailable, UsageError
from wcache.core.model.evidence import Verity
from wcache.ledger.audit import Audit
from wcache.ledger.backup import backup
from wcache.ledger.exposure import exposures
from wcache.ledger.knowledge import Knowledge
from wcache.ledger.leaves import roots
from wcache.ledger.redact import redact
from wcache.ledger.replay import replay
from wcache.ledger.restore import restore
from wcache.ledger.retention import KEEP_DAYS_LEAST, drop_segments, retention
from wcache.ledger.schema import PROJECTIONS
from wcache.ledger.segments import close_segment, read_history
from wcache.ledger.store import Ledger, NewEvent
from wcache.ledger.verify import verify

LAST_OF_FIRST = len(FIRST) + 1
LAST_OF_SECOND = LAST_OF_FIRST + 1 + len(SECOND) + 1


def tables(path: Path) -> dict[str, dict[tuple[Any, ...], tuple[Any, ...]]]:
    """Every projected row by its key."""
    connection = sqlite3.connect(path)
    found = {}
    for table in PROJECTIONS:
        keys = ", ".join(f'"{column.name}"' for column in table.primary_key.columns)
        rows = connection.execute(f"SELECT {keys}, * FROM {table.name}").fetchall()
        count = len(list(table.primary_key.columns))
        found[table.name] = {row[:count]: row[count:] for row in rows}
    connection.close()
    return found


def test_a_segment_says_what_came_before_it_and_what_was_live(path: Path) -> None:
    three_segments(path)
    with Ledger.open(path, read_only=True) as ledger:
        closed, opened = (item.event for _, item in zip(range(2), ledger.events(LAST_OF_FIRST - 1), strict=False))
        origin = ledger.origin
    assert isinstance(closed, ev.SegmentClosed) and isinstance(opened, ev.SegmentOpened)
    connection = sqlite3.connect(path)
    found = roots(connection, read_history(connection, origin), {closed.size, opened.size}, path)
    (link,) = connection.execute("SELECT chain FROM event WHERE seq = ?", (LAST_OF_FIRST,)).fetchone()
    connection.close()
    assert (closed.size, closed.root) == (LAST_OF_FIRST - 1, found[LAST_OF_FIRST - 1].hex())
    assert (opened.size, opened.root, opened.chain, opened.origin) == (LAST_OF_FIRST, found[LAST_OF_FIRST].hex(), link.hex(), origin)
    assert set(opened.state) == {"residency/r-1", "attach/a-3", "trust/g-1", "daemon/d-1"}
    assert opened.state["residency/r-1"] == (2, "resident")


def test_a_drop_carries_what_lives_and_every_row_that_stays_is_what_it_was(path: Path) -> None:
    before = tables(three_segments(path))
    dropped = drop_segments(path, now_ns=LATER_NS)
    assert dropped.span is not None
    assert (dropped.span.first_seq, dropped.span.last_seq, dropped.segments) == (1, LAST_OF_SECOND, 2)
    assert dropped.span.decisions == {"hit": 5, "fallback": 1}
    assert dropped.span.events["attach.decided"] == 6
    assert verify(path).ok and replay(path) == []
    after = tables(path)
    for name, rows in after.items():
        assert rows.items() <= before[name].items() or name == "stream", name
    assert {key for (key,) in after["attach"]} == {"a-2", "a-3", "a-6", "a-7"}  # refuted, ended later, held, new
    assert {key for (key,) in after["residency"]} == {"r-1"}
    assert {key for (key,) in after["fingerprint"]} == {HASHED.id()}
    assert UNUSED.id() not in {key for (key,) in after["fingerprint"]}
    assert {key for (key,) in after["trust"]} == {"g-1"}
    assert before["contradiction"] == after["contradiction"] != {}
    with Ledger.open(path) as ledger:
        assert next(ledger.events()).type == "segment.opened"
        with pytest.raises(IllegalTransition):
            ledger.append("residency/r-1", None, "again", history.load_started("r-1"))
        assert ledger.append("attach/a-6", 3, "end", history.lease_ended("a-6")) == dropped.recorded_seq + 1  # type: ignore[operator]


def test_a_hit_that_was_proved_in_a_later_segment_is_carried_with_what_it_names(path: Path) -> None:
    with Ledger.open(path) as ledger:
        add(ledger, FIRST)
        close_segment(ledger)
        add(ledger, (history.verify_passed("a-1"), history.inconclusive("a-5")))
    before = tables(path)
    drop_segments(path, now_ns=LATER_NS)
    assert verify(path).ok
    after = tables(path)
    assert after["attach"]["a-1",] == before["attach"]["a-1",]
    assert after["residency"]["r-2",] == before["residency"]["r-2",]  # a-5 names it, although it was released long ago
    with Audit(path) as audit, Ledger.open(path, read_only=True) as ledger:
        row = audit.attach_at(before["attach"]["a-1",][list(before["attach"]["a-1",]).index("a-1") + 1])
        assert row["proof"] == "proved"
        assert [item.event.attach for item in ledger.events(types=("verify.passed",))] == ["a-1"]  # type: ignore[attr-defined]


def test_what_a_measure_of_the_kernel_rests_on_is_carried_with_it(path: Path) -> None:
    hashed = history.fingerprint(verity=Verity(files={"model.safetensors": "sha256:00"}))
    measured = history.fingerprint(verity=Verity(files={"model.safetensors": "sha256:00"}, same_as=hashed.id()))
    with Ledger.open(path) as ledger:
        add(ledger, (history.recorded(hashed), history.recorded(UNUSED)))
        close_segment(ledger)
        add(ledger, (history.recorded(measured),))
    drop_segments(path, now_ns=LATER_NS)
    assert {key for (key,) in tables(path)["fingerprint"]} == {hashed.id(), measured.id()}
    assert verify(path).ok


def test_what_was_carried_is_known_as_before(path: Path) -> None:
    three_segments(path)
    drop_segments(path, now_ns=LATER_NS)
    with Audit(path) as audit:
        first = next(row for row in audit.attaches() if row["attach"] == "a-3")["first_seq"]
        assert first < LAST_OF_FIRST
        assert isinstance(audit.event(first).event, ev.AttachDecided)
        assert [item.type for item in audit.stream("residency/r-1")] == ["load.started", "load.completed"]
    knowledge = Knowledge(path)
    loaded, decided = knowledge.completed("r-1"), knowledge.decided("a-3")
    assert loaded == history.load_completed("r-1", (HASHED.id(),)) and decided == history.decided("a-3")
    assert knowledge.taken_by_server(HASHED.id()) and not knowledge.taken_by_server(UNUSED.id())
    assert len(knowledge.contradictions()) == 1
    knowledge.close()


def test_who_had_wrong_weights_and_until_when_is_told_after_a_drop_as_before(path: Path) -> None:
    three_segments(path)
    with Audit(path) as audit:
        before = exposures(audit)
    drop_segments(path, now_ns=LATER_NS)
    with Audit(path) as audit:
        assert [one for one in exposures(audit) if one.certain] == [one for one in before if one.certain] != []


def test_drops_follow_each_other_and_all_of_them_are_told(path: Path) -> None:
    with Ledger.open(path) as ledger:
        add(ledger, FIRST)
        close_segment(ledger)
    drop_segments(path, now_ns=LATER_NS)
    with Ledger.open(path) as ledger:
        add(ledger, SECOND)
        close_segment(ledger)
    dropped = drop_segments(path, now_ns=LATER_NS)
    assert dropped.span is not None and dropped.span.first_seq == LAST_OF_FIRST + 1
    report = verify(path)
    assert report.ok, report.problems
    assert [note.split(",")[0] for note in report.notes if "were dropped" in note] == [
        f"seq 1 to {LAST_OF_FIRST}", f"seq {LAST_OF_FIRST + 1} to {dropped.span.last_seq}",
    ]  # fmt: skip
    found = retention(path)
    assert [(span.first_seq, span.last_seq) for span in found.spans] == [(1, LAST_OF_FIRST), (LAST_OF_FIRST + 1, dropped.span.last_seq)]
    with Audit(path) as audit:
        assert {row["attach"] for row in audit.attaches()} == {"a-2", "a-3", "a-6"}


def test_six_months_are_kept_whatever_is_asked_for(path: Path) -> None:
    three_segments(path)
    with pytest.raises(UsageError, match=r"184 days, which is six months; the oldest closed segment may go from 20\d\d-"):
        drop_segments(path, KEEP_DAYS_LEAST - 1, now_ns=LATER_NS)
    nothing = drop_segments(path)
    assert nothing.span is None and nothing.next_ns is not None
    assert retention(path).since_ns is not None and verify(path).events == len(FIRST) + 2 + len(SECOND) + 2 + 3


def test_a_ledger_that_is_in_use_is_not_written_anew(path: Path) -> None:
    three_segments(path)
    with Ledger.open(path) as ledger, pytest.raises(LedgerUnavailable, match="another program has the ledger open"):
        ledger.append("daemon/d-9", 0, "d-9", history.daemon_started("d-9"))
        drop_segments(path, now_ns=LATER_NS)
    with Audit(path), pytest.raises(LedgerUnavailable, match="another program has the ledger open"):
        drop_segments(path, now_ns=LATER_NS)
    assert drop_segments(path, now_ns=LATER_NS).segments == 2
    assert sorted(entry.name for entry in path.parent.iterdir()) == [path.name, path.name + ".lock"]


def test_a_drop_is_no_way_to_get_rid_of_what_does_not_verify(path: Path) -> None:
    three_segments(path)
    tamper(path, "UPDATE event SET payload = replace(payload, 'node', 'nodf') WHERE seq = 13")
    with pytest.raises(LedgerCorrupt, match="differs in host"):
        drop_segments(path, now_ns=LATER_NS)
    assert verify(path).events == len(FIRST) + 2 + len(SECOND) + 2 + 3


def test_a_beginning_that_was_cut_off_without_a_record_is_found(path: Path) -> None:
    """L3: the file could begin with that segment.opened, but nobody says why it does."""
    three_segments(path)
    tamper(path, f"DELETE FROM event WHERE seq <= {LAST_OF_FIRST}")
    found = [(problem.seq, problem.cls) for problem in verify(path).problems]
    assert (LAST_OF_FIRST + 1, "segment") in found
    tamper(path, f"DELETE FROM event WHERE seq <= {LAST_OF_FIRST + 1}")
    assert {"segment", "gap", "version"} <= {problem.cls for problem in verify(path).problems}


def test_a_segment_that_says_what_is_not_so_is_found(path: Path) -> None:
    """L3"""
    three_segments(path)
    with Ledger.open(path, read_only=True) as ledger:
        said = next(item.event for item in ledger.events(types=("segment.opened",)))
    assert isinstance(said, ev.SegmentOpened)
    with Ledger.open(path) as ledger:
        seq = ledger.append("ledger", None, "forged", said)
    texts = [problem.text for problem in verify(path).problems if (problem.seq, problem.cls) == (seq, "segment")]
    assert [text.removeprefix("what it says of ") for text in texts] == [
        "the number of events before it is not so", "the root over the events before it is not so", "the chain before it is not so",
        "the state of attach/a-3 is not so",
    ]  # fmt: skip


def test_helpers_that_read_blocks_know_of_what_was_carried_redacted_and_restored(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    three_segments(path)
    over = [seq for seq, event in enumerate(FIRST, 1) if getattr(event, "attach", None) == "a-5"]
    with Ledger.open(path) as ledger:
        add(ledger, (history.inconclusive("a-5"),))
    redact(path, over[:2], "x")
    assert backup(path, path.with_name("backup")).ok
    restore(path.with_name("backup"), path, replace=True)
    monkeypatch.setattr("wcache.ledger.replay.BLOCK_EVENTS", 5)
    monkeypatch.setattr("wcache.ledger.verify.POOL_EVENTS", 1)
    assert verify(path).problems == []
    drop_segments(path, now_ns=LATER_NS)
    assert verify(path).problems == []
    tamper(path, "UPDATE event SET late = 1 WHERE seq = (SELECT max(seq) - 1 FROM event)")
    assert {"chain"} <= {problem.cls for problem in verify(path).problems}


units = st.lists(st.lists(history.events(), min_size=1, max_size=3), min_size=1, max_size=6)


@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
@given(parts=st.lists(units, min_size=2, max_size=4))
def test_any_history_verifies_and_goes_on_after_a_drop(parts: list[list[list[ev.Event]]]) -> None:
    with tempfile.TemporaryDirectory(prefix="wcache-segments-") as directory:
        path = Path(directory) / "ledger.sqlite"
        with Ledger.open(path) as ledger:
            ledger.append_batch([tuple(NewEvent(event=event) for event in history.legal_starts())])
        for number, part in enumerate(parts):
            with Ledger.open(path) as ledger:
                ledger.append_batch([tuple(NewEvent(event=event) for event in unit) for unit in part])
                close_segment(ledger)
                if number == len(parts) - 2:
                    ledger.append_batch([tuple(NewEvent(event=event) for event in unit) for unit in parts[0]])
            if number != 1:
                before = tables(path)
                drop_segments(path, now_ns=LATER_NS)
                after = tables(path)
                assert after["contradiction"] == before["contradiction"]
                assert {key: row for key, row in after["residency"].items() if row not in before["residency"].values()} == {}
        report = verify(path)
        assert report.ok, report.problems
