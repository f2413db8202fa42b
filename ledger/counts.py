"""Running totals of what the ledger says, for monitoring: what a counter shows is what `wcache audit` shows, before and after a restart.

The first refresh reads the projections, each later one only the events that came since. Both count the same things: an attach by its
first decision, a redecision beside it; an observation that was late counts nowhere.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from sqlalchemy import Connection

from wcache.core.model import events as ev
from wcache.core.model.vocabulary import Outcome
from wcache.ledger.database import connect_reader, driver, translated
from wcache.ledger.journal import Journal
from wcache.ledger.stored import StoredEvent, find_ids, iterate_events, newest_of_ledger, read_origin
from wcache.ledger.upgrade import require_current

EVICTED = "evicted"
"""How `why` of a `release.requested` begins that made room for a load."""

Key = tuple[str, ...]
"""What is counted, and the words that it is counted by."""

_COUNTED = (
    ev.AttachDecided, ev.AttachRedecided, ev.MapCompleted, ev.FallbackCompleted, ev.FallbackFailed,
    ev.LoadCompleted, ev.LoadFailed, ev.ReleaseRequested, ev.ReleaseRefused, ev.ReleaseCompleted, ev.ResidencyLost, ev.ResidencyReadopted,
    ev.MutationDetected, ev.PeerRefused, ev.LedgerGap, ev.VerifyPassed, ev.VerifyFailed, ev.VerifyInconclusive,
)  # fmt: skip
_VERIFIED = (ev.VerifyPassed, ev.VerifyFailed, ev.VerifyInconclusive)
_TYPES = (*(cls.type for cls in _COUNTED), ev.CheckpointSigned.type)
_OF_RESIDENCIES = tuple(
    cls.type for cls in (ev.ReleaseRequested, ev.ReleaseRefused, ev.ResidencyReadopted, ev.MutationDetected, *_VERIFIED)
)


def count(totals: Counter[Key], event: ev.Event) -> None:
    """One event that was not late, added to the totals."""
    if isinstance(event, ev.AttachDecided):
        totals["decisions", event.outcome.value, event.reason.value if event.reason else ""] += 1
        if event.outcome is Outcome.HIT and event.tier is not None:
            totals["hits", event.tier.value] += 1
    elif isinstance(event, ev.AttachRedecided):
        totals["redecisions", event.outcome.value, event.reason.value] += 1
    elif isinstance(event, ev.MapCompleted):
        totals["maps", event.mode.value] += 1
        totals["mapped_bytes", event.mode.value] += event.bytes
        totals["copied_bytes",] += event.copied_bytes
    elif isinstance(event, (ev.FallbackCompleted, ev.FallbackFailed)):
        done = isinstance(event, ev.FallbackCompleted)
        totals["fallbacks", "completed" if done else "failed"] += 1
        totals["fallback_idle_bytes",] += event.idle_bytes
        if isinstance(event, ev.FallbackCompleted):
            totals["fallback_bytes",] += event.bytes
            totals["fallback_ms",] += round(event.seconds * 1000)
    elif isinstance(event, ev.LoadCompleted):
        totals["loads", "completed"] += 1
        totals["loaded_bytes",] += event.bytes
    elif isinstance(event, ev.LoadFailed):
        totals["loads", "failed"] += 1
    elif isinstance(event, ev.ReleaseRequested):
        totals["evictions",] += event.why.startswith(EVICTED)
    elif isinstance(event, ev.LedgerGap):
        totals["gaps",] += 1
        totals["gap_merged",] += event.merged
        totals["gap_lost",] += event.lost
    elif not (isinstance(event, _VERIFIED) and event.attach):  # a hit's proof is a state, not a count
        totals[event.type,] += 1


class Counts:
    """The totals of one ledger and of the decisions that wait in its journal. Opens the file for each refresh; one thread at a time.

    `signed_size` and `signed_ns` are those of the newest signed checkpoint: how many events it covers, and when it was recorded; 0 before.
    """

    def __init__(self, path: Path, journal: Journal) -> None:
        self.path = path
        self.totals: Counter[Key] = Counter()
        self.proofs: Counter[str] = Counter()
        self.seq = self.signed_size = self.signed_ns = 0
        self._origin: str | None = None
        self._journal = journal
        self._recorded: Counter[Key] = Counter()

    def refresh(self) -> None:
        """Brings everything up to date, or raises a LedgerError and leaves it as it was."""
        waiting = self._journal.waiting()  # before the ledger: what a merge moves meanwhile is then found in both, and counted once
        engine = connect_reader(self.path)
        try:
            with translated(self.path), engine.begin() as connection:
                origin = read_origin(connection, self.path)
                if origin != self._origin:
                    require_current(connection, self.path)
                    self._recorded, self.proofs, self.seq = _from_projections(connection)
                    self._sign(newest_of_ledger(driver(connection), ev.CheckpointSigned.type))
                    self._origin = origin
            verified = False
            for item in iterate_events(engine, self.path, self.seq, types=_TYPES):
                self.seq = item.seq
                if isinstance(item.event, ev.CheckpointSigned):
                    self._sign(item)
                elif not item.late:
                    count(self._recorded, item.event)
                verified |= item.type.startswith("verify.")
            with translated(self.path), engine.begin() as connection:
                if verified:
                    self.proofs = _proofs(connection)
                present = find_ids(driver(connection), [event_id for event_id, _ in waiting])
        finally:
            engine.dispose()
        self.totals = self._recorded.copy()
        for event_id, event in waiting:
            # Of what waits only the decisions: whether an observation will be late is not known before it is merged.
            if event_id not in present and isinstance(event, ev.AttachDecided):
                count(self.totals, event)

    def _sign(self, item: StoredEvent | None) -> None:
        if item is not None and isinstance(item.event, ev.CheckpointSigned):
            self.signed_size, self.signed_ns = item.event.size, item.recorded_ns


def _from_projections(connection: Connection) -> tuple[Counter[Key], Counter[str], int]:
    """Totals, proofs, and the seq up to which they hold."""
    totals: Counter[Key] = Counter()
    seq = connection.exec_driver_sql("SELECT coalesce(max(seq), 0) FROM event").scalar_one()
    for key, number in (*_attaches(connection), *_residencies(connection)):
        totals[key] += number
    marks = ",".join("?" * len(_OF_RESIDENCIES))
    # Both are ranges of the index over (stream, version): few events beside those of the attaches.
    sql = "SELECT seq, type, schema, payload FROM event WHERE late = 0 AND "
    of_residencies = f"{sql} stream >= 'residency/' AND stream < 'residency0' AND type IN ({marks})"
    of_ledger = f"{sql} stream = 'ledger' AND type IN (?, ?)"
    rows = connection.exec_driver_sql(of_residencies, _OF_RESIDENCIES).all()
    rows = [*rows, *connection.exec_driver_sql(of_ledger, (ev.LedgerGap.type, ev.PeerRefused.type))]
    kept = _kept(connection) if any(row[3] is None for row in rows) else {}
    for event_seq, kind, schema, payload in rows:
        body_schema, body = (schema, payload) if payload is not None else kept.get(event_seq, (0, None))
        if body is not None:
            count(totals, ev.decode_payload(kind, body_schema, body))
    return totals, _proofs(connection), seq


def _kept(connection: Connection) -> dict[int, tuple[int, str]]:
    """What stands for redacted payloads."""
    from wcache.ledger.segments import history_of

    return history_of(connection, "the ledger").bodies()


def _attaches(connection: Connection) -> Iterator[tuple[Key, int]]:
    # An attach that was decided again had been a hit: no other decision can be (the attach's state machine).
    first = "CASE WHEN seq = first_seq THEN decision ELSE 'hit' END"
    sql = (
        f"SELECT {first}, CASE WHEN seq = first_seq THEN coalesce(reason, '') ELSE '' END, tier, seq <> first_seq, decision, reason,"  # noqa: S608
        " CASE WHEN mapped_bytes IS NULL THEN NULL ELSE mode END, state, fallback_bytes IS NOT NULL, count(*), sum(mapped_bytes),"
        " sum(copied_bytes), sum(fallback_bytes), sum(CAST(round(fallback_s * 1000) AS INTEGER)), sum(idle_bytes)"
        " FROM attach GROUP BY 1, 2, 3, 4, 5, 6, 7, 8, 9"
    )
    for row in connection.exec_driver_sql(sql):
        outcome, reason, tier, again, decision, reason_now, mode, state, read, number, mapped, copied, read_bytes, read_ms, idle = row
        yield ("decisions", outcome, reason), number
        if outcome == Outcome.HIT.value and tier:
            yield ("hits", tier), number
        if again:
            yield ("redecisions", decision, reason_now), number
        if mode is not None:
            yield ("maps", mode), number
            yield ("mapped_bytes", mode), mapped
            yield ("copied_bytes",), copied
        failed = state == "failed" and decision == Outcome.FALLBACK.value
        if read or failed:
            yield ("fallbacks", "completed" if read else "failed"), number
            yield ("fallback_idle_bytes",), idle or 0
        if read:
            yield ("fallback_bytes",), read_bytes
            yield ("fallback_ms",), read_ms


def _residencies(connection: Connection) -> Iterator[tuple[Key, int]]:
    sql = "SELECT state, loaded_ns IS NOT NULL, count(*), sum(bytes) FROM residency GROUP BY 1, 2"
    ends = {"released": ev.ReleaseCompleted.type, "lost": ev.ResidencyLost.type}
    for state, loaded, number, size_bytes in connection.exec_driver_sql(sql):
        if loaded:
            yield ("loads", "completed"), number
            yield ("loaded_bytes",), size_bytes
        if state == "failed":
            yield ("loads", "failed"), number
        if state in ends:
            yield (ends[state],), number


def _proofs(connection: Connection) -> Counter[str]:
    sql = "SELECT proof, count(*) FROM attach WHERE proof IS NOT NULL AND proof <> 'unproven' GROUP BY 1"
    proofs: Counter[str] = Counter()
    for proof, number in connection.exec_driver_sql(sql):
        proofs[proof] = number
    return proofs
