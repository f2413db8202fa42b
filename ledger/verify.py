"""Verifying a ledger: everything is rebuilt from the rows, and every problem is reported, by seq and class.

What this cannot see is said in the report: a chain alone does not show that the newest events were cut off, or that everything was
rewritten from some point on; only a signed checkpoint that lies elsewhere does.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import msgspec
from sqlalchemy import Connection, create_engine

from wcache.core.model.errors import LedgerCorrupt, LedgerError, NotFound, WcacheError
from wcache.ledger.against import Given, hold, sizes_signed
from wcache.ledger.continuity import check_segments, remarks, sizes_said
from wcache.ledger.database import UNREADABLE, meaning
from wcache.ledger.pool import BrokenPool, Examiner, Pool, helpers
from wcache.ledger.problem import Problem
from wcache.ledger.reader import Reader
from wcache.ledger.replay import Progress, Runner, Whole, examine_all
from wcache.ledger.segments import ORIGIN, History, read_history, whole_history
from wcache.ledger.stored import read_origin
from wcache.ledger.upgrade import create, require_current

__all__ = ["Problem", "Progress", "Report", "verify"]

POOL_EVENTS = 100_000  # below, helpers cost more than they save
SNAPSHOT_TRIES = 50
TRUNCATION_NOTE = "events cut off at the end, or a rewrite of everything after some seq, can only be seen against a signed checkpoint"


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
    """As `verify_to`."""
    return verify_to(ledger_path, None, progress, given)[0]


def verify_to(
    ledger_path: Path | str, size: int | None, progress: Progress | None = None, given: Given | None = None
) -> tuple[Report, bytes | None]:
    """Checks file, schema, seqs, versions, payload hashes, chain, payloads, state machines and projections of one snapshot, and that it is
    what was signed in the checkpoints that are `given`, and in those that it recorded.

    With it comes the root of the Merkle tree over the first `size` events; None where a row of these is missing or cannot be read.
    `progress` is called with (events done, events in all). Damage is reported, never raised; NotFound and LedgerUnavailable are raised.
    """
    path = Path(ledger_path).absolute()
    given = given or Given()
    report = Report(path=str(path), problems=[], notes=[] if given.checkpoints else [TRUNCATION_NOTE])
    try:
        reader = Reader(path)
    except NotFound:
        raise
    except LedgerError as error:
        if error.code == "ledger_unavailable":
            raise
        report.add(None, "file", error.what)
        return report, None
    root = None
    try:
        root = _verify(reader, report, progress, given, size)
    except UNREADABLE as error:
        report.add(None, "file", meaning(error, path).what)
    finally:
        reader.close()
    report.problems.sort(key=lambda problem: (problem.seq is not None, problem.seq or 0))
    return report, root


def _verify(reader: Reader, report: Report, progress: Progress | None, given: Given, size: int | None) -> bytes | None:
    reader.connection.begin()
    try:
        require_current(reader.connection, reader.path)
        report.origin = read_origin(reader.connection, reader.path)
        if not ORIGIN.fullmatch(report.origin):
            raise LedgerCorrupt(f"{report.origin!r} is no origin: that is hexadecimal digits, in lower case")
    except (WcacheError, *UNREADABLE, ValueError) as error:
        report.problems += reader.integrity()
        report.add(None, "schema", meaning(error, reader.path).what if isinstance(error, UNREADABLE) else str(error))
        return None
    _check_schema(reader.connection, report)
    history, odd, whole = _examine(reader, report.origin, progress, given, size)
    if odd is not None:
        report.add(None, "segment", odd)
    else:
        try:
            for seq, text in check_segments(reader.db, history, whole.trees):
                report.add(seq, "segment", text)
        except UNREADABLE:
            pass  # told by the check of the file
    report.notes += remarks(history)
    found = whole.found
    report.problems = [
        *(item for item in found.problems if item.seq is None),
        *report.problems,
        *(item for item in found.problems if item.seq),
    ]
    report.events, report.head_seq = found.events, found.last_seq
    report.head_chain = found.last_chain.hex() if found.last_chain is not None else ""
    for seq in whole.unexplained:
        report.add(seq, "payload", "the payload is missing, and no payload.redacted says why")
    first, count = found.backwards
    if count:
        report.notes.append(f"the clock went back {count} times, first at seq {first}: order is by seq")
    if found.redacted:
        report.notes.append(f"{len(found.redacted)} events are redacted, so projections were not compared")
    if odd is None:
        hold(reader.db, history, whole.trees, given, report.add, report.notes)
    for difference in whole.differences:
        report.add(None, "projection", f"{difference.table} {difference.key}: {difference.why}")
    return None if size is None else whole.trees.root(size)


def _history(reader: Reader, origin: str) -> tuple[History, str | None]:
    """What the ledger says of its own segments. Where that makes no sense, which is said then, it is read as if nothing were gone."""
    try:
        return read_history(reader.db, origin), None
    except LedgerCorrupt as error:
        return whole_history(origin), error.what
    except UNREADABLE:
        return whole_history(origin), None  # told by the check of the file


def _examine(reader: Reader, origin: str, progress: Progress | None, given: Given, size: int | None) -> tuple[History, str | None, Whole]:
    """With helpers where that is worth it; alone where they cannot be had."""

    def examine(runner: Runner) -> tuple[History, str | None, Whole]:
        history, odd = _history(reader, origin)
        sizes = sizes_said(history) | sizes_signed(reader.db, given) | ({size} if size is not None else set())
        return history, odd, examine_all(reader, history, runner, progress, file=True, sizes=sizes)

    count, _ = reader.size()
    number = helpers() if count >= POOL_EVENTS else 0
    if number:
        try:
            with Pool(reader.path, number) as pool:
                if _see_the_same(reader, pool):
                    return examine(pool)
        except (BrokenPool, OSError):
            pass
    reader.begin()
    return examine(Examiner(reader))


def _see_the_same(reader: Reader, pool: Pool) -> bool:
    """All readers begin anew until they see one state of the ledger. What was checked of the schema before holds for it: a migration
    waits for readers to be gone."""
    return any(set(pool.snapshots()) == {reader.begin()} for _ in range(SNAPSHOT_TRIES))


def _check_schema(connection: Connection, report: Report) -> None:
    """The tables and above all the append-only triggers must be the ones that the migrations make."""
    wanted, held = _wanted(), _objects(connection)
    for name in sorted({*wanted, *held}):
        if name not in held:
            report.add(None, "schema", f"{name} is missing")
        elif name not in wanted:
            report.add(None, "schema", f"{name} does not belong to the ledger")
        elif held[name] != wanted[name]:
            report.add(None, "schema", f"{name} was changed")


@cache
def _wanted() -> dict[str, str]:
    with create_engine("sqlite://").begin() as fresh:
        create(fresh)
        return _objects(fresh)


def _objects(connection: Connection) -> dict[str, str]:
    place = "CASE type WHEN 'table' THEN '' WHEN 'index' THEN '' ELSE rootpage END"  # a page where there must be none
    sql = f"SELECT type || ' ' || name, quote(sql) || quote(tbl_name) || typeof(type) || typeof(name) || {place} FROM sqlite_master"  # noqa: S608
    return {str(name): " ".join(str(text).split()) for name, text in connection.exec_driver_sql(sql)}
