"""Segments of a ledger, and what its own events say about how to read the others: what was dropped, redacted, restored.

A segment begins with `segment.opened` (the first one with seq 1) and ends where the next one begins. `segment.opened` says everything that
must be known of what comes before it, so that a file can begin there; `segment.dropped` carries the events that what remains stands on.
"""

from __future__ import annotations

import os
import re
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
from sqlalchemy import Connection

from wcache.core.model import events as ev
from wcache.core.model.errors import LedgerCorrupt
from wcache.core.model.machines import LEASED, LIVE_RESIDENCY, UNFINISHED
from wcache.ledger.chain import Chain
from wcache.ledger.database import connect_reader, driver, translated
from wcache.ledger.leaves import leaf_hashes
from wcache.ledger.merkle import Frontier
from wcache.ledger.store import Ledger, NewEvent, Unit
from wcache.ledger.stored import StoredEvent, head_of, read_origin

_OWN = (ev.SegmentOpened.type, ev.SegmentClosed.type, ev.SegmentDropped.type, ev.PayloadRedacted.type)

ORIGIN = _HEX = re.compile("(?:[0-9a-f]{2})+")

OPEN_ATTACHES = tuple(sorted(state.value for state in UNFINISHED | LEASED))
"""States of attaches that something is still to happen to."""


class Past(msgspec.Struct, frozen=True, kw_only=True):
    """The part of a History that every process needs that checks rows; texts are bytes, as they are read there. `carried`: of attaches."""

    last_seq: int = 0
    last_chain: bytes = b""
    origins: list[tuple[int, str]] = []
    carried: dict[str, list[tuple[Any, ...]]] = {}
    bodies: dict[int, tuple[int, bytes]] = {}

    def origin_at(self, seq: int, newest: str) -> str:
        return next((origin for until, origin in self.origins if seq < until), newest)

    def kept(self, row: tuple[Any, ...]) -> tuple[Any, ...]:
        """A row of EVENT_COLUMNS as it was, or with what a redaction kept."""
        return readable(row, self.bodies) if row[9] is None and row[0] in self.bodies else row


class History(msgspec.Struct, frozen=True, kw_only=True):
    """How to read the rows of one file.

    `first_seq` is that of its first row; `chain_before` is what that row's chain hash links to, and `frontier` stands for all leaves
    before it. `origins`: the rows below each seq are chained under that origin, all others under `origin`. `carried` are the events of
    dropped segments that have to be replayed before the first row; `versions` those of streams that went on meanwhile without being
    carried. `redacted`: seq of a redacted event -> seq of the event that says so, and that event.
    """

    origin: str
    first_seq: int
    chain_before: bytes
    frontier: Frontier
    origins: tuple[tuple[int, str], ...] = ()
    opened: tuple[tuple[int, ev.SegmentOpened], ...] = ()
    closed: tuple[tuple[int, ev.SegmentClosed], ...] = ()
    spans: tuple[ev.DroppedSpan, ...] = ()
    dropped_seq: int | None = None
    carried: tuple[ev.CarriedEvent, ...] = ()
    versions: dict[str, int] = {}
    redacted: dict[int, tuple[int, ev.PayloadRedacted]] = {}

    def origin_at(self, seq: int) -> str:
        """What the leaf of this seq is hashed under."""
        return next((origin for until, origin in self.origins if seq < until), self.origin)

    def end_of(self, origin: str) -> int | None:
        """The newest seq that this origin may have; None for the one that goes on. Raises KeyError for one that this ledger never had."""
        if origin == self.origin:
            return None
        return {name: until - 1 for until, name in self.origins}[origin]

    def bodies(self) -> dict[int, tuple[int, str]]:
        """Seq of a redacted event -> (schema, JSON) of what is kept of its payload."""
        return {target: (item.body_schema, encode_body(item.body)) for target, (_, item) in self.redacted.items() if item.body}

    def past(self) -> Past:
        """What whoever reads attaches block by block has to know of this."""
        carried: dict[str, list[tuple[Any, ...]]] = {}
        for item in self.carried:
            if item.stream.startswith("attach/"):
                carried.setdefault(item.stream, []).append(carried_row(item, text=str.encode))
        return Past(
            last_seq=self.first_seq - 1,
            last_chain=self.chain_before,
            origins=list(self.origins),
            carried=carried,
            bodies={seq: (schema, body.encode()) for seq, (schema, body) in self.bodies().items()},
        )

    def carried_events(self) -> Iterator[StoredEvent]:
        """Raises LedgerCorrupt for one that cannot be read."""
        return map(carried_event, self.carried)


def encode_body(body: dict[str, Any]) -> str:
    return msgspec.json.encode(body, order="deterministic").decode()


def carried_event(item: ev.CarriedEvent) -> StoredEvent:
    return StoredEvent(
        seq=item.seq, stream=item.stream, version=item.version, event_id=item.event_id, type=item.type, schema=item.schema,
        occurred_ns=item.occurred_ns, recorded_ns=item.recorded_ns, late=item.late,
        event=ev.decode_payload(item.type, item.schema, encode_body(item.body)),
    )  # fmt: skip


def whole_history(origin: str) -> History:
    """Of a ledger that was never shortened, redacted or restored."""
    return History(origin=origin, first_seq=1, chain_before=Chain(origin).genesis, frontier=Frontier())


def carried_row(item: ev.CarriedEvent, text: Callable[[str], Any] = str) -> tuple[Any, ...]:
    """Its EVENT_COLUMNS."""
    return (
        item.seq, text(item.stream), item.version, text(item.event_id), text(item.type), item.schema, item.occurred_ns, item.recorded_ns,
        int(item.late), text(encode_body(item.body)),
    )  # fmt: skip


def readable(row: tuple[Any, ...], bodies: Mapping[int, tuple[int, Any]]) -> tuple[Any, ...]:
    """A row of EVENT_COLUMNS whose payload is what was kept of it, where it was redacted. Raises LedgerCorrupt where nothing was."""
    if row[9] is not None:
        return row
    if row[0] not in bodies:
        raise LedgerCorrupt("its payload is missing, and nothing of it was kept", where=f"seq {row[0]}")
    body_schema, body = bodies[row[0]]
    return (*row[:5], body_schema, *row[6:9], body)


def carried_of(db: sqlite3.Connection, stream: str) -> list[StoredEvent]:
    """The events of a stream that were carried over the newest drop, in their order. Raises LedgerCorrupt."""
    (first_seq,) = db.execute("SELECT coalesce(min(seq), 1) FROM event").fetchone()
    newest = "SELECT schema, payload FROM event WHERE stream = 'ledger' AND type = ? AND payload IS NOT NULL ORDER BY seq DESC LIMIT 1"
    row = db.execute(newest, (ev.SegmentDropped.type,)).fetchone() if first_seq > 1 else None
    if row is None:
        return []
    dropped = ev.decode_payload(ev.SegmentDropped.type, *row)
    assert isinstance(dropped, ev.SegmentDropped)  # noqa: S101
    return [carried_event(item) for item in dropped.carried if item.stream == stream]


def read_history(db: sqlite3.Connection, origin: str) -> History:
    """Of the ledger called `origin`; to be called within the transaction that reads the rows.

    What cannot be decoded is left out: whoever verifies finds it as a row like any other. Raises LedgerCorrupt where the first row is
    not seq 1 and does not say what came before it, or where an origin cannot be one.
    """
    opened: list[tuple[int, ev.SegmentOpened]] = []
    closed: list[tuple[int, ev.SegmentClosed]] = []
    dropped: list[tuple[int, ev.SegmentDropped]] = []
    redacted: dict[int, tuple[int, ev.PayloadRedacted]] = {}
    sql = f"SELECT seq, type, schema, payload FROM event WHERE stream = 'ledger' AND payload IS NOT NULL AND type IN ({_marks(_OWN)})"  # noqa: S608
    for seq, kind, schema, payload in db.execute(f"{sql} ORDER BY seq", _OWN):
        try:
            event = ev.decode_payload(kind, schema, payload)
        except LedgerCorrupt:
            continue
        if isinstance(event, ev.SegmentOpened):
            opened.append((seq, event))
        elif isinstance(event, ev.SegmentClosed):
            closed.append((seq, event))
        elif isinstance(event, ev.SegmentDropped) and event.spans:
            dropped.append((seq, event))
        elif isinstance(event, ev.PayloadRedacted):
            redacted[event.target_seq] = (seq, event)
    origins: list[tuple[int, str]] = []
    for seq, opening_event in reversed(opened):
        if opening_event.origin and opening_event.origin != (origins[0][1] if origins else origin):
            origins.insert(0, (seq, opening_event.origin))
            if not _HEX.fullmatch(opening_event.origin):
                raise LedgerCorrupt(f"seq {seq} names an origin that cannot be one")
    (first_seq,) = db.execute("SELECT coalesce(min(seq), 1) FROM event").fetchone()
    chain_before, frontier = Chain(origins[0][1] if origins else origin).genesis, Frontier()
    if first_seq != 1:
        chain_before, frontier = _before(first_seq, dict(opened).get(first_seq))
    why = next(((seq, event) for seq, event in dropped if event.spans[-1].last_seq == first_seq - 1), None)
    return History(
        origin=origin,
        first_seq=first_seq,
        chain_before=chain_before,
        frontier=frontier,
        origins=tuple(origins),
        opened=tuple(opened),
        closed=tuple(closed),
        spans=dropped[-1][1].spans if dropped else (),
        dropped_seq=why[0] if why else None,
        carried=why[1].carried if why else (),
        versions=why[1].versions if why else {},
        redacted=redacted,
    )


def _before(first_seq: int, begins: ev.SegmentOpened | None) -> tuple[bytes, Frontier]:
    """Chain hash and frontier of the rows that are gone. Raises LedgerCorrupt."""
    if begins is None or begins.size != first_seq - 1:
        raise LedgerCorrupt(f"it begins with seq {first_seq}, and that row does not say what came before it")
    frontier = _frontier(begins)
    if frontier is None or not _HEX.fullmatch(begins.chain):
        raise LedgerCorrupt(f"seq {first_seq} says of what came before it what cannot be")
    return bytes.fromhex(begins.chain), frontier


def _frontier(opened: ev.SegmentOpened) -> Frontier | None:
    """As the event says it; None where that can be none."""
    try:
        return Frontier(opened.size, [bytes.fromhex(node) for node in opened.frontier])
    except ValueError:
        return None


def grown(db: sqlite3.Connection, history: History, until_seq: int, path: Path, known: Frontier | None = None) -> Frontier:
    """The frontier of all events up to a seq, from the nearest one below it that is known. Raises LedgerCorrupt as `leaf_hashes`."""
    said = [one for _, event in history.opened if (one := _frontier(event)) is not None]
    nearest = max((one for one in (history.frontier, known, *said) if one is not None and one.size <= until_seq), key=lambda one: one.size)
    found = Frontier(nearest.size, nearest.nodes)
    for leaves in leaf_hashes(db, history, until_seq, path, after=found.size):
        found.extend(leaves)
    return found


def live_streams(db: sqlite3.Connection) -> dict[str, tuple[int, str]]:
    """Streams that something is still to happen to: version and state of each."""
    live = sorted(state.value for state in LIVE_RESIDENCY)
    wanted = (
        (f"SELECT 'residency/' || residency FROM residency WHERE state IN ({_marks(live)})", live),  # noqa: S608
        (f"SELECT 'attach/' || attach FROM attach WHERE state IN ({_marks(OPEN_ATTACHES)})", OPEN_ATTACHES),  # noqa: S608
        ("SELECT 'trust/' || \"grant\" FROM trust WHERE state = ?", ("active",)),
        ("SELECT 'daemon/' || instance FROM instance WHERE ended_ns IS NULL AND state <> ?", ("lost",)),
    )
    found: dict[str, tuple[int, str]] = {}
    for names, values in wanted:
        sql = f"SELECT stream, version, state FROM stream WHERE stream IN ({names})"  # noqa: S608
        found.update({stream: (version, state) for stream, version, state in db.execute(sql, tuple(values))})
    return found


def _marks(values: Any) -> str:
    return ",".join("?" * len(values))


def opening(db: sqlite3.Connection, origin: str, before: History, path: Path, known: Frontier | None = None) -> ev.SegmentOpened:
    """The `segment.opened` that may be appended next to the ledger called `origin`, whose rows up to now are read as `before` says. Raises
    as `grown`."""
    size, link = head_of(db, Chain(before.origin))
    frontier = grown(db, before, size, path, known)
    return ev.SegmentOpened(
        state=live_streams(db), size=size, root=frontier.root().hex(), frontier=tuple(node.hex() for node in frontier.nodes),
        chain=link.hex(), origin=before.origin_at(size),
    )  # fmt: skip


class Closed(msgspec.Struct, frozen=True, kw_only=True):
    """A segment that was closed: its seqs, and the root over all events up to `last_seq`. The next one begins with `opened_seq`."""

    first_seq: int
    last_seq: int
    opened_seq: int
    root: str


def close_segment(ledger: Ledger) -> Closed:
    """Closes the segment that is being written and opens the next one, in one transaction; beside a daemon if need be.

    Raises LedgerError as `append_batch`.
    """
    with_reader = connect_reader(ledger.path)
    try:
        # The bulk of the hashing is done before anybody is kept waiting.
        with translated(ledger.path), with_reader.begin() as connection:
            db = driver(connection)
            history = read_history(db, read_origin(connection, ledger.path))
            known = grown(db, history, head_of(db, Chain(history.origin))[0], ledger.path)
    finally:
        with_reader.dispose()

    def close(db: sqlite3.Connection) -> Unit:
        size, _ = head_of(db, Chain(ledger.origin))
        root = grown(db, history, size, ledger.path, known).root().hex()
        return (NewEvent(event=ev.SegmentClosed(size=size, root=root, uid=os.geteuid())),)

    def open_(db: sqlite3.Connection) -> Unit:
        return (NewEvent(event=opening(db, ledger.origin, history, ledger.path, known)),)

    (last_seq,), (opened_seq,) = ledger.append_within(close, open_)
    begin = max((seq for seq, _ in history.opened), default=history.first_seq)
    with Ledger.open(ledger.path, read_only=True) as again:
        (opened,) = [item.event for item in again.events(last_seq, types=(ev.SegmentOpened.type,)) if item.seq == opened_seq]
    assert isinstance(opened, ev.SegmentOpened)  # noqa: S101
    return Closed(first_seq=begin, last_seq=last_seq, opened_seq=opened_seq, root=opened.root)


class Segment(msgspec.Struct, frozen=True, kw_only=True):
    """One segment as it lies in the file. `last_seq` and `to_ns` are those of its newest event; `root` is over all events up to it, and
    empty while the segment is open."""

    first_seq: int
    last_seq: int
    from_ns: int
    to_ns: int
    root: str
    closed: bool


def list_segments(db: sqlite3.Connection, history: History) -> list[Segment]:
    """Oldest first. The times are the earliest and the latest at which an event of it was recorded."""
    begins = [history.first_seq, *(seq for seq, _ in history.opened if seq > history.first_seq)]
    said = {seq: event.root for seq, event in history.opened}
    found = []
    for number, first in enumerate(begins):
        after = begins[number + 1] if number + 1 < len(begins) else None
        sql = "SELECT max(seq), min(recorded_ns), max(recorded_ns) FROM event WHERE seq >= ? AND (? IS NULL OR seq < ?)"
        last, from_ns, to_ns = db.execute(sql, (first, after, after)).fetchone()
        if last is not None:
            root = said.get(after, "") if after is not None else ""
            found.append(Segment(first_seq=first, last_seq=last, from_ns=from_ns, to_ns=to_ns, root=root, closed=after is not None))
    return found


def history_of(connection: Connection, where: Any) -> History:
    """`read_history` for readers who have an SQLAlchemy connection."""
    return read_history(driver(connection), read_origin(connection, where))
