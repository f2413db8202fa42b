"""One line for any event, for timelines and as the first sentence of an explanation."""

from __future__ import annotations

from typing import Any

from wcache.core.model import events as ev
from wcache.core.model.config import config_digest
from wcache.core.model.vocabulary import Kind, Outcome, TrustScope
from wcache.ledger.moment import utc


def headline(event: ev.Event) -> str:
    """One line for any event."""
    line = _HEADLINES.get(type(event))
    return line(event) if line else f"{event.type}: {type(event).says}."


def _d(digest: str | None) -> str:
    return (digest or "unknown")[:16]


def _grant_line(event: ev.TrustGranted) -> str:
    grant = event.grant
    about = {
        TrustScope.CHECKPOINT: f"{', '.join(grant.spellings)} as {_d(grant.weights_digest)}",
        TrustScope.RESIDENCY: f"residency {grant.residency}",
        TrustScope.INSTANCE: f"what daemon instance {grant.instance} sees first",
        TrustScope.STORE: f"that nothing below {grant.prefix} changes",
    }[grant.scope]
    until = f"until {utc(grant.expires_ns)}" if grant.expires_ns else "until revoked"
    return f"uid {grant.operator_uid} granted trust {grant.grant} in {about}, {until}: {grant.reason!r}."


def _outcome_line(event: ev.AttachDecided) -> str:
    how = f"{event.tier}, {event.mode}" if event.outcome is Outcome.HIT else f"{event.reason}"
    return (
        f"{event.engine.name}, rank {event.ranks.rank} of launch {event.launch}, asked for {event.asked.spelling}: {event.outcome} ({how})."
    )


def _completed_line(event: ev.LoadCompleted) -> str:
    counted = f"{event.tensors} tensors, {event.bytes} bytes"
    took = f"in {sum(event.seconds.values()):.2f} s."
    if event.kind is Kind.RAW:
        return f"{event.residency} is resident: {event.served.spelling}, {counted}, weights digest {_d(event.weights_digest)}, {took}"
    return (
        f"{event.residency} is resident: processed weights of {event.served.spelling}, {counted}, processed digest "
        f"{_d(event.processed_digest)}, configuration {_d(config_digest(event.config))}, lineage {event.lineage}, {took}"
    )


def _opened_line(event: ev.SegmentOpened) -> str:
    live = f"{len(event.state)} streams were live"
    return f"A segment of the ledger begins, after {event.size} events chained under origin {event.origin}; {live}."


_HEADLINES: dict[type[ev.Event], Any] = {
    ev.DaemonStarted: lambda e: f"Daemon instance {e.instance} started: version {e.version}, pid {e.pid}, uid {e.uid}.",
    ev.DaemonStopped: lambda e: (
        f"Daemon instance {e.instance} stopped in order, by {e.by}{f', and left {len(e.left)} with the service manager' if e.left else ''}."
    ),
    ev.DaemonLost: lambda e: f"Daemon instance {e.instance} ended without a word; noticed by {e.noticed_by}.",
    ev.LoadStarted: lambda e: (
        f"{e.residency} began to load {e.asked.spelling}: {e.tensors} tensors, {e.bytes} bytes, on {e.device}."
        if e.kind is Kind.RAW
        else f"{e.residency} is to hold processed weights of {e.asked.spelling}: {e.tensors} tensors, {e.bytes} bytes, on {e.device}."
    ),
    ev.LoadCompleted: lambda e: _completed_line(e),
    ev.LoadFailed: lambda e: f"{e.residency} could not load {e.asked.spelling}: {e.code}: {e.message}.",
    ev.FingerprintRecorded: lambda e: f"Evidence about {e.spelling} was taken by {e.by}: {e.evidence.tier} {_d(e.evidence.digest)}.",
    ev.TrustGranted: _grant_line,
    ev.TrustRevoked: lambda e: f"uid {e.operator_uid} revoked trust {e.grant}" + (f": {e.reason!r}." if e.reason else "."),
    ev.AttachDecided: _outcome_line,
    ev.AttachRedecided: lambda e: f"Decided again: {e.outcome} ({e.reason}): {e.detail}.",
    ev.LeaseGranted: lambda e: f"{e.attach} was promised the descriptors of {e.residency}.",
    ev.MapCompleted: lambda e: (
        f"{e.attach} has the weights: {e.tensors} tensors, {e.bytes} bytes in {e.ms:.1f} ms, {e.mode}"
        + (f", {e.copied_tensors} tensors copied ({e.copied_bytes} bytes)." if e.copied_tensors else ".")
    ),
    ev.MapPaused: lambda e: f"{e.attach} gave its mapping of {e.bytes} bytes back and kept its lease.",
    ev.MapResumed: lambda e: f"{e.attach} mapped {e.bytes} bytes again at their old addresses in {e.ms:.1f} ms.",
    ev.MapFailed: lambda e: f"{e.attach} could not map: {e.code}: {e.message}.",
    ev.LeaseEnded: lambda e: f"The lease of {e.attach} ended: {e.how}.",
    ev.FallbackCompleted: lambda e: (
        f"{e.attach} read {e.bytes} bytes from disk in {e.seconds:.2f} s; the daemon held {e.idle_bytes} bytes that nobody used."
    ),
    ev.FallbackFailed: lambda e: f"{e.attach} could not read the disk either: {e.code}: {e.message}.",
    ev.ReleaseRequested: lambda e: (
        f"uid {e.uid} asked to release {e.residency}"
        + (" by force" if e.force else " when it is free" if e.when_free else "")
        + (f": {e.why!r}" if e.why else "")
        + (f"; mapped by {', '.join(e.leases)}." if e.leases else ".")
    ),
    ev.ReleaseRefused: lambda e: f"The release of {e.residency} that uid {e.uid} asked for was refused: mapped by {', '.join(e.leases)}.",
    ev.ReleaseCompleted: lambda e: (
        f"{e.residency} was released: {e.bytes} bytes given back" + (f", checked by {e.checked} before." if e.checked else ".")
    ),
    ev.VerifyPassed: lambda e: (
        f"{e.residency} is sealed since it was loaded; nothing was read."
        if e.by == "seals"
        else f"{e.attach or e.residency} was checked and is right: {_d(e.found)}, in {e.seconds:.2f} s."
    ),
    ev.VerifyFailed: lambda e: (
        f"{e.attach} was a wrong hit: {_d(e.found)} was asked for, {_d(e.expected)} was served."
        if e.attach
        else f"{e.residency} is not what was loaded: {_d(e.found)} instead of {_d(e.expected)}."
    ),
    ev.VerifyInconclusive: lambda e: f"{e.attach or e.residency} can neither be proved nor refuted: {e.why}.",
    ev.MutationDetected: lambda e: f"Bytes of {e.residency} changed in memory: {', '.join(e.tensors) or e.why}.",
    ev.ResidencyLost: lambda e: f"{e.residency} is gone without a release: {e.why}.",
    ev.ResidencyReadopted: lambda e: f"{e.residency} was taken over by daemon instance {e.instance}.",
    ev.PeerRefused: lambda e: f"A process of uid {e.peer.uid} was turned away: {e.why}.",
    ev.LedgerGap: lambda e: (
        f"From {utc(e.from_ns)} to {utc(e.to_ns)} decisions could not be recorded ({e.why}): {e.merged} merged later, {e.lost} known lost."
    ),
    ev.CheckpointSigned: lambda e: f"A signed checkpoint of {e.size} events was made: root {_d(e.root)}.",
    ev.SegmentClosed: lambda e: f"A segment of the ledger was closed by uid {e.uid}, after {e.size} events: root {_d(e.root)}.",
    ev.SegmentOpened: _opened_line,
    ev.SegmentDropped: lambda e: (
        f"uid {e.spans[-1].uid} dropped seq {e.spans[-1].first_seq} to {e.spans[-1].last_seq}, recorded from {utc(e.spans[-1].from_ns)} to "
        f"{utc(e.spans[-1].to_ns)}, keeping {e.spans[-1].keep_days} days; {len(e.carried)} of those events are carried on."
    ),
    ev.PayloadRedacted: lambda e: f"The payload of seq {e.target_seq} was removed by uid {e.uid}: {e.why!r}.",
}
