"""Questions to the ledger: what was decided, why, what is proved, who had what mapped. Reads only, beside a writing daemon."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec
import sqlalchemy as sa

from wcache.core.model.errors import NotFound, UsageError
from wcache.core.model.evidence import Fingerprint, Grant
from wcache.core.model.machines import UNFINISHED
from wcache.core.model.vocabulary import BELOW_PINNED, Outcome, Proof, Tier
from wcache.ledger import schema
from wcache.ledger.coverage import coverage, find_dropped, missing, require_covered
from wcache.ledger.database import driver, translated
from wcache.ledger.listing import ATTACH_COLUMNS, IS_HIT, KNOWN_WRONG, QUESTIONS, Listing, Window
from wcache.ledger.recorded import AuditEvent, Recorded

__all__ = ["ATTACH_COLUMNS", "Audit", "Window"]

_A = schema.attach.c
_R = schema.residency.c
_E = schema.event.c


class Audit(Recorded):
    """The questions that people ask."""

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

    # --- the whole --------------------------------------------------------------------------------------------------------

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
