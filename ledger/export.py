"""A ledger as JSON lines, with everything that somebody without wcache needs to check it: docs/reference/ledger-format.md.

The rows are given as they lie there, sound or not: an export is evidence, and whoever checks it recomputes every hash.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from wcache.core.model.errors import LedgerCorrupt, UsageError
from wcache.ledger.leaves import Progress, head_seq
from wcache.ledger.reading import reading
from wcache.ledger.segments import History, read_history

FORMAT = "wcache/export/1"
PAGE_EVENTS = 2000
_COLUMNS = (
    "seq", "stream", "version", "event_id", "type", "schema", "occurred_ns", "recorded_ns", "late", "payload", "salt", "payload_hash",
    "chain",
)  # fmt: skip
_SELECT = f"SELECT {', '.join(_COLUMNS)} FROM event WHERE seq > ? AND seq <= ? ORDER BY seq LIMIT ?"  # noqa: S608


def export(ledger: Path | str, progress: Progress | None = None) -> Iterator[bytes]:
    """The lines, without their newlines: one of kind `ledger`, one of kind `event` a row up to what is the newest one now, one of kind
    `end`. Read in pages, so that a running daemon is not kept waiting.

    Raises NotFound, LedgerError; LedgerCorrupt where rows cannot be read at all.
    """
    with reading(Path(ledger).absolute()) as (db, origin):
        yield from _lines(db, origin, progress)


def export_to(ledger: Path | str, target: Path | BinaryIO, progress: Progress | None = None) -> int:
    """Writes the export to an open file or, durably, to a new one; returns the number of events. Raises as `export`, and UsageError where
    the target exists or cannot be written; then nothing is left there."""
    if not isinstance(target, Path):
        return _write(ledger, target, progress)
    try:
        with target.open("xb") as file:
            try:
                events = _write(ledger, file, progress)
                file.flush()
                os.fsync(file.fileno())
            except BaseException:
                target.unlink()
                raise
    except FileExistsError:
        raise UsageError("the target exists", where=str(target), remedy="choose a new file: an export never overwrites") from None
    except OSError as error:
        raise UsageError(f"cannot be written: {os.strerror(error.errno or 0)}", where=str(target)) from error
    return events


def _write(ledger: Path | str, file: BinaryIO, progress: Progress | None) -> int:
    lines = 0
    for line in export(ledger, progress):
        file.write(line + b"\n")
        lines += 1
    return lines - 2  # without the first and the last


def _lines(db: sqlite3.Connection, origin: str, progress: Progress | None) -> Iterator[bytes]:
    encode = msgspec.json.Encoder().encode
    history, until = read_history(db, origin), head_seq(db)
    yield encode(
        {
            "kind": "ledger", "format": FORMAT, "origin": origin, "after_seq": history.frontier.size,
            "chain": history.chain_before.hex(), "frontier": [node.hex() for node in history.frontier.nodes],
        }
    )  # fmt: skip
    after, events = history.frontier.size, 0
    while rows := db.execute(_SELECT, (after, until, PAGE_EVENTS)).fetchall():
        if rows[-1][0] <= after:
            raise LedgerCorrupt("its rows are out of order", where=f"seq {after}")
        for row in rows:
            yield encode(event_line(row, history, origin))
        after, events = rows[-1][0], events + len(rows)
        if progress is not None:
            progress(after, until)
    yield encode({"kind": "end", "events": events, "head_seq": after})


def event_line(row: Any, history: History, origin: str) -> dict[str, Any]:
    """One row as a line says it: hashes and salt in hex, the payload as the text that was hashed, and the origin that it was chained under
    where that is another than `origin`."""
    line = {"kind": "event", **dict(zip(_COLUMNS, row, strict=True))}
    for name in ("salt", "payload_hash", "chain"):
        value = line[name]
        line[name] = value.hex() if isinstance(value, bytes) else value
    chained = history.origin_at(line["seq"])
    return line if chained == origin else {**line, "origin": chained}


def event_row(db: sqlite3.Connection, seq: int) -> Any:
    """The row of one event in the order that `event_line` wants, or None."""
    return db.execute(f"SELECT {', '.join(_COLUMNS)} FROM event WHERE seq = ?", (seq,)).fetchone()  # noqa: S608
