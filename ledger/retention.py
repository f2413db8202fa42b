"""Dropping closed segments that are older than the policy, whole: what remains begins with the `segment.opened` that follows them.

What still lives is carried: the events of every stream that goes on, and of those that they name. They are in `segment.dropped`, as they
were stored, so that states and projections can be rebuilt for ever from the file alone.
"""

from __future__ import annotations

import itertools
import os
import sqlite3
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import msgspec

from wcache.core.model import events as ev
from wcache.core.model.errors import UsageError
from wcache.ledger.database import connect_reader, driver, translated
from wcache.ledger.moment import utc
from wcache.ledger.rebuild import Progress, ignore, offline, write_anew
from wcache.ledger.segments import History, Segment, carried_event, history_of, list_segments, live_streams, readable
from wcache.ledger.store import NewEvent
from wcache.ledger.stored import EVENT_COLUMNS, StoredEvent, stored_event
from wcache.ledger.upgrade import require_current

DAY_NS = 86_400_000_000_000
KEEP_DAYS = 400
KEEP_DAYS_LEAST = 184
"""Six calendar months are at most 184 days."""


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """A segment of the file, and from when on it may be dropped (None: it is still being written)."""

    segment: Segment
    droppable_ns: int | None


class Retention(msgspec.Struct, frozen=True, kw_only=True):
    """What a ledger covers: the spans that are gone, the segments that are there, and since when it has everything."""

    origin: str
    since_ns: int | None
    spans: tuple[ev.DroppedSpan, ...]
    segments: tuple[Kept, ...]
    restored: tuple[tuple[int, str], ...]
    redacted: int
    keep_days: int


def retention(path: Path | str, keep_days: int = KEEP_DAYS) -> Retention:
    """Of the ledger at `path`, beside a daemon. Raises UsageError below six months, NotFound, LedgerError."""
    path = Path(path).absolute()
    engine = connect_reader(path)
    try:
        with translated(path), engine.begin() as connection:
            require_current(connection, path)
            history = history_of(connection, path)
            segments = list_segments(driver(connection), history)
    finally:
        engine.dispose()
    if keep_days < KEEP_DAYS_LEAST:
        first = next((one.to_ns + KEEP_DAYS_LEAST * DAY_NS for one in segments if one.closed), None)
        when = f"; the oldest closed segment may go from {utc(first)} on" if first is not None else ""
        what = f"events are kept for at least {KEEP_DAYS_LEAST} days, which is six months{when}"
        raise UsageError(what, where=f"{keep_days} days", remedy=f"give {KEEP_DAYS_LEAST} or more")
    return Retention(
        origin=history.origin,
        since_ns=segments[0].from_ns if segments else None,
        spans=history.spans,
        segments=tuple(Kept(segment=one, droppable_ns=one.to_ns + keep_days * DAY_NS if one.closed else None) for one in segments),
        restored=history.origins,
        redacted=len(history.redacted),
        keep_days=keep_days,
    )


class Dropped(msgspec.Struct, frozen=True, kw_only=True):
    """What a drop removed (None: nothing is old enough, and from `next_ns` on something will be), what it carried on, and where it is on
    record."""

    span: ev.DroppedSpan | None
    segments: int = 0
    carried: int = 0
    recorded_seq: int | None = None
    next_ns: int | None = None


def droppable(path: Path | str, keep_days: int = KEEP_DAYS, now_ns: int | None = None) -> Dropped | None:
    """What `drop_segments` would answer where nothing is old enough; None where something is. Raises as `retention`."""
    found = retention(path, keep_days)
    if _old([item.segment for item in found.segments], keep_days, now_ns):
        return None
    return Dropped(span=None, next_ns=min((item.droppable_ns for item in found.segments if item.droppable_ns), default=None))


def drop_segments(path: Path | str, keep_days: int = KEEP_DAYS, progress: Progress = ignore, now_ns: int | None = None) -> Dropped:
    """Drops every closed segment whose newest event is older than `keep_days`, offline: the ledger is written anew. Where nothing is old
    enough it only says so, beside a daemon too.

    Raises UsageError below six months, LedgerUnavailable where somebody has the ledger open, LedgerCorrupt where it is damaged: a drop is
    no way to get rid of a part that does not verify. Then nothing has changed.
    """
    nothing = droppable(path, keep_days, now_ns)
    if nothing is not None:
        return nothing
    with offline(path, progress) as alone:
        with alone.engine.begin() as connection:
            history = history_of(connection, alone.path)
            old = _old(list_segments(driver(connection), history), keep_days, now_ns)
        last_seq = old[-1].last_seq
        root = next(event.root for seq, event in history.opened if seq == last_seq + 1)
        alone.require_sound(alone.path, "verify")
        with alone.engine.begin() as connection:
            db = driver(connection)
            carried = carry(db, history, last_seq)
            span = _span(db, history, last_seq, root, keep_days)
            newest = "SELECT coalesce(max(version), 0) FROM event WHERE stream = 'ledger' AND seq <= ?"
            versions = {"ledger": max(db.execute(newest, (last_seq,)).fetchone()[0], history.versions.get("ledger", 0))}
        event = ev.SegmentDropped(spans=(*history.spans, span), carried=tuple(carried), versions=versions)
        after = msgspec.structs.replace(history, first_seq=last_seq + 1, carried=event.carried, versions=versions)
        (recorded,) = write_anew(alone, after, frozenset(), [NewEvent(event=event)])
        alone.exchange()
    return Dropped(span=span, segments=len(old), carried=len(carried), recorded_seq=recorded)


def _old(segments: Sequence[Segment], keep_days: int, now_ns: int | None) -> list[Segment]:
    """From the front only: what remains has no holes."""
    oldest_ns = (time.time_ns() if now_ns is None else now_ns) - keep_days * DAY_NS
    return list(itertools.takewhile(lambda one: one.closed and one.to_ns <= oldest_ns, segments))


def _span(db: sqlite3.Connection, history: History, last_seq: int, root: str, keep_days: int) -> ev.DroppedSpan:
    from_ns, to_ns = db.execute("SELECT min(recorded_ns), max(recorded_ns) FROM event WHERE seq <= ?", (last_seq,)).fetchone()
    events = dict(db.execute("SELECT type, count(*) FROM event WHERE seq <= ? GROUP BY type ORDER BY type", (last_seq,)))
    sql = "SELECT decision, count(*) FROM attach WHERE first_seq BETWEEN ? AND ? GROUP BY decision ORDER BY decision"
    decisions = dict(db.execute(sql, (history.first_seq, last_seq)))
    return ev.DroppedSpan(
        first_seq=history.first_seq, last_seq=last_seq, from_ns=from_ns, to_ns=to_ns, at_ns=time.time_ns(), uid=os.geteuid(),
        keep_days=keep_days, root=root, events=events, decisions=decisions,
    )  # fmt: skip


# --- what is carried ------------------------------------------------------------------------------------------------------------


def carry(db: sqlite3.Connection, history: History, last_seq: int) -> list[ev.CarriedEvent]:
    """The events up to `last_seq` that what remains stands on: whole streams that are live, that have events behind it, that deny a
    checkpoint for ever, and, over and over, those that these name."""
    there = {stream for (stream,) in db.execute("SELECT DISTINCT stream FROM event WHERE seq <= ?", (last_seq,))}
    there |= {item.stream for item in history.carried}
    there.discard("ledger")
    wanted = {stream for (stream,) in db.execute("SELECT DISTINCT stream FROM event WHERE seq > ?", (last_seq,))}
    wanted |= live_streams(db).keys()
    denying = "SELECT stream FROM event JOIN contradiction USING (seq)"
    wanted |= {stream for (stream,) in db.execute(denying)} | {item.stream for item in history.carried if item.type == "verify.failed"}
    for event in _events(db, history, last_seq):
        wanted |= names(event)
    found: dict[str, list[ev.CarriedEvent]] = {}
    while wanted := (wanted & there) - found.keys():
        stream = min(wanted)
        found[stream] = list(_stream(db, history, stream, last_seq))
        for item in found[stream]:
            wanted |= names(carried_event(item).event)
    return sorted((item for items in found.values() for item in items), key=lambda item: item.seq)


def names(event: ev.Event) -> set[str]:
    """The streams that an event names, and that must be known for it to be understood."""
    if isinstance(event, ev.AttachDecided):
        return {f"residency/{event.residency}", *(f"fingerprint/{item.fingerprint}" for item in event.evidence)}
    if isinstance(event, ev.LoadStarted):
        return {f"daemon/{event.instance}"}
    if isinstance(event, ev.LoadCompleted):
        return {f"residency/{event.source}", *(f"fingerprint/{item}" for item in event.fingerprints)}
    if isinstance(event, ev.TrustGranted):
        grant = event.grant
        return {f"fingerprint/{grant.fingerprint}", f"residency/{grant.residency}", f"daemon/{grant.instance}"}
    if isinstance(event, ev.FingerprintRecorded):
        return {f"fingerprint/{event.evidence.reuses}", f"trust/{event.evidence.grant}"}
    return set()


_NAMING: tuple[type[ev.Event], ...] = (ev.AttachDecided, ev.LoadStarted, ev.LoadCompleted, ev.TrustGranted, ev.FingerprintRecorded)


def _events(db: sqlite3.Connection, history: History, after_seq: int) -> Iterator[ev.Event]:
    bodies = history.bodies()
    marks = ",".join("?" * len(_NAMING))
    sql = f"SELECT {EVENT_COLUMNS} FROM event WHERE seq > ? AND type IN ({marks}) ORDER BY seq"  # noqa: S608
    for row in db.execute(sql, (after_seq, *(kind.type for kind in _NAMING))):
        yield stored_event(readable(row, bodies)).event


def _stream(db: sqlite3.Connection, history: History, stream: str, last_seq: int) -> Iterable[ev.CarriedEvent]:
    yield from (item for item in history.carried if item.stream == stream)
    bodies = history.bodies()
    sql = f"SELECT {EVENT_COLUMNS} FROM event WHERE stream = ? AND seq <= ? ORDER BY seq"  # noqa: S608
    for row in db.execute(sql, (stream, last_seq)).fetchall():
        yield _carried(stored_event(readable(row, bodies)), readable(row, bodies))


def _carried(item: StoredEvent, row: tuple[object, ...]) -> ev.CarriedEvent:
    assert isinstance(row[9], str)  # noqa: S101 - `readable` would have refused it
    return ev.CarriedEvent(
        seq=item.seq, stream=item.stream, version=item.version, event_id=item.event_id, type=item.type, schema=item.schema,
        occurred_ns=item.occurred_ns, recorded_ns=item.recorded_ns, late=item.late, body=msgspec.json.decode(row[9]),
    )  # fmt: skip
