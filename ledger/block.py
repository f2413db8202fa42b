"""A block of consecutive events checked: hashes and chain of every row, and the attaches that live in it replayed.

Blocks do not depend on each other: a row carries the chain hash that the next one links to, and an attach that began before the block is
only named; `settle` replays those from their first event.
"""

from __future__ import annotations

import sqlite3
import struct
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from wcache.core.model import events as ev
from wcache.core.model.errors import LedgerCorrupt
from wcache.ledger.attaches import PREFIX, Attaches, AttachKind, AttachStream, Timeline, compare_between, compare_named
from wcache.ledger.chain import Chain, framed, framed_kind, payload_hash
from wcache.ledger.problem import Difference, Problem
from wcache.ledger.projection import Row
from wcache.ledger.reader import Reader

BACKWARDS_NOTED_NS = 1_000_000_000

WRONG_TYPE = (TypeError, AttributeError, ValueError, OverflowError, struct.error)  # a column holds what STRICT does not allow


class Found(msgspec.Struct):
    """What checking some events found. `differences` are of attaches and their streams; `started` counts the streams that begin there and
    `continued` names those that began before; `backwards` are the first seq and the number of times that the clock went back."""

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


class _Kind:
    """What is the same for every event of a stored type. `attach` is None for one that lies on other streams."""

    __slots__ = ("attach", "decode", "framed", "name", "schema")

    def __init__(self, name: bytes) -> None:
        self.name = name.decode("utf-8", "replace")
        cls = ev.EVENT_TYPES.get(self.name)
        self.schema = cls.schema if cls is not None else -1
        self.framed = framed_kind(name, self.schema)
        self.decode: Any = msgspec.json.Decoder(cls).decode if cls is not None else None
        self.attach = AttachKind(cls) if cls is not None and "attach" in cls.__struct_fields__ else None


_kinds: dict[bytes, _Kind] = {}


def _kind(name: bytes) -> _Kind:
    found = _kinds.get(name)
    if found is None:
        found = _kinds[name] = _Kind(name)
    return found


def _text(value: object) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


class _Takes:
    """Events of attaches on their way from stored bytes into the replay."""

    def __init__(self, residencies: Timeline) -> None:
        self.found = Found(problems=[], differences=[], continued=[], redacted=[])
        self.attaches = Attaches(residencies, self.found.problems.append)
        self._feed = self.attaches.feed

    def report(self, seq: int, cls: str, text: str) -> None:
        self.found.problems.append(Problem(seq, cls, text))

    def take(self, stream: AttachStream, seq: int, version: int, kind: _Kind, schema: int, occurred_ns: int, late: int, body: Any) -> None:
        if version != stream.version + 1:
            self.report(seq, "version", f"{PREFIX}{stream.key} has version {version} where {stream.version + 1} belongs")
        stream.version = version
        if body is None:
            return
        event: Any
        try:
            event = kind.decode(body) if schema == kind.schema else ev.decode_payload(kind.name, schema, body)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, LedgerCorrupt):
            self._cannot_decode(seq, kind, schema, body)
            return
        if kind.attach is None or event.attach != stream.key or not stream.key:
            name = PREFIX + stream.key
            self.report(seq, "stream", f"{kind.name} lies on {name} and belongs to {ev.stream_of(event)}")
            return
        self._feed(stream, seq, kind.attach, occurred_ns, late, event)

    def take_row(self, stream: AttachStream, row: Sequence[Any]) -> None:
        """`take` of a row of EVENT_COLUMNS."""
        seq, _, version, _, type_name, schema, occurred_ns, _, late, payload = row
        try:
            self.take(stream, seq, version, _kind(type_name), schema, occurred_ns, late, payload)
        except WRONG_TYPE as error:
            self.wrong_type(seq, error)

    def wrong_type(self, seq: int, error: Exception) -> None:
        self.report(seq, "file", f"the row holds a value that its column cannot have: {error}")

    def _cannot_decode(self, seq: int, kind: _Kind, schema: int, body: bytes) -> None:
        try:
            ev.decode_payload(kind.name, schema, body)
        except LedgerCorrupt as error:
            self.report(seq, "decode", error.what)

    def compare(self, differences: Callable[[], list[Difference]]) -> None:
        try:
            self.found.differences = differences()
        except sqlite3.Error as error:
            self.found.problems.append(Problem(None, "file", f"the attaches of the ledger cannot be read: {error}"))

    def done(self) -> Found:
        self.found.policies = self.attaches.policies
        self.found.contradictions = self.attaches.contradictions
        return self.found


def examine(reader: Reader, chain: Chain, residencies: Timeline, first_seq: int, last_seq: int) -> Found:
    """Checks the rows in [first_seq, last_seq]."""
    takes = _Takes(residencies)
    found, report, take = takes.found, takes.report, takes.take
    previous_seq, previous, newest_ns = reader.before(first_seq, chain)
    attaches: dict[bytes, AttachStream] = {}
    others: dict[bytes, bytes] = {}
    back_first = back_count = 0
    kept = reader.past.bodies
    link_of, leaf_of = chain.link, chain.framed_leaf
    with reader.as_bytes():
        for row in reader.rows(first_seq, last_seq, found.problems):
            seq, name, version, event_id, type_name, schema, occurred_ns, recorded_ns, late, payload, salt, hashed, link = row
            found.events += 1
            try:
                if seq != previous_seq + 1:
                    report(seq, "gap", f"seq {previous_seq + 1} to {seq - 1} are missing")
                    previous = None
                if recorded_ns < newest_ns - BACKWARDS_NOTED_NS:
                    back_count, back_first = back_count + 1, back_first or seq
                    newest_ns = recorded_ns
                elif recorded_ns > newest_ns:
                    newest_ns = recorded_ns
                kind = _kinds.get(type_name) or _kind(type_name)
                if payload is None:
                    found.redacted.append(seq)
                elif salt is None or payload_hash(salt, payload) != hashed:
                    report(seq, "payload", f"the payload of {kind.name} is not the one that was hashed")
                stream = attaches.get(name)
                if stream is not None:
                    framed_name = stream.framed
                elif name.startswith(b"attach/"):
                    framed_name = framed(name)
                    stream = attaches[name] = AttachStream(_text(name[7:]), partial=version != 1, framed=framed_name)
                else:
                    framed_name = others.get(name) or others.setdefault(name, framed(name))
                framed_type = kind.framed if schema == kind.schema else framed_kind(type_name, schema)
                leaf = leaf_of(seq, framed_name, version, framed_type, event_id, occurred_ns, recorded_ns, late != 0, hashed)
                if previous is not None and link_of(previous, leaf) != link:
                    report(seq, "chain", "the row is not the one that was chained: changed, replaced, or from another ledger")
                if stream is not None and not stream.partial:
                    take(stream, seq, version, kind, schema, occurred_ns, late, payload)
                    if payload is None and seq in kept:  # what is kept of it is known to `settle`
                        stream.partial = True
                        found.started += 1
            except WRONG_TYPE as error:
                takes.wrong_type(seq, error)
            previous_seq, previous = seq, link if isinstance(link, bytes) else None
    found.last_seq, found.last_chain = previous_seq, previous
    found.backwards = (back_first, back_count)
    found.continued = [PREFIX + stream.key for stream in attaches.values() if stream.partial]
    found.started += sum(1 for stream in attaches.values() if stream.accepted and not stream.partial)
    by_key = {stream.key: stream for stream in attaches.values()}
    takes.compare(lambda: compare_between(reader.db, first_seq, last_seq, by_key))
    return takes.done()


def settle(reader: Reader, residencies: Timeline, names: Sequence[str]) -> Found:
    """Replays whole streams of attaches from their first event and compares their rows; hashes are not looked at again."""
    takes = _Takes(residencies)
    streams: dict[str, AttachStream] = {}
    for name in names:
        stream = streams[name] = AttachStream(name[len(PREFIX) :], partial=False)
        for row in reader.stream(name):
            takes.take_row(stream, row)
    takes.compare(lambda: compare_named(reader.db, {stream.key: stream for stream in streams.values()}))
    return takes.done()
