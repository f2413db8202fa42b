"""How much may still be loaded: the least that any limit over this process leaves (cgroups(7), v2 and v1; /proc/meminfo), or that a GPU's
driver says is free."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from wcache.core.model.errors import UsageError

MARGIN_BYTES = 64 << 20  # for the workers and the server themselves
GPU_MARGIN_BYTES = 512 << 20  # for the CUDA context of a worker, while it loads
_UNLIMITED_BYTES = 1 << 60  # cgroup v1 says "no limit" with a number near 2^63


class Room(NamedTuple):
    """Bytes that may be taken, never negative, and which limit says so."""

    bytes: int
    by: str


def room(root: Path = Path("/"), *, budget_bytes: int | None = None, held_bytes: int = 0) -> Room:
    """The least over MemAvailable, every cgroup ancestor, and what is held of the operator's own budget, where there is one. Page cache
    counts as free: the kernel gives it back before it refuses.

    `root` is where proc and sys lie, for tests.
    """
    limits = [Room(_mem_available_bytes(root), "MemAvailable"), *_cgroup_limits(root)]
    found = [Room(limit.bytes - MARGIN_BYTES, limit.by) for limit in limits]
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


def _mem_available_bytes(root: Path) -> int:
    for line in (root / "proc/meminfo").read_text().splitlines():
        name, _, rest = line.partition(":")
        if name == "MemAvailable":
            return int(rest.split()[0]) * 1024
    return 0


def _cgroup_limits(root: Path) -> Iterator[Room]:
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if not controllers:
            yield from _ancestors(root / "sys/fs/cgroup", path, "memory.max", "memory.current", ("inactive_file", "active_file"))
            yield from _ancestors(root / "sys/fs/cgroup/unified", path, "memory.max", "memory.current", ("inactive_file", "active_file"))
        elif "memory" in controllers.split(","):
            yield from _ancestors(
                root / "sys/fs/cgroup/memory",
                path,
                "memory.limit_in_bytes",
                "memory.usage_in_bytes",
                ("total_inactive_file", "total_active_file"),
            )


def _ancestors(mount: Path, path: str, limit_name: str, usage_name: str, cache_names: tuple[str, ...]) -> Iterator[Room]:
    """One entry for each group from ours up to the mount that has a limit. In a container the path may be the host's, hence not there:
    then the mount itself is our group."""
    parts = [part for part in path.split("/") if part not in ("", "..")]
    for depth in range(len(parts), -1, -1):
        group = mount.joinpath(*parts[:depth])
        try:
            limit = (group / limit_name).read_text().strip()
            usage = int((group / usage_name).read_text())
            stat = dict(line.split(None, 1) for line in (group / "memory.stat").read_text().splitlines())
        except (OSError, ValueError):
            continue
        if limit == "max" or int(limit) >= _UNLIMITED_BYTES:
            continue
        cache = sum(int(stat.get(name, 0)) for name in cache_names)
        yield Room(int(limit) - max(0, usage - cache), f"{limit_name} of {group}")
