"""Who holds how much memory, and how much of it is weights: /proc/meminfo, /proc/PID/smaps (proc_pid_smaps(5)), mincore(2), NVML."""

from __future__ import annotations

import ctypes
import dataclasses
import mmap
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from wcache.core.memory import nvml
from wcache.core.memory.device import visible
from wcache.core.model.errors import WcacheError

_WEIGHTS = "/memfd:wcache:"
_WINDOW_BYTES = 1 << 30


class Pss(msgspec.Struct, frozen=True):
    """Proportional memory of some processes: `weights_bytes` of it is mapped from residencies, `rest_bytes` is everything else."""

    weights_bytes: int
    rest_bytes: int


class MemoryPoint(msgspec.Struct, frozen=True, kw_only=True):
    """The machine at one moment. `shmem_bytes` holds resident weights whether or not anybody maps them; GPUs by UUID."""

    moment: str
    available_bytes: int
    shmem_bytes: int
    daemon: Pss
    server: Pss
    gpu_used_bytes: dict[str, int]


def memory_point(moment: str, *, daemon: Iterable[int] = (), server: Iterable[int] = (), gpus: Sequence[str] = ()) -> MemoryPoint:
    """Now. A process that ends meanwhile counts nothing."""
    machine = meminfo()
    used = {}
    for uuid in gpus:
        with suppress(WcacheError):
            used[uuid] = nvml.memory(uuid).used_bytes
    return MemoryPoint(
        moment=moment,
        available_bytes=machine.get("MemAvailable", 0),
        shmem_bytes=machine.get("Shmem", 0),
        daemon=pss(daemon),
        server=pss(server),
        gpu_used_bytes=used,
    )


def meminfo() -> dict[str, int]:
    """proc_meminfo(5), in bytes."""
    found = {}
    for line in Path("/proc/meminfo").read_text().splitlines():
        name, _, rest = line.partition(":")
        if rest.endswith(" kB"):
            found[name] = int(rest.split()[0]) * 1024
    return found


def pss(pids: Iterable[int]) -> Pss:
    weights_bytes = rest_bytes = 0
    for pid in pids:
        with suppress(OSError), Path(f"/proc/{pid}/smaps").open(encoding="utf-8", errors="replace") as lines:
            of_weights = False
            for line in lines:
                if line.startswith("Pss:"):
                    size_bytes = int(line.split()[1]) * 1024
                    if of_weights:
                        weights_bytes += size_bytes
                    else:
                        rest_bytes += size_bytes
                elif "-" in line[:17]:  # the line of a mapping: its addresses come first
                    of_weights = _WEIGHTS in line
    return Pss(weights_bytes, rest_bytes)


def cached_share(paths: Iterable[str]) -> float | None:
    """How much of some files the page cache holds, 0 to 1; None where the kernel does not tell."""
    try:
        states = [state for path in paths for state in _page_states(path)]
    except (OSError, ValueError):
        return None
    pages = sum(map(len, states))
    return sum(len(state) - state.count(b"\0") for state in states) / pages if pages else None


def _page_states(path: str) -> Iterator[bytes]:
    """One byte a page, for a GiB at a time; zero where it is not cached."""
    libc = ctypes.CDLL(None, use_errno=True)
    with open(path, "rb") as file:  # noqa: PTH123
        size_bytes = os.fstat(file.fileno()).st_size
        for offset in range(0, size_bytes, _WINDOW_BYTES):
            length = min(_WINDOW_BYTES, size_bytes - offset)
            # Private and writable: of no other mapping does Python tell the address.
            with mmap.mmap(file.fileno(), length, access=mmap.ACCESS_COPY, offset=offset) as mapped:
                vector = ctypes.create_string_buffer(-(-length // mmap.PAGESIZE))
                start = ctypes.c_char.from_buffer(mapped)
                failed = libc.mincore(ctypes.c_void_p(ctypes.addressof(start)), ctypes.c_size_t(length), vector)
                del start
            if failed:
                raise OSError(ctypes.get_errno(), "mincore", path)
            yield vector.raw


def visible_gpus() -> tuple[nvml.Gpu, ...]:
    """The GPUs and MIG instances that a server started here may use, in the order in which it sees them (CUDA_VISIBLE_DEVICES)."""
    try:
        known = nvml.gpus()
    except WcacheError:
        return ()
    named = {uuid: dataclasses.replace(gpu, uuid=uuid) for gpu in known for uuid in (gpu.uuid, *gpu.mig_uuids)}
    instances = [uuid for gpu in known for uuid in gpu.mig_uuids]
    seen = visible(os.environ.get("CUDA_VISIBLE_DEVICES"), [gpu.uuid for gpu in known], instances)
    return tuple(named[uuid] for uuid in seen)
