"""Content evidence with a signature: every byte is hashed now, and each file is the one that somebody signed (core.checkpoint.oms)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from wcache.core.checkpoint.checkpoint import OpenCheckpoint, hold_checkpoint
from wcache.core.checkpoint.content import CHUNK_BYTES
from wcache.core.checkpoint.oms import HASHES, SignedFiles, verify_signature
from wcache.core.checkpoint.reader import OpenFile, Reader
from wcache.core.checkpoint.retries import Retries
from wcache.core.model.errors import CheckpointChanged, CheckpointInvalid
from wcache.core.model.evidence import Fingerprint, Grant, Signed
from wcache.core.model.policy import Policy
from wcache.ledger.evidence import hash_held

Progress = Callable[[int, int], None]


def hash_signed(
    spelling: str,
    signature: str | Path,
    key: str | Path,
    policy: Policy,
    grants: Iterable[Grant] = (),
    *,
    revision: str | None = None,
    progress: Progress | None = None,
) -> Fingerprint:
    """A `content` fingerprint that says who signed the files. They are read twice: for the digests that were signed, and for ours.

    What counts as weights is looked at, shards and index; a signed shard that is missing is refused, other files are not our business.
    Raises EvidenceUnavailable for a signature that does not verify, CheckpointInvalid (`oms_mismatch`) naming the file that is not what was
    signed, and what opening and hashing raise.
    """
    signed = verify_signature(signature, key)
    reader = Reader(Retries())
    with hold_checkpoint(spelling, revision=revision, reader=reader) as held:
        total = 2 * held.checkpoint.total_bytes
        done = 0

        def advance(count_bytes: int) -> None:
            nonlocal done
            done += count_bytes
            if progress is not None:
                progress(min(done, total), total)

        with _unchanged(held):
            _require_signed(held, signed, advance)
            read = done
            content = hash_held(
                held, reader, policy, grants, progress=None if progress is None else lambda now, _: progress(min(read + now, total), total)
            )
    return msgspec.structs.replace(content, signed=Signed(key=signed.key, signature=signed.signature, name=signed.name))


@contextmanager
def _unchanged(held: OpenCheckpoint) -> Iterator[None]:
    held.sync()
    before = held.identities()
    yield
    if held.identities() != before:
        raise CheckpointChanged("the files changed while they were read", where=held.checkpoint.location.root)


def _require_signed(held: OpenCheckpoint, signed: SignedFiles, advance: Callable[[int], None]) -> None:
    root, index = held.checkpoint.location.root, held.checkpoint.location.index
    missing = sorted(name for name in signed.files if name.endswith(".safetensors") and "/" not in name and name not in held.files)
    if missing and index is None:  # an index, itself signed, says which of them count
        raise CheckpointInvalid("oms_mismatch", "this file was signed and is not there", where=f"{root}/{missing[0]}")
    named = dict(held.files)
    if held.index is not None and index is not None:
        named[index.name] = held.index
    for name, file in named.items():
        wanted = signed.files.get(name)
        if wanted is None:
            raise CheckpointInvalid("oms_mismatch", "this file counts as weights and was not signed", where=f"{root}/{name}")
        algorithm, digest = wanted
        if _digest(file, name, algorithm, advance) != digest:
            raise CheckpointInvalid(
                "oms_mismatch", f"this is not the file that was signed: its {algorithm} is another", where=f"{root}/{name}",
                remedy="get the file again from whoever signed it",
            )  # fmt: skip


def _digest(file: OpenFile, name: str, algorithm: str, advance: Callable[[int], None]) -> str:
    hasher = HASHES[algorithm]()
    size_bytes = file.identity(name).size_bytes
    for offset in range(0, size_bytes, CHUNK_BYTES):
        length = min(CHUNK_BYTES, size_bytes - offset)
        hasher.update(file.read_at(offset, length))
        advance(length)
    return str(hasher.hexdigest())
