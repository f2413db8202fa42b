"""Tables of packed residencies, and tensors that are viewed through them."""

from __future__ import annotations

import os

import msgspec
import pytest
import torch

from wcache.core.memory import memfd, table, views
from wcache.core.memory.packing import Item, Placement, aligned, pack
from wcache.core.model.errors import MappingFailed


def _plan(layers: int = 3) -> tuple[list[Item], table.Table]:
    items = [
        Item(f"{layer}.{name}", dtype, shape, torch.Size(shape).numel() * size)
        for layer in range(layers)
        for name, dtype, shape, size in (("q", "BF16", (64, 128), 2), ("norm", "F32", (65,), 4), ("odd", "U8", (3,), 1))
    ]
    items += [Item("embed", "BF16", (100, 64), 12800), Item("head", "BF16", (100, 64), 12800, "embed"), Item("none", "F16", (0, 4), 0)]
    plan = pack(items)
    blocks = tuple(sorted((place.offset_bytes, place.size_bytes) for place in plan.placed()))
    return items, table.Table(size_bytes=plan.size_bytes, tensors=plan.placements, blocks=blocks)


def test_a_sealed_table_reads_back_and_cannot_be_changed() -> None:
    _, made = _plan()
    fd, size_bytes = table.seal(made, "table")
    try:
        assert table.read(fd, size_bytes, memory_bytes=made.size_bytes) == made
        with pytest.raises(OSError, match="not permitted"):
            os.pwrite(fd, b"x", 0)
    finally:
        os.close(fd)


def test_every_tensor_of_a_model_is_in_the_block_that_holds_it() -> None:
    _, made = _plan()
    homes = made.homes()
    for place in made.tensors:
        offset_bytes, size_bytes = made.blocks[homes[place.name]]
        assert offset_bytes <= place.offset_bytes
        assert place.offset_bytes + place.size_bytes <= offset_bytes + size_bytes


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"size_bytes": 1 << 40}, "memory has"),
        ({"blocks": ((0, 100), (50, 100))}, "overlapping"),
        ({"blocks": ((0, 1 << 40),)}, "memory has"),
        ({"tensors": (Placement("far", "U8", (10,), 1 << 39, 10),)}, "outside"),
        ({"tensors": (Placement("before", "U8", (10,), -5, 10),)}, "outside"),
        ({"tensors": (Placement("negative", "U8", (10,), 0, -10),)}, "outside"),
    ],
)
def test_a_table_that_describes_what_is_not_there_is_refused(change: dict[str, object], word: str) -> None:
    _, made = _plan()
    with pytest.raises(MappingFailed, match=word):
        msgspec.structs.replace(made, **change).check(made.size_bytes)


def test_a_table_that_is_no_table_or_not_sealed_or_of_another_version_is_refused() -> None:
    _, made = _plan()
    open_fd = memfd.create("open", 10)
    other, other_bytes = table.seal(msgspec.structs.replace(made, version=9), "table")
    junk = memfd.create("junk", 10)
    memfd.seal(junk)
    try:
        with pytest.raises(MappingFailed):
            table.read(open_fd, 10, memory_bytes=made.size_bytes)
        with pytest.raises(MappingFailed, match="version 9"):
            table.read(other, other_bytes, memory_bytes=made.size_bytes)
        with pytest.raises(MappingFailed, match="cannot be read"):
            table.read(junk, 10, memory_bytes=made.size_bytes)
        with pytest.raises(MappingFailed, match="over the cap"):
            table.read(other, 1 << 40, memory_bytes=made.size_bytes)
    finally:
        for fd in (open_fd, other, junk):
            os.close(fd)


def test_tensors_of_one_form_lie_side_by_side_and_each_view_is_its_own() -> None:
    items, made = _plan()
    memory = bytearray(made.size_bytes)
    found = views.host_tensors(memory, made.tensors)
    assert list(found) == [item.name for item in items]
    places = {place.name: place for place in made.tensors}
    assert places["1.q"].offset_bytes - places["0.q"].offset_bytes == aligned(64 * 128 * 2)
    for number, name in enumerate(found):
        if name != "head":
            found[name].fill_(number)
    for number, (name, tensor) in enumerate(found.items()):
        expected = list(found).index("embed") if name == "head" else number
        assert (tensor == expected).all(), name
        assert tensor.is_contiguous()
        assert tuple(tensor.shape) == places[name].shape
    assert found["head"] is found["embed"]


def test_strided_and_shifted_aliases_see_the_bytes_that_they_name() -> None:
    """A transposed weight, and the three parts of a fused one."""
    memory = bytearray(24 * 4)
    fused = torch.frombuffer(memory, dtype=torch.float32).view(6, 4)
    fused.copy_(torch.arange(24.0).view(6, 4))
    places = (
        Placement("fused", "F32", (6, 4), 0, 96),
        Placement("turned", "F32", (4, 6), 0, 96, "", (1, 4)),
        Placement("part.1", "F32", (2, 4), 32, 32),
        Placement("part.2", "F32", (2, 4), 64, 32),
        Placement("row", "F32", (4,), 16, 16),
    )
    found = views.host_tensors(memory, places)
    assert torch.equal(found["turned"], fused.t())
    assert torch.equal(found["part.1"], fused[2:4])
    assert torch.equal(found["part.2"], fused[4:6])
    assert torch.equal(found["row"], fused[1])
    found["part.1"].zero_()
    assert float(found["fused"][2].sum()) == 0


def test_views_are_plain_tensors_to_autograd_and_to_modules() -> None:
    _, made = _plan()
    found = views.host_tensors(bytearray(made.size_bytes), made.tensors)
    found["0.q"].add_(1)
    weight = torch.nn.Parameter(found["1.q"])
    (torch.ones(2, 64, dtype=torch.bfloat16) @ weight).sum().backward()
    assert weight.grad is not None
    with torch.no_grad():
        weight.add_(2)
    assert float(found["1.q"][0, 0]) == 2
    assert float(found["2.q"].sum()) == 0
