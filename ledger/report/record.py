"""The events themselves: what changed, what went wrong, and what the ledger says about its own record."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice
from operator import le

import msgspec

from wcache.core.model import events as ev
from wcache.core.model.evidence import Grant
from wcache.core.model.vocabulary import Tier
from wcache.ledger.headline import headline
from wcache.ledger.moment import utc
from wcache.ledger.report.attaches import Attaches
from wcache.ledger.report.model import Listing, Row
from wcache.ledger.report.source import Source

ODD_NS = 1_000_000_000
"""Clocks that differ by less are no anomaly; the same second as in `ledger.verify`."""

CHANGES: tuple[type[ev.Event], ...] = (
    ev.DaemonStarted, ev.DaemonStopped, ev.LoadCompleted, ev.ReleaseRequested, ev.ReleaseCompleted, ev.ResidencyReadopted, ev.TrustGranted,
    ev.TrustRevoked, ev.CheckpointSigned, ev.PayloadRedacted, ev.SegmentOpened, ev.SegmentClosed, ev.SegmentDropped,
)  # fmt: skip
INCIDENTS: tuple[type[ev.Event], ...] = (
    ev.DaemonLost, ev.LoadFailed, ev.MapFailed, ev.FallbackFailed, ev.MutationDetected, ev.ResidencyLost, ev.VerifyFailed, ev.PeerRefused,
    ev.ReleaseRefused, ev.LedgerGap,
)  # fmt: skip

_REDACTED: Row = {"text": "What this event said was redacted."}

_CHUNK_ROWS = 2_000


class Record:
    """One pass over the columns of all events: the order in which they were recorded is what clocks are judged by."""

    def __init__(self, source: Source, limit: int | None) -> None:
        self.source = source
        self.limit = limit
        self._seqs: dict[str, list[int]] = {}
        self._clock: list[Row] = []
        self.newest_ns = 0
        """Of the times of all events, the newest."""
        self._pass()

    def _pass(self) -> None:
        period = self.source.period
        since_ns, until_ns = period.since_ns or -(1 << 63), period.until_ns
        wanted = {cls.type for cls in (*CHANGES, *INCIDENTS)}
        seqs, newest_ns = self._seqs, 0
        rows = self.source.tuples("SELECT seq, type, occurred_ns, recorded_ns FROM event ORDER BY seq")
        while chunk := list(islice(rows, _CHUNK_ROWS)):
            for seq, kind, occurred_ns, _ in chunk:
                if kind in wanted and since_ns <= occurred_ns < until_ns:
                    seqs.setdefault(kind, []).append(seq)
            newest_ns = self._clocks(chunk, newest_ns)
            self.newest_ns = max(self.newest_ns, max(row[2] for row in chunk), max(row[3] for row in chunk))

    def _clocks(self, rows: Sequence[tuple[int, str, int, int]], newest_ns: int) -> int:
        """What is odd about the times of these rows; the newest time so far after them."""
        recorded = [row[3] for row in rows]
        if all(map(le, [newest_ns, *recorded], recorded)) and all(row[2] <= row[3] + ODD_NS for row in rows):
            return recorded[-1]
        period = self.source.period
        for seq, kind, occurred_ns, recorded_ns in rows:
            if recorded_ns < newest_ns - ODD_NS or occurred_ns > recorded_ns + ODD_NS:
                if (period.since_ns or -(1 << 63)) <= recorded_ns < period.until_ns:
                    self._odd(seq, kind, occurred_ns, recorded_ns, newest_ns)
                newest_ns = recorded_ns
            newest_ns = max(newest_ns, recorded_ns)
        return newest_ns

    def _odd(self, seq: int, kind: str, occurred_ns: int, recorded_ns: int, newest_ns: int) -> None:
        back_ns = newest_ns - recorded_ns
        if back_ns > ODD_NS:
            text = "the clock had gone back when this was recorded"
        else:
            back_ns, text = occurred_ns - recorded_ns, "says that it happened after it was recorded"
        row = {"seq": seq, "event": kind, "recorded": utc(recorded_ns), "before": utc(newest_ns) if newest_ns else None}
        self._clock.append({**row, "back_s": back_ns / 1e9, "text": text})

    def listings(self, attaches: Attaches) -> list[Listing]:
        return [
            self._events("change", CHANGES),
            self._events("incident", INCIDENTS),
            self._releases(),
            self._grants(attaches),
            self._of("gap", (ev.LedgerGap.type,), _gap),
            self._cut("clock", self._clock),
            self._of("redaction", (ev.PayloadRedacted.type,), _redaction),
            self._of("checkpoint", (ev.CheckpointSigned.type, ev.SegmentClosed.type), _checkpoint),
        ]

    def gaps(self) -> tuple[int, int]:
        """Events of all gaps that were merged later, and that are known lost."""
        found = [event for _, event in self.source.events(self._seqs.get(ev.LedgerGap.type, [])) if isinstance(event, ev.LedgerGap)]
        return sum(event.merged for event in found), sum(event.lost for event in found)

    def _cut(self, name: str, rows: list[Row]) -> Listing:
        return Listing(name=name, rows=rows if self.limit is None else rows[-self.limit :], total=len(rows))

    def _newest(self, types: tuple[str, ...]) -> tuple[list[int], int]:
        seqs = sorted(seq for kind in types for seq in self._seqs.get(kind, ()))
        return (seqs if self.limit is None else seqs[-self.limit :]), len(seqs)

    def _of(self, name: str, types: tuple[str, ...], said: Callable[[ev.Event], Row]) -> Listing:
        seqs, total = self._newest(types)
        rows = [
            {"seq": about["seq"], "time": utc(about["occurred_ns"]), "event": about["type"], **(said(event) if event else _REDACTED)}
            for about, event in self.source.events(seqs)
        ]
        return Listing(name=name, rows=rows, total=total)

    def _events(self, name: str, types: tuple[type[ev.Event], ...]) -> Listing:
        return self._of(name, tuple(cls.type for cls in types), lambda event: {"uid": _uid(event), "text": headline(event)})

    def _releases(self) -> Listing:
        """All of them are looked at: whether somebody had the weights mapped is in the payload."""
        rows = []
        for about, event in self.source.events(
            sorted(self._seqs.get(ev.ReleaseRequested.type, []) + self._seqs.get(ev.ReleaseRefused.type, []))
        ):
            if isinstance(event, (ev.ReleaseRequested, ev.ReleaseRefused)) and event.leases:
                row = {"seq": about["seq"], "time": utc(about["occurred_ns"]), "residency": event.residency, "uid": event.uid}
                decision = "refused" if isinstance(event, ev.ReleaseRefused) else "forced" if event.force else "deferred"
                rows.append({**row, "decision": decision, "leases": len(event.leases), "why": event.why, "text": headline(event)})
        return self._cut("leased_release", rows)

    def _grants(self, attaches: Attaches) -> Listing:
        period = self.source.period
        where, parameters = self.source.decided()
        sql = f"SELECT evidence FROM attach WHERE {where} AND decision = 'hit' AND tier = '{Tier.TRUSTED}'"  # noqa: S608
        trusted = self.source.rows(sql, parameters) if attaches.totals.trusted else []
        used: dict[str | None, int] = {}
        for name in attaches.grants_of(trusted):
            used[name] = used.get(name, 0) + 1
        known = self.source.rows("SELECT seq, state, body, revoked_seq FROM trust ORDER BY seq")
        revoked = {
            about["seq"]: about["occurred_ns"]
            for about, _ in self.source.events([row["revoked_seq"] for row in known if row["revoked_seq"]])
        }
        rows = []
        for row in known:
            grant = msgspec.json.decode(row["body"], type=Grant)
            revoked_ns = revoked.get(row["revoked_seq"])
            ends = [moment for moment in (grant.expires_ns, revoked_ns) if moment is not None]
            ended_ns = min(ends, default=None)
            if grant.granted_ns >= period.until_ns or (ended_ns is not None and period.since_ns is not None and ended_ns < period.since_ns):
                continue
            over = ended_ns is not None and ended_ns < period.until_ns
            state = "active" if not over else "revoked" if ended_ns == revoked_ns else "expired"
            about = grant.prefix or grant.residency or grant.instance or ", ".join(grant.spellings)
            rows.append({
                "seq": row["seq"], "time": utc(grant.granted_ns), "grant": grant.grant, "scope": grant.scope.value, "about": about,
                "operator_uid": grant.operator_uid, "why": grant.reason, "expires": utc(grant.expires_ns),
                "ended": utc(ended_ns) if over else None, "state": state, "weights_digest": grant.weights_digest,
                "hits": used.get(grant.grant, 0),
            })  # fmt: skip
        return self._cut("grant", rows)


def _uid(event: ev.Event) -> int | None:
    if isinstance(event, (ev.ReleaseRequested, ev.ReleaseRefused, ev.DaemonStarted)):
        return event.uid
    if isinstance(event, ev.TrustGranted):
        return event.grant.operator_uid
    if isinstance(event, ev.TrustRevoked):
        return event.operator_uid
    if isinstance(event, (ev.SegmentClosed, ev.PayloadRedacted)):
        return event.uid
    return event.peer.uid if isinstance(event, ev.PeerRefused) else None


def _gap(event: ev.Event) -> Row:
    if not isinstance(event, ev.LedgerGap):
        return {}
    return {"time": utc(event.from_ns), "ended": utc(event.to_ns), "merged": event.merged, "lost": event.lost, "why": event.why}


def _redaction(event: ev.Event) -> Row:
    return {"target_seq": event.target_seq, "uid": event.uid, "why": event.why} if isinstance(event, ev.PayloadRedacted) else {}


def _checkpoint(event: ev.Event) -> Row:
    return {"size": event.size, "root": event.root} if isinstance(event, (ev.CheckpointSigned, ev.SegmentClosed)) else {}
