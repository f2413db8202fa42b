"""The report on a terminal: the answers, and where the rows are."""

from __future__ import annotations

from textwrap import fill

from wcache.core.model.errors import one_line
from wcache.ledger.report.answers import answers, not_shown, retention
from wcache.ledger.report.model import Report
from wcache.ledger.report.words import minute

_WIDTH = 100
_SIGNS = {"good": "✓", "attention": "!", "bad": "✗", "unknown": "?"}


def render_text(report: Report) -> str:
    head, period, verification = report.head, report.period, report.verification
    verified = "not verified" if not verification.done else "verified" if verification.ok else f"{len(verification.problems)} problems"
    since = minute(period.since_ns if period.since_ns is not None else head.first_ns) or "an empty ledger"
    lines = [
        f"{since} to {minute(period.until_ns)}",
        f"ledger {head.origin}, {head.size:,} events, {verified}",
        f"root   {head.root or 'cannot be computed'}",
    ]
    for answer in answers(report):
        lines += ["", f"{_SIGNS[answer.verdict]} {answer.question}", *(_folded(line) for line in (answer.text, *answer.more))]
    lines += [
        "",
        "Retention",
        _folded(retention(report)),
        "",
        "What this does not show",
        *(_folded(line, "- ") for line in not_shown(report)),
    ]
    return "\n".join(lines)


def _folded(text: str, before: str = "") -> str:
    """Paths stay whole, so that they can be copied."""
    after = " " * (2 + len(before))
    return fill(
        one_line(text), _WIDTH, initial_indent=f"  {before}", subsequent_indent=after, break_long_words=False, break_on_hyphens=False
    )
