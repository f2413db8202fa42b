"""What the facts mean, in sentences: the four questions that everybody asks first, and what the report does not show."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from wcache.core.model.vocabulary import Proof, Tier
from wcache.core.text import size
from wcache.ledger.report.model import Report, Row, counted
from wcache.ledger.report.words import counts, listed, minute, several, span

SIX_MONTHS_NS = 183 * 86400 * 1_000_000_000
"""The least that EU AI Act articles 19(1) and 26(6) ask logs to be kept, as days."""


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """`verdict`: good, attention (a reader has to judge), bad, or unknown. `text` is the answer, `more` what belongs to it. `names` are
    the lists that hold the rows."""

    question: str
    verdict: str
    text: str
    more: tuple[str, ...] = ()
    names: tuple[str, ...] = ()


def answers(report: Report) -> tuple[Answer, ...]:
    return _whole(report), _wrong(report), _fell_back(report), _unproven(report)


def _whole(report: Report) -> Answer:
    verification = report.verification
    gaps, clock, redacted = (report.listing(name) for name in ("gap", "clock", "redaction"))
    more: list[str] = []
    if gaps.total:
        merged, lost = report.totals.gap_merged, report.totals.gap_lost
        kept = f"{several(merged, 'event was', 'events were')} recorded later, {several(lost, 'event is', 'events are')} known lost"
        more.append(f"In {several(gaps.total, 'span')} decisions could not be recorded at once: {kept}.")
    if clock.total:
        more.append(f"Clocks disagree in {several(clock.total, 'place')}; the order of events does not rest on clocks.")
    if redacted.total:
        more.append(f"{several(redacted.total, 'payload was', 'payloads were')} redacted, each on record.")
    more.append(_anchored(report))
    if not verification.done:
        verdict, text = "unknown", "Not verified: this report was made with `--no-verify`."
    elif verification.problems:
        first = verification.problems[0]
        where = f"seq {first['seq']}" if first["seq"] else f"the {first['cls']}"
        verdict, text = "bad", f"No: {several(len(verification.problems), 'problem')} found, the first at {where}: {first['text']}."
    elif not report.head.size:
        verdict, text = "attention", "There is no record: the ledger is empty."
    else:
        verdict = "attention" if gaps.total or clock.total or redacted.total else "good"
        text = f"Yes, as far as a ledger can show by itself: of {verification.events:,} events none is changed, or missing between others."
    names = ("gap", "clock", "redaction", "checkpoint")
    return Answer(question="Is the record whole?", verdict=verdict, text=text, more=tuple(more), names=names)


def _anchored(report: Report) -> str:
    signed = [row for row in report.listing("checkpoint").rows if row["event"] == "checkpoint.signed"]
    if not signed:
        return "No signed checkpoint was made in the period, so events cut off at the end would not be noticed."
    last = signed[-1]
    covers = f"covers the first {last['size']:,} events"
    return f"The newest signed checkpoint ({last['time'][:10]}) {covers}; compare it with a copy that lies elsewhere."


def _wrong(report: Report) -> Answer:
    totals, names, more = report.totals, ("wrong_hit",), ()
    still_open = totals.unproven + totals.unprovable
    verdict = "good"
    if totals.wrong_hits:
        verdict, text = "bad", f"Yes: {several(totals.wrong_hits, 'hit')} served other weights than were asked for."
        return Answer(question=_WRONG, verdict=verdict, text=text, more=exposed(report.listing("wrong_hit").rows), names=names)
    if not totals.hits:
        text = "Nothing was served from the cache in this period."
    elif still_open:
        rest = "rests" if still_open == 1 else "rest"
        verdict, text = (
            "attention",
            f"None is known. Of {several(totals.hits, 'hit')}, {still_open:,} {rest} on evidence that could be wrong.",
        )
        return Answer(question=_WRONG, verdict=verdict, text=text, more=more, names=("unproven", "unprovable"))
    else:
        hits = several(totals.hits, "hit rests", "hits rest")
        text = f"None is known: {hits} on hashed content whose files had not changed since, or proved right afterwards."
    return Answer(question=_WRONG, verdict=verdict, text=text, more=more, names=names)


_WRONG = "Were wrong weights served?"


def exposed(rows: Sequence[Row]) -> tuple[str, ...]:
    """The newest wrong hits, a sentence for the ranks of a launch: who had which weights instead of which, from when to when."""
    groups: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(str(row[name]) for name in ("launch", "engine", "checkpoint", "host", "had")), []).append(row)
    newest = [*groups.values()][::-1]
    return tuple(map(_exposed, newest[:_TOLD]))


def _exposed(group: Sequence[Row]) -> str:
    row = group[0]
    ranks = sorted({member["rank"] for member in group})
    digests = f"{_short(row['served_digest'])} instead of {_short(row['asked_digest'])}"
    since = _plain(min(member["since"] or member["time"] for member in group))
    until = _plain(max(member["until"] or "" for member in group))
    ends = {
        "ended": f"had {digests} from {since} until {until}",
        "still": f"had {digests} from {since} on, and has not let go of them",
        "unknown": f"had {digests} from {since} on, in memory of its own, so nothing says until when",
        "never": f"was granted {digests}, and never said that it had them",
    }
    where = f"launch {row['launch'][:12]}, rank {listed(map(str, ranks))}, host {row['host']}, pid {row['pid']}, uid {row['uid']}"
    return f"{row['engine']} ({where}) asked for {row['checkpoint']} and {ends[row['had']]}."


_TOLD = 3


def _plain(time: str) -> str:
    return f"{time[:10]} {time[11:16]} UTC"


def _short(digest: str | None) -> str:
    return digest[:12] if digest else "unknown"


def _fell_back(report: Report) -> Answer:
    totals, launches = report.totals, report.listing("incomplete_launch")
    more: list[str] = []
    attaches = several(totals.attaches, "attach", "attaches")
    if not totals.attaches:
        text = "No engine asked for weights in this period."
    elif not totals.missed:
        text = f"Nothing: {attaches}, and each got its weights from the cache."
    else:
        fallbacks, refused = totals.decisions.get("fallback", 0), totals.decisions.get("strict_miss", 0)
        parts = [several(fallbacks, "fallback")] * bool(fallbacks) + [several(refused, "refused start")] * bool(refused)
        text = f"{totals.missed:,} of {attaches}: {listed(parts)} ({counts(totals.reasons)})."
        if totals.fallback_bytes:
            more.append(f"Fallbacks read {size(totals.fallback_bytes)} from disk in {span(totals.fallback_s)}.")
        if totals.idle_bytes:
            more.append(f"Meanwhile the daemon held {size(totals.idle_bytes)} that nobody used, summed over the fallbacks.")
    if launches.total:
        why = "" if totals.missed else ": a rank that never asked, or never said that it mapped"
        more.append(f"{several(launches.total, 'launch is', 'launches are')} incomplete{why}.")
    verdict = "attention" if totals.missed or launches.total else "good"
    return Answer(question="What was not mapped?", verdict=verdict, text=text, more=tuple(more), names=("not_mapped", "incomplete_launch"))


def _unproven(report: Report) -> Answer:
    totals = report.totals
    parts = {tier: proofs.get(Proof.UNPROVEN.value, 0) for tier, proofs in totals.tier_proofs.items() if tier in _WEAK}
    more: list[str] = []
    verdict = "attention"
    if totals.trusted:
        more.append(f"{several(totals.trusted, 'hit rests', 'hits rest')} on an operator's word.")
    if totals.unprovable:
        more.append(f"{several(totals.unprovable, 'hit')} can be neither proved nor refuted any more.")
    if totals.unproven:
        kinds = counts(counted((tier, number) for tier, number in parts.items() if number))
        them = "it" if totals.unproven == 1 else "them"
        text = f"{totals.unproven:,} of {several(totals.hits, 'hit')} ({kinds}): nobody has looked at {them} since."
        more.append(f"`wcache audit prove` looks at {them}, while the files still are what they were.")
    elif totals.unprovable:
        text = "Nothing that can still be looked at."
    else:
        verdict = "good"
        looked_at = (
            "every hit below `pinned` was looked at afterwards" if set(totals.tiers) & _WEAK else "no hit rests on less than `pinned`"
        )
        text = f"Nothing: {looked_at}." if totals.hits else "Nothing was served, so nothing is open."
    names = ("trusted", "unproven", "unprovable")
    return Answer(question="What is unproven?", verdict=verdict, text=text, more=tuple(more), names=names)


_WEAK = {Tier.HEADER.value, Tier.SAMPLED.value, Tier.ATTESTED.value, Tier.TRUSTED.value}


def retention(report: Report) -> str:
    """How far back the record goes, against the period that was asked about and against six months."""
    head, period = report.head, report.period
    if head.first_ns is None or head.last_ns is None:
        return "The ledger is empty: it covers nothing."
    days = max(0, report.made_ns - head.first_ns) // (86400 * 1_000_000_000)
    began = f"was recorded on {minute(head.first_ns)} (seq {head.first_seq})"
    lines = [f"The oldest event that is kept {began}, {several(days, 'day')} before this report."]
    for span_ in head.dropped:
        when = f"{minute(span_.from_ns)} to {minute(span_.to_ns)}"
        lines.append(
            f"Events {span_.first_seq:,} to {span_.last_seq:,} ({when}) were dropped by policy ({span_.keep_days} days) on "
            f"{minute(span_.at_ns)[:10]} by uid {span_.uid}; their root is kept, and of them only what still lived was carried on."
        )
    restored = "It was restored from a backup before seq {:,}: what the original recorded after that backup is not in it."
    lines += [restored.format(seq) for seq in head.restored]
    if period.since_ns is not None and period.since_ns < head.first_ns:
        uncovered_s = (min(head.first_ns, period.until_ns) - period.since_ns) / 1e9
        lines.append(f"The first {span(uncovered_s)} of the period lie before it: about them this ledger says nothing.")
    if head.last_ns > report.made_ns:
        lines.append("The newest event lies in the future of the clock of this report.")
    if report.made_ns - head.first_ns < SIX_MONTHS_NS:
        lines.append("It does not reach back six months yet.")
    else:
        lines.append("It reaches back more than six months.")
    return " ".join(lines)


def not_shown(report: Report) -> tuple[str, ...]:
    """What nobody may conclude from this report."""
    totals, found = report.totals, []
    found.append("Engines that did not use wcache. Whoever loads weights past it leaves no trace here.")
    found.append(
        "What an engine did with its weights: prompts, answers, adapters, changes in its own memory, or code that lay beside them."
    )
    found.append(
        "Whether weights are good, safe, licensed, or those that a publisher meant. A digest says which bytes they are, not whose."
    )
    if totals.tiers.get(Tier.PINNED.value):
        found.append(
            "For hits at `pinned`: a write below the file system, or a forged clock. The content was hashed once, and the files "
            "have not changed since as far as the file system says."
        )
    if totals.unproven or totals.unprovable:
        found.append(f"Whether {several(totals.unproven + totals.unprovable, 'unproven or unprovable hit')} served what was asked for.")
    if not report.verification.done:
        found.append("Whether the ledger is unchanged: it was not verified for this report.")
    found.append(
        "Events that were cut off at the end, or a ledger that was written anew by the daemon's own user, unless its root agrees with a "
        "signed checkpoint that lies elsewhere."
    )
    if report.head.dropped:
        found.append("What was dropped by policy, beyond what still lived and the counts that are kept of it. Totals are of what is there.")
    if report.head.restored:
        found.append("What the original of this restored ledger recorded after its backup.")
    if report.listing("gap").total:
        found.append("What happened in the gaps listed here, beyond what was merged from the journal.")
    found.append("Other ledgers. This is the record of one daemon's ledger; another host has its own.")
    found.append("Who a person is. Users are numbers (uid) of the host, and no prompts, tokens or environment are recorded.")
    found.append("Exact times. They are what each host's clock said; only the order of `seq` is certain.")
    found.append("Conformity. This report is evidence for a person who judges; it certifies nothing.")
    return tuple(found)
