"""Descriptors of a process, counted so that only the code under test changes the number."""

from __future__ import annotations

import gc
import os


def open_descriptors() -> int:
    """How many this process has open. What earlier tests left to the garbage collector is closed first, not between two counts."""
    gc.collect()
    return len(os.listdir("/proc/self/fd"))
