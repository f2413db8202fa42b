"""The report as CSV: one file a list (RFC 4180), which no spreadsheet takes for formulas."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec

from wcache.core.text import csv_cell
from wcache.ledger.moment import utc
from wcache.ledger.report.answers import answers, not_shown
from wcache.ledger.report.catalogue import LISTINGS
from wcache.ledger.report.lines import about
from wcache.ledger.report.model import Report


def render_sheets(report: Report) -> Iterator[tuple[str, str]]:
    """(file name, its text) of every list, and of `summary.csv` and `decisions.csv`."""
    yield "summary.csv", _sheet(("name", "value"), _summary(report))
    bars = ((utc(bar.from_ns), utc(bar.to_ns), bar.hit, bar.fallback, bar.strict_miss) for bar in report.bars if bar.all)
    yield "decisions.csv", _sheet(("from", "to", "hit", "fallback", "strict_miss"), bars)
    for name, listing in report.listings.items():
        columns = LISTINGS[name].columns
        yield f"{name}.csv", _sheet(columns, ([row.get(column) for column in columns] for row in listing.rows))


def _summary(report: Report) -> Iterator[tuple[str, Any]]:
    """Everything that is no list, name and value."""

    def flat(prefix: str, value: Any) -> Iterator[tuple[str, Any]]:
        if isinstance(value, dict):
            for name, inner in value.items():
                yield from flat(f"{prefix}.{name}" if prefix else name, inner)
        else:
            yield prefix, value

    yield from flat("", about(report))
    for answer in answers(report):
        yield answer.question, " ".join((answer.text, *answer.more))
    for text in not_shown(report):
        yield "not shown", text


def _sheet(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    out = io.StringIO()
    writer = csv.writer(out)  # the excel dialect is that of RFC 4180: CRLF, quotes doubled
    writer.writerow(columns)
    writer.writerows([_cell(value) for value in row] for row in rows)
    return out.getvalue()


def _cell(value: Any) -> Any:
    if value is None or isinstance(value, (bool, int, float)):
        return value
    return csv_cell(value if isinstance(value, str) else msgspec.json.encode(value).decode())
