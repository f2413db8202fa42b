"""Marks of free space, on real file systems."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from support.mounts import fill, needs_root, tmpfs

from wcache.daemon.space import HARD_BYTES, SOFT_BYTES, Room, Space

SIZE_BYTES = 10 << 20


@needs_root
def test_a_small_disk_is_low_below_a_tenth_and_full_below_a_fiftieth(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with tmpfs(tmp_path / "small", SIZE_BYTES) as small, caplog.at_level(logging.INFO, "wcache"):
        space = Space({"ledger": small, "journal": tmp_path / "absent"})
        levels = []
        for leave_bytes in (SIZE_BYTES // 2, SIZE_BYTES // 20, SIZE_BYTES // 100, 0, SIZE_BYTES // 2):
            filler = fill(small, leave_bytes)
            space.look()
            space.look()
            levels.append((space.level("ledger"), len(space.warnings())))
            filler.unlink()
    assert levels == [("ok", 0), ("low", 1), ("full", 1), ("full", 1), ("ok", 0)]
    assert space.level("journal") == "ok"
    lines = [entry.getMessage() for entry in caplog.records]
    assert [line.split(":")[0] for line in lines] == [f"Space of the ledger {level}" for level in ("low", "full", "ok")]


def test_a_large_disk_has_marks_in_bytes() -> None:
    assert [Room(Path("/"), free, SOFT_BYTES, HARD_BYTES).level for free in (SOFT_BYTES, SOFT_BYTES - 1, HARD_BYTES - 1)] == [
        "ok",
        "low",
        "full",
    ]
