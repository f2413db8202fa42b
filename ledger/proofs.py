"""Proofs about a ledger that fit into a file and need no ledger to be checked (RFC 6962): an event is in it, a state grew from another.

An inclusion proof is a `c2sp.org/tlog-proof@v1`, whose extra data is the event as `ledger.export` writes it. A consistency proof is the
request that a witness takes (https://c2sp.org/tlog-witness, add-checkpoint).
"""

from __future__ import annotations

import base64
import binascii
import re
import sqlite3
import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import msgspec

from wcache.core.model.errors import LedgerCorrupt, NotFound, SignatureInvalid, UsageError
from wcache.ledger.chain import Chain, payload_hash
from wcache.ledger.export import event_line, event_row
from wcache.ledger.leaves import head_seq, leaf_hashes
from wcache.ledger.merkle import Tree, leaf_hash, verify_consistency, verify_inclusion
from wcache.ledger.note import ORIGIN_LINE, SignedCheckpoint, parse_checkpoint
from wcache.ledger.reading import reading
from wcache.ledger.segments import History, read_history
from wcache.ledger.signing import PublicKey

TLOG_PROOF = "c2sp.org/tlog-proof@v1"
_NUMBER = re.compile(r"0|[1-9][0-9]{0,18}")
_UNREADABLE = (ValueError, TypeError, struct.error, msgspec.MsgspecError)  # base64, hexadecimal digits, numbers out of range, JSON


class _Event(msgspec.Struct, frozen=True):
    """What a proof is about of a line of the export; whatever else somebody wrote into it is passed over."""

    seq: int
    stream: str
    version: int
    event_id: str
    type: str
    schema: int
    occurred_ns: int
    recorded_ns: int
    late: Literal[0, 1]
    payload: str | None
    salt: str | None
    payload_hash: str
    origin: str | None = None

    def leaf(self, ledger: str) -> bytes:
        return Chain(ledger if self.origin is None else self.origin).leaf(
            self.seq, self.stream, self.version, self.type, self.schema, self.event_id, self.occurred_ns, self.recorded_ns, bool(self.late),
            bytes.fromhex(self.payload_hash),
        )  # fmt: skip

    def payload_is_sound(self) -> bool:
        """True of one that is not shown."""
        return self.payload is None or payload_hash(bytes.fromhex(self.salt or ""), self.payload.encode()).hex() == self.payload_hash


class Shown(msgspec.Struct, frozen=True):
    """What a proof shows, once it verified. `event`, of an inclusion, is what was hashed of a line of the export; `old_size` and
    `old_origin`, of a consistency, are those of the older checkpoint."""

    kind: str
    checkpoint: SignedCheckpoint
    signers: tuple[str, ...]
    event: dict[str, Any] | None = None
    old_size: int | None = None
    old_origin: str | None = None


def prove_inclusion(ledger: Path | str, seq: int, checkpoint: SignedCheckpoint) -> str:
    """The proof that the event `seq` is among those that `checkpoint` was signed for. Raises NotFound for an event that is not there or
    came later, LedgerCorrupt where the ledger is not the one that was signed (then nothing can be proved from it)."""
    path = Path(ledger).absolute()
    with _tree(path, checkpoint) as (db, history, tree):
        row = event_row(db, seq)
        if row is None:
            dropped = ", those before were dropped" if seq < history.first_seq else ""
            raise NotFound(f"there is no event {seq}{dropped}", where=str(path))
        if seq > checkpoint.size:
            raise NotFound(f"event {seq} came after this checkpoint of {checkpoint.size} events", remedy="make a newer checkpoint")
        hashes = tree.inclusion_proof(seq - 1, checkpoint.size)
    extra = base64.b64encode(msgspec.json.encode(event_line(row, history, checkpoint.ledger))).decode()
    return "\n".join([TLOG_PROOF, f"extra {extra}", f"index {seq - 1}", *map(_encoded, hashes), "", checkpoint.text])


def prove_consistency(ledger: Path | str, old_size: int, checkpoint: SignedCheckpoint) -> str:
    """The proof that the first `old_size` events of `checkpoint` are what they were when there were only these. Raises as
    `prove_inclusion`, and UsageError for a size beyond the checkpoint's."""
    path = Path(ledger).absolute()
    if not 0 <= old_size <= checkpoint.size:
        raise UsageError(f"{old_size} events are no beginning of {checkpoint.size}", remedy="give the older checkpoint first")
    with _tree(path, checkpoint) as (_, _, tree):
        try:
            hashes = tree.consistency_proof(old_size, checkpoint.size)
        except ValueError as error:
            raise NotFound(f"the events around {old_size} were dropped", where=str(path)) from error
    return "\n".join([f"old {old_size}", *map(_encoded, hashes), "", checkpoint.text])


@contextmanager
def _tree(path: Path, checkpoint: SignedCheckpoint) -> Iterator[tuple[sqlite3.Connection, History, Tree]]:
    with reading(path) as (db, origin):
        history, head = read_history(db, origin), head_seq(db)
        before = history.frontier.size
        if checkpoint.ledger != history.origin_at(checkpoint.size):
            raise UsageError(f"this is a checkpoint of {checkpoint.origin}; the ledger is {ORIGIN_LINE}{origin}", where=str(path))
        if not before <= checkpoint.size <= head:
            raise LedgerCorrupt(
                f"{checkpoint.size} events were signed, and the ledger has those from {before + 1} to {head}", where=str(path)
            )
        leaves = [leaf for page in leaf_hashes(db, history, checkpoint.size, path) for leaf in page]
        tree = Tree(leaves, history.frontier)
        if tree.root(checkpoint.size) != checkpoint.root:
            raise LedgerCorrupt("its events are not those that were signed: nothing can be proved from it", where=str(path))
        yield db, history, tree


def check_proof(text: str, keys: Sequence[PublicKey], old: SignedCheckpoint | None = None, where: str = "") -> Shown:
    """Checks a proof of either kind by itself. A consistency proof needs the older checkpoint, which `keys` must have signed too.

    Raises SignatureInvalid for whatever does not hold, UsageError for what is no proof.
    """
    lines, gap, note = text.partition("\n\n")
    head = lines.split("\n")
    checkpoint = parse_checkpoint(note.encode(), where)
    if not gap:
        raise _no_proof(where, "there is no checkpoint in it")
    signers = tuple(key.text for key in checkpoint.signed_by(keys, where))
    if head[0] == TLOG_PROOF:
        event = _included(head[1:], checkpoint, where)
        return Shown("inclusion", checkpoint, signers, event=event)
    old_size = _number(head[0], "old ", where)
    if old is None:
        raise UsageError("a consistency proof needs the older checkpoint", where=where, remedy="give it with --old")
    old.signed_by(keys, "the older checkpoint")
    if old.size != old_size:  # the origin may be another one: a restored ledger goes on under a new one
        raise SignatureInvalid(f"the proof is about {old_size} events, and the older checkpoint about {old.size}", where=where)
    if not verify_consistency(old.size, old.root, checkpoint.size, checkpoint.root, _hashes(head[1:], where)):
        raise SignatureInvalid("the older checkpoint is no beginning of the newer one: the proof does not hold", where=where)
    return Shown("consistency", checkpoint, signers, old_size=old_size, old_origin=old.origin)


def _included(lines: list[str], checkpoint: SignedCheckpoint, where: str) -> dict[str, Any]:
    if not lines or not lines[0].startswith("extra "):
        raise _no_proof(where, "the event is not in it")
    index = _number(lines[1] if len(lines) > 1 else "", "index ", where)
    try:
        event = msgspec.json.decode(base64.b64decode(lines[0].removeprefix("extra "), validate=True), type=_Event)
        leaf, sound = event.leaf(checkpoint.ledger), event.payload_is_sound()
    except _UNREADABLE:
        raise _no_proof(where, "the event in it cannot be read") from None
    if event.seq != index + 1:
        raise SignatureInvalid(f"the event says that it is number {event.seq}, the proof {index + 1}", where=where)
    if not sound:
        raise SignatureInvalid("the payload is not the one that was hashed", where=where)
    if not verify_inclusion(leaf_hash(leaf), index, checkpoint.size, _hashes(lines[2:], where), checkpoint.root):
        raise SignatureInvalid("this event is not among those that were signed: the proof does not hold", where=where)
    shown: dict[str, Any] = msgspec.to_builtins(event)
    return shown


def _encoded(node: bytes) -> str:
    return base64.b64encode(node).decode()


def _hashes(lines: Sequence[str], where: str) -> list[bytes]:
    try:
        found = [base64.b64decode(line, validate=True) for line in lines]
    except (ValueError, binascii.Error):
        raise _no_proof(where, "a hash in it cannot be read") from None
    if len(found) > 64:
        raise _no_proof(where, "it has more hashes than a tree has levels")
    return found


def _number(line: str, word: str, where: str) -> int:
    if not line.startswith(word) or not _NUMBER.fullmatch(line.removeprefix(word)):
        raise _no_proof(where, f"a line `{word}N` is missing")
    return int(line.removeprefix(word))


def _no_proof(where: str, what: str) -> UsageError:
    return UsageError(f"this is no proof: {what}", where=where, remedy="give a file that `wcache ledger proof` wrote")
