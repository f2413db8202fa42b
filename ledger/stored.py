"""Events as they go into the ledger and come out of it, and the reading side that every user shares."""

from __future__ import annotations

import re
import sqlite3
import time
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
from sqlalchemy import Connection, Engine

from wcache.core.model.errors import EventIdReused, LedgerCorrupt, LedgerError
from wcache.core.model.events import Event, decode_payload, encode_payload, stream_of
from wcache.ledger import chain
from wcache.ledger.database import translated
from wcache.ledger.projection import select_in

PAGE_EVENTS = 2000
SQLITE_INTEGER_MAX = (1 << 63) - 1
_LONG_NUMBER = re.compile(rb"[:,\[]-?(?:9[2-9]\d{17}|\d{20})")  # worth a look; times of this century are below it


class NewEvent(msgspec.Struct, frozen=True, kw_only=True):
    """An event to be appended. The same `event_id` again is the same event; `expected_version` is the stream's version before it
    (0: the stream must be new; None: whatever it is). `occurred_ns` is when it happened, by the clock of who saw it."""

    event: Event
    event_id: str = msgspec.field(default_factory=lambda: uuid.uuid4().hex)
    expected_version: int | None = None
    occurred_ns: int = msgspec.field(default_factory=lambda: time.time_ns())  # looked up when it is called: a test may hold the clock


Unit = tuple[NewEvent, ...]
"""Events that are appended together or not at all."""


class StoredEvent(msgspec.Struct, frozen=True, kw_only=True):
    """An event as the ledger holds it. Order is by `seq`; the two times are what two clocks said."""

    seq: int
    stream: str
    version: int
    event_id: str
    type: str
    schema: int
    occurred_ns: int
    recorded_ns: int
    late: bool
    event: Event


class Prepared(msgspec.Struct, frozen=True):
    new: NewEvent
    stream: str
    payload: bytes


def prepare(new: NewEvent) -> Prepared:
    """Raises LedgerError for what SQLite cannot hold or what nobody could read back: it would take the units beside it down."""
    try:
        payload = encode_payload(new.event)
        stream = stream_of(new.event)
        stream.encode()
        new.event_id.encode()
    except (UnicodeEncodeError, msgspec.MsgspecError, TypeError, OverflowError, ValueError) as error:
        raise LedgerError(f"cannot be stored: {error}", where=new.event.type, remedy="names in events must be valid UTF-8") from error
    if not new.event_id or not -SQLITE_INTEGER_MAX <= new.occurred_ns <= SQLITE_INTEGER_MAX:
        raise LedgerError("an event needs an id, and a time that fits 64 bits", where=new.event.type)
    try:
        decode_payload(new.event.type, new.event.schema, payload)
    except LedgerCorrupt as error:  # JSON has no infinities, so they become null
        raise LedgerError(f"cannot be stored: it could not be read back: {error.what}", where=new.event.type) from error
    if _LONG_NUMBER.search(payload) and _widest(msgspec.json.decode(payload)) > SQLITE_INTEGER_MAX:
        raise LedgerError("cannot be stored: a number in it does not fit 64 bits", where=new.event.type)
    return Prepared(new, stream, payload)


def _widest(value: Any) -> int:
    """The greatest magnitude of a whole number in a tree of builtins."""
    found, todo = 0, [value]
    while todo:
        item = todo.pop()
        if isinstance(item, dict):
            todo.extend(item.values())
        elif isinstance(item, list):
            todo.extend(item)
        elif isinstance(item, int):
            found = max(found, abs(item))
    return found


class Present(msgspec.Struct, frozen=True):
    """An event that is already there under an id."""

    seq: int
    stream: str
    payload: bytes | None

    def same(self, item: Prepared) -> int:
        if self.stream == item.stream:
            if self.payload is not None and self.payload == item.payload:
                return self.seq
            if self.payload is None:  # redacted, salt and all: nothing is left to compare with, and ids are random
                return self.seq
        raise EventIdReused(
            f"event id {item.new.event_id} is seq {self.seq} with another body", where=item.stream, remedy="give every event its own id"
        )


def find_ids(db: sqlite3.Connection, ids: Sequence[str]) -> dict[str, Present]:
    sql = "SELECT event_id, seq, stream, payload FROM event WHERE event_id IN"
    return {
        event_id: Present(seq, stream, None if payload is None else payload.encode())
        for event_id, seq, stream, payload in select_in(db, sql, ids)
    }


def head_of(db: sqlite3.Connection, links: chain.Chain) -> tuple[int, bytes]:
    row = db.execute("SELECT seq, chain FROM event ORDER BY seq DESC LIMIT 1").fetchone()
    return (0, links.genesis) if row is None else (int(row[0]), bytes(row[1]))


def read_origin(connection: Connection, path: Path) -> str:
    row = connection.exec_driver_sql("SELECT value FROM meta WHERE key = 'origin'").one_or_none()
    if row is None:
        raise LedgerCorrupt("it has no origin", where=str(path))
    return str(row[0])


EVENT_COLUMNS = "seq, stream, version, event_id, type, schema, occurred_ns, recorded_ns, late, payload"


def stored_event(row: Sequence[Any]) -> StoredEvent:
    """An event from a row of EVENT_COLUMNS. Raises LedgerCorrupt where the payload cannot be decoded."""
    seq, stream, version, event_id, kind, schema, occurred_ns, recorded_ns, late, payload = row
    try:
        event = decode_payload(kind, schema, payload)
    except LedgerCorrupt as error:
        raise LedgerCorrupt(error.what, where=f"seq {seq}", remedy=error.remedy) from error
    return StoredEvent(
        seq=seq, stream=stream, version=version, event_id=event_id, type=kind, schema=schema, occurred_ns=occurred_ns,
        recorded_ns=recorded_ns, late=bool(late), event=event,
    )  # fmt: skip


def newest_of_ledger(db: sqlite3.Connection, kind: str) -> StoredEvent | None:
    """The newest event of a type that lies on the ledger's own stream."""
    sql = f"SELECT {EVENT_COLUMNS} FROM event WHERE stream = 'ledger' AND type = ? AND payload IS NOT NULL ORDER BY version DESC LIMIT 1"  # noqa: S608
    row = db.execute(sql, (kind,)).fetchone()
    return None if row is None else stored_event(row)


def iterate_events(
    engine: Engine, path: Path, after_seq: int = 0, stream: str | None = None, types: Sequence[str] | None = None
) -> Iterator[StoredEvent]:
    """`Ledger.events` on a reading engine: every page is a transaction of its own. Redacted events are skipped."""
    clauses: list[str] = ["seq > ?", "payload IS NOT NULL"]
    fixed: list[str] = []
    if stream is not None:
        clauses.append("stream = ?")
        fixed.append(stream)
    if types is not None:
        clauses.append(f"type IN ({','.join('?' * len(types))})")
        fixed.extend(types)
    sql = f"SELECT {EVENT_COLUMNS} FROM event WHERE {' AND '.join(clauses)} ORDER BY seq LIMIT {PAGE_EVENTS}"  # noqa: S608
    while True:
        with translated(path), engine.begin() as connection:
            page = connection.exec_driver_sql(sql, (after_seq, *fixed)).all()
        yield from map(stored_event, page)
        if len(page) < PAGE_EVENTS:
            return
        after_seq = page[-1][0]
