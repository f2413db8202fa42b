"""Verifying a ledger: everything is rebuilt from the rows, and every problem is reported, by seq and class.

What this cannot see is said in the report: a chain alone does not show that the newest events were cut off, or that everything was
rewritten from some point on; only a signed checkpoint that lies elsewhere does.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
from sqlalchemy import Connection, Engine
from sqlalchemy.exc import DBAPIError

from wcache.core.model.errors import LedgerError, NotFound, WcacheError
from wcache.core.model.events import PayloadRedacted, stream_of
from wcache.ledger.against import Given, hold
from wcache.ledger.chain import Chain, payload_hash
from wcache.ledger.database import connect_reader, driver, meaning
from wcache.ledger.replay import Replayer, compare, scratch
from wcache.ledger.stored import EVENT_COLUMNS, StoredEvent, read_origin, stored_event
from wcache.ledger.upgrade import require_current

PROGRESS_EVENTS = 5000
SKIP_ROWS = 2_000  # how far to look for the next readable row behind a damaged page
BACKWARDS_NOTED_NS = 1_000_000_000
TRUNCATION_NOTE = "events cut off at the end, or a rewrite of everything after some seq, can only be seen against a signed checkpoint"
_SELECT = f"SELECT {EVENT_COLUMNS}, salt, payload_hash, chain FROM event WHERE seq"  # noqa: S608

Progress = Callable[[int, int], None]


class Problem(msgspec.Struct, frozen=True):
    """`cls` is one of: file, schema, gap, chain, payload, version, decode, stream, transition, late, projection; and against signed
    checkpoints: truncated, rewritten, origin, signature."""

    seq: int | None
    cls: str
    text: str


class Report(msgspec.Struct, kw_only=True):
    """`head_seq` and `head_chain` are what the file says; compare them with a checkpoint that lies elsewhere. `notes` are no problems:
    what is odd (a clock that went back), and what this cannot show."""

    path: str
    origin: str = ""
    events: int = 0
    head_seq: int = 0
    head_chain: str = ""
    problems: list[Problem] = []
    notes: list[str] = []

    @property
    def ok(self) -> bool:
        return not self.problems

    def add(self, seq: int | None, cls: str, text: str) -> None:
        self.problems.append(Problem(seq, cls, text))


def verify(ledger_path: Path | str, progress: Progress | None = None, given: Given | None = None) -> Report:
    """Checks file, schema, seqs, versions, payload hashes, chain, payloads, state machines and projections of one snapshot, and that it is
    what was signed in the checkpoints that are `given`, and in those that it recorded.

    `progress` is called with (events done, events in all). Damage is reported, never raised; NotFound and LedgerUnavailable are raised.
    """
    path = Path(ledger_path).absolute()
    given = given or Given()
    report = Report(path=str(path), problems=[], notes=[] if given.checkpoints else [TRUNCATION_NOTE])
    try:
        engine = connect_reader(path)
    except NotFound:
        raise
    except LedgerError as error:
        if error.code == "ledger_unavailable":
            raise
        report.add(None, "file", error.what)
        return report
    try:
        with engine.begin() as connection, scratch() as rebuilt:
            _verify(connection, rebuilt, report, progress, given)
    except (DBAPIError, sqlite3.Error) as error:
        report.add(None, "file", meaning(error, path).what)
    finally:
        engine.dispose()
    report.problems.sort(key=lambda problem: (problem.seq is not None, problem.seq or 0))
    return report


def _verify(connection: Connection, rebuilt: Engine, report: Report, progress: Progress | None, given: Given) -> None:
    _check_file(connection, report)
    try:
        require_current(connection, Path(report.path))
        report.origin = read_origin(connection, Path(report.path))
        bytes.fromhex(report.origin)
    except (WcacheError, ValueError) as error:
        report.add(None, "schema", str(error))
        return
    _check_schema(connection, rebuilt, report)

    def refused(item: StoredEvent, error: WcacheError | None) -> None:
        if error is None:
            report.add(item.seq, "late", f"{item.type} is flagged {'late' if item.late else 'in time'}, and was not")
        else:
            report.add(item.seq, "transition", str(error))

    rows = _Rows(connection, report, progress)
    Replayer(rebuilt, refused).feed(rows.checked())
    hold(driver(connection), Path(report.path), report.origin, given, report.add, report.notes)
    if rows.redacted:
        report.notes.append(f"{len(rows.redacted)} events are redacted, so projections were not compared")
        return
    for difference in compare(connection, rebuilt):
        report.add(None, "projection", f"{difference.table} {difference.key}: {difference.why}")


def _check_file(connection: Connection, report: Report) -> None:
    try:
        lines = [str(row[0]) for row in connection.exec_driver_sql("PRAGMA integrity_check")]
    except DBAPIError as error:
        lines = [meaning(error, Path(report.path)).what]
    for line in lines:
        if line != "ok":
            report.add(None, "file", line.replace("\n", " "))


def _objects(connection: Connection) -> dict[str, str]:
    rows = connection.exec_driver_sql("SELECT type || ' ' || name, sql FROM sqlite_master WHERE sql IS NOT NULL")
    return {name: " ".join(sql.split()) for name, sql in rows}


def _check_schema(connection: Connection, rebuilt: Engine, report: Report) -> None:
    """The tables and above all the append-only triggers must be the ones that the migrations make."""
    with rebuilt.begin() as fresh:
        wanted = _objects(fresh)
    held = _objects(connection)
    for name in sorted({*wanted, *held}):
        if name not in held:
            report.add(None, "schema", f"{name} is missing")
        elif name not in wanted:
            report.add(None, "schema", f"{name} does not belong to the ledger")
        elif held[name] != wanted[name] and "alembic_version" not in name:
            report.add(None, "schema", f"{name} was changed")


class _Rows:
    """The event rows in seq order, checked one by one; those that can be decoded go on to the replay."""

    def __init__(self, connection: Connection, report: Report, progress: Progress | None) -> None:
        self.redacted: set[int] = set()
        self._allowed: set[int] = set()
        self._connection = connection
        self._report = report
        self._progress = progress
        self._chain = Chain(report.origin)
        self._versions: dict[str, int] = {}
        self._newest_ns = 0
        self._backwards: list[int] = []

    def checked(self) -> Iterator[StoredEvent]:
        report = self._report
        total = self._count()
        previous_seq, previous = 0, self._chain.genesis
        for row in self._raw():
            seq, link = row[0], row[12]
            report.events += 1
            linked = seq == previous_seq + 1
            if not linked:
                report.add(seq, "gap", f"seq {previous_seq + 1} to {seq - 1} are missing")
            self._check_row(row, previous if linked else None)
            previous_seq, previous = seq, link
            event = self._decode(row)
            if event is not None:
                yield event
            if self._progress is not None and report.events % PROGRESS_EVENTS == 0:
                self._progress(report.events, total)
        report.head_seq, report.head_chain = previous_seq, previous.hex() if isinstance(previous, bytes) else ""
        for seq in sorted(self.redacted - self._allowed):
            report.add(seq, "payload", "the payload is missing, and no payload.redacted says why")
        if self._backwards:
            report.notes.append(f"the clock went back {len(self._backwards)} times, first at seq {self._backwards[0]}: order is by seq")
        if self._progress is not None:
            self._progress(report.events, total)

    def _count(self) -> int:
        try:
            return int(self._connection.exec_driver_sql("SELECT coalesce(max(seq), 0) FROM event").scalar_one())
        except DBAPIError:
            return 0

    def _raw(self) -> Iterator[Any]:
        """Rows, going on behind damaged pages."""
        raw: Any = self._connection.connection.dbapi_connection
        after = 0
        while True:
            try:
                # The driver's own cursor: a million rows feel what a result object costs for each.
                for found in raw.execute(f"{_SELECT} > ? ORDER BY seq", (after,)):
                    after = found[0]
                    yield found
                return
            except (DBAPIError, sqlite3.Error) as error:
                why = meaning(error, Path(self._report.path)).what
            first = after + 1
            readable = (row for row in map(self._row_at, range(first, first + SKIP_ROWS)) if row is not None)
            row = next(readable, None)
            until = "the end" if row is None else f"seq {row[0] - 1}"
            if row is None or row[0] > first:
                self._report.add(first, "file", f"rows from seq {first} to {until} cannot be read: {why}")
            if row is None:
                return
            after = row[0]
            yield row

    def _row_at(self, seq: int) -> Any:
        try:
            return self._connection.exec_driver_sql(f"{_SELECT} = ?", (seq,)).one_or_none()
        except (DBAPIError, sqlite3.Error):
            return None

    def _check_row(self, row: Any, previous: bytes | None) -> None:
        seq, stream, version, event_id, kind, schema, occurred_ns, recorded_ns, late, payload, salt, hashed, link = row
        add = self._report.add
        if recorded_ns < self._newest_ns - BACKWARDS_NOTED_NS:
            self._backwards.append(seq)
        self._newest_ns = max(self._newest_ns, recorded_ns) if recorded_ns >= self._newest_ns - BACKWARDS_NOTED_NS else recorded_ns
        if payload is None:
            self.redacted.add(seq)
        elif salt is None or payload_hash(salt, payload.encode("utf-8", "surrogatepass")) != hashed:
            add(seq, "payload", f"the payload of {kind} is not the one that was hashed")
        leaf = self._chain.leaf(seq, stream, version, kind, schema, event_id, occurred_ns, recorded_ns, bool(late), hashed)
        if previous is not None and Chain.link(previous, leaf) != link:
            add(seq, "chain", "the row is not the one that was chained: changed, replaced, or from another ledger")
        expected = self._versions.get(stream, 0) + 1
        if version != expected:
            add(seq, "version", f"{stream} has version {version} where {expected} belongs")
        self._versions[stream] = version

    def _decode(self, row: Any) -> StoredEvent | None:
        if row[9] is None:
            return None
        try:
            item = stored_event(row[:10])
        except (WcacheError, UnicodeError) as error:
            self._report.add(row[0], "decode", error.what if isinstance(error, WcacheError) else str(error))
            return None
        if stream_of(item.event) != item.stream:
            self._report.add(item.seq, "stream", f"{item.type} lies on {item.stream} and belongs to {stream_of(item.event)}")
            return None
        if isinstance(item.event, PayloadRedacted):
            self._allowed.add(item.event.target_seq)
        return item
