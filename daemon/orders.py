"""What server and worker say to each other: an order down, reports up, as tagged msgpack frames over a socket pair."""

from __future__ import annotations

import msgspec

from wcache.core.model.decide import HOST
from wcache.core.model.evidence import Fingerprint, Location
from wcache.core.wire.messages import Failure, SegmentManifest

MAX_FRAME_BYTES = 64 << 20


class LoadOrder(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Open a checkpoint, report it, wait for Go, then read it into sealed memory files, or onto the GPU of that UUID. `again`: the same
    files will be read again soon, so leave them in the page cache."""

    spelling: str
    revision: str | None
    state_dir: str
    device: str = HOST
    again: bool = False


class HashOrder(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Hash the checkpoint behind inherited descriptors: the shards in `location.files` order, then the index where there is one. `behind`:
    nobody waits for it, so it takes only what others leave of disk and processors. `known`: content hashed earlier there, of files that the
    kernel measured; where it measures the same now, nothing needs to be read."""

    spelling: str
    location: Location
    fds: tuple[int, ...]
    behind: bool = False
    known: tuple[Fingerprint, ...] = ()


class VerifyOrder(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Hash resident memory behind inherited descriptors, one a segment, and compare it with what its load recorded. `device` holds it."""

    segments: tuple[SegmentManifest, ...]
    tensor_digests: tuple[bytes, ...]
    fds: tuple[int, ...]
    weights_digest: str
    device: str = HOST


class PublishOrder(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Check what an engine published, behind inherited descriptors: the table, then the memory that it describes; and hash its blocks."""

    segments: tuple[SegmentManifest, ...]
    fds: tuple[int, ...]
    device: str


class ProveOrder(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Take identities and headers of another user's checkpoint from inherited descriptors: the shards, then the index, as in HashOrder."""

    spelling: str
    location: Location
    fds: tuple[int, ...]


class Go(msgspec.Struct, frozen=True, tag=True):
    """There is room, and the load is on record."""


class Taken(msgspec.Struct, frozen=True, tag=True):
    """The server has the descriptors of the last Filled."""


class Opened(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The checkpoint is valid. `bytes`: what it will take of the device."""

    location: Location
    bytes: int
    tensors: int
    table_digest: str
    strays: tuple[str, ...]


class Phase(msgspec.Struct, frozen=True, tag=True):
    """Where the work stands. `phase` is settle, prepare (a GPU; the memory is taken when it ends), read or seal. `retried`: how many
    operations on the files were tried again so far; `last`: where the last of them failed, and how."""

    phase: str
    done_bytes: int
    total_bytes: int
    retried: int = 0
    last: str = ""


class Filled(msgspec.Struct, frozen=True, tag=True):
    """Segments; their descriptors come along, at most 32. `tensor_digests`: a segment's, 32 bytes a tensor, in file order; of packed ones
    none for the table, and 32 bytes for each of its blocks for the memory."""

    segments: tuple[SegmentManifest, ...]
    tensor_digests: tuple[bytes, ...]


class LoadResult(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The load is complete. `fingerprints` has the `content` one first."""

    fingerprints: tuple[Fingerprint, ...]
    dtypes: tuple[str, ...]
    misaligned: int
    seconds: dict[str, float]
    retried: int = 0


class HashResult(msgspec.Struct, frozen=True, tag=True):
    fingerprint: Fingerprint


class VerifyResult(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """`intact`, or the tensors that differ and what else is wrong; `found` is the weights digest of what is there, where it has one."""

    intact: bool
    tensors: tuple[str, ...]
    why: str
    found: str


class PublishResult(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """What was published is whole. `block_digests`: 32 bytes for each block of the table; `table_digest` is the BLAKE3 of the table."""

    processed_digest: str
    block_digests: bytes
    table_digest: str
    tensors: int
    dtypes: tuple[str, ...]
    seconds: dict[str, float]


class ProofResult(msgspec.Struct, frozen=True, tag=True):
    """Header evidence, with the identities as the worker found them."""

    header: Fingerprint


class Failed(msgspec.Struct, frozen=True, tag=True):
    failure: Failure


Order = LoadOrder | HashOrder | ProveOrder | VerifyOrder | PublishOrder | Go | Taken
Report = Opened | Phase | Filled | LoadResult | HashResult | ProofResult | VerifyResult | PublishResult | Failed

_encoder = msgspec.msgpack.Encoder()
_orders: msgspec.msgpack.Decoder[Order] = msgspec.msgpack.Decoder(Order)
_reports: msgspec.msgpack.Decoder[Report] = msgspec.msgpack.Decoder(Report)


def encode(message: Order | Report) -> bytes:
    return _encoder.encode(message)


def decode_order(body: bytes) -> Order:
    return _orders.decode(body)


def decode_report(body: bytes) -> Report:
    return _reports.decode(body)
