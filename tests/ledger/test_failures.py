"""Disks that are full or read-only, foreign file systems: one clear line, nothing lost, and back to work afterwards."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from wcache.core.model.errors import LedgerError
from wcache.ledger.database import NETWORK_KINDS
from wcache.ledger.store import Ledger

SETUP = """
import os, subprocess, sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from support import history
from wcache.core.model.errors import LedgerUnavailable
from wcache.core.model.vocabulary import Outcome
from wcache.ledger.journal import Journal, Merge
from wcache.ledger.knowledge import Knowledge
from wcache.ledger.store import Ledger, NewEvent
from wcache.ledger.verify import verify
root = Path(sys.argv[1])
subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m,mode=700", "none", root], check=True)
"""

FULL = """
(root / "filler").write_bytes(bytes(800_000))
ledger = Ledger.open(root / "ledger.sqlite")
acknowledged, failure = [], None
for number in range(100_000):
    new = NewEvent(event=history.decided(f"a-{number}", Outcome.FALLBACK))
    try:
        acknowledged += ledger.append_batch([(new,)])[0]
    except LedgerUnavailable as error:
        failure = error
        break
assert failure is not None and failure.diagnostics().count("\\n") == 0, failure
assert "full" in str(failure) or "the disk failed" in str(failure), failure
journal = Journal(sys.argv[1] + ".journal")
journal.write((new,))
assert [item.seq for item in ledger.events()] == acknowledged
(root / "filler").unlink()
assert journal.merge(ledger) == Merge(merged=1, lost=0, gap_seq=len(acknowledged) + 2)
assert ledger.append_batch([(new,)]) == [[len(acknowledged) + 1]]
report = verify(ledger.path)
assert report.ok, report.problems
print("survived", failure)
"""

READ_ONLY = """
with Ledger.open(root / "ledger.sqlite") as ledger:
    ledger.append("daemon/d-1", 0, "id-1", history.daemon_started())
subprocess.run(["mount", "-o", "remount,ro", root], check=True)
try:
    Ledger.open(root / "ledger.sqlite")
except LedgerUnavailable as error:
    line = error.diagnostics()
with Ledger.open(root / "ledger.sqlite", read_only=True) as reader:
    assert [item.seq for item in reader.events()] == [1]
assert [item.instance for item in Knowledge(root / "ledger.sqlite").instances()] == ["d-1"]
assert verify(root / "ledger.sqlite").ok
print("survived", line)
"""


def in_own_mounts(script: str, directory: Path) -> str:
    """Runs a script that may mount: as root, or in a user namespace."""
    directory.mkdir()
    flags = "-m" if os.geteuid() == 0 else "-rm"
    if subprocess.run(["unshare", flags, "mount", "-t", "tmpfs", "none", str(directory)], capture_output=True).returncode:
        pytest.skip("this kernel lets an unprivileged user mount nothing")
    arguments = ["unshare", flags, sys.executable, "-c", SETUP + script, str(directory), str(Path(__file__).parents[1])]
    done = subprocess.run(arguments, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_full_disk_refuses_in_one_line_loses_nothing_acknowledged_and_goes_on_when_there_is_room(tmp_path: Path) -> None:
    """L2, with a real full file system"""
    assert in_own_mounts(FULL, tmp_path / "small").startswith("survived")


def test_a_read_only_directory_can_be_read_and_says_what_to_do_about_writing(tmp_path: Path) -> None:
    """L3, L8"""
    line = in_own_mounts(READ_ONLY, tmp_path / "frozen")
    assert "Read-only file system" in line
    assert "WCACHE_LEDGER" in line


@pytest.mark.parametrize("kind", [*sorted(NETWORK_KINDS), "fuse.sshfs", "fuse"])
def test_a_network_file_system_is_refused_with_the_remedy(path: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """L7. What the kernel says of the directory is replaced: such mounts cannot be made in a test."""
    monkeypatch.setattr("wcache.ledger.database.filesystem_kind", lambda directory: kind)
    with pytest.raises(LedgerError) as raised:
        Ledger.open(path)
    assert kind in raised.value.diagnostics()
    assert "WCACHE_LEDGER" in raised.value.diagnostics()
    assert not path.exists()


def test_a_directory_in_the_way_is_one_clear_line(path: Path) -> None:
    path.mkdir(parents=True)
    with pytest.raises(LedgerError) as raised:
        Ledger.open(path)
    assert str(path) in raised.value.diagnostics()


def test_a_place_that_cannot_be_made_is_one_clear_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(LedgerError) as raised:
        Ledger.open(tmp_path / "file" / "ledger.sqlite")
    assert str(tmp_path / "file") in str(raised.value)
    assert "WCACHE_LEDGER" in raised.value.diagnostics()


def test_what_is_no_regular_file_is_no_ledger_and_nothing_is_made_beside_it(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("/dev/null")
    for path in (tmp_path / "pipe", tmp_path / "link", tmp_path):
        with pytest.raises(LedgerError, match="this is no regular file"):
            Ledger.open(path)
    assert sorted(found.name for found in tmp_path.iterdir()) == ["link", "pipe"]
