"""Redaction: words go for ever, whatever states, counts and proofs need stays, and the ledger verifies as before."""

from __future__ import annotations

import sqlite3
import tempfile
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support import history
from support.histories import event_of
from support.segments import FIRST, HASHED, LATER_NS, UNUSED, add, three_segments

from wcache.core.model import events as ev
from wcache.core.model.errors import NotFound, RequestRefused, UsageError
from wcache.core.model.vocabulary import REDACTED
from wcache.ledger.audit import Audit
from wcache.ledger.explain import explain
from wcache.ledger.knowledge import Knowledge
from wcache.ledger.redact import blanked, redact
from wcache.ledger.replay import replay
from wcache.ledger.retention import drop_segments
from wcache.ledger.segments import close_segment
from wcache.ledger.store import Ledger, NewEvent
from wcache.ledger.verify import verify

DECIDED = next(seq for seq, event in enumerate(FIRST, 1) if isinstance(event, ev.AttachDecided) and event.attach == "a-5")


def head_at(path: Path, seq: int) -> tuple[bytes, bytes]:
    connection = sqlite3.connect(path)
    found: tuple[bytes, bytes] = connection.execute("SELECT payload_hash, chain FROM event WHERE seq = ?", (seq,)).fetchone()
    connection.close()
    return found


def test_words_are_gone_from_the_file_and_decision_counts_and_chain_are_what_they_were(path: Path) -> None:
    secret = "/homes/somebody/very-secret"
    with Ledger.open(path) as ledger:
        add(ledger, FIRST)
        new = NewEvent(event=history.decided("a-9", asked=history.identity(secret), detail=secret))
        ((seq,),) = ledger.append_batch([(new,)])
        add(ledger, (history.granted("a-9"), history.mapped("a-9"), history.lease_ended("a-9")))
    with Audit(path) as audit:
        before = audit.summary()
    held = head_at(path, seq + 3)
    (done,) = redact(path, [seq], "request 17")
    assert DECIDED in done.also  # another of the same repository
    report = verify(path)
    assert report.ok and replay(path) == []
    assert any(f"redacted: seq {seq}" in note for note in report.notes)
    assert head_at(path, seq + 3) == held
    for entry in path.parent.iterdir():
        assert secret.encode() not in entry.read_bytes()
    with Audit(path) as audit:
        after = audit.summary()
        same = ("decisions", "tiers", "proofs", "attaches", "wrong_hits", "mapped_bytes", "origin")
        assert {name: before[name] for name in same} == {name: after[name] for name in same}
        row = audit.attach_at(seq)
        assert (row["checkpoint"], row["host"], row["decision"], row["launch"]) == (REDACTED, REDACTED, "hit", "l-1")
        sentences = explain(audit, seq).sentences
        assert any(REDACTED in line for line in sentences) and any("'request 17'" in line for line in sentences)
        said = audit.event(done.recorded_seq).event
        assert isinstance(said, ev.PayloadRedacted) and (said.target_seq, said.why) == (seq, "request 17")
    with Ledger.open(path) as ledger:  # a retry of what was redacted is still that event
        assert ledger.append_batch([(new,)]) == [[seq]]


def test_salt_goes_with_the_payload_so_that_nobody_can_try_payloads(path: Path) -> None:
    three_segments(path)
    redact(path, [DECIDED], "x")
    connection = sqlite3.connect(path)
    assert connection.execute("SELECT payload, salt FROM event WHERE seq = ?", (DECIDED,)).fetchone() == (None, None)
    connection.close()


@pytest.mark.parametrize("type_name", list(ev.EVENT_TYPES))
def test_what_is_kept_of_any_event_is_an_event_on_the_same_stream_that_does_the_same(type_name: str) -> None:
    event = event_of(type_name)
    kept = ev.decode_payload(type_name, type(event).schema, ev.msgspec.json.encode(blanked(event)))
    assert ev.stream_of(kept) == ev.stream_of(event)
    text = ev.encode_payload(kept).decode()
    assert "/models" not in text and "node" not in text


@pytest.mark.parametrize(
    ("wanted", "why"),
    [
        (ev.LoadCompleted, "the residency is resident"),
        (ev.TrustGranted, "the grant is in force"),
        (ev.VerifyFailed, "it refuted a hit"),
        (ev.DaemonStarted, "that daemon has no end"),
        (ev.FingerprintRecorded, "residency r-1 stands on it"),
        (ev.SegmentOpened, "what the ledger says about itself stays"),
    ],
)
def test_what_something_rests_on_is_refused(path: Path, wanted: type[ev.Event], why: str) -> None:
    three_segments(path)
    with Ledger.open(path, read_only=True) as ledger:
        seq = next(item.seq for item in ledger.events() if isinstance(item.event, wanted))
    with pytest.raises(RequestRefused, match=why):
        redact(path, [DECIDED, seq], "x")
    assert verify(path).notes == verify(three_segments(path.with_name("other"))).notes  # nothing was redacted


def test_a_redaction_needs_an_event_a_reason_and_happens_once(path: Path) -> None:
    three_segments(path)
    with pytest.raises(UsageError, match="a reason"):
        redact(path, [DECIDED], " ")
    with pytest.raises(NotFound, match="no such event"):
        redact(path, [900], "x")
    redact(path, [DECIDED], "x")
    with pytest.raises(UsageError, match="removed before"):
        redact(path, [DECIDED], "x")
    drop_segments(path, now_ns=LATER_NS)
    with pytest.raises(NotFound, match="dropped with its segment"):
        redact(path, [DECIDED], "x")


def test_a_redacted_fingerprint_is_no_evidence_until_it_is_taken_anew(path: Path) -> None:
    three_segments(path)
    with Ledger.open(path, read_only=True) as ledger:
        seq = next(item.seq for item in ledger.events(stream=f"fingerprint/{UNUSED.id()}"))
    redact(path, [seq], "x")
    knowledge = Knowledge(path)
    assert knowledge.fingerprint(UNUSED.id()) is None and knowledge.fingerprint(HASHED.id()) is not None
    knowledge.close()
    with Ledger.open(path) as ledger:
        add(ledger, (history.recorded(UNUSED),))
    assert verify(path).ok and replay(path) == []


def test_what_was_redacted_is_carried_over_a_drop_as_it_was_kept(path: Path) -> None:
    with Ledger.open(path) as ledger:
        add(ledger, FIRST)
        close_segment(ledger)
    redact(path, [DECIDED], "x")
    with Ledger.open(path) as ledger:
        add(ledger, (history.inconclusive("a-5"),))
    drop_segments(path, now_ns=LATER_NS)
    assert verify(path).ok
    with Audit(path) as audit:
        assert [row["checkpoint"] for row in audit.attaches() if row["attach"] == "a-5"] == [REDACTED]
        event = audit.event(DECIDED).event
        assert isinstance(event, ev.AttachDecided) and event.asked.spelling == REDACTED


@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    batch=st.lists(st.lists(history.events(), min_size=1, max_size=3), min_size=1, max_size=12), data=st.data(),
)  # fmt: skip
def test_any_history_verifies_after_any_redaction(batch: list[list[ev.Event]], data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory(prefix="wcache-redact-") as directory:
        path = Path(directory) / "ledger.sqlite"
        with Ledger.open(path) as ledger:
            ledger.append_batch([tuple(NewEvent(event=event) for event in history.legal_starts())])
            ledger.append_batch([tuple(NewEvent(event=event) for event in unit) for unit in batch])
            head = ledger.head()[0]
        for seq in data.draw(st.lists(st.integers(1, head), min_size=1, max_size=4, unique=True)):
            try:
                redact(path, [seq], "x")
            except RequestRefused:
                continue
        report = verify(path)
        assert report.ok, report.problems
        assert replay(path) == []


def test_a_payload_that_is_missing_without_a_record_is_found(path: Path) -> None:
    """L3"""
    three_segments(path)
    connection = sqlite3.connect(path)
    connection.execute("DROP TRIGGER event_no_update")
    connection.execute("UPDATE event SET payload = NULL, salt = NULL WHERE seq = ?", (DECIDED,))
    connection.commit()
    connection.close()
    assert (DECIDED, "payload") in [(problem.seq, problem.cls) for problem in verify(path).problems]
    assert time.time_ns() < LATER_NS
