"""No daemon while the ledger is written anew: what runs is found, and nothing starts meanwhile."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from wcache.core.model.errors import DaemonRunning, LedgerUnavailable, RequestRefused
from wcache.core.settings import Settings
from wcache.daemon.place import InstanceLock
from wcache.daemon.recorder import JOURNAL_NAME
from wcache.ledger.journal import Journal


@contextmanager
def no_daemon(settings: Settings, *, merged: bool = True) -> Iterator[None]:
    """Holds the instance lock of the runtime directory. With `merged`, no journal may wait there: what is in it would come back.

    Raises DaemonRunning, RequestRefused, LedgerUnavailable.
    """
    if not settings.runtime_dir.is_dir():
        yield
        return
    try:
        lock = InstanceLock(settings.runtime_dir)
    except DaemonRunning as error:
        what = f"{error.what}, and has the ledger open"
        raise DaemonRunning(what, where=error.where, remedy="stop it (`wcache daemon stop`) and try again") from None
    except OSError as error:
        what = f"whether a daemon runs cannot be seen: {os.strerror(error.errno or 0)}"
        raise LedgerUnavailable(what, where=str(settings.runtime_dir), remedy="run this as the daemon's user") from error
    try:
        waiting = Journal(settings.runtime_dir / JOURNAL_NAME).pending() if merged else 0
        if waiting:
            what = f"the journal holds what the ledger has yet to take (units: {waiting})"
            raise RequestRefused(what, where=str(settings.runtime_dir / JOURNAL_NAME), remedy="start the daemon once: it merges them")
        yield
    finally:
        lock.release()
