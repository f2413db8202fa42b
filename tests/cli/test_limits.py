"""Long answers: a table shows the last rows and says what it left out, the other formats leave nothing out."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest
from support.commands import Cli, in_process
from support.simulated import simulate

from wcache.ledger.audit import Audit


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("fleet") / "ledger.sqlite"
    simulate(path, 2000, 5, seed=3)
    return path


@pytest.fixture(scope="module")
def wcache(fleet: Path) -> Cli:
    return in_process({"WCACHE_LEDGER": str(fleet), "COLUMNS": "200"})


def test_a_table_shows_the_last_hundred_and_says_how_many_it_left_out(fleet: Path, wcache: Cli) -> None:
    with Audit(fleet) as audit:
        seqs = [row["seq"] for row in audit.attaches()]
        hits = audit.listing("hits").total()
    out = wcache("audit", "attaches").stdout
    shown, _, note = out.rstrip().rpartition("\n\n")
    assert [int(line.split()[0]) for line in shown.splitlines() if line[0].isdigit()] == seqs[-100:]
    assert f"{len(seqs) - 100} before these are not shown: --limit 0 shows all, --since and --until narrow it down." == note
    everything = wcache("audit", "attaches", "--limit", "0").stdout
    assert "not shown" not in everything
    assert len(everything.splitlines()) > len(seqs)
    assert f"{hits - 3} before these are not shown" in wcache("audit", "hits", "--limit", "3").stdout


@pytest.mark.parametrize("question", [["attaches"], ["hits", "--unproven"], ["fallbacks"]])
def test_the_other_formats_hold_every_row_as_it_is(fleet: Path, wcache: Cli, question: list[str]) -> None:
    name = {"attaches": "attaches", "hits": "unproven hits", "fallbacks": "fallbacks"}[question[0]]
    with Audit(fleet) as audit:
        rows = list(audit.listing(name).rows())
    assert rows
    assert json.loads(wcache("audit", *question, "--json").stdout) == rows
    assert [json.loads(line) for line in wcache("audit", *question, "--format", "jsonl").stdout.splitlines()] == rows
    table = list(csv.DictReader(io.StringIO(wcache("audit", *question, "--format", "csv").stdout)))
    assert [int(row["seq"]) for row in table] == [row["seq"] for row in rows]
    assert json.loads(wcache("audit", *question, "--json", "--limit", "2").stdout) == rows[-2:]


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (("audit", "at", "0001-01-01"), "0001-01-01: this time is out of reach"),
        (("audit", "attaches", "--until", "9999-01-01"), "9999-01-01: this time is out of reach"),
        (("audit", "summary", "--since", "9999999d"), "9999999d: this time is out of reach"),
        (("audit", "hits", "--since", "9" * 400 + "d"), "this is no time"),
        (("audit", "summary", "--since", "2d", "--until", "3d"), "--since 2d: the period is empty"),
        (("report", "--since", "0001-01-01"), "0001-01-01: this time is out of reach"),
        (("report", "--since", "2200-01-01"), "--since 2200-01-01: the period is empty"),
        (("audit", "at", "2200-01-01"), "2200-01-01: nobody knows yet what will be"),
    ],
)
def test_a_time_that_cannot_be_meant_is_one_line_and_no_empty_answer(wcache: Cli, arguments: tuple[str, ...], what: str) -> None:
    done = wcache(*arguments)
    assert done.returncode == 2 and len(done.stderr.splitlines()) == 1 and what in done.stderr, done.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ("audit", "attaches", "--limit"), ("audit", "timeline", "r-1", "--limit"), ("audit", "explain"), ("audit", "prove"),
        ("ledger", "proof", "inclusion"), ("ledger", "redact", "--reason", "x"), ("ledger", "segment", "ls", "--keep"),
        ("ledger", "segment", "drop", "--keep"),
    ],
)  # fmt: skip
def test_a_number_that_no_ledger_holds_is_one_line(wcache: Cli, arguments: tuple[str, ...]) -> None:
    for number in (1 << 63, 10**30):
        done = wcache(*arguments, str(number))
        assert (done.returncode, done.stderr.count("\n")) == (2, 1) and str(number) in done.stderr


def test_a_directory_is_no_ledger(fleet: Path) -> None:
    done = in_process({"WCACHE_LEDGER": str(fleet.parent)})("ledger", "verify")
    assert done.returncode == 4 and "this is a directory" in done.stderr


def test_an_empty_answer_is_an_empty_list(wcache: Cli) -> None:
    assert json.loads(wcache("audit", "attaches", "--json", "--until", "2001-01-01").stdout) == []
    assert wcache("audit", "attaches", "--until", "2001-01-01").stdout.strip() == "No attach was recorded."


def test_a_timeline_and_a_moment_are_cut_the_same_way(fleet: Path, wcache: Cli) -> None:
    with Audit(fleet) as audit:
        residency = max(audit.attaches(), key=lambda row: str(row["residency"] or ""))["residency"]
        events = len(audit.timeline(residency))
    assert len(json.loads(wcache("audit", "timeline", residency, "--json").stdout)) == events
    shown = wcache("audit", "timeline", residency, "--limit", "4").stdout
    assert f"{events - 4} before these are not shown" in shown
