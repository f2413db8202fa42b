"""The table of a packed residency: what lies where in its one block of memory. It travels as a sealed memory file beside that memory."""

from __future__ import annotations

import bisect
import os
import struct
from collections.abc import Iterable, Sequence

import msgspec
from blake3 import blake3

from wcache.core.memory import memfd
from wcache.core.memory.packing import Placement
from wcache.core.model.errors import MappingFailed

VERSION = 1
PROCESSED_ALGORITHM = "wcache-processed-1/blake3"
MAX_BYTES = 256 << 20  # as the cap on headers of checkpoints: a table says no more than they do


class Shard(msgspec.Struct, frozen=True):
    """A file that raw weights came from: its size, and its safetensors header as it is there, length prefix and all."""

    name: str
    size_bytes: int
    header: bytes


class Table(msgspec.Struct, frozen=True, kw_only=True):
    """`size_bytes` of memory are used, `blocks` are (offset, size) of what was hashed piece by piece, in order and without overlap; every
    tensor lies inside one block. `shards` are the files of raw weights; processed ones have none."""

    version: int = VERSION
    size_bytes: int
    tensors: tuple[Placement, ...]
    blocks: tuple[tuple[int, int], ...]
    shards: tuple[Shard, ...] = ()

    def check(self, memory_bytes: int) -> None:
        """Raises MappingFailed where the table cannot be of memory of that size: whoever believed it would read what is not there."""
        end = 0
        for offset_bytes, size_bytes in self.blocks:
            if offset_bytes < end or size_bytes < 0:
                raise MappingFailed(f"its table has overlapping blocks at {offset_bytes}")
            end = offset_bytes + size_bytes
        if len({place.name for place in self.tensors}) != len(self.tensors):
            raise MappingFailed("its table names a tensor twice")
        if end > memory_bytes or self.size_bytes > memory_bytes:
            raise MappingFailed(f"its table describes {max(end, self.size_bytes)} bytes, the memory has {memory_bytes}")
        homes = self.homes()
        for place in self.tensors:
            if place.name not in homes:
                raise MappingFailed("its table puts it outside of every block", where=place.name)

    def homes(self) -> dict[str, int]:
        """Tensor name -> index of the block that it lies in."""
        starts = [offset_bytes for offset_bytes, _ in self.blocks]
        found: dict[str, int] = {}
        for place in self.tensors:
            low = bisect.bisect_right(starts, place.offset_bytes) - 1
            # Blocks without bytes share their place with the next one: any that has it will do.
            for index in range(low, -1, -1):
                offset_bytes, size_bytes = self.blocks[index]
                if place.offset_bytes + place.size_bytes <= offset_bytes + size_bytes and place.size_bytes >= 0:
                    found[place.name] = index
                    break
                if size_bytes:
                    break
        return found


_decode = msgspec.msgpack.Decoder(Table).decode


def processed_digest(table: Table, block_digests: Sequence[bytes]) -> str:
    """The digest (hex) of processed weights: BLAKE3 over a domain tag and length-framed fields, as the digests of checkpoints are.

    `block_digests` has the BLAKE3 of each of `table.blocks`, 32 bytes, in their order. What counts of a tensor is its name, dtype, shape,
    strides and role, which block it lies in and where in it; of a block its size and digest. Where the blocks lie in memory, and in which
    order an engine named its tensors, does not count: tensors come sorted by name as UTF-8 bytes, blocks in the order in which those reach
    them.
    """
    homes = table.homes()
    numbers: dict[int, int] = {}
    rows = []
    for place in sorted(table.tensors, key=lambda place: place.name.encode("utf-8")):
        home = homes[place.name]
        number = numbers.setdefault(home, len(numbers))
        inside_bytes = place.offset_bytes - table.blocks[home][0]
        rows.append(
            _framed(
                place.name.encode("utf-8"), place.dtype.encode("ascii"), place.role.encode("ascii"), _numbers(place.shape),
                _numbers(place.strides), _numbers((number, inside_bytes, place.size_bytes)),
            )
        )  # fmt: skip
    blocks = [_numbers((table.blocks[home][1],)) + block_digests[home] for home in numbers]
    digest = blake3(_framed(b"wcache/processed/1", _numbers((len(rows), len(blocks)))))
    for row in (*rows, *blocks):
        digest.update(_framed(row))
    return digest.hexdigest()


def _framed(*fields: bytes) -> bytes:
    return b"".join(len(field).to_bytes(8, "big") + field for field in fields)


def _numbers(values: Iterable[int]) -> bytes:
    found = tuple(values)
    return struct.pack(f">{len(found)}Q", *found)


def seal(table: Table, name: str) -> tuple[int, int]:
    """A sealed memory file with the table: (descriptor, size in bytes). The caller closes it."""
    body = msgspec.msgpack.encode(table)
    fd = memfd.create(name, len(body))
    try:
        written = 0
        while written < len(body):
            written += os.pwrite(fd, body[written:], written)
        memfd.seal(fd)
    except BaseException:
        os.close(fd)
        raise
    return fd, len(body)


def read(fd: int, size_bytes: int, *, memory_bytes: int, name: str = "table") -> Table:
    """The table behind a descriptor, checked: sealed, of that size, and within memory of that size. Raises MappingFailed."""
    if size_bytes > MAX_BYTES:
        raise MappingFailed(f"a table of {size_bytes} bytes is over the cap of {MAX_BYTES}", where=name)
    memfd.check_sealed(fd, size_bytes, name=name)
    try:
        table = _decode(os.pread(fd, size_bytes, 0))
    except msgspec.MsgspecError as error:
        raise MappingFailed(f"the table cannot be read: {error}", where=name) from None
    if table.version != VERSION:
        raise MappingFailed(f"the table has version {table.version}, this release reads {VERSION}", where=name)
    table.check(memory_bytes)
    return table
