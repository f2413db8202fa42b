"""Shared mode's group (DESIGN §11): the directory 0750, the socket 0660, both of that group. Standard library only: the vault needs it."""

from __future__ import annotations

import grp
import os
from pathlib import Path

from wcache.core.model.errors import UsageError

GROUP_VARIABLE = "WCACHE_SHARED_GROUP"
"""How the setting reaches vault and server, and each one that follows them."""

DIRECTORY_MODE = 0o750
SOCKET_MODE = 0o660


def group_of(name: str | None) -> int | None:
    """The gid of a group by its name or number; None for none: private mode. Raises UsageError for one that keeps nobody out."""
    if not name:
        return None
    try:
        gid = int(name) if name.isdecimal() else grp.getgrnam(name).gr_gid
    except KeyError:
        raise UsageError(f"there is no group {name!r}", where="shared_group", remedy="make it with groupadd, or name another") from None
    if gid == _overflow_gid():
        # Every group that a user namespace does not know looks like this one (user_namespaces(7)).
        raise UsageError(f"gid {gid} stands for every unknown group", where="shared_group", remedy="make a group for wcache")
    return gid


def others_may(gid: int | None) -> int:
    """What prepare_directory() lets a directory allow that is shared with this group."""
    return 0 if gid is None else DIRECTORY_MODE & 0o070


def share(path: Path, gid: int | None, mode: int) -> None:
    """Give `path` to the group. Nothing in private mode. Raises UsageError where the daemon's user may not."""
    if gid is None:
        return
    try:
        os.chown(path, -1, gid)
        path.chmod(mode)
    except OSError as error:
        what = f"cannot be given to group {gid}: {error.strerror}"
        raise UsageError(what, where=str(path), remedy="the daemon's user must be a member of that group") from None


def _overflow_gid() -> int:
    try:
        return int(Path("/proc/sys/kernel/overflowgid").read_text(encoding="ascii"))
    except (OSError, ValueError):
        return 65534
