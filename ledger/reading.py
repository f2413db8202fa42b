"""Reading a ledger's rows by the driver, page by page, beside whoever writes it."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from wcache.ledger.database import connect_reader, driver, translated
from wcache.ledger.stored import read_origin
from wcache.ledger.upgrade import require_current


@contextmanager
def reading(path: Path) -> Iterator[tuple[sqlite3.Connection, str]]:
    """The connection and the ledger's origin. No transaction is open: each statement sees the newest rows and keeps nobody waiting.

    Raises NotFound, LedgerError for a ledger that may not be read or has another release's schema, also from within the block.
    """
    reader = connect_reader(path)
    try:
        with translated(path):
            with reader.begin() as connection:
                require_current(connection, path)
                origin = read_origin(connection, path)
                db = driver(connection)
            yield db, origin
    finally:
        reader.dispose()
