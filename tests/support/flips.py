"""Every byte of a small ledger changed, one at a time, and what `wcache ledger verify` says to each.

`python tests/support/flips.py` does all of them (some minutes; `--mask` says which bits are turned over); `tests/ledger/test_tamper.py`
does a fixed sample. The file is one that SQLite wrote in pages of 512 bytes, so that little of it is empty.
"""

from __future__ import annotations

import argparse
import os
import sqlite3
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from support import history

from wcache.ledger.backup import backup
from wcache.ledger.export import export
from wcache.ledger.store import Ledger, NewEvent
from wcache.ledger.verify import verify

PAGE_BYTES = 512

HEADER = {
    "journal mode": range(18, 20), "fractions": range(20, 24), "change counter": range(24, 28), "size in pages": range(28, 32),
    "free list": range(32, 40), "schema cookie": range(40, 44), "schema format": range(44, 48), "cache size": range(48, 52),
    "auto-vacuum": range(52, 56), "encoding": range(56, 60), "user version": range(60, 64), "incremental vacuum": range(64, 68),
    "application id": range(68, 72), "reserved": range(72, 92), "version valid for": range(92, 96), "SQLite version": range(96, 100),
}  # fmt: skip
"""The first 100 bytes, without magic and page size: https://sqlite.org/fileformat2.html#the_database_header."""

UNSEEN = {
    "unused": "bytes between the cells of a page and behind the end of an overflow chain belong to no row; SQLite never reads them",
    "time of birth": "`created_ns` in `meta` is not hashed: nothing rests on when the file was made",
    "number in the schema": "the order in which tables and triggers were made",
    "header: journal mode": "says whether there is a log beside the file, and whoever opens it may change that",
    "header: change counter": "SQLite's notice to other processes that their cache is old",
    "header: size in pages": "used only where two counters agree; else SQLite asks for the size of the file",
    "header: schema cookie": "SQLite's notice that a compiled statement is old",
    "header: schema format": "how new indexes are written; there is one format since 2006",
    "header: cache size": "a suggestion",
    "header: encoding": "the low byte is what counts, and that is seen",
    "header: user version": "wcache uses it only to write without changing anything",
    "header: application id": "what file(1) says",
    "header: reserved": "for later versions of SQLite",
    "header: version valid for": "the second of the two counters above",
    "header: SQLite version": "which one wrote last",
}
"""What may be changed unseen, and why that is nothing: no event, no time and no decision is made of it."""


def small_ledger(directory: Path) -> Path:
    """A ledger of a few events as one file, with nothing left over in it."""
    with Ledger.open(directory / "ledger.sqlite") as ledger:
        ledger.append_batch([(NewEvent(event=history.load_started()), NewEvent(event=history.load_completed()))])
        ledger.append_batch([(NewEvent(event=history.decided("a-1")), NewEvent(event=history.granted("a-1")))])
    target = directory / "small.sqlite"
    backup(directory / "ledger.sqlite", target)
    connection = sqlite3.connect(target, isolation_level=None)
    connection.execute(f"PRAGMA page_size = {PAGE_BYTES}")
    connection.execute("VACUUM")
    connection.close()
    return target


class Anatomy:
    """Which bytes of an SQLite file are used, and for what; the others lie between cells, or behind the end of an overflow chain."""

    def __init__(self, body: bytes) -> None:
        self.body = body
        self.kinds = ["unused"] * len(body)
        self._overflow: set[int] = set()
        self._schema = self._tree(1)
        pages = range(1, len(body) // PAGE_BYTES + 1)
        self._mark(range(100), "header")
        for name, where in HEADER.items():
            self._mark(where, f"header: {name}")
        for page in pages:
            if self._start(page) + (100 if page == 1 else 0) not in self._overflow:
                self._page(page)
        birth = body.index(b"created_ns")
        self._mark(range(birth, birth + len("created_ns") + 19), "time of birth")

    def _start(self, page: int) -> int:
        return (page - 1) * PAGE_BYTES

    def _mark(self, where: range, kind: str) -> None:
        self.kinds[where.start : where.stop] = [kind] * len(where)

    def _number(self, at: int, size: int) -> int:
        return int.from_bytes(self.body[at : at + size], "big")

    def _varint(self, at: int) -> tuple[int, int]:
        value = 0
        for count in range(9):
            byte = self.body[at + count]
            if count == 8:
                return value << 8 | byte, at + 9
            value = value << 7 | byte & 0x7F
            if byte < 0x80:
                break
        return value, at + count + 1

    def _tree(self, page: int) -> set[int]:
        """The pages of a table, from its root on."""
        begin = self._start(page) + (100 if page == 1 else 0)
        if self.body[begin] != 5:
            return {page}
        cells = [self._number(begin + 12 + 2 * cell, 2) for cell in range(self._number(begin + 3, 2))]
        below = [self._number(begin + 8, 4), *(self._number(self._start(page) + cell, 4) for cell in cells)]
        return {page}.union(*map(self._tree, below))

    def _page(self, page: int) -> None:
        base, begin = self._start(page), self._start(page) + (100 if page == 1 else 0)
        kind = self.body[begin]
        if kind not in (2, 5, 10, 13):
            return  # an overflow page, which its cell marks
        head, cells = (12 if kind in (2, 5) else 8), self._number(begin + 3, 2)
        self._mark(range(begin, begin + head + 2 * cells), "page")
        for cell in range(cells):
            self._cell(kind, base + self._number(begin + head + 2 * cell, 2))

    def _cell(self, kind: int, at: int) -> None:
        start = at
        at += 4 if kind in (2, 5) else 0
        if kind == 5:
            self._mark(range(start, self._varint(at)[1]), "cell")
            return
        size, at = self._varint(at)
        rowid, at = at, self._varint(at)[1] if kind == 13 else at
        usable = PAGE_BYTES
        most = usable - 35 if kind == 13 else (usable - 12) * 64 // 255 - 23
        least = (usable - 12) * 32 // 255 - 23
        local = size
        if size > most:
            fits = least + (size - least) % (usable - 4)
            local = fits if fits <= most else least
        end = at + local + (4 if size > most else 0)
        self._mark(range(start, end), "cell")
        if start // PAGE_BYTES + 1 in self._schema:
            self._mark(range(rowid, at), "number in the schema")
        rest, page = size - local, self._number(end - 4, 4) if size > most else 0
        while rest > 0:
            base, part = self._start(page), min(rest, usable - 4)
            self._overflow.add(base)
            self._mark(range(base, base + 4 + part), "cell")
            self._mark(range(base + 4 + part, base + PAGE_BYTES), "unused")
            rest, page = rest - part, self._number(base, 4)


class Flip:
    """What became of one byte turned over. `seen` is whether verify found it, `same` whether the export was what it was before."""

    def __init__(self, offset: int, kind: str, classes: list[str], same: bool) -> None:
        self.offset, self.kind, self.classes, self.same = offset, kind, classes, same

    @property
    def seen(self) -> bool:
        return bool(self.classes)


def flips(file: Path, offsets: Sequence[int], mask: int) -> Iterator[Flip]:
    """Each byte in turn, the file whole again after each. An unseen change is held against the export of the whole file."""
    body = file.read_bytes()
    kinds = Anatomy(body).kinds
    whole = list(export(file))
    for offset in offsets:
        _write(file, offset, body[offset] ^ mask)
        classes = sorted({problem.cls for problem in verify(file).problems})
        yield Flip(offset, kinds[offset], classes, bool(classes) or list(export(file)) == whole)
        if file.stat().st_size != len(body):
            raise AssertionError(f"byte {offset}: verifying changed the size of the file")
        _write(file, offset, body[offset])
        for name in (f"{file.name}-wal", f"{file.name}-shm", f"{file.name}-journal"):
            file.with_name(name).unlink(missing_ok=True)


def _write(file: Path, offset: int, value: int) -> None:
    descriptor = os.open(file, os.O_WRONLY)
    os.pwrite(descriptor, bytes([value]), offset)
    os.close(descriptor)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mask", type=lambda text: int(text, 0), default=0xFF, help="which bits are turned over (0xff)")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="wcache-flips-") as directory:
        file = small_ledger(Path(directory))
        size = file.stat().st_size
        seen, unseen, wrong, began_s = Counter[str](), Counter[str](), 0, time.monotonic()
        for number, flip in enumerate(flips(file, range(size), arguments.mask), 1):
            (seen if flip.seen else unseen)[flip.kind] += 1
            if not flip.same or (not flip.seen and flip.kind not in UNSEEN):
                print(f"byte {flip.offset}, {flip.kind}: not seen" + ("" if flip.same else ", and an event changed"))
                wrong += 1
            if number % 1000 == 0:
                print(f"{number} of {size}, {time.monotonic() - began_s:.0f} s", file=sys.stderr)
    print(f"{size} bytes changed, {seen.total()} seen, {unseen.total()} not seen, {wrong} of them not in the list")
    for kind, count in sorted(unseen.items()):
        print(f"{count:6} {kind}: {UNSEEN.get(kind, '?')}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
