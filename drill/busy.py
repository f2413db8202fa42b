"""Whose the processors were while a server started: a time that was shared with other work is no measurement of the server."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_BUSY = (0, 1, 2, 5, 6, 7)
"""user, nice, system, irq, softirq, steal of proc_stat(5): guests are in user already, and a processor that waits for a disk is free."""


def busy_s() -> float:
    """Seconds that all processors of this machine have worked since it started, those taken by the host of a virtual machine included."""
    fields = Path("/proc/stat").read_text().partition("\n")[0].split()[1:]
    return sum(int(fields[number]) for number in _BUSY if number < len(fields)) / _TICKS_PER_S


def spent_s(pids: Iterable[int]) -> float:
    """Seconds of processor time that these have had, and their children that have ended (proc_pid_stat(5))."""
    ticks = 0
    for pid in pids:
        with suppress(OSError, ValueError):
            ticks += sum(map(int, Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:15]))
    return ticks / _TICKS_PER_S


def others_share(busy_before_s: float, elapsed_s: float, spent_by_server_s: float) -> float:
    """Of all the processors could do since then, the part that was neither idle nor the server's, 0 to 1."""
    could_s = elapsed_s * (os.cpu_count() or 1)
    return min(1.0, max(0.0, busy_s() - busy_before_s - spent_by_server_s) / could_s) if could_s > 0 else 0.0
