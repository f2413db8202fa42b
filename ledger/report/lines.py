"""The report as JSON lines: every object says by its `kind` what it is, nothing is cut off, the last one says how many there were."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from wcache.ledger.moment import utc
from wcache.ledger.report.answers import answers, not_shown, retention
from wcache.ledger.report.model import Report

FORMAT = 1
"""Raised when a field changes its meaning; new kinds and fields may come without."""


def about(report: Report) -> dict[str, Any]:
    """Which ledger, which period, verified or not, and the totals: what every machine-readable format begins with."""
    head, verification = report.head, report.verification
    return {
        "format": FORMAT,
        "wcache": report.version,
        "made": utc(report.made_ns),
        "since": utc(report.period.since_ns),
        "until": utc(report.period.until_ns),
        "ledger": {
            "name": head.name, "origin": head.origin, "size": head.size, "root": head.root, "chain": head.chain,
            "first_seq": head.first_seq, "first_recorded": utc(head.first_ns), "last_recorded": utc(head.last_ns),
        },
        "verification": {
            "done": verification.done, "ok": verification.ok, "events": verification.events, "problems": list(verification.problems),
            "notes": list(verification.notes),
        },
        "retention": retention(report),
        "totals": {**msgspec.to_builtins(report.totals), **{f"{name}_rows": listing.total for name, listing in report.listings.items()}},
    }  # fmt: skip


def objects(report: Report) -> Iterator[dict[str, Any]]:
    yield {"kind": "report", **about(report)}
    for answer in answers(report):
        yield {"kind": "answer", **msgspec.to_builtins(answer)}
    for bar in report.bars:
        if bar.all:
            counts = {"hit": bar.hit, "fallback": bar.fallback, "strict_miss": bar.strict_miss}
            yield {"kind": "decisions", "from": utc(bar.from_ns), "to": utc(bar.to_ns), **counts}
    for name, listing in report.listings.items():
        for row in listing.rows:
            yield {"kind": name, **row}
    for text in not_shown(report):
        yield {"kind": "not_shown", "text": text}


def render_lines(report: Report) -> Iterator[bytes]:
    """UTF-8, one object a line. The last is `{"kind": "end", "lines": …}` and counts those before it."""
    number = 0
    for number, item in enumerate(objects(report), 1):  # noqa: B007 - counted
        yield msgspec.json.encode(item) + b"\n"
    yield msgspec.json.encode({"kind": "end", "lines": number}) + b"\n"
