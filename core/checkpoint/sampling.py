"""Which bytes the `sampled` tier reads, and their digest: the start of every tensor, and blocks that only the seed's owner can predict."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from blake3 import blake3

from wcache.core.checkpoint.digest import HashedShard, digest_of_headers, framed
from wcache.core.checkpoint.reader import in_parallel
from wcache.core.checkpoint.seed import Seed

SAMPLED_ALGORITHM = "wcache-sampled-1/blake3"
PREFIX_BYTES = 1 << 10  # of every tensor: whatever a check of tensor starts sees, this sees
BLOCK_BYTES = 64 << 10
BLOCKS_MAX = 256
_GAP_BYTES = 4 << 10  # reading through a gap of one page is cheaper than another round trip
_THREADS = 32

ReadAt = Callable[[int, int, int], bytes]  # (index of the shard, offset in its file, length)


class Span(NamedTuple):
    """Bytes of one shard file, by the shard's index in the given sequence."""

    shard: int
    offset: int
    length: int


class Samples(NamedTuple):
    """What sampling found: the digest, and how much it covers (headers included). `spans` counts reads."""

    digest: str
    covered_bytes: int
    total_bytes: int
    spans: int


def plan_samples(shards: Sequence[HashedShard], seed: Seed) -> list[Span]:
    """The spans to read, sorted, merged where they meet. The blocks are drawn from the files' 64 KiB blocks by a keyed BLAKE3 stream over
    shard names and sizes; a checkpoint of up to 256 blocks is read whole."""
    wanted: list[Span] = []
    starts: list[int] = []  # index of each shard's first block among all blocks
    blocks = 0
    for number, shard in enumerate(shards):
        starts.append(blocks)
        blocks += -(-shard.size_bytes // BLOCK_BYTES)
        base = shard.header.header_bytes
        wanted.extend(Span(number, base + entry.begin, min(PREFIX_BYTES, entry.size_bytes)) for entry in shard.header.tensors)
    number = len(shards) - 1
    for block in sorted(_draw(shards, seed, blocks), reverse=True):
        while starts[number] > block:
            number -= 1
        offset = (block - starts[number]) * BLOCK_BYTES
        wanted.append(Span(number, offset, min(BLOCK_BYTES, shards[number].size_bytes - offset)))
    return _merged(sorted(span for span in wanted if span.length))


def _draw(shards: Sequence[HashedShard], seed: Seed, blocks: int) -> set[int]:
    if blocks <= BLOCKS_MAX:
        return set(range(blocks))
    fields = [field for shard in shards for field in (shard.name.encode("utf-8"), shard.size_bytes.to_bytes(8, "big"))]
    stream = blake3(framed(b"wcache/samples/1", *fields), key=seed.key)
    drawn: set[int] = set()
    position = 0
    while len(drawn) < BLOCKS_MAX:
        drawn.add(int.from_bytes(stream.digest(length=8, seek=position), "big") % blocks)
        position += 8
    return drawn


def _merged(spans: list[Span]) -> list[Span]:
    merged: list[Span] = []
    for span in spans:
        last = merged[-1] if merged else None
        if last is not None and last.shard == span.shard and span.offset <= last.offset + last.length + _GAP_BYTES:
            end = max(last.offset + last.length, span.offset + span.length)
            merged[-1] = Span(last.shard, last.offset, end - last.offset)
        else:
            merged.append(span)
    return merged


def take_samples(shards: Sequence[HashedShard], seed: Seed, read_at: ReadAt) -> Samples:
    """Read the planned spans, 32 at a time, and digest them with the headers. `read_at` may read files or resident memory: equal bytes
    give equal digests."""
    spans = plan_samples(shards, seed)

    def look(span: Span) -> bytes:
        return blake3(read_at(span.shard, span.offset, span.length)).digest()

    digests = in_parallel(look, spans, threads=_THREADS)
    total = blake3(framed(b"wcache/sampled/1", digest_of_headers(shards).encode("ascii"), seed.id.encode("ascii")))
    covered = sum(shard.header.header_bytes for shard in shards)
    for span, digest in zip(spans, digests, strict=True):
        place = (span.offset.to_bytes(8, "big"), span.length.to_bytes(8, "big"))
        total.update(framed(shards[span.shard].name.encode("utf-8"), *place, digest))
        covered += span.length - max(0, min(shards[span.shard].header.header_bytes, span.offset + span.length) - span.offset)
    return Samples(total.hexdigest(), covered, sum(shard.size_bytes for shard in shards), len(spans))
