"""What checking a ledger finds."""

from __future__ import annotations

import msgspec

CLASSES: dict[str, str] = {
    "file": "SQLite cannot read it, or finds its pages or indexes damaged; a column holds what it cannot hold",
    "schema": "a table, an index or one of the append-only triggers is not what the migrations make",
    "gap": "seqs are missing between two events",
    "chain": "the row is not the one that was chained: changed, replaced, or from another ledger",
    "payload": "the payload is not the one that was hashed, or is missing without a `payload.redacted`",
    "version": "the versions of a stream do not follow each other",
    "decode": "the payload cannot be read as an event of its type",
    "stream": "the event lies on a stream that it does not belong to",
    "transition": "an authority event that the state machine does not allow there",
    "late": "the event is flagged late and was not, or the other way round",
    "projection": "a state or projected row is not what the events say",
    "segment": "a `segment.opened` says what is not so of the events before it, or these are gone without a `segment.dropped`",
    "truncated": "fewer events than were signed in a checkpoint",
    "rewritten": "other events than were signed in a checkpoint",
    "origin": "a checkpoint of another ledger",
    "signature": "a checkpoint that none of the given keys signed",
}
"""Every class of problem, and what it means; the last four come of signed checkpoints. A contract: scripts look at them."""


class Problem(msgspec.Struct, frozen=True):
    """`cls` is one of CLASSES."""

    seq: int | None
    cls: str
    text: str


class Difference(msgspec.Struct, frozen=True):
    """A projected row that is not what the events say. `why` is `missing`, `extra` or `differs` with the column names."""

    table: str
    key: str
    why: str
