"""Reading a file whose bytes are wanted once, elsewhere: what the page cache has from there, the rest past it (open(2), O_DIRECT).

A large checkpoint that is read through the page cache pushes out what other programs have there, and is copied once more on the way.
"""

from __future__ import annotations

import ctypes
import errno
import functools
import mmap
import os
import threading
from contextlib import suppress

from wcache.core.checkpoint.reader import OpenFile, Reader
from wcache.core.checkpoint.retries import TRANSIENT

BLOCK_BYTES = 4096
"""Offset, length and address of a direct read are multiples of it: enough for every file system that this was tried on."""

_PROT_NONE = 0
_MAP_FAILED = ctypes.c_void_p(-1).value
_CACHED_FROM = 0.5  # of a chunk's pages: from there on the kernel's own reading ahead gets the rest
_LOW_BIT = bytes(value & 1 for value in range(256))  # the others mean nothing (mincore(2))


class OnceFile:
    """One open file of a checkpoint, read in whole blocks. `fill` may be called from several threads. Close it, the OpenFile stays open.

    Where the file system has no direct reads (tmpfs, many network ones), and with `cached` (somebody else will want the same bytes soon),
    everything goes through the page cache. Nothing is opened before the first `fill`: on a remote file system that is a round trip.
    """

    def __init__(self, file: OpenFile, reader: Reader, *, cached: bool = False) -> None:
        self._file = file
        self._reader = reader
        self._opening = threading.Lock()
        self._opened = cached
        self._direct = -1  # a descriptor of its own
        self._stale = False

    def fill(self, buffer: memoryview, offset: int, length: int) -> None:
        """Exactly `length` bytes from `offset` into the start of `buffer`; its address is a multiple of whole blocks, and so is `offset`.
        With room for whole blocks, or where the file system does not want them whole, all of it is read directly. Raises
        CheckpointChanged for a file that became shorter, CheckpointUnreadable."""
        got = 0
        direct = self._descriptor()
        if direct >= 0 and not _in_page_cache(self._file.descriptor, offset, length):
            room_bytes = min(-(-length // BLOCK_BYTES) * BLOCK_BYTES, len(buffer))
            for wanted_bytes in sorted({room_bytes, room_bytes // BLOCK_BYTES * BLOCK_BYTES}, reverse=True):
                try:
                    with buffer[:wanted_bytes] as blocks:
                        got = min(os.preadv(direct, [blocks], offset), length)
                    break
                except OSError as error:  # what a file system refuses directly it may give otherwise, and else it says why there
                    if error.errno != errno.EINVAL:
                        self._failed(error)
                        break
            self._reader.count(reads=1, read_bytes=got)
        if got < length:
            with buffer[got:length] as rest:
                self._file.read_into(rest, offset + got)

    def _descriptor(self) -> int:
        with self._opening:
            if not self._opened:
                self._opened = True
                # The very file that is open, whatever its path leads to by now (proc(5), /proc/pid/fd).
                with suppress(OSError):  # EINVAL: no direct reads here; no /proc: none either
                    self._direct = os.open(f"/proc/self/fd/{self._file.descriptor}", os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECT)
            return -1 if self._stale else self._direct

    def _failed(self, error: OSError) -> None:
        self._stale = self._stale or error.errno == errno.ESTALE  # the OpenFile is opened again for it
        if self._reader.retries is not None and error.errno in TRANSIENT:
            self._reader.retries.note(error, self._file.where)

    def close(self) -> None:
        """Again is no error. Nobody fills any more."""
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
