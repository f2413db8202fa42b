"""Attaches that a question finds: rows as they are read, so that a year of them needs no more memory than a day."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import msgspec
import sqlalchemy as sa

from wcache.core.model.vocabulary import BELOW_PINNED, Outcome, Proof
from wcache.ledger import schema
from wcache.ledger.database import translated
from wcache.ledger.moment import utc

if TYPE_CHECKING:
    from wcache.ledger.audit import Audit

ATTACH_COLUMNS = (
    "seq", "time", "launch", "rank", "engine", "checkpoint", "decision", "reason", "tier", "asked_digest", "served_digest", "mode", "proof",
)  # fmt: skip

_A = schema.attach.c
_FETCH_ROWS = 500

ATTACH_SELECTED = (
    *(_A.decided_ns.label("time") if name == "time" else _A[name] for name in ATTACH_COLUMNS),
    *(column for column in _A if column.name not in ATTACH_COLUMNS),
)
"""The promised columns first, in their order: JSON keeps it."""

IS_HIT = _A.decision == Outcome.HIT.value
IS_NO_HIT = _A.decision != Outcome.HIT.value
UNPROVEN_BELOW_PINNED = _A.tier.in_([tier.value for tier in BELOW_PINNED]) & (_A.proof == Proof.UNPROVEN.value)
KNOWN_WRONG = (_A.proof == Proof.REFUTED.value) | (
    _A.asked_digest.is_not(None) & _A.served_digest.is_not(None) & (_A.asked_digest != _A.served_digest)
)


QUESTIONS: dict[str, tuple[sa.ColumnElement[bool], ...]] = {
    "attaches": (),
    "fallbacks": (IS_NO_HIT,),
    "hits": (IS_HIT,),
    "unproven hits": (IS_HIT, UNPROVEN_BELOW_PINNED),
    "wrong hits": (IS_HIT, KNOWN_WRONG),
}
"""What attaches can be asked for. Fallbacks include strict misses; a wrong hit is one that is known to be."""


class Window(msgspec.Struct, frozen=True, kw_only=True):
    """Which attaches: decided in [since, until), of one launch, the last `limit` of them."""

    since_ns: int | None = None
    until_ns: int | None = None
    launch: str | None = None
    limit: int | None = None


class Listing:
    """The attaches of a window that satisfy some conditions, in the order of their decisions: ATTACH_COLUMNS and more.

    Every iteration asks anew. `raw` leaves `evidence` as the JSON that is stored, which a JSON encoder passes on as it is.
    """

    def __init__(self, audit: Audit, window: Window, *where: sa.ColumnElement[bool]) -> None:
        self._audit = audit
        self._limit = window.limit
        conditions = list(where)
        if window.since_ns is not None:
            conditions.append(_A.decided_ns >= window.since_ns)
        if window.until_ns is not None:
            conditions.append(_A.decided_ns < window.until_ns)
        if window.launch is not None:
            conditions.append(_A.launch == audit.launch_id(window.launch))
        self.where = tuple(conditions)

    def rows(self, *, raw: bool = False) -> Iterator[dict[str, Any]]:
        statement = sa.select(*ATTACH_SELECTED).where(*self.where)
        if self._limit is not None:
            yield from (_row(row, raw) for row in self._audit.rows(statement.order_by(_A.seq.desc()).limit(self._limit))[::-1])
            return
        with translated(self._audit.path):
            result = self._audit.connection.execute(statement.order_by(_A.seq))
            names = list(result.keys())
            # The driver's rows: the tables have plain types only, and a row object for each costs as much as reading it did.
            while page := result.cursor.fetchmany(_FETCH_ROWS):
                for row in page:
                    yield _row(dict(zip(names, row, strict=True)), raw)

    def total(self) -> int:
        """How many there are, whatever the limit."""
        return int(self._audit.scalar(sa.select(sa.func.count()).select_from(schema.attach).where(*self.where)) or 0)


def _row(row: dict[str, Any], raw: bool) -> dict[str, Any]:
    row["time"] = utc(row["time"])
    row["evidence"] = msgspec.Raw(row["evidence"].encode()) if raw else msgspec.json.decode(row["evidence"])
    return row
