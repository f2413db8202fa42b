"""Address ranges of this process' host memory: given back, and mapped again at the addresses they had (mmap(2), MAP_FIXED)."""

from __future__ import annotations

import ctypes
import functools
import mmap
import os
from collections.abc import Iterable
from pathlib import Path

from wcache.core.model.errors import MappingFailed

_MAP_FIXED = 0x10  # asm-generic/mman-common.h
_MAP_NORESERVE: int = getattr(mmap, "MAP_NORESERVE", 0x4000)
_PROT_NONE = 0
_FAILED = ctypes.c_void_p(-1).value


def give_back(address: int, size_bytes: int) -> None:
    """Unmaps the range and keeps its addresses: nothing else gets them, and whoever reads or writes there dies of SIGSEGV.

    Raises MappingFailed; the range is as it was then.
    """
    _map_over(address, size_bytes, _PROT_NONE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _MAP_NORESERVE, -1)


def map_again(fd: int, address: int, size_bytes: int) -> None:
    """Maps a sealed memory file there, privately and writable, as `memfd.map_private` does elsewhere. Raises MappingFailed."""
    _map_over(address, size_bytes, mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_PRIVATE | _MAP_NORESERVE, fd)


def written_bytes(ranges: Iterable[tuple[int, int]]) -> int:
    """How much of private mappings, (address, size) each, is this process' own: pages that were written to (proc_pid_smaps(5)).

    Pages of a written file that are swapped out may count too: it is never less than what was written.
    """
    spans = [(address, address + size_bytes) for address, size_bytes in ranges]
    found_kib = 0
    inside = False
    with Path("/proc/self/smaps").open() as lines:
        for line in lines:
            name, _, rest = line.partition(":")
            if name in ("Anonymous", "Swap"):
                found_kib += int(rest.split()[0]) if inside else 0
            elif "-" in name.split(" ", 1)[0]:  # 7f0c2a000000-7f0c2a200000 rw-p ...
                begin, end = (int(word, 16) for word in line.split(" ", 1)[0].split("-"))
                inside = any(begin < last and first < end for first, last in spans)
    return found_kib * 1024


@functools.cache
def _mmap() -> ctypes._NamedFuncPointer:
    function = ctypes.CDLL(None, use_errno=True).mmap
    function.restype = ctypes.c_void_p
    function.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long)
    return function


def _map_over(address: int, size_bytes: int, protection: int, flags: int, fd: int) -> None:
    if address % mmap.PAGESIZE or size_bytes <= 0:
        raise MappingFailed(f"{size_bytes} bytes at {address:#x} are no whole mapping")
    if _mmap()(address, size_bytes, protection, flags | _MAP_FIXED, fd, 0) == _FAILED:
        raise MappingFailed(f"{size_bytes} bytes cannot be mapped at {address:#x}: {os.strerror(ctypes.get_errno())}")
