"""Attaches replayed in memory: from stored rows to where each stands and its projected row.

Most events of a ledger belong to attaches, and what an event does to one depends on very little, so each step of the state machine is
asked for once and remembered. Streams of attaches do not touch each other; of the others they see only where a residency stands.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from wcache.core.model import events as ev
from wcache.core.model.errors import IllegalTransition, LedgerCorrupt
from wcache.core.model.machines import ATTACH_LOOKS_AT, AttachView, StreamState, check, evolve, is_late
from wcache.core.model.vocabulary import ResidencyState
from wcache.ledger.problem import Problem
from wcache.ledger.projection import Row, as_json, attach_row, contradiction_row
from wcache.ledger.streams import encode_state

PREFIX = "attach/"
_PREFIX_BYTES = PREFIX.encode()

Timeline = Mapping[str, tuple[list[int], list[str]]]
"""Residency -> the seqs at which its state changed, and the state from each of them on."""

WRONG_TYPE = (TypeError, AttributeError, ValueError, OverflowError, struct.error)
"""What a column that holds what STRICT does not allow ends in."""

_UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, LedgerCorrupt)
_RESIDENT = ResidencyState.RESIDENT.value


class _Place:
    """Where an attach can be."""

    __slots__ = ("state", "text", "view")

    def __init__(self, view: AttachView) -> None:
        self.view = view
        self.state = StreamState(attach=view)
        self.text = encode_state(PREFIX, self.state)


class _Step:
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


class _Kind:
    """What is the same for every event of a stored type."""

    __slots__ = ("cls", "decode", "field", "name", "on_attach", "schema", "steps")

    def __init__(self, name: bytes) -> None:
        self.name = name.decode("utf-8", "replace")
        self.cls = ev.EVENT_TYPES.get(self.name)
        self.schema = self.cls.schema if self.cls is not None else -1
        self.decode: Any = msgspec.json.Decoder(self.cls).decode if self.cls is not None else None
        self.on_attach = self.cls is not None and "attach" in self.cls.__struct_fields__
        self.field = ATTACH_LOOKS_AT.get(self.name)
        self.steps: dict[str | None, _Step] = {None: _Step()}

    def step(self, event: Any) -> _Step:
        if self.field is None:
            return self.steps[None]
        return self.steps.setdefault(getattr(event, self.field).value, _Step())


_places: dict[AttachView, _Place] = {}
_kinds: dict[bytes, _Kind] = {}


def _place(view: AttachView) -> _Place:
    if view not in _places:
        _places[view] = _Place(view)
    return _places[view]


_ASKED = _place(AttachView())


class AttachStream:
    """One attach as far as its events were taken. `version` is that of its last row, `accepted` counts those that the machine allowed;
    `partial` says that its first events were not taken, so that nothing is known of it."""

    __slots__ = ("accepted", "key", "partial", "place", "row", "seen", "version")

    def __init__(self, name: bytes, *, partial: bool) -> None:
        self.key = name[len(_PREFIX_BYTES) :].decode("utf-8", "replace")
        self.partial = partial
        self.version = self.accepted = 0
        self.place = _ASKED
        self.row: Row | None = None
        self.seen = False


class Attaches:
    """Streams of attaches, taken row by row in seq order; what cannot have happened is a problem. With `whole`, a stream whose first row
    has another version than 1 lacks one; else it began earlier and is left out."""

    def __init__(self, residencies: Timeline, problems: list[Problem], *, whole: bool = False) -> None:
        self.streams: dict[bytes, AttachStream] = {}
        self.policies: dict[str, str] = {}
        self.contradictions: list[Row] = []
        self._residencies = residencies
        self._problems = problems
        self._whole = whole

    def take(self, rows: Iterable[Sequence[Any]]) -> None:
        """Rows that begin with EVENT_COLUMNS, text as bytes; those of other streams are passed over."""
        streams = self.streams
        for row in rows:
            name = row[1]
            try:
                stream = streams.get(name)
                if stream is None:
                    if not name.startswith(_PREFIX_BYTES):
                        continue
                    stream = streams[name] = AttachStream(name, partial=row[2] != 1 and not self._whole)
                if not stream.partial:
                    self._take(stream, row)
            except WRONG_TYPE as error:
                self.wrong_type(row[0], error)

    def _take(self, stream: AttachStream, row: Sequence[Any]) -> None:
        seq, version, type_name, schema, late, payload = row[0], row[2], row[4], row[5], row[8], row[9]
        if version != stream.version + 1:
            self._report(seq, "version", f"{PREFIX}{stream.key} has version {version} where {stream.version + 1} belongs")
        stream.version = version
        if payload is None:
            return
        kind = _kinds.get(type_name) or _kinds.setdefault(type_name, _Kind(type_name))
        event: Any
        try:
            event = kind.decode(payload) if schema == kind.schema else ev.decode_payload(kind.name, schema, payload)
        except _UNREADABLE:
            self._unreadable(seq, kind, schema, payload)
            return
        if not kind.on_attach or event.attach != stream.key or not stream.key:
            self._report(seq, "stream", f"{kind.name} lies on {PREFIX}{stream.key} and belongs to {ev.stream_of(event)}")
            return
        step = kind.steps[None] if kind.field is None else kind.step(event)
        lead = step.leads.get(stream.place) or step.lead(stream.place, event)
        cls = kind.cls
        if lead is None or (cls is ev.LeaseGranted and state_at(self._residencies, event.residency, seq) != _RESIDENT):
            self._report(seq, "transition", self._why_not(stream, event, seq))
            return
        place, is_late_now = lead
        stream.place = place
        stream.accepted += 1
        if is_late_now != late:
            self._report(seq, "late", f"{kind.name} is flagged {'late' if late else 'in time'}, and was not")
        if is_late_now:
            return
        stream.row = attach_row(stream.row, seq, row[6], event, place.view)
        if cls is ev.AttachDecided:
            if event.policy not in self.policies:
                self.policies[event.policy] = as_json(event.policy_body)
        elif cls is ev.VerifyFailed:
            self.contradictions.append(contradiction_row(seq, event))

    def _report(self, seq: int, cls: str, text: str) -> None:
        self._problems.append(Problem(seq, cls, text))

    def wrong_type(self, seq: int, error: Exception) -> None:
        self._report(seq, "file", f"the row holds a value that its column cannot have: {error}")

    def _unreadable(self, seq: int, kind: _Kind, schema: int, payload: bytes) -> None:
        try:
            ev.decode_payload(kind.name, schema, payload)
        except LedgerCorrupt as error:
            self._report(seq, "decode", error.what)

    def _why_not(self, stream: AttachStream, event: Any, seq: int) -> str:
        try:
            check(PREFIX + stream.key, stream.place.state, event)
        except IllegalTransition as error:
            return str(error)
        at = state_at(self._residencies, event.residency, seq)
        return str(IllegalTransition("residency", at, event.type, where=f"residency/{event.residency}"))


def state_at(residencies: Timeline, residency: str, seq: int) -> str:
    """Where a residency stood when `seq` was appended."""
    known = residencies.get(residency)
    if known is None or not (index := bisect_right(known[0], seq)):
        return ResidencyState.ABSENT.value
    return known[1][index - 1]
