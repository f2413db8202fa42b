"""Packed residencies are compared block by block: here in memory files, as processed weights in host memory are (a GPU's: tests/gpu)."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from blake3 import blake3
from hypothesis import given
from hypothesis import strategies as st
from support.corpus import make_checkpoint, read_tensors

from wcache.core.checkpoint.checkpoint import open_checkpoint
from wcache.core.checkpoint.fingerprint import content_fingerprint
from wcache.core.checkpoint.reader import Reader
from wcache.core.memory import memfd, table
from wcache.core.memory.packing import Placement
from wcache.core.wire.messages import MEMORY, TABLE, SegmentManifest
from wcache.daemon.blocks import batches
from wcache.daemon.gpu_load import needed_bytes, plan_of, table_of
from wcache.daemon.orders import VerifyOrder, VerifyResult
from wcache.daemon.packed_verify import compare


class Packed:
    """A checkpoint packed into a memory file as a GPU has it, and the digests of its blocks."""

    def __init__(self, path: Path, *, raw: bool = True) -> None:
        checkpoint = open_checkpoint(path)
        self.weights_digest = content_fingerprint(checkpoint, Reader()).weights_digest or ""
        made = table_of(checkpoint, plan_of(checkpoint))
        self.table = made if raw else table.Table(size_bytes=made.size_bytes, tensors=made.tensors, blocks=made.blocks)
        self.table_fd, table_bytes = table.seal(self.table, "table")
        self.memory_bytes = needed_bytes(checkpoint)
        self.memory_fd = memfd.create("memory", self.memory_bytes)
        tensors = read_tensors(path)
        for place in self.table.tensors:
            os.pwrite(self.memory_fd, tensors[place.name][2], place.offset_bytes)
        digests = b"".join(blake3(os.pread(self.memory_fd, size, offset)).digest() for offset, size in self.table.blocks)
        table_digest = blake3(os.pread(self.table_fd, table_bytes, 0)).hexdigest()
        segments = (SegmentManifest(TABLE, table_bytes, table_digest, TABLE), SegmentManifest(MEMORY, self.memory_bytes, "", MEMORY))
        self.order = VerifyOrder(
            segments=segments, tensor_digests=(b"", digests), fds=(self.table_fd, self.memory_fd), weights_digest=self.weights_digest
        )

    def place(self, name: str) -> Placement:
        return next(place for place in self.table.tensors if place.name == name)

    def close(self) -> None:
        os.close(self.table_fd)
        os.close(self.memory_fd)


@pytest.fixture
def packed(tmp_path: Path) -> Iterator[Packed]:
    found = Packed(make_checkpoint(tmp_path / "model", shards=3))
    yield found
    found.close()


def test_what_was_packed_is_intact_and_has_the_checkpoints_digest(packed: Packed) -> None:
    done: list[int] = []
    assert compare(packed.order, done.append) == VerifyResult(intact=True, tensors=(), why="", found=packed.weights_digest)
    assert sum(done) == packed.order.segments[0].size_bytes + sum(size for _, size in packed.table.blocks)


def test_the_tensor_that_changed_is_named_and_what_is_there_has_the_digest_of_such_a_checkpoint(packed: Packed, tmp_path: Path) -> None:
    other = read_tensors(tmp_path / "model")
    dtype, shape, data = other["model.norm.weight"]
    other["model.norm.weight"] = (dtype, shape, bytes(len(data)))
    zeroed = open_checkpoint(make_checkpoint(tmp_path / "zeroed", other))
    os.pwrite(packed.memory_fd, bytes(len(data)), packed.place("model.norm.weight").offset_bytes)
    verdict = compare(packed.order)
    assert (verdict.intact, verdict.tensors, verdict.why) == (False, ("model.norm.weight",), "")
    assert verdict.found == content_fingerprint(zeroed, Reader()).weights_digest


def test_every_tensor_is_watched_to_its_last_byte(packed: Packed) -> None:
    """Without bytes there is nothing to change: such a tensor is never named."""
    for place in packed.table.tensors:
        if not place.size_bytes:
            continue
        at = place.offset_bytes + place.size_bytes - 1
        before = os.pread(packed.memory_fd, 1, at)
        os.pwrite(packed.memory_fd, bytes([before[0] ^ 1]), at)
        assert compare(packed.order).tensors == (place.name,)
        os.pwrite(packed.memory_fd, before, at)
    assert compare(packed.order).intact


def test_bytes_between_tensors_are_nobodys(packed: Packed) -> None:
    os.pwrite(packed.memory_fd, b"x", packed.memory_bytes - 1)
    assert compare(packed.order).intact


def test_memory_that_ends_too_early_is_said_so(packed: Packed) -> None:
    os.ftruncate(packed.memory_fd, 100)
    verdict = compare(packed.order)
    assert (verdict.intact, verdict.tensors, verdict.found) == (False, (), "")
    assert f"memory ends before its {packed.memory_bytes} bytes" in verdict.why


def test_another_table_is_no_verdict_about_tensors(packed: Packed) -> None:
    body = bytearray(os.pread(packed.table_fd, packed.order.segments[0].size_bytes, 0))
    body[random.Random(1).randrange(len(body))] ^= 1
    fd = memfd.create("other", len(body))
    os.pwrite(fd, body, 0)
    memfd.seal(fd)
    order = VerifyOrder(
        segments=packed.order.segments, tensor_digests=packed.order.tensor_digests, fds=(fd, packed.memory_fd), weights_digest="d"
    )
    verdict = compare(order)
    os.close(fd)
    assert (verdict.intact, verdict.tensors) == (False, ())
    assert "the table changed" in verdict.why


def test_processed_weights_name_their_tensors_too_and_have_no_digest_of_a_checkpoint(tmp_path: Path) -> None:
    packed = Packed(make_checkpoint(tmp_path / "model"), raw=False)
    assert compare(packed.order).found == packed.weights_digest
    os.pwrite(packed.memory_fd, b"\xff\xff", packed.place("model.scale").offset_bytes)
    verdict = compare(packed.order)
    packed.close()
    assert (verdict.tensors, verdict.found) == (("model.scale",), "")


@given(st.lists(st.integers(0, 50), max_size=30), st.integers(1, 60))
def test_batches_are_the_blocks_in_order_and_end_when_they_are_large(sizes: list[int], batch_bytes: int) -> None:
    blocks = [(index * 100, size) for index, size in enumerate(sizes)]
    found = list(batches(blocks, batch_bytes))
    assert [block for batch in found for block in batch] == blocks
    assert all(sum(size for _, size in batch[:-1]) < batch_bytes for batch in found)
