"""Making signed checkpoints: looking first, signing after, and never anything that contradicts what was signed before.

The note of the last checkpoint lies in a file, by default beside the ledger; each new one replaces it. Before a signature is made, the
whole tree is computed from the rows that the ledger holds, and has to have the roots that the note and the newest `checkpoint.signed` say.
"""

from __future__ import annotations

import secrets
import sqlite3
from pathlib import Path

import msgspec

from wcache.core.model.errors import LedgerCorrupt, NotFound, UsageError
from wcache.core.model.events import CheckpointSigned, stream_of
from wcache.ledger.durable import replace_file
from wcache.ledger.leaves import Progress, head_seq, roots
from wcache.ledger.note import SignedCheckpoint, read_checkpoint, root_from_hex, sign_checkpoint
from wcache.ledger.reading import reading
from wcache.ledger.segments import read_history
from wcache.ledger.signing import SigningKey
from wcache.ledger.store import Ledger
from wcache.ledger.stored import newest_of_ledger


class Made(msgspec.Struct, frozen=True):
    """`new` is False where nothing happened since the last one, which then still stands. `recorded_seq` is where the ledger says it."""

    checkpoint: SignedCheckpoint
    path: str
    new: bool
    previous_size: int | None = None
    recorded_seq: int | None = None


def default_path(ledger: Path) -> Path:
    return ledger.with_name(ledger.name + ".checkpoint")


def make_checkpoint(
    ledger: Path | str, key: SigningKey, out: Path | str | None = None, *, record: bool = True, progress: Progress | None = None
) -> Made:
    """Signs the ledger as it is now, writes the note to `out` (durably, replacing the one before) and records `checkpoint.signed`.

    Raises LedgerCorrupt, and signs nothing, where the ledger is not an extension of what was signed last, or a row is not the one that was
    chained. With `record` unset the ledger is only read: for a copy of it, on the machine that has the key.
    """
    path = Path(ledger).absolute()
    target = default_path(path) if out is None else Path(out).absolute()
    held = _held(target, key)
    with reading(path) as (db, origin):
        checkpoint, recorded_size = _sign(db, path, origin, key, held, target, progress)
    if checkpoint is not held:
        replace_file(target, [checkpoint.text.encode()], mode=0o644, remedy="give another --out")
    # What was signed and could not be recorded, because of a crash or a busy ledger, is recorded by the next one.
    seq = _record(path, checkpoint, origin, key) if record and recorded_size != checkpoint.size else None
    return Made(checkpoint, str(target), checkpoint is not held, None if held is None else held.size, seq)


def _held(target: Path, key: SigningKey) -> SignedCheckpoint | None:
    """The last note. Of another key it may be, after a change of keys; a bad signature of this key it must not have."""
    try:
        held = read_checkpoint(target)
    except NotFound:
        return None
    if _is_by(held, key):
        held.signed_by([key.public], str(target))
    return held


def _is_by(checkpoint: SignedCheckpoint, key: SigningKey) -> bool:
    return (key.name, key.public.id) in {(line.name, line.key_id) for line in checkpoint.signatures}


def _sign(
    db: sqlite3.Connection, path: Path, origin: str, key: SigningKey, held: SignedCheckpoint | None, target: Path, progress: Progress | None
) -> tuple[SignedCheckpoint, int | None]:
    """The checkpoint that stands now, and the size of the one that the ledger recorded last."""
    size = head_seq(db)
    recorded = _recorded(db)
    signed = {} if recorded is None else {recorded.size: (root_from_hex(recorded.root), "the ledger itself recorded")}
    history, last = read_history(db, origin), size
    if held is not None:
        try:
            end = history.end_of(held.ledger)
        except KeyError:
            raise UsageError(
                f"this is the checkpoint of another ledger ({held.origin})",
                where=str(target),
                remedy="keep it for audits of that one, and give another --out",
            ) from None
        last = size if end is None else min(size, end)
        signed[held.size] = (held.root, f"{target} says")
    if signed and max(signed) > last:
        raise LedgerCorrupt(
            f"it has {last} of the {max(signed)} events that were signed: its end was cut off, or it is an older copy; nothing was signed",
            where=str(path),
            detail="truncated",
        )
    found = roots(db, history, {size, *signed}, path, chained=True, progress=progress)
    for old, (root, says) in signed.items():
        if old not in found and (held is None or old != held.size):
            continue  # recorded after the events that it is about, which were dropped
        if old not in found:
            raise UsageError(
                f"the events up to {old} were dropped, so that checkpoint cannot be compared with the ledger any more",
                where=str(target),
                remedy="keep it for audits, and give another --out",
            )
        if found[old] != root:
            raise LedgerCorrupt(
                f"its first {old} events are not those that {says} were signed: rewritten; nothing was signed",
                where=str(path),
                detail="rewritten",
            )
    newer = "SELECT 1 FROM event WHERE seq > ? AND type <> 'checkpoint.signed' LIMIT 1"
    if held is not None and held.ledger == origin and _is_by(held, key) and db.execute(newer, (held.size,)).fetchone() is None:
        return held, recorded.size if recorded else None
    return sign_checkpoint(key, origin, size, found[size]), recorded.size if recorded else None


def _recorded(db: sqlite3.Connection) -> CheckpointSigned | None:
    found = newest_of_ledger(db, CheckpointSigned.type)
    return found.event if found is not None and isinstance(found.event, CheckpointSigned) else None


def _record(path: Path, checkpoint: SignedCheckpoint, origin: str, key: SigningKey) -> int:
    event = CheckpointSigned(origin=origin, size=checkpoint.size, root=checkpoint.root.hex(), key=key.public.text)
    with Ledger.open(path, create=False) as ledger:
        return ledger.append(stream_of(event), None, secrets.token_hex(16), event)
