"""How the ledger's projected tables differ from what replaying its events gave."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from operator import itemgetter
from typing import Any

from sqlalchemy import Table

from wcache.ledger import schema
from wcache.ledger.attaches import PREFIX, AttachStream
from wcache.ledger.problem import Difference
from wcache.ledger.projection import Row, select_in

MAX_DIFFERENCES = 100  # a table: more say nothing more

Key = tuple[Any, ...]

_NAMES = tuple(column.name for column in schema.attach.columns)
_VALUES = itemgetter(*_NAMES)
_KEY = _NAMES.index("attach")
_SELECT = f"""SELECT {", ".join(f'a."{name}"' for name in _NAMES)}, s.version, s.state
FROM attach a LEFT JOIN stream s ON s.stream = '{PREFIX}' || a.attach WHERE"""  # noqa: S608


def compare_between(db: sqlite3.Connection, first_seq: int, last_seq: int, streams: Iterable[AttachStream]) -> list[Difference]:
    """Of the attaches whose row has its decision in [first_seq, last_seq], and of `streams`. Partial ones are left out."""
    return _compare(db.execute(f"{_SELECT} a.seq BETWEEN ? AND ?", (first_seq, last_seq)), db, streams)


def compare_named(db: sqlite3.Connection, streams: Iterable[AttachStream]) -> list[Difference]:
    """Of these attaches, wherever their rows are."""
    named = list(streams)
    return _compare(select_in(db, f"{_SELECT} a.attach IN", sorted(stream.key for stream in named)), db, named)


def _compare(rows: Iterable[tuple[Any, ...]], db: sqlite3.Connection, streams: Iterable[AttachStream]) -> list[Difference]:
    by_key = {stream.key: stream for stream in streams}
    found: list[Difference] = []
    for row in rows:
        stream = by_key.get(row[_KEY])
        if stream is None:
            found.append(Difference("attach", row[_KEY], "extra"))
        elif stream.partial:
            continue
        elif stream.row is None:
            found.append(Difference("attach", row[_KEY], "extra"))
        else:
            stream.seen = True
            if (*_VALUES(stream.row), stream.accepted, stream.place.text) != row:
                found += _tell(row, stream, stream.row)
    unseen = {PREFIX + stream.key: stream for stream in by_key.values() if not stream.seen and not stream.partial}
    found += [Difference("attach", stream.key, "missing") for stream in unseen.values() if stream.row is not None]
    states = select_in(db, "SELECT stream, version, state FROM stream WHERE stream IN", sorted(unseen))
    held = {name: (version, text) for name, version, text in states}
    for name, stream in unseen.items():
        found += _tell_state(stream, *held.get(name, (None, None)))
    return found


def _tell(row: tuple[Any, ...], stream: AttachStream, want: Row) -> Iterator[Difference]:
    other = [name for name, value in zip(_NAMES, row, strict=False) if value != want[name]]
    if other:
        yield Difference("attach", row[_KEY], "differs in " + ", ".join(other))
    yield from _tell_state(stream, row[-2], row[-1])


def _tell_state(stream: AttachStream, version: int | None, text: str | None) -> Iterator[Difference]:
    name = PREFIX + stream.key
    if version is None:
        if stream.accepted:
            yield Difference("stream", name, "missing")
    elif not stream.accepted:
        yield Difference("stream", name, "extra")
    elif version != stream.accepted or text != stream.place.text:
        other = [column for column, same in (("version", version == stream.accepted), ("state", text == stream.place.text)) if not same]
        yield Difference("stream", name, "differs in " + ", ".join(other))


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
