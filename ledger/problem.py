"""What checking a ledger finds."""

from __future__ import annotations

import msgspec


class Problem(msgspec.Struct, frozen=True):
    """`cls` is one of: file, schema, gap, chain, payload, version, decode, stream, transition, late, projection, segment; and against
    signed checkpoints: truncated, rewritten, origin, signature."""

    seq: int | None
    cls: str
    text: str


class Difference(msgspec.Struct, frozen=True):
    """A projected row that is not what the events say. `why` is `missing`, `extra` or `differs` with the column names."""

    table: str
    key: str
    why: str
