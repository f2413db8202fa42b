"""The simulated fleet is a ledger like any other, and what other programs see of it through the views is what `wcache audit` says."""

from __future__ import annotations

import re
import shlex
import shutil
import sqlite3
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.simulated import batches, simulate

from wcache.ledger import schema
from wcache.ledger.audit import Audit
from wcache.ledger.store import Ledger, NewEvent
from wcache.ledger.verify import verify

EVENTS, NODES = 3000, 12
GUIDE = Path(__file__).parents[2] / "docs" / "audit.md"


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("fleet") / "ledger.sqlite"
    simulate(path, EVENTS, NODES, seed=7)
    return path


@pytest.fixture
def db(fleet: Path) -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(f"{fleet.as_uri()}?mode=ro", uri=True)
    connection.row_factory = sqlite3.Row
    yield connection
    connection.close()


def test_a_simulated_ledger_is_sound_and_the_same_seed_gives_the_same_one(fleet: Path, tmp_path: Path) -> None:
    report = verify(fleet)
    assert report.ok, report.problems
    assert report.events >= EVENTS
    simulate(tmp_path / "again.sqlite", EVENTS, NODES, seed=7)
    again = verify(tmp_path / "again.sqlite")
    assert (again.origin, again.head_seq, again.head_chain) == (report.origin, report.head_seq, report.head_chain)


def test_the_fast_path_writes_what_the_append_path_writes(fleet: Path, db: sqlite3.Connection, path: Path) -> None:
    with Ledger.open(path) as ledger:
        for batch in batches(EVENTS, NODES, 7):
            units = [tuple(NewEvent(event=event, occurred_ns=told.occurred_ns) for event in told.unit) for told in batch]
            assert all(isinstance(result, list) for result in ledger.append_batch(units))
    appended = sqlite3.connect(path)
    appended.row_factory = sqlite3.Row
    said_ns = {"recorded_ns", "salt", "payload_hash", "chain", "event_id"}  # by the clock, by chance, and what follows from them
    for table in (schema.event, *schema.PROJECTIONS):
        names = ", ".join(f'"{column.name}"' for column in table.columns if column.name not in said_ns)
        order = ", ".join(f'"{column.name}"' for column in table.primary_key.columns)
        sql = f"SELECT {names} FROM {table.name} ORDER BY {order}"
        assert [tuple(row) for row in db.execute(sql)] == [tuple(row) for row in appended.execute(sql)], table.name
    appended.close()


@pytest.mark.parametrize(
    ("view", "question"),
    [
        ("attaches", "attaches"),
        ("hits", "hits"),
        ("unproven_hits", "unproven hits"),
        ("wrong_hits", "wrong hits"),
        ("fallbacks", "fallbacks"),
    ],
)
def test_a_view_of_attaches_has_the_rows_of_the_audit(fleet: Path, db: sqlite3.Connection, view: str, question: str) -> None:
    seen = [dict(row) for row in db.execute(f"SELECT * FROM {view} ORDER BY seq")]
    with Audit(fleet) as audit:
        listing = audit.listing(question)
        rows = list(listing.rows())
        assert listing.total() == len(rows)
    assert rows or view == "wrong_hits"
    assert [{name: row[name] for name in row if name in audited} for row, audited in zip(seen, rows, strict=True)] == [
        {name: audited[name] for name in row if name in audited} for row, audited in zip(seen, rows, strict=True)
    ]


def test_launches_are_complete_where_the_audit_says_so(fleet: Path, db: sqlite3.Connection) -> None:
    seen = {row["launch"]: row for row in db.execute("SELECT * FROM launches")}
    incomplete = {row["launch"] for row in db.execute("SELECT launch FROM incomplete_launches")}
    assert incomplete
    with Audit(fleet) as audit:
        for launch, row in seen.items():
            told = audit.launch(launch)
            assert (told["ranks"], told["mapped"], told["complete"]) == (row["ranks"], row["mapped"], launch not in incomplete), launch


def test_the_other_views_count_what_the_audit_counts(fleet: Path, db: sqlite3.Connection) -> None:
    with Audit(fleet) as audit:
        summary = audit.summary()
        grants = {row["grant"]: row for row in audit.trust(0)}

    def counted(sql: str) -> dict[Any, Any]:
        return {row[0]: row[1] for row in db.execute(sql)}

    assert counted("SELECT decision, sum(attaches) FROM days GROUP BY 1") == summary["decisions"]
    assert counted("SELECT state, count(*) FROM residencies GROUP BY 1") == summary["residencies"]
    assert {row["grant"]: row["reason"] for row in db.execute("SELECT * FROM grants")} == {
        name: row["reason"] for name, row in grants.items()
    }
    assert db.execute("SELECT count(*), max(time) < max(recorded) FROM events").fetchone()[:] == (summary["events"], 1)


def _examples() -> list[str]:
    return re.findall(r"^\$ (sqlite3 .*)$", GUIDE.read_text(encoding="utf-8"), flags=re.M)


@pytest.mark.parametrize("command", _examples())
def test_the_examples_of_the_guide_run_as_they_stand(fleet: Path, db: sqlite3.Connection, command: str) -> None:
    words = shlex.split(command)
    sql = next(word for word in words if word.startswith("SELECT"))
    db.execute(sql).fetchall()
    if shutil.which("sqlite3"):
        done = subprocess.run(command, shell=True, cwd=fleet.parent, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, ""), done


@pytest.mark.parametrize("sql", ["SELECT * FROM launches WHERE launch = 'l-1'", "SELECT * FROM attaches WHERE seq = 5"])
def test_a_view_asked_for_one_thing_does_not_read_them_all(db: sqlite3.Connection, sql: str) -> None:
    plan = [row["detail"] for row in db.execute(f"EXPLAIN QUERY PLAN {sql}")]
    assert any("SEARCH" in step and "INDEX attach_" in step for step in plan), plan
    assert not any("SCAN attach" in step for step in plan), plan
