"""The dtypes of safetensors, as torch and numpy name them."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from wcache.core.model.errors import Unsupported

if TYPE_CHECKING:
    import torch

NAMES = {
    "F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16", "I64": "int64", "I32": "int32", "I16": "int16",
    "I8": "int8", "U8": "uint8", "BOOL": "bool", "U64": "uint64", "U32": "uint32", "U16": "uint16", "C64": "complex64",
    "F8_E4M3": "float8_e4m3fn", "F8_E4M3FNUZ": "float8_e4m3fnuz", "F8_E5M2": "float8_e5m2", "F8_E5M2FNUZ": "float8_e5m2fnuz",
    "F8_E8M0": "float8_e8m0fnu", "F4": "float4_e2m1fn_x2",
}  # fmt: skip
"""safetensors dtype -> attribute of torch. The F6 kinds have none."""

PACKED = frozenset({"F4"})  # torch counts two of these as one item


@functools.cache
def torch_dtype(name: str) -> torch.dtype:
    """The torch dtype of a safetensors dtype. Raises Unsupported naming it."""
    import torch

    found = getattr(torch, NAMES.get(name, ""), None)
    if not isinstance(found, torch.dtype):
        raise Unsupported(f"torch {torch.__version__} has no dtype for {name}", remedy="read these tensors as bytes with another tool")
    return found


def torch_shape(name: str, dtype: str, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape that torch gives a tensor of that safetensors dtype. Raises Unsupported for an odd last dimension of a packed one."""
    if dtype not in PACKED or not shape:
        return shape
    if shape[-1] % 2:
        raise Unsupported(f"torch packs two {dtype} into one item, and the last dimension is odd: {list(shape)}", where=name)
    return (*shape[:-1], shape[-1] // 2)


def safetensors_dtype(dtype: torch.dtype) -> str | None:
    """The safetensors name of a torch dtype, as in `F32`; None where there is none."""
    text = str(dtype).removeprefix("torch.")
    return next((name for name, torch_name in NAMES.items() if torch_name == text), None)
