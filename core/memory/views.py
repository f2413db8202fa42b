"""Mapped memory as torch tensors, without a copy: of a GPU, and of packed residencies on the host."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from operator import attrgetter
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from wcache.core.memory.dtypes import torch_dtype, torch_shape
from wcache.core.memory.packing import Item, Placement, check_inside, pack
from wcache.core.memory.vmm import COPY_REMEDY, Mapping
from wcache.core.model.errors import MappingFailed, Unsupported

if TYPE_CHECKING:
    import torch

# What a kernel's write to PROT_READ memory becomes: the launch or the next synchronising call says one of these.
_WRITE_WORDS = ("invalid argument", "illegal memory access", "unspecified launch failure", "invalid access")


class _Bytes:
    """The CUDA array interface (version 3) of a mapping. torch keeps this object as long as any tensor of it, and with it the mapping.

    It cannot say read-only: torch refuses such an array.
    """

    def __init__(self, mapping: Mapping) -> None:
        self.mapping = mapping
        self.__cuda_array_interface__ = {
            "shape": (mapping.size_bytes,), "typestr": "|u1", "data": (mapping.address, False), "version": 3, "strides": None,
        }  # fmt: skip


def check_torch() -> None:
    """Raises Unsupported, naming the platform, where torch was built for other GPUs, which it too calls `cuda`, or for none."""
    import torch

    if getattr(torch.version, "hip", None):
        raise Unsupported("this torch is for AMD GPUs (ROCm), whose memory cannot be shared yet", remedy="use --device cpu")
    if torch.version.cuda is None:
        raise Unsupported(f"this torch ({torch.__version__}) has no CUDA", remedy="install a torch with CUDA, or use device='cpu'")


def tensors(mapping: Mapping, placements: Iterable[Placement]) -> dict[str, torch.Tensor]:
    """A tensor for each place, on the mapped GPU memory; tied ones are the same object. All share one storage, the mapping, and keep it
    alive.

    Raises MappingFailed for a place outside of it or at an address that the dtype does not allow, Unsupported for a dtype torch lacks.
    """
    import torch

    check_torch()
    if not mapping.mapped:
        raise MappingFailed("the mapping is paused or closed", where=str(mapping.device))
    whole = torch.as_tensor(_Bytes(mapping), device=f"cuda:{mapping.device.ordinal}")
    if whole.data_ptr() != mapping.address:
        raise MappingFailed("torch copied the weights instead of using them in place", where=str(mapping.device))
    return block_tensors(whole, placements)


def host_tensors(memory: Any, placements: Iterable[Placement]) -> dict[str, torch.Tensor]:
    """As `tensors`, on host memory: `memory` is a writable buffer, kept alive as long as a tensor points there."""
    import torch

    return block_tensors(torch.frombuffer(memory, dtype=torch.uint8), placements)


def warm_up(place: torch.device) -> None:
    """The first use of each of torch's operations costs a process up to a millisecond; spend that while the daemon is being asked."""
    import torch

    plan = pack(Item(str(number), "BF16", (1, 256), 512) for number in range(2))
    block = torch.empty(plan.size_bytes, dtype=torch.uint8, device=place)
    if place.type == "cuda":
        block = torch.as_tensor(SimpleNamespace(__cuda_array_interface__=block.__cuda_array_interface__), device=place)
    block_tensors(block, plan.placements)


def block_tensors(whole: torch.Tensor, placements: Iterable[Placement]) -> dict[str, torch.Tensor]:
    """As `tensors`, on bytes (one dimension, uint8) of any device that torch holds itself.

    One operation for each run of tensors of one form at equal distances (as `packing.pack` lays out the layers of a model): an engine
    waits for this, and a view of its own costs each tensor ten times as much."""
    places = list(placements)
    by_name = {place.name: place for place in places}
    alike: dict[tuple[str, tuple[int, ...], tuple[int, ...]], list[Placement]] = {}
    for place in places:
        owner = by_name.get(place.same_as) if place.same_as else None
        if owner is None or (owner.shape, owner.strides, owner.dtype) != (place.shape, place.strides, place.dtype):
            alike.setdefault((place.dtype, place.shape, place.strides), []).append(place)
    found: dict[str, torch.Tensor] = {}
    typed: dict[str, torch.Tensor] = {}
    for (dtype, named_shape, named_strides), group in alike.items():
        try:
            shape, strides, item_bytes, size_bytes = _layout(dtype, named_shape, named_strides)
        except Unsupported as error:
            raise Unsupported(error.what, where=group[0].name, remedy=error.remedy) from None
        _check(group, size_bytes, item_bytes, whole.numel())
        if dtype not in typed:
            typed[dtype] = whole[: whole.numel() - whole.numel() % item_bytes].view(torch_dtype(dtype))
        for run, step_bytes in _runs(group):
            first = run[0].offset_bytes // item_bytes
            views = typed[dtype].as_strided((len(run), *shape), (step_bytes // item_bytes, *strides), first).unbind(0)
            found.update(zip([place.name for place in run], views, strict=True))
    return {place.name: found[place.name] if place.name in found else found[place.same_as] for place in places}


def _check(group: list[Placement], size_bytes: int, item_bytes: int, end: int) -> None:
    """Raises MappingFailed for a place of that form that is not inside, is misaligned, or has another size."""
    offsets = [place.offset_bytes for place in group]
    inside = {place.size_bytes for place in group} == {size_bytes} and min(offsets) >= 0 and max(offsets) + size_bytes <= end
    if inside and not any(offset % item_bytes for offset in offsets):
        return
    for place in group:
        check_inside([place], end)
        if place.size_bytes != size_bytes or place.offset_bytes % item_bytes:
            raise MappingFailed(
                f"{place.dtype} {list(place.shape)} does not fit {place.size_bytes} bytes at {place.offset_bytes}", where=place.name
            )


def _runs(group: list[Placement]) -> Iterator[tuple[list[Placement], int]]:
    """(places at equal distances, that distance in bytes), in order of their offsets."""
    ordered = sorted(group, key=_offset)
    offsets = [place.offset_bytes for place in ordered]
    steps = [later - earlier for earlier, later in pairwise(offsets)]
    begin = 0
    while begin < len(ordered):
        end = begin + 1
        while end < len(ordered) and steps[end - 1] == steps[begin]:
            end += 1
        yield ordered[begin:end], steps[begin] if end - begin > 1 else 0
        begin = end


_offset = attrgetter("offset_bytes")


@functools.lru_cache(maxsize=1024)
def _layout(dtype: str, shape: tuple[int, ...], given: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...], int, int]:
    """torch's shape, strides, bytes of an item, and bytes from the first to the last that is reached. Raises Unsupported."""
    shown = torch_shape("", dtype, shape)
    item_bytes = torch_dtype(dtype).itemsize
    if given:
        reach = 0 if 0 in shown else 1 + sum((length - 1) * step for length, step in zip(shown, given, strict=True))
        return shown, given, item_bytes, reach * item_bytes
    strides: list[int] = []
    step = 1
    for length in reversed(shown):
        strides.append(step)
        step *= max(length, 1)
    count = 0 if 0 in shown else step
    return shown, tuple(reversed(strides)), item_bytes, count * item_bytes


@contextmanager
def explained_writes(mapping: Mapping) -> Iterator[None]:
    """Makes torch's message about a write to read-only weights say what happened. Covers kernels that ended inside: it waits for them.

    Raises MappingFailed from torch's error. The process' CUDA context is lost by then; no other process is touched.
    """
    import torch

    try:
        yield
        torch.cuda.synchronize(mapping.device.ordinal)
    except RuntimeError as error:
        if mapping.writable or not any(word in str(error) for word in _WRITE_WORDS):
            raise
        raise MappingFailed(
            f"a kernel failed while weights are mapped read-only, and most likely wrote to them: {str(error).splitlines()[0]}",
            where=str(mapping.device), remedy=f"this process must be restarted; {COPY_REMEDY}",
        ) from error  # fmt: skip
