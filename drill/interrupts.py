"""Ctrl+C, SIGTERM and SIGHUP, kept away while something is started or stopped: what has no name yet could not be cleaned up."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def uninterrupted() -> Iterator[None]:
    """What arrives meanwhile is a KeyboardInterrupt at the end of the block, unless it was ignored before (nohup(1), a shell's `&`).

    A process that is started inside gets the default of each: handlers, unlike what is blocked or ignored, are not inherited.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread is ever interrupted
        return
    arrived: list[signal.Signals] = []
    before = {one: signal.signal(one, lambda number, frame: arrived.append(signal.Signals(number))) for one in SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if any(before[number] is not signal.SIG_IGN for number in arrived):
        raise KeyboardInterrupt
