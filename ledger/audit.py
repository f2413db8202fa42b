"""Questions to the ledger: what was decided, why, what is proved, who had what mapped. Reads only, beside a writing daemon."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import msgspec
import sqlalchemy as sa

from wcache.core.model.errors import NotFound, UsageError
from wcache.core.model.events import Event, Identity, decode_payload
from wcache.core.model.evidence import Contradiction, Fingerprint, Grant
from wcache.core.model.machines import UNFINISHED
from wcache.core.model.vocabulary import BELOW_PINNED, Outcome, Proof, Tier
from wcache.ledger import schema
from wcache.ledger.coverage import coverage, find_dropped, missing, require_covered
from wcache.ledger.database import connect_reader, driver, translated
from wcache.ledger.listing import ATTACH_COLUMNS, IS_HIT, KNOWN_WRONG, QUESTIONS, Listing, Window
from wcache.ledger.segments import History, carried_event, history_of
from wcache.ledger.stored import StoredEvent
from wcache.ledger.upgrade import require_current

__all__ = ["ATTACH_COLUMNS", "Audit", "AuditEvent", "Window"]

NEAR_RESIDENCIES = 100
"""So many of the newest are looked at to decide again what was decided; a daemon holds far fewer at a time."""

_A = schema.attach.c
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


class Audit:
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

    def __enter__(self) -> Audit:
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

    # --- attaches ---------------------------------------------------------------------------------------------------------

    def listing(self, question: str, window: Window | None = None) -> Listing:
        """The answer to one of QUESTIONS, to be read as it comes; the last decision of an attach counts."""
        return Listing(self, window or Window(), *QUESTIONS[question])

    def attaches(self, window: Window | None = None) -> list[dict[str, Any]]:
        """One row an attach, in the order of their decisions: ATTACH_COLUMNS and more."""
        return list(self.listing("attaches", window).rows())

    def fallbacks(self, window: Window | None = None) -> list[dict[str, Any]]:
        """Attaches that were not mapped, strict misses included: what each cost, and what the daemon held idle meanwhile."""
        return list(self.listing("fallbacks", window).rows())

    def hits(self, window: Window | None = None, *, unproven: bool = False) -> list[dict[str, Any]]:
        """Hits; with `unproven` only those that rest on less than `pinned` and that nobody has looked at since."""
        return list(self.listing("unproven hits" if unproven else "hits", window).rows())

    def wrong_hits(self, window: Window | None = None) -> list[dict[str, Any]]:
        """Hits that are known to have served other weights than were asked for."""
        return list(self.listing("wrong hits", window).rows())

    def unproven_count(self) -> int:
        """How many hits below `pinned` nobody has looked at since."""
        return self.listing("unproven hits").total()

    def _attaches(self, *where: sa.ColumnElement[bool]) -> list[dict[str, Any]]:
        return list(Listing(self, Window(), *where).rows())

    def attach_at(self, seq: int) -> dict[str, Any]:
        """The attach that the decision at `seq` (the first or the last one) belongs to. Raises NotFound."""
        stream = str(self.scalar(sa.select(_E.stream).where(_E.seq == seq)) or "")
        if not stream and (dropped := find_dropped(self.history(), seq)) is not None:
            stream = dropped.stream
        kind, _, attach = stream.partition("/")
        found = self._attaches(_A.attach == attach, (_A.seq == seq) | (_A.first_seq == seq)) if kind == "attach" else []
        if not found:
            raise NotFound("no decision of an attach has this seq", where=f"seq {seq}", remedy="`wcache audit attaches` lists them")
        return found[0]

    def launch_id(self, prefix: str) -> str:
        """The launch with this id, or the only one that begins so. Raises NotFound or UsageError."""
        exact = sa.select(_A.launch).where(_A.launch == prefix).limit(1)
        begins = sa.select(_A.launch).distinct().where(_A.launch.startswith(prefix, autoescape=True))
        return self.scalar(exact) or self._only(begins, prefix)

    def residency_id(self, prefix: str) -> str:
        """As `launch_id`, for a residency."""
        exact = sa.select(_R.residency).where(_R.residency == prefix)
        begins = sa.select(_R.residency).where(_R.residency.startswith(prefix, autoescape=True))
        return self.scalar(exact) or self._only(begins, prefix)

    def _only(self, statement: sa.Select[Any], prefix: str) -> str:
        column = next(iter(statement.selected_columns)).name
        found = [row[column] for row in self.rows(statement.limit(3))] if prefix else []
        if not found:
            raise NotFound(f"the ledger knows no such {column}", where=prefix, remedy="`wcache audit attaches --json` shows whole ids")
        if len(found) > 1:
            raise UsageError(f"several a {column} begins so: {', '.join(found)}", where=prefix, remedy="give more of it")
        return str(found[0])

    def launch(self, launch: str) -> dict[str, Any]:
        """How a launch went: `complete` when every rank of it has its weights from the daemon, `text` as one sentence."""
        from wcache.ledger.explain import launch_summary

        found = self.launch_id(launch)
        return launch_summary(found, self._attaches(_A.launch == found))

    def launch_since(self, launch: str, after_seq: int) -> dict[str, Any]:
        """As `launch`, of a whole id, and of what was first decided after that event: a name that somebody chose may have been used
        before. Raises NotFound where nothing was."""
        from wcache.ledger.explain import launch_summary

        found = self._attaches(_A.launch == launch, _A.first_seq > after_seq)
        if not found:
            raise NotFound("the launch has no attach", where=launch, remedy="`wcache audit attaches --json` shows whole ids")
        return launch_summary(launch, found)

    @property
    def last_seq(self) -> int:
        """Of the latest event; 0 where there is none."""
        return int(self.head()["events"])

    # --- the whole --------------------------------------------------------------------------------------------------------

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

    def summary(self, window: Window | None = None) -> dict[str, Any]:
        """Counts by decision, reason, tier and proof, and the numbers an operator must not miss."""
        spans = self.listing("attaches", window).where

        # One pass over the attaches: they are grouped by everything that is counted.
        sums = (_A.idle_bytes, _A.fallback_bytes, _A.fallback_s, _A.mapped_bytes, _A.copied_bytes)
        words = (_A.decision, _A.reason, _A.tier, _A.proof, _A.state, KNOWN_WRONG.label("wrong"))
        statement = sa.select(*words, sa.func.count().label("number"), *(sa.func.sum(column).label(column.name) for column in sums))
        groups = self.rows(statement.where(*spans).group_by(*words))
        hits = [group for group in groups if group["decision"] == Outcome.HIT.value]
        weak = {tier.value for tier in BELOW_PINNED}
        open_states = {state.value for state in UNFINISHED}
        gaps = [item.event for item in self.events(where=_E.stream == "ledger", types=("ledger.gap",))]
        residencies = sa.select(_R.state, sa.func.count().label("number")).group_by(_R.state).order_by(_R.state)
        return {
            **self.head(),
            "attaches": _count(groups),
            "launches": int(self.scalar(sa.select(sa.func.count(sa.distinct(_A.launch))).where(*spans)) or 0),
            "decisions": _count_by(groups, "decision"),
            "reasons": _count_by(groups, "reason"),
            "tiers": _count_by(hits, "tier"),
            "proofs": _count_by(hits, "proof"),
            "wrong_hits": _count(group for group in hits if group["wrong"]),
            "unproven_below_pinned": _count(group for group in hits if group["tier"] in weak and group["proof"] == Proof.UNPROVEN.value),
            "unfinished": _count(group for group in groups if group["state"] in open_states),
            **{column.name: sum(group[column.name] or 0 for group in groups) for column in sums},
            "residencies": {row["state"]: row["number"] for row in self.rows(residencies)},
            "coverage": self.coverage(),
            "gaps": {
                "count": len(gaps),
                "merged": sum(getattr(gap, "merged", 0) for gap in gaps),
                "lost": sum(getattr(gap, "lost", 0) for gap in gaps),
            },
        }

    def coverage(self) -> dict[str, Any]:
        """Since when the ledger has everything; what was dropped, restored and redacted."""
        with translated(self.path):
            return coverage(driver(self.connection), self.history())

    def missing(self, window: Window) -> str:
        """What of a window was dropped by policy, as a sentence; nothing where the ledger has all of it."""
        with translated(self.path):
            return missing(driver(self.connection), self.history(), window.since_ns, window.until_ns)

    def trust(self, now_ns: int) -> list[dict[str, Any]]:
        """Every grant with its state (`active`, `expired`, `revoked`) and how many hits rest on it."""
        used: dict[str, int] = {}
        by_fingerprint = {
            row["fingerprint"]: msgspec.json.decode(row["body"], type=Fingerprint).grant
            for row in self.rows(
                sa.select(schema.fingerprint.c.fingerprint, schema.fingerprint.c.body).where(
                    schema.fingerprint.c.tier == Tier.TRUSTED.value
                )
            )
        }
        trusted = _A.tier == Tier.TRUSTED.value
        for row in self.rows(sa.select(_A.evidence).where(_A.decision == Outcome.HIT.value, trusted)):
            for reference in msgspec.json.decode(row["evidence"]):
                named = by_fingerprint.get(reference["fingerprint"])
                if named is not None:
                    used[named] = used.get(named, 0) + 1
        rows = []
        for row in self.rows(sa.select(schema.trust).order_by(schema.trust.c.seq)):
            grant = msgspec.json.decode(row["body"], type=Grant)
            state = "expired" if row["state"] == "active" and grant.expired(now_ns) else row["state"]
            rows.append(_grant_row(grant, row["seq"], state, row["revoked_seq"], used.get(grant.grant, 0)))
        return rows

    def timeline(self, residency: str) -> list[AuditEvent]:
        """Every event of a residency and of the attaches that it was granted to, by seq."""
        found = self.residency_id(residency)
        theirs = sa.select(sa.literal("attach/") + _A.attach).where(_A.residency == found)
        names = {f"residency/{found}", *(f"attach/{row['attach']}" for row in self.rows(sa.select(_A.attach).where(_A.residency == found)))}
        here = self.events(where=(_E.stream == f"residency/{found}") | _E.stream.in_(theirs))
        return [*self.carried(names.__contains__), *here]

    def at(self, moment_ns: int) -> dict[str, Any]:
        """What was resident at a moment, who had it mapped, and which grants were in force."""
        with translated(self.path):
            require_covered(driver(self.connection), self.history(), moment_ns)
        lived = (_R.loaded_ns <= moment_ns) & (_R.ended_ns.is_(None) | (_R.ended_ns > moment_ns))
        resident = self.rows(sa.select(schema.residency).where(lived).order_by(_R.seq))
        held = (_A.decided_ns <= moment_ns) & (_A.ended_ns.is_(None) | (_A.ended_ns > moment_ns))
        arrived = _A.state.in_(("granted", "mapped", "copied", "ended"))
        mapped = self._attaches(IS_HIT, held, arrived)
        taken_back = (
            sa.select(schema.trust.c.grant).join(schema.event, _E.seq == schema.trust.c.revoked_seq).where(_E.occurred_ns <= moment_ns)
        )
        revoked = {row["grant"] for row in self.rows(taken_back)}
        grants = [
            row
            for row in self.trust(moment_ns)
            if row["granted_ns"] <= moment_ns
            and (row["expires_ns"] is None or row["expires_ns"] > moment_ns)
            and row["grant"] not in revoked
        ]
        for grant in grants:
            grant["state"] = "active"  # then, whatever it is now
        return {
            "resident": [
                {
                    "residency": row["residency"],
                    "checkpoint": row["checkpoint"],
                    "device": row["device"],
                    "bytes": row["bytes"],
                    "tensors": row["tensors"],
                    "weights_digest": row["weights_digest"],
                    "loaded_ns": row["loaded_ns"],
                    "leases": sum(1 for attach in mapped if attach["residency"] == row["residency"]),
                }
                for row in resident
            ],
            "mapped": mapped,
            "grants": grants,
        }

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


def _count(groups: Iterable[dict[str, Any]]) -> int:
    return sum(group["number"] for group in groups)


def _count_by(groups: Iterable[dict[str, Any]], name: str) -> dict[str, int]:
    """Word -> how many, the most frequent first."""
    found: dict[str, int] = {}
    for group in groups:
        if group[name] is not None:
            found[group[name]] = found.get(group[name], 0) + group["number"]
    return dict(sorted(found.items(), key=lambda item: (-item[1], item[0])))


def _grant_row(grant: Grant, seq: int, state: str, revoked_seq: int | None, hits: int) -> dict[str, Any]:
    about = grant.prefix or grant.residency or grant.instance or (grant.spellings[0] if grant.spellings else "")
    plain: dict[str, Any] = msgspec.to_builtins(grant)
    return {"seq": seq, "state": state, "about": about, "hits": hits, "revoked_seq": revoked_seq, **plain}
