"""torch tensors on mapped GPU memory: every dtype, no copy, and the mapping lives as long as they do."""

from __future__ import annotations

import gc
import random
import weakref

import pytest

from wcache.core.memory import vmm
from wcache.core.memory.cuda import Device
from wcache.core.memory.dtypes import NAMES, PACKED, torch_dtype
from wcache.core.memory.packing import Item, Placement, pack
from wcache.core.memory.views import tensors
from wcache.core.model.errors import MappingFailed, Unsupported

pytestmark = pytest.mark.gpu
torch = pytest.importorskip("torch")

MIB = 1 << 20


def _items() -> list[Item]:
    found = []
    for dtype, name in NAMES.items():
        if hasattr(torch, name):
            item_bytes = torch_dtype(dtype).itemsize
            count = 6 * 10 // (2 if dtype in PACKED else 1)
            found.append(Item(f"t.{dtype}", dtype, (6, 10), count * item_bytes))
    return found


def test_every_dtype_of_torch_is_seen_in_place(gpu: Device) -> None:
    items = [
        *_items(),
        Item("empty", "BF16", (0, 7), 0),
        Item("scalar", "F32", (), 4),
        Item("tied", "BF16", (6, 10), 120, same_as="t.BF16"),
    ]
    plan = pack(items)
    data = bytes(byte & 1 for byte in random.Random(8).randbytes(plan.size_bytes))  # also fit for bool
    with vmm.create(plan.size_bytes, gpu) as allocation:
        mapping = allocation.map(writable=True)
    mapping.write(0, data)
    found = tensors(mapping, plan.placements)
    assert len(_items()) >= 15
    for place in plan.placements:
        tensor = found[place.name]
        assert tensor.dtype == torch_dtype(place.dtype) and tensor.device == torch.device("cuda", gpu.ordinal)
        assert tensor.is_contiguous()
        if place.size_bytes:
            assert tensor.data_ptr() == mapping.address + place.offset_bytes
            assert tensor.data_ptr() % 256 == 0
            assert bytes(tensor.reshape(-1).view(torch.uint8).cpu().numpy()) == data[place.offset_bytes :][: place.size_bytes]
        shape = place.shape if place.dtype not in PACKED else (6, 5)
        assert tuple(tensor.shape) == shape
    assert found["tied"] is found["t.BF16"]


def test_the_mapping_lives_as_long_as_a_tensor_of_it(gpu: Device) -> None:
    with vmm.create(8 * MIB, gpu) as allocation:
        mapping = allocation.map(writable=True)
    mapping.write(0, b"\x01" * 4096)
    found = tensors(mapping, pack([Item("a", "U8", (4096,), 4096)]).placements)
    gone = weakref.ref(mapping)
    part = torch.nn.Parameter(found["a"][16:32], requires_grad=False)
    del mapping, found
    gc.collect()
    assert gone() is not None and int(part.sum()) == 16
    del part
    gc.collect()
    assert gone() is None


def test_computing_with_mapped_weights_gives_what_a_copy_gives(gpu: Device) -> None:
    plan = pack([Item("w", "BF16", (512, 256), 512 * 256 * 2)])
    weights = torch.randn(512, 256, dtype=torch.bfloat16)
    with vmm.create(plan.size_bytes, gpu) as allocation:
        with allocation.map(writable=True) as filling:
            filling.write(0, weights.view(torch.uint8).numpy())
        (mapped,) = tensors(allocation.map(), plan.placements).values()
    x = torch.randn(16, 256, dtype=torch.bfloat16, device=mapped.device)
    assert torch.equal(x @ mapped.T, x @ weights.to(mapped.device).T)


def test_places_that_cannot_be_are_refused(gpu: Device) -> None:
    with vmm.create(2 * MIB, gpu) as allocation:
        mapping = allocation.map()
    for place in (
        Placement("a", "F32", (4,), 2 * MIB - 8, 16), Placement("a", "F32", (4,), -16, 16), Placement("a", "F32", (4,), 2, 16),
        Placement("a", "F32", (4,), 0, 12),
    ):  # fmt: skip
        with pytest.raises(MappingFailed):
            tensors(mapping, [place])
    with pytest.raises(Unsupported, match="F6_E2M3"):
        tensors(mapping, [Placement("a", "F6_E2M3", (4,), 0, 3)])
    mapping.close()
    with pytest.raises(MappingFailed, match="closed"):
        tensors(mapping, [])
