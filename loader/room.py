"""Whether a copy of the weights fits: refused with the numbers before anything is allocated, and named where torch finds out later."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from wcache.core.memory import nvml
from wcache.core.memory.limits import Room, host_limits
from wcache.core.model.errors import MappingFailed, NoRoom

if TYPE_CHECKING:
    from wcache.core.memory.cuda import Device

_MIB = 1 << 20
_SHORT = ("out of memory", "can't allocate memory")
"""torch's words: of a GPU's, from its own allocator or from CUDA, and of the host's."""


def check_room(size_bytes: int, device: Device | None) -> None:
    """Raises NoRoom where a copy of that size does not fit into host memory, or (`device`) that GPU's."""
    room = host_room() if device is None else gpu_room(device)
    if size_bytes > room.bytes:
        raise NoRoom(
            f"a copy takes {-(-size_bytes // _MIB)} MiB, {max(0, room.bytes) // _MIB} MiB are free ({room.by})",
            where="host memory" if device is None else str(device),
            remedy="free memory there, or have the weights resident on that device and map them (without mode copy)",
        )


@contextmanager
def named_failures(where: str) -> Iterator[None]:
    """What torch raises within it, as the error that is recorded: NoRoom where it found no memory after all, since others take it between
    the look and the copy; else MappingFailed."""
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        short = isinstance(error, MemoryError) or any(words in str(error) for words in _SHORT)
        raise (NoRoom if short else MappingFailed)(f"{type(error).__name__}: {error}", where=where) from error


def host_room() -> Room:
    """The least that any limit over this process leaves."""
    return min(host_limits(), key=lambda limit: limit.bytes)


def gpu_room(device: Device) -> Room:
    """What the driver says is free, and what torch keeps in this process without using it: torch gives that up before it fails."""
    free_bytes = nvml.memory(device.uuid).free_bytes
    torch: Any = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        free_bytes += torch.cuda.memory_reserved(device.ordinal) - torch.cuda.memory_allocated(device.ordinal)
    return Room(free_bytes, "GPU memory")
