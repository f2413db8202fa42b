"""How an engine's tensors are laid out for a residency."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from wcache.core.model.errors import UsageError
from wcache.loader.storages import Layout, lay_out


def copied(tensors: dict[str, torch.Tensor]) -> tuple[Layout, bytes]:
    layout = lay_out(tensors, {})
    whole = torch.full((layout.memory_bytes,), 0x5A, dtype=torch.uint8)
    layout.copy_into(whole)
    return layout, bytes(whole.numpy())


def of(layout: Layout, data: bytes, name: str, dtype: torch.dtype) -> torch.Tensor:
    place = next(one for one in layout.table.tensors if one.name == name)
    flat = torch.frombuffer(bytearray(data), dtype=torch.uint8)
    contiguous = torch.empty(place.shape).stride()
    return torch.empty(0, dtype=dtype).set_(
        flat.untyped_storage(), place.offset_bytes // dtype.itemsize, place.shape, place.strides or contiguous
    )


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.bfloat16, torch.float32, torch.float64, torch.complex64])
def test_what_lies_between_the_elements_of_a_tensor_is_not_published(dtype: torch.dtype) -> None:
    def engine(garbage: int) -> dict[str, torch.Tensor]:
        room = torch.full((3 * 8 * dtype.itemsize,), garbage, dtype=torch.uint8).view(dtype)
        kept = room.as_strided((4, 2), (6, 2), 1)
        kept.copy_(torch.arange(8).reshape(4, 2).to(dtype))
        return {"kept": kept, "spread": kept[1].as_strided((3, 2), (0, 2), 7)}

    first, second = copied(engine(0x11)), copied(engine(0xEE))
    assert first[1] == second[1]
    for name, tensor in engine(0).items():
        assert of(*first, name, dtype).to(torch.complex128).tolist() == tensor.to(torch.complex128).tolist()
    assert first[1].count(0) >= 7 * dtype.itemsize, "the gaps are zero"


@pytest.mark.parametrize(
    "make",
    [
        lambda room: {"a": room[:60].view(6, 10).t()},
        lambda room: {"a": room[:30], "b": room[30:60].view(5, 6)},
        lambda room: {"a": room[:60:2], "whole": room},
        lambda room: {"a": room[:10].expand(4, 10)},
        lambda room: {"a": room[:60].view(3, 4, 5).permute(2, 0, 1)},
    ],
    ids=["transposed", "neighbours", "covered by another", "expanded", "permuted"],
)
def test_storages_without_gaps_go_in_one_piece(make: Any) -> None:
    tensors = make(torch.arange(60, dtype=torch.float32))
    layout, data = copied(tensors)
    assert [len(span.parts) for span in layout.spans] == [0]
    for name, tensor in tensors.items():
        assert torch.equal(of(layout, data, name, torch.float32), tensor)


@pytest.mark.parametrize("left_bytes", [0, 60])
def test_a_tensor_whose_storage_was_freed_is_refused_by_name(left_bytes: int) -> None:
    """torch says nothing: shape and stride stay, the address is null or another tensor's."""
    kept, freed = torch.ones(4, 4), torch.ones(4, 4)
    freed.untyped_storage().resize_(left_bytes)
    with pytest.raises(UsageError, match="it was freed") as refused:
        lay_out({"kept": kept, "layer.freed": freed}, {})
    assert refused.value.where == "layer.freed"
