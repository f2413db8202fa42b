"""Attaches replayed in memory: where each stands and its projected row, and how the ledger's own tables differ from that.

Most events of a ledger belong to attaches, and what an event does to one depends on very little, so each step of the state machine is
asked for once and remembered. Streams of attaches do not touch each other; of the others they see only where a residency stands.
"""

from __future__ import annotations

import sqlite3
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping
from operator import itemgetter
from typing import Any

from wcache.core.model import events as ev
from wcache.core.model.errors import IllegalTransition
from wcache.core.model.machines import ATTACH_LOOKS_AT, AttachView, StreamState, check, evolve, is_late
from wcache.core.model.vocabulary import ResidencyState
from wcache.ledger import schema
from wcache.ledger.problem import Difference, Problem
from wcache.ledger.projection import Row, as_json, attach_row, contradiction_row, select_in
from wcache.ledger.streams import encode_state

PREFIX = "attach/"
MAX_DIFFERENCES = 100  # a table: more say nothing more

Timeline = Mapping[str, tuple[list[int], list[str]]]
"""Residency -> the seqs at which its state changed, and the state from each of them on."""

Report = Callable[[Problem], None]

_DECIDED, _GRANTED, _FAILED = ev.AttachDecided, ev.LeaseGranted, ev.VerifyFailed
_RESIDENT = ResidencyState.RESIDENT.value
_NAMES = tuple(column.name for column in schema.attach.columns)
_VALUES = itemgetter(*_NAMES)
_SELECT = f"""SELECT {", ".join(f'a."{name}"' for name in _NAMES)}, s.version, s.state
FROM attach a LEFT JOIN stream s ON s.stream = '{PREFIX}' || a.attach WHERE"""  # noqa: S608
_KEY = _NAMES.index("attach")
_COUNT = len(_NAMES)


class Step:
    """What an event of one type (and one value of the field that matters) does to an attach, by where that stands: the place after it and
    whether it is late there, or None where it is not allowed."""

    __slots__ = ("leads",)

    def __init__(self) -> None:
        self.leads: dict[_Place, tuple[_Place, bool] | None] = {}

    def lead(self, place: _Place, event: ev.Event) -> tuple[_Place, bool] | None:
        if place not in self.leads:
            stream = ev.stream_of(event)
            try:
                check(stream, place.state, event)
            except IllegalTransition:
                self.leads[place] = None
            else:
                late = is_late(stream, place.state, event)
                self.leads[place] = (place if late else _place(evolve(stream, place.state, event).attach), late)
        return self.leads[place]


class AttachKind:
    """What is the same for every event of a type that lies on an attach's stream."""

    __slots__ = ("_steps", "cls", "field", "name")

    def __init__(self, cls: type[ev.Event]) -> None:
        self.cls = cls
        self.name = cls.type
        self.field = ATTACH_LOOKS_AT.get(cls.type)
        self._steps: dict[str, Step] = {}

    def step(self, event: ev.Event) -> Step:
        value = "" if self.field is None else getattr(event, self.field)._value_
        step = self._steps.get(value)
        if step is None:
            step = self._steps[value] = Step()
        return step


class _Place:
    """Where an attach can be."""

    __slots__ = ("state", "text", "view")

    def __init__(self, view: AttachView) -> None:
        self.view = view
        self.state = StreamState(attach=view)
        self.text = encode_state(PREFIX, self.state)


_places: dict[AttachView, _Place] = {}


def _place(view: AttachView) -> _Place:
    if view not in _places:
        _places[view] = _Place(view)
    return _places[view]


_ASKED = _place(AttachView())


class AttachStream:
    """One attach as far as its events were fed. `version` is that of its last row, `accepted` counts those that the machine allowed;
    `partial` says that its first events were not fed."""

    __slots__ = ("accepted", "framed", "key", "partial", "place", "row", "seen", "version")

    def __init__(self, key: str, *, partial: bool, framed: bytes = b"") -> None:
        self.key = key
        self.framed = framed
        self.partial = partial
        self.version = self.accepted = 0
        self.place = _ASKED
        self.row: Row | None = None
        self.seen = False


class Attaches:
    """Streams of attaches, fed event by event in seq order."""

    def __init__(self, residencies: Timeline, report: Report) -> None:
        self.policies: dict[str, str] = {}
        self.contradictions: list[Row] = []
        self._residencies = residencies
        self._report = report

    def feed(self, stream: AttachStream, seq: int, kind: AttachKind, occurred_ns: int, late: int, event: ev.Event) -> None:
        """Puts an event of `stream`, which must be its own, through the machine and the projection; reports what cannot have happened."""
        place = stream.place
        step = kind.step(event)
        lead = step.leads.get(place) or step.lead(place, event)
        if lead is None:
            self._report(Problem(seq, "transition", _why_not(stream.key, place.state, event)))
            return
        cls = kind.cls
        if cls is _GRANTED:
            at = state_at(self._residencies, event.residency, seq)  # type: ignore[attr-defined]
            if at != _RESIDENT:
                error = IllegalTransition("residency", at, kind.name, where=f"residency/{event.residency}")  # type: ignore[attr-defined]
                self._report(Problem(seq, "transition", str(error)))
                return
        place, is_late_now = lead
        stream.place = place
        stream.accepted += 1
        if is_late_now != late:
            self._report(Problem(seq, "late", f"{kind.name} is flagged {'late' if late else 'in time'}, and was not"))
        if is_late_now:
            return
        stream.row = attach_row(stream.row, seq, occurred_ns, event, place.view)
        if cls is _DECIDED:
            if event.policy not in self.policies:  # type: ignore[attr-defined]
                self.policies[event.policy] = as_json(event.policy_body)  # type: ignore[attr-defined]
        elif cls is _FAILED:
            self.contradictions.append(contradiction_row(seq, event))  # type: ignore[arg-type]


def state_at(residencies: Timeline, residency: str, seq: int) -> str:
    """Where a residency stood when `seq` was appended."""
    known = residencies.get(residency)
    index = bisect_right(known[0], seq) if known is not None else 0
    return known[1][index - 1] if known is not None and index else ResidencyState.ABSENT.value


def _why_not(key: str, state: StreamState, event: ev.Event) -> str:
    try:
        check(PREFIX + key, state, event)
    except IllegalTransition as error:
        return str(error)
    return f"{event.type} is not allowed"  # never: whoever asks was told so by the same check


def compare_between(db: sqlite3.Connection, first_seq: int, last_seq: int, streams: Mapping[str, AttachStream]) -> list[Difference]:
    """How the rows whose decision lies in [first_seq, last_seq] differ from what was replayed; partial streams are left out."""
    return _compare(db.execute(f"{_SELECT} a.seq BETWEEN ? AND ?", (first_seq, last_seq)), db, streams)


def compare_named(db: sqlite3.Connection, streams: Mapping[str, AttachStream]) -> list[Difference]:
    """As `compare_between`, of the rows of these streams, wherever they are."""
    return _compare(select_in(db, f"{_SELECT} a.attach IN", sorted(streams)), db, streams)


def _compare(rows: Iterable[tuple[Any, ...]], db: sqlite3.Connection, streams: Mapping[str, AttachStream]) -> list[Difference]:
    found: list[Difference] = []
    for row in rows:
        stream = streams.get(row[_KEY])
        if stream is None or (stream.row is None and not stream.partial):
            found.append(Difference("attach", row[_KEY], "extra"))
            continue
        if stream.partial:
            continue
        stream.seen = True
        assert stream.row is not None  # noqa: S101
        want = _VALUES(stream.row)
        if want != row[:_COUNT]:
            other = [name for name, left, right in zip(_NAMES, row, want, strict=False) if left != right]
            found.append(Difference("attach", row[_KEY], "differs in " + ", ".join(other)))
        found += _compare_state(stream, row[_COUNT], row[_COUNT + 1])
    unseen = {PREFIX + stream.key: stream for stream in streams.values() if not stream.seen and not stream.partial}
    found += [Difference("attach", stream.key, "missing") for stream in unseen.values() if stream.row is not None]
    held = {name: (version, text) for name, version, text in _states(db, unseen)}
    for name, stream in unseen.items():
        found += _compare_state(stream, *held.get(name, (None, None)))
    return found


def _states(db: sqlite3.Connection, names: Iterable[str]) -> Iterator[tuple[Any, ...]]:
    yield from select_in(db, "SELECT stream, version, state FROM stream WHERE stream IN", sorted(names))


def _compare_state(stream: AttachStream, version: int | None, text: str | None) -> list[Difference]:
    name = PREFIX + stream.key
    if version is None:
        return [Difference("stream", name, "missing")] if stream.accepted else []
    if not stream.accepted:
        return [Difference("stream", name, "extra")]
    other = [column for column, same in (("version", version == stream.accepted), ("state", text == stream.place.text)) if not same]
    return [Difference("stream", name, "differs in " + ", ".join(other))] if other else []
