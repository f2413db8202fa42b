"""`wcache.lock`: the weights that may be served, written down to be reviewed and kept under version control.

JSON (RFC 8259), two spaces deep, checkpoints and files in name order, nothing in it that changes without the weights: no time, no host, no
path but the spelling that was typed. Version 1; another version is refused, never guessed at.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

import msgspec

from wcache.core.model.errors import UsageError
from wcache.core.model.evidence import LOCKED_MAX, Lock

LOCK_NAME = "wcache.lock"
LOCK_VERSION = 1
_MAX_BYTES = 16 << 20
_DIGEST = re.compile(r"[0-9a-f]{64}")
_MAKE = "`wcache lock CHECKPOINT -o FILE` makes one"


class LockedFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One shard, for people and for other tools (`b3sum`): what decides is the weights digest."""

    name: str
    size_bytes: int
    blake3: str


class LockedCheckpoint(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """One checkpoint as it was when it was locked. `checkpoint` is the spelling that was typed; `commit` that of a Hugging Face
    snapshot."""

    checkpoint: str
    weights_digest: str
    algorithm: str
    tensors: int
    size_bytes: int
    files: tuple[LockedFile, ...]
    repo: str | None = None
    commit: str | None = None


class LockFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    version: int
    checkpoints: tuple[LockedCheckpoint, ...]


def lock_of(checkpoints: Iterable[LockedCheckpoint]) -> LockFile:
    """Raises UsageError for one spelling twice, or more than LOCKED_MAX checkpoints."""
    found = sorted(checkpoints, key=lambda one: one.checkpoint.encode())
    names = [one.checkpoint for one in found]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise UsageError("the same checkpoint twice", where=twice)
    if len(found) > LOCKED_MAX:
        raise UsageError(f"{len(found)} checkpoints for one lock, it holds {LOCKED_MAX}", remedy="make several")
    return LockFile(version=LOCK_VERSION, checkpoints=tuple(found))


def render_lock(lock: LockFile) -> bytes:
    """The file's bytes: the same for the same content."""
    return msgspec.json.format(msgspec.json.encode(lock), indent=2) + b"\n"


def read_lock_file(path: str | Path) -> LockFile:
    """Raises UsageError with one line for what is no lock of this version."""
    return _parse(_bytes_of(path), str(path))


def read_lock(path: str | Path) -> Lock:
    """What a decision needs of the lock at `path`. Raises UsageError."""
    raw = _bytes_of(path)
    parsed = _parse(raw, str(path))
    weights = tuple(dict.fromkeys(one.weights_digest for one in parsed.checkpoints))
    from blake3 import blake3  # an engine whose installation lacks it must still get as far as recording that

    return Lock(path=str(path), digest=blake3(raw).hexdigest(), weights=weights)


def _bytes_of(path: str | Path) -> bytes:
    try:
        with Path(path).open("rb") as file:
            raw = file.read(_MAX_BYTES + 1)
    except OSError as error:
        raise UsageError(f"the lock cannot be read: {error.strerror or error}", where=str(path), remedy=_MAKE) from None
    if len(raw) > _MAX_BYTES:
        raise UsageError(f"this is no lock: more than {_MAX_BYTES} bytes", where=str(path), remedy=_MAKE)
    return raw


def _parse(raw: bytes, where: str) -> LockFile:
    try:
        plain = msgspec.json.decode(raw)
        version = plain.get("version") if isinstance(plain, dict) else None
        if isinstance(version, int) and version != LOCK_VERSION:
            raise UsageError(f"a lock of version {version}, this release reads {LOCK_VERSION}", where=where, remedy="upgrade wcache")
        found = msgspec.convert(plain, LockFile)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise UsageError(f"this is no lock: {error}", where=where, remedy=_MAKE) from None
    if not found.checkpoints:
        raise UsageError("the lock names no checkpoint, so nothing could ever be served", where=where, remedy=_MAKE)
    if len(found.checkpoints) > LOCKED_MAX:
        raise UsageError(f"the lock names {len(found.checkpoints)} checkpoints, it may hold {LOCKED_MAX}", where=where)
    bad = next((one for one in found.checkpoints if not _DIGEST.fullmatch(one.weights_digest)), None)
    if bad is not None:
        raise UsageError(f"{bad.weights_digest[:80]!r} is no weights digest", where=f"{where}: {bad.checkpoint}", remedy=_MAKE)
    return found
