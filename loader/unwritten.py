"""Parameters that a load left as the allocator made them: an engine that does not check for itself would serve whatever lay there.

torch can fill what it hands out uninitialised (`torch.utils.deterministic.fill_uninitialized_memory`): with NaN, and integers with their
largest value. So a model that is built under `marked()` shows afterwards which of its memory was never written.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def marked() -> Iterator[None]:
    """Around building a model: its uninitialised memory carries the mark. What the builder initialises itself does not."""
    import torch
    from torch.utils import deterministic

    enabled, warn_only = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    fills = deterministic.fill_uninitialized_memory  # type: ignore[attr-defined]
    torch.use_deterministic_algorithms(True, warn_only=not enabled or warn_only)
    deterministic.fill_uninitialized_memory = True  # type: ignore[attr-defined]
    try:
        yield
    finally:
        deterministic.fill_uninitialized_memory = fills  # type: ignore[attr-defined]
        torch.use_deterministic_algorithms(enabled, warn_only=warn_only)


def unwritten(model: Any) -> list[str]:
    """The parameters of which a whole row still carries the mark, by name: of fused ones also those that were written in part.

    Of integers, whose mark may be a value, only those that carry nothing else. The first column is read, and more only where it is marked.
    """
    return [name for name, parameter in model.named_parameters() if parameter.numel() and _unwritten(parameter.data)]


def _unwritten(tensor: Any) -> bool:
    import torch

    if tensor.is_meta or tensor.is_complex() or tensor.dtype is torch.bool:
        return False
    if not tensor.is_floating_point():
        largest = torch.iinfo(tensor.dtype).max
        return bool((tensor.flatten()[:1] == largest).all() and (tensor == largest).all())
    if tensor.dtype.itemsize == 1:
        if tensor.dtype not in (torch.float8_e4m3fn, torch.float8_e5m2):
            return False  # formats without a NaN that is one pattern
        tensor = tensor.to(torch.float16) if tensor.ndim < 2 else tensor
    if tensor.ndim < 2:
        return bool(tensor.isnan().any())
    rows = tensor.select(-1, 0).to(torch.float32).isnan()
    return bool(rows.any() and tensor[rows].to(torch.float32).isnan().all(dim=-1).any())
