"""What limits host memory: /proc/meminfo, and the control group of this process with every group above it (cgroups(7), v2 and v1)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

_UNLIMITED_BYTES = 1 << 60  # cgroup v1 says "no limit" with a number near 2^63


class Room(NamedTuple):
    """Bytes that may be taken, and which limit says so."""

    bytes: int
    by: str


def host_limits(root: Path = Path("/")) -> list[Room]:
    """MemAvailable and every cgroup ancestor. Page cache counts as free: the kernel gives it back before it refuses. A group that is over
    its limit leaves less than nothing. `root` is where proc and sys lie, for tests."""
    return [Room(_mem_available_bytes(root), "MemAvailable"), *_cgroup_limits(root)]


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
