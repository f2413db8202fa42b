"""What is said where CUDA is missing, in part or altogether."""

from __future__ import annotations

import subprocess
import sys

import pytest

from wcache.core.memory import cuda, nvml
from wcache.core.memory.blake3_cuda import levels
from wcache.core.model.errors import Unsupported


def test_without_cuda_bindings_it_is_named() -> None:
    code = (
        "import sys\n"
        "sys.modules['cuda.bindings.driver'] = None\n"
        "from wcache.core.memory import cuda, vmm\n"
        "print(cuda.why_unusable())\n"
        "try: cuda.find('cuda:0')\n"
        "except cuda.Unsupported as error: print(error.diagnostics())\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    why, diagnostics = done.stdout.splitlines()
    assert "cuda-bindings" in why and "pip install 'wcache-ledger[cuda]'" in diagnostics


def test_without_a_driver_it_is_named() -> None:
    pytest.importorskip("cuda.bindings.driver")
    if not cuda.why_unusable():
        pytest.skip("there is a GPU here")
    with pytest.raises(Unsupported, match="NVIDIA driver"):
        cuda.devices()
    with pytest.raises(Unsupported, match="NVIDIA driver"):
        nvml.gpus()


def test_macos_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(Unsupported, match="macOS"):
        cuda.binding("driver")


def test_the_modules_import_no_cuda_before_they_are_used() -> None:
    code = (
        "import sys\n"
        "import wcache.core.memory.vmm, wcache.core.memory.views, wcache.core.memory.blake3_cuda, wcache.core.memory.nvml\n"
        "print(*sorted({'cuda', 'torch', 'numpy'} & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == ""


def test_every_region_ends_as_one_node() -> None:
    """Four chunks of 1 KiB are a leaf, 256 nodes become one; an empty region is a chunk too."""
    assert levels([0, 1, 4096]) == [[1, 1, 1]]
    assert levels([4097, 1 << 20, (1 << 20) + 1]) == [[2, 256, 257], [1, 1, 2], [1, 1, 1]]
    assert [max(level) for level in levels([30 << 30])] == [7_864_320, 30_720, 120, 1]
