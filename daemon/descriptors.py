"""Which descriptors of another user may be touched at all.

stat(2), statfs(2), read(2) and even close(2) of a file on FUSE wait for the program behind it. A descriptor that another user sent may lie
on a file system of that user, which never answers: then the one thread of the server would hang, and the process could not even be killed.
So it is looked at with calls that ask nobody, and has to lie on something that is mounted where the daemon can see it, by somebody it
trusts.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from wcache.core.checkpoint.identity import device_without_asking

_O_PATH: int = getattr(os, "O_PATH", 0o10000000)


def why_not_touched(fd: int, mountinfo: Path = Path("/proc/self/mountinfo")) -> str:
    """Why this descriptor must not be read, or even closed, by the server's thread; or nothing."""
    device = device_without_asking(fd)
    if device is None:
        return "the C library has no statx(2): the descriptors of others cannot be looked at safely"
    mounts = list(_mounts(mountinfo))
    mount_id = _mount_id(fd)
    found = [mount for mount in mounts if mount[0] == mount_id] or [mount for mount in mounts if mount[1] == device]
    if not found:
        return "a descriptor of a file system that is not mounted where the daemon runs"
    trusted = {0, os.geteuid()}
    for _, _, kind, user in found:
        if kind.startswith("fuse") and kind != "fusectl" and user not in trusted:
            return f"a descriptor of a {kind} file system that uid {user} mounted"
    return ""


def why_no_proof(fd: int) -> str:
    """Why this descriptor does not show that its owner may read the file, or nothing. O_PATH needs no permission on the file itself, and
    its access mode looks like O_RDONLY (open(2))."""
    flags = fcntl.fcntl(fd, fcntl.F_GETFL)
    if flags & _O_PATH:
        return "a descriptor that was opened with O_PATH, for which nobody needs to be allowed to read"
    if flags & os.O_ACCMODE != os.O_RDONLY:
        return "a descriptor that was not opened for reading only"
    return ""


def _mount_id(fd: int) -> int:
    for line in Path(f"/proc/self/fdinfo/{fd}").read_text(encoding="ascii", errors="replace").splitlines():
        if line.startswith("mnt_id:"):
            return int(line.split()[1])
    return -1


def _mounts(mountinfo: Path) -> Iterator[tuple[int, int, str, int]]:
    """(mount id, device, kind, the user who mounted it where FUSE says so, else 0) of each line (proc(5), mountinfo)."""
    for line in mountinfo.read_text(encoding="utf-8", errors="surrogateescape").splitlines():
        head, _, tail = line.partition(" - ")
        number, _, device = head.split()[:3]
        major, _, minor = device.partition(":")
        kind, _, rest = tail.partition(" ")
        options = rest.rpartition(" ")[2].split(",")
        user = next((int(option[8:]) for option in options if option.startswith("user_id=")), 0)
        yield int(number), os.makedev(int(major), int(minor)), kind, user
