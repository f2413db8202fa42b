"""Room on the disks that the record depends on: a soft mark that warns, and a hard one below which the journal is kept for those who
must be turned away, instead of for hits that the ledger did not take."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Literal, NamedTuple

log = logging.getLogger("wcache")

SOFT_BYTES = 256 << 20
HARD_BYTES = 32 << 20
SOFT_PART = 10
HARD_PART = 50
"""On a small file system the marks are a tenth and a fiftieth of it."""

Level = Literal["ok", "low", "full"]


class Room(NamedTuple):
    """One directory: what an unprivileged process may still write there (statvfs(3), f_bavail), and below which mark that is."""

    directory: Path
    free_bytes: int
    soft_bytes: int
    hard_bytes: int

    @property
    def level(self) -> Level:
        return "full" if self.free_bytes < self.hard_bytes else "low" if self.free_bytes < self.soft_bytes else "ok"

    def warning(self) -> str:
        """One line, or nothing."""
        if self.level == "ok":
            return ""
        mark = self.hard_bytes if self.level == "full" else self.soft_bytes
        return f"{self.directory}: {self.free_bytes} bytes are free, the {'hard' if self.level == 'full' else 'soft'} mark is {mark}"


def look_at(directory: Path) -> Room | None:
    """None where the directory cannot be looked at."""
    try:
        found = os.statvfs(directory)
    except OSError:
        return None
    size_bytes = found.f_blocks * found.f_frsize
    return Room(
        directory,
        found.f_bavail * found.f_frsize,
        min(SOFT_BYTES, size_bytes // SOFT_PART),
        min(HARD_BYTES, size_bytes // HARD_PART),
    )


class Space:
    """The watched directories by name, as they were at the last `look()`. A change of level is logged once."""

    def __init__(self, directories: Mapping[str, Path]) -> None:
        self._directories = dict(directories)
        self.rooms: dict[str, Room] = {}
        self.look()

    def look(self) -> None:
        for name, directory in self._directories.items():
            room = look_at(directory)
            if room is None:
                continue
            before = self.rooms.get(name)
            if room.level != (before.level if before else "ok"):
                log.log(logging.INFO if room.level == "ok" else logging.WARNING, "Space of the %s %s: %s", name, room.level, _said(room))
            self.rooms[name] = room

    def level(self, name: str) -> Level:
        room = self.rooms.get(name)
        return room.level if room else "ok"

    def warnings(self) -> list[str]:
        return [f"low space for the {name}, {line}" for name, room in self.rooms.items() if (line := room.warning())]


def _said(room: Room) -> str:
    return room.warning() or f"{room.directory}: {room.free_bytes} bytes are free"
