"""What `wcache lock` writes down of a checkpoint, and what it finds when it looks again."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from typing import TYPE_CHECKING

import msgspec

from wcache.core.checkpoint.checkpoint import open_checkpoint
from wcache.core.checkpoint.lockfile import LockedCheckpoint, LockedFile
from wcache.core.checkpoint.reader import Reader
from wcache.core.checkpoint.spelling import resolve_root
from wcache.core.model.errors import NotFound, WcacheError
from wcache.core.model.evidence import Fingerprint
from wcache.ledger.evidence import hash_content, known_content
from wcache.ledger.knowledge import Knowledge

if TYPE_CHECKING:
    from wcache.core.settings import Settings

Progress = Callable[[int, int], None]


class LockCheck(msgspec.Struct, frozen=True, kw_only=True):
    """One locked checkpoint as it is now. Not `ok`: `why` says what differs. `found` is None where it cannot be read."""

    checkpoint: str
    ok: bool
    locked: str
    found: str | None
    why: str


def locked_checkpoint(
    settings: Settings, spelling: str, *, revision: str | None = None, progress: Progress | None = None
) -> tuple[LockedCheckpoint, Fingerprint]:
    """The entry of a checkpoint, and the content that it stands on: hashed now, unless the ledger knows that these very files were hashed
    before. Raises what opening and hashing raise."""
    content = _known(settings, spelling, revision) or hash_content(spelling, settings.policy, (), revision=revision, progress=progress)
    checkpoint = open_checkpoint(spelling, revision=revision)
    sizes = {shard.name: shard.size_bytes for shard in checkpoint.shards}
    entry = LockedCheckpoint(
        checkpoint=spelling,
        weights_digest=content.weights_digest or content.digest,
        algorithm=content.algorithm,
        tensors=checkpoint.tensor_count,
        size_bytes=checkpoint.total_bytes,
        files=tuple(
            LockedFile(name=name, size_bytes=sizes.get(name, 0), blake3=digest) for name, digest in sorted(content.file_digests.items())
        ),
        repo=checkpoint.location.repo,
        commit=checkpoint.location.commit,
    )
    return entry, content


def _known(settings: Settings, spelling: str, revision: str | None) -> Fingerprint | None:
    """The earlier hash of files that are unchanged, with the digests of each."""
    try:
        with closing(Knowledge(settings.ledger)) as knowledge:
            pinned = known_content(knowledge, resolve_root(spelling, revision), settings.policy, Reader())
            earlier = knowledge.fingerprint(pinned.reuses) if pinned is not None and pinned.reuses else None
    except NotFound:
        return None
    return earlier if earlier is not None and earlier.file_digests else None


def check_locked(settings: Settings, locked: LockedCheckpoint, *, progress: Progress | None = None) -> tuple[LockCheck, Fingerprint | None]:
    """Whether the checkpoint still has the locked weights; other files with the same weights are the same. Of a Hugging Face id the locked
    commit is looked at."""
    revision = locked.commit if locked.repo == locked.checkpoint else None
    try:
        now, content = locked_checkpoint(settings, locked.checkpoint, revision=revision, progress=progress)
    except WcacheError as error:
        why = f"{error.what}"
        return LockCheck(checkpoint=locked.checkpoint, ok=False, locked=locked.weights_digest, found=None, why=why), None
    same = now.weights_digest == locked.weights_digest
    differs = _difference(locked, now)
    why = differs if not same else f"the weights are the same, the files are not: {differs}" if differs else ""
    return LockCheck(checkpoint=locked.checkpoint, ok=same, locked=locked.weights_digest, found=now.weights_digest, why=why), content


def _difference(locked: LockedCheckpoint, now: LockedCheckpoint) -> str:
    """Which files differ, and how."""
    then, found = ({item.name: item for item in one.files} for one in (locked, now))
    parts = [f"{name} is missing" for name in then if name not in found]
    parts += [f"{name} is new" for name in found if name not in then]
    for name, item in then.items():
        other = found.get(name)
        if other is not None and other.size_bytes != item.size_bytes:
            parts.append(f"{name} has {other.size_bytes} bytes instead of {item.size_bytes}")
        elif other is not None and other.blake3 != item.blake3:
            parts.append(f"{name} has other bytes")
    return ", ".join(parts)
