"""Backups."""

from __future__ import annotations

from pathlib import Path

import pytest
from support import history

from wcache.core.model.errors import LedgerUnavailable, NotFound, UsageError
from wcache.ledger.backup import backup
from wcache.ledger.store import Ledger


def test_a_backup_of_a_ledger_in_use_is_one_verified_file_of_its_owner(ledger: Ledger, tmp_path: Path) -> None:
    ledger.append("daemon/d-1", 0, "id-1", history.daemon_started())
    target = tmp_path / "backups.sqlite"
    report = backup(ledger, target)
    assert report.ok
    assert (report.head_seq, report.head_chain, report.origin) == (*ledger.head(), ledger.origin)
    assert oct(target.stat().st_mode & 0o777) == "0o600"
    assert [entry.name for entry in tmp_path.iterdir() if entry.name.startswith("backups")] == ["backups.sqlite"]
    assert ledger.append("daemon/d-2", 0, "id-2", history.daemon_started("d-2")) == 2
    with Ledger.open(target, read_only=True) as copy:
        assert [item.seq for item in copy.events()] == [1]


def test_a_backup_never_overwrites(ledger: Ledger, tmp_path: Path) -> None:
    target = tmp_path / "precious"
    target.write_text("mine")
    with pytest.raises(UsageError, match="exists"):
        backup(ledger, target)
    assert target.read_text() == "mine"


def test_a_backup_that_cannot_be_made_leaves_nothing(ledger: Ledger, tmp_path: Path) -> None:
    with pytest.raises(LedgerUnavailable):
        backup(ledger, tmp_path / "absent" / "target")
    with pytest.raises(NotFound):
        backup(tmp_path / "no-ledger", tmp_path / "target")
    assert not (tmp_path / "target").exists()
