"""Opening the ledger's SQLite file, and what its errors mean.

The recipe is fixed (docs/reference/ledger-format.md): the driver opens no transaction by itself (`isolation_level=None`), a `begin`
hook emits BEGIN IMMEDIATE for writers, WAL with synchronous=FULL, checkpoints only under the writers' lock. Nothing in this room opens,
hashes or copies the file itself: closing any descriptor of it would drop the process's POSIX locks.
"""

from __future__ import annotations

import os
import sqlite3
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, create_engine
from sqlalchemy import event as hooks
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.pool import StaticPool

from wcache.core.checkpoint.identity import filesystem_kind
from wcache.core.model.errors import LedgerCorrupt, LedgerError, LedgerUnavailable, NotFound

SQLITE_MINIMUM = (3, 37, 0)  # STRICT tables
BUSY_S = 2.0
CACHE_KIB = 1024  # a connection; the server has two for its whole life, and behind them lies the page cache of the kernel

UNREADABLE = (SQLAlchemyError, sqlite3.Error, UnicodeDecodeError)
"""What reading a damaged file may raise: the last where SQLite quotes a damaged name and Python cannot decode the quotation."""

NETWORK_KINDS = frozenset({"nfs", "cifs", "smb", "smb2", "9p", "ceph", "lustre", "gpfs", "beegfs", "afs", "virtiofs", "glusterfs"})
_LOCAL_FUSE = frozenset({"fuseblk"})


def refuse_network_filesystem(directory: Path) -> None:
    """Raises LedgerError where SQLite's locks and shared memory cannot be relied on (https://sqlite.org/wal.html, restriction 2)."""
    kind = filesystem_kind(directory)
    if kind in NETWORK_KINDS or (kind.startswith("fuse") and kind not in _LOCAL_FUSE):
        raise LedgerError(
            f"a ledger cannot live on {kind}: its locks do not hold there",
            where=str(directory),
            remedy="set WCACHE_LEDGER to a file on a local disk",
        )


def meaning(error: BaseException, path: Path) -> LedgerError:
    """The one clear line for what SQLite or the kernel says."""
    text = str(getattr(error, "orig", None) or error)
    where = str(path)
    if "full" in text:
        return LedgerUnavailable("the disk is full", where=where, remedy="free space there; nothing that was acknowledged is lost")
    if "readonly" in text or "unable to open" in text:
        return LedgerUnavailable(
            f"the ledger cannot be opened or written ({text})",
            where=where,
            remedy="check the permissions of the file and its directory, or set WCACHE_LEDGER to another place",
        )
    if "locked" in text:
        return LedgerUnavailable("another program holds the database", where=where, remedy="close the program that has the file open")
    if "I/O error" in text:
        return LedgerUnavailable(f"the disk failed ({text})", where=where, remedy="look at the kernel's log")
    if "malformed" in text or "not a database" in text:
        return LedgerCorrupt(text, where=where)
    return LedgerCorrupt(f"SQLite refuses ({text})", where=where)


@contextmanager
def translated(path: Path) -> Iterator[None]:
    """Only LedgerError leaves this block."""
    try:
        yield
    except UNREADABLE as error:
        raise meaning(error, path) from error


def _dbapi(uri: str) -> sqlite3.Connection:
    options: dict[str, Any] = {"uri": True, "timeout": BUSY_S, "isolation_level": None, "check_same_thread": False}
    if sys.version_info >= (3, 12):
        options["autocommit"] = sqlite3.LEGACY_TRANSACTION_CONTROL
    connection: sqlite3.Connection = sqlite3.connect(uri, **options)
    return connection


def _engine(uri: str, begin: str, pragmas: tuple[str, ...]) -> Engine:
    if sqlite3.sqlite_version_info < SQLITE_MINIMUM:
        raise LedgerError(f"SQLite {sqlite3.sqlite_version} is too old", remedy="install a Python whose SQLite is 3.37 or newer")

    def creator() -> sqlite3.Connection:
        connection = _dbapi(uri)
        try:
            for pragma in pragmas:
                connection.execute(f"PRAGMA {pragma}")
        except UnicodeDecodeError as error:  # what SQLite quotes of a damaged schema is no text
            raise sqlite3.DatabaseError("the schema is malformed") from error
        return connection

    # One connection for the life of the engine: opening and closing is when SQLite checkpoints.
    engine = create_engine("sqlite+pysqlite://", creator=creator, poolclass=StaticPool)
    hooks.listen(engine, "begin", lambda connection: connection.exec_driver_sql(begin))
    return engine


def driver(connection: Connection) -> sqlite3.Connection:
    """The driver's own connection, inside the transaction that SQLAlchemy began: for the dozen small statements of every append a result
    object each costs more than the statement does (bench/ledger_append.py)."""
    found: sqlite3.Connection = connection.connection.dbapi_connection  # type: ignore[assignment]
    return found


@contextmanager
def write_transaction(db: sqlite3.Connection) -> Iterator[None]:
    """BEGIN IMMEDIATE to COMMIT on the driver's own connection. An append is one: SQLAlchemy's transaction around it was a quarter of its
    processor time. Raises what `translated` translates; then nothing of it is written."""
    db.execute("BEGIN IMMEDIATE")
    try:
        yield
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:  # some errors have rolled it back already (https://sqlite.org/lang_transaction.html, 2.3)
            with suppress(sqlite3.Error):
                db.execute("ROLLBACK")
        raise


def file_uri(path: Path, query: str) -> str:
    """SQLite's URI of a path (https://sqlite.org/uri.html)."""
    return f"{path.absolute().as_uri()}?{query}"


def connect_writer(path: Path) -> Engine:
    """An engine with one writing connection; the file is created if it is absent. To be used under the writers' lock."""
    pragmas = ("journal_mode=WAL", "synchronous=FULL", "wal_autocheckpoint=0", "journal_size_limit=0", f"cache_size=-{CACHE_KIB}")
    return _engine(file_uri(path, "mode=rwc"), "BEGIN IMMEDIATE", pragmas)


def connect_scratch(path: Path) -> Engine:
    """An engine on a new database that nobody else opens and nobody misses after a crash."""
    pragmas = ("journal_mode=OFF", "synchronous=OFF", "locking_mode=EXCLUSIVE", "cache_size=-65536")
    return _engine(file_uri(path, "mode=rwc"), "BEGIN IMMEDIATE", pragmas)


def connect_reader(path: Path) -> Engine:
    """An engine with one connection that cannot write, and does not checkpoint when it is closed.

    Raises NotFound for an absent file. Where the directory may not be written and no writer is about, the file is read as it lies.
    """
    try:
        about = path.stat()
        if stat.S_ISDIR(about.st_mode):
            raise NotFound("this is a directory, and no ledger", where=str(path), remedy="give the file in it: ledger.sqlite")
        if about.st_size == 0:
            raise NotFound("the ledger is empty", where=str(path), remedy="start a daemon once, or correct WCACHE_LEDGER")
    except OSError as error:
        if isinstance(error, PermissionError):
            raise LedgerUnavailable(
                "no permission to read the ledger", where=str(path), remedy="read it as the daemon's user, or read a backup"
            ) from error
        raise NotFound("there is no ledger", where=str(path), remedy="start a daemon once, or set WCACHE_LEDGER") from error
    engine = _engine(file_uri(path, "mode=ro"), "BEGIN", ("query_only=1", f"cache_size=-{CACHE_KIB}"))
    try:
        with engine.begin() as connection:
            connection.exec_driver_sql("SELECT 1 FROM sqlite_master LIMIT 1")
    except UNREADABLE as error:
        engine.dispose()
        alone = not path.with_name(path.name + "-wal").exists() and not os.access(path.parent, os.W_OK)
        if isinstance(meaning(error, path), LedgerUnavailable) and alone:
            return _engine(file_uri(path, "immutable=1"), "BEGIN", ("query_only=1",))
        raise meaning(error, path) from error
    return engine
