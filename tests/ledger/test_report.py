"""Reports: they tell what the ledger says, all of it, nothing else, and what they do not show."""

from __future__ import annotations

import base64
import csv
import io
import json
import sqlite3
import sys
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
from freezegun import freeze_time
from support.commands import Cli, in_process
from support.corpus import make_checkpoint
from support.month import END, FIRST, IDLE_BYTES, MAPPED_BYTES, OPERATOR, Month
from support.past import Past
from support.segments import LATER_NS, three_segments

from wcache.core.model import events as ev
from wcache.core.model.errors import LedgerUnavailable
from wcache.core.model.vocabulary import Mode, Outcome, Reason
from wcache.ledger.audit import Audit
from wcache.ledger.moment import LAST_NS
from wcache.ledger.report.attaches import BARS_MAX, step_ns
from wcache.ledger.report.catalogue import COLUMNS, LISTINGS
from wcache.ledger.report.charts import PATTERNED, TIER_TEXT
from wcache.ledger.report.collect import collect
from wcache.ledger.report.html import SECTIONS, SHOWN, render_html
from wcache.ledger.report.lines import objects
from wcache.ledger.report.model import Period, Report
from wcache.ledger.report.text import render_text
from wcache.ledger.report.words import percent, span
from wcache.ledger.restore import restore
from wcache.ledger.retention import drop_segments
from wcache.ledger.signing import SigningKey
from wcache.ledger.store import Ledger

HOUR_NS = 3600 * 1_000_000_000
NOON_NS = 1_764_417_600_000_000_000  # 2025-11-29T12:00:00Z
ASKED = ev.Identity("/models/a", "/models/a")
HOSTILE = "/models/<script>alert(1)</script>"


@pytest.fixture(scope="module")
def month(tmp_path_factory: pytest.TempPathFactory) -> Month:
    return Month(tmp_path_factory.mktemp("month"))


@pytest.fixture
def wcache(month: Month) -> Cli:
    return in_process({"WCACHE_LEDGER": str(month.path)})


@pytest.fixture
def past(disk_path: Path) -> Iterator[Past]:
    past = Past(disk_path / "ledger.sqlite")
    yield past
    past.ledger.close()


def report_of(path: Path, until_ns: int = NOON_NS + 24 * HOUR_NS, *, since_ns: int | None = None, **options: Any) -> Report:
    return collect(path, Period(since_ns=since_ns, until_ns=until_ns), **options)


def lines_of(text: str) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {}
    for line in text.splitlines():
        item = json.loads(line)
        found.setdefault(item.pop("kind"), []).append(item)
    return found


def said(report: Report) -> str:
    """What the terminal shows, as one line."""
    return " ".join(render_text(report).split())


def missed(past: Past, number: int, *, occurred_ns: int = NOON_NS, spelling: str = ASKED.spelling, **about: Any) -> None:
    asked = msgspec.structs.replace(ASKED, spelling=spelling)
    for _ in range(number):
        past.decided(asked, None, outcome=Outcome.FALLBACK, reason=Reason.NOT_RESIDENT, occurred_ns=occurred_ns, **about)


# --- the story --------------------------------------------------------------------------------------------------------------


def test_a_month_of_forty_starts_is_told_exactly(month: Month, wcache: Cli) -> None:
    """Two fallbacks, one of them because a grant had expired, one wrong hit by header, one release of what was mapped."""
    with freeze_time(END):
        done = wcache("report", "--since", "30d", "--format", "jsonl")
    assert done.returncode == 1, done.stderr
    told, seqs = lines_of(done.stdout), month.seqs

    (about,) = told["report"]
    assert (about["since"], about["until"], about["made"]) == (
        "2041-06-01T00:00:00.000Z",
        "2041-07-01T00:00:00.000Z",
        "2041-07-01T00:00:00.000Z",
    )
    totals = about["totals"]
    assert (totals["attaches"], totals["launches"], totals["hosts"]) == (40, 40, 4)
    assert totals["decisions"] == {"hit": 38, "fallback": 2}
    assert totals["tiers"] == {"pinned": 36, "header": 1, "trusted": 1}
    assert (totals["wrong_hits"], totals["unfinished"], totals["unproven"], totals["unprovable"]) == (1, 0, 1, 0)
    assert (totals["idle_bytes"], totals["fallback_bytes"]) == (2 * IDLE_BYTES, 2 * MAPPED_BYTES)
    assert sum(bar["hit"] for bar in told["decisions"]) == 38 and sum(bar["fallback"] for bar in told["decisions"]) == 2

    (wrong,) = told["wrong_hit"]
    assert (wrong["seq"], wrong["checkpoint"], wrong["tier"], wrong["proof"]) == (seqs["wrong"], str(month.twin), "header", "refuted")
    assert (wrong["since"], wrong["until"], wrong["had"]) == ("2041-06-18T10:00:03.600Z", "2041-06-19T16:00:00.000Z", "ended")
    assert (wrong["host"], wrong["pid"], wrong["uid"]) == ("gpu-03", 77, 990)
    assert [(row["seq"], row["reason"]) for row in told["not_mapped"]] == [
        (seqs["absent"], "not_resident"),
        (seqs["expired"], "trust_expired"),
    ]
    assert [row["text"].partition(":")[0] for row in told["incomplete_launch"]] == [
        f"0 of 1 ranks mapped, rank 0 fell back because {reason}" for reason in ("not_resident", "trust_expired")
    ]
    (trusted,) = told["trusted"]
    assert (trusted["seq"], trusted["grant"], trusted["operator_uid"]) == (seqs["trusted"], "t-1", OPERATOR)
    assert "CHG-4711" in trusted["why"]
    assert [row["seq"] for row in told["unproven"]] == [seqs["trusted"]]
    (grant,) = told["grant"]
    assert (grant["state"], grant["hits"], grant["ended"]) == ("expired", 1, "2041-06-11T08:30:00.000Z")
    (release,) = told["leased_release"]
    assert (release["seq"], release["decision"], release["leases"], release["uid"]) == (seqs["release"], "forced", 1, OPERATOR)
    assert [row["event"] for row in told["incident"]] == ["verify.failed"]
    assert [row["event"] for row in told["change"]] == [
        "daemon.started", "load.completed", "load.completed", "trust.granted", "release.requested", "release.completed",
    ]  # fmt: skip
    assert [row["checkpoint"] for row in told["resident"]] == [str(month.base)]
    assert {row["checkpoints"][0]: row["hits"] for row in told["weights"]} == {str(month.base): 36, str(month.draft): 2}
    assert not {"unprovable", "gap", "clock", "redaction", "checkpoint"} & set(told)
    assert told["end"] == [{"lines": len(done.stdout.splitlines()) - 1}]

    assert [answer["verdict"] for answer in told["answer"]] == ["good", "bad", "attention", "attention"]
    assert told["answer"][1]["text"] == "Yes: 1 hit served other weights than were asked for."
    assert "host gpu-03" in told["answer"][1]["more"][0] and str(month.twin) in told["answer"][1]["more"][0]
    assert told["answer"][2]["text"] == "2 of 40 attaches: 2 fallbacks (1 not_resident, 1 trust_expired)."


def test_the_same_ledger_and_arguments_give_the_same_report(month: Month, wcache: Cli, tmp_path: Path) -> None:
    """Only the time at which it was made differs."""
    arguments = ("report", "--since", "2041-06-01", "--until", "2041-07-01", "--format")
    for form in ("html", "jsonl", "cyclonedx"):
        with freeze_time(END):
            first, again = wcache(*arguments, form), wcache(*arguments, form)
        with freeze_time(END + timedelta(minutes=3)):
            later = wcache(*arguments, form)
        assert first.stdout == again.stdout
        different = [pair for pair in zip(first.stdout.splitlines(), later.stdout.splitlines(), strict=True) if pair[0] != pair[1]]
        assert len(different) == 1 and ("00:00" in different[0][0]) and ("00:03" in different[0][1]), (form, different)


@pytest.mark.parametrize(
    ("mode", "how", "had", "told"),
    [
        (Mode.ZERO_COPY, "closed", "ended", "until 2025-11-29 13:00 UTC"),
        (Mode.ZERO_COPY, None, "still", "has not let go of them"),
        (Mode.ZERO_COPY, "the daemon ended", "unknown", "nothing says until when"),
        (Mode.COPY, "closed", "unknown", "nothing says until when"),
        (None, None, "never", "never said that it had them"),
    ],
)
def test_until_when_wrong_weights_were_there_is_said_as_far_as_it_is_known(
    past: Past, disk_path: Path, mode: Mode | None, how: str | None, had: str, told: str
) -> None:
    served = past.resident(make_checkpoint(disk_path / "base"), occurred_ns=NOON_NS)
    asked = msgspec.structs.replace(ASKED, digest="0" * 64)
    past.decided(asked, served, mapped=False, occurred_ns=NOON_NS)
    if mode is not None:
        sizes = {"tensors": 1, "bytes": 100, "copied_tensors": 0, "copied_bytes": 0}
        past.append(ev.MapCompleted(attach="a-2", mode=mode, ms=1.0, **sizes), occurred_ns=NOON_NS)
    if how is not None:
        past.append(ev.LeaseEnded(attach="a-2", how=how), occurred_ns=NOON_NS + HOUR_NS)
    found = report_of(past.ledger.path)
    (row,) = found.listing("wrong_hit").rows
    assert row["had"] == had and (row["until"] is not None) == (had == "ended")
    assert told in said(found)


def test_the_answers_are_on_the_terminal_and_in_json(month: Month, wcache: Cli, tmp_path: Path) -> None:
    with freeze_time(END):
        done = wcache("report", "--since", "30d")
        assert "✗ Were wrong weights served?\n  Yes: 1 hit" in done.stdout and "What this does not show" in done.stdout
        found = json.loads(wcache("report", "--since", "30d", "--json").stdout)
        assert found["verification"]["ok"] and found["totals"]["wrong_hits"] == 1 and found["written"] == []
        written = json.loads(wcache("report", "--format", "html", "--out", str(tmp_path / "r.html"), "--json").stdout)
    assert written["written"] == [str(tmp_path / "r.html")]
    assert (tmp_path / "r.html").read_text().startswith("<!doctype html>")
    assert [entry.name for entry in tmp_path.iterdir()] == ["r.html"]


def test_the_inventory_is_that_of_the_end_of_the_period(month: Month) -> None:
    def resident(day: float) -> list[tuple[str, int]]:
        until_ns = int((FIRST + timedelta(days=day)).timestamp()) * 1_000_000_000
        rows = report_of(month.path, until_ns, verify=False).listing("resident").rows
        return [(row["checkpoint"], row["leases"]) for row in rows]

    assert resident(0.1) == []
    assert resident(18) == [(str(month.base), 1), (str(month.draft), 0)]  # the wrong hit goes on over midnight
    assert resident(20) == [(str(month.base), 0), (str(month.draft), 1)]
    assert resident(25) == [(str(month.base), 0)]


def test_lanes_show_when_weights_were_resident_and_how_many_at_once(past: Past, disk_path: Path) -> None:
    roots = [make_checkpoint(disk_path / name, seed=seed) for seed, name in enumerate(("alone", "twice"))]
    hours: list[tuple[int, int | None, int]] = [(0, 10, 0), (40, None, 0), (0, 20, 1), (10, 30, 1)]
    for begin, end, which in hours:
        loaded = past.resident(roots[which], occurred_ns=NOON_NS + begin * HOUR_NS)
        if end is not None:
            when = NOON_NS + end * HOUR_NS
            past.append(ev.ReleaseRequested(residency=loaded.residency, uid=0, why="", force=False, leases=()), occurred_ns=when)
            past.append(ev.ReleaseCompleted(residency=loaded.residency, bytes=loaded.bytes), occurred_ns=when)
    found = report_of(past.ledger.path, NOON_NS + 90 * HOUR_NS, since_ns=NOON_NS, verify=False)
    alone, twice = found.lanes
    spans = [
        [((stay.from_ns - NOON_NS) / HOUR_NS, (stay.to_ns - NOON_NS) / HOUR_NS, stay.state, stay.number) for stay in lane.stays]
        for lane in (alone, twice)
    ]
    assert spans[0] == [(0, 10, "released", 1), (40, 90, "resident", 1)]
    assert spans[1] == [(0, 10, "resident", 1), (10, 20.5, "resident", 2), (20.5, 30.5, "resident", 1)]  # to half an hour
    assert "up to 2 at once" in render_html(found)


def test_the_first_moment_is_in_the_period_and_the_last_is_not(past: Past) -> None:
    for number in (0, 1, 2):
        missed(past, 1, occurred_ns=NOON_NS + number)
    assert report_of(past.ledger.path, NOON_NS + 2, since_ns=NOON_NS + 1).totals.attaches == 1


# --- what is wrong with the record ------------------------------------------------------------------------------------------


def test_a_clock_that_went_back_is_listed_and_changes_no_order(past: Past) -> None:
    """L5"""
    with freeze_time("2041-01-01T12:00:00Z"):
        missed(past, 1, occurred_ns=NOON_NS)
    with freeze_time("2041-01-01T11:00:00Z"):
        missed(past, 1, occurred_ns=NOON_NS + 1)
    found = report_of(past.ledger.path, 1 << 62)
    (row,) = found.listing("clock").rows
    assert (row["back_s"], row["recorded"], row["before"]) == (3600, "2041-01-01T11:00:00.000Z", "2041-01-01T12:00:00.000Z")
    assert [row["seq"] for row in found.listing("not_mapped").rows] == sorted(row["seq"] for row in found.listing("not_mapped").rows)
    answer = render_text(found)
    assert "! Is the record whole?" in answer and "Clocks disagree in 1 place" in answer
    assert "1 h" in render_html(found)


def test_a_report_claims_nothing_about_what_is_still_to_come(past: Past) -> None:
    with freeze_time("2041-01-01T12:00:00Z") as clock:
        missed(past, 1, occurred_ns=NOON_NS)
        clock.tick()
        found = report_of(past.ledger.path, LAST_NS)
        assert found.period.until_ns == found.made_ns
        assert "to 2041-01-01 12:00" in render_text(found)


def test_a_clock_that_went_back_hides_nothing_of_a_report_without_an_end(past: Past) -> None:
    """L5"""
    with freeze_time("2041-01-01T12:00:00Z") as clock:
        missed(past, 1, occurred_ns=time.time_ns())
        clock.move_to("2041-01-01T11:00:00Z")
        found = report_of(past.ledger.path, LAST_NS)
    assert found.totals.attaches == found.listing("not_mapped").total == 1


def test_a_gap_is_told_with_what_was_merged_and_what_is_lost(past: Past) -> None:
    past.append(ev.LedgerGap(from_ns=NOON_NS, to_ns=NOON_NS + HOUR_NS, merged=3, lost=1, why="disk full"), occurred_ns=NOON_NS)
    found = report_of(past.ledger.path)
    assert found.listing("gap").rows[0]["why"] == "disk full"
    assert "In 1 span decisions could not be recorded at once: 3 events were recorded later, 1 event is known lost." in said(found)
    assert any("gaps listed here" in text for text in (item["text"] for item in objects(found) if item["kind"] == "not_shown"))


def test_a_changed_ledger_is_reported_as_changed(past: Past, disk_path: Path) -> None:
    missed(past, 2)
    past.ledger.close()
    path = past.ledger.path
    with sqlite3.connect(path) as db:
        db.execute("DROP TRIGGER event_no_update")
        db.execute("UPDATE event SET payload = replace(payload, 'not_resident', 'released') WHERE seq = 1")
    wcache = in_process({"WCACHE_LEDGER": str(path)})
    done = wcache("report")
    assert done.returncode == 1 and "✗ Is the record whole?\n  No: " in done.stdout
    page = wcache("report", "--format", "html").stdout
    assert "the payload of attach.decided is not the one that was hashed" in page
    unverified = wcache("report", "--no-verify", "--format", "html")
    assert unverified.returncode == 0
    assert "Not verified: this report was made with <code>--no-verify</code>." in unverified.stdout
    assert "Whether the ledger is unchanged: it was not verified for this report." in unverified.stdout


def test_a_redacted_event_keeps_its_place_and_the_redaction_is_told(past: Past) -> None:
    past.append(ev.PeerRefused(peer=ev.Peer(7, 7), why="secret"), occurred_ns=NOON_NS)
    past.append(ev.PayloadRedacted(target_seq=1, why="it named somebody"), occurred_ns=NOON_NS)
    past.ledger.close()
    with sqlite3.connect(past.ledger.path) as db:
        db.execute("DROP TRIGGER event_no_update")
        db.execute("UPDATE event SET payload = NULL, salt = NULL WHERE seq = 1")
    found = report_of(past.ledger.path, verify=False)
    assert [(row["seq"], row["text"]) for row in found.listing("incident").rows] == [(1, "What this event said was redacted.")]
    assert [(row["target_seq"], row["why"]) for row in found.listing("redaction").rows] == [(1, "it named somebody")]
    assert "1 payload was redacted, each on record." in said(found) and "secret" not in render_html(found)


def test_what_was_dropped_is_told_and_what_was_carried_on_is_still_there(tmp_path: Path) -> None:
    """A refuted hit of a dropped segment denies for ever, and is reported for ever."""
    path = three_segments(tmp_path / "ledger.sqlite")
    with freeze_time("2042-01-01T00:00:00Z"):
        before = report_of(path, 1 << 62)
        drop_segments(path, now_ns=LATER_NS)
        after = report_of(path, 1 << 62)
        text = said(after)
    assert before.verification.ok and after.verification.ok and after.head.first_seq > 1 == before.head.first_seq
    assert "were dropped by policy (400 days)" in text and "only what still lived was carried on" in text
    assert [row["seq"] for row in after.listing("wrong_hit").rows] == [row["seq"] for row in before.listing("wrong_hit").rows]
    assert [row["had"] for row in after.listing("wrong_hit").rows] == [row["had"] for row in before.listing("wrong_hit").rows] == ["ended"]
    assert before.head.root and after.head.root and "What was dropped by policy, beyond what still lived" in text
    assert "segment.dropped" in {row["event"] for row in after.listing("change").rows}
    assert [row["residency"] for row in after.listing("resident").rows] == ["r-1"]
    assert render_html(after)


def test_a_restored_ledger_says_from_where_on_it_is_one(past: Past, tmp_path: Path) -> None:
    missed(past, 1)
    past.ledger.close()
    restore(past.ledger.path, tmp_path / "restored.sqlite")
    found = report_of(tmp_path / "restored.sqlite", 1 << 62)
    assert found.verification.ok, found.verification.problems
    assert "It was restored from a backup before seq" in said(found) and found.head.root


def test_a_ledger_with_a_hole_still_gives_a_report(past: Past) -> None:
    missed(past, 3)
    past.ledger.close()
    with sqlite3.connect(past.ledger.path) as db:
        db.execute("DROP TRIGGER event_no_delete")
        db.execute("DELETE FROM event WHERE seq = 3")
    found = report_of(past.ledger.path)
    assert found.head.root == "" and not found.verification.ok
    assert "cannot be computed" in render_text(found) and render_html(found)


def test_a_verification_that_cannot_be_done_ends_the_report_with_its_own_error(past: Past, monkeypatch: pytest.MonkeyPatch) -> None:
    """And with the questions that are asked beside it."""

    def refuse(*_: object) -> None:
        raise LedgerUnavailable("the disk failed")

    monkeypatch.setattr("wcache.ledger.report.collect.verify_to", refuse)
    with pytest.raises(LedgerUnavailable, match="the disk failed"):
        report_of(past.ledger.path, 1 << 62)


def test_an_empty_ledger_and_none(tmp_path: Path) -> None:
    Ledger.open(tmp_path / "ledger.sqlite").close()
    found = report_of(tmp_path / "ledger.sqlite")
    assert "There is no record: the ledger is empty." in render_text(found)
    assert "Nothing was served from the cache" in render_html(found)
    none = in_process({"WCACHE_LEDGER": str(tmp_path / "none.sqlite")})("report")
    assert none.returncode == 4 and len(none.stderr.splitlines()) == 1


def test_how_far_back_the_record_goes_is_said(past: Past) -> None:
    with freeze_time("2041-01-01T00:00:00Z"):
        missed(past, 1)
    with freeze_time("2041-03-01T00:00:00Z") as moment:
        young = said(report_of(past.ledger.path, since_ns=NOON_NS, verify=False))
        moment.move_to("2041-12-01T00:00:00Z")
        old = said(report_of(past.ledger.path, verify=False))
    assert "59 days before this report" in young and "It does not reach back six months yet." in young
    assert "It reaches back more than six months." in old
    early = FIRST - timedelta(days=200)
    with freeze_time("2041-03-01T00:00:00Z"):
        since_ns = int(early.timestamp()) * 1_000_000_000
        text = said(report_of(past.ledger.path, 1 << 61, since_ns=since_ns, verify=False))
    assert "of the period lie before it: about them this ledger says nothing." in text


# --- many rows --------------------------------------------------------------------------------------------------------------


def test_a_long_list_is_cut_on_the_page_said_so_and_whole_in_json_lines(past: Past) -> None:
    missed(past, 130)
    found = report_of(past.ledger.path, limit=100)
    assert (found.totals.missed, len(found.listing("not_mapped").rows), found.listing("not_mapped").more) == (130, 100, 30)
    page = render_html(found)
    assert "The newest 100 of 130, newest first." in page and "30 more are in the JSON lines and CSV" in page
    done = in_process({"WCACHE_LEDGER": str(past.ledger.path)})("report", "--format", "jsonl")
    assert len(lines_of(done.stdout)["not_mapped"]) == 130


def test_a_launch_is_incomplete_here_where_the_audit_says_so(past: Past, disk_path: Path) -> None:
    """One pass in SQL for all, against the sentence for each."""
    served = past.resident(make_checkpoint(disk_path / "base"), occurred_ns=NOON_NS)
    asked = msgspec.structs.replace(ASKED, spelling="/models/draft")
    for launch, hits in {"whole": (True, True), "half": (True, False), "never": (True,), "none": (False, False)}.items():
        for rank, hit in enumerate(hits):
            if hit:
                past.decided(ASKED, served, launch=launch, rank=rank, world=2, occurred_ns=NOON_NS)
            else:
                missed(past, 1, launch=launch, rank=rank, world=2)
    missed(past, 1, launch="again")
    past.decided(ASKED, served, launch="again", occurred_ns=NOON_NS)
    missed(past, 1, launch="draft", spelling="/models/draft")
    past.decided(ASKED, served, launch="draft", occurred_ns=NOON_NS)
    past.decided(asked, served, launch="unsaid", mapped=False, occurred_ns=NOON_NS)
    found = report_of(past.ledger.path, verify=False).listing("incomplete_launch")
    with Audit(past.ledger.path) as audit:
        launches = {row["launch"]: audit.launch(row["launch"]) for row in audit.attaches()}
    assert {row["launch"]: row["text"] for row in found.rows} == {
        name: summary["text"] for name, summary in launches.items() if not summary["complete"]
    }
    assert {name for name, summary in launches.items() if summary["complete"]} == {"whole", "again"}


def test_bars_begin_at_whole_hours_days_and_mondays_and_are_never_many() -> None:
    day_ns = 24 * HOUR_NS
    for days, step in ((1 / 24, 60_000_000_000), (7, 3 * HOUR_NS), (30, day_ns), (90, day_ns), (365, 7 * day_ns), (3650, 91 * day_ns)):
        found, first = step_ns(NOON_NS, NOON_NS + int(days * day_ns))
        assert found == step and first <= NOON_NS < first + found
        assert days * day_ns / found <= BARS_MAX
    assert (step_ns(NOON_NS, NOON_NS + 365 * day_ns)[1] // day_ns + 3) % 7 == 0  # 1970-01-01 was a Thursday


def test_numbers_read_as_they_are_meant() -> None:
    assert [percent(part, 1000) for part in (0, 1, 500, 999, 1000)] == ["0 %", "0.1 %", "50 %", "99.9 %", "100 %"]
    assert (percent(99999, 100000), percent(1, 100000), percent(0, 0)) == ("> 99.9 %", "< 0.1 %", "–")
    assert [span(seconds) for seconds in (0.01, 2, 600, 9000, 864000)] == ["10 ms", "2.0 s", "10 min", "2.5 h", "10.0 d"]


# --- formats ----------------------------------------------------------------------------------------------------------------


def test_no_cell_is_a_formula_and_no_path_is_markup(past: Past, tmp_path: Path) -> None:
    """L9"""
    starts = ("=cmd|'/C calc'!A0", "+1", "-1+cmd", "@SUM(A1)", "\tx", "\rx", "＝1")
    for name in (*starts, HOSTILE, 'a"b,c', "rtl\u202egpj"):
        missed(past, 1, spelling=name)
    wcache = in_process({"WCACHE_LEDGER": str(past.ledger.path)})
    assert wcache("report", "--format", "csv", "--out", str(tmp_path / "csv")).returncode == 0
    with (tmp_path / "csv" / "not_mapped.csv").open(newline="", encoding="utf-8") as file:
        cells = [row["checkpoint"] for row in csv.DictReader(file)]
    assert cells == [*(f"'{start}" for start in starts), HOSTILE, 'a"b,c', "rtl\u202egpj"]
    assert {path.name for path in (tmp_path / "csv").iterdir()} == {"summary.csv", "decisions.csv", *(f"{name}.csv" for name in LISTINGS)}
    assert b"\r\n" in (tmp_path / "csv" / "summary.csv").read_bytes()
    page = wcache("report", "--format", "html").stdout
    assert "alert(1)" in page and "<script>alert" not in page and "\u202e" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page


def test_the_bill_of_materials_is_valid_and_names_every_digest(month: Month, wcache: Cli) -> None:
    from cyclonedx.schema import SchemaVersion
    from cyclonedx.validation.json import JsonStrictValidator

    with freeze_time(END):
        text = wcache("report", "--format", "cyclonedx").stdout
    assert JsonStrictValidator(SchemaVersion.V1_7).validate_str(text) is None
    found = json.loads(text)
    assert (found["specVersion"], found["metadata"]["timestamp"]) == ("1.7", "2041-07-01T00:00:00+00:00")
    models = {component["bom-ref"]: component for component in found["components"]}
    weights = report_of(month.path, 1 << 62, verify=False).listing("weights").rows
    assert set(models) == {f"weights:{row['weights_digest']}" for row in weights}
    for row in weights:
        model = models[f"weights:{row['weights_digest']}"]
        assert model["type"] == "machine-learning-model"
        assert model["hashes"] == [{"alg": "BLAKE3", "content": row["weights_digest"]}]
    about = {item["name"]: item["value"] for item in found["metadata"]["component"]["properties"]}
    with Audit(month.path) as audit:
        assert about["wcache:ledger:origin"] == audit.head()["origin"]
    assert about["wcache:ledger:verified"] == "ok"


@pytest.fixture
def key(tmp_path: Path) -> SigningKey:
    key = SigningKey.generate("example.com/reports")
    key.write(tmp_path / "report.key")
    return key


def test_the_statement_is_signed_and_names_ledger_weights_and_files(month: Month, wcache: Cli, key: SigningKey, tmp_path: Path) -> None:
    """Verified as docs/reports.md says, with nothing of wcache."""
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    page = tmp_path / "report.html"
    page.write_text("the report")
    out, secret = tmp_path / "statement.json", str(tmp_path / "report.key")
    with freeze_time(END):
        done = wcache("report", "--format", "intoto", "--key", secret, "--about", str(page), "--out", str(out))
    assert done.returncode == 1, done.stderr  # a wrong hit is on record
    envelope = json.loads(out.read_bytes())
    kind, body = envelope["payloadType"].encode(), base64.b64decode(envelope["payload"])
    (signature,) = envelope["signatures"]
    public = Ed25519PublicKey.from_public_bytes(base64.b64decode(key.public.text.split("+", 2)[2])[1:])
    signed = b"DSSEv1 %d %s %d %s" % (len(kind), kind, len(body), body)
    public.verify(base64.b64decode(signature["sig"]), signed)
    with pytest.raises(InvalidSignature):
        public.verify(base64.b64decode(signature["sig"]), signed.replace(b"refuted", b"proved!"))

    statement = json.loads(body)
    assert statement["_type"] == "https://in-toto.io/Statement/v1" and kind == b"application/vnd.in-toto+json"
    digests = [next(iter(subject["digest"])) for subject in statement["subject"]]
    assert digests == ["sha256", "wcache-weights-1", "wcache-weights-1", "sha256"]
    ledger = statement["predicate"]["ledger"]
    assert statement["subject"][0] == {"name": f"wcache-ledger/{ledger['origin']}@{ledger['size']}", "digest": {"sha256": ledger["root"]}}
    assert statement["subject"][-1]["name"] == "report.html"
    assert statement["predicate"]["lists"]["wrong_hit"]["rows"][0]["seq"] == month.seqs["wrong"]


@pytest.mark.parametrize("beside_events", [1, 1_000_000], ids=["in a process of its own", "here"])
def test_the_root_is_the_one_that_a_checkpoint_signs(month: Month, monkeypatch: pytest.MonkeyPatch, beside_events: int) -> None:
    from wcache.ledger.signed_checkpoint import make_checkpoint as sign

    monkeypatch.setattr("wcache.ledger.report.root.BESIDE_EVENTS", beside_events)
    found = report_of(month.path, 1 << 62, verify=False)
    made = sign(month.path, SigningKey.generate("k"), month.folder / "note", record=False)
    assert (made.checkpoint.size, made.checkpoint.root.hex()) == (found.head.size, found.head.root)


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (("--out", "x.html"), "--format"),
        (("--format", "csv"), "--out DIRECTORY"),
        (("--format", "intoto"), "wcache ledger key new"),
        (("--format", "html", "--key", "k"), "--format intoto"),
        (("--format", "html", "--json"), "--out PATH"),
        (("--since", "2d", "--until", "3d"), "the period is empty"),
        (("--format", "html", "--out", "/nowhere/at/all.html"), "/nowhere/at/all.html"),
        (("--format", "intoto", "--key", "/nowhere/key"), "/nowhere/key"),
    ],
)
def test_what_cannot_be_meant_is_one_line_with_the_way_out(wcache: Cli, arguments: tuple[str, ...], what: str) -> None:
    done = wcache("report", "--no-verify", *arguments)
    assert done.returncode in (2, 4) and len(done.stderr.splitlines()) == 1 and what in done.stderr, done.stderr


@pytest.mark.parametrize(("form", "package"), [("html", "jinja2"), ("cyclonedx", "cyclonedx")])
def test_a_package_that_is_missing_is_named_with_the_command_that_installs_it(
    wcache: Cli, monkeypatch: pytest.MonkeyPatch, form: str, package: str
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    done = wcache("report", "--format", form)
    assert done.returncode == 7 and "pip install 'wcache-ledger[report]'" in done.stderr


def test_every_list_is_on_the_page_and_every_column_is_documented() -> None:
    assert sorted(name for _, _, names in SECTIONS for name in names) == sorted(LISTINGS)
    assert {name for about in LISTINGS.values() for name in about.columns} == set(COLUMNS)
    assert {part for cells in SHOWN.values() for cell in cells for part in cell} <= set(COLUMNS)
    assert set(TIER_TEXT) == {"header", "sampled", "pinned", "content", "attested", "trusted"}
    assert {"fallback", "strict_miss", "refuted"} <= set(PATTERNED)


def test_the_page_is_one_file_that_may_load_and_run_nothing_else(month: Month) -> None:
    page = render_html(report_of(month.path, 1 << 62, verify=False, limit=100))
    policy = page.partition('http-equiv="Content-Security-Policy" content="')[2].partition('"')[0]
    assert policy.startswith("default-src &#39;none&#39;;") and "unsafe" not in policy and policy.count("sha256-") == 2
    assert " style=" not in page and " onclick=" not in page and "http://" not in page and "https://" not in page
    assert page.count("<h1") == 1 and page.count("<caption>") == page.count("<table")
    assert io.StringIO(page).readline() == "<!doctype html>\n"
