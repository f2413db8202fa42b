"""How shards in host memory are cut into chunks for a GPU, filled into plain memory here; tests/gpu sends them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from support.corpus import encode_safetensors, make_checkpoint, read_tensors

from wcache.core.memory import memfd
from wcache.core.memory.packing import ALIGNMENT_BYTES
from wcache.core.memory.views import block_tensors
from wcache.core.model.errors import MappingFailed
from wcache.loader.host_tier import Chunk, Load, plan, read_chunk
from wcache.loader.mapping import Segment


def _segment(name: str, data: bytes) -> Segment:
    fd = memfd.create(name, len(data))
    os.pwrite(fd, data, 0)
    memfd.seal(fd)
    return Segment(name, fd, len(data))


def _filled(load: Load, chunk_bytes: int) -> dict[str, torch.Tensor]:
    block = torch.full((max(load.size_bytes, 1),), 0xEE, dtype=torch.uint8)
    target = memoryview(block.numpy())
    buffer = memoryview(bytearray(chunk_bytes))
    for chunk in load.chunks:
        assert 0 < chunk.size_bytes <= chunk_bytes
        read_chunk(chunk, buffer)
        for piece in chunk.pieces:
            target[piece.target_bytes : piece.target_bytes + piece.size_bytes] = buffer[piece.offset_bytes :][: piece.size_bytes]
    return block_tensors(block, load.placements)


def _bits(tensor: torch.Tensor) -> bytes:
    return bytes(tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()) if tensor.numel() else b""


@pytest.mark.parametrize("chunk_bytes", [97, 4096, 1 << 20])
def test_every_tensor_of_every_shard_arrives_aligned(disk_path: Path, chunk_bytes: int) -> None:
    place = make_checkpoint(disk_path / "m", shards=2)
    segments = [_segment(path.name, path.read_bytes()) for path in sorted(place.glob("*.safetensors"))]
    load = plan(segments, chunk_bytes=chunk_bytes)
    found = _filled(load, chunk_bytes)
    wanted = read_tensors(place)
    assert found.keys() == wanted.keys()
    for name, (_, shape, data) in wanted.items():
        assert _bits(found[name]) == data and tuple(found[name].shape) == shape
    assert all(place.offset_bytes % ALIGNMENT_BYTES == 0 for place in load.placements)
    some = plan(segments, ["lm_head.weight"], chunk_bytes=chunk_bytes)
    assert _bits(_filled(some, chunk_bytes)["lm_head.weight"]) == wanted["lm_head.weight"][2]
    assert some.size_bytes == len(wanted["lm_head.weight"][2]), "what was not asked for takes no room"


@settings(deadline=None)
@given(sizes=st.lists(st.integers(0, 700), min_size=1, max_size=12), chunk_bytes=st.integers(1, 900))
def test_any_sizes_arrive_in_any_chunks(sizes: list[int], chunk_bytes: int) -> None:
    tensors = {f"t{number:02}": ("U8", (size,), os.urandom(size)) for number, size in enumerate(sizes)}
    segment = _segment("one", encode_safetensors(tensors))
    found = _filled(plan([segment], chunk_bytes=chunk_bytes), chunk_bytes)
    assert {name: _bits(tensor) for name, tensor in found.items()} == {name: data for name, (_, _, data) in tensors.items()}
    segment.close()


def test_neighbours_go_in_one_piece() -> None:
    tensors = {f"t{number}": ("BF16", (256, 128), os.urandom(65536)) for number in range(8)}
    load = plan([_segment("one", encode_safetensors(tensors))])
    assert [len(chunk.pieces) for chunk in load.chunks] == [1]


def test_a_file_that_ends_early_and_a_segment_that_is_gone_are_refused() -> None:
    segment = _segment("one", encode_safetensors({"t": ("U8", (100,), bytes(100))}))
    with pytest.raises(MappingFailed, match="ends at"):
        read_chunk(Chunk(segment.descriptor, segment.size_bytes - 10, 20, ()), memoryview(bytearray(64)))
    segment.close()
    with pytest.raises(MappingFailed, match="given back"):
        plan([segment])
