"""What a worker does with published memory: is it what its table says, and what are its digests? Read by pread(2) or on its GPU."""

from __future__ import annotations

import os
import time

from blake3 import blake3

from wcache.core.checkpoint.header import DTYPE_BITS
from wcache.core.memory import memfd, table
from wcache.core.memory.dtypes import NAMES, PACKED
from wcache.core.memory.packing import Placement
from wcache.core.model.decide import HOST
from wcache.core.model.errors import MappingFailed
from wcache.daemon.blocks import Progress, hash_blocks
from wcache.daemon.orders import PublishOrder, PublishResult


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
    digests = list(hash_blocks(memory_fd, memory.size_bytes, order.device, made.blocks, progress))
    if not all(digests):
        raise MappingFailed(f"the memory ends before its {memory.size_bytes} bytes", where="memory")
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
