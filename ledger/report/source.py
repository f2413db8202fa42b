"""One state of a ledger, read through the driver: every question of a report is answered from the same snapshot."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from wcache.core.model.events import Event, decode_payload
from wcache.ledger.audit import WEAK_TIERS
from wcache.ledger.database import connect_reader, driver, translated
from wcache.ledger.projection import select_in
from wcache.ledger.report.model import Period, Row
from wcache.ledger.stored import read_origin
from wcache.ledger.upgrade import require_current

IS_WRONG = "(proof = 'refuted' OR (asked_digest IS NOT NULL AND served_digest IS NOT NULL AND asked_digest <> served_digest))"
WEAK = "tier IN ({})".format(", ".join(f"'{tier.value}'" for tier in WEAK_TIERS))


class Source:
    """A context manager. Raises what `Audit` raises. One thread at a time."""

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
                self.size = self.one("SELECT max(seq) FROM event")
        except BaseException:
            self._engine.dispose()
            raise

    def __enter__(self) -> Source:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._connection.close()
        self._engine.dispose()

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
        return ("decided_ns < ?", (until_ns,)) if since_ns is None else ("decided_ns >= ? AND decided_ns < ?", (since_ns, until_ns))

    def events(self, seqs: Sequence[int]) -> Iterator[tuple[Row, Event | None]]:
        """Events by seq: `seq`, `type`, `occurred_ns`, `recorded_ns`, `late`, and what they say; None where that was redacted."""
        sql = "SELECT seq, type, schema, occurred_ns, recorded_ns, late, payload FROM event WHERE seq IN"
        with translated(self.path):
            found = sorted(select_in(self.db, sql, seqs))  # type: ignore[arg-type]  # keys of any kind that the driver takes
        for seq, kind, schema, occurred_ns, recorded_ns, late, payload in found:
            about = {"seq": seq, "type": kind, "occurred_ns": occurred_ns, "recorded_ns": recorded_ns, "late": bool(late)}
            yield about, None if payload is None else decode_payload(kind, schema, payload)
