"""What systemd wants to hear (sd_notify(3)): datagrams of KEY=VALUE lines to `$NOTIFY_SOCKET`. Standard library only."""

from __future__ import annotations

import array
import os
import socket
from collections.abc import Sequence
from contextlib import suppress


def manager_address() -> str | None:
    """Where the service manager listens, as `sendto` wants it; None where there is none."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address.startswith(("/", "@")):
        return None
    return "\0" + address[1:] if address.startswith("@") else address


def tell(text: str, fds: Sequence[int] = ()) -> None:
    """One datagram, or none where there is no service manager. Does not block. Raises OSError, BlockingIOError while its queue is full."""
    address = manager_address()
    if address is None:
        return
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK) as sock:
        sock.sendmsg([text.encode()], rights, 0, address)


def notify(**fields: str | int) -> None:
    """Tell the service manager, where there is one. Never fails: a supervisor that does not listen must not end the daemon."""
    with suppress(OSError):
        tell("\n".join(f"{key}={value}" for key, value in fields.items()))


def watchdog_interval_s() -> float | None:
    """How often `WATCHDOG=1` is due: a third of what the service manager allows; None where it asks this process for none."""
    pid, limit_us = os.environ.get("WATCHDOG_PID", ""), os.environ.get("WATCHDOG_USEC", "")
    if not limit_us.isdigit() or int(limit_us) == 0 or pid not in ("", str(os.getpid())):
        return None
    return int(limit_us) / 3e6
