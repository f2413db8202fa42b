"""File identities (statx(2)) and kinds of file systems: on which of them an unchanged identity means unchanged bytes."""

# Each of these is one system call on a path or descriptor:
# ruff: noqa: PTH116, PTH123

from __future__ import annotations

import ctypes
import functools
import os
from collections.abc import Iterable

from wcache.core.model.evidence import FileIdentity

# Their ctime changes with every store that was followed by fdatasync, and cannot be set.
PINNABLE_KINDS = frozenset({"ext4", "xfs", "btrfs", "zfs", "f2fs", "overlay"})
# Their attributes come from a server, and statx can be told to ask it.
COHERENT_KINDS = frozenset({"nfs", "ceph", "lustre", "gpfs"})
# Memory-backed: stores through a mapping never reach mtime or ctime, so no grant helps.
MEMORY_KINDS = frozenset({"tmpfs", "ramfs", "hugetlbfs"})

# statfs(2), linux/magic.h; the last three are out-of-tree file systems' own headers.
_MAGIC = {
    0xEF53: "ext4", 0x58465342: "xfs", 0x9123683E: "btrfs", 0x2FC12FC1: "zfs", 0xF2F52010: "f2fs", 0x794C7630: "overlay",
    0x01021994: "tmpfs", 0x858458F6: "ramfs", 0x958458F6: "hugetlbfs", 0x65735546: "fuse", 0x6969: "nfs", 0x00C36400: "ceph",
    0xFF534D42: "cifs", 0xFE534D42: "cifs", 0x01021997: "9p", 0x6A656A63: "virtiofs", 0x73717368: "squashfs", 0xE0F5E1E2: "erofs",
    0x4D44: "vfat", 0x2011BAB0: "exfat", 0x9660: "iso9660", 0xCA451A4E: "bcachefs", 0x9FA0: "proc", 0x62656572: "sysfs",
    0x0BD00BD0: "lustre", 0x47504653: "gpfs", 0x19830326: "beegfs",
}  # fmt: skip
_ALIASES = {"nfs4": "nfs", "lustre_lite": "lustre", "mmfs": "gpfs", "smb3": "cifs", "fuseblk": "fuse"}

_AT_EMPTY_PATH = 0x1000
_AT_STATX_FORCE_SYNC = 0x2000
_AT_STATX_DONT_SYNC = 0x4000
_STATX_BASIC_STATS = 0x7FF


def force_sync_kind(fs_kind: str) -> bool:
    """Whether statx must be told to ask the server. Not on FUSE: pins hold there only under a grant that says nothing changes."""
    return fs_kind in COHERENT_KINDS or fs_kind == "cifs"


def identity_of(path: str, name: str, *, directory_fd: int | None = None, force_sync: bool = False, cached: bool = False) -> FileIdentity:
    """The identity of `path` after symlinks, named `name`. With `directory_fd` the path is relative to it; an empty path is the
    descriptor itself. With `cached` what the kernel learned when it looked the name up is enough, which saves a remote file system a
    second round trip; `force_sync` goes before it. Raises OSError."""
    if (force_sync or cached) and (statx := _statx_call()) is not None:
        return statx(path, directory_fd, _AT_STATX_FORCE_SYNC if force_sync else _AT_STATX_DONT_SYNC).identity(name)
    if directory_fd is None:
        found = os.stat(path)
    elif path:
        found = os.stat(path, dir_fd=directory_fd)
    else:
        found = os.fstat(directory_fd)
    return FileIdentity(name, found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


def device_without_asking(descriptor: int) -> int | None:
    """The device of an open file as the kernel has it cached: no server of a remote or FUSE file system is asked, so this cannot hang
    (statx(2), AT_STATX_DONT_SYNC). None where the C library has no statx. Raises OSError."""
    statx = _statx_call()
    return None if statx is None else statx("", descriptor, _AT_STATX_DONT_SYNC).device


def mode_without_asking(descriptor: int) -> int:
    """Type and permissions of an open file, as `device_without_asking` has the device. Raises OSError."""
    statx = _statx_call()
    return os.fstat(descriptor).st_mode if statx is None else int(statx("", descriptor, _AT_STATX_DONT_SYNC).mode)


class _Timestamp(ctypes.Structure):
    _fields_ = (("seconds", ctypes.c_int64), ("nanoseconds", ctypes.c_uint32), ("reserved", ctypes.c_int32))


class _Statx(ctypes.Structure):
    """struct statx of linux/stat.h, as far as it is read; 256 bytes in all."""

    _fields_ = (
        ("mask", ctypes.c_uint32), ("block_size", ctypes.c_uint32), ("attributes", ctypes.c_uint64), ("links", ctypes.c_uint32),
        ("uid", ctypes.c_uint32), ("gid", ctypes.c_uint32), ("mode", ctypes.c_uint16), ("pad0", ctypes.c_uint16),
        ("ino", ctypes.c_uint64), ("size", ctypes.c_uint64), ("blocks", ctypes.c_uint64), ("attributes_mask", ctypes.c_uint64),
        ("atime", _Timestamp), ("btime", _Timestamp), ("ctime", _Timestamp), ("mtime", _Timestamp),
        ("rdev_major", ctypes.c_uint32), ("rdev_minor", ctypes.c_uint32),
        ("dev_major", ctypes.c_uint32), ("dev_minor", ctypes.c_uint32), ("rest", ctypes.c_uint64 * 14),
    )  # fmt: skip

    @property
    def device(self) -> int:
        return os.makedev(self.dev_major, self.dev_minor)

    def identity(self, name: str) -> FileIdentity:
        mtime_ns = self.mtime.seconds * 1_000_000_000 + self.mtime.nanoseconds
        ctime_ns = self.ctime.seconds * 1_000_000_000 + self.ctime.nanoseconds
        return FileIdentity(name, self.device, self.ino, self.size, mtime_ns, ctime_ns)


class _StatxCall:
    """statx(2): Python's os.stat cannot ask a network file system for current attributes, nor leave it alone."""

    def __init__(self, function: ctypes._NamedFuncPointer) -> None:
        self._function = function
        self._at_fdcwd = -100

    def __call__(self, path: str, directory_fd: int | None, sync: int) -> _Statx:
        found = _Statx()
        flags = sync | (0 if path else _AT_EMPTY_PATH)
        where = self._at_fdcwd if directory_fd is None else directory_fd
        if self._function(where, os.fsencode(path), flags, _STATX_BASIC_STATS, ctypes.byref(found)):
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), path)
        return found


@functools.cache
def _statx_call() -> _StatxCall | None:
    try:
        function = ctypes.CDLL(None, use_errno=True).statx  # glibc 2.28, musl 1.2.3
    except (OSError, AttributeError):
        return None
    function.argtypes = (ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_uint, ctypes.POINTER(_Statx))
    function.restype = ctypes.c_int
    return _StatxCall(function)


def filesystem_kind(path: str | os.PathLike[str]) -> str:
    """The kind of file system that `path` lies on: "ext4", "nfs", "fuse.sshfs", ..., or "unknown:0x..." by its statfs(2) magic."""
    found = os.stat(path)
    return kind_of_devices({found.st_dev: os.fspath(path)})


def kind_of_devices(paths: dict[int, str]) -> str:
    """The kind for files on these devices (each with a path on it); of several kinds the first by name that holds no pins, else the
    first by name. Reads /proc/self/mountinfo, which costs a remote file system nothing; statfs(2) only where the device is not there
    (btrfs subvolumes, files of an overlay)."""
    mounted = _mounted_kinds()
    kinds = sorted({mounted.get(device) or _statfs_kind(path) for device, path in paths.items()})
    for kind in kinds:
        if kind not in PINNABLE_KINDS:
            return kind
    return kinds[0] if kinds else "unknown"


def _mounted_kinds() -> dict[int, str]:
    try:
        with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as lines:
            return dict(_mountinfo_entries(lines))
    except OSError:
        return {}


def _mountinfo_entries(lines: Iterable[str]) -> Iterable[tuple[int, str]]:
    """Device and kind of each line (proc(5): fields, " - ", file system type)."""
    for line in lines:
        fields, _, rest = line.partition(" - ")
        major, _, minor = fields.split()[2].partition(":")
        kind = rest.split()[0]
        yield os.makedev(int(major), int(minor)), _ALIASES.get(kind, kind)


def _statfs_kind(path: str) -> str:
    try:
        libc = ctypes.CDLL(None, use_errno=True)
        buffer = ctypes.create_string_buffer(512)  # struct statfs: f_type comes first, one machine word
        if libc.statfs(os.fsencode(path), buffer):
            return "unknown"
    except (OSError, AttributeError):
        return "unknown"
    magic = ctypes.c_ulong.from_buffer(buffer).value & 0xFFFFFFFF
    return _MAGIC.get(magic, f"unknown:{magic:#x}")


def pinnable(fs_kind: str, network_fs: str = "refuse", store_granted: bool = False) -> tuple[bool, str]:
    """Whether a later attach may rest on unchanged identities on this kind of file system, and if not, why.

    `network_fs` is the policy's word ("refuse" or "coherent"); `store_granted` says that an operator's grant covers this path as an
    immutable store.
    """
    if fs_kind in PINNABLE_KINDS:
        return True, ""
    if fs_kind in MEMORY_KINDS:
        return False, f"{fs_kind} hides stores through mappings for ever"
    if store_granted:
        return True, ""
    if fs_kind in COHERENT_KINDS:
        if network_fs == "coherent":
            return True, ""
        return False, f"{fs_kind} is a network file system; set network_fs = coherent, or grant the path as an immutable store"
    return False, f"{fs_kind} is not known to keep ctime true; an operator may grant the path as an immutable store"
