"""Devices that an engine may name, and what is said of those whose memory cannot be shared."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from support.corpus import make_checkpoint
from support.ledgers import Record

from wcache.core.memory import cuda
from wcache.core.model.errors import StrictMiss, Unsupported, UsageError
from wcache.core.model.events import AttachDecided, FallbackFailed
from wcache.core.model.vocabulary import Reason
from wcache.core.settings import Settings
from wcache.loader import load_file
from wcache.loader.attach import attach
from wcache.loader.check import check
from wcache.loader.device import named_device, visible_gpu

PLATFORMS = {"xpu:0": "XPU", "mps": "macOS", "hip:1": "ROCm", "rocm": "ROCm", "npu": "NPU", "hpu": "Gaudi"}


@pytest.mark.parametrize(
    ("device", "word"),
    [
        ("cpu", "cpu"), (None, "cpu"), (torch.device("cpu"), "cpu"), ("cpu:0", "cpu"), ("meta", "cpu"), (0, "cuda:0"),
        ("1", "cuda:1"), ("cuda", "cuda"),
        (torch.device("cuda", 1), "cuda:1"), ("GPU-12ab", "GPU-12ab"),
    ],
)  # fmt: skip
def test_a_device_is_one_word_however_it_is_given(device: object, word: str) -> None:
    assert named_device(device) == word


@pytest.mark.parametrize(("device", "platform"), PLATFORMS.items())
def test_another_platform_is_named(device: str, platform: str) -> None:
    with pytest.raises(Unsupported, match=platform):
        visible_gpu(device)


@pytest.mark.parametrize("device", ["gpu", "cuda:x", "auto", ""])
def test_what_names_no_device_is_a_usage_error_and_no_fallback(settings: Settings, device: str, disk_path: Path) -> None:
    with pytest.raises(UsageError, match="no device"):
        attach(make_checkpoint(disk_path / "m"), settings=settings, device=device)


@pytest.mark.parametrize("device", [*PLATFORMS, torch.device("xpu", 0)])
def test_another_platform_is_the_recorded_reason_of_a_fallback_and_of_a_strict_miss(
    settings: Settings, record: Record, disk_path: Path, device: Any
) -> None:
    place = make_checkpoint(disk_path / "m")
    found = attach(place, settings=settings, device=device)
    decided = record.last(AttachDecided)
    assert not found.hit and (decided.outcome, decided.reason) == ("fallback", "unsupported")
    assert "not on" in decided.detail and decided.device == str(device)
    with pytest.raises(StrictMiss, match=r"unsupported.*not on") as error:
        attach(place, settings=settings, device=device, on_miss="strict")
    assert error.value.reason == Reason.UNSUPPORTED


@pytest.mark.skipif(not cuda.why_unusable(), reason="this process sees a GPU")
@pytest.mark.parametrize("device", ["cuda", "cuda:0", 0, "GPU-00000000"])
def test_a_gpu_where_there_is_none_is_unsupported_and_says_why(settings: Settings, record: Record, disk_path: Path, device: object) -> None:
    found = attach(make_checkpoint(disk_path / "m"), settings=settings, device=device)
    decided = record.last(AttachDecided)
    assert not found.hit and decided.reason == "unsupported"
    assert any(word in decided.detail for word in ("no CUDA", "cuda-bindings", "no NVIDIA driver", "no GPU")), decided.detail


@pytest.mark.skipif(torch.version.cuda is not None, reason="this torch has CUDA")
def test_where_not_even_the_disk_load_can_reach_the_device_that_is_recorded(settings: Settings, record: Record, disk_path: Path) -> None:
    place = make_checkpoint(disk_path / "m")
    with pytest.raises((AssertionError, RuntimeError)):
        load_file(place / "model.safetensors", "cuda:0", settings=settings)
    assert record.last(AttachDecided).reason == "unsupported"
    assert "CUDA" in record.last(FallbackFailed).message


@pytest.mark.skipif(torch.version.cuda is not None, reason="this torch has CUDA")
def test_plain_cuda_is_the_first_gpu_for_what_reads_files_as_the_reference_does(
    settings: Settings, record: Record, disk_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The safetensors package knows no current device: for it `cuda` is `cuda:0`, also in a process that went on to another GPU."""
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 1)
    with pytest.raises((AssertionError, RuntimeError)):
        load_file(make_checkpoint(disk_path / "m") / "model.safetensors", "cuda", settings=settings)
    assert record.last(AttachDecided).device == "cuda:0"


@pytest.mark.parametrize("device", ["xpu", "mps:0"])
def test_a_check_says_of_another_platform_what_an_attach_would(settings: Settings, disk_path: Path, device: str) -> None:
    found = check(make_checkpoint(disk_path / "m"), settings, device=device)
    assert found.reason is Reason.UNSUPPORTED and "not on" in found.detail


def test_a_torch_for_amd_calls_its_gpus_cuda_and_is_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.version, "hip", "6.4")
    with pytest.raises(Unsupported, match="ROCm"):
        visible_gpu("cuda:0")
