"""Group commit: one thread that appends what many submit, many units a transaction. A result arrives after COMMIT."""

from __future__ import annotations

import queue
import threading
import time
from concurrent.futures import Future

from wcache.core.model.errors import LedgerError, WcacheError
from wcache.ledger.store import Ledger, Unit

BATCH_UNITS = 256

_Job = tuple[Unit, "Future[list[int]]"]


class LedgerWriter:
    """Appends through one thread. The ledger may not be appended to elsewhere meanwhile for longer than the lock's deadline."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._mutex = threading.Lock()
        self._closed = False
        self.commit_s: float | None = None  # what the last batch took, lock and all
        self.committed_ns: int | None = None  # when it was durable
        self._thread = threading.Thread(target=self._run, name="wcache-ledger", daemon=True)
        self._thread.start()

    @property
    def queued(self) -> int:
        """Units that wait for their turn."""
        return self._jobs.qsize()

    def submit(self, unit: Unit) -> Future[list[int]]:
        """The future has the seqs once they are durable, or the unit's own error (a WcacheError). Callbacks run in the writer's thread."""
        future: Future[list[int]] = Future()
        with self._mutex:
            if self._closed:
                raise LedgerError("the writer was closed", where=str(self.ledger.path))
            self._jobs.put((unit, future))
        return future

    def close(self) -> None:
        """Returns when everything that was submitted is appended or refused. The ledger itself stays open. Harmless twice."""
        with self._mutex:
            if not self._closed:
                self._closed = True
                self._jobs.put(None)
        self._thread.join()

    def _run(self) -> None:
        going_on = True
        while going_on:
            jobs: list[_Job] = []
            job = self._jobs.get()
            while job is not None:
                if job[1].set_running_or_notify_cancel():
                    jobs.append(job)
                if len(jobs) >= BATCH_UNITS:
                    break
                try:
                    job = self._jobs.get_nowait()
                except queue.Empty:
                    break
            going_on = job is not None
            if jobs:
                self._append(jobs)

    def _append(self, jobs: list[_Job]) -> None:
        results: list[list[int] | WcacheError]
        began_s = time.monotonic()
        try:
            results = self.ledger.append_batch([unit for unit, _ in jobs])
        except WcacheError as error:
            results = [error] * len(jobs)
        except BaseException as error:  # a defect: those who wait must hear of it
            for _, future in jobs:
                future.set_exception(error)
            return
        else:
            self.commit_s, self.committed_ns = time.monotonic() - began_s, time.time_ns()
        for (_, future), result in zip(jobs, results, strict=True):
            if isinstance(result, WcacheError):
                future.set_exception(result)
            else:
                future.set_result(result)
