"""What was signed still holds after a drop, a redaction and a restore, and each of them can be exported and checked elsewhere."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from support import history
from support.segments import LATER_NS, add, three_segments

from wcache.core.model.errors import LedgerCorrupt, NotFound, UsageError
from wcache.ledger import verify_export
from wcache.ledger.against import Given
from wcache.ledger.backup import backup
from wcache.ledger.export import export
from wcache.ledger.note import SignedCheckpoint, read_checkpoint
from wcache.ledger.proofs import check_proof, prove_consistency, prove_inclusion
from wcache.ledger.redact import redact
from wcache.ledger.restore import restore
from wcache.ledger.retention import drop_segments
from wcache.ledger.signed_checkpoint import default_path, make_checkpoint
from wcache.ledger.signing import SigningKey
from wcache.ledger.store import Ledger
from wcache.ledger.verify import verify

KEY = SigningKey("example.com/log", bytes(range(32)))
KEYS = [KEY.public]


def checked(path: Path, checkpoint: SignedCheckpoint) -> list[tuple[int, str]]:
    """What the program for a machine without wcache says of an export."""
    found: list[tuple[int, str]] = []
    lines = (line.decode() + "\n" for line in export(path))
    verify_export.check(lines, *verify_export.open_note(checkpoint.text, KEY.public.text), lambda seq, what: found.append((seq, what)))
    return found


def problems(path: Path, *notes: Path) -> list[tuple[int | None, str]]:
    return [(problem.seq, problem.cls) for problem in verify(path, given=Given.read(notes, KEYS)).problems]


@pytest.fixture
def signed(path: Path) -> tuple[Path, Path]:
    """A ledger of three segments, and a checkpoint of all of them that lies elsewhere; after it came three events."""
    note = path.with_name("posted")
    make_checkpoint(three_segments(path), KEY, note)
    with Ledger.open(path) as ledger:
        add(ledger, (history.lease_ended("a-6"), history.lease_ended("a-7")))
    return path, note


def redacted(path: Path) -> None:
    redact(path, [21, 22], "asked for")


def shortened(path: Path) -> None:
    drop_segments(path, now_ns=LATER_NS)


CHANGES: dict[str, Callable[[Path], None]] = {
    "redacted": redacted,
    "shortened": shortened,
    "both": lambda path: (redacted(path), shortened(path))[0],
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_was_signed_before_holds_after(signed: tuple[Path, Path], change: str) -> None:
    path, note = signed
    checkpoint = read_checkpoint(note)
    CHANGES[change](path)
    assert problems(path, note) == []
    assert checked(path, checkpoint) == []
    made = make_checkpoint(path, KEY, note)
    assert made.new
    assert made.previous_size == checkpoint.size
    assert problems(path, note) == []
    assert checked(path, made.checkpoint) == []
    text = prove_consistency(path, checkpoint.size, made.checkpoint)
    assert check_proof(text, KEYS, checkpoint).old_size == checkpoint.size
    with Ledger.open(path, read_only=True) as ledger:
        seqs = [item.seq for item in ledger.events()]
    for seq in (seqs[0], seqs[-3]):
        shown = check_proof(prove_inclusion(path, seq, made.checkpoint), KEYS)
        assert shown.event is not None
        assert shown.event["seq"] == seq


def test_an_export_of_a_shortened_ledger_begins_where_the_ledger_does_and_says_what_is_gone(signed: tuple[Path, Path]) -> None:
    path, note = signed
    whole = [json.loads(line) for line in export(path)]
    shortened(path)
    first, event, *_ = [json.loads(line) for line in export(path)]
    assert (first["after_seq"], event["seq"]) == (first["after_seq"], first["after_seq"] + 1)
    assert first["after_seq"] > 30
    assert first["chain"] == whole[first["after_seq"]]["chain"]
    assert len(first["frontier"]) == bin(first["after_seq"]).count("1")
    with pytest.raises(NotFound, match="those before were dropped"):
        prove_inclusion(path, 3, read_checkpoint(note))


def test_a_change_within_what_remains_of_a_shortened_ledger_is_found(signed: tuple[Path, Path]) -> None:
    from support.tamper import tamper

    path, note = signed
    shortened(path)
    tamper(path, "UPDATE event SET recorded_ns = recorded_ns + 1 WHERE seq = (SELECT min(seq) + 1 FROM event)")
    assert (None, "rewritten") in problems(path, note)
    assert checked(path, read_checkpoint(note))


def test_a_frontier_that_stands_for_other_events_is_found(signed: tuple[Path, Path]) -> None:
    """What is gone cannot be exchanged for something else that is gone."""
    path, note = signed
    shortened(path)
    checkpoint = read_checkpoint(note)
    lines = [line.decode() + "\n" for line in export(path)]
    first = json.loads(lines[0])
    first["frontier"][0] = "ab" * 32
    found: list[int] = []
    changed = iter([json.dumps(first, separators=(",", ":")) + "\n", *lines[1:]])
    verify_export.check(changed, *verify_export.open_note(checkpoint.text, KEY.public.text), lambda seq, what: found.append(seq))
    assert found == [checkpoint.size]


def test_a_checkpoint_of_dropped_events_alone_cannot_be_compared_and_that_is_said(path: Path) -> None:
    from wcache.ledger.segments import close_segment

    note = path.with_name("posted")
    with Ledger.open(path) as ledger:
        add(ledger, (history.load_started(), history.load_completed()))
        make_checkpoint(path, KEY, note)
        add(ledger, (history.decided("a-1"), history.granted("a-1"), history.lease_ended("a-1")))
        close_segment(ledger)
    shortened(path)
    report = verify(path, given=Given.read([note], KEYS))
    assert report.ok
    assert any("which were dropped: it cannot be compared any more" in text for text in report.notes)
    with pytest.raises(UsageError, match="dropped"):
        make_checkpoint(path, KEY, note)
    assert make_checkpoint(path, KEY).new  # in another file; what the ledger recorded about dropped events is no obstacle


def test_a_restored_ledger_is_what_was_signed_up_to_the_backup_and_goes_on_under_its_own_name(
    signed: tuple[Path, Path], tmp_path: Path
) -> None:
    path, note = signed
    before = read_checkpoint(note)
    saved = tmp_path / "backup.sqlite"
    assert backup(path, saved).ok
    target = tmp_path / "elsewhere" / "ledger.sqlite"
    done = restore(saved, target)
    assert problems(target, note) == []
    assert checked(target, before) == []
    made = make_checkpoint(target, KEY, note)
    assert made.checkpoint.ledger == done.origin != before.ledger
    assert problems(target, note) == []
    assert checked(target, made.checkpoint) == []
    grown = check_proof(prove_consistency(target, before.size, made.checkpoint), KEYS, before)
    assert (grown.old_origin, grown.old_size) == (before.origin, before.size)
    for seq, checkpoint in ((3, before), (3, made.checkpoint), (done.opened_seq, made.checkpoint)):
        shown = check_proof(prove_inclusion(target, seq, checkpoint), KEYS)
        assert shown.event is not None
        assert shown.event["seq"] == seq
    assert verify(target).ok


def test_what_the_lost_ledger_had_signed_after_the_backup_is_said_to_be_lost(signed: tuple[Path, Path], tmp_path: Path) -> None:
    path, _ = signed
    saved, later = tmp_path / "backup.sqlite", tmp_path / "later"
    backup(path, saved)
    with Ledger.open(path) as ledger:
        add(ledger, (history.decided("a-8"),))
    make_checkpoint(path, KEY, later)
    target = tmp_path / "elsewhere" / "ledger.sqlite"
    done = restore(saved, target)
    report = verify(target, given=Given.read([later], KEYS))
    assert [problem.cls for problem in report.problems] == ["truncated"]
    assert f"lost when a backup was restored at seq {done.opened_seq}" in report.problems[0].text
    with pytest.raises(LedgerCorrupt, match="older copy"):
        make_checkpoint(target, KEY, later)
    assert make_checkpoint(target, KEY, default_path(target)).new
