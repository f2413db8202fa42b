"""One daemon per runtime directory: the directory, the lock that says so, and the socket. Standard library only: the vault owns them."""

from __future__ import annotations

import fcntl
import os
import socket
import stat
from contextlib import suppress
from pathlib import Path

from wcache.core.model.errors import DaemonRunning, RequestRefused, UsageError
from wcache.core.places import LOCK_NAME

BACKLOG = 1024


class InstanceLock:
    """flock(2) on `daemon.lock`, held while any copy of its descriptor is open: vault and server share it. The pid inside (the vault's) is
    information only."""

    def __init__(self, runtime_dir: Path, inherited_fd: int | None = None) -> None:
        self.path = runtime_dir / LOCK_NAME
        if inherited_fd is not None:
            self.fd = inherited_fd
            os.set_inheritable(self.fd, False)
            return
        self.fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(self.fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            pid = os.pread(self.fd, 32, 0).decode("ascii", "replace").strip() or "unknown"
            os.close(self.fd)
            raise DaemonRunning(
                f"a daemon (pid {pid}) already serves this directory",
                where=str(runtime_dir),
                remedy="see `wcache status`; stop it with `wcache daemon stop`, or set another WCACHE_RUNTIME_DIR",
            ) from None

    def sign(self) -> None:
        """Write this process's pid into it."""
        os.ftruncate(self.fd, 0)
        os.pwrite(self.fd, f"{os.getpid()}\n".encode("ascii"), 0)

    def release(self) -> None:
        os.close(self.fd)


def prepare_directory(path: Path, others_may: int = 0) -> None:
    """Make it 0700, or refuse one that others own, or in which they may do more than the mode bits `others_may`: whoever can replace
    the socket can hand out other weights."""
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = path.stat()
    except OSError as error:
        raise UsageError(f"cannot be made: {error.strerror}", where=str(path)) from None
    if not stat.S_ISDIR(found.st_mode):
        raise UsageError("this is no directory", where=str(path))
    if found.st_uid != os.geteuid():
        raise RequestRefused(f"the directory belongs to uid {found.st_uid}, not {os.geteuid()}", where=str(path), remedy="use another one")
    mode = stat.S_IMODE(found.st_mode)
    if mode & 0o077 & ~others_may:
        raise RequestRefused(f"others may use the directory (mode {mode:04o})", where=str(path), remedy=f"chmod 700 {path}")


def listen(path: Path) -> socket.socket:
    """The listening socket, 0600. A stale one is removed: the caller holds the lock, so nobody listens there."""
    with suppress(FileNotFoundError):
        path.unlink()
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK)
    before = os.umask(0o177)
    try:
        sock.bind(str(path))
    except OSError as error:
        sock.close()
        raise UsageError(f"cannot listen: {error.strerror or error}", where=str(path)) from None
    finally:
        os.umask(before)
    sock.listen(BACKLOG)
    return sock
