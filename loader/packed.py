"""A packed residency in the engine: its table, and the one block of memory that the table describes, mapped as a whole."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterable
from typing import TYPE_CHECKING

from wcache.core.checkpoint.header import Header, read_header
from wcache.core.memory import table as tables
from wcache.core.memory import views, vmm
from wcache.core.memory.cuda import find
from wcache.core.memory.memfd import check_sealed, map_private
from wcache.core.memory.packing import Placement
from wcache.core.memory.table import Shard, Table
from wcache.core.model.decide import HOST
from wcache.core.model.errors import MappingFailed, WcacheError
from wcache.core.wire.messages import MEMORY, TABLE, SegmentManifest
from wcache.loader.mapping import Memory

if TYPE_CHECKING:
    import torch


class Packed:
    """What came for a packed residency: the table, read and checked, and the memory's descriptor, which is owned until `close()`.

    `device` is `cpu` or the UUID of the GPU that the memory is on.
    """

    def __init__(self, table: Table, descriptor: int, memory_bytes: int, device: str, name: str) -> None:
        self.table = table
        self.descriptor = descriptor
        self.memory_bytes = memory_bytes
        self.device = device
        self.name = name
        self._headers: dict[str, Header] | None = None

    @property
    def data_bytes(self) -> int:
        """Bytes that belong to tensors, shared ones once."""
        return sum(size_bytes for _, size_bytes in self.table.blocks)

    def headers(self) -> dict[str, Header]:
        """Of the files that raw weights came from, by name; none of processed weights. Raises MappingFailed for one that is no header."""
        if self._headers is None:
            self._headers = {shard.name: _header_of(shard) for shard in self.table.shards}
        return self._headers

    def close(self) -> None:
        descriptor, self.descriptor = self.descriptor, -1  # as in Segment
        if descriptor >= 0:
            os.close(descriptor)


def _header_of(shard: Shard) -> Header:
    def read(offset: int, length: int) -> bytes:
        return shard.header[offset : offset + length]

    try:
        return read_header(read, shard.size_bytes, where=shard.name)
    except WcacheError as error:
        raise MappingFailed(f"its header in the table is none: {error.what}", where=shard.name, detail=error.detail) from error


def take_packed(parts: Iterable[tuple[SegmentManifest, int]], device: str) -> Packed:
    """The packed residency behind a table and the memory that it describes. Takes the descriptors over, also when this raises.

    Raises MappingFailed for any other set of segments, a table that does not fit the memory, and host memory that is not sealed. GPU memory
    has no seals: what it is shows when it is mapped.
    """
    pieces = list(parts)
    fds = [fd for _, fd in pieces]
    try:
        if [manifest.form for manifest, _ in pieces] != [TABLE, MEMORY]:
            forms = ", ".join(manifest.form for manifest, _ in pieces)
            raise MappingFailed(f"packed weights are a table and a memory, what came is {forms}")
        (shown, table_fd), (memory, memory_fd) = pieces
        table = tables.read(table_fd, shown.size_bytes, memory_bytes=memory.size_bytes, name=shown.name, blocks=False)
        if device == HOST:
            check_sealed(memory_fd, memory.size_bytes, name=memory.name)
        fds.remove(memory_fd)
        return Packed(table, memory_fd, memory.size_bytes, device, memory.name)
    finally:
        for fd in fds:
            os.close(fd)


class GpuMemory(vmm.Mapping):
    """A mapping of GPU memory that keeps something alive: the lease lasts as long as anything points into it."""

    keeper: object = None


class PackedMemory:
    """A packed residency mapped: privately and writable on the host, where a write in place stays with the writer; read-only on a GPU.

    Every tensor keeps the mapping alive, and the mapping keeps `keeper` (the lease). `mapping` is that of a GPU, None on the host.
    """

    def __init__(self, packed: Packed, keeper: object = None) -> None:
        """Raises MappingFailed, Unsupported, NotFound (this process does not see that GPU)."""
        descriptor = packed.descriptor
        if descriptor < 0:  # mmap(-1) would be zeros, not an error
            raise MappingFailed("the memory was given back already", where=packed.name)
        self.table = packed.table
        self.device = packed.device
        self.size_bytes = packed.memory_bytes
        self.memory: Memory | None = None
        self.mapping: GpuMemory | None = None
        if packed.device == HOST:
            self.memory = map_private(descriptor, packed.memory_bytes, cls=Memory)
            self.memory.keeper = keeper
            self.begin = ctypes.addressof(ctypes.c_char.from_buffer(self.memory))
        else:
            with vmm.import_descriptor(descriptor, packed.memory_bytes, find(packed.device)) as allocation:
                self.mapping = GpuMemory(allocation)
            self.mapping.keeper = keeper
            self.begin = self.mapping.address
        if packed.descriptor != descriptor:  # closed meanwhile: the number may have been another file's by then
            raise MappingFailed("the memory was given back already", where=packed.name)

    def bytes(self) -> torch.Tensor:
        """All of it as one tensor of bytes."""
        whole = Placement("all", "U8", (self.size_bytes,), 0, self.size_bytes)
        return self.tensors([whole])["all"]

    def tensors(self, placements: Iterable[Placement] | None = None) -> dict[str, torch.Tensor]:
        """A tensor for each place, all of the table's by default; views of one mapping. Raises MappingFailed, Unsupported."""
        places = self.table.tensors if placements is None else placements
        if self.mapping is not None:
            return views.tensors(self.mapping, places)
        return views.host_tensors(self.memory, places)

    def holds(self, address: int) -> bool:
        """Whether an address lies inside this mapping: the proof that a tensor was not copied."""
        return self.begin <= address < self.begin + self.size_bytes
