"""The ledger: append, read, head. Everything that is written goes through `Ledger.append_batch`, one transaction a batch."""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType

from sqlalchemy import Engine

from wcache.core.model.errors import LedgerError, LedgerUnavailable, NotFound, WcacheError
from wcache.core.model.events import Event, stream_of
from wcache.ledger import chain, schema
from wcache.ledger.database import connect_reader, connect_writer, driver, refuse_network_filesystem, translated, write_transaction
from wcache.ledger.lock import LOCK_WAIT_S, FileLock
from wcache.ledger.projection import Accepted, project
from wcache.ledger.stored import (
    NewEvent,
    Prepared,
    Present,
    StoredEvent,
    Unit,
    find_ids,
    head_of,
    iterate_events,
    prepare,
    read_origin,
)  # fmt: skip
from wcache.ledger.streams import Streams, streams_needed
from wcache.ledger.upgrade import create, lock_path, require_current, revision

__all__ = ["Ledger", "NewEvent", "StoredEvent", "Unit"]

WAL_CHECKPOINT_BYTES = 8 << 20

_INSERT = schema.insert(schema.event)
_leaked: list[object] = []  # connections inherited through fork: never closed there, because closing would checkpoint


def _prepare_unit(unit: Unit) -> list[Prepared] | WcacheError:
    try:
        return [prepare(new) for new in unit]
    except LedgerError as error:
        return error


class Ledger:
    """One SQLite file of events. `Ledger.open` is the way in; usable from any thread of the process that opened it, one at a time."""

    def __init__(self, path: Path, engine: Engine, origin: str, *, read_only: bool) -> None:
        self.path = path
        self.origin = origin
        self.read_only = read_only
        self._engine = engine
        with engine.connect() as connection:
            self._db = driver(connection)  # the engine's only one, for as long as it lives
        self._pid = os.getpid()
        self._mutex = threading.Lock()
        self._lock = FileLock(lock_path(path))
        self._chain = chain.Chain(origin)
        self._inode = path.stat().st_ino
        self._checkpoint_at_bytes = WAL_CHECKPOINT_BYTES
        self._closed = False

    @classmethod
    def open(cls, path: Path | str, *, create: bool = True, read_only: bool = False) -> Ledger:
        """Opens the file, and makes it (0600, in a directory 0700) where it is absent and `create` is set.

        Raises NotFound, LedgerUnavailable (permissions, disk, lock), LedgerCorrupt, or LedgerError for a schema of another release and
        for network file systems.
        """
        path = Path(path).absolute()
        if read_only:
            return cls._open_reader(path)
        try:
            if not create and not path.exists():
                raise NotFound("there is no ledger", where=str(path), remedy="start a daemon once, or set WCACHE_LEDGER")
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            refuse_network_filesystem(path.parent)
            if path.exists() and not path.is_file():
                raise LedgerUnavailable("this is no regular file", where=str(path), remedy="name a file by WCACHE_LEDGER, or unset it")
            with FileLock(lock_path(path)).held(), translated(path):
                with suppress(FileExistsError):
                    # Safe although SQLite's file must never be opened otherwise: O_EXCL says that nobody can have it open.
                    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600))
                engine = connect_writer(path)
                try:
                    origin = cls._ready(engine, path)
                except BaseException:
                    engine.dispose()
                    raise
        except OSError as error:
            raise LedgerUnavailable(
                f"cannot be opened: {os.strerror(error.errno or 0)}",
                where=str(error.filename or path),
                remedy="make its directory writable, or set WCACHE_LEDGER to another place",
            ) from error
        return cls(path, engine, origin, read_only=False)

    @staticmethod
    def _ready(engine: Engine, path: Path) -> str:
        with engine.begin() as connection:
            if revision(connection) is None:
                create(connection)
            require_current(connection, path)
            return read_origin(connection, path)

    @classmethod
    def _open_reader(cls, path: Path) -> Ledger:
        engine = connect_reader(path)
        try:
            with translated(path), engine.begin() as connection:
                require_current(connection, path)
                origin = read_origin(connection, path)
        except BaseException:
            engine.dispose()
            raise
        return cls(path, engine, origin, read_only=True)

    def append(self, stream: str, expected_version: int | None, event_id: str, event: Event, occurred_ns: int | None = None) -> int:
        """Appends one event and returns its seq once it is durable; the old seq where this very event is already there.

        Raises WrongExpectedVersion, EventIdReused, IllegalTransition, LedgerUnavailable, LedgerCorrupt.
        """
        if stream != stream_of(event):
            raise LedgerError(f"{event.type} belongs to {stream_of(event)}", where=stream)
        occurred = time.time_ns() if occurred_ns is None else occurred_ns
        new = NewEvent(event=event, event_id=event_id, expected_version=expected_version, occurred_ns=occurred)
        result = self.append_batch([(new,)])[0]
        if isinstance(result, WcacheError):
            raise result
        return result[0]

    def append_batch(self, units: Sequence[Unit]) -> list[list[int] | WcacheError]:
        """Appends units in order in one durable transaction. For each unit: the seqs of its events, or why it was refused; a refused
        unit leaves the others as they are. Raises LedgerUnavailable or LedgerCorrupt where nothing could be written at all."""
        self._check_usable()
        if self.read_only:
            raise LedgerUnavailable("it was opened for reading only", where=str(self.path))
        prepared = [_prepare_unit(unit) for unit in units]
        with self._mutex, self._lock.held(LOCK_WAIT_S), translated(self.path):
            self._check_in_place()
            with write_transaction(self._db):
                results = self._append(self._db, prepared)
            self._checkpoint_if_due()
        return results

    def append_within(self, *builders: Callable[[sqlite3.Connection], Unit]) -> list[list[int]]:
        """As `append_batch`, for units that depend on what is in the ledger: each builder is called under the lock, in the transaction,
        when the units before its own are appended. All are appended, with nothing between them, or none. Raises what refuses one."""
        self._check_usable()
        found: list[list[int]] = []
        with self._mutex, self._lock.held(LOCK_WAIT_S), translated(self.path):
            self._check_in_place()
            with self._engine.begin() as connection:
                db = driver(connection)
                for build in builders:
                    (result,) = self._append(db, [[prepare(new) for new in build(db)]])
                    if isinstance(result, WcacheError):
                        raise result
                    found.append(result)
            self._checkpoint_if_due()
        return found

    def touch(self) -> None:
        """Commits a write that changes nothing (the header's `user_version`, as it is): whether an event could be appended now.

        Raises as `append_batch`.
        """
        self._check_usable()
        with self._mutex, self._lock.held(LOCK_WAIT_S), translated(self.path):
            self._check_in_place()
            with write_transaction(self._db):
                version = self._db.execute("PRAGMA user_version").fetchone()[0]
                self._db.execute(f"PRAGMA user_version = {int(version)}")

    def _append(self, db: sqlite3.Connection, units: Sequence[list[Prepared] | WcacheError]) -> list[list[int] | WcacheError]:
        every = [item for unit in units if not isinstance(unit, WcacheError) for item in unit]
        present = find_ids(db, [item.new.event_id for item in every])
        streams = Streams.load(db, [name for item in every for name in streams_needed(item.stream, item.new.event)])
        seq, link = head_of(db, self._chain)
        recorded_ns = time.time_ns()
        rows: list[tuple[object, ...]] = []
        accepted: list[Accepted] = []
        results: list[list[int] | WcacheError] = []
        for unit in units:
            if isinstance(unit, WcacheError):
                results.append(unit)
                continue
            fresh: dict[str, tuple[Prepared, Accepted, int]] = {}
            seqs: list[int] = []
            try:
                for item in unit:
                    old = present.get(item.new.event_id)
                    if old is None and item.new.event_id in fresh:
                        same = fresh[item.new.event_id]
                        old = Present(same[1].seq, same[0].stream, same[0].payload)
                    if old is not None:
                        seqs.append(old.same(item))
                        continue
                    event = item.new.event
                    version, state, late = streams.advance(item.stream, event, item.new.expected_version)
                    place = Accepted(seq + len(fresh) + 1, item.new.occurred_ns, recorded_ns, late, item.stream, event, state)
                    fresh[item.new.event_id] = (item, place, version)
                    seqs.append(place.seq)
            except WcacheError as error:
                streams.rollback()
                results.append(error)
                continue
            streams.keep()
            for item, place, version in fresh.values():
                row, link = self._row(item, place, version, link)
                rows.append(row)
                accepted.append(place)
                present[item.new.event_id] = Present(place.seq, item.stream, item.payload)
            seq += len(fresh)
            results.append(seqs)
        if rows:
            db.executemany(_INSERT.sql, rows)
            streams.write(db)
            project(db, accepted)
        return results

    def _row(self, item: Prepared, place: Accepted, version: int, link: bytes) -> tuple[tuple[object, ...], bytes]:
        event = item.new.event
        salt = chain.new_salt()
        hashed = chain.payload_hash(salt, item.payload)
        leaf = self._chain.leaf(
            place.seq, item.stream, version, event.type, event.schema, item.new.event_id, place.occurred_ns, place.recorded_ns, place.late,
            hashed,
        )  # fmt: skip
        link = chain.Chain.link(link, leaf)
        values = {
            "seq": place.seq, "stream": item.stream, "version": version, "event_id": item.new.event_id, "type": event.type,
            "schema": event.schema, "occurred_ns": place.occurred_ns, "recorded_ns": place.recorded_ns, "late": int(place.late),
            "payload": item.payload.decode(), "salt": salt, "payload_hash": hashed, "chain": link,
        }  # fmt: skip
        return tuple(values[name] for name in _INSERT.names), link

    def _checkpoint_if_due(self) -> None:
        """Moves the log into the database when it has grown; under the lock. A failure here loses nothing: the log stays."""
        log = self.path.with_name(self.path.name + "-wal")
        with suppress(OSError, sqlite3.Error):
            size = log.stat().st_size
            if size < self._checkpoint_at_bytes:
                return
            _, frames, moved = self._db.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
            # Readers may keep frames back; then the log goes on growing, and the next attempt waits for as much again.
            self._checkpoint_at_bytes = WAL_CHECKPOINT_BYTES if frames == moved else size + WAL_CHECKPOINT_BYTES

    def events(self, after_seq: int = 0, stream: str | None = None, types: Sequence[str] | None = None) -> Iterator[StoredEvent]:
        """Events in seq order, read in pages, so that nobody's reading keeps the log from being checkpointed.

        Raises LedgerCorrupt for an event that cannot be decoded, naming its seq. Redacted events are skipped.
        """
        self._check_usable()
        engine = self._engine if self.read_only else connect_reader(self.path)
        try:
            yield from iterate_events(engine, self.path, after_seq, stream, types)
        finally:
            if engine is not self._engine:
                engine.dispose()

    def head(self) -> tuple[int, str]:
        """The newest seq and its chain hash in hex; (0, genesis hash) of an empty ledger."""
        self._check_usable()
        if not self.read_only:
            engine = connect_reader(self.path)
            try:
                with translated(self.path), engine.begin() as connection:
                    seq, link = head_of(driver(connection), self._chain)
            finally:
                engine.dispose()
            return seq, link.hex()
        with self._mutex, translated(self.path), self._engine.begin() as connection:
            seq, link = head_of(driver(connection), self._chain)
        return seq, link.hex()

    def close(self) -> None:
        """Closes the file; the last one to close checkpoints, so that happens under the lock. Harmless twice."""
        if self._closed or os.getpid() != self._pid:
            return
        self._closed = True
        with self._mutex:
            if self.read_only:
                self._engine.dispose()
                return
            try:
                with self._lock.held(LOCK_WAIT_S):
                    self._engine.dispose()
            except LedgerUnavailable:
                # Whoever holds the lock has the file open, so closing here is not the last close and checkpoints nothing.
                self._engine.dispose()

    def __enter__(self) -> Ledger:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def _check_usable(self) -> None:
        if os.getpid() != self._pid:
            _leaked.append(self._engine)
            raise LedgerError(
                f"opened by process {self._pid}, used in its forked child {os.getpid()}",
                where=str(self.path),
                remedy="open it again in the child",
            )
        if self._closed:
            raise LedgerError("it was closed", where=str(self.path))

    def _check_in_place(self) -> None:
        """An append to a file that was removed or replaced would be lost without an error."""
        try:
            if self.path.stat().st_ino == self._inode:
                return
        except FileNotFoundError:
            pass
        raise LedgerUnavailable("the file was removed or replaced while it was open", where=str(self.path), remedy="restart the daemon")
