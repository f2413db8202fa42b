"""The server's event loop: one thread, one epoll, timers, and a wake-up for other threads. asyncio would cost 8 MB."""

from __future__ import annotations

import heapq
import itertools
import logging
import os
import selectors
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress

log = logging.getLogger("wcache")

READ = selectors.EVENT_READ
WRITE = selectors.EVENT_WRITE


class Timer:
    """A call that is due later; `cancel()` makes it none."""

    __slots__ = ("call", "due_s")

    def __init__(self, due_s: float, call: Callable[[], None] | None) -> None:
        self.due_s = due_s
        self.call = call

    def cancel(self) -> None:
        self.call = None


class Loop:
    """Callbacks run one after another in the thread of `run()`. Only `post` may be called from other threads and signal handlers."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._timers: list[tuple[float, int, Timer]] = []
        self._count = itertools.count()
        self._posted: deque[Callable[[], None]] = deque()
        self._wake_read, self.wake_fd = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._selector.register(self._wake_read, READ, self._drain)
        self._running = False

    def watch(self, fd: int, events: int, call: Callable[[int], None]) -> None:
        """Call `call(ready events)` while any of `events` is ready; replaces an earlier watch of this descriptor."""
        if fd in self._selector.get_map():
            self._selector.modify(fd, events, call)
        else:
            self._selector.register(fd, events, call)

    def unwatch(self, fd: int) -> None:
        """Before the descriptor is closed."""
        with suppress(KeyError, ValueError):
            self._selector.unregister(fd)

    def call_later(self, seconds: float, call: Callable[[], None]) -> Timer:
        timer = Timer(time.monotonic() + seconds, call)
        heapq.heappush(self._timers, (timer.due_s, next(self._count), timer))
        return timer

    def post(self, call: Callable[[], None]) -> None:
        """Run `call` in the loop's thread, soon and in order."""
        self._posted.append(call)
        with suppress(BlockingIOError):  # a full pipe wakes as well
            os.write(self.wake_fd, b"\0")

    def run(self) -> None:
        """Until `stop()`."""
        self._running = True
        while self._running:
            for key, ready in self._selector.select(self._timeout_s()):
                if self._selector.get_map().get(key.fd) is key:  # an earlier callback of this round may have unwatched it
                    _guarded(key.data, ready)
            self._run_posted()
            self._run_timers()

    def stop(self) -> None:
        self._running = False

    def close(self) -> None:
        self._selector.close()
        os.close(self._wake_read)
        os.close(self.wake_fd)

    def _timeout_s(self) -> float | None:
        while self._timers and self._timers[0][2].call is None:
            heapq.heappop(self._timers)
        if self._posted:
            return 0.0
        return max(0.0, self._timers[0][0] - time.monotonic()) if self._timers else None

    def _drain(self, _ready: int) -> None:
        with suppress(BlockingIOError):
            while os.read(self._wake_read, 4096):
                pass

    def _run_posted(self) -> None:
        for _ in range(len(self._posted)):  # what these post waits for the next round
            _guarded(self._posted.popleft())

    def _run_timers(self) -> None:
        now_s = time.monotonic()
        while self._timers and self._timers[0][0] <= now_s:
            call = heapq.heappop(self._timers)[2].call
            if call is not None:
                _guarded(call)


def _guarded(call: Callable[..., None], *arguments: object) -> None:
    """A defect in one callback must not end the process that holds everybody's weights."""
    try:
        call(*arguments)
    except Exception:
        log.exception("a defect in the daemon; it goes on")
