"""Who is on the other side of a Unix socket, as the kernel says it (unix(7), SO_PEERCRED; SO_PEERPIDFD since Linux 6.5)."""

from __future__ import annotations

import select
import socket
import struct

from wcache.core.model.events import Peer

_CREDENTIALS = struct.Struct("3i")  # struct ucred: pid, uid, gid
_SO_PEERPIDFD = 77  # asm-generic/socket.h; Python has no name for it


def peer_of(sock: socket.socket) -> Peer:
    """The process that connected (or listened, seen from a client). Its pid is 0 where our pid namespace does not see it."""
    raw = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    pid, uid, _gid = _CREDENTIALS.unpack(raw)
    return Peer(uid=uid, pid=max(pid, 0))


def peer_pidfd(sock: socket.socket) -> int | None:
    """A descriptor of the peer process, across pid namespaces and safe from reused pids; None before Linux 6.5 or when it is gone."""
    try:
        return sock.getsockopt(socket.SOL_SOCKET, _SO_PEERPIDFD)
    except OSError:
        return None


def has_exited(pidfd: int) -> bool:
    """Whether that process has ended, reaped or not (pidfd_open(2): readable at exit)."""
    poller = select.poll()
    poller.register(pidfd, select.POLLIN)
    return bool(poller.poll(0))
