"""What the daemon says to a load onto a device: refused at once and by name where it cannot be done. What can be done: tests/gpu."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.daemon import DaemonProcess

from wcache.core.model.errors import Unsupported, UsageError, WcacheError
from wcache.core.wire.messages import Loaded, LoadRequest
from wcache.daemon.budget import gpu_room

UUID = "GPU-00000000-0000-4000-8000-000000000000"


def _refused(daemon: DaemonProcess, path: Path, device: str) -> WcacheError:
    channel = daemon.connect()
    try:
        with pytest.raises(WcacheError) as refused:
            channel.call(LoadRequest(spelling=str(path), device=device), timeout_s=20)
    finally:
        channel.close()
    return refused.value


@pytest.mark.parametrize(
    ("device", "kind", "says"),
    [
        (UUID, Unsupported, "NVIDIA driver"),
        ("MIG-00000000-0000-4000-8000-000000000000", Unsupported, "NVIDIA driver"),
        ("rocm:0", Unsupported, "AMD GPUs (ROCm)"),
        ("xpu", Unsupported, "Intel GPUs (XPU)"),
        ("mps", Unsupported, "Apple GPUs (macOS)"),
        ("cuda:0", UsageError, "UUID"),
        ("", UsageError, "no device"),
        ("nonsense", UsageError, "no device"),
    ],
)
def test_a_device_that_cannot_be_had_is_refused_by_name_before_anything_starts(
    no_driver: None, daemon: DaemonProcess, checkpoint: Path, device: str, kind: type[WcacheError], says: str
) -> None:
    error = _refused(daemon, checkpoint, device)
    assert isinstance(error, kind)
    assert says in error.what and error.remedy
    assert not daemon.workers() and not daemon.events("load.started", "load.failed")
    assert daemon.load(checkpoint).residency.device == "cpu"  # and it goes on


def test_host_memory_that_is_resident_is_no_answer_for_another_device(no_driver: None, daemon: DaemonProcess, checkpoint: Path) -> None:
    daemon.load(checkpoint)
    assert isinstance(_refused(daemon, checkpoint, UUID), Unsupported)
    channel = daemon.connect()
    reply = channel.call(LoadRequest(spelling=str(checkpoint)))
    channel.close()
    assert isinstance(reply, Loaded) and reply.reused


def test_the_server_asks_no_driver_until_a_gpu_is_wanted(daemon: DaemonProcess, checkpoint: Path) -> None:
    daemon.load(checkpoint)
    daemon.status()
    loaded = Path(f"/proc/{daemon.pid}/maps").read_text()
    assert "libcuda" not in loaded and "libnvidia-ml" not in loaded


def test_room_on_a_gpu_needs_its_driver(no_driver: None) -> None:
    with pytest.raises(Unsupported, match="NVIDIA driver"):
        gpu_room(UUID, budget_bytes=1 << 30)
