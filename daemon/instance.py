"""One daemon per runtime directory: the lock that says so, the socket, and the end of a predecessor that could not say goodbye."""

from __future__ import annotations

import fcntl
import os
import socket
import stat
from contextlib import suppress
from pathlib import Path

from wcache.core.model.errors import DaemonRunning, RequestRefused, UsageError
from wcache.core.model.events import DaemonLost, LeaseEnded, ResidencyLost
from wcache.core.settings import LOCK_NAME, Settings
from wcache.daemon.recorder import new_event
from wcache.ledger.knowledge import Knowledge
from wcache.ledger.store import Ledger

BACKLOG = 1024


class InstanceLock:
    """flock(2) on `daemon.lock`, held as long as the process lives; the pid inside is information only."""

    def __init__(self, runtime_dir: Path) -> None:
        self.path = runtime_dir / LOCK_NAME
        self._fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            pid = os.pread(self._fd, 32, 0).decode("ascii", "replace").strip() or "unknown"
            os.close(self._fd)
            raise DaemonRunning(
                f"a daemon (pid {pid}) already serves this directory",
                where=str(runtime_dir),
                remedy="see `wcache status`; stop it with `wcache daemon stop`, or set another WCACHE_RUNTIME_DIR",
            ) from None
        os.ftruncate(self._fd, 0)
        os.pwrite(self._fd, f"{os.getpid()}\n".encode("ascii"), 0)

    def release(self) -> None:
        os.close(self._fd)


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


def listen(settings: Settings) -> socket.socket:
    """The listening socket, 0600. A stale one is removed: the caller holds the lock, so nobody listens there."""
    path = settings.socket_path
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


def bury_predecessors(ledger: Ledger, knowledge: Knowledge, settings: Settings, instance: str) -> None:
    """Whoever takes the lock knows that earlier instances of this directory are gone, and what they held with them."""
    for earlier in knowledge.instances(runtime_dir=str(settings.runtime_dir)):
        lost = [one.view.residency for one in knowledge.residencies() if one.instance == earlier.instance]
        leased = [row["attach"] for attach in knowledge.open_attaches() if (row := knowledge.attach(attach)) and row["residency"] in lost]
        unit = [
            new_event(DaemonLost(instance=earlier.instance, noticed_by=instance)),
            *(new_event(LeaseEnded(attach=attach, how="daemon lost")) for attach in leased),
            *(new_event(ResidencyLost(residency=one, why=f"daemon {earlier.instance} ended without a word")) for one in lost),
        ]
        (result,) = ledger.append_batch([tuple(unit)])
        if isinstance(result, Exception):
            raise result


def boot_id() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""
