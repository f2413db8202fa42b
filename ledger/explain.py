"""Sentences about what the ledger holds: one line for any event, a launch as a sentence, a decision in full."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from wcache.core.model import events as ev
from wcache.core.model.config import config_digest
from wcache.core.model.decide import Decision
from wcache.core.model.evidence import Fingerprint, Signed, Verity
from wcache.core.model.machines import LEASED as LEASED_STATES
from wcache.core.model.vocabulary import REASON_TEXT, Kind, Lineage, OptIn, Outcome, Proof, Reason, Tier
from wcache.ledger.counterfactual import agrees_with_record, situation_at, turns
from wcache.ledger.coverage import remarks_on
from wcache.ledger.headline import headline
from wcache.ledger.moment import utc

if TYPE_CHECKING:
    from wcache.ledger.audit import Audit
    from wcache.ledger.recorded import AuditEvent

LEASED = frozenset(state.value for state in LEASED_STATES)

_CANNOT_SEE = {
    Tier.HEADER: "cannot see any change of values",
    Tier.SAMPLED: "misses an edit that lies between its samples",
    Tier.ATTESTED: "believes a name and reads no content",
    Tier.TRUSTED: "believes an operator and reads nothing at all",
}

_REMEDY: dict[Reason, str] = {
    Reason.DAEMON_ABSENT: "Start a daemon (`wcache daemon start`) before the engine.",
    Reason.DAEMON_REFUSED: "Start the daemon again (`wcache daemon start`); its log in the state directory says why it died.",
    Reason.DAEMON_SILENT: "Look at the daemon: it accepts connections and does not answer (`wcache status`, its log).",
    Reason.DAEMON_CLOSED: "Look at the daemon's log: it went away in the middle of an answer.",
    Reason.DAEMON_TIMEOUT: "Look at what the daemon was busy with (`wcache status`, its log).",
    Reason.PROTOCOL_ERROR: "Make sure that the socket in the runtime directory is wcache's.",
    Reason.PEER_NOT_ALLOWED: "Run engine and daemon as the same user.",
    Reason.VERSION_MISMATCH: "Install the same version of wcache on both sides and restart the daemon.",
    Reason.NOT_RESIDENT: "Make the checkpoint resident first: `wcache load {checkpoint}`.",
    Reason.STILL_LOADING: "Wait for the load (`wcache ls` shows its progress), or raise wait_s.",
    Reason.RELEASED: "Load it again: `wcache load {checkpoint}`.",
    Reason.SUSPECT: "Release those weights and load them again; find out what changed memory.",
    Reason.CONTENT_MISMATCH: "If the files are the ones that are meant, load them: `wcache load {checkpoint}`. If not, correct the path.",
    Reason.EVIDENCE_INSUFFICIENT: "`wcache check {checkpoint}` shows what stronger evidence costs; `accept` says what is enough.",
    Reason.TRUST_EXPIRED: "An operator can grant it anew: `wcache trust grant`.",
    Reason.CONFIG_MISMATCH: "Start the engine with the configuration that the weights were prepared for, or prepare them for this one.",
    Reason.DEVICE_MISMATCH: "Load the weights on the device that the engine asks for.",
    Reason.CHECKPOINT_INVALID: "Repair or download the checkpoint again.",
    Reason.MAPPING_FAILED: "Look at the map.failed event of this attach: it names the error.",
    Reason.NO_ROOM: "Free memory, or map instead of copying.",
    Reason.UNSUPPORTED: "Nothing: this combination is not supported.",
    Reason.LEDGER_UNAVAILABLE: "Make the ledger writable again (disk full, permissions), or set on_ledger_failure.",
}


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """What one event means. `sentences` are for a person, in order; `event` is its payload."""

    seq: int
    time: str
    type: str
    stream: str
    sentences: tuple[str, ...]
    event: dict[str, Any]


def explain(audit: Audit, seq: int) -> Explanation:
    """The event at `seq` in sentences; a decision with what was asked, its evidence, its reason, and what would have changed it.

    Raises NotFound.
    """
    found = audit.event(seq)
    sentences = [*_by_type(audit, found)]
    if found.late:
        sentences.append("It was recorded late: what it tells of was already past, so it changed no state.")
    sentences += remarks_on(audit.history(), seq)
    lag_s = (found.recorded_ns - found.occurred_ns) / 1e9
    if lag_s > 60:
        sentences.append(f"It happened {lag_s:.0f} s before it was recorded.")
    elif lag_s < -1:
        sentences.append("The clock stood later when it happened than when it was recorded: order is by seq, not by time.")
    payload: dict[str, Any] = msgspec.to_builtins(found.event)
    return Explanation(
        seq=seq, time=utc(found.occurred_ns) or "", type=found.type, stream=found.stream, sentences=tuple(sentences), event=payload
    )


def _by_type(audit: Audit, found: AuditEvent) -> Sequence[str]:
    event = found.event
    if isinstance(event, ev.AttachDecided):
        return _decision(audit, found, event)
    lines = [headline(event)]
    if isinstance(event, ev.LoadCompleted) and event.kind is Kind.PROCESSED:
        lines += [lineage_line(event)]
    elif isinstance(event, ev.FingerprintRecorded):
        lines += [evidence_line(event.evidence)]
    elif isinstance(event, ev.VerifyFailed) and event.attach:
        names = " and ".join(event.spellings) or "the asked checkpoint"
        lines.append(
            f"From here on {names} is never taken for {event.expected[:16]} again, at any tier below a full hash of what is there now."
        )
        lines.append("The resident weights themselves are what they were loaded as, and stay good for everybody else.")
        lines += _exposed(audit, _decision_seq(audit, event.attach))
    elif isinstance(event, ev.AttachRedecided):
        first = next((item for item in audit.stream(found.stream) if item.type == "attach.decided"), None)
        if first is not None:
            lines.append(f"The first decision was seq {first.seq}; audits count this one.")
        lines.append(_REMEDY[event.reason].format(checkpoint=_asked_spelling(first)))
    if type(event).says:
        lines.append(f"({found.type}: {type(event).says}.)")
    return lines


def _asked_spelling(item: AuditEvent | None) -> str:
    return item.event.asked.spelling if item is not None and isinstance(item.event, ev.AttachDecided) else "CHECKPOINT"


def _decision(audit: Audit, found: AuditEvent, event: ev.AttachDecided) -> list[str]:
    asked = event.asked
    engine = f"{event.engine.name} {event.engine.version}".strip()
    kind = f"{event.kind} weights" + (f" as {event.asked_dtype}" if event.asked_dtype else "")
    where = f" ({asked.root})" if asked.root and asked.root != asked.spelling else ""
    commit = f", commit {asked.commit}" if asked.commit else ""
    lines = [
        f"Asked: {engine} on {event.host}, rank {event.ranks.rank} of {event.ranks.world} in launch {event.launch}, uid {event.peer.uid}, "
        f"wanted {kind} of {asked.spelling}{where}{commit} on {event.device}."
    ]
    row = audit.attach_at(found.seq)
    lines += _evidence(audit, found, event)
    if event.lock is not None:
        allowed = ", ".join(digest[:16] for digest in event.lock.weights[:4]) + (", …" if len(event.lock.weights) > 4 else "")
        lines.append(f"Lock: only {allowed} were to be served, by {event.lock.path} (its digest {event.lock.digest[:16]}).")
    if event.kind is Kind.PROCESSED and event.residency is not None:
        told = audit.stream(f"residency/{event.residency}")
        lines += [lineage_line(item.event) for item in told if isinstance(item.event, ev.LoadCompleted)]
    policy = event.policy_body
    if event.outcome is Outcome.HIT and event.served is not None:
        lines.append(
            f"Decided by the {event.decided_by}: hit. {_subject(event)} served as {event.residency}, because evidence of tier {event.tier} "
            f"agrees and the policy accepts {_accepted(event)}."
        )
        if event.tier in _CANNOT_SEE:
            lines.append(
                f"A hit at {event.tier} can be wrong: it {_CANNOT_SEE[event.tier]}. `wcache audit prove` looks at the files afterwards."
            )
        lines += _turned(audit, found)
    else:
        reason = event.reason or Reason.NOT_RESIDENT
        what = "the start was refused (strict)" if event.outcome is Outcome.STRICT_MISS else "the engine was sent to the disk (fallback)"
        lines.append(f"Decided by the {event.decided_by}: {what}, reason {reason}: {REASON_TEXT[reason]}.")
        if event.detail:
            lines.append(f"In detail: {event.detail}.")
        lines += _turned(audit, found)
        lines.append("What to do: " + _REMEDY[reason].format(checkpoint=asked.spelling))
        if policy.trusted is OptIn.IGNORE and policy.attested is OptIn.IGNORE and reason is Reason.EVIDENCE_INSUFFICIENT:
            lines.append("Names that a hub attests and grants of operators did not count under this policy (attested, trusted: ignore).")
    return lines + _afterwards(audit, row, found.seq) + (_exposed(audit, row["seq"]) if row["proof"] == Proof.REFUTED.value else [])


def _exposed(audit: Audit, seq: int | None) -> list[str]:
    """Everybody who had those weights for that checkpoint."""
    from wcache.ledger.exposure import exposure_lines, exposures

    return [] if seq is None else exposure_lines(exposures(audit, seqs=[seq]))


def _decision_seq(audit: Audit, attach: str) -> int | None:
    return next((item.seq for item in audit.stream(f"attach/{attach}") if item.type == "attach.decided"), None)


def _subject(event: ev.AttachDecided) -> str:
    digest = event.served.digest if event.served else None
    return f"Weights {digest[:16]}" if digest else "The resident weights were"


def _accepted(event: ev.AttachDecided) -> str:
    if event.tier in (Tier.TRUSTED, Tier.ATTESTED):
        return f"{event.policy_body.accept} and above, and honours {event.tier} evidence"
    return f"{event.policy_body.accept} and above"


def _turned(audit: Audit, item: AuditEvent) -> list[str]:
    """What would have changed the decision of `item`, by deciding again with one thing changed."""
    event = item.event
    assert isinstance(event, ev.AttachDecided)  # noqa: S101
    situation = situation_at(audit, item)
    again = situation.decide()
    if not agrees_with_record(again, event):
        return [
            f"Decided again on what the ledger held at this seq it would be {_ends_in(again)}: the record does not hold all that the "
            f"{event.decided_by} saw, so what would have changed it cannot be worked out."
        ]
    lines = []
    if situation.request.obstacle is not None:
        free = msgspec.structs.replace(situation.request, obstacle=None, obstacle_detail="")
        without = msgspec.structs.replace(situation, request=free).decide()
        lines.append(f"Had that not been in the way, what the ledger held would have made it {_ends_in(without)}.")
    found = turns(situation)
    lines += [
        f"What would have changed it: with {' and '.join(turn.changes)} it would have been {_ends_in(turn.decision, detail=False)}."
        for turn in found
    ]
    if not found:
        lines.append("What would have changed it: no one or two things that the ledger knows of would have made it a hit.")
    return lines


def _ends_in(decision: Decision, *, detail: bool = True) -> str:
    if decision.outcome is Outcome.HIT:
        return f"a hit at {decision.tier}"
    return f"a {decision.outcome} ({decision.reason}{f': {decision.detail}' if detail and decision.detail else ''})"


def _evidence(audit: Audit, item: AuditEvent, event: ev.AttachDecided) -> list[str]:
    if not event.evidence:
        return ["Evidence: none was taken."]
    lines = []
    word = {True: "agrees with the resident weights", False: "contradicts them", None: "cannot be compared"}
    for reference in event.evidence:
        taken = audit.fingerprint(reference.fingerprint)
        about = evidence_line(taken) if taken else f"{reference.tier}, digest {reference.digest[:16]}."
        base = audit.fingerprint(taken.reuses) if taken and taken.reuses else None
        if base is not None and isinstance(base.signed, Signed):
            about = f"{about.rstrip('.')}, when its files bore the signature of key {base.signed.key[:16]}."
        grant = audit.grant(taken.grant) if taken and taken.grant else None
        if grant is not None:
            about += f" The grant says: {grant.reason!r} (uid {grant.operator_uid}, {utc(grant.granted_ns)})."
        hashed_ns = audit.recorded_ns(taken.reuses) if taken and taken.reuses else None
        age = f" Those bytes were hashed {_span(item.recorded_ns - hashed_ns)} before." if hashed_ns else ""
        lines.append(f"Evidence: {about.rstrip('.')}; it {word[reference.agrees]}.{age}")
    return lines


def evidence_line(taken: Fingerprint) -> str:
    """A fingerprint as a sentence: what was looked at and what it cost."""
    cover = taken.coverage
    cost = f"{cover.stats} stats, {cover.files_opened} files opened, {cover.read_bytes} bytes read, {cover.seconds * 1000:.1f} ms"
    text = f"{taken.tier} {taken.digest[:16]}"
    if taken.tier is Tier.SAMPLED and cover.total_bytes:
        text += f", {cover.samples} samples, a changed 4 KiB page is seen {100 * cover.chance_4k:.3g} % of the time"
    elif taken.tier is Tier.TRUSTED:
        age = f", {taken.age_s:.0f} s old" if taken.age_s is not None else ""
        text += f", by grant {taken.grant}, reusing fingerprint {taken.reuses}{age}"
    elif taken.tier is Tier.PINNED:
        text += f", hashed earlier as fingerprint {taken.reuses}, every file identity unchanged"
    elif taken.tier is Tier.CONTENT and isinstance(taken.verity, Verity) and taken.verity.same_as:
        text += f", measured by the kernel (fs-verity) as when fingerprint {taken.verity.same_as} was hashed"
    elif taken.tier is Tier.CONTENT:
        text += ", every byte hashed" + ("" if taken.pinnable else f", not to be reused: {taken.not_pinnable}")
    if isinstance(taken.signed, Signed):
        text += f", signed by key {taken.signed.key[:16]} as {taken.signed.name!r}"
    return f"{text} ({cost})."


def lineage_line(event: ev.LoadCompleted) -> str:
    """What processed weights were made from, by whom and for what, as a sentence."""
    engine = f"{event.by.name} {event.by.version}".strip() if event.by is not None else "an engine"
    source = "the files of the checkpoint" if event.source == "disk" else str(event.source)
    lineage = "proven" if event.lineage is Lineage.PROVEN else f"unproven ({event.unproven_why})"
    return (
        f"{event.residency} holds what {engine} made of {source} (weights digest {event.weights_digest[:16]}) for configuration "
        f"{config_digest(event.config)[:16]} of {len(event.config)} fields; its lineage is {lineage}."
    )


def _afterwards(audit: Audit, row: dict[str, Any], seq: int) -> list[str]:
    lines = []
    if row["seq"] != seq:
        lines.append(f"Afterwards it was decided again at seq {row['seq']}: {row['decision']}, {row['reason']} ({row['detail']}).")
    if row["mapped_bytes"] is not None:
        copied = f", {row['copied_bytes']} of them copied" if row["copied_bytes"] else ""
        lines.append(f"Afterwards {row['mapped_bytes']} bytes were mapped in {row['map_ms']:.1f} ms{copied} ({row['mode']}).")
    if row["fallback_bytes"] is not None:
        lines.append(
            f"Afterwards {row['fallback_bytes']} bytes were read from disk in {row['fallback_s']:.2f} s, while the daemon held "
            f"{row['idle_bytes']} bytes that nobody used."
        )
    if row["ended_ns"] is not None:
        lines.append(f"The lease ended at {utc(row['ended_ns'])}, {_span(row['ended_ns'] - row['decided_ns'])} after the decision.")
    elif row["state"] in LEASED:
        lines.append("The lease has not ended, as far as the ledger knows: the engine has the weights still.")
    if row["proof"] == Proof.UNPROVEN.value:
        lines.append("Proof: nobody has looked since (unproven).")
    elif row["proof"] is not None:
        lines.append(f"Proof: {row['proof']}, by seq {row['proof_seq']}.")
    if row["decision"] == Outcome.HIT.value:
        lines += _contradicted(audit, row)
    return lines


def _contradicted(audit: Audit, row: dict[str, Any]) -> list[str]:
    """What was found later about the same checkpoint and weights, by looking at other hits."""
    return [
        f"Since seq {item.seq} this checkpoint is known not to be the weights that were served: the same hit would be refused now."
        for item in audit.contradictions(after_seq=row["seq"])
        if item.weights_digest == row["served_digest"]
        and item.seq != row["proof_seq"]
        and (item.asked_key == row["asked_key"] or row["checkpoint"] in item.spellings)
    ][:1]


def _span(span_ns: int) -> str:
    seconds = span_ns / 1e9
    for unit_s, unit in ((86_400, "days"), (3600, "hours"), (60, "minutes")):
        if seconds >= 2 * unit_s:
            return f"{seconds / unit_s:.1f} {unit}"
    return f"{seconds:.1f} seconds"


def launch_summary(launch: str, attaches: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """A launch as one answer: per rank the last attach of each checkpoint counts, by each engine (a draft model may be the checkpoint of
    its target); `complete` when every rank has all its weights."""
    latest: dict[tuple[int, str, str], dict[str, Any]] = {}
    for row in attaches:
        latest[row["rank"], row["checkpoint"], row["engine"]] = row
    world = max((row["world"] for row in attaches), default=0)
    by_rank: dict[int, list[dict[str, Any]]] = {rank: [] for rank in range(world)}
    for (rank, *_), row in sorted(latest.items(), key=lambda item: item[0]):
        by_rank.setdefault(rank, []).append(row)
    complete = {rank for rank, rows in by_rank.items() if rows and all(_arrived(row) for row in rows)}
    several = len({checkpoint for _, checkpoint, _ in latest}) > 1  # a draft model, a vision tower: then each is named
    engines = len({row["engine"] for row in attaches}) > 1

    def who(row: dict[str, Any]) -> str:
        return f"rank {row['rank']}" + (f" ({row['engine']})" if engines else "")

    parts = [f"{len(complete)} of {len(by_rank)} ranks mapped"]
    for rank, rows in by_rank.items():
        if not rows:
            parts.append(f"rank {rank} never asked")
        parts += [f"{who(row)} {_went(row, several)}" for row in rows if not _arrived(row)]
    for row in attaches:  # of a retry, or of another process that calls itself the same rank: counted or not, it is told
        if row is not latest[row["rank"], row["checkpoint"], row["engine"]] and not _arrived(row):
            parts.append(f"before that {who(row)} {_went(row, several)}")
    return {
        "launch": launch,
        "complete": len(complete) == len(by_rank),
        "ranks": len(by_rank),
        "mapped": len(complete),
        "text": ", ".join(parts),
        "attaches": list(attaches),
    }


def _arrived(row: dict[str, Any]) -> bool:
    return row["decision"] == Outcome.HIT.value and row["mapped_bytes"] is not None


def _went(row: dict[str, Any], named: bool) -> str:
    of = f" for {row['checkpoint']}" if named else ""
    because = f"because {row['reason']}" + (f": {row['detail']}" if row["detail"] else "")
    if row["decision"] == Outcome.FALLBACK.value:
        end = "" if row["fallback_bytes"] is not None or row["state"] != "failed" else " and could not read the disk either"
        return f"fell back{of}{end} {because}"
    if row["decision"] == Outcome.STRICT_MISS.value:
        return f"was refused{of} {because}"
    return f"was granted weights{of} and has not said that it mapped them (seq {row['seq']})"
