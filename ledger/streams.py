"""The state of streams: read for a batch in one query, checked and evolved in memory, written back with the events."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable

import msgspec

from wcache.core.model import events as ev
from wcache.core.model.errors import IllegalTransition, WrongExpectedVersion
from wcache.core.model.machines import AttachView, StreamState, check, evolve, is_late
from wcache.core.model.vocabulary import ResidencyState
from wcache.ledger import schema
from wcache.ledger.projection import select_in

_UPSERT = schema.upsert(schema.stream)
_NEW = (0, StreamState())


def kind_of(stream: str) -> str:
    return stream.partition("/")[0]


def encode_state(stream: str, state: StreamState) -> str:
    """The part of the state that the stream's kind has, readable in SQL."""
    kind = kind_of(stream)
    if kind == "residency":
        return state.residency.value
    if kind == "attach":
        return msgspec.json.encode(state.attach).decode()
    return state.grant if kind == "trust" else ""


def decode_state(stream: str, text: str) -> StreamState:
    kind = kind_of(stream)
    if kind == "residency":
        return StreamState(residency=ResidencyState(text))
    if kind == "attach":
        return StreamState(attach=msgspec.json.decode(text, type=AttachView))
    return StreamState(grant=text) if kind == "trust" else StreamState()


def streams_needed(own: str, event: ev.Event) -> tuple[str, ...]:
    """The streams whose state decides whether an event may be appended: its own, and for a lease the residency's."""
    return (own, f"residency/{event.residency}") if isinstance(event, ev.LeaseGranted) else (own,)


class Streams:
    """(version, state) of streams within one transaction. `begin` starts a unit; `rollback` forgets what the unit changed."""

    def __init__(self, known: dict[str, tuple[int, StreamState]] | None = None) -> None:
        self._kept = known if known is not None else {}
        self._unit: dict[str, tuple[int, StreamState]] = {}
        self._changed: set[str] = set()

    @classmethod
    def load(cls, db: sqlite3.Connection, names: Iterable[str]) -> Streams:
        rows = select_in(db, "SELECT stream, version, state FROM stream WHERE stream IN", sorted(set(names)))
        return cls({name: (version, decode_state(name, text)) for name, version, text in rows})

    def get(self, stream: str) -> tuple[int, StreamState]:
        return self._unit.get(stream) or self._kept.get(stream) or _NEW

    def advance(self, stream: str, event: ev.Event, expected_version: int | None) -> tuple[int, StreamState, bool]:
        """Version and state after the event, and whether it is late.

        Raises WrongExpectedVersion, and IllegalTransition for an authority event that the machines do not allow.
        """
        version, state = self.get(stream)
        if expected_version is not None and expected_version != version:
            raise WrongExpectedVersion(stream, expected_version, version)
        check(stream, state, event)
        if isinstance(event, ev.LeaseGranted):
            at = self.get(f"residency/{event.residency}")[1].residency
            if at is not ResidencyState.RESIDENT:
                raise IllegalTransition("residency", at.value, event.type, where=f"residency/{event.residency}")
        late = is_late(stream, state, event)
        after = state if late else evolve(stream, state, event)
        self._unit[stream] = (version + 1, after)
        return version + 1, after, late

    def keep(self) -> None:
        self._kept.update(self._unit)
        self._changed.update(self._unit)
        self._unit.clear()

    def rollback(self) -> None:
        self._unit.clear()

    def rows(self) -> list[dict[str, str | int]]:
        """The rows of the streams that were changed, by name."""
        return [
            {"stream": name, "version": version, "state": encode_state(name, state)}
            for name, (version, state) in ((name, self._kept[name]) for name in sorted(self._changed))
        ]

    def write(self, db: sqlite3.Connection) -> None:
        if rows := self.rows():
            db.executemany(_UPSERT.sql, _UPSERT.rows(rows))
        self._changed.clear()
