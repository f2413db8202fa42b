"""Operations that a file system far away fails for a moment, tried again: how often, how long, and how many there were."""

from __future__ import annotations

import errno
import os
import threading
import time
from collections.abc import Callable
from typing import TypeVar

_Result = TypeVar("_Result")

TRANSIENT = frozenset(
    {
        errno.EIO, errno.EREMOTEIO, errno.ETIMEDOUT, errno.ESTALE, errno.EAGAIN, errno.ECONNRESET, errno.ECONNABORTED, errno.ENETDOWN,
        errno.ENETUNREACH, errno.ENETRESET, errno.EHOSTDOWN, errno.EHOSTUNREACH,
    }
)  # fmt: skip
"""What clients of NFS, CIFS, Ceph and FUSE say of a server that does not answer (errno(3)). EINTR is Python's to try again (PEP 475);
ENOTCONN, a FUSE server that has ended, does not mend for a file that is open."""
WAITS_S = (0.1, 0.3, 1.0, 3.0, 10.0)
"""Before the second try, the third, ...; after the last the error stands."""
_NONE_AFTER_S = 30.0  # since the first failure: a client may have waited for minutes by itself before it says ETIMEDOUT


class Retries:
    """The patience of one job; safe to share between threads. Once one operation has used it up, none waits any more."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._end_told = ""
        self._count = 0
        self._last = ""

    @property
    def count(self) -> int:
        """How many tries failed and were followed by another."""
        with self._lock:
            return self._count

    @property
    def last(self) -> str:
        """Where the last of them was, and why."""
        with self._lock:
            return self._last

    def note(self, error: OSError, where: str) -> None:
        """It failed, and is about to be tried again."""
        with self._lock:
            self._count += 1
            self._last = f"{where}: {os.strerror(error.errno or 0)}"

    def run(self, operation: Callable[[], _Result], where: str, *, renew: Callable[[], None] | None = None) -> _Result:
        """What `operation` returns. Where it fails with an error that may pass it is called again, after `renew()` if the error says that
        the open file is no longer the server's (ESTALE). Raises the OSError that lasted, which says for how long, any other
        one at once, and what `renew` raises."""
        began_s: float | None = None
        waits = iter(WAITS_S)
        stale = False
        while True:
            try:
                if stale and renew is not None:
                    renew()
                return operation()
            except OSError as error:
                if error.errno not in TRANSIENT:
                    raise
                failed = error
            now_s = time.monotonic()
            began_s = now_s if began_s is None else began_s
            wait_s = next(waits, None)
            if wait_s is None or now_s + wait_s > began_s + _NONE_AFTER_S or self._over.wait(wait_s):
                raise OSError(failed.errno, f"{os.strerror(failed.errno or 0)} ({self._end(now_s - began_s)})")
            self.note(failed, where)
            stale = failed.errno == errno.ESTALE

    def _end(self, spent_s: float) -> str:
        """How long it was tried by the one that used up the patience: others may have begun a moment before."""
        with self._lock:
            self._over.set()
            self._end_told = self._end_told or f"tried again for {spent_s:.1f} s"
            return self._end_told
