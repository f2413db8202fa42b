"""Sealed memory files: filled once, then nobody can change them, not even their maker (memfd_create(2), fcntl(2) file sealing)."""

from __future__ import annotations

import errno
import fcntl
import mmap
import os
import sys
from typing import TypeVar

from wcache.core.model.errors import MappingFailed, NoRoom, Unsupported

# Linux names that Python before 3.13 or the C library may not know (linux/memfd.h, linux/fcntl.h, asm-generic/mman-common.h).
_MFD_NOEXEC_SEAL = 0x8
_F_ADD_SEALS = 1033
_F_GET_SEALS = 1034
SEALS = 0x1 | 0x2 | 0x4 | 0x8
"""F_SEAL_SEAL, F_SEAL_SHRINK, F_SEAL_GROW, F_SEAL_WRITE."""
_MAP_NORESERVE: int = getattr(mmap, "MAP_NORESERVE", 0x4000)
_NAME_MAX_BYTES = 249

M = TypeVar("M", bound=mmap.mmap)


def create(name: str, size_bytes: int) -> int:
    """A new memory file of that size, close-on-exec, not executable where the kernel knows how. `name` is what /proc shows.

    Raises NoRoom or Unsupported. Pages are only taken when they are written.
    """
    shown = f"wcache:{name}".replace("\0", "").encode("utf-8", "replace")[:_NAME_MAX_BYTES].decode("utf-8", "ignore")
    flags = os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING
    try:
        try:
            fd = os.memfd_create(shown, flags | _MFD_NOEXEC_SEAL)
        except OSError as error:
            if error.errno != errno.EINVAL:  # before Linux 6.3
                raise
            fd = os.memfd_create(shown, flags)
    except OSError as error:
        if error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOMEM):
            raise NoRoom(
                f"cannot make a memory file: {error.strerror}", where=name, remedy="raise the limit of open files (ulimit -n)"
            ) from None
        raise Unsupported(f"cannot make a memory file: {error.strerror}", where=name) from None
    try:
        os.ftruncate(fd, size_bytes)
    except OSError as error:
        os.close(fd)
        raise NoRoom(f"cannot make a memory file of {size_bytes} bytes: {error.strerror}", where=name) from None
    return fd


def seal(fd: int) -> None:
    """No write, no other size, no other seal, for ever. Raises MappingFailed while somebody maps it shared and writable."""
    try:
        fcntl.fcntl(fd, _F_ADD_SEALS, SEALS)
    except OSError as error:
        raise MappingFailed(f"the memory file cannot be sealed: {error.strerror}") from None


def check_sealed(fd: int, size_bytes: int, *, name: str = "") -> None:
    """Raises MappingFailed unless `fd` is a memory file with every seal and exactly that size: only then reading it can never end in
    SIGBUS or in bytes that change."""
    try:
        seals = fcntl.fcntl(fd, _F_GET_SEALS)
        actual_bytes = os.fstat(fd).st_size
    except OSError as error:
        raise MappingFailed(f"this is no memory file: {error.strerror}", where=name) from None
    if seals & SEALS != SEALS:
        raise MappingFailed(f"the memory file is not sealed (seals {seals:#x})", where=name)
    if actual_bytes != size_bytes:
        raise MappingFailed(f"the memory file has {actual_bytes} bytes, its manifest says {size_bytes}", where=name)


def map_private(fd: int, size_bytes: int, *, cls: type[M] = mmap.mmap) -> M:  # type: ignore[assignment]
    """Map it copy-on-write: whoever writes pays for the touched pages, and nobody else sees it. Raises MappingFailed."""
    return _map(cls, fd, size_bytes, mmap.MAP_PRIVATE | _MAP_NORESERVE, mmap.PROT_READ | mmap.PROT_WRITE)


def map_readonly(fd: int, size_bytes: int, *, cls: type[M] = mmap.mmap) -> M:  # type: ignore[assignment]
    """Map it so that a write is SIGSEGV. Some kernels (5.15) refuse a shared mapping of a write-sealed file; a private one does there."""
    try:
        return _map(cls, fd, size_bytes, mmap.MAP_SHARED, mmap.PROT_READ)
    except MappingFailed:
        return _map(cls, fd, size_bytes, mmap.MAP_PRIVATE | _MAP_NORESERVE, mmap.PROT_READ)


def _map(cls: type[M], fd: int, size_bytes: int, flags: int, protection: int) -> M:
    try:
        if sys.version_info >= (3, 13):
            return cls(fd, size_bytes, flags=flags, prot=protection, trackfd=False)
        return cls(fd, size_bytes, flags=flags, prot=protection)
    except (OSError, ValueError) as error:
        raise MappingFailed(f"{size_bytes} bytes cannot be mapped: {getattr(error, 'strerror', None) or error}") from None
