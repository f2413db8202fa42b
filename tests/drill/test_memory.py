"""Which GPUs a server may use that a drill starts: as the driver reads the environment, which is asked without CUDA."""

from __future__ import annotations

import pytest

from wcache.core.memory import nvml
from wcache.drill.memory import visible_gpus

GPUS = (nvml.Gpu(0, "GPU-aaaa", "H200"), nvml.Gpu(1, "GPU-bbbb", "H100", ("MIG-1111", "MIG-2222")), nvml.Gpu(2, "GPU-cccc", "H200"))


@pytest.mark.parametrize(
    ("setting", "seen"),
    [
        (None, ["GPU-aaaa", "GPU-bbbb", "GPU-cccc"]),
        ("", []),
        ("2,0", ["GPU-cccc", "GPU-aaaa"]),
        ("0,0", []),
        ("0,-1,2", ["GPU-aaaa"]),
        ("GPU-c", ["GPU-cccc"]),
        ("MIG-2222", ["MIG-2222"]),
    ],
)
def test_a_server_is_taken_to_see_what_the_driver_shows_it(monkeypatch: pytest.MonkeyPatch, setting: str | None, seen: list[str]) -> None:
    monkeypatch.setattr(nvml, "gpus", lambda: GPUS)
    if setting is None:
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    else:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", setting)
    found = visible_gpus()
    assert [gpu.uuid for gpu in found] == seen
    assert all(gpu.name for gpu in found)
