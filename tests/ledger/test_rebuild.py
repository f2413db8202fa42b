"""SIGKILL at every step of writing a ledger anew: the old file is there whole, or the new one is, and the next attempt works."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.mounts import fill, needs_root, tmpfs
from support.segments import FIRST, LATER_NS, three_segments

from wcache.core.model.errors import LedgerUnavailable
from wcache.ledger.backup import backup
from wcache.ledger.redact import redact
from wcache.ledger.restore import restore
from wcache.ledger.retention import drop_segments
from wcache.ledger.verify import verify

CHILD = """
import os, sys
from pathlib import Path
path, step, what = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
def progress(done, total, phase):
    if phase == step:
        print("there", flush=True)
        sys.stdin.read()
if what == "drop":
    from wcache.ledger.retention import drop_segments
    drop_segments(path, progress=progress, now_ns=int(sys.argv[4]))
else:
    from wcache.ledger.restore import restore
    restore(Path(sys.argv[4]), path, replace=True, progress=progress)
"""
STEPS = ("verify", "copy", "project", "verify again", "exchange", "done")


def killed_at(step: str, path: Path, *what: str) -> None:
    """A process that was killed in the middle of it, once it had come to this step."""
    command = [sys.executable, "-c", CHILD, str(path), step, *what]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "there\n"
        process.kill()


@pytest.mark.parametrize("step", STEPS)
def test_a_drop_that_is_killed_leaves_the_old_ledger_or_the_new_one(path: Path, step: str) -> None:
    """L4"""
    three_segments(path)
    old = verify(path)
    killed_at(step, path, "drop", str(LATER_NS))
    report = verify(path)
    assert report.ok, report.problems
    new = step == "done"
    assert (report.events < old.events) is new
    assert new or (report.head_seq, report.head_chain) == (old.head_seq, old.head_chain)
    assert (drop_segments(path, now_ns=LATER_NS).span is None) is new
    assert verify(path).ok
    assert {entry.name for entry in path.parent.iterdir()} <= {path.name + suffix for suffix in ("", ".lock", "-wal", "-shm")}


@pytest.mark.parametrize("step", ["verify again", "exchange", "done"])
def test_a_restore_that_is_killed_loses_neither(path: Path, tmp_path: Path, step: str) -> None:
    """L4"""
    three_segments(path)
    backup(path, tmp_path / "backup.sqlite")
    old = verify(path)
    killed_at(step, path, "restore", str(tmp_path / "backup.sqlite"))
    report = verify(path)
    assert report.ok
    assert (report.origin != old.origin) is (step == "done")
    assert restore(tmp_path / "backup.sqlite", path, replace=True).kept is not None
    kept = [verify(entry) for entry in path.parent.iterdir() if ".replaced-" in entry.name]
    assert all(item.ok for item in kept) and old.head_chain in {item.head_chain for item in kept}


@needs_root
def test_a_disk_without_room_for_a_second_file_changes_nothing(tmp_path: Path) -> None:
    with tmpfs(tmp_path / "small", 24 << 20) as directory:
        path = three_segments(directory / "ledger.sqlite")
        filler = fill(directory, leave_bytes=1 << 20)
        with pytest.raises(LedgerUnavailable, match="does not fit"):
            drop_segments(path, now_ns=LATER_NS)
        assert verify(path).ok
        filler.unlink()
        assert drop_segments(path, now_ns=LATER_NS).segments == 2


@needs_root
def test_owner_and_mode_stay_what_they_were(path: Path) -> None:
    three_segments(path)
    path.chmod(0o640)
    os.chown(path, 4711, 4712)
    redact(path, [next(seq for seq, event in enumerate(FIRST, 1) if event.type == "peer.refused")], "x")
    found = path.stat()
    assert (found.st_uid, found.st_gid, found.st_mode & 0o777) == (4711, 4712, 0o640)


def test_a_link_to_a_ledger_stays_a_link(path: Path, tmp_path: Path) -> None:
    three_segments(path)
    link = tmp_path / "link.sqlite"
    link.symlink_to(path)
    drop_segments(link, now_ns=LATER_NS)
    assert link.is_symlink() and verify(path).ok and verify(path).events < 20
