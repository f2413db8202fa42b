"""One snapshot of a ledger's file, read for checking: as bytes, and going on behind damaged pages."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from operator import lt
from pathlib import Path
from struct import Struct
from typing import Any

from sqlalchemy import Connection

from wcache.ledger.attaches import PREFIX, WRONG_TYPE
from wcache.ledger.chain import Chain
from wcache.ledger.database import connect_reader, driver, meaning
from wcache.ledger.problem import Problem
from wcache.ledger.segments import Past
from wcache.ledger.stored import EVENT_COLUMNS

SKIP_ROWS = 2_000  # how far to look for the next readable row behind a damaged page
FIRST_SEQ, LAST_SEQ = -(1 << 63), (1 << 63) - 1
MAPPED_BYTES = 1 << 40  # SQLite maps what there is, up to its own limit
CACHE_KIB = 65_536  # whoever reads a file once from end to end, indexes included, is not the server
OTHERS = f"(stream < '{PREFIX}' OR stream >= 'attach0')"  # '0' follows '/'

SUM_MASK = (1 << 63) - 1
FETCH_ROWS = 2_000
_INDEXES = (
    ("sqlite_autoindex_event_1", "event_id", "typeof(event_id) <> 'text'"),
    ("sqlite_autoindex_event_2", "stream, version", "typeof(stream) <> 'text' OR typeof(version) <> 'integer'"),
)

_COLUMNS = f"{EVENT_COLUMNS}, salt, payload_hash, chain"
_AMONG_OTHERS = f"""{OTHERS} AND seq IN (
  SELECT seq FROM event INDEXED BY {_INDEXES[1][0]} WHERE stream < '{PREFIX}'
  UNION ALL SELECT seq FROM event INDEXED BY {_INDEXES[1][0]} WHERE stream >= 'attach0')"""  # noqa: S608
_packed = Struct(">q").pack
_packed_pair = Struct(">qq").pack


def added_up(rows: Sequence[Sequence[Any]]) -> tuple[int, int]:
    """Sums over rows of `event` of what each of its two indexes holds, in any order. Python's hashes of bytes are keyed at random
    (PYTHONHASHSEED), so nobody can make another index that adds up to the same; SQLite's own check looks every row up in every index, which
    takes several times as long. (0, 0) where a row holds what its column cannot have, and no index can agree.

    An entry is hashed as one string of bytes: in the hash of a tuple numbers are not keyed, so that two entries that exchange theirs would
    add up to the same every other time."""
    try:
        return (
            sum([hash(row[3] + _packed(row[0])) for row in rows]) & SUM_MASK,
            sum([hash(row[1] + _packed_pair(row[2], row[0])) for row in rows]) & SUM_MASK,
        )
    except WRONG_TYPE:
        return 0, 0


class Reader:
    """Rows of `event`, all from the transaction that was begun last. Text comes as bytes, whatever it is."""

    def __init__(self, path: Path) -> None:
        """Raises as `connect_reader`."""
        self.path = path
        self.past = Past()
        self._engine = connect_reader(path)
        self.connection: Connection = self._engine.connect()
        self.db: sqlite3.Connection = driver(self.connection)
        self.db.execute(f"PRAGMA cache_size=-{CACHE_KIB}")

    def map(self) -> None:
        """Reads through a mapping, which saves a third; for a process that may end by SIGBUS where somebody cuts the file off."""
        self.db.execute(f"PRAGMA mmap_size={MAPPED_BYTES}")

    def close(self) -> None:
        self._engine.dispose()

    def begin(self) -> tuple[int, bytes]:
        """Sees the ledger as it is now, until the next call: newest seq and its chain hash."""
        self.connection.rollback()
        self.connection.begin()
        row = self.db.execute("SELECT seq, chain FROM event ORDER BY seq DESC LIMIT 1").fetchone()
        return (row[0], bytes(row[1] or b"")) if row is not None else (0, b"")

    def size(self) -> tuple[int, int]:
        """Number of events and the greatest seq; (0, 0) where not even that can be read."""
        try:
            count, last = self.db.execute("SELECT count(*), coalesce(max(seq), 0) FROM event").fetchone()
        except sqlite3.Error:
            return 0, 0
        return count, last

    @contextmanager
    def as_bytes(self) -> Iterator[None]:
        self.db.text_factory = bytes
        try:
            yield
        finally:
            self.db.text_factory = str

    def integrity(self, table: str | None = None) -> list[Problem]:
        """SQLite's own findings about a table with its indexes, or about the pages, values and types of the whole file."""
        # With views in it, the check of the whole file passes over the list of free pages (SQLite 3.40); that of the schema does not.
        checks = [f"integrity_check({table})"] if table else ["quick_check", "quick_check(sqlite_schema)"]
        try:
            lines = list(dict.fromkeys(str(row[0]) for check in checks for row in self.db.execute(f"PRAGMA {check}")))
        except (sqlite3.Error, UnicodeDecodeError) as error:
            lines = [meaning(error, self.path).what]
        return [Problem(None, "file", line.replace("\n", " ")) for line in lines if line != "ok"]

    def tables(self) -> list[str]:
        """Those whose indexes SQLite is to check: all but `event`, whose rows and indexes are added up (`indexed`)."""
        try:
            rows = self.db.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND name <> 'event' ORDER BY name").fetchall()
        except sqlite3.Error:
            return []  # `quick_check` says why
        return [name for (name,) in rows if isinstance(name, str) and name.isidentifier()]

    def indexed(self, index: int) -> int | None:
        """The entries of one index of `event`, added up as `added_up` adds up the rows; None where they are out of order, or of a type that
        no lookup would find. Raises sqlite3.Error."""
        name, columns, types = _INDEXES[index]
        # Every column is in the index, so the table is not looked at.
        place = f"FROM event INDEXED BY {name}"
        if self.db.execute(f"SELECT count(*) {place} WHERE {types}").fetchone()[0]:
            return None
        total, before = 0, ()
        with self.as_bytes():
            found = self.db.execute(f"SELECT seq, {columns} {place}")
            while rows := found.fetchmany(FETCH_ROWS):
                keys = [row[1:] for row in rows]
                if not all(map(lt, [before, *keys], keys)):
                    return None
                before = keys[-1]
                if index == 0:
                    total += sum([hash(name + _packed(seq)) for seq, name in rows])
                else:
                    total += sum([hash(name + _packed_pair(version, seq)) for seq, name, version in rows])
        return total & SUM_MASK

    def before(self, seq: int, chain: Chain) -> tuple[int, bytes | None, int]:
        """Seq, chain hash and `recorded_ns` of what is before `seq`; the hash is None where that cannot be read."""
        try:
            sql = "SELECT seq, chain, recorded_ns FROM event WHERE seq < ? ORDER BY seq DESC LIMIT 1"
            row = self.db.execute(sql, (seq,)).fetchone()
        except sqlite3.Error:
            return seq - 1, None, 0
        if row is None:
            return self.past.last_seq, self.past.last_chain or chain.genesis, 0
        return row[0], row[1], row[2]

    def rows(self, first_seq: int, last_seq: int, problems: list[Problem], *, others: bool = False) -> Iterator[tuple[Any, ...]]:
        """Rows in [first_seq, last_seq] in seq order: EVENT_COLUMNS, salt, payload_hash, chain. What cannot be read is a problem. `others`:
        only those that are on no stream of an attach, found by the index of streams, which SQLite would not use by itself."""
        indexed = others
        following = first_seq
        while True:
            where = _AMONG_OTHERS if indexed else OTHERS if others else "1"
            sql = f"SELECT {_COLUMNS} FROM event NOT INDEXED WHERE seq BETWEEN ? AND ? AND {where} ORDER BY seq"  # noqa: S608
            try:
                for row in self.db.execute(sql, (following, last_seq)):
                    if row[0] < following:  # a damaged page that counts more cells than it has: it would never end
                        raise sqlite3.DatabaseError("rows out of order")
                    yield row
                    following = row[0] + 1
                return
            except sqlite3.Error as error:
                why = meaning(error, self.path).what
            if indexed:  # perhaps only the index is damaged
                indexed = False
                continue
            row, seq = self._behind(following, last_seq, why, problems)
            following = seq + 1
            if row is None:
                return
            if not others or self._is_among_others(row[0]):
                yield row

    def _behind(self, first: int, last_seq: int, why: str, problems: list[Problem]) -> tuple[tuple[Any, ...] | None, int]:
        """The next row that can be read, and its seq."""
        readable = (row for row in map(self._row_at, range(first, min(first + SKIP_ROWS, last_seq + 1))) if row is not None)
        row = next(readable, None)
        until = "the end" if row is None else f"seq {row[0] - 1}"
        if row is None or row[0] > first:
            problems.append(Problem(first, "file", f"rows from seq {first} to {until} cannot be read: {why}"))
        return row, first if row is None else row[0]

    def _row_at(self, seq: int) -> tuple[Any, ...] | None:
        try:
            row: tuple[Any, ...] | None = self.db.execute(f"SELECT {_COLUMNS} FROM event WHERE seq = ?", (seq,)).fetchone()  # noqa: S608
        except sqlite3.Error:
            return None
        return row if row is not None and row[0] == seq else None

    def _is_among_others(self, seq: int) -> bool:
        return self.db.execute(f"SELECT 1 FROM event WHERE seq = ? AND {OTHERS}", (seq,)).fetchone() is not None  # noqa: S608

    def stream(self, name: str) -> list[tuple[Any, ...]]:
        """EVENT_COLUMNS of one stream in seq order, within `as_bytes`: what was carried of it, then its rows, redacted ones as they were
        kept."""
        sql = f"SELECT {EVENT_COLUMNS} FROM event WHERE stream = ? ORDER BY seq"  # noqa: S608
        return [*self.past.carried.get(name, ()), *map(self.past.kept, self.db.execute(sql, (name,)).fetchall())]
