"""Backups of a ledger that may be in use, through SQLite's backup API (https://sqlite.org/backup.html), verified after."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path
from typing import Any

from wcache.core.model.errors import LedgerError, LedgerUnavailable, UsageError
from wcache.ledger.database import connect_reader, connect_writer, meaning, translated
from wcache.ledger.store import Ledger
from wcache.ledger.verify import Progress, Report, verify


def backup(ledger: Ledger | Path | str, target: Path | str, progress: Progress | None = None) -> Report:
    """Writes a copy of one consistent state to `target` (0600), which must not exist, and returns the copy's verification.

    Raises UsageError for an existing target, LedgerUnavailable where it cannot be written; then nothing is left there. A damaged ledger
    is copied as far as SQLite can read it: look at `Report.ok`.
    """
    source = ledger.path if isinstance(ledger, Ledger) else Path(ledger).absolute()
    target = Path(target).absolute()
    copy(source, target)
    return verify(target, progress)


def copy(source: Path, target: Path) -> None:
    """One consistent state of `source` as a new file. Raises as `backup`."""
    reader = connect_reader(source)
    try:
        _reserve(target)
        try:
            with translated(target):
                _copy(reader.raw_connection().dbapi_connection, target)
        except BaseException:
            for name in (target.name, f"{target.name}-wal", f"{target.name}-shm"):
                target.with_name(name).unlink(missing_ok=True)
            raise
    finally:
        reader.dispose()


def _reserve(target: Path) -> None:
    try:
        os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600))
    except FileExistsError:
        raise UsageError("the target exists", where=str(target), remedy="choose a new file: a backup never overwrites") from None
    except OSError as error:
        raise LedgerUnavailable(f"cannot be written: {os.strerror(error.errno or 0)}", where=str(target)) from error


def _copy(source: Any, target: Path) -> None:
    writer = connect_writer(target)
    try:
        destination: Any = writer.raw_connection().dbapi_connection
        if not isinstance(source, sqlite3.Connection):
            raise LedgerError("no connection to copy from", where=str(target))
        source.backup(destination)
        destination.execute("PRAGMA journal_mode=DELETE")  # one file, readable where nothing may be written; a writer brings WAL back
    except sqlite3.Error as error:
        raise meaning(error, target) from error
    finally:
        writer.dispose()
