"""Reading a file whose bytes are wanted once, elsewhere: what the page cache has from there, the rest past it (open(2), O_DIRECT).

A large checkpoint that is read through the page cache pushes out what other programs have there, and is copied once more on the way.
"""

from __future__ import annotations

import ctypes
import functools
import mmap
import os
from contextlib import suppress

from wcache.core.checkpoint.reader import OpenFile, Reader

BLOCK_BYTES = 4096
"""Offset, length and address of a direct read are multiples of it: enough for every file system that this was tried on."""

_PROT_NONE = 0
_MAP_FAILED = ctypes.c_void_p(-1).value
_CACHED_FROM = 0.5  # of a chunk's pages: from there on the kernel's own reading ahead gets the rest
_LOW_BIT = bytes(value & 1 for value in range(256))  # the others mean nothing (mincore(2))


class OnceFile:
    """One open file of a checkpoint, read in whole blocks. `fill` may be called from several threads. Close it, the OpenFile stays open.

    Where the file system has no direct reads (tmpfs, many network ones), and with `cached` (somebody else will want the same bytes soon),
    everything goes through the page cache.
    """

    def __init__(self, file: OpenFile, reader: Reader, *, cached: bool = False) -> None:
        self._file = file
        self._reader = reader
        self._direct = -1
        if not cached:
            # The very file that is open, whatever its path leads to by now (proc(5), /proc/pid/fd).
            with suppress(OSError):  # EINVAL: no direct reads here; no /proc: none either
                self._direct = os.open(f"/proc/self/fd/{file.descriptor}", os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECT)

    def fill(self, buffer: memoryview, offset: int, length: int) -> None:
        """Exactly `length` bytes from `offset` into the start of `buffer`, which has room for whole blocks at an address that is a multiple
        of them, as `offset` is. Raises CheckpointChanged for a file that became shorter, CheckpointUnreadable."""
        got = 0
        if self._direct >= 0 and not _in_page_cache(self._file.descriptor, offset, length):
            with buffer[: -(-length // BLOCK_BYTES) * BLOCK_BYTES] as blocks:
                try:
                    got = min(os.preadv(self._direct, [blocks], offset), length)
                except OSError:  # what a file system refuses directly it may give otherwise, and else it says why there
                    got = 0
            self._reader.count(reads=1, read_bytes=got)
        if got < length:
            with buffer[got:length] as rest:
                self._file.read_into(rest, offset + got)

    def close(self) -> None:
        """Again is no error."""
        if self._direct >= 0:
            os.close(self._direct)
            self._direct = -1

    def __enter__(self) -> OnceFile:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


@functools.cache
def _libc() -> ctypes.CDLL:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long)
    libc.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
    libc.mincore.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p)
    return libc


def _in_page_cache(descriptor: int, offset: int, length: int) -> bool:
    """Whether most of that part of a file is in the page cache (mincore(2)): its pages are only counted, never touched. True where the
    kernel does not say, which includes files that this user may only read."""
    libc, pages = _libc(), -(-length // mmap.PAGESIZE)
    address = libc.mmap(None, length, _PROT_NONE, mmap.MAP_SHARED, descriptor, offset)
    if address == _MAP_FAILED:
        return True
    try:
        states = ctypes.create_string_buffer(pages)
        if libc.mincore(address, length, states):
            return True
        return states.raw.translate(_LOW_BIT).count(1) >= pages * _CACHED_FROM
    finally:
        libc.munmap(address, length)
