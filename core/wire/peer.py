"""Who is on the other side of a Unix socket, as the kernel says it (unix(7), SO_PEERCRED; SO_PEERPIDFD since Linux 6.5)."""

from __future__ import annotations

import ctypes
import os
import select
import socket
import struct

from wcache.core.model.events import Peer

_CREDENTIALS = struct.Struct("3i")  # struct ucred: pid, uid, gid
_SO_PEERGROUPS = 59  # asm-generic/socket.h, since Linux 4.13; Python has no name for it
_SO_PEERPIDFD = 77  # asm-generic/socket.h; Python has no name for it
_GROUPS_MAX = 65536  # limits.h, NGROUPS_MAX


def peer_of(sock: socket.socket) -> Peer:
    """The process that connected (or listened, seen from a client). Its pid is 0 where our pid namespace does not see it."""
    raw = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    pid, uid, _gid = _CREDENTIALS.unpack(raw)
    return Peer(uid=uid, pid=max(pid, 0))


def peer_groups(sock: socket.socket) -> frozenset[int]:
    """Every group that the peer had when it connected, its primary one among them. What the kernel says of the process, not what the
    group database says of the user. Raises OSError before Linux 4.13."""
    raw = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    _pid, _uid, gid = _CREDENTIALS.unpack(raw)
    found = (ctypes.c_uint32 * _GROUPS_MAX)()  # socket.getsockopt() stops at 1024 bytes, 256 groups
    size = ctypes.c_uint32(ctypes.sizeof(found))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.getsockopt(sock.fileno(), socket.SOL_SOCKET, _SO_PEERGROUPS, found, ctypes.byref(size)):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return frozenset((*found[: size.value // 4], gid & 0xFFFFFFFF))


def peer_pidfd(sock: socket.socket) -> int | None:
    """A descriptor of the peer process, across pid namespaces and safe from reused pids; None before Linux 6.5 or when it is gone."""
    try:
        return sock.getsockopt(socket.SOL_SOCKET, _SO_PEERPIDFD)
    except OSError:
        return None


def has_hung_up(sock: socket.socket) -> bool:
    """Whether nobody has the other end any more (poll(2): POLLHUP), read or not."""
    poller = select.poll()
    poller.register(sock, 0)
    return bool(poller.poll(0))


def has_exited(pidfd: int) -> bool:
    """Whether that process has ended, reaped or not (pidfd_open(2): readable at exit)."""
    poller = select.poll()
    poller.register(pidfd, select.POLLIN)
    return bool(poller.poll(0))
