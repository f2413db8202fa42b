"""Comparing a packed residency with the digests of its load, block by block: in a memory file, or in a GPU's memory on that GPU."""

from __future__ import annotations

import os
from collections.abc import Sequence

from blake3 import blake3

from wcache.core.checkpoint.digest import digest_of_weights
from wcache.core.checkpoint.header import TensorEntry
from wcache.core.checkpoint.resident import DIGEST_BYTES
from wcache.core.memory import table
from wcache.core.model.errors import MappingFailed
from wcache.daemon.blocks import Progress, hash_blocks
from wcache.daemon.orders import VerifyOrder, VerifyResult


def compare(order: VerifyOrder, progress: Progress = lambda _: None) -> VerifyResult:
    """Of the two segments of `order`: table, memory. Names the tensors that lie in blocks that differ.

    `found` is the weights digest of what is there, for weights as a checkpoint has them; of others only where nothing differs. Raises
    Unsupported, MappingFailed or NoRoom where a GPU's memory cannot be looked at: that is no verdict.
    """
    (table_segment, memory), (table_fd, memory_fd) = order.segments, order.fds
    body = os.pread(table_fd, table_segment.size_bytes, 0)
    progress(len(body))
    try:
        if table_segment.file_digest and blake3(body).hexdigest() != table_segment.file_digest:
            raise MappingFailed("its bytes differ")
        made = table.read(table_fd, table_segment.size_bytes, memory_bytes=memory.size_bytes)
        expected = [order.tensor_digests[1][at : at + DIGEST_BYTES] for at in range(0, len(order.tensor_digests[1]), DIGEST_BYTES)]
        if len(expected) != len(made.blocks):
            raise MappingFailed(f"it has {len(made.blocks)} blocks instead of {len(expected)}")
    except MappingFailed as error:
        return VerifyResult(intact=False, tensors=(), why=f"the table changed: {error.what}", found="")
    found: list[bytes] = []
    for digest in hash_blocks(memory_fd, memory.size_bytes, order.device, made.blocks, progress):
        if not digest:
            return VerifyResult(intact=False, tensors=(), why=f"{memory.name} ends before its {memory.size_bytes} bytes", found="")
        found.append(digest)
    changed = {index for index, (then, now) in enumerate(zip(expected, found, strict=True)) if then != now}
    homes = made.homes()
    tensors = tuple(place.name for place in made.tensors if place.size_bytes and homes[place.name] in changed)
    return VerifyResult(
        intact=not changed,
        tensors=tensors,
        why="" if tensors or not changed else "bytes changed that are no tensor's",
        found=_weights_digest(made, found, homes) if changed else order.weights_digest,
    )


def _weights_digest(made: table.Table, found: Sequence[bytes], homes: dict[str, int]) -> str:
    """Only weights as a checkpoint has them have one, which shows in their shards: then each tensor is a block."""
    if not made.shards:
        return ""
    empty = blake3().digest()  # without bytes a tensor shares its place with another
    entries = (TensorEntry(place.name, place.dtype, place.shape, 0, place.size_bytes) for place in made.tensors)
    return digest_of_weights((entry, found[homes[entry.name]] if entry.size_bytes else empty) for entry in entries)
