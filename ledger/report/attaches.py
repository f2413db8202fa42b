"""What was decided in the period: totals and bars by aggregation in SQL, and the lists of single attaches."""

from __future__ import annotations

from collections import Counter
from typing import Any

import msgspec

from wcache.core.model.events import AttachDecided, EvidenceRef, LeaseEnded, MapCompleted, VerifyInconclusive
from wcache.core.model.evidence import Grant
from wcache.core.model.machines import UNFINISHED
from wcache.core.model.policy import Policy
from wcache.core.model.vocabulary import Outcome, Proof, Tier
from wcache.ledger.explain import launch_summary
from wcache.ledger.exposure import had
from wcache.ledger.moment import utc
from wcache.ledger.projection import select_in
from wcache.ledger.report.model import Bar, Listing, Row, Totals, counted
from wcache.ledger.report.source import IS_WRONG, WEAK, Source

MINUTE_NS = 60_000_000_000
HOUR_NS = 60 * MINUTE_NS
DAY_NS = 24 * HOUR_NS
STEPS_NS = (
    MINUTE_NS, 5 * MINUTE_NS, 15 * MINUTE_NS, HOUR_NS, 3 * HOUR_NS, 6 * HOUR_NS, DAY_NS, 7 * DAY_NS, 28 * DAY_NS, 91 * DAY_NS,
    364 * DAY_NS,
)  # fmt: skip
BARS_MAX = 100
_MONDAY_NS = 4 * DAY_NS  # 1970-01-05: where weeks are counted from

_OPEN = ", ".join(f"'{state.value}'" for state in sorted(UNFINISHED))
_SUMS = ("idle_bytes", "fallback_bytes", "fallback_s", "mapped_bytes", "copied_bytes")
_WHO = "seq, decided_ns, ended_ns, launch, rank, host, engine, checkpoint"


def step_ns(from_ns: int, to_ns: int) -> tuple[int, int]:
    """How long a bar is, so that there are at most BARS_MAX, and where the first begins: at a full minute, hour, day or Monday, UTC."""
    for step in STEPS_NS:
        base = _MONDAY_NS if step >= 7 * DAY_NS else 0
        first = (from_ns - base) // step * step + base
        if to_ns - first <= step * BARS_MAX:
            break
    return step, first


def totals_and_bars(source: Source, from_ns: int, to_ns: int) -> tuple[Totals, list[Bar]]:
    """The attaches of the period, grouped by everything that is counted."""
    step, first = step_ns(from_ns, to_ns)
    where, parameters = source.decided()
    grouping = f"decision, reason, tier, proof, {IS_WRONG}, state IN ({_OPEN})"
    sums = ", ".join(f"sum({name})" for name in _SUMS)
    sql = (
        f"SELECT max(0, (decided_ns - ?) / ?), {grouping}, count(*), {sums}, sum(idle_bytes * fallback_s)"  # noqa: S608
        f" FROM attach WHERE {where} GROUP BY 1, 2, 3, 4, 5, 6, 7"
    )
    groups: list[tuple[Any, ...]] = list(source.tuples(sql, (first, step, *parameters)))
    hits = [group for group in groups if group[1] == Outcome.HIT.value]
    # Counted here: SQLite sorts for each count of distinct values, which takes five times as long.
    launches, hosts = set(), set()
    for launch, host in source.tuples(f"SELECT launch, host FROM attach WHERE {where}", parameters):  # noqa: S608
        launches.add(launch)
        hosts.add(host)
    totals = Totals(
        attaches=sum(group[7] for group in groups),
        launches=len(launches),
        hosts=len(hosts),
        decisions=counted((group[1], group[7]) for group in groups),
        reasons=counted((group[2], group[7]) for group in groups if group[2]),
        tiers=counted((group[3], group[7]) for group in hits if group[3]),
        wrong_hits=sum(group[7] for group in hits if group[5]),
        trusted=sum(group[7] for group in hits if group[3] == Tier.TRUSTED.value),
        unfinished=sum(group[7] for group in groups if group[6]),
        idle_byte_s=sum(group[13] or 0.0 for group in groups),
    )
    for number, name in enumerate(_SUMS, 8):
        setattr(totals, name, sum(group[number] or 0 for group in groups))
    by_tier: dict[str, Counter[str]] = {}
    for group in hits:
        by_tier.setdefault(group[3] or "none", Counter())[group[4] or Proof.UNPROVEN.value] += group[7]
    scale = [tier.value for tier in Tier]
    totals.tier_proofs = {tier: dict(by_tier[tier]) for tier in sorted(by_tier, key=lambda tier: (tier not in scale, tier))}
    totals.unproven = sum(group[7] for group in hits if group[4] == Proof.UNPROVEN.value and group[3] in _WEAK_WORDS)
    totals.unprovable = sum(group[7] for group in hits if group[4] == Proof.UNPROVABLE.value)
    totals.refuted = sum(group[7] for group in hits if group[4] == Proof.REFUTED.value)
    heights: Counter[tuple[int, str]] = Counter()
    for group in groups:
        heights[group[0], group[1]] += group[7]
    number = max(1, -(-(to_ns - first) // step))
    words = (Outcome.HIT.value, Outcome.FALLBACK.value, Outcome.STRICT_MISS.value)
    bars = [Bar(first + n * step, first + (n + 1) * step, *(heights[n, word] for word in words)) for n in range(number)]
    return totals, bars


_WEAK_WORDS = frozenset(word.strip("' ") for word in WEAK.partition("(")[2].rstrip(")").split(","))


class Attaches:
    """Lists of attaches: `limit` rows at most, the newest; None is all of them."""

    def __init__(self, source: Source, totals: Totals, limit: int | None) -> None:
        self.source = source
        self.totals = totals
        self.limit = limit

    def listings(self) -> list[Listing]:
        return [
            self._wrong(), self._not_mapped(), self._trusted(), self._unproven(), self._unprovable(), self._incomplete(), *self._grouped(),
        ]  # fmt: skip

    def _newest(self, total: int, columns: str, condition: str) -> list[Row]:
        if not total:
            return []
        where, parameters = self.source.decided()
        limit = -1 if self.limit is None else self.limit
        sql = f"SELECT {_WHO}, {columns} FROM attach WHERE {where} AND {condition} ORDER BY seq DESC LIMIT ?"  # noqa: S608
        found = self.source.rows(sql, (*parameters, limit))[::-1]
        for row in found:
            row["time"] = utc(row.pop("decided_ns"))
            row["ended"] = utc(row.pop("ended_ns"))
        return found

    def _wrong(self) -> Listing:
        columns = "uid, tier, mode, state, asked_digest, served_digest, residency, proof, proof_seq"
        rows = self._newest(self.totals.wrong_hits, f"attach, {columns}", f"decision = 'hit' AND {IS_WRONG}")
        told = self._told([row["attach"] for row in rows])
        for row in rows:
            arrived_ns, pid, how = told[row["attach"]]
            row.update(since=utc(arrived_ns), pid=pid, had=had(row["mode"], arrived_ns is not None, how is not None, how or ""))
            row["until"] = row["ended"] if row["had"] == "ended" else None
        return Listing(name="wrong_hit", rows=rows, total=self.totals.wrong_hits)

    def _told(self, attaches: list[str]) -> dict[str, tuple[int | None, int | None, str | None]]:
        """When the weights of each arrived, the engine's pid, and how the lease ended."""
        found: dict[str, tuple[int | None, int | None, str | None]] = dict.fromkeys(attaches, (None, None, None))
        wanted = (AttachDecided.type, MapCompleted.type, LeaseEnded.type)
        for about, event in self.source.of_streams([f"attach/{attach}" for attach in attaches], wanted):
            if isinstance(event, AttachDecided):
                found[event.attach] = (None, event.engine.pid or event.peer.pid, None)
            elif isinstance(event, MapCompleted):
                found[event.attach] = (about["occurred_ns"], *found[event.attach][1:])
            elif isinstance(event, LeaseEnded):
                found[event.attach] = (*found[event.attach][:2], event.how)
        return found

    def _not_mapped(self) -> Listing:
        rows = self._newest(self.totals.missed, "decision, reason, detail, fallback_bytes, fallback_s, idle_bytes", "decision <> 'hit'")
        return Listing(name="not_mapped", rows=rows, total=self.totals.missed)

    def _trusted(self) -> Listing:
        rows = self._newest(self.totals.trusted, "served_digest, proof, evidence", f"decision = 'hit' AND tier = '{Tier.TRUSTED}'")
        for row, named in zip(rows, self.grants_of(rows), strict=True):
            grant = self.grant(named)
            row.update(grant=named, operator_uid=grant.operator_uid if grant else None, why=grant.reason if grant else "")
        return Listing(name="trusted", rows=rows, total=self.totals.trusted)

    def grant(self, name: str | None) -> Grant | None:
        found = self.source.rows('SELECT body FROM trust WHERE "grant" = ?', (name,)) if name else []
        return msgspec.json.decode(found[0]["body"], type=Grant) if found else None

    def grants_of(self, rows: list[Row]) -> list[str | None]:
        """The grant that each of these trusted hits rests on: named by the fingerprint that its evidence names. Takes `evidence` out."""
        named = [_trusted_fingerprint(row.pop("evidence")) for row in rows]
        bodies = select_in(self.source.db, "SELECT fingerprint, body FROM fingerprint WHERE fingerprint IN", {*named} - {""})
        grants = {name: msgspec.json.decode(body, type=_Granted).grant for name, body in bodies}
        return [grants.get(name) for name in named]

    def _unproven(self) -> Listing:
        condition = f"decision = 'hit' AND {WEAK} AND proof = '{Proof.UNPROVEN}'"
        rows = self._newest(self.totals.unproven, "tier, served_digest", condition)
        return Listing(name="unproven", rows=rows, total=self.totals.unproven)

    def _unprovable(self) -> Listing:
        condition = f"decision = 'hit' AND proof = '{Proof.UNPROVABLE}'"
        rows = self._newest(self.totals.unprovable, "tier, served_digest, proof_seq", condition)
        why = {
            about["seq"]: event.why
            for about, event in self.source.events([row["proof_seq"] for row in rows if row["proof_seq"]])
            if isinstance(event, VerifyInconclusive)
        }
        for row in rows:
            row["why"] = why.get(row["proof_seq"], "")
        return Listing(name="unprovable", rows=rows, total=self.totals.unprovable)

    def _incomplete(self) -> Listing:
        """Launches that began in the period; what their ranks did counts whenever it was."""
        period = self.source.period
        # Of each rank the last attach of a checkpoint by an engine counts: as `launch_summary` counts, for all launches in one pass.
        sql = """
            WITH last AS (
              SELECT launch, rank, world, host, seq, decided_ns, decision = 'hit' AND mapped_bytes IS NOT NULL AS arrived,
                row_number() OVER (PARTITION BY launch, rank, checkpoint, engine ORDER BY seq DESC) AS nth
              FROM attach
            )
            SELECT launch, min(decided_ns) AS began_ns, min(host) AS host, max(seq) AS seq
            FROM last WHERE nth = 1 GROUP BY launch
            HAVING (sum(arrived) < count(*) OR count(DISTINCT rank) < max(world)) AND began_ns < ? AND (? IS NULL OR began_ns >= ?)
            ORDER BY seq"""
        found = self.source.rows(sql, (period.until_ns, period.since_ns, period.since_ns))
        shown = found if self.limit is None else found[-self.limit :]
        rows = [self._launch(row) for row in shown]
        return Listing(name="incomplete_launch", rows=rows, total=len(found))

    def _launch(self, row: Row) -> Row:
        attaches = self.source.rows(
            "SELECT seq, rank, world, engine, checkpoint, decision, reason, detail, state, mapped_bytes, fallback_bytes"
            " FROM attach WHERE launch = ? ORDER BY seq",
            (row["launch"],),
        )
        summary = launch_summary(row["launch"], attaches)
        numbers = {name: summary[name] for name in ("ranks", "mapped", "text")}
        return {"launch": row["launch"], "time": utc(row["began_ns"]), "host": row["host"], **numbers}

    def _grouped(self) -> list[Listing]:
        """Policies, engines and checkpoints: one pass, by all of them."""
        where, parameters = self.source.decided()
        sql = (
            "SELECT policy, engine, engine_version, checkpoint, count(*) AS attaches, sum(decision = 'hit') AS hits,"  # noqa: S608
            " sum(decision = 'fallback') AS fallbacks, sum(decision = 'strict_miss') AS missed"
            f" FROM attach WHERE {where} GROUP BY 1, 2, 3, 4"
        )
        groups = self.source.rows(sql, parameters)
        policies = _by(groups, "policy")
        bodies = select_in(self.source.db, "SELECT policy, body FROM policy WHERE policy IN", [row["policy"] for row in policies])
        known = {name: msgspec.to_builtins(msgspec.json.decode(body, type=Policy)) for name, body in bodies}
        policies = [{**row, **known.get(row["policy"], {})} for row in policies]
        found = {"policy": policies, "engine": _by(groups, "engine", "engine_version"), "asked": _by(groups, "checkpoint")}
        return [
            Listing(name=name, rows=rows if self.limit is None else rows[: self.limit], total=len(rows)) for name, rows in found.items()
        ]


def _by(groups: list[Row], *names: str) -> list[Row]:
    """Sums by these columns, the most attaches first."""
    found: dict[tuple[str, ...], Row] = {}
    for group in groups:
        key = tuple(group[name] for name in names)
        row = found.setdefault(key, {**dict(zip(names, key, strict=True)), "attaches": 0, "hits": 0, "fallbacks": 0, "missed": 0})
        for name in ("attaches", "hits", "fallbacks", "missed"):
            row[name] += group[name]
    return sorted(found.values(), key=lambda row: (-row["attaches"], *(row[name] for name in names)))


class _Granted(msgspec.Struct):
    """What is looked at of a fingerprint's body."""

    grant: str | None = None


def _trusted_fingerprint(evidence: str) -> str:
    references = msgspec.json.decode(evidence, type=tuple[EvidenceRef, ...])
    return next((reference.fingerprint for reference in references if reference.tier is Tier.TRUSTED), "")
