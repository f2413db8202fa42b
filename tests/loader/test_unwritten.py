"""Parameters that a load left as the allocator made them are found, and nothing else is taken for one."""

from __future__ import annotations

import pytest
import torch

from wcache.loader.unwritten import marked, unwritten

DTYPES = (torch.float32, torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2, torch.int8, torch.uint8, torch.int32)


def model_of(*tensors: torch.Tensor) -> torch.nn.Module:
    model = torch.nn.Module()
    for number, tensor in enumerate(tensors):
        model.register_parameter(f"p{number}", torch.nn.Parameter(tensor, requires_grad=False))
    return model


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(4,), (4, 6), (2, 4, 6)], ids=str)
def test_what_was_never_written_is_found_and_what_was_written_is_not(dtype: torch.dtype, shape: tuple[int, ...]) -> None:
    """A3"""
    with marked():
        model = model_of(torch.empty(shape, dtype=dtype), torch.empty(0, 3), torch.empty(()), torch.ones(3))
    assert unwritten(model) == ["p0", "p2"]
    for parameter in model.parameters():
        parameter.data.zero_()
    assert unwritten(model) == []


@pytest.mark.parametrize("dtype", DTYPES[:4], ids=str)
def test_a_fused_parameter_of_which_one_part_is_missing_is_found(dtype: torch.dtype) -> None:
    """A3"""
    with marked():
        model = model_of(torch.empty(6, 8, dtype=dtype), torch.empty(2, 6, 8, dtype=dtype))
    for parameter in model.parameters():
        parameter.data.view(torch.uint8)[..., :2, :] = 0
        parameter.data.view(torch.uint8)[..., 4:, :] = 0
    assert unwritten(model) == ["p0", "p1"]


def test_a_checkpoint_that_has_a_nan_itself_is_no_missing_tensor() -> None:
    with marked():
        model = model_of(torch.empty(4, 4))
    model.p0.data.copy_(torch.arange(16.0).reshape(4, 4))
    model.p0.data[2, 0] = float("nan")
    assert unwritten(model) == []


def test_memory_is_marked_only_meanwhile() -> None:
    with pytest.raises(RuntimeError, match="no model"), marked():
        assert torch.empty(1).isnan().all()
        raise RuntimeError("no model")
    assert not torch.are_deterministic_algorithms_enabled()
