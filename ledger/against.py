"""A ledger against signed checkpoints that lie elsewhere, and against those that it recorded itself: what a chain alone cannot show."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from wcache.core.model.errors import LedgerCorrupt, SignatureInvalid
from wcache.core.model.events import CheckpointSigned, decode_payload
from wcache.ledger.leaves import Trees, head_seq
from wcache.ledger.note import SignedCheckpoint, read_checkpoint, root_from_hex
from wcache.ledger.segments import History
from wcache.ledger.signing import PublicKey

Add = Callable[[int | None, str, str], None]
# By the stream, which has an index: the table may have a million rows.
_RECORDED = (
    "SELECT seq, schema, payload FROM event WHERE stream = 'ledger' AND type = 'checkpoint.signed' AND payload IS NOT NULL ORDER BY seq"
)


class Given(msgspec.Struct, frozen=True):
    """Signed checkpoints to hold a ledger against, by the files that they came from, and whose signatures count."""

    checkpoints: tuple[tuple[str, SignedCheckpoint], ...] = ()
    keys: tuple[PublicKey, ...] = ()

    @classmethod
    def read(cls, paths: Sequence[Path | str], keys: Sequence[PublicKey] = ()) -> Given:
        """Raises NotFound and UsageError for files that cannot be read, SignatureInvalid for those that are no signed checkpoint."""
        return cls(tuple((str(path), read_checkpoint(path)) for path in paths), tuple(keys))


def sizes_signed(db: sqlite3.Connection, given: Given) -> set[int]:
    """At which `hold` needs the tree."""
    return {*(checkpoint.size for _, checkpoint in given.checkpoints), *(event.size for _, event in _recorded(db))}


def hold(db: sqlite3.Connection, history: History, trees: Trees, given: Given, add: Add, notes: list[str]) -> None:
    """Compares with the trees of `sizes_signed`, adding a problem for each contradiction, and saying in `notes` how far the ledger is
    covered.

    Classes: `origin` (a checkpoint of another ledger), `signature` (not signed by one of the keys), `truncated` (fewer events than were
    signed), `rewritten` (other events than were signed).
    """
    try:
        size = head_seq(db)
    except sqlite3.Error:
        return  # whoever looks at the rows has said so
    wanted: dict[int, list[tuple[int | None, str, bytes]]] = {}
    for name, checkpoint in given.checkpoints:
        try:
            end = history.end_of(checkpoint.ledger)
        except KeyError:
            add(None, "origin", f"{name} is a checkpoint of {checkpoint.origin}, another ledger")
            continue
        if given.keys:
            try:
                checkpoint.signed_by(given.keys)
            except SignatureInvalid as error:
                add(None, "signature", f"{name}: {error}")
                continue
        last = size if end is None else min(end, size)
        if checkpoint.size > last:
            lost = "are missing at the end" if end is None else f"were lost when a backup was restored at seq {end + 1}"
            what = f"{name} was signed for {checkpoint.size} events, and there are {last}: {checkpoint.size - last} {lost}"
            add(None, "truncated", what)
            continue
        wanted.setdefault(checkpoint.size, []).append((None, name, checkpoint.root))
    compared = max((count for count in wanted if count in trees.frontiers), default=None)
    for seq, event in _recorded(db):
        if event.origin != history.origin_at(seq):
            add(seq, "origin", f"it records a checkpoint of the ledger {event.origin}")
        elif event.size >= seq:
            add(seq, "rewritten", f"it records a checkpoint of {event.size} events, more than there were")
        else:
            wanted.setdefault(event.size, []).append((seq, "checkpoint.signed", root_from_hex(event.root)))
    if any(count not in trees.frontiers for count in wanted if count >= history.frontier.size):
        add(None, "rewritten", f"the events that were signed cannot be hashed: {trees.why}")
    for count, claims in sorted(wanted.items()):
        found = trees.root(count)
        for where, name, root in claims:
            if count < history.frontier.size:
                if where is None:
                    notes.append(f"{name} is about the first {count} events, which were dropped: it cannot be compared any more")
            elif found is not None and found != root:
                add(where, "rewritten", f"the first {count} events are not those that were signed in {name}")
    if compared is not None:
        later = f"; no checkpoint that was given covers those after it ({size - compared})" if size > compared else ""
        notes.append(f"the events up to seq {compared} were compared with what was signed{later}")
        if not given.keys:
            notes.append("the signatures were not checked: no public key was given")


def _recorded(db: sqlite3.Connection) -> list[tuple[int, CheckpointSigned]]:
    """Those that can be read and decoded: the others are reported where all rows are."""
    found = []
    try:
        rows = db.execute(_RECORDED).fetchall()
    except sqlite3.Error:
        return []
    for seq, schema, payload in rows:
        try:
            event = decode_payload(CheckpointSigned.type, schema, payload)
        except LedgerCorrupt:
            continue
        if isinstance(event, CheckpointSigned):
            found.append((seq, event))
    return found
