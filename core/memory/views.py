"""Mapped GPU memory as torch tensors, without a copy."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from wcache.core.memory.dtypes import torch_dtype, torch_shape
from wcache.core.memory.packing import Placement, check_inside
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
    """A tensor for each place, on the mapped memory; tied ones are the same object. All share one storage, the mapping, and keep it alive.

    Raises MappingFailed for a place outside of it or at an address that the dtype does not allow, Unsupported for a dtype torch lacks.
    """
    import torch

    check_torch()
    if not mapping.mapped:
        raise MappingFailed("the mapping is paused or closed", where=str(mapping.device))
    whole = torch.as_tensor(_Bytes(mapping), device=f"cuda:{mapping.device.ordinal}")
    if whole.data_ptr() != mapping.address:
        raise MappingFailed("torch copied the weights instead of using them in place", where=str(mapping.device))
    # One operation a tensor: an engine waits for this, and each costs one to three microseconds.
    at: dict[str, Callable[..., torch.Tensor]] = {}
    found: dict[str, torch.Tensor] = {}
    end = mapping.size_bytes
    for place in placements:
        dtype, offset_bytes = place.dtype, place.offset_bytes
        if place.same_as and place.same_as in found and found[place.same_as].shape == place.shape:
            found[place.name] = found[place.same_as]
            continue
        try:
            shape, strides, item_bytes, size_bytes = _layout(dtype, place.shape)
        except Unsupported as error:
            raise Unsupported(error.what, where=place.name, remedy=error.remedy) from None
        if size_bytes != place.size_bytes or offset_bytes % item_bytes or offset_bytes < 0 or offset_bytes + size_bytes > end:
            check_inside([place], end)
            raise MappingFailed(f"{dtype} {list(place.shape)} does not fit {place.size_bytes} bytes at {offset_bytes}", where=place.name)
        if dtype not in at:
            at[dtype] = whole.view(torch_dtype(dtype)).as_strided
        found[place.name] = at[dtype](shape, strides, offset_bytes // item_bytes)
    return found


@functools.lru_cache(maxsize=1024)
def _layout(dtype: str, shape: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...], int, int]:
    """torch's shape, strides, bytes of an item and of all: the layers of a model have the same few. Raises Unsupported."""
    shown = torch_shape("", dtype, shape)
    item_bytes = torch_dtype(dtype).itemsize
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
