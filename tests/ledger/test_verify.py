"""L3: what was done to the file is found, named by seq and class, and all of it; damage never ends in a traceback."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest
from support import history

from wcache.core.model import events as ev
from wcache.core.model.errors import LedgerCorrupt, NotFound
from wcache.ledger.chain import Chain, payload_hash
from wcache.ledger.knowledge import Knowledge
from wcache.ledger.leaves import roots
from wcache.ledger.reading import reading
from wcache.ledger.segments import read_history
from wcache.ledger.store import Ledger, NewEvent
from wcache.ledger.verify import TRUNCATION_NOTE, verify, verify_to


def filled(path: Path, count: int = 20) -> Path:
    with Ledger.open(path) as ledger:
        ledger.append_batch([(NewEvent(event=history.load_started(), event_id="start"), NewEvent(event=history.load_completed()))])
        for number in range(count):
            ledger.append_batch([(NewEvent(event=history.decided(f"a-{number}")), NewEvent(event=history.granted(f"a-{number}")))])
    return path


def tamper(path: Path, change: Callable[[sqlite3.Connection], object]) -> None:
    """As somebody would who may write the file: without the triggers, which are put back."""
    connection = sqlite3.connect(path, isolation_level=None)
    triggers = connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
    for name, _ in triggers:
        connection.execute(f"DROP TRIGGER {name}")
    change(connection)
    for _, sql in triggers:
        connection.execute(sql)
    connection.close()


def found(path: Path) -> list[tuple[int | None, str]]:
    return [(problem.seq, problem.cls) for problem in verify(path).problems]


def test_a_sound_ledger_has_no_problems_and_the_report_says_what_it_cannot_show(path: Path) -> None:
    report = verify(filled(path))
    assert report.ok
    assert (report.events, report.head_seq) == (42, 42)
    assert report.notes == [TRUNCATION_NOTE]
    with Ledger.open(path, read_only=True) as ledger:
        assert (report.head_seq, report.head_chain, report.origin) == (*ledger.head(), ledger.origin)


def test_a_flipped_payload_byte(path: Path) -> None:
    filled(path)
    tamper(path, lambda db: db.execute("UPDATE event SET payload = replace(payload, 'node', 'nodf') WHERE seq = 5"))
    assert (5, "payload") in found(path)
    assert (None, "projection") in found(path)


def test_a_replaced_row_with_a_fresh_payload_hash(path: Path) -> None:
    filled(path)
    salt = b"s" * 16

    def change(db: sqlite3.Connection) -> None:
        body = db.execute("SELECT payload FROM event WHERE seq = 5").fetchone()[0].replace("node", "edon")
        db.execute(
            "UPDATE event SET payload = ?, salt = ?, payload_hash = ? WHERE seq = 5", (body, salt, payload_hash(salt, body.encode()))
        )

    tamper(path, change)
    assert (5, "chain") in found(path)
    assert (5, "payload") not in found(path)
    assert (6, "chain") not in found(path)


@pytest.mark.parametrize(
    ("column", "value"),
    [("occurred_ns", 1), ("recorded_ns", 1), ("late", 1), ("event_id", "other"), ("schema", 2), ("type", "attach.redecided")],
)
def test_any_other_changed_field(path: Path, column: str, value: object) -> None:
    filled(path)
    tamper(path, lambda db: db.execute(f"UPDATE event SET {column} = ? WHERE seq = 5", (value,)))
    assert (5, "chain") in found(path)


def test_a_removed_row_in_the_middle(path: Path) -> None:
    filled(path)
    tamper(path, lambda db: db.execute("DELETE FROM event WHERE seq IN (5, 9, 10)"))
    problems = found(path)
    assert {(6, "gap"), (11, "gap")} <= set(problems)


def test_removed_last_rows_show_in_the_projections_only_and_the_note_says_what_is_needed(path: Path) -> None:
    filled(path)

    def cut(db: sqlite3.Connection) -> None:
        db.execute("DELETE FROM event WHERE seq > 40")

    tamper(path, cut)
    report = verify(path)
    assert {problem.cls for problem in report.problems} == {"projection"}
    assert "signed checkpoint" in report.notes[0]


def test_a_spliced_row_from_another_ledger(path: Path, tmp_path: Path) -> None:
    filled(path)
    other = filled(tmp_path / "other.sqlite")

    def splice(db: sqlite3.Connection) -> None:
        db.execute("ATTACH ? AS other", (str(other),))
        db.execute("DELETE FROM event WHERE seq = 7")
        db.execute("INSERT INTO event SELECT * FROM other.event WHERE seq = 7")

    tamper(path, splice)
    assert [problem for problem in found(path) if problem[1] != "projection"] == [(7, "chain"), (8, "chain")]


def test_an_illegal_event_that_was_chained_properly(path: Path) -> None:
    """Somebody with the code and the file can chain anything; the state machines still say that it cannot have happened."""
    filled(path, 1)

    def forge(db: sqlite3.Connection) -> None:
        origin = db.execute("SELECT value FROM meta WHERE key = 'origin'").fetchone()[0]
        (previous,) = db.execute("SELECT chain FROM event WHERE seq = 4").fetchone()
        body = ev.encode_payload(history.granted("a-0"))
        hashed = payload_hash(b"s" * 16, body)
        leaf = Chain(origin).leaf(5, "attach/a-0", 3, "lease.granted", 1, "forged", 1, 1, False, hashed)
        row = (5, "attach/a-0", 3, "forged", "lease.granted", 1, 1, 1, 0, body.decode(), b"s" * 16, hashed, Chain.link(previous, leaf))
        db.execute(f"INSERT INTO event VALUES ({','.join('?' * 13)})", row)

    tamper(path, forge)
    assert (5, "transition") in found(path)
    assert (5, "chain") not in found(path)


def test_missing_triggers_and_foreign_tables(path: Path) -> None:
    filled(path)
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("DROP TRIGGER event_no_delete")
    connection.execute("CREATE TABLE extra (a)")
    connection.close()
    texts = [problem.text for problem in verify(path).problems]
    assert texts == ["table extra does not belong to the ledger", "trigger event_no_delete is missing"]


def test_all_problems_are_reported_not_only_the_first(path: Path) -> None:
    filled(path)

    def change(db: sqlite3.Connection) -> None:
        db.execute("UPDATE event SET payload = '{}' WHERE seq IN (3, 11)")
        db.execute("UPDATE event SET version = 9 WHERE seq = 20")
        db.execute("UPDATE event SET late = 1 WHERE seq = 30")

    tamper(path, change)
    assert {(3, "payload"), (3, "decode"), (11, "payload"), (20, "chain"), (20, "version"), (30, "chain"), (30, "late")} <= set(found(path))


def test_a_corrupt_page_is_named_and_the_rows_behind_it_are_still_checked(path: Path) -> None:
    filled(path, 200)
    connection = sqlite3.connect(path)
    page_bytes = connection.execute("PRAGMA page_size").fetchone()[0]
    connection.close()
    body = bytearray(path.read_bytes())
    start = body.index(b'"attach":"a-100"') // page_bytes * page_bytes
    body[start : start + page_bytes] = b"\xa5" * page_bytes
    path.write_bytes(body)
    report = verify(path)
    assert "file" in {problem.cls for problem in report.problems}
    assert report.head_seq == 402
    assert 300 < report.events < 402


@pytest.mark.parametrize("share", [0.0001, 0.3, 0.5, 0.9])
def test_half_a_file_is_one_clear_finding(path: Path, share: float) -> None:
    filled(path, 100)
    body = path.read_bytes()
    path.write_bytes(body[: int(len(body) * share)])
    report = verify(path)
    assert not report.ok
    assert all("\n" not in problem.text for problem in report.problems)
    assert report.problems[0].cls in ("file", "schema")


@pytest.mark.parametrize("body", [b"not a database, just some text that is long enough to be looked at" * 20, b"\0" * 5000])
def test_a_file_that_is_no_database(path: Path, body: bytes) -> None:
    path.parent.mkdir()
    path.write_bytes(body)
    report = verify(path)
    assert not report.ok
    for open_it in (Ledger.open, Knowledge):
        with pytest.raises((LedgerCorrupt, NotFound)):
            open_it(path)


@pytest.mark.parametrize("text", ["d" * 32, "attach/needle"])
def test_an_index_that_is_not_that_of_the_rows(path: Path, text: str) -> None:
    """Appends look events up by their ids and streams: an index that lies would let one come twice."""
    filled(path)
    with Ledger.open(path) as ledger:
        ledger.append("attach/needle", 0, "d" * 32, history.decided("needle"))
    body = path.read_bytes()
    places = [at for at in range(len(body)) if body.startswith(text.encode(), at)]
    assert len(places) >= 2  # in the row and in its index, at least
    classes = set()
    for at in places:
        changed = bytearray(body)
        changed[at + 3] ^= 1
        path.write_bytes(changed)
        problems = verify(path).problems
        assert problems, at
        classes |= {(problem.cls, problem.text) for problem in problems}
    assert ("file", "an index of the events is not that of the rows") in classes


def test_index_entries_that_exchange_their_rows_are_found_whatever_their_numbers_add_up_to(path: Path) -> None:
    """Twelve times, because a sum of hashes in which numbers are not keyed finds this every other time."""
    with Ledger.open(filled(path)) as ledger:
        names = [f"{number:032x}" for number in range(24)]
        seqs = [ledger.append(f"attach/x-{number}", 0, name, history.decided(f"x-{number}")) for number, name in enumerate(names)]
    body = path.read_bytes()
    for one, other in zip(range(0, 24, 2), range(1, 24, 2), strict=True):
        changed = bytearray(body)
        for name, before, after in ((names[one], seqs[one], seqs[other]), (names[other], seqs[other], seqs[one])):
            entry = name.encode() + bytes([before])  # the record of an index: the key, then the row
            assert body.count(entry) == 1
            changed[body.index(entry) + len(name)] = after
        path.write_bytes(changed)
        assert [problem.text for problem in verify(path).problems] == ["an index of the events is not that of the rows"]


def test_a_schema_that_is_no_text_any_more_is_one_clear_finding(path: Path) -> None:
    filled(path)
    body = bytearray(path.read_bytes())
    at = body.index(b"CREATE TABLE residency")
    body[at : at + 3] = b"\xff\x9a\xff"
    path.write_bytes(body)
    (problem,) = verify(path).problems
    assert problem.cls == "file"


def test_an_absent_ledger_is_not_found(path: Path) -> None:
    with pytest.raises(NotFound):
        verify(path)


def _change_much(db: sqlite3.Connection) -> None:
    db.execute("UPDATE event SET payload = '{}' WHERE seq IN (3, 11)")
    db.execute("UPDATE event SET version = 9 WHERE seq = 20")
    db.execute("UPDATE event SET late = 1 WHERE seq = 30")
    db.execute("UPDATE event SET type = 'what.ever' WHERE seq = 31")
    db.execute("UPDATE event SET payload = NULL WHERE seq = 32")
    db.execute("DELETE FROM event WHERE seq = 36")
    db.execute("UPDATE event SET chain = zeroblob(32) WHERE seq = 38")


def _change_rows(db: sqlite3.Connection) -> None:
    db.execute("UPDATE attach SET decision = 'fallback' WHERE attach = 'a-3'")
    db.execute("UPDATE attach SET seq = 1000 WHERE attach = 'a-4'")
    db.execute("DELETE FROM attach WHERE attach = 'a-5'")
    db.execute(f"INSERT INTO attach SELECT 'none', -5, {_columns(db)} FROM attach WHERE attach = 'a-6'")
    db.execute("UPDATE stream SET version = 7 WHERE stream = 'attach/a-7'")
    db.execute("DELETE FROM stream WHERE stream = 'attach/a-8'")
    db.execute("INSERT INTO stream VALUES ('attach/nothing', 1, '')")
    db.execute("UPDATE policy SET body = '{}'")
    db.execute("UPDATE residency SET state = 'released'")
    db.execute("INSERT INTO contradiction VALUES (9, 'k', 'w', '[]')")


def _columns(db: sqlite3.Connection) -> str:
    return ", ".join(row[1] for row in db.execute("PRAGMA table_info(attach)") if row[1] not in ("attach", "seq"))


@pytest.mark.parametrize("change", [_change_much, _change_rows])
def test_blocks_and_helpers_find_what_one_pass_finds(
    path: Path, monkeypatch: pytest.MonkeyPatch, change: Callable[[sqlite3.Connection], object]
) -> None:
    """Attaches that live in several blocks, rows that claim to belong to another block, and processes that each see a part."""
    with Ledger.open(filled(path)) as ledger:
        for number in range(20):
            ledger.append_batch([(NewEvent(event=history.mapped(f"a-{number}")),), (NewEvent(event=history.lease_ended(f"a-{number}")),)])
    tamper(path, change)
    whole = verify(path)
    assert whole.problems
    for size in (1, 7, 30):
        monkeypatch.setattr("wcache.ledger.replay.BLOCK_EVENTS", size)
        assert verify(path) == whole
    monkeypatch.setattr("wcache.ledger.verify.POOL_EVENTS", 1)
    monkeypatch.setattr("wcache.ledger.verify.helpers", lambda: 2)
    with monkeypatch.context() as patched:
        patched.setattr("sys.executable", "/bin/false")  # helpers that end at once
        assert verify(path) == whole
    monkeypatch.setattr("wcache.ledger.verify.Examiner", None)  # so it is the helpers who do it
    assert verify(path) == whole


@pytest.mark.parametrize("size", [1, 7, 30, 1000])
def test_the_root_over_any_number_of_events_is_known_as_far_as_no_row_is_missing(
    path: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    """The leaves are those that were hashed for the chain: nothing is read twice."""
    monkeypatch.setattr("wcache.ledger.replay.BLOCK_EVENTS", size)
    with reading(filled(path)) as (db, origin):
        wanted = roots(db, read_history(db, origin), range(43), path)
    assert [verify_to(path, size)[1] for size in range(43)] == list(wanted.values())
    assert verify_to(path, 43)[1] is None
    tamper(path, lambda db: db.execute("DELETE FROM event WHERE seq IN (20, 21, 22, 23, 24, 25, 26, 27)"))
    assert [verify_to(path, size)[1] for size in (0, 19, 20, 27, 42)] == [wanted[0], wanted[19], None, None, None]


def test_progress_is_told_up_to_the_end(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wcache.ledger.replay.BLOCK_EVENTS", 10)
    calls: list[tuple[int, int]] = []
    verify(filled(path), lambda done, total: calls.append((done, total)))
    assert [done for done, _ in calls] == sorted(done for done, _ in calls)
    assert len(calls) == 5
    assert calls[-1] == (42, 42)


def test_verifying_does_not_change_a_byte(path: Path, tmp_path: Path) -> None:
    filled(path)
    shutil.copy(path, tmp_path / "before")
    verify(path)
    assert path.read_bytes() == (tmp_path / "before").read_bytes()
