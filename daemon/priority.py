"""How a worker that nobody waits for gets out of the way."""

from __future__ import annotations

import ctypes
import os
import platform
from contextlib import suppress

_NICENESS = 10
"""About a tenth of a processor beside one process that wants all of it (sched(7)): nobody notices, and it comes to an end. At 19 it is a
sixtieth, and a busy machine left a wrong hit unseen for minutes."""
_IOPRIO_SET = {"x86_64": 251, "aarch64": 30}  # syscall numbers: ioprio_set(2) has no wrapper in glibc
_WHO_PROCESS = 1
_IDLE_CLASS = 3 << 13  # IOPRIO_PRIO_VALUE(IOPRIO_CLASS_IDLE, 0), linux/ioprio.h


def yield_to_others() -> None:
    """This thread, and those that it starts from now on, get little of the processors and the disk while others want them (nice(2),
    ioprio_set(2)).

    What the kernel does not grant is left as it is. The disk's class counts where its scheduler knows classes (bfq, mq-deadline).
    """
    with suppress(OSError):
        os.nice(_NICENESS)
    number = _IOPRIO_SET.get(platform.machine())
    if number is not None:
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).syscall(number, _WHO_PROCESS, 0, _IDLE_CLASS)
