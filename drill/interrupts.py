"""Ctrl+C, SIGTERM and SIGHUP, kept away while something is started or stopped: what has no name yet could not be cleaned up."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def uninterrupted() -> Iterator[None]:
    """What arrives meanwhile is a KeyboardInterrupt at the end of the block. Handlers, unlike blocked signals, are not inherited."""
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread is ever interrupted
        return
    arrived: list[int] = []
    before = {number: signal.signal(number, lambda number, frame: arrived.append(number)) for number in SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if arrived:
        raise KeyboardInterrupt
