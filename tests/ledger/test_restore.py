"""Restoring a backup: verified first, under a new origin, and never over anything."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
from support import history
from support.segments import LATER_NS, add, three_segments

from wcache.core.model import events as ev
from wcache.core.model.errors import LedgerCorrupt, LedgerUnavailable, NotFound, UsageError
from wcache.ledger.audit import Audit
from wcache.ledger.backup import backup
from wcache.ledger.leaves import roots
from wcache.ledger.redact import redact
from wcache.ledger.replay import replay
from wcache.ledger.restore import restore
from wcache.ledger.retention import drop_segments
from wcache.ledger.segments import close_segment, read_history
from wcache.ledger.store import Ledger
from wcache.ledger.verify import verify


@pytest.fixture
def saved(path: Path, tmp_path: Path) -> Path:
    three_segments(path)
    target = tmp_path / "backup.sqlite"
    assert backup(path, target).ok
    return target


def origin_of(path: Path) -> str:
    with Ledger.open(path, read_only=True) as ledger:
        return ledger.origin


def root_of(path: Path, size: int) -> bytes:
    connection = sqlite3.connect(path)
    try:
        return roots(connection, read_history(connection, origin_of(path)), {size}, path)[size]
    finally:
        connection.close()


def test_a_restored_ledger_continues_the_old_one_under_a_new_origin_and_says_so(path: Path, saved: Path, tmp_path: Path) -> None:
    target = tmp_path / "elsewhere" / "ledger.sqlite"
    done = restore(saved, target)
    assert (done.old_origin, done.lost, done.kept) == (origin_of(path), 0, None)
    assert done.origin == origin_of(target) != done.old_origin
    report = verify(target)
    assert report.ok and replay(target) == []
    assert any(f"restored from a backup behind seq {done.last_seq}" in note and done.old_origin in note for note in report.notes)
    assert root_of(target, done.last_seq) == root_of(path, done.last_seq)  # what was signed before still holds
    with Ledger.open(target) as ledger:
        opened, gap = ledger.events(done.last_seq)
        assert isinstance(opened.event, ev.SegmentOpened) and opened.event.origin == done.old_origin
        assert isinstance(gap.event, ev.LedgerGap) and gap.event.from_ns == done.newest_ns
        add(ledger, (history.lease_ended("a-6"),))
        close_segment(ledger)
    assert verify(target).ok
    assert verify(saved).ok and origin_of(saved) == done.old_origin  # the backup is what it was
    drop_segments(target, now_ns=LATER_NS)
    assert verify(target).ok


def test_two_ledgers_from_one_backup_cannot_be_taken_for_each_other(saved: Path, tmp_path: Path) -> None:
    for name in ("one", "two"):
        restore(saved, tmp_path / name / "ledger.sqlite")
    one, two = (sqlite3.connect(tmp_path / name / "ledger.sqlite") for name in ("one", "two"))
    last = "SELECT seq, chain FROM event ORDER BY seq DESC LIMIT 1"
    assert one.execute(last).fetchone()[0] == two.execute(last).fetchone()[0]
    assert one.execute(last).fetchone()[1] != two.execute(last).fetchone()[1]
    one.close()
    two.close()


def test_what_is_there_is_refused_or_kept_whole_and_its_later_events_are_counted_as_lost(path: Path, saved: Path) -> None:
    with Ledger.open(path) as ledger:
        add(ledger, (history.lease_ended("a-6"), history.daemon_started("d-2")))
        seq, link = ledger.head()
    with pytest.raises(UsageError, match="there is a ledger already"):
        restore(saved, path)
    done = restore(saved, path, replace=True)
    assert done.lost == 2 and done.kept is not None
    assert verify(path).ok
    kept = verify(Path(done.kept))
    assert (kept.ok, kept.head_seq, kept.head_chain) == (True, seq, link)
    with Audit(path) as audit:
        assert audit.summary()["gaps"] == {"count": 1, "merged": 0, "lost": 2}
    again = restore(saved, path, replace=True)  # within the same second
    assert again.kept is not None and again.kept != done.kept and Path(done.kept).exists()


def test_a_ledger_that_is_broken_is_replaced_and_kept_with_its_log(path: Path, saved: Path) -> None:
    log = path.with_name(path.name + "-wal")
    logged = b"no log either" * 1000
    path.write_bytes(b"no database at all, this is" + path.read_bytes()[27:])
    log.write_bytes(logged)
    done = restore(saved, path, replace=True)
    assert verify(path).ok and done.kept is not None
    assert Path(done.kept).read_bytes()[:11] == b"no database"
    assert Path(done.kept + "-wal").read_bytes() == logged


def test_a_backup_that_does_not_verify_is_not_restored(path: Path, saved: Path, tmp_path: Path) -> None:
    connection = sqlite3.connect(saved)
    connection.execute("DROP TRIGGER event_no_update")
    connection.execute("UPDATE event SET payload = replace(payload, 'node', 'nodf') WHERE seq = 13")
    connection.commit()
    connection.close()
    before = verify(path)
    with pytest.raises(LedgerCorrupt, match="problems"):
        restore(saved, path, replace=True)
    assert verify(path) == before and before.ok
    (tmp_path / "no").write_bytes(b"x" * 5000)
    for source, error in ((tmp_path / "no", LedgerCorrupt), (tmp_path / "absent", NotFound)):
        with pytest.raises(error):
            restore(source, tmp_path / "new" / "ledger.sqlite")
        assert not (tmp_path / "new" / "ledger.sqlite").exists()
    with pytest.raises(UsageError, match="the ledger itself"):
        restore(path, path, replace=True)


def test_a_ledger_in_use_is_not_replaced(path: Path, saved: Path) -> None:
    with Ledger.open(path) as ledger:
        with pytest.raises(LedgerUnavailable, match="has the ledger open"):
            restore(saved, path, replace=True)
        add(ledger, (history.daemon_started("d-2"),))
    assert verify(path).ok


def test_what_was_shortened_and_redacted_can_be_backed_up_and_restored(path: Path, saved: Path, tmp_path: Path) -> None:
    redact(path, [24], "x")
    drop_segments(path, now_ns=LATER_NS)
    target = tmp_path / "shortened.sqlite"
    assert backup(path, target).ok
    done = restore(target, path, replace=True)
    assert done.first_seq > 1
    assert verify(path).ok and replay(path) == []
