"""The writers' lock: flock(2) on a side file, waited for in the kernel (first come, first served as far as flock is) with a deadline.

The lock belongs to an open file description, so every acquisition opens its own: closing it is the release, and a process that dies
releases. Polling would starve waiters behind a busy writer; a plain blocking flock would wait for a stopped holder for ever. So the
wait happens in a thread that may outlive the deadline, and is found again by the next attempt.
"""

from __future__ import annotations

import fcntl
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from wcache.core.model.errors import LedgerUnavailable

LOCK_WAIT_S = 2.0

_registry = threading.Lock()  # held around fork(2), so that a child knows every descriptor that it must close
_descriptors: set[int] = set()


def _open(path: Path) -> int:
    with _registry:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        _descriptors.add(descriptor)
        return descriptor


def _close(descriptor: int) -> None:
    with _registry:
        if descriptor in _descriptors:
            _descriptors.remove(descriptor)
            os.close(descriptor)


def _after_fork_in_child() -> None:
    # close(2), not LOCK_UN: the description is shared with the parent, whose lock must stay.
    global _registry
    for descriptor in _descriptors:
        with suppress(OSError):
            os.close(descriptor)
    _descriptors.clear()
    _registry = threading.Lock()


os.register_at_fork(
    before=lambda: _registry.acquire(),
    after_in_parent=lambda: _registry.release(),
    after_in_child=_after_fork_in_child,
)


class _Waiter:
    """One blocking flock in flight. Who comes first decides what becomes of it: the kernel, or the deadline of the one who asked."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self.ready = threading.Event()
        self.mutex = threading.Lock()
        self.wanted = True
        self.failed = False
        self.given_back = False

    def run(self) -> None:
        try:
            fcntl.flock(self.descriptor, fcntl.LOCK_EX)
        except OSError:
            self.failed = True
        with self.mutex:
            if self.failed or not self.wanted:
                _close(self.descriptor)
                self.given_back = True
            self.ready.set()

    def wait(self, wait_s: float) -> int | None:
        """The locked descriptor, or None after `wait_s`, or None at once with `given_back` set."""
        with self.mutex:
            self.wanted = True
        self.ready.wait(wait_s)
        with self.mutex:
            self.wanted = self.ready.is_set() and not self.given_back
            return self.descriptor if self.wanted else None


class FileLock:
    """An exclusive lock between processes, and between objects of one process. Not re-entrant; one thread at a time."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._pending: _Waiter | None = None

    @contextmanager
    def held(self, wait_s: float = LOCK_WAIT_S) -> Iterator[None]:
        """Raises LedgerUnavailable when the lock cannot be had within `wait_s`, or the side file cannot be opened."""
        descriptor = self._acquire(wait_s)
        try:
            yield
        finally:
            _close(descriptor)

    def _acquire(self, wait_s: float) -> int:
        deadline_s = time.monotonic() + wait_s
        try:
            while True:
                descriptor = self._attempt(max(0.0, deadline_s - time.monotonic()))
                if descriptor is not None and self._is_current(descriptor):
                    return descriptor
                if time.monotonic() >= deadline_s:
                    break
        except OSError as error:
            raise LedgerUnavailable(
                f"the lock file cannot be opened: {os.strerror(error.errno or 0)}",
                where=str(self.path),
                remedy="make the ledger's directory writable, or set WCACHE_LEDGER to another place",
            ) from error
        raise LedgerUnavailable(
            f"another writer has held the lock for {wait_s:g} s",
            where=str(self.path),
            remedy="look for a stopped process with `lslocks`; the lock is free as soon as it goes on or dies",
        )

    def _attempt(self, wait_s: float) -> int | None:
        if self._pending is None:
            descriptor = _open(self.path)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return descriptor
            except BlockingIOError:
                self._pending = _Waiter(descriptor)
                threading.Thread(target=self._pending.run, name="wcache-lock", daemon=True).start()
            except OSError:
                _close(descriptor)
                raise
        waiter = self._pending
        found = waiter.wait(wait_s)
        if found is not None or waiter.given_back:
            self._pending = None  # otherwise it keeps its place in the queue for the next attempt
        return found

    def _is_current(self, descriptor: int) -> bool:
        """False where somebody removed the side file meanwhile: then others lock a new one, and this one guards nothing."""
        opened = os.fstat(descriptor)
        with suppress(FileNotFoundError):
            current = self.path.stat()
            if (current.st_dev, current.st_ino) == (opened.st_dev, opened.st_ino):
                return True
        _close(descriptor)
        return False
