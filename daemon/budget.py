"""How much may still be loaded: the least that any limit over this process leaves (`core.memory.limits`, and the operator)."""

from __future__ import annotations

from pathlib import Path

from wcache.core.memory.limits import Room as Room
from wcache.core.memory.limits import host_limits

MARGIN_BYTES = 64 << 20  # for the workers and the server themselves


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
