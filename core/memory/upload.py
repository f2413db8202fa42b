"""Filling GPU memory from files: parallel reads into a ring of pinned memory, asynchronous copies from there, hashing of what has arrived.

Reading begins before there is a CUDA context, which takes a few tenths of a second: the ring is ordinary memory until it is registered.
"""

from __future__ import annotations

import ctypes
import mmap
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import Any, NamedTuple

from wcache.core.memory.blake3_cuda import Blake3
from wcache.core.memory.cuda import Device, call, current, driver
from wcache.core.memory.vmm import Mapping
from wcache.core.model.errors import MappingFailed, NoRoom

CHUNK_BYTES = 16 << 20
SLOTS = 32
READERS = 16
_HASH_BYTES = 1 << 30  # so much has arrived before it is hashed: fewer launches, and little scratch memory
_NON_BLOCKING = 1  # CU_STREAM_NON_BLOCKING: hashing on the default stream does not wait for copies that are to come
_EVENT = 3  # CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING: a wait that takes no core


class Copy(NamedTuple):
    """Bytes of a chunk and where they go: offsets in the chunk and in the GPU memory."""

    from_bytes: int
    to_bytes: int
    size_bytes: int


class Chunk(NamedTuple):
    """One read: `size_bytes` at `offset_bytes` of file number `file`, its copies, and the blocks that are complete with it, by index."""

    file: int
    offset_bytes: int
    size_bytes: int
    copies: tuple[Copy, ...] = ()
    completes: tuple[int, ...] = ()


class Extent(NamedTuple):
    """Where the bytes of a block lie in their file and in the GPU memory."""

    begin: int
    to_bytes: int
    size_bytes: int
    block: int


def chunks_of(file: int, size_bytes: int, extents: Sequence[Extent], chunk_bytes: int = CHUNK_BYTES) -> list[Chunk]:
    """The whole file in reads of `chunk_bytes`, in order; `extents` in order of their place in the file, without overlap."""
    found: list[Chunk] = []
    waiting = deque(extents)
    for start in range(0, size_bytes, chunk_bytes):
        stop = min(start + chunk_bytes, size_bytes)
        copies: list[Copy] = []
        completes: list[int] = []
        while waiting:
            extent = waiting[0]
            end = extent.begin + extent.size_bytes
            first, last = max(extent.begin, start), min(end, stop)
            if first < last:
                copies.append(Copy(first - start, extent.to_bytes + first - extent.begin, last - first))
            if end > stop:
                break
            completes.append(extent.block)
            waiting.popleft()
        found.append(Chunk(file, start, stop - start, tuple(copies), tuple(completes)))
    return found


class Ring:
    """Page-aligned memory of the host in slots of one chunk; `register` pins it for copies that need no further copy."""

    def __init__(self, slots: int, chunk_bytes: int = CHUNK_BYTES) -> None:
        self.slots = max(1, min(slots, SLOTS))
        self._chunk_bytes = chunk_bytes
        self._memory = mmap.mmap(-1, self.slots * chunk_bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        with suppress(OSError):  # a kernel without them
            self._memory.madvise(mmap.MADV_HUGEPAGE)
        self._view = memoryview(self._memory)
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(self._memory))
        self._device: Device | None = None

    def slot(self, number: int) -> memoryview:
        return self._view[number * self._chunk_bytes : (number + 1) * self._chunk_bytes]

    def register(self, device: Device) -> None:
        """Raises NoRoom where the memory cannot be pinned, MappingFailed."""
        with current(device):
            try:
                call("cuMemHostRegister", self.address, self.slots * self._chunk_bytes, 0, where=str(device))
            except MappingFailed as error:
                if error.detail != "CUDA_ERROR_OUT_OF_MEMORY":
                    raise
                what = f"{self.slots * self._chunk_bytes >> 20} MiB of host memory cannot be pinned for copying to the GPU"
                raise NoRoom(what, where=str(device), remedy="free memory of the host, or raise the limit of its control group") from None
        self._device = device

    def close(self) -> None:
        """The memory itself goes with the last reader's view of it. Raises nothing: what failed before is what is told."""
        device, self._device = self._device, None
        if device is not None:
            with suppress(MappingFailed), current(device):
                call("cuMemHostUnregister", self.address)
        self._view.release()


class Target(NamedTuple):
    """What is filled: the writable mapping, and the hasher of its GPU, which is waited for when there is something to hash."""

    mapping: Mapping
    hasher: Callable[[], Blake3]


class Upload:
    """One pass over files. `seconds` has afterwards what it waited for: `prepare` (context, memory), `disk`, `copy`, `hash`."""

    def __init__(
        self,
        chunks: Sequence[Chunk],
        blocks: Sequence[tuple[int, int]],
        read: Callable[[Chunk, memoryview], None],
        arrived: Callable[[Chunk, memoryview], None],
    ) -> None:
        """`read(chunk, slot)` fills the slot and runs in many threads; `arrived(chunk, bytes)` looks at what was read, in order, before it
        is copied. `blocks` are (offset, size) in the GPU memory."""
        self._chunks = chunks
        self._blocks = blocks
        self._read = read
        self._arrived = arrived
        self._digests: dict[int, bytes] = {}
        self._ripe: list[int] = []
        self._ripe_bytes = 0
        self._hashing: deque[Future[None]] = deque()
        self.seconds = dict.fromkeys(("prepare", "disk", "copy", "hash"), 0.0)

    def run(self, prepare: Callable[[], Target]) -> list[bytes]:
        """Fills the memory; the digests of the blocks, in order. `prepare()` is called in this thread once reading has begun.

        Raises what `read`, `arrived` and `prepare` raise, NoRoom, MappingFailed. When it returns or raises nothing is under way.
        """
        ring = Ring(len(self._chunks))
        readers = ThreadPoolExecutor(max_workers=min(READERS, ring.slots), thread_name_prefix="wcache-read")
        hashers = ThreadPoolExecutor(max_workers=1, thread_name_prefix="wcache-hash")
        try:
            self._pass(ring, readers, hashers, prepare)
        finally:
            readers.shutdown(cancel_futures=True)
            hashers.shutdown(cancel_futures=True)
            ring.close()
        return [self._digests[index] for index in range(len(self._blocks))]

    def _pass(self, ring: Ring, readers: ThreadPoolExecutor, hashers: ThreadPoolExecutor, prepare: Callable[[], Target]) -> None:
        todo = iter(self._chunks)
        free = list(range(ring.slots))
        reading: deque[tuple[Chunk, int, Future[None]]] = deque()

        def read_on() -> None:
            while free and (chunk := next(todo, None)) is not None:
                slot = free.pop()
                reading.append((chunk, slot, readers.submit(self._read, chunk, ring.slot(slot))))

        read_on()
        with _Clock(self.seconds, "prepare"):
            target = prepare()
            ring.register(target.mapping.device)
        with current(target.mapping.device), _Copies(target.mapping) as copies:
            while reading or copies.under_way:
                if not free and not reading:
                    with _Clock(self.seconds, "copy"):
                        copies.wait_for_oldest()
                for chunk, slot in copies.finished():
                    free.append(slot)
                    self._ripen(chunk, target, hashers)
                read_on()
                if reading:
                    chunk, slot, future = reading.popleft()
                    with _Clock(self.seconds, "disk"):
                        future.result()
                    with ring.slot(slot) as whole, whole[: chunk.size_bytes] as data:
                        self._arrived(chunk, data)
                    copies.start(chunk, slot, ring.address + slot * CHUNK_BYTES)
                elif copies.under_way:
                    with _Clock(self.seconds, "copy"):
                        copies.wait_for_oldest()
            with _Clock(self.seconds, "hash"):
                self._hash(target, hashers)
                for future in self._hashing:
                    future.result()

    def _ripen(self, chunk: Chunk, target: Target, hashers: ThreadPoolExecutor) -> None:
        self._ripe += chunk.completes
        self._ripe_bytes += sum(self._blocks[index][1] for index in chunk.completes)
        if self._ripe_bytes >= _HASH_BYTES:
            self._hash(target, hashers)

    def _hash(self, target: Target, hashers: ThreadPoolExecutor) -> None:
        indexes, self._ripe, self._ripe_bytes = self._ripe, [], 0
        regions = [(target.mapping.address + self._blocks[index][0], self._blocks[index][1]) for index in indexes]

        def work() -> None:
            self._digests.update(zip(indexes, target.hasher().digests(regions), strict=True))

        self._hashing.append(hashers.submit(work))


class _Copies:
    """Copies on a stream of their own, and the slots that they read from. Waits for all of them at its end."""

    def __init__(self, mapping: Mapping) -> None:
        self._mapping = mapping
        self._stream = call("cuStreamCreate", _NON_BLOCKING)
        self._spare: list[Any] = []
        self._queue: deque[tuple[Chunk, int, Any]] = deque()

    @property
    def under_way(self) -> bool:
        return bool(self._queue)

    def start(self, chunk: Chunk, slot: int, address: int) -> None:
        for copy in chunk.copies:
            to, source = self._mapping.address + copy.to_bytes, address + copy.from_bytes
            call("cuMemcpyHtoDAsync", to, source, copy.size_bytes, self._stream)
        event = self._spare.pop() if self._spare else call("cuEventCreate", _EVENT)
        call("cuEventRecord", event, self._stream)
        self._queue.append((chunk, slot, event))

    def wait_for_oldest(self) -> None:
        call("cuEventSynchronize", self._queue[0][2])

    def finished(self) -> Iterable[tuple[Chunk, int]]:
        """Those that are complete, in order, once each."""
        cu = driver()
        while self._queue:
            code = cu.cuEventQuery(self._queue[0][2])[0]
            if code == cu.CUresult.CUDA_ERROR_NOT_READY:
                return
            if code != cu.CUresult.CUDA_SUCCESS:
                raise MappingFailed(f"copying to the GPU failed: {code.name}", where=str(self._mapping.device), detail=code.name)
            chunk, slot, event = self._queue.popleft()
            self._spare.append(event)
            yield chunk, slot

    def __enter__(self) -> _Copies:
        return self

    def __exit__(self, *exc: object) -> None:
        cu = driver()  # whatever failed before is what is raised
        cu.cuStreamSynchronize(self._stream)
        for event in [*self._spare, *(event for _, _, event in self._queue)]:
            cu.cuEventDestroy(event)
        cu.cuStreamDestroy(self._stream)


class _Clock:
    """Adds the seconds of its block to an entry."""

    def __init__(self, seconds: dict[str, float], name: str) -> None:
        self._seconds, self._name = seconds, name

    def __enter__(self) -> None:
        self._began_s = time.monotonic()

    def __exit__(self, *exc: object) -> None:
        self._seconds[self._name] += time.monotonic() - self._began_s
