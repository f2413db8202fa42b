"""A live model's weights replaced by another checkpoint's: an attach of its own, and all of them or none."""

from __future__ import annotations

import os
import re
import secrets
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from wcache.core.checkpoint.checkpoint import open_checkpoint, recheck_paths
from wcache.core.checkpoint.header import Header, TensorEntry
from wcache.core.memory.dtypes import torch_shape
from wcache.core.model.decide import HOST
from wcache.core.model.errors import MappingFailed, MissingTensor, Unsupported, UsageError, WcacheError
from wcache.core.model.events import Engine
from wcache.core.model.vocabulary import Kind
from wcache.loader.attach import attach, resolve_settings
from wcache.loader.attachment import Attachment, attachment_of
from wcache.loader.mapping import safetensors_dtype, torch_dtype
from wcache.loader.room import check_room, named_failures
from wcache.loader.standin import reference_only
from wcache.loader.taken import report_taken, take

if TYPE_CHECKING:
    import torch

_ATTACH_WORDS = ("engine", "ranks", "launch", "on_progress", "mode", "release")
_SHOWN = 4


class _Weight(NamedTuple):
    """One weight of the model: every name that it has, and every parameter or buffer object that is it."""

    names: list[str]
    objects: list[torch.Tensor]


def update(model: torch.nn.Module, checkpoint: str | os.PathLike[str], *, revision: str | None = None, **policy: Any) -> Attachment:
    """Give a live model the weights of another checkpoint of the same architecture: every parameter and persistent buffer, or none.

    This is an attach of its own: decided, recorded, with a lease, and, unless `launch` is given, a launch of its own. It takes what
    `attach` takes but what the model says itself (device, dtype). On a hit the tensors point into the new mapping, or are copies where
    `attach` or another floating dtype makes them so. On a fallback they are read from the files into memory of their own. The lease of
    the mapping before ends with its last tensor, as everywhere.

    Parameter and buffer objects, ties, `requires_grad` and gradients stay; only what they point at is exchanged. What knows the old
    memory by its address is not: a captured CUDA graph has to be captured again, a view that was taken earlier keeps the old weights (and
    their lease), an optimizer its state. Configuration and tokenizer stay too. Nobody may run the model meanwhile: it would compute
    with weights of both.

    The names are those of the model's own `state_dict()`; an engine that fuses or shards has others, and is refused. Raises, with the
    model as it was: StrictMiss; MissingTensor for a weight that the checkpoint lacks; MappingFailed for one of another shape or kind, one
    that the model has no place for, a tie that the checkpoint does not have, in a forked child and while the mapping is paused; NoRoom;
    Unsupported for a model on several devices, without memory, or of processed weights; what `open_checkpoint` raises on a fallback.
    """
    words = {name: policy.pop(name) for name in _ATTACH_WORDS if name in policy}
    settings = resolve_settings(policy.pop("settings", None), policy)
    weights = _weights(model)
    if not weights:
        raise UsageError(f"{type(model).__name__} has no weights")
    previous = _previous(weights)
    device = _device(weights)
    words.setdefault("engine", _engine(model, previous))
    words.setdefault("launch", "l-" + secrets.token_hex(8))
    attachment = attach(checkpoint, revision=revision, settings=settings, device=device, dtype=_dtype(weights), **words)
    if attachment.hit and _swap_resident(model, weights, attachment):
        return attachment
    _swap_from_disk(model, weights, attachment, checkpoint, revision)
    return attachment


def _weights(model: torch.nn.Module) -> list[_Weight]:
    """Parameters and persistent buffers; what is one object or lies at one place with one form is one weight."""
    import torch

    found: dict[object, _Weight] = {}
    for name, tensor in _named(model, persistent=True):
        if tensor.is_meta or tensor.layout is not torch.strided or type(tensor.data) is not torch.Tensor:
            what = "without memory" if tensor.is_meta else f"a {type(tensor.data).__name__} ({tensor.layout})"
            raise Unsupported(f"it is {what}: only plain tensors are replaced", where=name, remedy="load the model anew")
        key: object = (tensor.device, tensor.data_ptr(), tensor.shape, tensor.stride()) if tensor.numel() else id(tensor)
        weight = found.setdefault(key, _Weight([], []))
        weight.names.append(name)
        if not any(tensor is one for one in weight.objects):
            weight.objects.append(tensor)
    return list(found.values())


def _named(model: torch.nn.Module, *, persistent: bool) -> Iterator[tuple[str, torch.Tensor]]:
    """Under every name, also a tied one's others. The module that `torch.compile` wraps is the model."""
    for path, part in getattr(model, "_orig_mod", model).named_modules(remove_duplicate=False):
        for held in (part._parameters, part._buffers):
            for name, tensor in held.items():
                if tensor is not None and (name not in part._non_persistent_buffers_set) == persistent:
                    yield (f"{path}.{name}" if path else name), tensor


def _previous(weights: Iterable[_Weight]) -> Attachment | None:
    """What the weights are mapped from now. Raises MappingFailed and Unsupported where that must stay."""
    found = [one for one in dict.fromkeys(attachment_of(_of(weight)) for weight in weights) if one is not None]
    for one in found:
        one.require_replaceable()
        if one.question.kind is Kind.PROCESSED:
            raise Unsupported(
                "the model is on processed weights, which are not a checkpoint's tensors", where=one.question.spelling,
                remedy="attach the processed weights of the other checkpoint, or start anew",
            )  # fmt: skip
    return found[0] if found else None


def _device(weights: Iterable[_Weight]) -> str:
    devices = {_of(weight).device for weight in weights}
    if len(devices) > 1:
        raise Unsupported(f"the model lies on several devices: {', '.join(sorted(map(str, devices)))}", remedy="start it anew")
    device = str(devices.pop())
    return HOST if device == "cpu" else device


def _dtype(weights: Iterable[_Weight]) -> str | None:
    """The one that all floating weights have; None where there are several."""
    found = {one.dtype for weight in weights if (one := _of(weight)).is_floating_point()}
    return safetensors_dtype(found.pop()) if len(found) == 1 else None


def _engine(model: torch.nn.Module, previous: Attachment | None) -> Engine:
    """As it called itself before; of weights that are no mapping, the library that the model is of."""
    import torch

    if previous is not None:
        return previous.question.engine
    if any(cls.__module__.partition(".")[0] == "transformers" for cls in type(getattr(model, "_orig_mod", model)).__mro__):
        import transformers

        return Engine(name="transformers", version=transformers.__version__, pid=os.getpid())
    return Engine(name="torch", version=str(torch.__version__), pid=os.getpid())


def _swap_resident(model: torch.nn.Module, weights: list[_Weight], attachment: Attachment) -> bool:
    """Whether the model is on the resident weights now. Where not, that is recorded, and the disk is next. Raises StrictMiss then where
    that is the policy, and where the disk would not help either what is wrong with the checkpoint."""
    try:
        headers = attachment.headers
    except WcacheError as error:
        attachment.map_failed(error)
        return False
    try:
        entries = _entries(headers.values())
        _check(model, weights, entries, attachment.question.spelling)
    except WcacheError as error:
        attachment.incomplete(error)
        raise
    try:
        taken = take(attachment, entries.keys() & {name for weight in weights for name in weight.names})
        converted = [weight for weight in weights if taken.tensors[_first(weight, entries)].dtype != _of(weight).dtype]
        _check_room(attachment, converted)
        with named_failures(attachment.question.spelling):
            made = [_new(weight, taken.tensors, copy=False) for weight in weights]
        _swap(weights, made)
    except WcacheError as error:
        attachment.map_failed(error)
        return False
    report_taken(attachment, taken, [_of(weight) for weight in weights if _of(weight).numel()])
    return True


def _swap_from_disk(
    model: torch.nn.Module, weights: list[_Weight], attachment: Attachment, checkpoint: str | os.PathLike[str], revision: str | None
) -> None:
    """The fallback: copies of what the files hold, since the next checkpoint may be written over this one."""
    from safetensors.torch import load_file

    began_s = time.monotonic()
    try:
        opened = open_checkpoint(checkpoint, revision=revision)
        _check(model, weights, _entries(shard.header for shard in opened.shards), attachment.question.spelling)
        _check_room(attachment, weights)
        found: dict[str, torch.Tensor] = {}
        with reference_only():
            for shard in opened.shards:
                found.update(load_file(shard.path))
        made = [_new(weight, found, copy=True) for weight in weights]
        recheck_paths(opened)
        _swap(weights, made)
    except BaseException as error:
        attachment.fallback_failed(error)
        if isinstance(error, WcacheError) or not isinstance(error, Exception):
            raise
        raise MappingFailed(f"{type(error).__name__}: {error}", where=attachment.question.spelling) from error
    attachment.fell_back(opened.total_bytes, time.monotonic() - began_s)


def _entries(headers: Iterable[Header]) -> dict[str, TensorEntry]:
    return {entry.name: entry for header in headers for entry in header.tensors}


def _check(model: torch.nn.Module, weights: Iterable[_Weight], entries: Mapping[str, TensorEntry], where: str) -> None:
    """That the checkpoint is one of this model, before anything is mapped or read."""
    missing = [weight.names[0] for weight in weights if not entries.keys() & set(weight.names)]
    if missing:
        raise MissingTensor(
            f"the model needs {len(missing)} tensors that the checkpoint does not have: {_listed(missing)}", where=where,
            remedy="update with a checkpoint of the same architecture, under the names of the model's state_dict()",
        )  # fmt: skip
    places = {name: _of(weight) for weight in weights for name in weight.names}
    for name in sorted(entries.keys() & places.keys()):
        old, entry = places[name], entries[name]
        dtype, shape = torch_dtype(entry.dtype), torch_shape(name, entry.dtype, entry.shape)
        if tuple(old.shape) != tuple(shape):
            raise MappingFailed(f"the model has the shape {list(old.shape)} there, the checkpoint {list(shape)}", where=name)
        if old.dtype != dtype and not (old.dtype.is_floating_point and dtype.is_floating_point):
            raise MappingFailed(f"the model has {old.dtype} there, the checkpoint {dtype}", where=name)
    known = places.keys() | {name for name, _ in _named(model, persistent=False)}
    ignored: Collection[str] = getattr(getattr(model, "_orig_mod", model), "_keys_to_ignore_on_load_unexpected", None) or ()
    extra = sorted(name for name in entries.keys() - known if not any(re.search(pattern, name) for pattern in ignored))
    if extra:
        raise MappingFailed(f"the model has no place for {len(extra)} tensors of the checkpoint: {_listed(extra)}", where=where)


def _listed(names: list[str]) -> str:
    return ", ".join(names[:_SHOWN]) + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")


def _of(weight: _Weight) -> torch.Tensor:
    return weight.objects[0]


def _first(weight: _Weight, found: Collection[str]) -> str:
    return next(name for name in weight.names if name in found)


def _check_room(attachment: Attachment, weights: Iterable[_Weight]) -> None:
    """That copies of these weights fit beside those in use."""
    size_bytes = sum(_of(weight).nbytes for weight in weights)
    if size_bytes:
        check_room(size_bytes, attachment.gpu)


def _new(weight: _Weight, found: Mapping[str, torch.Tensor], *, copy: bool) -> torch.Tensor:
    """What the weight becomes. Raises MappingFailed where the model ties names of which the checkpoint has different values."""
    import torch

    first, *others = [name for name in weight.names if name in found]
    for other in others:
        if not torch.equal(_bytes(found[first]), _bytes(found[other])):
            raise MappingFailed(f"the model ties it to {other}, the checkpoint has other values there", where=first)
    return found[first].to(_of(weight).device, _of(weight).dtype, copy=copy)


def _bytes(tensor: torch.Tensor) -> torch.Tensor:
    import torch

    return tensor.contiguous().reshape(-1).view(torch.uint8)


def _swap(weights: Iterable[_Weight], made: Iterable[torch.Tensor]) -> None:
    """The objects stay, so that whoever holds them (an engine, a compiled graph, a tie) sees the new weights."""
    pairs = [(one, new) for weight, new in zip(weights, made, strict=True) for one in weight.objects]
    old = [(one, one.data) for one, _ in pairs]
    try:
        for one, new in pairs:
            one.data = new
    except BaseException as error:  # all or nothing, whatever torch has against it
        for one, data in old:
            one.data = data
        if not isinstance(error, Exception):
            raise
        raise MappingFailed(f"a weight cannot be replaced: {type(error).__name__}: {error}") from error
