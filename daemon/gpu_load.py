"""A load onto a GPU, in the worker: the checkpoint's bytes go straight there, are hashed there, and stay as one packed segment."""

from __future__ import annotations

import bisect
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

from blake3 import blake3

from wcache.core.checkpoint.checkpoint import Checkpoint, OpenCheckpoint, Shard
from wcache.core.checkpoint.content import require_header
from wcache.core.checkpoint.digest import ShardDigests
from wcache.core.checkpoint.direct import OnceFile
from wcache.core.checkpoint.reader import Reader
from wcache.core.memory import cuda, table, vmm
from wcache.core.memory.blake3_cuda import Blake3
from wcache.core.memory.packing import Item, Placement, Plan, pack
from wcache.core.memory.upload import Chunk, Extent, Target, Upload, chunks_of
from wcache.core.wire.messages import MEMORY, TABLE, SegmentManifest

PAGE_BYTES = 2 << 20
"""What a GPU gives memory in, on every one known: for figures before there is a driver to ask."""


def plan_of(checkpoint: Checkpoint) -> Plan:
    """Where each tensor will lie; names are unique across shards."""
    entries = (entry for shard in checkpoint.shards for entry in shard.header.tensors)
    return pack(Item(entry.name, entry.dtype, entry.shape, entry.size_bytes) for entry in entries)


def needed_bytes(checkpoint: Checkpoint) -> int:
    """What the weights will take of the GPU."""
    return max(1, -(-plan_of(checkpoint).size_bytes // PAGE_BYTES)) * PAGE_BYTES


def table_of(checkpoint: Checkpoint, plan: Plan) -> table.Table:
    """A block for each tensor, in the order of their places."""
    blocks = tuple((place.offset_bytes, place.size_bytes) for place in _in_order(plan))
    shards = tuple(table.Shard(shard.name, shard.size_bytes, shard.header.raw) for shard in checkpoint.shards)
    return table.Table(size_bytes=plan.size_bytes, tensors=plan.placements, blocks=blocks, shards=shards)


class GpuMemory:
    """The weights on the GPU, complete. Usable while the GpuLoad that made it is open."""

    def __init__(self, checkpoint: Checkpoint, made: table.Table, memory: vmm.Allocation, mapping: vmm.Mapping) -> None:
        self._shards = checkpoint.shards
        self._begins = [[entry.begin for entry in shard.header.tensors] for shard in checkpoint.shards]
        self._places = {place.name: place for place in made.tensors}
        self._table = made
        self._memory = memory
        self._mapping = mapping
        self.block_digests: list[bytes] = []

    def read_at(self, number: int, offset: int, length: int) -> bytes:
        """Bytes of shard `number` as its file had them, from the header and from the GPU."""
        header, end = self._shards[number].header, offset + length
        parts = [header.raw[offset:end]]
        first = max(0, bisect.bisect_right(self._begins[number], offset - header.header_bytes) - 1)
        for index in range(first, len(header.tensors)):
            entry = header.tensors[index]
            begin = header.header_bytes + entry.begin
            if begin >= end:
                break
            start, stop = max(begin, offset), min(begin + entry.size_bytes, end)
            if start < stop:
                parts.append(self._mapping.read(self._places[entry.name].offset_bytes + start - begin, stop - start))
        return b"".join(parts)

    def hand_over(self) -> tuple[tuple[SegmentManifest, ...], tuple[bytes, ...], tuple[int, ...]]:
        """(segments, their digests, their descriptors): the sealed table, then the memory. The caller closes the descriptors."""
        table_fd, table_bytes = table.seal(self._table, TABLE)
        try:
            digest = blake3(os.pread(table_fd, table_bytes, 0)).hexdigest()
            memory_fd = self._memory.export()
        except BaseException:
            os.close(table_fd)
            raise
        segments = (
            SegmentManifest(TABLE, table_bytes, digest, TABLE),
            SegmentManifest(MEMORY, self._memory.size_bytes, "", MEMORY),
        )
        return segments, (b"", b"".join(self.block_digests)), (table_fd, memory_fd)


class GpuLoad:
    """One load, begun by making this: driver, context and kernels take a few tenths of a second, in threads of their own. A context manager
    that gives up what this process holds of the memory; descriptors keep it."""

    def __init__(self, held: OpenCheckpoint, reader: Reader, uuid: str, *, cached: bool) -> None:
        """`cached`: read through the page cache, because the same files will be read again soon."""
        self._held = held
        self._reader = reader
        self._cached = cached
        plan = plan_of(held.checkpoint)
        self._table = table_of(held.checkpoint, plan)
        self._blocks = {place.name: block for block, place in enumerate(_in_order(plan))}
        self._places = {place.name: place for place in plan.placements}
        self._open = ExitStack()
        threads = self._open.enter_context(ThreadPoolExecutor(max_workers=2, thread_name_prefix="wcache-cuda"))
        self._device = device = threads.submit(_opened_device, uuid)
        self._hasher = threads.submit(lambda: Blake3(device.result()))
        self.seconds: dict[str, float] = {}

    def __enter__(self) -> GpuLoad:
        return self

    def __exit__(self, *exc: object) -> None:
        self._open.close()
        if self._hasher.exception() is None:
            self._hasher.result().close()

    def fill(self, allocated: Callable[[], None], progress: Callable[[int], None]) -> tuple[GpuMemory, dict[str, ShardDigests]]:
        """Reads everything once and hashes it where it stays. `allocated()` is called once the memory is taken, `progress` with the bytes
        read since the last call. The digests, by shard, are those of a load into host memory, but for the files as such.

        Raises NoRoom with the numbers, Unsupported, CheckpointChanged, CheckpointUnreadable, MappingFailed.
        """
        checkpoint = self._held.checkpoint
        shards = checkpoint.shards
        chunks = [chunk for number, shard in enumerate(shards) for chunk in chunks_of(number, shard.size_bytes, self._extents(shard))]
        filled: list[GpuMemory] = []
        with ExitStack() as opened:
            files = [opened.enter_context(OnceFile(self._held.files[shard.name], self._reader, cached=self._cached)) for shard in shards]

            def read(chunk: Chunk, slot: memoryview) -> None:
                with slot:
                    files[chunk.file].fill(slot, chunk.offset_bytes, chunk.size_bytes)

            def arrived(chunk: Chunk, data: memoryview) -> None:
                if self._hasher.done():
                    self._hasher.result()  # kernels that cannot be had are told now, not when everything is read
                shard = shards[chunk.file]
                require_header(shard, data, chunk.offset_bytes, where=self._held.files[shard.name].where)
                progress(chunk.size_bytes)

            def prepare() -> Target:
                memory = self._open.enter_context(vmm.create(max(1, self._table.size_bytes), self._device.result()))
                mapping = self._open.enter_context(memory.map(writable=True))
                allocated()
                filled.append(GpuMemory(checkpoint, self._table, memory, mapping))
                return Target(mapping, self._hasher.result)

            upload = Upload(chunks, self._table.blocks, read, arrived)
            digests = upload.run(prepare)
        self.seconds = upload.seconds
        filled[0].block_digests = digests
        return filled[0], {
            shard.name: ShardDigests("", {entry.name: digests[self._blocks[entry.name]] for entry in shard.header.tensors})
            for shard in shards
        }

    def _extents(self, shard: Shard) -> list[Extent]:
        start = shard.header.header_bytes
        return [
            Extent(start + entry.begin, self._places[entry.name].offset_bytes, entry.size_bytes, self._blocks[entry.name])
            for entry in shard.header.tensors
        ]


def _in_order(plan: Plan) -> list[Placement]:
    """Those that own their bytes, as the table's blocks are."""
    return sorted(plan.placed(), key=lambda place: (place.offset_bytes, place.size_bytes))


def _opened_device(uuid: str) -> cuda.Device:
    device = cuda.find(uuid)
    vmm.check_supported(device)
    with cuda.current(device):
        return device
