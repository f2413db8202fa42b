"""A block of consecutive events checked: hashes and chain of every row, and the attaches that live in it replayed.

Blocks do not depend on each other: a row carries the chain hash that the next one links to, and an attach that began before the block is
only named; `settle` replays those from their first event.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from itertools import islice
from operator import le
from typing import Any

import msgspec

from wcache.ledger.attaches import PREFIX, WRONG_TYPE, Attaches, Timeline
from wcache.ledger.chain import Chain, framed, framed_kind, payload_hash
from wcache.ledger.comparison import compare_between, compare_named
from wcache.ledger.database import meaning
from wcache.ledger.leaves import Pieces, cut, missing, unreadable
from wcache.ledger.problem import Difference, Problem
from wcache.ledger.projection import Row
from wcache.ledger.reader import SUM_MASK, Reader, added_up

CHUNK_ROWS = 500
BACKWARDS_NOTED_NS = 1_000_000_000


class Found(msgspec.Struct):
    """What checking some events found. `differences` are of attaches and their streams; `started` counts the streams that begin there and
    `continued` names those that began before; `backwards` are the first seq and the number of times that the clock went back. `rows` and
    `indexed` are what the rows, and the two indexes over them, add up to; `pieces` are those of the Merkle tree."""

    problems: list[Problem] = []
    differences: list[Difference] = []
    events: int = 0
    last_seq: int = 0
    last_chain: bytes | None = None
    started: int = 0
    continued: list[str] = []
    redacted: list[int] = []
    backwards: tuple[int, int] = (0, 0)
    policies: dict[str, str] = {}
    contradictions: list[Row] = []
    rows: tuple[int, int] = (0, 0)
    indexed: tuple[int, int] = (0, 0)
    pieces: Pieces = msgspec.field(default_factory=Pieces)


class _Rows:
    """The rows of a block on their way through the hashes. `seq`, `link` and `newest_ns` are those of the row before. `leaves` are the
    hashes of all rows so far, up to the first that has none; `why` it has none."""

    def __init__(self, chain: Chain, found: Found, seq: int, link: bytes | None, newest_ns: int) -> None:
        self._chain = chain
        self._found = found
        self.seq, self.link, self._newest_ns = seq, link, newest_ns
        self.leaves: list[bytes] = []
        self.why = ""

    def check(self, rows: Sequence[Sequence[Any]]) -> None:
        """A chunk of rows at once where all of them are right, else one by one, to say what is wrong."""
        self._found.events += len(rows)
        recorded = [row[7] for row in rows]
        try:
            if (
                self.link is not None
                and [row[0] for row in rows] == list(range(self.seq + 1, self.seq + 1 + len(rows)))
                and all(map(le, [self._newest_ns, *recorded], recorded))
                and (leaves := self._chain.leaves(self.link, rows)) is not None
            ):
                self._keep(leaves)
                self.seq, self.link, self._newest_ns = rows[-1][0], rows[-1][12], recorded[-1]
                return
        except (*WRONG_TYPE, KeyError):  # the last: a flag that is none
            pass
        for row in rows:
            self._check(row)

    def _check(self, row: Sequence[Any]) -> None:
        seq, stream, version, event_id, kind, schema, occurred_ns, recorded_ns, late, payload, salt, hashed, link = row
        previous = self.link
        if seq != self.seq + 1:
            self._report(seq, "gap", f"seq {self.seq + 1} to {seq - 1} are missing")
            self.why = self.why or missing(self.seq + 1)
            previous = None
        self.seq, self.link = seq, link if isinstance(link, bytes) else None
        try:
            if late not in (0, 1):
                raise ValueError(f"late is {late}")
            self._check_clock(seq, recorded_ns)
            if payload is None:
                self._found.redacted.append(seq)
            elif salt is None or payload_hash(salt, payload) != hashed:
                self._report(seq, "payload", f"the payload of {kind.decode('utf-8', 'replace')} is not the one that was hashed")
            kind = framed_kind(kind, schema)
            leaf = self._chain.framed_leaf(seq, framed(stream), version, kind, event_id, occurred_ns, recorded_ns, bool(late), hashed)
            self._keep([leaf])
            if previous is not None and Chain.link(previous, leaf) != link:
                self._report(seq, "chain", "the row is not the one that was chained: changed, replaced, or from another ledger")
        except WRONG_TYPE as error:
            self.why = self.why or unreadable(seq)
            self._report(seq, "file", f"the row holds a value that its column cannot have: {error}")

    def _keep(self, leaves: list[bytes]) -> None:
        if not self.why:
            self.leaves += leaves

    def _check_clock(self, seq: int, recorded_ns: int) -> None:
        if recorded_ns < self._newest_ns - BACKWARDS_NOTED_NS:
            first, count = self._found.backwards
            self._found.backwards = (first or seq, count + 1)
            self._newest_ns = recorded_ns
        self._newest_ns = max(self._newest_ns, recorded_ns)

    def _report(self, seq: int, cls: str, text: str) -> None:
        self._found.problems.append(Problem(seq, cls, text))


def examine(reader: Reader, chain: Chain, residencies: Timeline, first_seq: int, last_seq: int, sizes: Sequence[int]) -> Found:
    """Checks the rows in [first_seq, last_seq]. `sizes`: at which the Merkle tree is wanted, in order."""
    found = Found()
    attaches = Attaches(residencies, found.problems)
    checked = _Rows(chain, found, *reader.before(first_seq, chain))
    begin = checked.seq
    with reader.as_bytes():
        rows = reader.rows(first_seq, last_seq, found.problems)
        while chunk := list(islice(rows, CHUNK_ROWS)):
            checked.check(chunk)
            attaches.take(map(reader.past.kept, chunk) if reader.past.bodies else chunk)
            found.rows = plus(found.rows, added_up(chunk))
    found.last_seq, found.last_chain = checked.seq, checked.link
    found.pieces = cut(begin, checked.leaves, sizes, checked.why)
    streams = attaches.streams.values()
    found.continued = [PREFIX + stream.key for stream in streams if stream.partial]
    found.started = sum(1 for stream in streams if stream.accepted and not stream.partial)
    return _compared(found, attaches, lambda: compare_between(reader.db, first_seq, last_seq, streams))


def plus(left: tuple[int, int], right: tuple[int, int]) -> tuple[int, int]:
    return (left[0] + right[0]) & SUM_MASK, (left[1] + right[1]) & SUM_MASK


def add_up_index(reader: Reader, index: int) -> Found:
    """What one index of `event` adds up to."""
    try:
        total = reader.indexed(index)
    except sqlite3.Error as error:
        return Found(problems=[Problem(None, "file", f"an index of the events cannot be read: {meaning(error, reader.path).what}")])
    if total is None:
        return Found(problems=[Problem(None, "file", "an index of the events is out of order, or holds what is no key")])
    return Found(indexed=(total, 0) if index == 0 else (0, total))


def settle(reader: Reader, residencies: Timeline, names: Sequence[str]) -> Found:
    """Replays whole streams of attaches from their first event and compares their rows; hashes are not looked at again."""
    found = Found()
    attaches = Attaches(residencies, found.problems, whole=True)
    with reader.as_bytes():
        for name in names:
            attaches.take(reader.stream(name))
    return _compared(found, attaches, lambda: compare_named(reader.db, attaches.streams.values()))


def _compared(found: Found, attaches: Attaches, differences: Callable[[], list[Difference]]) -> Found:
    try:
        found.differences = differences()
    except sqlite3.Error as error:
        found.problems.append(Problem(None, "file", f"the attaches cannot be read: {error}"))
    found.policies, found.contradictions = attaches.policies, attaches.contradictions
    return found
