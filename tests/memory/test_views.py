"""How much torch has to do for a model's tensors: counted, since time is for a bench."""

from __future__ import annotations

import mmap
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from wcache.core.memory.packing import Item, pack
from wcache.core.memory.views import host_tensors


class Counted(TorchDispatchMode):
    count = 0

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += 1
        return function(*args, **(kwargs or {}))


def test_the_layers_of_a_model_are_viewed_by_a_few_operations_for_each_form() -> None:
    forms = {"q": (64, 32), "k": (16, 32), "v": (16, 32), "o": (32, 64), "up": (96, 32), "gate": (96, 32), "down": (32, 96), "norm": (32,)}
    items = [Item("embed", "BF16", (500, 32), 32000), Item("head", "BF16", (500, 32), 32000, same_as="embed")]
    for layer in range(48):
        for name, shape in forms.items():
            items.append(Item(f"{layer}.{name}", "BF16", shape, torch.Size(shape).numel() * 2))
    plan = pack(items)
    memory = mmap.mmap(-1, plan.size_bytes)
    with Counted() as counted:
        found = host_tensors(memory, plan.placements)
    different = len({(item.dtype, item.shape) for item in items})
    assert len(found) == len(items) == 386 and found["head"] is found["embed"]
    assert counted.count <= 2 * different + 4, "a view and a split a form, and one type for all"
    for place in plan.placements:
        assert found[place.name].data_ptr() - found["embed"].data_ptr() == place.offset_bytes
        assert tuple(found[place.name].shape) == place.shape and found[place.name].is_contiguous()


def test_a_tensor_without_a_name_is_nobodys_owner() -> None:
    """C7: an empty name is allowed, and `same_as` is empty for whoever owns its bytes."""
    plan = pack([Item("", "U8", (4,), 4), Item("a", "U8", (4,), 4), Item("b", "U8", (4,), 4)])
    memory = mmap.mmap(-1, plan.size_bytes)
    memory[: plan.size_bytes] = bytes(index // 256 + 1 for index in range(plan.size_bytes))
    found = host_tensors(memory, plan.placements)
    assert {name: tensor.tolist() for name, tensor in found.items()} == {"": [1] * 4, "a": [2] * 4, "b": [3] * 4}
