"""The rows of a ledger as leaves of its Merkle tree: leaf number n - 1 is SHA-256(0x00 || `leaf` of the row with seq n).

`leaf` is the hash of everything that the row says (ledger-format.md), the one that the chain links: so a redaction, which keeps the
payload's hash, changes no root, and a proof of one event needs no other event.
"""

from __future__ import annotations

import sqlite3
import struct
from collections.abc import Callable, Iterable, Iterator
from hashlib import sha256
from itertools import chain
from pathlib import Path

from wcache.core.model.errors import LedgerCorrupt
from wcache.ledger.chain import Chain
from wcache.ledger.database import meaning
from wcache.ledger.merkle import Frontier
from wcache.ledger.segments import History

PAGE_EVENTS = 5000
_SELECT = (
    "SELECT seq, stream, version, type, schema, event_id, occurred_ns, recorded_ns, late, payload_hash, chain FROM event"
    " WHERE seq > ? ORDER BY seq LIMIT ?"
)

Progress = Callable[[int, int], None]


def head_seq(db: sqlite3.Connection) -> int:
    return int(db.execute("SELECT coalesce(max(seq), 0) FROM event").fetchone()[0])


def leaf_hashes(db: sqlite3.Connection, history: History, until: int, path: Path, *, chained: bool = False) -> Iterator[list[bytes]]:
    """The leaf hashes of all rows up to seq `until`, some thousand at a time. Each page is read by one statement, so that nobody's
    reading keeps the log from being checkpointed.

    Raises LedgerCorrupt at a row that is missing or cannot be read, and with `chained` at one that is not the one that was chained.
    """
    after, previous = history.frontier.size, history.chain_before
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
                raise LedgerCorrupt(f"the row of seq {seq} cannot be read", where=str(path)) from None
            if chained:
                previous = link(previous, leaf)
                if previous != linked:
                    raise LedgerCorrupt(f"seq {seq} is not the row that was chained", where=str(path))
            leaves.append(sha256(b"\x00" + leaf).digest())
            after = seq
        if len(leaves) < len(rows) or not rows:
            raise LedgerCorrupt(f"seq {after + 1} is missing", where=str(path))
        yield leaves


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
