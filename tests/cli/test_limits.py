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
