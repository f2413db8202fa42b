"""What attaches refer to, replayed in memory: residencies, fingerprints, grants, daemon instances, and the ledger's events about itself.

There are few of these beside the attaches, and they do look at each other (a load names fingerprints), so they are replayed in seq order
before anything else.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec
from sqlalchemy import Table

from wcache.core.model import events as ev
from wcache.core.model.errors import WcacheError
from wcache.core.model.evidence import Fingerprint
from wcache.core.model.machines import StreamState
from wcache.ledger import schema
from wcache.ledger.problem import Difference, Problem
from wcache.ledger.projection import (
    Accepted,
    Row,
    fingerprint_row,
    grant_row,
    instance_row,
    is_evidence,
    residency_row,
    sightings_loaded,
    sightings_recorded,
)
from wcache.ledger.reader import OTHERS
from wcache.ledger.stored import StoredEvent
from wcache.ledger.streams import Streams

_TABLES = (schema.residency, schema.fingerprint, schema.sighting, schema.trust, schema.instance)

Key = tuple[Any, ...]


class Context:
    """Streams that are no attaches, fed event by event in seq order. `timeline` says where each residency stood when."""

    def __init__(self, report: Callable[[Problem], None], versions: Mapping[str, int]) -> None:
        """`versions`: streams that began in a part of the ledger that was dropped and of which nothing was carried."""
        self.timeline: dict[str, tuple[list[int], list[str]]] = {}
        self.redactions: set[int] = set()
        self._report = report
        self._streams = Streams({name: (version, StreamState()) for name, version in versions.items()})
        self._rows: dict[str, dict[Key, Row]] = {table.name: {} for table in _TABLES}

    def feed(self, item: StoredEvent) -> None:
        """Puts an event that lies on its own stream through machine and projections; reports what cannot have happened."""
        event = item.event
        try:
            _, state, late = self._streams.advance(item.stream, event, None)
        except WcacheError as error:
            self._streams.rollback()
            self._report(Problem(item.seq, "transition", str(error)))
            return
        self._streams.keep()
        if late != item.late:
            self._report(Problem(item.seq, "late", f"{item.type} is flagged {'late' if item.late else 'in time'}, and was not"))
        if isinstance(event, ev.PayloadRedacted):
            self.redactions.add(event.target_seq)
        if not late:
            self._project(Accepted(item.seq, item.occurred_ns, item.recorded_ns, late, item.stream, event, state))

    def _project(self, item: Accepted) -> None:
        kind, _, key = item.stream.partition("/")
        event = item.event
        if kind == "residency":
            self._evolve(schema.residency, key, item, self._residency_row)
            seqs, states = self.timeline.setdefault(key, ([], []))
            state = item.state.residency.value
            if not states or states[-1] != state:
                seqs.append(item.seq)
                states.append(state)
        elif kind == "fingerprint" and is_evidence(event):
            self._rows["fingerprint"].setdefault((key,), fingerprint_row(item, event))
            self._sight(sightings_recorded(item, event))
        elif kind == "trust":
            self._evolve(schema.trust, key, item, grant_row)
        elif kind == "daemon":
            self._evolve(schema.instance, key, item, instance_row)

    def _evolve(self, table: Table, key: str, item: Accepted, step: Callable[[Row | None, Accepted], Row | None]) -> None:
        rows = self._rows[table.name]
        row = step(rows.get((key,)), item)
        if row is not None:
            rows[(key,)] = row

    def _residency_row(self, row: Row | None, item: Accepted) -> Row | None:
        named: dict[str, Fingerprint] = {}
        if isinstance(item.event, ev.LoadCompleted):
            fingerprints = self._rows["fingerprint"]
            bodies = ((name, fingerprints.get((name,))) for name in item.event.fingerprints)
            named = {name: msgspec.json.decode(found["body"], type=Fingerprint) for name, found in bodies if found is not None}
        changed = residency_row(row, item, list(named.values()))
        self._sight(sightings_loaded(item, changed, named))
        return changed

    def _sight(self, rows: Iterable[Row]) -> None:
        for row in rows:
            self._rows["sighting"].setdefault((row["instance"], row["spelling"]), row)

    def compare(self, db: sqlite3.Connection) -> list[Difference]:
        """How the ledger's tables of these differ from what was replayed."""
        streams = {(row["stream"],): row for row in self._streams.rows()}
        found = compare_table(db, schema.stream, streams, OTHERS)
        for table in _TABLES:
            found += compare_table(db, table, self._rows[table.name])
        return found


def compare_table(db: sqlite3.Connection, table: Table, rows: Mapping[Key, Row], where: str = "1") -> list[Difference]:
    """How the rows of a table differ from those that there should be."""
    keys = [column.name for column in table.primary_key.columns]
    names = [*keys, *(column.name for column in table.columns if column.name not in keys)]
    columns = ", ".join(f'"{name}"' for name in names)
    found: list[Difference] = []
    seen: set[Key] = set()
    for held in db.execute(f"SELECT {columns} FROM {table.name} WHERE {where}"):  # noqa: S608
        key = held[: len(keys)]
        want = rows.get(key)
        text = "/".join(map(str, key))
        seen.add(key)
        if want is None:
            found.append(Difference(table.name, text, "extra"))
            continue
        other = [name for name, value in zip(names, held, strict=True) if value != want[name]]
        if other:
            found.append(Difference(table.name, text, "differs in " + ", ".join(other)))
    found += [Difference(table.name, "/".join(map(str, key)), "missing") for key in rows if key not in seen]
    return found
