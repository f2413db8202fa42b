"""`wcache ledger segment`, `redact` and `restore`: answers, refusals, and that a running daemon keeps its ledger."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.commands import Cli, ok
from support.daemon import DaemonProcess
from support.segments import FIRST, three_segments

from wcache.ledger.journal import Journal
from wcache.ledger.store import NewEvent

OVER = next(seq for seq, event in enumerate(FIRST, 1) if event.type == "peer.refused")


@pytest.fixture
def ledger(short_path: Path) -> Path:
    """Where `lonely` looks for it."""
    return three_segments(short_path / "state" / "ledger.sqlite")


def test_segments_are_closed_and_listed_with_the_day_from_which_they_may_go(lonely: Cli, ledger: Path) -> None:
    closed = ok(lonely("ledger", "segment", "close", "--json"))
    assert closed["opened_seq"] == closed["last_seq"] + 1
    listed = ok(lonely("ledger", "segment", "ls", "--json"))
    assert [item["state"] for item in listed["segments"]] == ["closed", "closed", "closed", "open"]
    assert listed["segments"][2]["root"] == closed["root"] and listed["segments"][3]["droppable_from"] is None
    first = listed["segments"][0]["droppable_from"]
    nothing = lonely("ledger", "segment", "drop")
    assert nothing.returncode == 0 and f"the oldest closed segment is from {first} on" in nothing.stdout
    refused = ok(lonely("ledger", "segment", "drop", "--keep", "183", "--json"), 2)["error"]
    assert "six months; the oldest closed segment may go from 20" in refused["what"]
    assert "since 20" in lonely("audit", "summary").stdout


def test_a_redaction_and_a_restore_say_what_they_did(lonely: Cli, ledger: Path, tmp_path: Path) -> None:
    saved = str(tmp_path / "saved.sqlite")
    assert ok(lonely("ledger", "backup", saved, "--json"))["ok"]
    done = lonely("ledger", "redact", str(OVER), "--reason", "request 17")
    assert done.returncode == 0 and "peer.refused" in done.stdout
    assert "'request 17'" in lonely("audit", "explain", str(OVER)).stdout
    assert ok(lonely("ledger", "redact", str(OVER), "--reason", "again", "--json"), 2)["error"]["what"] == "its payload was removed before"
    assert ok(lonely("ledger", "redact", "3", "--json"), 2)["error"]["code"] == "usage"
    assert ok(lonely("ledger", "restore", saved, "--json"), 2)["error"]["what"] == "there is a ledger already"
    restored = ok(lonely("ledger", "restore", saved, "--replace", "--json"))
    assert Path(restored["kept"]).exists() and restored["origin"] != restored["old_origin"] and restored["lost"] == 1
    assert ok(lonely("ledger", "verify", "--json"))["ok"]
    assert "restored from a backup before seq" in lonely("audit", "summary").stdout


def test_what_waits_in_the_journal_would_come_back_so_it_is_merged_first(lonely: Cli, ledger: Path, short_path: Path) -> None:
    (short_path / "run").mkdir(mode=0o700)
    Journal(short_path / "run" / "journal.jsonl").write((NewEvent(event=FIRST[0]),))
    refused = ok(lonely("ledger", "redact", str(OVER), "--reason", "x", "--json"), 7)["error"]
    assert refused["what"] == "the journal holds what the ledger has yet to take (units: 1)"


def test_a_daemon_that_runs_keeps_its_ledger(wcache: Cli, daemon: DaemonProcess, tmp_path: Path) -> None:
    saved = str(tmp_path / "saved.sqlite")
    ok(wcache("ledger", "backup", saved, "--json"))
    for arguments in (["redact", "1", "--reason", "x"], ["restore", saved, "--replace"]):
        error = ok(wcache("ledger", *arguments, "--json"), 5)["error"]
        assert error["code"] == "daemon_running" and "wcache daemon stop" in error["remedy"]
    assert ok(wcache("ledger", "segment", "close", "--json"))["first_seq"] == 1  # beside it
    assert ok(wcache("ledger", "segment", "drop", "--json"))["span"] is None
    assert ok(wcache("status", "--json"))["server_pid"] == daemon.pid
