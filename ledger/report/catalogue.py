"""The lists of a report, by name, and what each column says. docs/reference/report.md is made from here: what JSON lines and CSV hold."""

from __future__ import annotations

import msgspec


class Column(msgspec.Struct, frozen=True):
    """`look` says how people see a value: text, number, seq, time, bytes, seconds, digest, path, id, ref (an id whose
    beginning is enough), word."""

    label: str
    look: str
    says: str


class About(msgspec.Struct, frozen=True):
    """One list: its title, what is in it, its columns in order, and what it means that it is empty."""

    title: str
    says: str
    columns: tuple[str, ...]
    empty: str


COLUMNS: dict[str, Column] = {
    "about": Column("About", "path", "what the grant covers: spellings, a residency, a daemon instance, or a path prefix"),
    "accept": Column("Accepts from", "id", "the weakest tier that is enough for a hit"),
    "asked_digest": Column("Asked for", "digest", "weights digest of the checkpoint that was asked for, where it is known"),
    "attaches": Column("Attaches", "number", "how many engine ranks asked"),
    "attested": Column("Attested", "id", "whether attested evidence counts"),
    "back_s": Column("Back by", "seconds", "how far the clock had gone back, or how far ahead the event's own time is, in seconds"),
    "before": Column("Clock before", "time", "the newest time that had been recorded until then"),
    "bytes": Column("Size", "bytes", "bytes of the weights"),
    "checkpoint": Column("Checkpoint", "path", "as it was spelled"),
    "checkpoints": Column("Checkpoints", "path", "every spelling under which these weights were loaded"),
    "decision": Column("Decision", "word", "hit, fallback or strict_miss"),
    "detail": Column("Detail", "text", "the decision's own words"),
    "device": Column("Device", "text", "cpu, or the GPU's UUID"),
    "ended": Column("Ended", "time", "when the lease, residency, grant or span ended; empty while it has not"),
    "engine": Column("Engine", "text", "the program that asked"),
    "engine_version": Column("Version", "text", "its version"),
    "event": Column("Event", "id", "type of the event"),
    "expires": Column("Expires", "time", "when the grant ends by itself; empty: only when it is revoked"),
    "fallback_bytes": Column("Read", "bytes", "bytes that the engine read from disk instead"),
    "fallback_s": Column("Took", "seconds", "seconds that this took"),
    "fallbacks": Column("Fallbacks", "number", "how many of them read the disk instead"),
    "grant": Column("Grant", "ref", "id of the operator's grant"),
    "holds": Column("Holds", "word", "raw: the checkpoint's tensors; processed: an engine's"),
    "had": Column(
        "Has them",
        "word",
        "ended: until the lease ended; still: it has not; unknown: it may have memory of its own; never: nothing arrived",
    ),
    "hits": Column("Hits", "number", "how many of them were hits"),
    "host": Column("Host", "text", "the engine's host name"),
    "idle_bytes": Column("Idle meanwhile", "bytes", "bytes that the daemon held and nobody used while the engine read the disk"),
    "launch": Column("Launch", "ref", "id of the engine start"),
    "leases": Column("Leases", "number", "how many attaches held it"),
    "loaded": Column("Loaded", "time", "when the weights were resident"),
    "lost": Column("Known lost", "number", "events that are known to be lost"),
    "mapped": Column("Ranks mapped", "number", "ranks that have their weights from the daemon"),
    "merged": Column("Merged", "number", "events that were recorded later, from the journal"),
    "missed": Column("Refused", "number", "how many of them were refused to start (strict_miss)"),
    "mode": Column("Mode", "word", "zero_copy or copy"),
    "on_ledger_failure": Column("Without record", "id", "what happens when the ledger cannot be written"),
    "on_miss": Column("On a miss", "id", "fallback or strict"),
    "operator_uid": Column("Operator", "number", "uid of who granted it"),
    "pid": Column("pid", "number", "the engine's process, as the kernel of its host numbered it"),
    "policy": Column("Policy", "digest", "digest of the policy"),
    "proof": Column("Proof", "word", "unproven, proved, refuted or unprovable"),
    "proof_seq": Column("Settled by", "seq", "seq of the event that settled it"),
    "rank": Column("Rank", "number", "rank within the launch"),
    "ranks": Column("Ranks", "number", "ranks that the launch has"),
    "reason": Column("Reason", "text", "one of the closed set of reasons, or the operator's words"),
    "recorded": Column("Recorded", "time", "when the ledger took the event"),
    "residencies": Column("Residencies", "number", "how often these weights were made resident"),
    "residency": Column("Residency", "ref", "id of the weights in memory"),
    "root": Column("Root", "digest", "root over the ledger's first `size` events"),
    "scope": Column("Scope", "word", "checkpoint, residency, instance or store"),
    "seq": Column("Seq", "seq", "the event's number in the ledger"),
    "served_digest": Column("Served", "digest", "weights digest of what was mapped"),
    "since": Column("Had them from", "time", "when the engine had mapped the weights"),
    "size": Column("Events", "number", "how many events it covers"),
    "state": Column("State", "word", "state at the end of the period"),
    "target_seq": Column("Redacted seq", "seq", "the event whose payload was removed"),
    "tensors": Column("Tensors", "number", "how many tensors"),
    "text": Column("What", "text", "in a sentence"),
    "tier": Column("Tier", "word", "what the hit rests on"),
    "time": Column("Time", "time", "when it happened, by the clock of who saw it"),
    "trusted": Column("Trusted", "id", "whether an operator's grant counts"),
    "until": Column("until", "time", "when it had let go of them"),
    "uid": Column("uid", "number", "the user who did it"),
    "weights_digest": Column("Weights digest", "digest", "over names, dtypes, shapes and bytes of all tensors"),
    "why": Column("Why", "text", "the reason that was given"),
}

_WHO = ("launch", "rank", "host", "engine", "checkpoint")

LISTINGS: dict[str, About] = {
    "wrong_hit": About(
        "Wrong hits",
        "Hits that served other weights than were asked for, as far as that is known, with every engine that had them and for how long.",
        (
            "seq",
            "time",
            "since",
            "until",
            "had",
            *_WHO,
            "pid",
            "uid",
            "tier",
            "mode",
            "asked_digest",
            "served_digest",
            "residency",
            "proof",
            "proof_seq",
        ),
        "No wrong hit is known.",
    ),
    "not_mapped": About(
        "Not mapped",
        "Attaches that did not get their weights from the cache: fallbacks, which read the disk, and strict misses, which did not start.",
        ("seq", "time", *_WHO, "decision", "reason", "detail", "fallback_bytes", "fallback_s", "idle_bytes"),
        "Every attach was mapped.",
    ),
    "trusted": About(
        "On an operator's word",
        "Hits that rest on a grant of trust and not on evidence about the bytes.",
        ("seq", "time", *_WHO, "served_digest", "grant", "operator_uid", "why", "proof"),
        "No hit rests on an operator's word.",
    ),
    "unproven": About(
        "Unproven",
        "Hits that rest on less than `pinned`, at which nobody has looked since. `wcache audit prove` looks at them.",
        ("seq", "time", *_WHO, "tier", "served_digest"),
        "No hit below `pinned` is unproven.",
    ),
    "unprovable": About(
        "Unprovable",
        "Hits that can be neither proved nor refuted any more.",
        ("seq", "time", *_WHO, "tier", "served_digest", "why", "proof_seq"),
        "Nothing turned out to be unprovable.",
    ),
    "incomplete_launch": About(
        "Incomplete launches",
        "Engine starts of which at least one rank does not have its weights from the daemon.",
        ("launch", "time", "host", "ranks", "mapped", "text"),
        "Every launch is complete.",
    ),
    "resident": About(
        "Resident at the end of the period",
        "What the daemon held at that moment, and how many engines had it mapped.",
        ("residency", "checkpoint", "holds", "device", "bytes", "tensors", "weights_digest", "loaded", "state", "leases"),
        "Nothing was resident.",
    ),
    "weights": About(
        "Weights by digest",
        "Every weights digest that was resident in the period.",
        ("weights_digest", "checkpoints", "bytes", "tensors", "residencies", "hits"),
        "Nothing was resident in the period.",
    ),
    "change": About(
        "Changes",
        "What was loaded, released, granted, revoked, started, stopped, signed, redacted.",
        ("seq", "time", "event", "uid", "text"),
        "Nothing changed.",
    ),
    "incident": About(
        "Incidents",
        "What went wrong by itself: processes that died, loads and maps that failed, memory that changed or is gone, peers turned away.",
        ("seq", "time", "event", "text"),
        "Nothing went wrong.",
    ),
    "leased_release": About(
        "Releases of what was mapped",
        "Releases that were asked for while engines had the weights mapped, and how they went.",
        ("seq", "time", "residency", "uid", "decision", "leases", "why", "text"),
        "Nothing was to be released while it was mapped.",
    ),
    "grant": About(
        "Grants of trust",
        "Every grant that was in force at some time in the period.",
        ("seq", "time", "grant", "scope", "about", "operator_uid", "why", "expires", "ended", "state", "hits"),
        "No grant was in force.",
    ),
    "policy": About(
        "Policies",
        "Under which policies the attaches of the period were decided.",
        ("policy", "accept", "on_miss", "attested", "trusted", "on_ledger_failure", "attaches"),
        "No attach was decided.",
    ),
    "engine": About(
        "Engines",
        "Which programs asked.",
        ("engine", "engine_version", "attaches", "hits", "fallbacks", "missed"),
        "No engine asked.",
    ),
    "asked": About(
        "Checkpoints asked for",
        "Which checkpoints were asked for, most often first.",
        ("checkpoint", "attaches", "hits", "fallbacks", "missed"),
        "Nothing was asked for.",
    ),
    "gap": About(
        "Gaps",
        "Spans in which decisions could not be recorded durably.",
        ("seq", "time", "ended", "merged", "lost", "why"),
        "There is no gap on record.",
    ),
    "clock": About(
        "Clock anomalies",
        "Events whose time lies more than a second behind what had been recorded before, or ahead of when they were recorded. The order of "
        "events is that of `seq`, whatever clocks said.",
        ("seq", "event", "recorded", "before", "back_s", "text"),
        "No clock went back.",
    ),
    "redaction": About(
        "Redactions",
        "Events whose payload was removed afterwards; their hashes are still in the chain.",
        ("seq", "time", "target_seq", "uid", "why"),
        "Nothing was redacted.",
    ),
    "checkpoint": About(
        "Signed checkpoints and segments",
        "Roots that were signed, or with which a segment was closed: what lies elsewhere can be compared with these.",
        ("seq", "time", "event", "size", "root"),
        "No checkpoint was signed in the period.",
    ),
}
"""In the order in which a reader needs them: what is wrong first. The names are the `kind` of JSON lines and the names of CSV files."""
