"""Writing a ledger anew, beside the old file, and putting the new one in its place: how segments are dropped and payloads redacted.

The triggers that make events append-only are never touched in the file that is in use. Whatever happens, what lies at the ledger's path is
the old file whole or the new one whole: the new one is verified and durable before one rename(2) puts it there.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from sqlalchemy import Engine

from wcache.core.model.errors import LedgerCorrupt, LedgerUnavailable, NotFound, WcacheError
from wcache.ledger import schema
from wcache.ledger.database import connect_scratch, connect_writer, driver, refuse_network_filesystem, translated
from wcache.ledger.durable import synchronise
from wcache.ledger.lock import FileLock
from wcache.ledger.projection import Accepted, project
from wcache.ledger.segments import History, readable
from wcache.ledger.store import Ledger, NewEvent
from wcache.ledger.stored import EVENT_COLUMNS, StoredEvent, stored_event
from wcache.ledger.streams import Streams, streams_needed
from wcache.ledger.upgrade import lay_out, lock_path, require_current
from wcache.ledger.verify import verify

BATCH_EVENTS = 2000
MARGIN_BYTES = 16 << 20
_COLUMNS = f"{EVENT_COLUMNS}, salt, payload_hash, chain"
_INSERT = f"INSERT INTO event ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"  # noqa: S608

Progress = Callable[[int, int, str], None]
"""Events done, events in all, and the phase: verify, copy, project, verify again, exchange, done."""


def ignore(done: int, total: int, phase: str) -> None:
    """Progress that nobody watches."""


class Offline:
    """A ledger that nobody else has open, and its successor `new` while that is written. `engine` is for reading the old one."""

    def __init__(self, path: Path, engine: Engine | None, progress: Progress) -> None:
        self.path = path
        self.new = path.with_name(path.name + ".rebuild")
        self.progress = progress
        self._engine = engine

    @property
    def engine(self) -> Engine:
        assert self._engine is not None  # noqa: S101
        return self._engine

    def release(self) -> None:
        """Lets go of the old file."""
        if self._engine is not None:
            self._engine.dispose()
            self._engine = None

    def clean(self) -> None:
        """Removes what an earlier attempt left, or this one."""
        self.new.unlink(missing_ok=True)
        self._clean_beside()

    def _clean_beside(self) -> None:
        for suffix in ("-wal", "-shm", "-journal", ".lock"):
            self.new.with_name(self.new.name + suffix).unlink(missing_ok=True)

    def finish(self) -> None:
        """The new file is written: everything of it is in one file, and a rename leaves nothing behind. Raises LedgerCorrupt for one that
        does not verify."""
        engine = connect_writer(self.new)
        try:
            require_alone(engine, self.new)
        finally:
            engine.dispose()
        self._clean_beside()
        self.require_sound(self.new, "verify again")

    def require_sound(self, path: Path, phase: str, shown: Path | None = None) -> None:
        """Raises LedgerCorrupt: a ledger with problems is not written anew, and one that came out with problems is not used. `shown` is the
        file that `path` is a copy of."""
        report = verify(path, lambda done, total: self.progress(done, total, phase))
        if not report.ok:
            first = report.problems[0]
            at = f"seq {first.seq}, " if first.seq is not None else ""
            what = f"{len(report.problems)} problems, first: {at}{first.cls}: {first.text}"
            name = str(shown or path)
            raise LedgerCorrupt(what, where=name, remedy=f"`wcache ledger verify --ledger {name}` shows all; nothing was changed")

    def exchange(self, keep: Path | None = None) -> None:
        """Puts the new file in the old one's place; `keep` is a second name for the old one."""
        self.release()
        with suppress(FileNotFoundError):
            old = self.path.stat()
            self.new.chmod(old.st_mode & 0o777)
            if (old.st_uid, old.st_gid) != (os.geteuid(), os.getegid()):
                os.chown(self.new, old.st_uid, old.st_gid)
        synchronise(self.new)
        self.progress(0, 1, "exchange")
        if keep is not None:
            os.link(self.path, keep)
        self.new.replace(self.path)
        synchronise(self.path.parent)
        self.progress(1, 1, "done")


@contextmanager
def offline(path: Path | str, progress: Progress = ignore) -> Iterator[Offline]:
    """The ledger to oneself: the writers' lock, and proof that no other connection to the file is open.

    Raises NotFound, LedgerUnavailable (somebody has it open, or the disk has no room for a second one), LedgerCorrupt.
    """
    path = Path(path).absolute()
    if not path.exists():
        raise NotFound("there is no ledger", where=str(path), remedy="start a daemon once, or set WCACHE_LEDGER")
    try:
        refuse_network_filesystem(path.parent)
        with FileLock(lock_path(path)).held(), translated(path):
            path = path.resolve()  # a rename would replace a symbolic link
            engine = connect_writer(path)
            alone = Offline(path, engine, progress)
            try:
                with engine.begin() as connection:
                    require_current(connection, path)
                require_alone(engine, path)
                require_room(path, path.stat().st_size)
                alone.clean()
                yield alone
            finally:
                alone.release()
                alone.clean()
    except OSError as error:
        raise LedgerUnavailable(f"cannot be written anew: {os.strerror(error.errno or 0)}", where=str(error.filename or path)) from error


def require_alone(engine: Engine, path: Path) -> None:
    """Leaving WAL mode needs the only connection there is, and leaves one file with everything in it. The next writer goes back to it.

    Raises LedgerUnavailable.
    """
    try:
        with engine.connect() as connection:
            (mode,) = driver(connection).execute("PRAGMA journal_mode=DELETE").fetchone()
    except sqlite3.OperationalError as error:
        if "locked" not in str(error):
            raise
        mode = "wal"
    if mode != "delete":
        remedy = "stop the daemon (`wcache daemon stop`) and whatever reads the ledger, and try again"
        raise LedgerUnavailable("another program has the ledger open", where=str(path), remedy=remedy)


def require_room(path: Path, size_bytes: int) -> None:
    """Raises LedgerUnavailable where a file of this size does not fit beside `path`."""
    found = os.statvfs(path.parent)
    free = found.f_bavail * found.f_frsize
    if free < size_bytes + MARGIN_BYTES:
        what = f"a second file of {size_bytes + MARGIN_BYTES} bytes does not fit: {free} are free"
        raise LedgerUnavailable(what, where=str(path.parent), remedy="free space there; nothing was changed")


def write_anew(alone: Offline, history: History, blank: frozenset[int], events: Sequence[NewEvent]) -> list[int]:
    """Fills the new file: the rows from `history.first_seq` on, those of `blank` without payload and salt; the projections, made of what
    the events say; then `events`. Returns the seqs of these. `history` is that of the new file."""
    first = history.first_seq
    with alone.engine.begin() as connection:
        old = driver(connection)
        (total,) = old.execute("SELECT count(*) FROM event WHERE seq >= ?", (first,)).fetchone()
        os.close(os.open(alone.new, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600))
        engine = connect_scratch(alone.new)
        try:
            with translated(alone.new), engine.begin() as fresh:
                lay_out(fresh)
                new = driver(fresh)
                new.executemany("INSERT INTO meta (key, value) VALUES (?, ?)", old.execute("SELECT key, value FROM meta").fetchall())
                rows = old.execute(f"SELECT {_COLUMNS} FROM event WHERE seq >= ? ORDER BY seq", (first,))  # noqa: S608
                done = 0
                while part := rows.fetchmany(BATCH_EVENTS):
                    new.executemany(_INSERT, [_blanked(row) if row[0] in blank else row for row in part])
                    done += len(part)
                    alone.progress(done, total, "copy")
                _project_all(new, history, total, alone.progress)
        finally:
            engine.dispose()
    with Ledger.open(alone.new) as ledger:
        (result,) = ledger.append_batch([tuple(events)])
    if isinstance(result, WcacheError):
        raise result
    alone.finish()
    return result


def _blanked(row: tuple[object, ...]) -> tuple[object, ...]:
    return (*row[:9], None, None, *row[11:])


def _project_all(db: sqlite3.Connection, history: History, total: int, progress: Progress) -> None:
    """States and projections of an empty file, from the events that were carried and those that are there."""
    seed = [{"stream": name, "version": version, "state": ""} for name, version in history.versions.items()]
    statement = schema.upsert(schema.stream)
    db.executemany(statement.sql, statement.rows(seed))
    _project(db, list(history.carried_events()))
    done = after = 0
    bodies = history.bodies()
    sql = f"SELECT {EVENT_COLUMNS} FROM event WHERE seq > ? ORDER BY seq LIMIT {BATCH_EVENTS}"  # noqa: S608
    while part := db.execute(sql, (after,)).fetchall():
        _project(db, [stored_event(readable(row, bodies)) for row in part])
        after, done = part[-1][0], done + len(part)
        progress(done, total, "project")


def _project(db: sqlite3.Connection, events: Iterable[StoredEvent]) -> None:
    batch = list(events)
    streams = Streams.load(db, [name for item in batch for name in streams_needed(item.stream, item.event)])
    accepted = []
    for item in batch:
        _, state, late = streams.advance(item.stream, item.event, None)
        streams.keep()
        accepted.append(Accepted(item.seq, item.occurred_ns, item.recorded_ns, late, item.stream, item.event, state))
    streams.write(db)
    project(db, accepted)
