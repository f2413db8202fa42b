"""Comparing a resident shard with the digests of its load, byte for byte, never through a mapping: what changed may have shrunk too."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from blake3 import blake3

from wcache.core.checkpoint.digest import ShardHasher, digest_of_weights
from wcache.core.checkpoint.header import Header, TensorEntry, read_header
from wcache.core.model.errors import CheckpointChanged, CheckpointInvalid

CHUNK_BYTES = 16 << 20
DIGEST_BYTES = 32

ReadAt = Callable[[int, int], bytes]
"""(offset, length) -> the bytes there; fewer where the memory ends."""


class ResidentShard(NamedTuple):
    """What a load recorded of a shard: its size, the BLAKE3 of the whole file, and those of its tensors in file order, 32 bytes each."""

    name: str
    size_bytes: int
    file_digest: str
    tensor_digests: bytes


class ShardVerdict(NamedTuple):
    """Whether the bytes are those of the load. If not: which tensors differ, and what else is wrong (`why`).

    `entries` has each tensor with the digest found, for the weights digest; it is None where the bytes are intact or no header is left.
    """

    intact: bool
    tensors: tuple[str, ...] = ()
    why: str = ""
    entries: tuple[tuple[TensorEntry, bytes], ...] | None = None


def compare_shard(shard: ResidentShard, read_at: ReadAt, progress: Callable[[int], None] = lambda _: None) -> ShardVerdict:
    """Hash the whole file; only where that differs, hash tensor by tensor to name those that do."""
    hasher = blake3(max_threads=blake3.AUTO)
    for offset in range(0, shard.size_bytes, CHUNK_BYTES):
        wanted = min(CHUNK_BYTES, shard.size_bytes - offset)
        chunk = read_at(offset, wanted)
        hasher.update(chunk)
        progress(len(chunk))
        if len(chunk) < wanted:
            return ShardVerdict(intact=False, why=f"{shard.name} ends after {offset + len(chunk)} of {shard.size_bytes} bytes")
    if hasher.hexdigest() == shard.file_digest:
        return ShardVerdict(intact=True)
    return _name_tensors(shard, read_at)


def _name_tensors(shard: ResidentShard, read_at: ReadAt) -> ShardVerdict:
    try:
        header = read_header(read_at, shard.size_bytes, where=shard.name)
        found = _tensors_of(header, shard, read_at)
    except (CheckpointInvalid, CheckpointChanged) as error:
        return ShardVerdict(intact=False, why=f"the header of {shard.name} changed: {error.what}")
    expected = _split(shard.tensor_digests)
    if len(expected) != len(found):
        return ShardVerdict(intact=False, why=f"the header of {shard.name} changed: {len(found)} tensors instead of {len(expected)}")
    changed = tuple(entry.name for (entry, digest), then in zip(found, expected, strict=True) if digest != then)
    return ShardVerdict(intact=False, tensors=changed, why="" if changed else f"the header of {shard.name} changed", entries=found)


def _tensors_of(header: Header, shard: ResidentShard, read_at: ReadAt) -> tuple[tuple[TensorEntry, bytes], ...]:
    hasher = ShardHasher(header, where=shard.name)
    for offset in range(0, shard.size_bytes, CHUNK_BYTES):
        hasher.update(read_at(offset, min(CHUNK_BYTES, shard.size_bytes - offset)))
    digests = hasher.finish().tensors
    return tuple((entry, digests[entry.name]) for entry in header.tensors)


def _split(digests: bytes) -> list[bytes]:
    return [digests[start : start + DIGEST_BYTES] for start in range(0, len(digests), DIGEST_BYTES)]


def weights_digest_found(shards: Sequence[ResidentShard], readers: Sequence[ReadAt], verdicts: Sequence[ShardVerdict]) -> str | None:
    """The weights digest of what is resident now, when not all is intact; None where a header can no longer be read."""
    found: list[tuple[TensorEntry, bytes]] = []
    for shard, read_at, verdict in zip(shards, readers, verdicts, strict=True):
        if verdict.intact:
            header = read_header(read_at, shard.size_bytes, where=shard.name)
            found += zip(header.tensors, _split(shard.tensor_digests), strict=True)
        elif verdict.entries is not None:
            found += verdict.entries
        else:
            return None
    return digest_of_weights(found)
