"""What vLLM made of a configuration before any weight is in it: classes, kernels, and the shape of every tensor.

The key of processed tensors leaves out what cannot change a tensor of most models. Of some it does (tables as long as the longest request,
kernels that are chosen by what is installed), and those are told apart by this: it is published beside the tensors, and compared with the
model that is to take them.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping
from typing import Any

from blake3 import blake3

FORM = "wcache_form"
"""The name under which it lies among the tensors, as bytes."""

_OF_TORCH = frozenset({"_parameters", "_buffers", "_modules", "_non_persistent_buffers_set"})


def form_of(model: Any) -> list[str]:
    """A line for every layer, in the model's order. To be called when it has been built and nothing was loaded yet."""
    return [f"{path or '<root>'}: {'; '.join(_about(part))}" for path, part in model.named_modules()]


def _about(part: Any) -> Iterator[str]:
    yield _class_of(part)
    for held in (part._parameters, part._buffers, part.__dict__):
        for name, tensor in tensors_of(held):
            yield f"{name} {str(tensor.dtype).removeprefix('torch.')} {list(tensor.shape)}"
    for name, value in part.__dict__.items():
        if _is_choice(value):
            inner = [f"{key} {_choice(one)}" for key, one in vars(value).items() if _is_choice(one)] if _is_plain_object(value) else []
            yield f"{name} {_choice(value)}" + (f" ({', '.join(inner)})" if inner else "")


def _is_choice(value: Any) -> bool:
    """Whether it is a kernel, a backend, a method: an object or a word of vLLM's own, and neither a configuration, which the key has, nor
    part of a graph."""
    module = type(value).__module__
    ours = module.startswith("vllm") and not module.startswith(("vllm.config", "vllm.compilation"))
    return ours and (isinstance(value, enum.Enum) or _is_plain_object(value))


def _choice(value: Any) -> str:
    return value.name if isinstance(value, enum.Enum) else _class_of(value)


def _class_of(value: Any) -> str:
    return f"{type(value).__module__}.{type(value).__qualname__}"


def difference(published: list[str], built: list[str]) -> str:
    """The first line in which they differ, as both have it; "" for equal ones."""
    for one, other in zip(published, built, strict=False):
        if one != other:
            path, _, parts = one.partition(": ")
            others = other.partition(": ")[2].split("; ") if other.startswith(f"{path}: ") else [other]
            gone = [part for part in parts.split("; ") if part not in others]
            new = [part for part in others if part not in parts.split("; ")]
            return f"{path}: published was {', '.join(gone) or 'less'}, here is {', '.join(new) or 'less'}"
    if len(published) != len(built):
        return f"published were {len(published)} layers, here are {len(built)}"
    return ""


def as_tensor(form: list[str], device: Any) -> Any:
    """Bytes, for the tensors that are published."""
    import torch

    return torch.frombuffer(bytearray("\n".join(form).encode()), dtype=torch.uint8).to(device)


def from_tensor(tensor: Any) -> list[str]:
    return bytes(tensor.cpu().tolist()).decode(errors="replace").split("\n")


# --- attributes of layers ---------------------------------------------------------------------------------------------------


def tensors_of(held: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    import torch

    for name, value in held.items():
        if isinstance(value, torch.Tensor):
            yield name, value


def beside(part: Any) -> Iterator[dict[str, Any]]:
    """The attributes of the plain objects that a layer has."""
    for value in part.__dict__.values():
        if _is_plain_object(value):
            yield value.__dict__


def contained(part: Any) -> Iterator[str]:
    """The names of a layer's lists, tuples and dictionaries that have tensors with bytes in them."""
    import torch

    for name, value in part.__dict__.items():
        items = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ()
        if name not in _OF_TORCH and any(isinstance(item, torch.Tensor) and item.numel() for item in items):
            yield name


def plain_values(model: Any) -> dict[str, bool | int | float | str | bytes | None]:
    """The attributes of the model's layers that are no objects, by their full names; of tensors that lie elsewhere than the model's own, as
    some on the host do for a model on a GPU, a digest: they are not published."""
    import torch

    home = next((tensor.device.type for tensor in model.parameters()), None)
    found: dict[str, bool | int | float | str | bytes | None] = {}
    for path, part in model.named_modules():
        for name, value in part.__dict__.items():
            full_name = f"{path}.{name}" if path else name
            if value is None or isinstance(value, (bool, int, float, str)):
                found[full_name] = value
            elif isinstance(value, torch.Tensor) and value.device.type == "cpu" != home:
                found[full_name] = blake3(value.detach().contiguous().reshape(-1).view(torch.uint8).numpy().data).digest()
    return found


def set_since(before: Mapping[str, object], model: Any) -> list[str]:
    """The names of what `plain_values` finds now and did not find, or found otherwise, before."""
    return [name for name, value in plain_values(model).items() if name not in before or before[name] != value]


def _is_plain_object(value: Any) -> bool:
    import torch

    return not isinstance(value, (torch.nn.Module, torch.Tensor, type)) and isinstance(getattr(value, "__dict__", None), dict)
