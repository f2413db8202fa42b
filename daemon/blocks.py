"""Hashing packed memory block by block: a memory file by pread(2), never through a mapping, or a GPU's memory on that GPU."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack

from blake3 import blake3

from wcache.core.checkpoint.resident import CHUNK_BYTES
from wcache.core.model.decide import HOST

_BATCH_BYTES = 4 << 30  # of a GPU's memory: progress can be told in between, and the scratch memory stays small
_THREADS_FROM_BYTES = 1 << 20  # below it, handing work to other threads costs more than hashing

Progress = Callable[[int], None]


def hash_blocks(
    fd: int, memory_bytes: int, device: str, blocks: Sequence[tuple[int, int]], progress: Progress = lambda _: None
) -> Iterator[bytes]:
    """The BLAKE3 of each (offset, size), in order; an empty one, and no more, where a memory file ends before the block does.

    Raises Unsupported, MappingFailed or NoRoom where a GPU's memory cannot be looked at.
    """
    return _on_host(fd, blocks, progress) if device == HOST else _on_gpu(fd, memory_bytes, device, blocks, progress)


def _on_host(fd: int, blocks: Sequence[tuple[int, int]], progress: Progress) -> Iterator[bytes]:
    for offset_bytes, size_bytes in blocks:
        hasher = blake3(max_threads=blake3.AUTO if size_bytes >= _THREADS_FROM_BYTES else 1)
        for start in range(0, size_bytes, CHUNK_BYTES):
            wanted = min(CHUNK_BYTES, size_bytes - start)
            chunk = os.pread(fd, wanted, offset_bytes + start)
            if len(chunk) < wanted:
                yield b""
                return
            hasher.update(chunk)
            progress(wanted)
        yield hasher.digest()


def _on_gpu(fd: int, memory_bytes: int, device: str, blocks: Sequence[tuple[int, int]], progress: Progress) -> Iterator[bytes]:
    from wcache.core.memory import cuda, vmm
    from wcache.core.memory.blake3_cuda import Blake3

    cuda.see_only(device)
    gpu = cuda.find(device)
    with ExitStack() as opened:
        mapping = opened.enter_context(vmm.map_descriptor(fd, memory_bytes, gpu))
        hasher = Blake3(gpu)
        opened.callback(hasher.close)
        for batch in batches(blocks):
            yield from hasher.digests([(mapping.address + offset_bytes, size_bytes) for offset_bytes, size_bytes in batch])
            progress(sum(size_bytes for _, size_bytes in batch))


def batches(blocks: Sequence[tuple[int, int]], batch_bytes: int = _BATCH_BYTES) -> Iterator[list[tuple[int, int]]]:
    """The blocks in order, together until they have so many bytes; a larger block is a batch of its own, or ends one."""
    batch: list[tuple[int, int]] = []
    size_bytes = 0
    for block in blocks:
        batch.append(block)
        size_bytes += block[1]
        if size_bytes >= batch_bytes:
            yield batch
            batch, size_bytes = [], 0
    if batch:
        yield batch
