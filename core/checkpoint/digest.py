"""The digests that are compared: of weights, of the table of tensors, of headers, of files. All of one length-framed form.

A digest is BLAKE3 over a domain tag and fields; every field that varies in length is preceded by its length, so no two inputs run
together. The weights digest does not depend on sharding, header order or metadata: tensors come sorted by name as UTF-8 bytes, each
with name, dtype, shape and the BLAKE3 of its bytes. Golden vectors: tests/data/golden.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from blake3 import blake3

from wcache.core.checkpoint.header import Header, TensorEntry
from wcache.core.model.errors import CheckpointChanged

if TYPE_CHECKING:
    from typing_extensions import Buffer

WEIGHTS_ALGORITHM = "wcache-weights-1/blake3"
TABLE_ALGORITHM = "wcache-table-1/blake3"
HEADER_ALGORITHM = "wcache-header-1/blake3"
_THREADS_FROM_BYTES = 1 << 20  # below it, handing work to other threads costs more than hashing


class HashedShard(Protocol):
    """What the digests need to know of a shard."""

    @property
    def name(self) -> str: ...
    @property
    def header(self) -> Header: ...
    @property
    def size_bytes(self) -> int: ...


class ShardDigests(NamedTuple):
    """BLAKE3 of a whole shard file (hex, as `b3sum` prints it; empty where only tensors were hashed) and of each tensor's bytes."""

    file: str
    tensors: dict[str, bytes]


def framed(*fields: bytes) -> bytes:
    """Each field after its length as 8 bytes, big-endian."""
    return b"".join(len(field).to_bytes(8, "big") + field for field in fields)


def _described(entry: TensorEntry) -> bytes:
    shape = struct.pack(f">{len(entry.shape)}Q", *entry.shape)
    return framed(entry.name.encode("utf-8"), entry.dtype.encode("ascii"), shape)


def digest_of_weights(tensors: Iterable[tuple[TensorEntry, bytes]]) -> str:
    """The weights digest (hex) of all tensors of a checkpoint, each with the 32-byte BLAKE3 of its bytes."""
    rows = sorted((entry.name.encode("utf-8"), _described(entry) + digest) for entry, digest in tensors)
    return _of_rows(b"wcache/weights/1", [row for _, row in rows])


def digest_of_table(entries: Iterable[TensorEntry]) -> str:
    """The table digest (hex): names, dtypes and shapes, whatever the sharding."""
    rows = sorted((entry.name.encode("utf-8"), _described(entry)) for entry in entries)
    return _of_rows(b"wcache/table/1", [row for _, row in rows])


def digest_of_headers(shards: Sequence[HashedShard]) -> str:
    """The header digest (hex): file names, sizes and raw headers. Says nothing about values."""
    rows = [
        framed(shard.name.encode("utf-8"), shard.size_bytes.to_bytes(8, "big"), shard.header.raw)
        for shard in sorted(shards, key=lambda shard: shard.name.encode("utf-8"))
    ]
    return _of_rows(b"wcache/header/1", rows)


def _of_rows(tag: bytes, rows: Sequence[bytes]) -> str:
    digest = blake3(framed(tag) + len(rows).to_bytes(8, "big"))
    digest.update(b"".join(rows))
    return digest.hexdigest()


def weights_digest_of(shards: Sequence[HashedShard], digests: Mapping[str, ShardDigests]) -> str:
    """The weights digest of shards that were hashed; `digests` by shard name."""
    return digest_of_weights((entry, digests[shard.name].tensors[entry.name]) for shard in shards for entry in shard.header.tensors)


class ShardHasher:
    """BLAKE3 of a shard and of each of its tensors, from its bytes in order: the one pass in which somebody else may copy them too.

    `update` takes any buffer, never copies, and releases the interpreter lock; chunks of 8 MiB and more use all cores.
    """

    def __init__(self, header: Header, *, where: str = "") -> None:
        self._where = where
        self._expected_bytes = header.header_bytes + header.data_bytes
        self._file = blake3(max_threads=blake3.AUTO)
        self._position = 0
        self._digests: dict[str, bytes] = {}
        self._pending: Iterator[tuple[str, int, int]] = iter(
            [(entry.name, header.header_bytes + entry.begin, header.header_bytes + entry.end) for entry in header.tensors]
        )
        self._current = next(self._pending, None)
        self._tensor: blake3 | None = None  # only of a tensor that spans chunks

    def update(self, chunk: Buffer) -> None:
        """The next bytes of the file."""
        with memoryview(chunk) as view, view.cast("B") as data:
            start, stop = self._position, self._position + len(data)
            if stop > self._expected_bytes:
                raise CheckpointChanged("the file has grown while it was read", where=self._where)
            self._file.update(data)
            self._hash_tensors(data, start, stop)
            self._position = stop

    def _hash_tensors(self, data: memoryview, start: int, stop: int) -> None:
        while self._current is not None:
            name, begin, end = self._current
            if begin >= stop and end > begin:
                return
            part = data[max(begin, start) - start : min(end, stop) - start]
            threads = blake3.AUTO if len(part) >= _THREADS_FROM_BYTES else 1
            if self._tensor is None and end <= stop:
                self._digests[name] = blake3(part, max_threads=threads).digest()
            else:
                if self._tensor is None:
                    self._tensor = blake3(max_threads=blake3.AUTO)
                self._tensor.update(part)
                if end > stop:
                    return
                self._digests[name] = self._tensor.digest()
                self._tensor = None
            self._current = next(self._pending, None)

    def finish(self) -> ShardDigests:
        """The digests, once every byte came."""
        if self._position != self._expected_bytes:
            raise CheckpointChanged(
                f"the file ended after {self._position} of {self._expected_bytes} bytes while it was read", where=self._where
            )
        while self._current is not None:  # zero-size tensors at the very end, or a file without any data
            self._digests[self._current[0]] = blake3().digest()
            self._current = next(self._pending, None)
        return ShardDigests(self._file.hexdigest(), self._digests)


def hash_resident(header: Header, data: Buffer, *, where: str = "", chunk_bytes: int = 64 << 20) -> ShardDigests:
    """The digests of a whole shard that lies in memory (a sealed memfd's mapping)."""
    hasher = ShardHasher(header, where=where)
    with memoryview(data) as view, view.cast("B") as whole:
        for start in range(0, len(whole), chunk_bytes):
            with whole[start : start + chunk_bytes] as part:
                hasher.update(part)
    return hasher.finish()
