"""How much may still be loaded: the least that any limit over this process leaves (`core.memory.limits`, and the operator), or that a
GPU's driver says is free."""

from __future__ import annotations

from pathlib import Path

from wcache.core.memory.limits import Room as Room
from wcache.core.memory.limits import host_limits
from wcache.core.model.errors import UsageError

MARGIN_BYTES = 64 << 20  # for the workers and the server themselves
GPU_MARGIN_BYTES = 512 << 20  # for the CUDA context of a worker, while it loads


def room(root: Path = Path("/"), *, budget_bytes: int | None = None, held_bytes: int = 0) -> Room:
    """The least over MemAvailable, every cgroup ancestor, and what is held of the operator's own budget, where there is one. Page cache
    counts as free: the kernel gives it back before it refuses.

    `root` is where proc and sys lie, for tests.
    """
    found = [Room(limit.bytes - MARGIN_BYTES, limit.by) for limit in host_limits(root)]
    if budget_bytes is not None:
        found.append(Room(budget_bytes - held_bytes, f"the budget of {budget_bytes}"))
    least = min(found, key=lambda limit: limit.bytes)
    return Room(max(0, least.bytes), least.by)


def gpu_room(uuid: str, *, budget_bytes: int | None = None, held_bytes: int = 0) -> Room:
    """As `room`, of a GPU or MIG instance, as its driver says. Raises Unsupported without an NVIDIA driver, NotFound."""
    from wcache.core.memory import nvml

    found = [Room(nvml.memory(uuid).free_bytes - GPU_MARGIN_BYTES, "the memory that is free on that GPU")]
    if budget_bytes is not None:
        found.append(Room(budget_bytes - held_bytes, f"the budget of {budget_bytes}"))
    least = min(found, key=lambda limit: limit.bytes)
    return Room(max(0, least.bytes), least.by)


def require_gpu(uuid: str) -> None:
    """Raises Unsupported for a platform that is not NVIDIA's or without a driver, NotFound for a GPU that the driver does not know,
    UsageError for what names no GPU. The driver's own list counts, whatever CUDA_VISIBLE_DEVICES says here."""
    from wcache.core.memory import nvml
    from wcache.core.memory.device import parse_device

    if not parse_device(uuid).uuid:
        raise UsageError("the daemon needs the UUID of a GPU", where=uuid, remedy="`nvidia-smi -L` lists them")
    nvml.memory(uuid)
