"""What one ledger has, as it is stored: events, evidence, grants, and what was known at a decision. Reads only, beside a writing daemon."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

import msgspec
import sqlalchemy as sa

from wcache.core.model.errors import NotFound
from wcache.core.model.events import Event, Identity, decode_payload
from wcache.core.model.evidence import Contradiction, Fingerprint, Grant
from wcache.ledger import schema
from wcache.ledger.coverage import find_dropped
from wcache.ledger.database import connect_reader, translated
from wcache.ledger.segments import History, carried_event, history_of
from wcache.ledger.stored import StoredEvent
from wcache.ledger.upgrade import require_current

if TYPE_CHECKING:
    from typing_extensions import Self

NEAR_RESIDENCIES = 100
"""So many of the newest are looked at to decide again what was decided; a daemon holds far fewer at a time."""

_R = schema.residency.c
_E = schema.event.c


class AuditEvent(msgspec.Struct, frozen=True, kw_only=True):
    """One event as it is stored."""

    seq: int
    stream: str
    version: int
    type: str
    occurred_ns: int
    recorded_ns: int
    late: bool
    event: Event


class Recorded:
    """A read-only connection to one ledger. A context manager.

    Raises NotFound for a missing file, LedgerError where it may not be read or has another release's schema, each with what to do.
    """

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        self._engine = connect_reader(self.path)
        try:
            with translated(self.path):
                self.connection = self._engine.connect()
                require_current(self.connection, self.path)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        self._engine.dispose()

    def refresh(self) -> None:
        """All questions between two of these see one state of the ledger."""
        self.connection.rollback()

    def rows(self, statement: sa.Select[Any]) -> list[dict[str, Any]]:
        """All rows of a statement, as plain dictionaries."""
        with translated(self.path):
            result = self.connection.execute(statement)
            names = list(result.keys())
            # The driver's rows: the tables have plain types only, and a row object for each costs as much as reading it did.
            return [dict(zip(names, row, strict=True)) for row in result.cursor.fetchall()]

    def scalar(self, statement: sa.Select[Any]) -> Any:
        found = self.rows(statement)
        return next(iter(found[0].values())) if found else None

    def head(self) -> dict[str, Any]:
        """Origin, number of events and the chain's last hash."""
        origin = self.scalar(sa.select(schema.meta.c.value).where(schema.meta.c.key == "origin"))
        last = self.rows(sa.select(_E.seq, _E.chain).order_by(_E.seq.desc()).limit(1))
        chain = last[0]["chain"] if last else None
        return {
            "ledger": str(self.path),
            "origin": origin,
            "events": last[0]["seq"] if last else 0,
            "head": chain.hex() if isinstance(chain, bytes) else chain,
        }

    @property
    def last_seq(self) -> int:
        """Of the latest event; 0 where there is none."""
        return int(self.head()["events"])

    # --- events -----------------------------------------------------------------------------------------------------------

    def events(self, *, where: sa.ColumnElement[bool] | None = None, types: Sequence[str] = ()) -> Iterator[AuditEvent]:
        """Events by seq. Raises LedgerCorrupt for a payload that cannot be read."""
        statement = sa.select(schema.event).order_by(_E.seq)
        if where is not None:
            statement = statement.where(where)
        if types:
            statement = statement.where(_E.type.in_(types))
        kept: dict[int, tuple[int, str]] | None = None
        for row in self.rows(statement):
            body_schema, payload = row["schema"], row["payload"]
            if payload is None:  # redacted: its words are gone, what was kept of it stands for it
                kept = self.history().bodies() if kept is None else kept
                if row["seq"] not in kept:
                    continue
                body_schema, payload = kept[row["seq"]]
            yield AuditEvent(
                seq=row["seq"],
                stream=row["stream"],
                version=row["version"],
                type=row["type"],
                occurred_ns=row["occurred_ns"],
                recorded_ns=row["recorded_ns"],
                late=bool(row["late"]),
                event=decode_payload(row["type"], body_schema, payload),
            )

    def history(self) -> History:
        """What was dropped, restored and redacted."""
        with translated(self.path):
            return history_of(self.connection, self.path)

    def carried(self, streams: Callable[[str], bool]) -> list[AuditEvent]:
        """Events of dropped segments that were carried on, of these streams."""
        found = (carried_event(item) for item in self.history().carried if streams(item.stream))
        return [_audit_event(item) for item in found]

    def event(self, seq: int) -> AuditEvent:
        """Raises NotFound."""
        for found in self.events(where=_E.seq == seq):
            return found
        dropped = find_dropped(self.history(), seq)
        if dropped is not None:
            return _audit_event(dropped)
        last = self.head()["events"]
        raise NotFound("no such event", where=f"seq {seq}", remedy=f"the ledger has {last} events")

    def stream(self, stream: str) -> list[AuditEvent]:
        return [*self.carried(stream.__eq__), *self.events(where=_E.stream == stream)]

    def fingerprint(self, fingerprint: str) -> Fingerprint | None:
        body = self.scalar(sa.select(schema.fingerprint.c.body).where(schema.fingerprint.c.fingerprint == fingerprint))
        return None if body is None else msgspec.json.decode(body, type=Fingerprint)

    def recorded_ns(self, fingerprint: str) -> int | None:
        """When a fingerprint was recorded first."""
        found: int | None = self.scalar(sa.select(schema.fingerprint.c.recorded_ns).where(schema.fingerprint.c.fingerprint == fingerprint))
        return found

    def grant(self, grant: str) -> Grant | None:
        """Also one that was taken back."""
        body = self.scalar(sa.select(schema.trust.c.body).where(schema.trust.c.grant == grant))
        return None if body is None else msgspec.json.decode(body, type=Grant)

    # --- what was known at a decision ---------------------------------------------------------------------------------------

    def grants_at(self, seq: int) -> tuple[Grant, ...]:
        """Grants that had been given by `seq` and were not revoked then; expired ones are among them."""
        _T = schema.trust.c
        there = sa.select(_T.body).where(_T.seq <= seq, _T.revoked_seq.is_(None) | (_T.revoked_seq > seq)).order_by(_T.seq)
        return tuple(msgspec.json.decode(row["body"], type=Grant) for row in self.rows(there))

    def contradictions(self, *, before_seq: int | None = None, after_seq: int = 0) -> tuple[Contradiction, ...]:
        """Refutations recorded before or after a seq, oldest first."""
        _C = schema.contradiction.c
        found = sa.select(schema.contradiction).where(_C.seq > after_seq).order_by(_C.seq)
        rows = self.rows(found if before_seq is None else found.where(_C.seq < before_seq))
        return tuple(
            Contradiction(row["asked_key"], row["weights_digest"], tuple(msgspec.json.decode(row["spellings"])), row["seq"]) for row in rows
        )

    def residencies_near(self, seq: int, moment_ns: int, asked: Identity) -> list[str]:
        """Residencies that a decision at `seq` may have looked at: those that lived then, and all that were ever of the checkpoint."""
        alive = _R.ended_ns.is_(None) | (_R.ended_ns >= moment_ns)
        alike = (_R.checkpoint == asked.spelling) | (_R.root == asked.root) | (_R.table_digest == asked.table_digest)
        first = sa.select(sa.func.min(_E.seq)).where(_E.stream == sa.literal("residency/") + _R.residency).scalar_subquery()
        statement = sa.select(_R.residency).where(alive | alike, first <= seq).order_by(_R.seq.desc()).limit(NEAR_RESIDENCIES)
        return [row["residency"] for row in reversed(self.rows(statement))]


def _audit_event(item: StoredEvent) -> AuditEvent:
    return AuditEvent(
        seq=item.seq, stream=item.stream, version=item.version, type=item.type, occurred_ns=item.occurred_ns, recorded_ns=item.recorded_ns,
        late=item.late, event=item.event,
    )  # fmt: skip
