"""Audit queries: what an operator asks a week later."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from freezegun import freeze_time
from support.corpus import make_checkpoint
from support.histories import ATTACH_EVENTS, GRANT_EVENTS, RESIDENCY_EVENTS, event_of
from support.past import Past

from wcache.core.model import events as ev
from wcache.core.model.errors import LedgerError, NotFound, UsageError
from wcache.core.model.evidence import Grant
from wcache.core.model.vocabulary import Outcome, Reason, TrustScope
from wcache.ledger.audit import ATTACH_COLUMNS, Audit, Window
from wcache.ledger.explain import explain
from wcache.ledger.headline import headline
from wcache.ledger.moment import parse_moment_ns, parse_span_ns, utc

HOUR_NS = 3600 * 1_000_000_000
NOON_NS = 1_764_417_600_000_000_000  # 2025-11-29T12:00:00Z
ASKED = ev.Identity("/models/a", "/models/a")


@pytest.fixture
def past(disk_path: Path) -> Iterator[Past]:
    past = Past(disk_path / "ledger.sqlite")
    yield past
    past.ledger.close()


@pytest.fixture
def served(past: Past, disk_path: Path) -> ev.LoadCompleted:
    return past.resident(make_checkpoint(disk_path / "base"), occurred_ns=NOON_NS)


def fell_back(past: Past, **about: object) -> int:
    return past.decided(ASKED, None, outcome=Outcome.FALLBACK, reason=Reason.NOT_RESIDENT, detail="no such table", **about)  # type: ignore[arg-type]


def test_rows_of_attaches_begin_with_exactly_the_promised_keys(past: Past, served: ev.LoadCompleted) -> None:
    past.decided(ASKED, served, occurred_ns=NOON_NS)
    with Audit(past.ledger.path) as audit:
        (row,) = audit.attaches()
    assert tuple(row)[: len(ATTACH_COLUMNS)] == ATTACH_COLUMNS
    assert (row["time"], row["decision"], row["served_digest"]) == ("2025-11-29T12:00:00.000Z", "hit", served.weights_digest)


def test_last_weeks_starts_that_were_not_mapped_are_one_question(past: Past, served: ev.LoadCompleted) -> None:
    """A2"""
    past.decided(ASKED, served, launch="l-ok", occurred_ns=NOON_NS)
    old = fell_back(past, launch="l-old", occurred_ns=NOON_NS - 8 * 24 * HOUR_NS)
    new = fell_back(past, launch="l-new", occurred_ns=NOON_NS - HOUR_NS)
    with Audit(past.ledger.path) as audit:
        assert [row["seq"] for row in audit.fallbacks()] == [old, new]
        (row,) = audit.fallbacks(Window(since_ns=NOON_NS - 7 * 24 * HOUR_NS))
        assert (row["seq"], row["reason"], row["detail"], row["idle_bytes"]) == (new, "not_resident", "no such table", 4096)
        assert [row["seq"] for row in audit.attaches(Window(limit=1))] == [new]
        assert [row["seq"] for row in audit.attaches(Window(launch="l-old", until_ns=NOON_NS - HOUR_NS * 24))] == [old]
        with pytest.raises(UsageError, match="several"):
            audit.launch_id("l-o")
        with pytest.raises(NotFound):
            audit.launch_id("l-none")


def test_a_launch_is_complete_only_with_every_rank_mapped(past: Past, served: ev.LoadCompleted) -> None:
    for rank in (0, 1):
        past.decided(ASKED, served, launch="l-4", rank=rank, world=4)
    fell_back(past, launch="l-4", rank=2, world=4)
    with Audit(past.ledger.path) as audit:
        found = audit.launch("l-4")
        assert not found["complete"]
        assert found["text"] == "2 of 4 ranks mapped, rank 2 fell back because not_resident: no such table, rank 3 never asked"
        audit.refresh()
        past.decided(ASKED, served, launch="l-4", rank=3, world=4, mapped=False)
        assert "rank 3 was granted weights and has not said that it mapped them" in audit.launch("l-4")["text"]
    past.decided(ASKED, served, launch="l-1rank")
    with Audit(past.ledger.path) as audit:
        assert audit.launch("l-1rank")["complete"]
        assert audit.launch("l-1rank")["text"] == "1 of 1 ranks mapped"


def test_the_checkpoints_of_a_launch_are_told_apart(past: Past, served: ev.LoadCompleted) -> None:
    """A draft model beside the model: which of the two was not mapped?"""
    past.decided(ASKED, served, launch="l-2")
    fell_back(past, launch="l-2")
    with Audit(past.ledger.path) as audit:
        assert audit.launch("l-2")["text"].startswith("0 of 1 ranks mapped, rank 0 fell back because")
    past.decided(msgspec.structs.replace(ASKED, spelling="/models/draft"), served, launch="l-2")
    with Audit(past.ledger.path) as audit:
        found = audit.launch("l-2")
    assert not found["complete"]
    assert found["text"] == f"0 of 1 ranks mapped, rank 0 fell back for {ASKED.spelling} because not_resident: no such table"


def test_a_miss_that_was_followed_by_a_hit_of_its_rank_is_still_told(past: Past, served: ev.LoadCompleted) -> None:
    """Processes that do not know their rank are all rank 0: one that was mapped must not hide one that was not."""
    fell_back(past, launch="l-again")
    past.decided(ASKED, served, launch="l-again")
    with Audit(past.ledger.path) as audit:
        found = audit.launch("l-again")
    assert found["complete"]
    assert found["text"] == "1 of 1 ranks mapped, before that rank 0 fell back because not_resident: no such table"


def test_a_draft_model_of_the_same_checkpoint_is_not_taken_for_its_target(past: Past, served: ev.LoadCompleted) -> None:
    fell_back(past, launch="l-draft")
    past.decided(ASKED, served, launch="l-draft", engine="vllm-draft")
    with Audit(past.ledger.path) as audit:
        found = audit.launch("l-draft")
    assert not found["complete"]
    assert found["text"] == "0 of 1 ranks mapped, rank 0 (vllm) fell back because not_resident: no such table"


def test_a_summary_counts_what_an_operator_must_not_miss(past: Past, served: ev.LoadCompleted, disk_path: Path) -> None:
    past.weak_hit(disk_path / "base", served)
    past.decided(ASKED, served, mapped=False)
    fell_back(past)
    past.decided(ASKED, None, outcome=Outcome.STRICT_MISS, reason=Reason.SUSPECT)
    past.append(ev.LedgerGap(from_ns=1, to_ns=2, merged=3, lost=1, why="disk full"))
    with Audit(past.ledger.path) as audit:
        found = audit.summary()
        head = audit.head()
    assert found["decisions"] == {"hit": 2, "fallback": 1, "strict_miss": 1}
    assert found["reasons"] == {"not_resident": 1, "suspect": 1}
    assert found["tiers"] == {"header": 1}
    assert found["proofs"] == {"unproven": 2}
    assert (found["wrong_hits"], found["unproven_below_pinned"], found["unfinished"]) == (0, 1, 1)
    assert (found["idle_bytes"], found["fallback_bytes"]) == (4096, 100)
    assert found["gaps"] == {"count": 1, "merged": 3, "lost": 1}
    assert (head["origin"], head["head"]) == (past.ledger.origin, past.ledger.head()[1])
    assert found["events"] == past.ledger.head()[0]


def test_a_redecided_hit_counts_as_what_it_became(past: Past, served: ev.LoadCompleted) -> None:
    seq = past.decided(ASKED, served, mapped=False)
    with Audit(past.ledger.path) as audit:
        attach = audit.attach_at(seq)["attach"]
    past.append(
        ev.MapFailed(attach=attach, code="mapping_failed", message="m"),
        ev.AttachRedecided(attach=attach, outcome=Outcome.FALLBACK, reason=Reason.MAPPING_FAILED, detail="bad seal"),
    )
    with Audit(past.ledger.path) as audit:
        (row,) = audit.attaches()
        assert (row["decision"], row["reason"], row["first_seq"]) == ("fallback", "mapping_failed", seq)
        assert not audit.hits()
        text = " ".join(explain(audit, seq).sentences)
        assert f"decided again at seq {row['seq']}" in text


def test_a_past_moment_shows_what_was_resident_mapped_and_trusted_then(past: Past, served: ev.LoadCompleted) -> None:
    grant = Grant(
        grant="g-1", scope=TrustScope.STORE, reason="r", operator_uid=0, granted_ns=NOON_NS, expires_ns=NOON_NS + HOUR_NS, prefix="/m"
    )
    past.append(ev.TrustGranted(grant=grant), occurred_ns=NOON_NS)
    seq = past.decided(ASKED, served, occurred_ns=NOON_NS + HOUR_NS // 2)
    with Audit(past.ledger.path) as audit:
        attach = audit.attach_at(seq)["attach"]
    past.append(ev.LeaseEnded(attach=attach, how="closed"), occurred_ns=NOON_NS + 2 * HOUR_NS)
    past.append(ev.ResidencyLost(residency=served.residency, why="daemon stopped"), occurred_ns=NOON_NS + 3 * HOUR_NS)
    with Audit(past.ledger.path) as audit:

        def seen(hours: float) -> tuple[int, int, int]:
            found = audit.at(NOON_NS + int(hours * HOUR_NS))
            return len(found["resident"]), len(found["mapped"]), len(found["grants"])

        assert [seen(hours) for hours in (-1, 0.25, 0.75, 1.5, 2.5, 4)] == [
            (0, 0, 0),
            (1, 0, 1),
            (1, 1, 1),
            (1, 1, 0),
            (1, 0, 0),
            (0, 0, 0),
        ]


def test_a_timeline_holds_a_residency_and_its_attaches_in_order(past: Past, served: ev.LoadCompleted) -> None:
    past.decided(ASKED, served)
    fell_back(past)
    with Audit(past.ledger.path) as audit:
        found = audit.timeline(served.residency)
    assert [item.type for item in found] == ["load.started", "load.completed", "attach.decided", "lease.granted", "map.completed"]
    assert [item.seq for item in found] == sorted(item.seq for item in found)


def test_grants_are_listed_with_their_state_and_use(past: Past, served: ev.LoadCompleted) -> None:
    content = served.fingerprints[0]
    for name, expires_ns in (("g-live", None), ("g-old", 2), ("g-gone", None)):
        grant = Grant(
            grant=name, scope=TrustScope.CHECKPOINT, reason="r", operator_uid=0, granted_ns=1, expires_ns=expires_ns, spellings=("/m",)
        )
        past.append(ev.TrustGranted(grant=grant))
    past.append(ev.TrustRevoked(grant="g-gone", operator_uid=0))
    past.decided(ASKED, served, (past.trusted("g-live", content, served.weights_digest, "n"),))
    with Audit(past.ledger.path) as audit:
        rows = {row["grant"]: (row["state"], row["hits"]) for row in audit.trust(NOON_NS)}
    assert rows == {"g-live": ("active", 1), "g-old": ("expired", 0), "g-gone": ("revoked", 0)}


@pytest.mark.parametrize("reason", list(Reason))
def test_an_explanation_says_what_to_do_about_every_miss(past: Past, reason: Reason) -> None:
    seq = past.decided(ASKED, None, outcome=Outcome.STRICT_MISS, reason=reason, detail="d")
    with Audit(past.ledger.path) as audit:
        text = "\n".join(explain(audit, seq).sentences)
    assert "vllm 0.33 on node" in text
    assert f"reason {reason}" in text
    assert "What to do: " in text
    assert "{" not in text


def test_every_event_has_a_headline_and_an_explanation(past: Past) -> None:
    for name in [*RESIDENCY_EVENTS, *ATTACH_EVENTS, *GRANT_EVENTS, "daemon.started", "daemon.stopped", "daemon.lost", "peer.refused"]:
        line = headline(event_of(name))
        assert line.endswith("."), name
        assert "object at" not in line
    for event_type in ev.EVENT_TYPES:
        assert headline(event_of(event_type))
    seq = past.append(event_of("ledger.gap"))[0]
    with Audit(past.ledger.path) as audit:
        assert explain(audit, seq).sentences
        with pytest.raises(NotFound, match="no such event"):
            explain(audit, 999)


def test_an_audit_works_beside_a_writer_and_sees_one_state(past: Past, served: ev.LoadCompleted) -> None:
    """L8"""
    with Audit(past.ledger.path) as audit:
        assert not audit.attaches()
        past.decided(ASKED, served)
        assert not audit.attaches()
        audit.refresh()
        assert len(audit.attaches()) == 1


AS_NOBODY = """
import os, sys
from wcache.core.model.errors import WcacheError
from wcache.ledger.audit import Audit
Audit(sys.argv[1]).head()  # whatever is imported late is imported while this is still root
os.setgid(65534)
os.setuid(65534)
try:
    print(Audit(sys.argv[2]).head()["events"])
except WcacheError as error:
    print(error.diagnostics())
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become another user")
def test_a_user_who_may_only_read_can_audit_with_and_without_a_writer(past: Past, short_path: Path) -> None:
    """L8"""
    short_path.chmod(0o755)
    other = Past(short_path / "ledger.sqlite")
    other.append(event_of("peer.refused"))

    def read_as_nobody() -> str:
        command = [sys.executable, "-c", AS_NOBODY, str(past.ledger.path), str(other.ledger.path)]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    def let_everybody_read() -> None:
        for side in short_path.iterdir():
            side.chmod(0o644)

    try:
        assert "permissions" in read_as_nobody()  # says how to make it work
        let_everybody_read()
        assert read_as_nobody() == "1\n"  # beside a writer
        other.ledger.close()
        let_everybody_read()
        assert read_as_nobody() == "1\n"  # nobody writes, and this user cannot make the side files of WAL
    finally:
        other.ledger.close()


def test_a_missing_or_foreign_file_is_one_clear_line(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="there is no ledger"):
        Audit(tmp_path / "none.sqlite")
    sqlite3.connect(tmp_path / "other.sqlite").execute("CREATE TABLE t (x)")
    with pytest.raises(LedgerError, match="no ledger"):
        Audit(tmp_path / "other.sqlite")


@freeze_time("2025-11-29T12:00:00Z")
def test_moments_are_read_as_people_write_them() -> None:
    now_ns = time.time_ns()
    assert now_ns == NOON_NS
    assert parse_moment_ns("1h", now_ns) == NOON_NS - HOUR_NS
    assert parse_moment_ns("30d", now_ns, ahead=True) == NOON_NS + 30 * 24 * HOUR_NS
    assert parse_moment_ns("2025-11-29T12:00:00Z", now_ns) == NOON_NS
    assert parse_moment_ns("2025-11-29T13:00:00+01:00", now_ns) == NOON_NS
    assert parse_moment_ns("2025-11-29", now_ns) == NOON_NS - 12 * HOUR_NS
    assert parse_span_ns("1.5m") == 90_000_000_000
    assert utc(NOON_NS + 1_500_000) == "2025-11-29T12:00:00.001Z"
    with pytest.raises(UsageError, match="no time"):
        parse_moment_ns("yesterday-ish", now_ns)
