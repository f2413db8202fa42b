"""Whether what a ledger says about its own segments is so: each `segment.opened` against the rows before it, and the reason for a
beginning that is gone."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator

from wcache.core.model.errors import LedgerCorrupt, WcacheError
from wcache.core.model.events import SegmentClosed, SegmentOpened
from wcache.core.model.machines import StreamState, evolve, is_late
from wcache.ledger.leaves import Trees
from wcache.ledger.merkle import Frontier
from wcache.ledger.moment import utc
from wcache.ledger.segments import History, carried_event, readable
from wcache.ledger.stored import EVENT_COLUMNS, stored_event
from wcache.ledger.streams import encode_state

Finding = tuple[int, str]
"""A seq, and what is wrong with what it says."""


def sizes_said(history: History) -> set[int]:
    """At which `check_segments` needs the tree."""
    return {seq - 1 for seq, _ in (*history.opened, *history.closed)}


def check_segments(db: sqlite3.Connection, history: History, trees: Trees) -> list[Finding]:
    """`trees`: those of `sizes_said`. Rows that cannot be read end it with a finding."""
    found: list[Finding] = []
    if history.first_seq > 1 and history.dropped_seq is None:
        what = f"seq 1 to {history.first_seq - 1} are missing, and no segment.dropped says why"
        found.append((history.first_seq, what))
    every: list[tuple[int, SegmentOpened | SegmentClosed]] = [*history.opened, *history.closed]
    for seq, said in sorted(every, key=lambda item: item[0]):
        if seq == history.first_seq > 1:
            continue  # it is what the rows that remain are judged by
        tree = trees.frontiers.get(seq - 1)
        if tree is None:
            found.append((seq, f"what came before it cannot be read: {trees.why}"))
            return found
        try:
            found += [(seq, f"what it says of {part} is not so") for part in _wrong(db, history, seq, said, tree)]
        except (sqlite3.Error, LookupError, TypeError, AttributeError, ValueError, WcacheError) as error:
            found.append((seq, f"what came before it cannot be read: {error}"))
            return found
    return found


def _wrong(db: sqlite3.Connection, history: History, seq: int, opened: SegmentOpened | SegmentClosed, tree: Frontier) -> Iterator[str]:
    if opened.size != seq - 1:
        yield "the number of events before it"
    if isinstance(opened, SegmentClosed):
        if opened.root != tree.root().hex():
            yield "the root over the events before it"
        return
    if opened.root != tree.root().hex() or opened.frontier != tuple(node.hex() for node in tree.nodes):
        yield "the root over the events before it"
    row = db.execute("SELECT chain FROM event WHERE seq = ?", (seq - 1,)).fetchone()
    before = row[0] if row is not None else history.chain_before if seq == history.first_seq else b""
    if not isinstance(before, bytes) or opened.chain != before.hex():
        yield "the chain before it"
    for stream, (version, state) in opened.state.items():
        if (version, state) != _state_before(db, history, seq, stream):
            yield f"the state of {stream}"


def _state_before(db: sqlite3.Connection, history: History, seq: int, stream: str) -> tuple[int, str] | None:
    """Version and state of a stream before a seq, from its own events; None where they cannot be read."""
    sql = f"SELECT {EVENT_COLUMNS} FROM event WHERE stream = ? AND seq < ? ORDER BY seq"  # noqa: S608
    bodies = history.bodies()
    state, version = StreamState(), 0
    try:
        rows = [stored_event(readable(row, bodies)) for row in db.execute(sql, (stream, seq)).fetchall()]
        for item in (*(carried_event(one) for one in history.carried if one.stream == stream), *rows):
            version = item.version
            if not is_late(stream, state, item.event):
                state = evolve(stream, state, item.event)
    except LedgerCorrupt:
        return None
    return version, encode_state(stream, state)


def remarks(history: History) -> list[str]:
    """What a reader of the ledger has to know of its past."""
    found = [
        f"seq {span.first_seq} to {span.last_seq}, recorded from {utc(span.from_ns)} to {utc(span.to_ns)}, were dropped by uid {span.uid}"
        f" at {utc(span.at_ns)}, keeping {span.keep_days} days: their root is left, and {len(history.carried)} events are carried on"
        for span in history.spans
        if span.last_seq < history.first_seq
    ]
    found += [
        f"restored from a backup behind seq {seq - 1}: up to there rows are chained under origin {origin}; what that ledger recorded later"
        " is unknown"
        for seq, origin in history.origins
    ]
    if history.redacted:
        gone = ", ".join(map(str, sorted(history.redacted)[:10])) + (", …" if len(history.redacted) > 10 else "")
        found.append(f"redacted: seq {gone}; hashes, numbers, ids and digests of the payload are kept, its words are gone")
    return found
