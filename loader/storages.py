"""How an engine's tensors lie in memory: by storage, with every view of it at its place, and where that goes in a packed residency."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from wcache.core.memory import vmm
from wcache.core.memory.cuda import find
from wcache.core.memory.device import DeviceName, parse_device
from wcache.core.memory.dtypes import PACKED, safetensors_dtype
from wcache.core.memory.packing import ALIGNMENT_BYTES, Placement, aligned
from wcache.core.memory.table import Table
from wcache.core.memory.views import check_torch
from wcache.core.model.decide import HOST
from wcache.core.model.errors import Unsupported, UsageError

if TYPE_CHECKING:
    import torch

PARAMETER, BUFFER = "parameter", "buffer"


class _Seen(NamedTuple):
    """A tensor as it lies: its first byte, how many it reaches, and where its storage begins; shape as safetensors has it."""

    name: str
    tensor: torch.Tensor
    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]  # none: contiguous
    base: int
    address: int
    size_bytes: int

    @property
    def end(self) -> int:
        return self.address + self.size_bytes


class Span(NamedTuple):
    """Bytes that are copied and hashed as one: what tensors of one storage reach, from the first to the last. `skip_bytes` of the storage
    come before it.

    Where tensors with strides leave bytes between their elements, `parts` are the tensors, and only their elements are copied: the rest is
    nobody's weights, may be anything of the engine's memory, and would make equal weights look different.
    """

    source: torch.Tensor
    skip_bytes: int
    size_bytes: int
    offset_bytes: int
    parts: tuple[torch.Tensor, ...] = ()


class Layout(NamedTuple):
    """`memory_bytes` is what the memory takes on `device`: whole pages of a GPU."""

    table: Table
    spans: tuple[Span, ...]
    device: str
    memory_bytes: int

    def copy_into(self, whole: torch.Tensor) -> None:
        """Copies every span to its place in `whole`, bytes on the same kind of device."""
        import torch

        with torch.no_grad():
            for span in self.spans:
                if span.parts:
                    _copy_parts(span, whole)
                    continue
                flat = torch.empty(0, dtype=torch.uint8, device=span.source.device)
                flat.set_(span.source.untyped_storage(), span.skip_bytes, (span.size_bytes,), (1,))
                whole[span.offset_bytes : span.offset_bytes + span.size_bytes].copy_(flat)


def lay_out(tensors: Mapping[str, torch.Tensor], roles: Mapping[str, str]) -> Layout:
    """Where everything goes. Each storage's used span begins at its own distance from 256 bytes, so that an address that kernels like
    stays one; spans of one form lie side by side, so that one operation can view them all.

    Raises UsageError for no tensors, two devices, meta tensors and those whose storage was freed; Unsupported for layouts and dtypes that
    cannot be shared. Each names the tensor.
    """
    if not tensors:
        raise UsageError("there are no tensors to publish")
    seen = [_look(name, tensor) for name, tensor in tensors.items()]
    device = _device_of(seen)
    storages: dict[int, list[_Seen]] = {}
    for one in seen:
        if one.size_bytes:
            storages.setdefault(one.base, []).append(one)
    alike: dict[object, list[list[_Seen]]] = {}
    for members in storages.values():
        start = min(one.address for one in members)
        form = [(one.dtype, one.shape, one.strides, one.address - start) for one in members]
        alike.setdefault((tuple(form), (start - members[0].base) % ALIGNMENT_BYTES), []).append(members)
    spans: list[Span] = []
    offsets: dict[str, int] = {}
    end = 0
    for members in (members for group in alike.values() for members in group):
        start = min(one.address for one in members)
        largest = max(members, key=lambda one: one.tensor.untyped_storage().nbytes())
        skip_bytes = start - largest.base
        offset_bytes = aligned(end) + skip_bytes % ALIGNMENT_BYTES
        end = offset_bytes + max(one.end for one in members) - start
        parts = () if _cover(members) else tuple(one.tensor for one in members)
        spans.append(Span(largest.tensor, skip_bytes, end - offset_bytes, offset_bytes, parts))
        offsets.update({one.name: offset_bytes + one.address - start for one in members})
    blocks = [(span.offset_bytes, span.size_bytes) for span in spans]
    if len(offsets) < len(seen):
        blocks.append((aligned(end), 0))  # tensors without bytes lie there
        end = aligned(end)
    owners: dict[object, str] = {}
    places = []
    for one in seen:
        offset_bytes = offsets.get(one.name, end)
        owner = owners.setdefault((offset_bytes, one.dtype, one.shape, one.strides), one.name) if one.size_bytes else one.name
        same_as = "" if owner == one.name else owner
        places.append(
            Placement(one.name, one.dtype, one.shape, offset_bytes, one.size_bytes, same_as, one.strides, roles.get(one.name, ""))
        )
    table = Table(size_bytes=max(1, end), tensors=tuple(places), blocks=tuple(blocks))
    memory_bytes = table.size_bytes if device == HOST else vmm.allocated_bytes(table.size_bytes, find(device))
    return Layout(table, tuple(spans), device, memory_bytes)


def _cover(members: list[_Seen]) -> bool:
    """Whether every byte from the first to the last belongs to an element."""
    reached = min(one.address for one in members)
    for one in sorted(members, key=lambda one: (one.address, -one.end)):
        if one.address > reached:
            return False
        if one.end > reached and not _dense(one.tensor):
            return False
        reached = max(reached, one.end)
    return True


def _dense(tensor: torch.Tensor) -> bool:
    """In the order of its strides, one element follows the other."""
    reach = 1
    for length, step in sorted(zip(tensor.shape, tensor.stride(), strict=True), key=lambda one: one[1]):
        if length > 1 and step > reach:
            return False
        reach += (length - 1) * step
    return True


def _copy_parts(span: Span, whole: torch.Tensor) -> None:
    """Element by element, as numbers of their size: some dtypes cannot be copied as themselves."""
    import torch

    whole[span.offset_bytes : span.offset_bytes + span.size_bytes].zero_()
    begin = span.source.untyped_storage().data_ptr() + span.skip_bytes
    for part in span.parts:
        for dimension in reversed(range(part.dim())):
            if not part.stride(dimension):  # its elements are one
                part = part.select(dimension, 0)
        numbers = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[part.itemsize]
        source = part.view(numbers)
        offset_bytes = whole.storage_offset() + span.offset_bytes + source.data_ptr() - begin
        target = torch.empty(0, dtype=numbers, device=part.device)
        target.set_(whole.untyped_storage(), offset_bytes // part.itemsize, source.shape, source.stride())
        target.copy_(source)


def _look(name: str, tensor: torch.Tensor) -> _Seen:
    import torch

    if tensor.is_meta:
        raise UsageError("it is a meta tensor: there are no bytes to publish", where=name, remedy="publish after the engine has loaded")
    if tensor.layout is not torch.strided or tensor.is_quantized or hasattr(type(tensor), "__tensor_flatten__"):
        what = f"{type(tensor).__name__} of layout {tensor.layout}" if tensor.layout is not torch.strided else type(tensor).__name__
        raise Unsupported(f"it is no plain tensor ({what}), and only those can be shared", where=name, remedy="publish its parts")
    if tensor.is_conj() or tensor.is_neg():
        raise Unsupported("it is a view that is yet to be computed", where=name, remedy="resolve_conj() or resolve_neg() it first")
    dtype = safetensors_dtype(tensor.dtype)
    if dtype is None:
        raise Unsupported(f"safetensors has no name for {tensor.dtype}", where=name, remedy="publish it as bytes (view it as torch.uint8)")
    shape = tuple(tensor.shape)
    strides: tuple[int, ...] = ()
    count = tensor.numel()
    if count and not tensor.is_contiguous():
        strides = tuple(tensor.stride())
        count = 1 + sum((length - 1) * step for length, step in zip(shape, strides, strict=True))
    storage = tensor.untyped_storage()
    if count and (tensor.storage_offset() + count) * tensor.dtype.itemsize > storage.nbytes():
        raise UsageError(
            f"its storage has {storage.nbytes()} bytes, it needs more: it was freed, and there is nothing to publish", where=name,
            remedy="publish before the engine frees it, or leave it out",
        )  # fmt: skip
    if dtype in PACKED and shape:
        shape = (*shape[:-1], shape[-1] * 2)
    return _Seen(name, tensor, dtype, shape, strides, storage.data_ptr(), tensor.data_ptr(), count * tensor.dtype.itemsize)


def _device_of(seen: list[_Seen]) -> str:
    """`cpu` or the UUID of the one GPU that all of them are on."""
    first = seen[0].tensor.device
    for one in seen:
        if one.tensor.device != first:
            raise UsageError(
                f"it is on {one.tensor.device}, {seen[0].name} is on {first}",
                where=one.name,
                remedy="publish what is on each device by itself",
            )
    if first.type == HOST:
        return HOST
    if first.type != "cuda":
        parse_device(first.type)  # names the platform
    check_torch()
    return find(DeviceName(index=first.index)).uuid
