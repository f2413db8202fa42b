"""One state of a ledger, read through the driver: every question of a report is answered from the same snapshot."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from wcache.core.model.errors import LedgerCorrupt
from wcache.core.model.events import Event, decode_payload
from wcache.core.model.vocabulary import BELOW_PINNED
from wcache.ledger.database import connect_reader, driver, translated
from wcache.ledger.projection import MAX_IN, select_in
from wcache.ledger.report.model import Period, Row
from wcache.ledger.segments import History, carried_event, read_history, whole_history
from wcache.ledger.stored import StoredEvent, read_origin
from wcache.ledger.upgrade import require_current

IS_WRONG = "(proof = 'refuted' OR (asked_digest IS NOT NULL AND served_digest IS NOT NULL AND asked_digest <> served_digest))"
WEAK = "tier IN ({})".format(", ".join(f"'{tier.value}'" for tier in sorted(BELOW_PINNED)))


class Source:
    """A context manager. Raises what `Audit` raises. One thread at a time, but for `stop`."""

    def __init__(self, path: Path, period: Period) -> None:
        self.path = path
        self.period = period
        self._engine = connect_reader(path)
        try:
            with translated(path):
                self._connection = self._engine.connect()
                require_current(self._connection, path)  # begins the transaction that all else is read in
                self.db: sqlite3.Connection = driver(self._connection)
                self.origin = read_origin(self._connection, path)
                self.history = _history(self.db, self.origin)
                self._bodies = self.history.bodies()
                self._carried = {item.seq: item for item in self.history.carried}
                self.size = self.one("SELECT max(seq) FROM event")
        except BaseException:
            self._engine.dispose()
            raise

    def __enter__(self) -> Source:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.db.set_progress_handler(None, 0)  # the transaction has to end, also after `stop`
        self._connection.close()
        self._engine.dispose()

    def stop(self) -> None:
        """Whatever another thread asks of it, now or later, ends in LedgerCorrupt."""
        self.db.interrupt()
        self.db.set_progress_handler(lambda: 1, 1)

    def rows(self, sql: str, parameters: Sequence[object] = ()) -> list[Row]:
        with translated(self.path):
            cursor = self.db.execute(sql, tuple(parameters))
            names = [column[0] for column in cursor.description]
            return [dict(zip(names, row, strict=True)) for row in cursor]

    def tuples(self, sql: str, parameters: Sequence[object] = ()) -> Iterator[tuple[Any, ...]]:
        with translated(self.path):
            yield from self.db.execute(sql, tuple(parameters))

    def one(self, sql: str, parameters: Sequence[object] = ()) -> int:
        with translated(self.path):
            return int(self.db.execute(sql, tuple(parameters)).fetchone()[0] or 0)

    def decided(self) -> tuple[str, tuple[int, ...]]:
        """The condition on `attach` that its decision lies in the period, and its parameters."""
        since_ns, until_ns = self.period.since_ns, self.period.until_ns
        # `+` keeps SQLite from using the index, which is a detour where it leads to almost all rows.
        return ("+decided_ns < ?", (until_ns,)) if since_ns is None else ("decided_ns >= ? AND decided_ns < ?", (since_ns, until_ns))

    def events(self, seqs: Sequence[int]) -> Iterator[tuple[Row, Event | None]]:
        """Events by seq: `seq`, `type`, `occurred_ns`, `recorded_ns`, `late`, and what they say, or what was kept of it where it was
        redacted; None where nothing was. Those of dropped segments only where they were carried on."""
        sql = "SELECT seq, type, schema, occurred_ns, recorded_ns, late, payload FROM event WHERE seq IN"
        with translated(self.path):
            found = sorted(select_in(self.db, sql, seqs))  # type: ignore[arg-type]  # keys of any kind that the driver takes
        for seq in sorted(set(seqs) & self._carried.keys()):
            yield self._told(carried_event(self._carried[seq]))
        for seq, kind, schema, occurred_ns, recorded_ns, late, payload in found:
            about = {"seq": seq, "type": kind, "occurred_ns": occurred_ns, "recorded_ns": recorded_ns, "late": bool(late)}
            if payload is None:
                schema, payload = self._bodies.get(seq, (schema, None))
            yield about, None if payload is None else decode_payload(kind, schema, payload)

    def of_streams(self, streams: Sequence[str], types: Sequence[str]) -> Iterator[tuple[Row, Event | None]]:
        """As `events`, those of these types on these streams that were not late."""
        marks = ",".join("?" * len(types))
        wanted = set(streams)
        seqs = [item.seq for item in self.history.carried if item.stream in wanted and item.type in types and not item.late]
        for start in range(0, len(streams), MAX_IN):
            part = streams[start : start + MAX_IN]
            sql = f"SELECT seq FROM event WHERE type IN ({marks}) AND late = 0 AND stream IN ({','.join('?' * len(part))})"  # noqa: S608
            seqs += [seq for (seq,) in self.tuples(sql, (*types, *part))]
        yield from self.events(seqs)

    @staticmethod
    def _told(item: StoredEvent) -> tuple[Row, Event]:
        about = {"seq": item.seq, "type": item.type, "occurred_ns": item.occurred_ns, "recorded_ns": item.recorded_ns, "late": item.late}
        return about, item.event


def _history(db: sqlite3.Connection, origin: str) -> History:
    """A ledger whose own account of itself is damaged is read as it lies; verification says what is wrong with it."""
    try:
        return read_history(db, origin)
    except LedgerCorrupt:
        return whole_history(origin)
