"""The rows of a ledger as leaves of its Merkle tree: leaf number n - 1 is SHA-256(0x00 || `leaf` of the row with seq n).

`leaf` is the hash of everything that the row says (ledger-format.md), the one that the chain links: so a redaction, which keeps the
payload's hash, changes no root, and a proof of one event needs no other event.
"""

from __future__ import annotations

import sqlite3
import struct
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from hashlib import sha256
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from wcache.core.model.errors import LedgerCorrupt
from wcache.ledger.chain import Chain
from wcache.ledger.database import meaning
from wcache.ledger.merkle import Frontier, subtrees

if TYPE_CHECKING:
    from wcache.ledger.segments import History

PAGE_EVENTS = 5000
_SELECT = (
    "SELECT seq, stream, version, type, schema, event_id, occurred_ns, recorded_ns, late, payload_hash, chain FROM event"
    " WHERE seq > ? ORDER BY seq LIMIT ?"
)

Progress = Callable[[int, int], None]


def head_seq(db: sqlite3.Connection) -> int:
    return int(db.execute("SELECT coalesce(max(seq), 0) FROM event").fetchone()[0])


def leaf_hashes(
    db: sqlite3.Connection, history: History, until: int, path: Path, *, after: int | None = None, chained: bool = False
) -> Iterator[list[bytes]]:
    """The leaf hashes of all rows up to seq `until`, or of those behind `after`, some thousand at a time. Each page is read by one
    statement, so that nobody's reading keeps the log from being checkpointed.

    Raises LedgerCorrupt at a row that is missing or cannot be read, and with `chained` (of all rows) at one that is not the one that was
    chained.
    """
    after, previous = history.frontier.size if after is None else after, history.chain_before
    links = {name: Chain(name) for name in (history.origin, *(older for _, older in history.origins))}
    ends = {until for until, _ in history.origins}
    leaf_of, link = links[history.origin_at(after + 1)].leaf, Chain.link
    while after < until:
        try:
            rows = db.execute(_SELECT, (after, min(PAGE_EVENTS, until - after))).fetchall()
        except sqlite3.Error as error:
            raise meaning(error, path) from error
        leaves = []
        for row in rows:
            seq, stream, version, kind, schema, event_id, occurred_ns, recorded_ns, late, hashed, linked = row
            if seq != after + 1:
                break
            if seq in ends:
                leaf_of = links[history.origin_at(seq)].leaf
            try:
                leaf = leaf_of(seq, stream, version, kind, schema, event_id, occurred_ns, recorded_ns, bool(late), hashed)
            except (TypeError, AttributeError, UnicodeError, struct.error):
                raise LedgerCorrupt(unreadable(seq), where=str(path)) from None
            if chained:
                previous = link(previous, leaf)
                if previous != linked:
                    raise LedgerCorrupt(f"seq {seq} is not the row that was chained", where=str(path))
            leaves.append(sha256(b"\x00" + leaf).digest())
            after = seq
        if len(leaves) < len(rows) or not rows:
            raise LedgerCorrupt(missing(after + 1), where=str(path))
        yield leaves


def unreadable(seq: int) -> str:
    return f"the row of seq {seq} cannot be read"


def missing(seq: int) -> str:
    return f"seq {seq} is missing"


class Pieces(msgspec.Struct):
    """What consecutive leaves behind the first `begin` make of a tree: the complete subtrees (`merkle.subtrees`) up to each end, which is a
    number of leaves; and why they end before the last leaf that was wanted, or empty."""

    begin: int = 0
    ends: list[tuple[int, list[tuple[int, bytes]]]] = []
    why: str = ""


def cut(begin: int, leaves: Sequence[bytes], sizes: Sequence[int], why: str = "") -> Pieces:
    """Of the hashes of rows (`Chain.leaf`) behind the first `begin`, cut so that the tree of each of `sizes`, in order, can be told."""
    end = begin + len(leaves)
    ends = [size for size in sizes if begin < size <= end]
    if sizes and sizes[-1] > end > begin:
        ends = sorted({*ends, end})  # others grow on it
    hashed = [sha256(b"\x00" + leaf).digest() for leaf in leaves[: ends[-1] - begin]] if ends else []
    pairs = zip([begin, *ends], ends, strict=False)
    return Pieces(begin, [(until, subtrees(start, hashed[start - begin : until - begin])) for start, until in pairs], why)


class Trees(msgspec.Struct):
    """The tree at some sizes. `why`: what keeps the larger ones that were wanted from being known."""

    frontiers: dict[int, Frontier]
    why: str

    def root(self, size: int) -> bytes | None:
        return self.frontiers[size].root() if size in self.frontiers else None


def join(before: Frontier, pieces: Iterable[Pieces], sizes: Collection[int]) -> Trees:
    """The trees of `sizes` from their pieces, in order."""
    tree, wanted = Frontier(before.size, before.nodes), set(sizes)
    found = {tree.size: before} if tree.size in wanted else {}
    last = max(wanted, default=0)
    for one in pieces:
        if tree.size >= last:
            break
        if one.ends and one.begin != tree.size:  # what lies between could not be read
            break
        for end, nodes in one.ends:
            for level, node in nodes:
                tree.join(level, node)
            if end in wanted:
                found[end] = Frontier(tree.size, tree.nodes)
        if one.why:
            return Trees(found, one.why)
    return Trees(found, missing(tree.size + 1))


def roots(
    db: sqlite3.Connection, history: History, sizes: Iterable[int], path: Path, *, chained: bool = False, progress: Progress | None = None
) -> dict[int, bytes]:
    """The tree's root at each of `sizes`, from one pass over the rows; none for a size that lies before the ledger's beginning. `progress`
    is called with (events done, events in all). Raises as `leaf_hashes`."""
    frontier = Frontier(history.frontier.size, history.frontier.nodes)
    wanted = sorted({size for size in sizes if size >= frontier.size}, reverse=True)
    last = wanted[0] if wanted else 0
    found: dict[int, bytes] = {}
    for leaves in chain([[]], leaf_hashes(db, history, last, path, chained=chained)):
        while wanted and wanted[-1] <= frontier.size + len(leaves):
            size = wanted.pop()
            here = size - frontier.size
            frontier.extend(leaves[:here])
            del leaves[:here]
            found[size] = frontier.root()
        frontier.extend(leaves)
        if progress is not None:
            progress(frontier.size, last)
    return found
