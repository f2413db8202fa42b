"""Weights in host memory feed a GPU: sealed shards through pinned chunks into memory of the engine's own, many threads at once.

pread(2) into a pinned chunk needs no mapping of the shard and no page faults, and the GPU fetches one chunk while the next is read.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from wcache.core.checkpoint.header import TensorEntry
from wcache.core.memory.cuda import call, current, driver
from wcache.core.memory.packing import Placement, aligned
from wcache.core.memory.upload import Ring
from wcache.core.memory.views import block_tensors
from wcache.core.model.errors import MappingFailed, NoRoom
from wcache.loader.mapping import Segment
from wcache.loader.room import check_room

if TYPE_CHECKING:
    import torch

    from wcache.core.memory.cuda import Device

CHUNK_BYTES = 4 << 20  # smaller ones wait for the interpreter's lock, larger ones fall out of the cores' caches and take longer to pin
THREADS_MAX = 16
_SLOTS = 2  # a thread: one is filled while the GPU fetches the other
_NON_BLOCKING = 1  # CU_STREAM_NON_BLOCKING: torch's default stream is not waited for


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
    """Fills the beginning of `into`. Raises MappingFailed where the file ends before that (it is not the one that was checked) or cannot
    be read."""
    done = 0
    while done < chunk.size_bytes:
        try:
            count = os.preadv(chunk.fd, [into[done : chunk.size_bytes]], chunk.begin + done)
        except OSError as error:
            raise MappingFailed(f"a shard cannot be read at {chunk.begin + done}: {error.strerror}") from error
        if not count:
            raise MappingFailed(f"a shard ends at {chunk.begin + done}, before its last tensor")
        done += count


class _Transfer:
    """Threads, each with every so-manieth chunk and with pinned memory of its own. The first error ends all of them, and is raised when
    they have ended.

    What a thread does for a chunk under the interpreter's lock is little, and chunks are large enough for it not to matter.
    """

    def __init__(self, device: Device, address: int, chunks: Sequence[Chunk]) -> None:
        self._device = device
        self._address = address
        self._chunks = chunks
        self._room_bytes = max((chunk.size_bytes for chunk in chunks), default=0)
        self._errors: list[BaseException] = []

    def run(self) -> None:
        count = min(THREADS_MAX, len(os.sched_getaffinity(0)), len(self._chunks))
        shares = [self._chunks[first::count] for first in range(count)]
        threads = [threading.Thread(target=self._work, args=(share,), name="wcache-host-tier") for share in shares]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if self._errors:
            raise self._errors[0]

    def _work(self, chunks: Sequence[Chunk]) -> None:
        ring = Ring(_SLOTS, self._room_bytes)
        try:
            ring.register(self._device)
            with current(self._device):
                self._send(chunks, ring)
        except BaseException as error:
            self._errors.append(error)
        finally:
            ring.close()

    def _send(self, chunks: Sequence[Chunk], ring: Ring) -> None:
        """A stream for each slot: when it is empty, the slot may be filled again."""
        copy, wait = driver().cuMemcpyHtoDAsync, driver().cuStreamSynchronize
        slots = [(ring.slot(number), ring.address + number * self._room_bytes) for number in range(_SLOTS)]
        streams = [call("cuStreamCreate", _NON_BLOCKING) for _ in slots]
        try:
            for number, chunk in enumerate(chunks):
                if self._errors:
                    return
                view, source = slots[number % _SLOTS]
                stream = streams[number % _SLOTS]
                self._check(wait(stream))
                read_chunk(chunk, view)
                for piece in chunk.pieces:
                    self._check(copy(self._address + piece.target_bytes, source + piece.offset_bytes, piece.size_bytes, stream))
            for stream in streams:
                self._check(wait(stream))
        finally:
            for stream in streams:
                wait(stream)  # what is under way must not lose its source; whatever failed is raised already
                driver().cuStreamDestroy(stream)

    def _check(self, answer: Any) -> None:
        if answer[0]:
            raise MappingFailed(f"copying to the GPU failed: {answer[0].name}", where=str(self._device), detail=answer[0].name)
