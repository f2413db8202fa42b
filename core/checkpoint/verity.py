"""fs-verity: files that can never be written to again, whose digest the kernel holds and checks each read against.

Documentation/filesystems/fsverity.rst of the kernel: FS_IOC_MEASURE_VERITY gives the digest of a file at no cost of reading; two files with
equal digests (of the same algorithm) are equal, byte for byte. Believed on file systems of this kernel alone: a FUSE server answers this
ioctl as it likes.
"""

from __future__ import annotations

import fcntl
import struct

from wcache.core.checkpoint.checkpoint import OpenCheckpoint

KINDS = frozenset({"ext4", "f2fs", "btrfs"})
_MEASURE = 0xC0046686  # _IOWR('f', 134, struct fsverity_digest), linux/fsverity.h
_HEADER = struct.Struct("=HH")  # digest_algorithm, digest_size; the digest follows
_ALGORITHMS = {1: "sha256", 2: "sha512"}
_DIGEST_MAX = 64


def measure(descriptor: int) -> str | None:
    """`algorithm:hex` of an open file, or None where it has none: verity is not enabled on it, or kernel or file system do not know it."""
    buffer = bytearray(_HEADER.size + _DIGEST_MAX)
    _HEADER.pack_into(buffer, 0, 0, _DIGEST_MAX)
    try:
        fcntl.ioctl(descriptor, _MEASURE, buffer, True)
    except OSError:  # ENODATA, ENOTTY, EOPNOTSUPP: in no case is there anything to rest on
        return None
    algorithm, size_bytes = _HEADER.unpack_from(buffer)
    name = _ALGORITHMS.get(algorithm)
    return None if name is None else f"{name}:{buffer[_HEADER.size : _HEADER.size + size_bytes].hex()}"


def measured(held: OpenCheckpoint) -> dict[str, str]:
    """File name to digest, of shards and index; empty unless every one of them has one."""
    location = held.checkpoint.location
    if location.fs_kind not in KINDS:
        return {}
    files = dict(held.files)
    if held.index is not None and location.index is not None:
        files[location.index.name] = held.index
    found: dict[str, str] = {}
    for name, file in files.items():
        digest = measure(file.descriptor)
        if digest is None:
            return {}
        found[name] = digest
    return found
