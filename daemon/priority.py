"""How a worker that nobody waits for gets out of the way."""

from __future__ import annotations

import ctypes
import os
import platform
from contextlib import suppress

_NICEST = 19
_IOPRIO_SET = {"x86_64": 251, "aarch64": 30}  # syscall numbers: ioprio_set(2) has no wrapper in glibc
_WHO_PROCESS = 1
_IDLE_CLASS = 3 << 13  # IOPRIO_PRIO_VALUE(IOPRIO_CLASS_IDLE, 0), linux/ioprio.h


def yield_to_others() -> None:
    """This thread, and those that it starts from now on, get only the processors and the disk that others leave (nice(2), ioprio_set(2)).

    What the kernel does not grant is left as it is. The disk's class counts where its scheduler knows classes (bfq, mq-deadline).
    """
    with suppress(OSError):
        os.nice(_NICEST)
    number = _IOPRIO_SET.get(platform.machine())
    if number is not None:
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).syscall(number, _WHO_PROCESS, 0, _IDLE_CLASS)
