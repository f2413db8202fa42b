"""What Prometheus is told: counters from the ledger, so that they survive the server and agree with `wcache audit`; the rest as it is now.

Names and labels are a contract: docs/reference/metrics.md is generated from here, and the dashboard in deploy/grafana is tested against it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from wcache.core.model.errors import WcacheError
from wcache.core.model.vocabulary import Mode, Outcome, Proof, Reason, ResidencyState, Tier
from wcache.daemon.health import Look, Verdict
from wcache.ledger.counts import Counts
from wcache.ledger.journal import Journal


class Definition(NamedTuple):
    """A metric: its kind (counter or gauge), its labels, what it says. Counters end in `_total`."""

    kind: str
    labels: tuple[str, ...]
    says: str


def _counter(says: str, *labels: str) -> Definition:
    return Definition("counter", labels, says)


def _gauge(says: str, *labels: str) -> Definition:
    return Definition("gauge", labels, says)


METRICS: dict[str, Definition] = {
    "wcache_build_info": _gauge("1; the running version and daemon instance", "version", "daemon"),
    "wcache_healthy": _gauge("1 while /health says 200"),
    "wcache_start_time_seconds": _gauge("when the server started, since the epoch"),
    "wcache_expected_served": _gauge("1 while an expected checkpoint can be served", "checkpoint"),
    "wcache_decisions_total": _counter("attaches by their first decision; the reason of a hit is empty", "decision", "reason"),
    "wcache_redecisions_total": _counter("hits that were decided again because the map failed", "decision", "reason"),
    "wcache_hits_total": _counter("hits by the tier of the evidence that they rest on", "tier"),
    "wcache_hits_proved": _gauge("hits by what was found when they were looked at later; refuted ones were wrong", "proof"),
    "wcache_maps_total": _counter("completed maps by the mode that was achieved", "mode"),
    "wcache_mapped_bytes_total": _counter("bytes that engines got from the daemon", "mode"),
    "wcache_copied_bytes_total": _counter("bytes that had to be copied, of those"),
    "wcache_fallback_reads_total": _counter("reads of the disk after a fallback", "result"),
    "wcache_fallback_read_bytes_total": _counter("bytes that engines read from disk instead"),
    "wcache_fallback_seconds_total": _counter("seconds that those reads took"),
    "wcache_fallback_idle_bytes_total": _counter("bytes that the daemon held for nobody during each fallback, summed"),
    "wcache_loads_total": _counter("loads by how they ended", "result"),
    "wcache_loaded_bytes_total": _counter("bytes that were loaded"),
    "wcache_load_done_bytes": _gauge("bytes that a running load has done in its phase", "residency", "checkpoint", "phase"),
    "wcache_load_size_bytes": _gauge("bytes that this phase of a running load has in all", "residency", "checkpoint", "phase"),
    "wcache_file_retries_total": _counter("operations on checkpoint files that failed and were tried again, since the server started"),
    "wcache_hash_jobs": _gauge("hash jobs by whether they run or wait", "state"),
    "wcache_hash_done_bytes": _gauge("bytes that the hash jobs have done"),
    "wcache_hash_size_bytes": _gauge("bytes that the hash jobs have in all"),
    "wcache_residencies": _gauge("residencies that are held, by state", "state"),
    "wcache_residency_size_bytes": _gauge("bytes of each residency", "residency", "checkpoint", "device"),
    "wcache_residency_leases": _gauge("leases on each residency", "residency", "checkpoint", "device"),
    "wcache_resident_bytes": _gauge("bytes of resident weights"),
    "wcache_idle_bytes": _gauge("bytes of resident weights that nobody has mapped"),
    "wcache_budget_bytes": _gauge("bytes that may still be loaded", "limit"),
    "wcache_releases_total": _counter("residencies that were given back"),
    "wcache_releases_refused_total": _counter("releases that were refused because the weights were mapped"),
    "wcache_evictions_total": _counter("releases that made room for a load"),
    "wcache_residencies_lost_total": _counter("residencies whose memory was gone without a release"),
    "wcache_residencies_readopted_total": _counter("residencies that a new server took over"),
    "wcache_mutations_detected_total": _counter("times that resident bytes no longer matched their digests"),
    "wcache_verifications_total": _counter("verifications of residencies by result", "result"),
    "wcache_leases": _gauge("attaches that have weights mapped, or are about to"),
    "wcache_leases_orphaned": _gauge("of those, the ones whose process is gone and whose child still maps"),
    "wcache_connections": _gauge("open connections of clients"),
    "wcache_descriptors_unacknowledged": _gauge("descriptors that are under way to clients"),
    "wcache_peers_refused_total": _counter("recorded refusals of processes of another user; one a minute and user"),
    "wcache_ledger_up": _gauge("1 while the ledger takes events"),
    "wcache_ledger_readable": _gauge("1 while the counters can be read from the ledger; else they stand still"),
    "wcache_ledger_head_seq": _gauge("seq of the newest event that this server knows to be committed"),
    "wcache_ledger_queue_units": _gauge("units that wait to be appended"),
    "wcache_ledger_commit_seconds": _gauge("what the last commit took; 0 before the first"),
    "wcache_ledger_committed_time_seconds": _gauge("when the last commit was durable, since the epoch; 0 before the first"),
    "wcache_ledger_signed_size": _gauge("events that the newest signed checkpoint covers; 0 where none was ever recorded"),
    "wcache_ledger_signed_time_seconds": _gauge("when that checkpoint was recorded, since the epoch; 0 where none was"),
    "wcache_ledger_gaps_total": _counter("times that a journal was merged into the ledger"),
    "wcache_ledger_gap_merged_events_total": _counter("events that came late, by way of a journal"),
    "wcache_ledger_gap_lost_events_total": _counter("events that are known to be lost"),
    "wcache_journal_pending_units": _gauge("units in the journal that wait for the ledger"),
    "wcache_journal_bytes": _gauge("size of the journal"),
    "wcache_journalled_events_total": _counter("events that this server wrote into the journal, since it started"),
    "wcache_unrecorded_events_total": _counter("events that not even the journal took, since the server started"),
    "wcache_journal_serves": _gauge("1 while hits may be served from the journal (policy `serve`): it has room"),
    "wcache_space_free_bytes": _gauge("room on the file system of the ledger and of the journal", "place"),
    "wcache_space_low": _gauge("1 below a mark: soft warns, hard stops serving from the journal", "place", "mark"),
    "wcache_memory_bytes": _gauge("resident set of the server process; the weights are not in it"),
}

_PROOFS = (Proof.PROVED, Proof.REFUTED, Proof.UNPROVABLE)
_MISSES = (Outcome.STRICT_MISS, Outcome.FALLBACK)
_HELD = (ResidencyState.LOADING, ResidencyState.RESIDENT, ResidencyState.SUSPECT, ResidencyState.RELEASING)
_ENDED = ("completed", "failed")
_VERIFIED = {"passed": "verify.passed", "failed": "verify.failed", "inconclusive": "verify.inconclusive"}

Sample = tuple[str, tuple[str, ...], float]


class Metrics(Collector):
    """Renders one page. One thread at a time; reads the ledger, so it may take a while."""

    def __init__(self, ledger: Path, journal: Journal) -> None:
        self._counts = Counts(ledger, journal)
        self._registry = CollectorRegistry(auto_describe=False)
        self._samples: list[Sample] = []
        self._registry.register(self)

    def page(self, look: Look, verdict: Verdict) -> bytes:
        """Text format 0.0.4."""
        readable = True
        try:
            self._counts.refresh()
        except WcacheError:
            readable = False
        self._samples = [
            ("wcache_ledger_readable", (), float(readable)),
            *_now(look, verdict),
            *_counted(self._counts),
            ("wcache_journalled_events_total", (), look.journalled),
            ("wcache_unrecorded_events_total", (), look.unrecorded),
            ("wcache_file_retries_total", (), look.retried),
        ]
        return generate_latest(self._registry)

    def describe(self) -> Iterable[Metric]:
        return ()

    def collect(self) -> Iterator[Metric]:
        families: dict[str, Metric] = {}
        for name, (kind, labels, says) in METRICS.items():
            family = CounterMetricFamily if kind == "counter" else GaugeMetricFamily
            families[name] = family(name, says, labels=labels)
        for name, values, value in self._samples:
            families[name].add_metric(values, value)  # type: ignore[attr-defined]
        yield from families.values()


def _counted(counts: Counts) -> Iterator[Sample]:
    """Every label value is there from the start: a rate over a series that appears with its first event misses that event."""
    totals = counts.totals
    yield "wcache_decisions_total", (Outcome.HIT.value, ""), totals["decisions", Outcome.HIT.value, ""]
    for outcome in _MISSES:
        for reason in Reason:
            yield "wcache_decisions_total", (outcome.value, reason.value), totals["decisions", outcome.value, reason.value]
            yield "wcache_redecisions_total", (outcome.value, reason.value), totals["redecisions", outcome.value, reason.value]
    for tier in Tier:
        yield "wcache_hits_total", (tier.value,), totals["hits", tier.value]
    for proof in _PROOFS:
        yield "wcache_hits_proved", (proof.value,), counts.proofs[proof.value]
    for mode in Mode:
        yield "wcache_maps_total", (mode.value,), totals["maps", mode.value]
        yield "wcache_mapped_bytes_total", (mode.value,), totals["mapped_bytes", mode.value]
    for result in _ENDED:
        yield "wcache_fallback_reads_total", (result,), totals["fallbacks", result]
        yield "wcache_loads_total", (result,), totals["loads", result]
    for result, kind in _VERIFIED.items():
        yield "wcache_verifications_total", (result,), totals[kind,]
    plain = {
        "wcache_copied_bytes_total": "copied_bytes",
        "wcache_fallback_read_bytes_total": "fallback_bytes",
        "wcache_fallback_idle_bytes_total": "fallback_idle_bytes",
        "wcache_loaded_bytes_total": "loaded_bytes",
        "wcache_releases_total": "release.completed",
        "wcache_releases_refused_total": "release.refused",
        "wcache_evictions_total": "evictions",
        "wcache_residencies_lost_total": "residency.lost",
        "wcache_residencies_readopted_total": "residency.readopted",
        "wcache_mutations_detected_total": "mutation.detected",
        "wcache_peers_refused_total": "peer.refused",
        "wcache_ledger_gaps_total": "gaps",
        "wcache_ledger_gap_merged_events_total": "gap_merged",
        "wcache_ledger_gap_lost_events_total": "gap_lost",
    }
    yield from ((name, (), totals[key,]) for name, key in plain.items())
    yield "wcache_fallback_seconds_total", (), totals["fallback_ms",] / 1000
    yield "wcache_ledger_signed_size", (), counts.signed_size
    yield "wcache_ledger_signed_time_seconds", (), counts.signed_ns / 1e9


def _now(look: Look, verdict: Verdict) -> Iterator[Sample]:
    status = look.status
    yield "wcache_build_info", (status.version, status.instance), 1
    for one in verdict.expected:
        yield "wcache_expected_served", (one.checkpoint,), one.served
    states = [item.view.state for item in status.residencies]
    for state in _HELD:
        yield "wcache_residencies", (state.value,), states.count(state)
    for item in status.residencies:
        labels = (item.view.residency, item.view.served.spelling, item.view.device)
        yield "wcache_residency_size_bytes", labels, item.view.bytes
        yield "wcache_residency_leases", labels, item.leases
        if item.phase is not None:
            yield "wcache_load_done_bytes", (*labels[:2], item.phase), item.done_bytes
            yield "wcache_load_size_bytes", (*labels[:2], item.phase), item.total_bytes
    running = sum(1 for runs, _, _ in look.hashes if runs)
    yield "wcache_hash_jobs", ("running",), running
    yield "wcache_hash_jobs", ("waiting",), len(look.hashes) - running
    yield "wcache_budget_bytes", (status.budget_by,), status.budget_bytes
    for place, room in look.rooms.items():
        yield "wcache_space_free_bytes", (place,), room.free_bytes
        yield "wcache_space_low", (place, "soft"), room.level != "ok"
        yield "wcache_space_low", (place, "hard"), room.level == "full"
    plain = {
        "wcache_healthy": verdict.healthy,
        "wcache_start_time_seconds": status.started_ns / 1e9,
        "wcache_hash_done_bytes": sum(done for _, done, _ in look.hashes),
        "wcache_hash_size_bytes": sum(total for _, _, total in look.hashes),
        "wcache_resident_bytes": status.resident_bytes,
        "wcache_idle_bytes": look.idle_bytes,
        "wcache_leases": len(status.leases),
        "wcache_leases_orphaned": sum(lease.orphaned for lease in status.leases),
        "wcache_connections": look.connections,
        "wcache_descriptors_unacknowledged": look.unacknowledged,
        "wcache_ledger_up": not status.ledger_failure,
        "wcache_ledger_head_seq": status.ledger_seq or 0,
        "wcache_ledger_queue_units": look.queued,
        "wcache_ledger_commit_seconds": look.commit_s or 0.0,
        "wcache_ledger_committed_time_seconds": (look.committed_ns or 0) / 1e9,
        "wcache_journal_pending_units": status.journalled,
        "wcache_journal_bytes": look.journal_bytes,
        "wcache_journal_serves": look.serves_unrecorded,
        "wcache_memory_bytes": status.memory_bytes,
    }
    yield from ((name, (), float(value)) for name, value in plain.items())
