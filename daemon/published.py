"""What a worker does with published memory: is it what its table says, and what are its digests? Read by pread(2) or on its GPU."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack

from blake3 import blake3

from wcache.core.checkpoint.header import DTYPE_BITS
from wcache.core.memory import memfd, table
from wcache.core.memory.dtypes import NAMES, PACKED
from wcache.core.memory.packing import Placement
from wcache.core.model.decide import HOST
from wcache.core.model.errors import MappingFailed
from wcache.daemon.orders import PublishOrder, PublishResult

_CHUNK_BYTES = 16 << 20
_THREADS_FROM_BYTES = 1 << 20  # below it, handing work to other threads costs more than hashing
_BATCH_BYTES = 4 << 30  # of a GPU's memory: progress can be told in between, and the scratch memory stays small

Progress = Callable[[int], None]


def check(order: PublishOrder, progress: Progress = lambda _: None) -> PublishResult:
    """Raises MappingFailed for a table or memory that is not sealed or has another size, and for a table that describes tensors outside of
    the memory or of no possible form; Unsupported where a GPU's memory cannot be looked at."""
    began_s = time.monotonic()
    (shown, memory), (table_fd, memory_fd) = order.segments, order.fds
    made = table.read(table_fd, shown.size_bytes, memory_bytes=memory.size_bytes)
    if order.device == HOST:
        memfd.check_sealed(memory_fd, memory.size_bytes, name="memory")
    for place in made.tensors:
        check_form(place)
    hashed = _on_host(memory_fd, made.blocks, progress) if order.device == HOST else _on_gpu(order, made.blocks, progress)
    digests = list(hashed)
    return PublishResult(
        processed_digest=table.processed_digest(made, digests),
        block_digests=b"".join(digests),
        table_digest=blake3(os.pread(table_fd, shown.size_bytes, 0)).hexdigest(),
        tensors=len(made.tensors),
        dtypes=tuple(sorted({place.dtype for place in made.tensors})),
        seconds={"hash": round(time.monotonic() - began_s, 6)},
    )


def check_form(place: Placement) -> None:
    """Raises MappingFailed where a tensor of that dtype, shape and strides does not reach exactly so many bytes, or not from there."""
    bits = DTYPE_BITS.get(place.dtype)
    if bits is None or place.dtype not in NAMES:
        raise MappingFailed(f"its dtype {place.dtype[:32]!r} is unknown", where=place.name)
    item_bytes = max(1, bits // 8)
    shape = place.shape
    if place.dtype in PACKED and shape:  # two of these are one item
        shape = (*shape[:-1], shape[-1] // 2)
    if place.strides and len(place.strides) != len(shape):
        raise MappingFailed(f"it has {len(shape)} dimensions and {len(place.strides)} strides", where=place.name)
    if min((*shape, *place.strides), default=0) < 0:
        raise MappingFailed("its shape or strides are below 0", where=place.name)
    reach = 0 if 0 in shape else 1
    step = 1
    for position in range(len(shape) - 1, -1, -1) if reach else ():
        reach += (shape[position] - 1) * (place.strides[position] if place.strides else step)
        step *= shape[position]
    if reach * item_bytes != place.size_bytes or place.offset_bytes % item_bytes:
        raise MappingFailed(
            f"{place.dtype} {list(place.shape)} does not fit {place.size_bytes} bytes at {place.offset_bytes}", where=place.name
        )


def _on_host(fd: int, blocks: Sequence[tuple[int, int]], progress: Progress) -> Iterator[bytes]:
    for offset_bytes, size_bytes in blocks:
        hasher = blake3(max_threads=blake3.AUTO if size_bytes >= _THREADS_FROM_BYTES else 1)
        for start in range(0, size_bytes, _CHUNK_BYTES):
            chunk = os.pread(fd, min(_CHUNK_BYTES, size_bytes - start), offset_bytes + start)  # sealed: never shorter
            hasher.update(chunk)
            progress(len(chunk))
        yield hasher.digest()


def _on_gpu(order: PublishOrder, blocks: Sequence[tuple[int, int]], progress: Progress) -> Iterator[bytes]:
    from wcache.core.memory import cuda, vmm
    from wcache.core.memory.blake3_cuda import Blake3

    device = cuda.find(order.device)
    with ExitStack() as opened:
        mapping = opened.enter_context(vmm.map_descriptor(order.fds[1], order.segments[1].size_bytes, device))
        hasher = Blake3(device)
        opened.callback(hasher.close)
        batch: list[tuple[int, int]] = []
        for number, (offset_bytes, size_bytes) in enumerate(blocks):
            batch.append((mapping.address + offset_bytes, size_bytes))
            if sum(size for _, size in batch) >= _BATCH_BYTES or number == len(blocks) - 1:
                yield from hasher.digests(batch)
                progress(sum(size for _, size in batch))
                batch = []
