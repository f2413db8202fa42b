"""Mapped weights in a torch module, at best one that was built without memory (on the meta device)."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from wcache.core.memory.packing import Placement
from wcache.core.model.errors import MappingFailed, MissingTensor, WcacheError
from wcache.core.model.vocabulary import Mode
from wcache.loader.room import named_failures
from wcache.loader.taken import take

if TYPE_CHECKING:
    import torch

    from wcache.loader.attachment import Attachment

_SHOWN = 4


class _Slot(NamedTuple):
    """A parameter or buffer of the module: where it stands, and what stands there now."""

    part: torch.nn.Module
    name: str
    is_parameter: bool
    old: torch.Tensor


def fill(module: torch.nn.Module, attachment: Attachment) -> None:
    """Puts every granted tensor where the module has one of its name. Parameters are those in the mapping (in mode copy: copies), with the
    class and attributes that they had; buffers are copies, since engines write into theirs. What was one object stays one, and what shared
    bytes shares them.

    Nothing of the module is changed unless all of it fits. Raises MissingTensor where the module needs a tensor that was not granted (it
    would be left without memory, or as it was initialised), MappingFailed for one that the module has no place for or has with another
    shape, dtype or tie, NoRoom; all of them after recording it, StrictMiss then where that is the policy.
    """
    began_s = time.monotonic()
    try:
        packed = attachment.packed
        if packed is None:
            raise MappingFailed("no packed weights were granted", where=attachment.question.spelling)
        taken = take(attachment)
        found = taken.tensors
        places = {place.name: place for place in packed.table.tensors}
        slots = dict(_slots(module))
        _check(slots, places, found, attachment.question.spelling)
        with named_failures(attachment.question.spelling):
            made = _make(slots, places, found)
    except MissingTensor as error:
        attachment.incomplete(error)
        raise
    except WcacheError as error:
        attachment.map_failed(error)
        raise
    for name, tensor in made.items():
        _put(slots[name], tensor)
    replaced = {id(slots[name].old): tensor for name, tensor in made.items()}
    for name, slot in slots.items():
        if name not in places and id(slot.old) in replaced:  # tied, and published under its other name only
            _put(slot, replaced[id(slot.old)])
    objects = {id(tensor): tensor for tensor in made.values()}.values()
    copied = [tensor for tensor in objects if tensor.numel() and not any(one.holds(tensor.data_ptr()) for one in taken.maps)]
    buffers = sum(not slots[name].is_parameter for name in places)
    attachment.mapped(
        Mode.ZERO_COPY if len(copied) < len(objects) and len(copied) <= buffers else Mode.COPY,
        tensors=len(places),
        size_bytes=sum(tensor.nbytes for tensor in objects),
        copied_tensors=len(copied),
        copied_bytes=sum(tensor.nbytes for tensor in copied),
        ms=(time.monotonic() - began_s) * 1000,
    )
    if attachment.copies:
        attachment.copied()


def _slots(module: torch.nn.Module) -> Iterator[tuple[str, _Slot]]:
    for path, part in module.named_modules(remove_duplicate=False):
        for is_parameter, held in ((True, part._parameters), (False, part._buffers)):
            for name, old in held.items():
                if old is not None:
                    yield (f"{path}.{name}" if path else name), _Slot(part, name, is_parameter, old)


def _is_needed(slot: _Slot) -> bool:
    """Parameters and persistent buffers come from weights, whatever memory the module was built with has in them. Other buffers are the
    module's own to make, if it has memory for them."""
    from_weights = slot.is_parameter or slot.name not in slot.part._non_persistent_buffers_set
    return slot.old.is_meta or (from_weights and slot.old.numel() > 0)


def _check(slots: dict[str, _Slot], places: dict[str, Placement], found: dict[str, torch.Tensor], where: str) -> None:
    given = {id(slots[name].old) for name in places if name in slots}
    missing = [name for name, slot in slots.items() if _is_needed(slot) and name not in places and id(slot.old) not in given]
    if missing:
        raise MissingTensor(
            f"the module needs {len(missing)} tensors that were not published: {_listed(missing)}", where=where,
            remedy="publish them too; a buffer that is in no state dict has to be chosen, or made before",
        )  # fmt: skip
    extra = [name for name in places if name not in slots]
    if extra:
        raise MappingFailed(f"the module has no place for {len(extra)} published tensors: {_listed(extra)}", where=where)
    tied: dict[int, str] = {}
    for name, tensor in found.items():
        old, place = slots[name].old, places[name]
        if (old.shape, old.dtype) != (tensor.shape, tensor.dtype):
            raise MappingFailed(
                f"the module has {old.dtype} {list(old.shape)} there, published was {tensor.dtype} {list(tensor.shape)}", where=name
            )
        other = tied.setdefault(id(old), name)
        if (places[other].offset_bytes, places[other].strides) != (place.offset_bytes, place.strides):
            raise MappingFailed(f"the module ties it to {other}, the published weights do not", where=name)


def _make(slots: dict[str, _Slot], places: dict[str, Placement], found: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """What comes to every name, one object for what is one. All of it is made before the module is touched: memory may run out."""
    objects: dict[object, torch.Tensor] = {}
    made = {}
    for name, place in places.items():
        slot = slots[name]
        form = (place.offset_bytes, place.dtype, place.shape, place.strides, type(slot.old), slot.is_parameter)
        key: object = form if place.size_bytes else id(slot.old)
        if key not in objects:
            objects[key] = _parameter(slot.old, found[name]) if slot.is_parameter else found[name].clone()
        made[name] = objects[key]
    return made


def _listed(names: list[str]) -> str:
    return ", ".join(names[:_SHOWN]) + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")


def _parameter(old: torch.Tensor, tensor: torch.Tensor) -> torch.Tensor:
    import torch

    if type(old) is torch.nn.Parameter:
        return torch.nn.Parameter(tensor, requires_grad=False)
    made: torch.Tensor = torch.Tensor._make_subclass(type(old), tensor, False)  # as nn.Parameter itself makes those of its subclasses
    made.__dict__.update(old.__dict__)
    return made


def _put(slot: _Slot, tensor: torch.Tensor) -> None:
    held = slot.part._parameters if slot.is_parameter else slot.part._buffers
    held[slot.name] = tensor  # type: ignore[assignment]
