"""File identities and file system kinds."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from wcache.core.checkpoint.identity import (
    COHERENT_KINDS,
    PINNABLE_KINDS,
    _mountinfo_entries,
    filesystem_kind,
    identity_of,
    kind_of_devices,
    pinnable,
)


def test_forced_statx_agrees_with_stat(tmp_path: Path) -> None:
    """AT_STATX_FORCE_SYNC goes through ctypes: a wrong structure would show here."""
    path = tmp_path / "file"
    path.write_bytes(b"12345")
    os.utime(path, ns=(1, 1_700_000_000_123_456_789))
    (tmp_path / "link").symlink_to(path)
    plain = identity_of(str(path), "n")
    assert plain.size_bytes == 5 and plain.mtime_ns == 1_700_000_000_123_456_789
    directory = os.open(tmp_path, os.O_PATH)
    descriptor = os.open(path, os.O_RDONLY)
    try:
        for force in (False, True):
            assert identity_of(str(path), "n", force_sync=force) == plain
            assert identity_of(str(tmp_path / "link"), "n", force_sync=force) == plain
            assert identity_of("link", "n", directory_fd=directory, force_sync=force) == plain
            assert identity_of("", "n", directory_fd=descriptor, force_sync=force) == plain
            with pytest.raises(FileNotFoundError):
                identity_of(str(tmp_path / "gone"), "n", force_sync=force)
    finally:
        os.close(directory)
        os.close(descriptor)


def test_kinds_of_file_systems_are_named() -> None:
    assert filesystem_kind("/proc") == "proc"
    if os.path.ismount("/dev/shm"):
        assert filesystem_kind("/dev/shm") == "tmpfs"


def test_statfs_names_what_mountinfo_does_not_list(tmp_path: Path) -> None:
    assert kind_of_devices({0xFFFFFFFF: "/proc"}) == "proc"
    by_mountinfo, by_statfs = filesystem_kind(tmp_path), kind_of_devices({0xFFFFFFFF: str(tmp_path)})
    assert by_mountinfo == by_statfs or by_mountinfo not in PINNABLE_KINDS


def test_of_several_kinds_the_one_that_holds_no_pins_counts(tmp_path: Path) -> None:
    assert kind_of_devices({1: str(tmp_path), 0xFFFFFFFF: "/proc"}) == "proc"


def test_mountinfo_lines_are_understood() -> None:
    lines = [
        "36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue\n",
        "40 35 0:44 / /models\\040x ro - nfs4 host:/x ro,vers=4.2\n",
        "41 35 0:45 / /mnt/f rw shared:7 master:2 - fuse.sshfs host: rw\n",
    ]
    assert dict(_mountinfo_entries(lines)) == {os.makedev(98, 0): "ext3", os.makedev(0, 44): "nfs", os.makedev(0, 45): "fuse.sshfs"}


def test_pins_hold_on_listed_kinds_only() -> None:
    for kind in ("ext4", "xfs", "btrfs", "zfs", "f2fs", "overlay"):
        assert pinnable(kind, "refuse", False) == (True, "")
    for kind in ("tmpfs", "ramfs", "hugetlbfs"):
        for network_fs in ("refuse", "coherent"):
            for granted in (False, True):
                assert not pinnable(kind, network_fs, granted)[0]
    for kind in COHERENT_KINDS:
        refused, why = pinnable(kind, "refuse", False)
        assert not refused and "network_fs" in why and "grant" in why
        assert pinnable(kind, "coherent", False)[0] and pinnable(kind, "refuse", True)[0]
    for kind in ("fuse", "fuse.sshfs", "9p", "cifs", "unknown:0x1", "ext3"):
        assert not pinnable(kind, "refuse", False)[0] and not pinnable(kind, "coherent", False)[0]
        assert pinnable(kind, "refuse", True)[0]
