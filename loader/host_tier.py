"""Weights in host memory feed a GPU: sealed shards through pinned chunks into memory of the engine's own, many threads at once.

pread(2) into a pinned chunk needs no mapping of the shard and no page faults, and the GPU fetches one chunk while the next is read.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from wcache.core.checkpoint.header import TensorEntry
from wcache.core.memory.cuda import call, current
from wcache.core.memory.packing import Placement, aligned
from wcache.core.memory.upload import Ring
from wcache.core.memory.views import block_tensors
from wcache.core.model.errors import MappingFailed, NoRoom
from wcache.loader.mapping import Segment
from wcache.loader.room import check_room

if TYPE_CHECKING:
    import torch

    from wcache.core.memory.cuda import Device

# The ring is small: pinning takes time, and what fits a core's cache is fetched from there, not from memory again.
CHUNK_BYTES = 2 << 20
THREADS_MAX = 16
_CHUNKS = 2  # a thread: one is filled while the GPU fetches the other; the ring has 32 at most
_NON_BLOCKING = 1  # CU_STREAM_NON_BLOCKING: torch's default stream is not waited for
_EVENT = 3  # CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING: who waits leaves its core to a thread that reads


class Piece(NamedTuple):
    """`size_bytes` from `offset_bytes` of a chunk to `target_bytes` of the GPU's block."""

    offset_bytes: int
    target_bytes: int
    size_bytes: int


class Chunk(NamedTuple):
    """What is read at once: a range of one file, and where its pieces go."""

    fd: int
    begin: int
    size_bytes: int
    pieces: tuple[Piece, ...]


class Load(NamedTuple):
    """A plan: where each tensor will lie in a block of `size_bytes`, and the chunks that fill it."""

    size_bytes: int
    placements: tuple[Placement, ...]
    chunks: tuple[Chunk, ...]


def copy_to_gpu(segments: Iterable[Segment], device: Device, names: Iterable[str] | None = None) -> dict[str, torch.Tensor]:
    """The shards' tensors (all, or those of `names`) in new memory of that GPU, which they share and which is torch's.

    Raises NoRoom with the numbers, before anything is allocated where the driver knows it; MappingFailed, Unsupported.
    """
    import torch

    load = plan(segments, names)
    check_room(load.size_bytes, device)
    place = torch.device("cuda", device.ordinal)
    try:
        block = torch.empty(max(load.size_bytes, 1), dtype=torch.uint8, device=place)
    except torch.OutOfMemoryError as error:
        raise NoRoom(f"{load.size_bytes} bytes cannot be had: {str(error).splitlines()[0]}", where=str(device)) from None
    # torch may have taken the block from work that the GPU has not finished.
    torch.cuda.current_stream(place).synchronize()
    _Transfer(device, block.data_ptr(), load.chunks).run()
    return block_tensors(block, load.placements)


def plan(segments: Iterable[Segment], names: Iterable[str] | None = None, *, chunk_bytes: int = CHUNK_BYTES) -> Load:
    """Each tensor at a multiple of 256 bytes, in the order of the files: most lie behind each other as they do there, and go in one piece.

    Raises MappingFailed for a segment that was given back.
    """
    wanted = None if names is None else set(names)
    placements: list[Placement] = []
    chunks: list[Chunk] = []
    end = 0
    for segment in segments:
        if segment.descriptor < 0:
            raise MappingFailed("the segment was given back already", where=segment.name)
        copies: list[tuple[int, int, int]] = []
        for entry in sorted(segment.header.tensors, key=_begin):
            if wanted is not None and entry.name not in wanted:
                continue
            target = aligned(end)
            end = target + entry.size_bytes
            placements.append(Placement(entry.name, entry.dtype, entry.shape, target, entry.size_bytes))
            if entry.size_bytes:
                copies.append((segment.header.header_bytes + entry.begin, target, entry.size_bytes))
        chunks += _chunks(segment.descriptor, copies, chunk_bytes)
    return Load(end, tuple(placements), tuple(chunks))


def _begin(entry: TensorEntry) -> tuple[int, int]:
    return entry.begin, entry.size_bytes


def _chunks(fd: int, copies: Sequence[tuple[int, int, int]], chunk_bytes: int) -> Iterator[Chunk]:
    """(source, target, size) of tensors in the order of the file, cut into chunks; neighbours that stay neighbours are one piece."""
    begin = end = 0
    pieces: list[Piece] = []
    for source, target, size_bytes in copies:
        done = 0
        while done < size_bytes:
            if pieces and (source + done != end or end - begin == chunk_bytes):
                yield Chunk(fd, begin, end - begin, tuple(pieces))
                pieces = []
            if not pieces:
                begin = end = source + done
            part = min(size_bytes - done, chunk_bytes - (end - begin))
            last = pieces[-1] if pieces else None
            if last is not None and last.target_bytes + last.size_bytes == target + done:
                pieces[-1] = last._replace(size_bytes=last.size_bytes + part)
            else:
                pieces.append(Piece(end - begin, target + done, part))
            done += part
            end += part
    if pieces:
        yield Chunk(fd, begin, end - begin, tuple(pieces))


def read_chunk(chunk: Chunk, into: memoryview) -> None:
    """Fills the beginning of `into`. Raises MappingFailed where the file ends before that: it is not the one that was checked."""
    done = 0
    while done < chunk.size_bytes:
        count = os.preadv(chunk.fd, [into[done : chunk.size_bytes]], chunk.begin + done)
        if not count:
            raise MappingFailed(f"a shard ends at {chunk.begin + done}, before its last tensor")
        done += count


class _Transfer:
    """Threads that take the chunks in turn. The first error ends all of them, and is raised when they have ended."""

    def __init__(self, device: Device, address: int, chunks: Sequence[Chunk]) -> None:
        self._device = device
        self._address = address
        self._chunks = iter(chunks)
        self._room_bytes = max((chunk.size_bytes for chunk in chunks), default=0)
        self._threads = min(THREADS_MAX, len(os.sched_getaffinity(0)), len(chunks))
        self._lock = threading.Lock()
        self._errors: list[BaseException] = []

    def run(self) -> None:
        if not self._threads:
            return
        ring = Ring(self._threads * _CHUNKS, self._room_bytes)
        try:
            ring.register(self._device)
            turns = [range(first, first + _CHUNKS) for first in range(0, ring.slots, _CHUNKS)]
            threads = [threading.Thread(target=self._work, args=(ring, slots), name="wcache-host-tier") for slots in turns]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        finally:
            ring.close()
        if self._errors:
            raise self._errors[0]

    def _next(self) -> Chunk | None:
        with self._lock:
            return None if self._errors else next(self._chunks, None)

    def _work(self, ring: Ring, slots: range) -> None:
        try:
            with current(self._device):
                stream = call("cuStreamCreate", _NON_BLOCKING)
                try:
                    self._send([_Slot(ring.slot(slot), ring.address + slot * self._room_bytes) for slot in slots], stream)
                except BaseException as error:
                    self._errors.append(error)  # before the clean-up can fail for the same reason
                    raise
                finally:
                    call("cuStreamSynchronize", stream, where=str(self._device))  # what is under way must not lose its source
                    call("cuStreamDestroy", stream)
        except BaseException as error:
            self._errors.append(error)

    def _send(self, slots: list[_Slot], stream: Any) -> None:
        try:
            turn = 0
            while (chunk := self._next()) is not None:
                slots[turn].send(chunk, self._address, stream)
                turn = (turn + 1) % len(slots)
        finally:
            for slot in slots:
                slot.close()


class _Slot:
    """Pinned memory for one chunk, which the GPU reads by itself, and the event that says when it has."""

    def __init__(self, view: memoryview, address: int) -> None:
        self._view = view
        self._address = address
        self._event: Any = call("cuEventCreate", _EVENT)
        self._sent = False

    def send(self, chunk: Chunk, base: int, stream: Any) -> None:
        if self._sent:
            call("cuEventSynchronize", self._event)
        read_chunk(chunk, self._view)
        for piece in chunk.pieces:
            call("cuMemcpyHtoDAsync", base + piece.target_bytes, self._address + piece.offset_bytes, piece.size_bytes, stream)
        call("cuEventRecord", self._event, stream)
        self._sent = True

    def close(self) -> None:
        """Once the GPU has fetched what was sent last."""
        if self._sent:
            call("cuEventSynchronize", self._event)
        call("cuEventDestroy", self._event)
