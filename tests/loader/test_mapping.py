"""Sealed memory as tensors: in place where possible, private always, and never a segment that could change or shrink."""

from __future__ import annotations

import gc
import os
import warnings
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors import safe_open
from support.corpus import Tensor, encode_safetensors

from wcache.core.memory import memfd
from wcache.core.model.errors import MappingFailed, Unsupported
from wcache.loader.mapping import Segment, ShardMap, safetensors_dtype, torch_dtype

TENSORS: dict[str, Tensor] = {
    "f64": ("F64", (2, 3), os.urandom(48)),
    "f32": ("F32", (4,), os.urandom(16)),
    "scalar": ("F32", (), os.urandom(4)),
    "bf16": ("BF16", (6,), os.urandom(12)),
    "empty": ("F32", (0, 7), b""),
    "i64": ("I64", (2,), os.urandom(16)),
    "u8": ("U8", (3,), os.urandom(3)),
    "flag": ("BOOL", (2,), b"\1\0"),
    "f8": ("F8_E4M3", (3,), os.urandom(3)),
}


def sealed(data: bytes) -> int:
    descriptor = memfd.create("test", len(data))
    os.pwrite(descriptor, data, 0)
    memfd.seal(descriptor)
    return descriptor


def shard_of(tensors: Mapping[str, Tensor], **options: int) -> tuple[ShardMap, Segment]:
    data = encode_safetensors(tensors, **options)
    segment = Segment("model.safetensors", sealed(data), len(data))
    return ShardMap(segment), segment


def bits(tensor: torch.Tensor) -> bytes:
    return bytes(tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())


def test_every_tensor_has_the_bytes_shape_and_dtype_of_the_file() -> None:
    shard, _ = shard_of(TENSORS)
    for name, (dtype, shape, data) in TENSORS.items():
        tensor = shard.tensor(name)
        assert tuple(tensor.shape) == shape and safetensors_dtype(tensor.dtype) == dtype
        assert bits(tensor) == data


def test_aligned_tensors_lie_in_the_mapping_and_misaligned_ones_are_copied() -> None:
    """C8: an odd U8 before an F64."""
    shard, segment = shard_of({"odd": ("U8", (3,), b"abc"), "wide": ("F64", (2,), os.urandom(16)), "one": ("U8", (1,), b"x")})
    assert shard.holds(shard.tensor("odd").data_ptr()) and shard.holds(shard.tensor("one").data_ptr())
    wide = shard.tensor("wide")
    assert shard.copies("wide") and not shard.holds(wide.data_ptr()) and wide.data_ptr() % 8 == 0
    assert [entry.name for entry in segment.header.misaligned()] == ["wide"]
    assert shard.array("wide").tobytes() == bits(wide)


def test_a_header_that_is_no_multiple_of_eight_misaligns_what_follows() -> None:
    """C8."""
    tensors = {"a": ("F32", (2,), os.urandom(8)), "b": ("BF16", (2,), os.urandom(4))}
    for pad in (1, 2, 3, 7):
        shard, _ = shard_of(tensors, pad_to=pad)
        for name, (_, _, data) in tensors.items():
            tensor = shard.tensor(name)
            assert bits(tensor) == data and tensor.data_ptr() % tensor.dtype.itemsize == 0


def test_an_empty_tensor_is_on_the_host_whatever_torchs_default_device_is(tmp_path: Path) -> None:
    data = {"none": ("F32", (0, 3), b""), "some": ("F32", (1,), bytes(4))}
    (tmp_path / "x.safetensors").write_bytes(encode_safetensors(data))
    shard, _ = shard_of(data)
    with torch.device("meta"), safe_open(tmp_path / "x.safetensors", "pt") as file:
        for name in data:
            mine, reference = shard.tensor(name), file.get_tensor(name)
            assert (mine.device, mine.shape) == (reference.device, reference.shape) and not mine.is_meta


def test_a_write_in_place_stays_with_the_writer() -> None:
    """A5: another mapping of the same segment, and the segment itself, keep their bytes."""
    shard, segment = shard_of(TENSORS)
    other = ShardMap(segment)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        shard.tensor("f32").add_(1.0)
        shard.array("i64")[:] = 7
    assert bits(other.tensor("f32")) == TENSORS["f32"][2]
    assert bits(ShardMap(segment).tensor("i64")) == TENSORS["i64"][2]
    assert os.pread(segment.descriptor, segment.size_bytes, 0).endswith(encode_safetensors(TENSORS)[-20:])


def test_the_mapping_lives_as_long_as_any_tensor_and_no_longer() -> None:
    class Keeper:
        gone = False

        def __del__(self) -> None:
            Keeper.gone = True

    data = encode_safetensors(TENSORS)
    segment = Segment("s", sealed(data), len(data))
    tensor = ShardMap(segment, Keeper()).tensor("bf16")
    segment.close()
    gc.collect()
    assert not Keeper.gone and bits(tensor) == TENSORS["bf16"][2]
    del tensor
    assert Keeper.gone


@pytest.mark.parametrize("what", ["unsealed", "shorter", "longer", "no memfd", "no shard"])
def test_a_segment_that_is_not_what_was_announced_is_never_mapped(what: str, tmp_path: Path) -> None:
    data = encode_safetensors(TENSORS)
    size = len(data)
    if what == "unsealed":
        descriptor = memfd.create("t", size)
        os.pwrite(descriptor, data, 0)
    elif what == "no memfd":
        (tmp_path / "f").write_bytes(data)
        descriptor = os.open(tmp_path / "f", os.O_RDONLY)
    elif what == "no shard":
        descriptor = sealed(b"x" * size)
    else:
        descriptor = sealed(data)
        size += 4096 if what == "shorter" else -1
    with pytest.raises(MappingFailed):
        Segment("s", descriptor, size)
    with pytest.raises(OSError):
        os.fstat(descriptor)  # the descriptor was taken over and given back


def test_dtypes_are_those_of_the_reference_or_refused_by_name(tmp_path: Path) -> None:
    """C7: packed F4, scale dtypes; F6 has no torch dtype."""
    for dtype, shape, size in (("F4", (2, 4), 4), ("F8_E8M0", (4,), 4), ("C64", (2,), 16), ("U16", (2,), 4), ("U64", (1,), 8)):
        data = os.urandom(size)
        path = tmp_path / "x.safetensors"
        path.write_bytes(encode_safetensors({"t": (dtype, shape, data)}))
        shard, _ = shard_of({"t": (dtype, shape, data)})
        with safe_open(path, "pt") as file:
            reference = file.get_tensor("t")
        tensor = shard.tensor("t")
        assert tensor.dtype == reference.dtype and tensor.shape == reference.shape and bits(tensor) == bits(reference)
    with pytest.raises(Unsupported, match="F6_E2M3"):
        torch_dtype("F6_E2M3")
    shard, _ = shard_of({"t": ("F4", (2, 1), b"x")})
    with pytest.raises(Unsupported, match="odd"):
        shard.tensor("t")
    shard, _ = shard_of({"t": ("BF16", (1,), b"xy")})
    with pytest.raises(Unsupported, match="BF16"):
        shard.array("t")


def test_arrays_are_in_place_and_writable() -> None:
    shard, _ = shard_of(TENSORS)
    array = shard.array("f32")
    assert array.flags.writeable and shard.holds(array.ctypes.data) and array.dtype == np.float32
    assert shard.array("empty").shape == (0, 7) and shard.array("scalar").shape == ()
