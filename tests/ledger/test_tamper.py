"""What is done to a ledger is found, or stands in a list with its reason: every byte changed, and rows removed, exchanged, replaced,
spliced, invented, cut off; by somebody who has the file, and by somebody who has the code as well."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
import pytest
from support import history
from support.flips import PAGE_BYTES, UNSEEN, Anatomy, flips, small_ledger
from support.tamper import tamper

from wcache.core.model import events as ev
from wcache.ledger.against import Given
from wcache.ledger.signed_checkpoint import make_checkpoint
from wcache.ledger.signing import SigningKey
from wcache.ledger.store import Ledger, NewEvent, StoredEvent
from wcache.ledger.verify import TRUNCATION_NOTE, Report, verify

KEY = SigningKey("example.com/log", bytes(range(32)))
STEP = 23  # `python tests/support/flips.py` leaves none out; a prime, so that every column of every page gets its turn


@pytest.mark.parametrize("mask", [0x01, 0x20, 0xFF], ids=hex)
def test_a_changed_byte_is_found_or_stands_in_the_list_and_changes_no_event(tmp_path: Path, mask: int) -> None:
    """L3. A fixed sample of the bytes that SQLite uses, each kind of them among it, and some of those that it does not."""
    file = small_ledger(tmp_path)
    body = file.read_bytes()
    kinds = Anatomy(body).kinds
    used = [at for at, kind in enumerate(kinds) if kind != "unused"]
    unused = [at for at, kind in enumerate(kinds) if kind == "unused"]
    first = {0x01: 0, 0x20: 5, 0xFF: 9}[mask]
    offsets = sorted({*used[first::STEP], *range(16 + first % 4, 100, 4), *unused[first :: 50 * STEP]})
    seen = 0
    for flip in flips(file, offsets, mask):
        assert flip.same, f"byte {flip.offset} ({flip.kind}) changed what the ledger says, and verify did not see it"
        assert flip.seen or flip.kind in UNSEEN, f"byte {flip.offset}: {flip.kind} is not in the list"
        assert not flip.seen or flip.kind != "unused"
        seen += flip.seen
    assert seen > 0.8 * len(used) / STEP
    assert file.read_bytes() == body


def test_a_page_that_claims_more_cells_than_it_has_is_an_end_and_a_finding(tmp_path: Path) -> None:
    """L3. Reading it gives the same rows again and again, in no order."""
    file = small_ledger(tmp_path)
    kinds = Anatomy(file.read_bytes()).kinds
    counts = [at + 4 for at in range(PAGE_BYTES, len(kinds), PAGE_BYTES) if kinds[at] == "page"]
    assert len(counts) > 20
    assert all(flip.seen for flip in flips(file, counts, 0x20))


@pytest.fixture
def note(path: Path) -> Path:
    """A signed checkpoint of a whole ledger of twelve events, that lies elsewhere."""
    with Ledger.open(path) as ledger:
        ledger.append_batch([(NewEvent(event=history.load_started()), NewEvent(event=history.load_completed()))])
        for number in range(5):
            ledger.append_batch([(NewEvent(event=history.decided(f"a-{number}")), NewEvent(event=history.granted(f"a-{number}")))])
    target = path.with_name("posted")
    make_checkpoint(path, KEY, target, record=False)
    return target


def against(path: Path, note: Path) -> Report:
    return verify(path, given=Given.read([note], [KEY.public]))


def classes(report: Report) -> set[str]:
    return {problem.cls for problem in report.problems}


COLUMNS = "stream, version, event_id, type, schema, occurred_ns, recorded_ns, late, payload, salt, payload_hash, chain"
ANY_VALUE = "PRAGMA ignore_check_constraints = 1"
BY_HAND: dict[str, tuple[set[str], list[str]]] = {
    "removed": ({"gap"}, ["DELETE FROM event WHERE seq = 5"]),
    "removed, and the others moved up": (
        {"chain", "version"},
        ["DELETE FROM event WHERE seq = 5", *(f"UPDATE event SET seq = {seq - 1} WHERE seq = {seq}" for seq in range(6, 13))],
    ),
    "the first removed": ({"gap"}, ["DELETE FROM event WHERE seq = 1"]),
    "exchanged": (
        {"chain"},
        [
            "UPDATE event SET seq = -1 WHERE seq = 5",
            "UPDATE event SET seq = 5 WHERE seq = 7",
            "UPDATE event SET seq = 7 WHERE seq = -1",
        ],
    ),
    "replaced by another row": (
        {"chain", "stream"},
        ["UPDATE event SET (payload, salt, payload_hash) = (SELECT payload, salt, payload_hash FROM event WHERE seq = 8) WHERE seq = 6"],
    ),
    "spliced": (
        {"chain"},
        [
            "ATTACH '{other}' AS other",
            "DELETE FROM event WHERE seq = 5",
            f"INSERT INTO event (seq, {COLUMNS}) SELECT seq, {COLUMNS} FROM other.event WHERE seq = 5",
        ],
    ),
    "a tail of another ledger": (
        {"chain"},
        [
            "ATTACH '{other}' AS other",
            "DELETE FROM event WHERE seq > 8",
            f"INSERT INTO event (seq, {COLUMNS}) SELECT seq, {COLUMNS} FROM other.event WHERE seq > 8",
        ],
    ),
    "invented": (
        {"chain"},
        [
            "INSERT INTO event SELECT 13, 'ledger', 1, 'forged', 'ledger.gap', 1, 1, 1, 0,"
            ' \'{{"from_ns":1,"lost":0,"merged":0,"to_ns":1,"why":""}}\', salt, payload_hash, chain FROM event WHERE seq = 12'
        ],
    ),
    "a flag that is neither yes nor no": ({"file", "late"}, [ANY_VALUE, "UPDATE event SET late = 2 WHERE seq = 6"]),
    "a flag that reads as yes": ({"file"}, [ANY_VALUE, "UPDATE event SET late = -1 WHERE seq = 1"]),
    "cut off, without what was derived": ({"projection"}, ["DELETE FROM event WHERE seq > 10"]),
}
"""What somebody does by hand, and what verify calls it whether or not there is a checkpoint."""


@pytest.mark.parametrize("what", BY_HAND)
def test_rows_that_were_changed_by_hand_are_found_without_any_checkpoint(path: Path, note: Path, tmp_path: Path, what: str) -> None:
    """L3."""
    expected, statements = BY_HAND[what]
    other = tmp_path / "other.sqlite"
    with Ledger.open(path, read_only=True) as source:
        forge(other, list(source.events()), origin="ab" * 16)
    tamper(path, *(statement.format(other=other) for statement in statements))
    assert expected <= classes(verify(path))
    assert expected < classes(against(path, note))


def forge(target: Path, events: Sequence[StoredEvent], origin: str) -> None:
    """A ledger that says these events, of this origin, made with the product's own code: nothing in it is wrong."""
    Ledger.open(target).close()
    tamper(target, f"UPDATE meta SET value = '{origin}' WHERE key = 'origin'")
    with Ledger.open(target) as ledger:
        for item in events:
            (seqs,) = ledger.append_batch([(NewEvent(event=item.event, event_id=item.event_id, occurred_ns=item.occurred_ns),)])
            assert isinstance(seqs, list)


def elsewhere(item: StoredEvent) -> StoredEvent:
    assert isinstance(item.event, ev.AttachDecided)
    return msgspec.structs.replace(item, event=msgspec.structs.replace(item.event, host="elsewhere"))


WITH_THE_CODE: dict[str, tuple[str, Callable[[list[StoredEvent]], list[StoredEvent]]]] = {
    "removed": ("truncated", lambda events: events[:4] + events[6:]),
    "removed, and filled up": ("rewritten", lambda events: events[:4] + events[6:] + events[4:6]),
    "changed": ("rewritten", lambda events: [*events[:4], elsewhere(events[4]), *events[5:]]),
    "the newest changed": ("rewritten", lambda events: [*events[:10], elsewhere(events[10]), events[11]]),
    "cut off": ("truncated", lambda events: events[:10]),
    "the same once more": ("rewritten", lambda events: events),
}
"""What somebody does who writes all of it anew. The last: with other salts and other times of recording even the same is another ledger."""


@pytest.mark.parametrize("what", WITH_THE_CODE)
def test_a_ledger_that_was_written_anew_is_found_with_a_checkpoint_and_said_to_be_invisible_without(
    path: Path, note: Path, tmp_path: Path, what: str
) -> None:
    """L3."""
    expected, change = WITH_THE_CODE[what]
    forged = tmp_path / "forged.sqlite"
    with Ledger.open(path, read_only=True) as ledger:
        forge(forged, change(list(ledger.events())), ledger.origin)
    report = verify(forged)
    assert report.ok
    assert report.notes == [TRUNCATION_NOTE]
    assert classes(against(forged, note)) == {expected}


def test_a_cut_that_leaves_no_trace_in_the_file_is_found_with_a_checkpoint_only(path: Path, note: Path) -> None:
    """L3: an older copy of the file, which is whole in every respect."""
    older = path.with_name("older.sqlite")
    connection = sqlite3.connect(path)
    connection.execute("VACUUM INTO ?", (str(older),))
    connection.close()
    with Ledger.open(path) as ledger:
        ledger.append_batch([(NewEvent(event=history.decided("a-9")),)])
    make_checkpoint(path, KEY, note, record=False)
    assert verify(older).ok
    assert verify(older).notes == [TRUNCATION_NOTE]
    assert classes(against(older, note)) == {"truncated"}
    assert against(path, note).ok
