"""Rebuilding every projection from the events alone, into a scratch database, and comparing it with what the ledger holds."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
from sqlalchemy import Connection, Engine

from wcache.core.model.errors import WcacheError
from wcache.ledger import schema
from wcache.ledger.database import connect_reader, connect_scratch, driver, translated
from wcache.ledger.projection import Accepted, project
from wcache.ledger.store import Ledger, StoredEvent
from wcache.ledger.stored import EVENT_COLUMNS, stored_event
from wcache.ledger.streams import Streams, streams_needed
from wcache.ledger.upgrade import create

BATCH_EVENTS = 2000
MAX_DIFFERENCES = 100  # a table: more say nothing more


class Difference(msgspec.Struct, frozen=True):
    """A projected row that is not what the events say. `why` is `missing`, `extra` or `differs` with the column names."""

    table: str
    key: str
    why: str


@contextmanager
def scratch() -> Iterator[Engine]:
    """An empty database with the ledger's tables that is gone afterwards. Big ones spill to the temporary directory."""
    with tempfile.TemporaryDirectory(prefix="wcache-replay-") as directory:
        engine = connect_scratch(Path(directory) / "scratch.sqlite")
        try:
            with engine.begin() as connection:
                create(connection)
            yield engine
        finally:
            engine.dispose()


class Replayer:
    """Feeds events, in seq order, through the machines and projections into a scratch database.

    An authority event that the machines refuse changes nothing, and goes to `refused` with the reason; an observation whose `late` flag
    is wrong goes there without one.
    """

    def __init__(self, engine: Engine, refused: Callable[[StoredEvent, WcacheError | None], None]) -> None:
        self._engine = engine
        self._refused = refused

    def feed(self, events: Iterable[StoredEvent]) -> None:
        batch: list[StoredEvent] = []
        for event in events:
            batch.append(event)
            if len(batch) >= BATCH_EVENTS:
                self._flush(batch)
                batch = []
        self._flush(batch)

    def _flush(self, batch: list[StoredEvent]) -> None:
        if not batch:
            return
        with self._engine.begin() as connection:
            db = driver(connection)
            streams = Streams.load(db, [name for item in batch for name in streams_needed(item.stream, item.event)])
            accepted = []
            for item in batch:
                try:
                    _, state, late = streams.advance(item.stream, item.event, None)
                except WcacheError as error:
                    streams.rollback()
                    self._refused(item, error)
                    continue
                streams.keep()
                if late != item.late:
                    self._refused(item, None)
                accepted.append(Accepted(item.seq, item.occurred_ns, item.recorded_ns, late, item.stream, item.event, state))
            streams.write(db)
            project(db, accepted)


def compare(held: Connection, rebuilt: Engine) -> list[Difference]:
    """How the ledger's projections differ from rebuilt ones; at most MAX_DIFFERENCES a table."""
    with rebuilt.begin() as right:
        return [difference for table in schema.PROJECTIONS for difference in _compare_table(table, held, right)]


def _compare_table(table: Any, held: Connection, right: Connection) -> Iterator[Difference]:
    keys = [column.name for column in table.primary_key.columns]
    names = [*keys, *(column.name for column in table.columns if column.name not in keys)]
    columns = ", ".join(f'"{name}"' for name in names)
    order = ", ".join(f'"{name}"' for name in keys)
    sql = f"SELECT {columns} FROM {table.name} ORDER BY {order}"  # noqa: S608
    ours, theirs = iter(held.exec_driver_sql(sql)), iter(right.exec_driver_sql(sql))
    count = len(keys)
    have, want = next(ours, None), next(theirs, None)
    found = 0
    while (have is not None or want is not None) and found < MAX_DIFFERENCES:
        if want is None or (have is not None and have[:count] < want[:count]):
            assert have is not None  # noqa: S101
            yield Difference(table.name, "/".join(map(str, have[:count])), "extra")
            have, found = next(ours, None), found + 1
        elif have is None or want[:count] < have[:count]:
            yield Difference(table.name, "/".join(map(str, want[:count])), "missing")
            want, found = next(theirs, None), found + 1
        else:
            other = [name for name, left, right_value in zip(names, have, want, strict=True) if left != right_value]
            if other:
                yield Difference(table.name, "/".join(map(str, have[:count])), "differs in " + ", ".join(other))
                found += 1
            have, want = next(ours, None), next(theirs, None)


def replay(ledger: Ledger | Path | str) -> list[Difference]:
    """Rebuilds the projections of a ledger from one snapshot of it; returns where they differ: nowhere, in a sound ledger.

    Raises LedgerCorrupt for events that cannot be decoded; `verify` reports all of them instead.
    """
    path = ledger.path if isinstance(ledger, Ledger) else Path(ledger).absolute()
    reader = connect_reader(path)
    try:
        with scratch() as engine, translated(path), reader.begin() as held:
            rows = held.exec_driver_sql(f"SELECT {EVENT_COLUMNS} FROM event ORDER BY seq")  # noqa: S608
            Replayer(engine, lambda item, why: None).feed(map(stored_event, rows))
            return compare(held, engine)
    finally:
        reader.dispose()
