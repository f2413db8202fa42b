"""The secret that places the samples: whoever changes a file must not know which blocks are looked at."""

from __future__ import annotations

import fcntl
import os
import re
import secrets
import stat
import tempfile
from pathlib import Path

import msgspec

from wcache.core.model.errors import EvidenceUnavailable

_FOLDER = "seeds"
_FILE = re.compile(r"seed-([0-9a-f]{16})\.key")
_KEY_BYTES = 32


class Seed(msgspec.Struct, frozen=True):
    """A sampling key and its public id. Samples of different seeds cannot be compared."""

    id: str
    key: bytes

    def __repr__(self) -> str:
        return f"Seed(id={self.id!r})"  # the key stays out of logs


def load_or_create_seed(state_dir: str | os.PathLike[str]) -> Seed:
    """The seed in `<state_dir>/seeds`, made on first use (mode 0600, atomically: two processes that start at once use the same one).

    Raises EvidenceUnavailable when the file can be read by others or cannot be used.
    """
    folder = Path(state_dir) / _FOLDER
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return _existing(folder) or _create(folder)
    except OSError as error:
        raise EvidenceUnavailable(f"the sampling seed cannot be used: {error.strerror}", where=str(error.filename or folder)) from None


def load_seed(state_dir: str | os.PathLike[str], seed_id: str) -> Seed | None:
    """The seed of that id, or None."""
    path = Path(state_dir) / _FOLDER / f"seed-{seed_id}.key"
    return _read(path, seed_id) if _FILE.fullmatch(path.name) and path.exists() else None


def _existing(folder: Path) -> Seed | None:
    for path in sorted(folder.iterdir()):
        if match := _FILE.fullmatch(path.name):
            return _read(path, match[1])
    return None


def _read(path: Path, seed_id: str) -> Seed:
    mode = path.stat().st_mode
    if stat.S_IMODE(mode) & 0o077:
        raise EvidenceUnavailable(
            f"others may read the sampling seed (mode {stat.S_IMODE(mode):04o})", where=str(path), remedy="delete it: a new one is made"
        )
    key = path.read_bytes()
    if len(key) != _KEY_BYTES:
        raise EvidenceUnavailable(f"the sampling seed has {len(key)} bytes, not {_KEY_BYTES}", where=str(path), remedy="delete it")
    return Seed(seed_id, key)


def _create(folder: Path) -> Seed:
    lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if (found := _existing(folder)) is not None:  # somebody else was first
            return found
        seed = Seed(secrets.token_hex(8), secrets.token_bytes(_KEY_BYTES))
        descriptor, temporary = tempfile.mkstemp(dir=folder, prefix=".new-")  # mode 0600
        with os.fdopen(descriptor, "wb") as file:
            file.write(seed.key)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).rename(folder / f"seed-{seed.id}.key")
        os.fsync(lock)
        return seed
    finally:
        os.close(lock)
