"""The report as one HTML file: no network, no dependence on its script, the same on a phone and on paper."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Callable
from importlib import resources
from typing import Any

import msgspec

from wcache.core.model.errors import Unsupported, one_line
from wcache.core.text import size
from wcache.ledger.report import charts
from wcache.ledger.report.answers import answers, not_shown, retention
from wcache.ledger.report.catalogue import COLUMNS, LISTINGS
from wcache.ledger.report.model import Listing, Report, Row
from wcache.ledger.report.words import minute, percent, several, span

ROWS_MAX = 100
"""Rows of a list that a page shows: lists of thousands are for JSON lines and CSV."""
TEXT_MAX = 400

VERDICTS = {
    "good": ("✓", "In order"),
    "attention": ("!", "To be judged"),
    "bad": ("✕", "Problem"),
    "unknown": ("?", "Not checked"),
}

SECTIONS: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("findings", "Findings", ("wrong_hit", "not_mapped", "incomplete_launch", "unproven", "trusted", "unprovable", "incident")),
    ("weights", "Weights", ("resident", "weights", "asked", "engine")),
    ("changes", "Changes and permissions", ("change", "leased_release", "grant", "policy")),
    ("record", "The record itself", ("gap", "clock", "redaction", "checkpoint")),
)

_WHO = (("checkpoint", "engine", "host"), ("launch", "rank"))
SHOWN: dict[str, tuple[tuple[str, ...], ...]] = {
    "wrong_hit": (
        ("seq",), ("since", "until", "had"), ("checkpoint", "engine", "host", "pid", "uid"), ("launch", "rank"),
        ("asked_digest",), ("served_digest",), ("tier", "proof", "proof_seq"),
    ),
    "not_mapped": (("seq",), ("time",), *_WHO, ("decision",), ("reason", "detail"), ("fallback_bytes", "fallback_s"), ("idle_bytes",)),
    "trusted": (("seq",), ("time",), *_WHO, ("served_digest",), ("grant", "operator_uid"), ("why",), ("proof",)),
    "unproven": (("seq",), ("time",), *_WHO, ("tier",), ("served_digest",)),
    "unprovable": (("seq",), ("time",), *_WHO, ("tier",), ("served_digest",), ("why", "proof_seq")),
    "resident": (
        ("residency", "state"), ("checkpoint",), ("holds", "device"), ("bytes", "tensors"), ("weights_digest",), ("loaded",), ("leases",),
    ),
    "change": (("seq",), ("time",), ("event",), ("text",), ("uid",)),
    "leased_release": (("seq",), ("time",), ("residency",), ("decision",), ("leases",), ("uid",), ("why",)),
    "grant": (("seq",), ("time",), ("grant", "scope"), ("about",), ("why", "operator_uid"), ("expires",), ("state",), ("hits",)),
    "engine": (("engine", "engine_version"), ("attaches",), ("hits",), ("fallbacks",), ("missed",)),
}  # fmt: skip
"""What a page shows of a list where that is not every column: each cell's value, and what stands in small letters below it."""
_BY_WEIGHT = ("weights", "asked", "engine", "policy")
"""Lists that are in order of importance; of all others a page shows the newest first."""
WHOLE_DIGEST = frozenset({"weights"})
"""Lists that print digests in full, so that nothing is lost on paper."""


class Part(msgspec.Struct, frozen=True):
    """One value of a cell: how it looks, how it reads, what it is in full, and its label where it stands in small letters."""

    look: str
    text: str
    full: str = ""
    label: str = ""


class Cell(msgspec.Struct, frozen=True):
    label: str
    main: Part
    below: tuple[Part, ...]
    order: str
    """What the cell is sorted by, where that is not its text."""


class Table(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    title: str
    says: str
    empty: str
    heads: tuple[tuple[str, str], ...]
    rows: list[tuple[Cell, ...]]
    by_time: bool
    total: int
    more: int


def render_html(report: Report) -> str:
    """Raises Unsupported where jinja2 is not installed."""
    try:
        import jinja2
        from markupsafe import Markup
    except ImportError:
        raise Unsupported("HTML reports need the package jinja2", remedy="pip install 'wcache-ledger[report]'") from None
    css, script, page = (_resource(name) for name in ("page.css", "page.js", "page.html.jinja"))
    environment = jinja2.Environment(
        autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined, keep_trailing_newline=True
    )
    environment.filters.update(number=lambda value: f"{value:,}", size=size, plain=one_line, prose=_prose)
    text: str = environment.from_string(page).render(
        **_context(report),
        css=Markup(css),  # noqa: S704 - ours
        script=Markup(script),  # noqa: S704
        policy=f"default-src 'none'; style-src '{_source(css)}'; script-src '{_source(script)}'; base-uri 'none'; form-action 'none'",
    )
    return text


def _resource(name: str) -> str:
    return (resources.files(__package__) / name).read_text(encoding="utf-8")


def _source(text: str) -> str:
    """As Content Security Policy level 3 names an inline block: by its SHA-256."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _prose(text: str) -> Any:
    """Sentences with `code` in them."""
    from markupsafe import Markup, escape

    return Markup(re.sub("`([^`]+)`", r"<code>\1</code>", str(escape(one_line(text)))))  # noqa: S704 - escaped the moment before


def _context(report: Report) -> dict[str, Any]:
    from_ns, to_ns = report.bars[0].from_ns, report.period.until_ns
    since_ns = report.period.since_ns if report.period.since_ns is not None else report.head.first_ns
    return {
        "report": report, "head": report.head, "totals": report.totals, "verification": report.verification,
        "made": minute(report.made_ns), "since": minute(since_ns), "until": minute(report.period.until_ns),
        "whole": report.period.since_ns is None,
        "answers": answers(report), "verdicts": VERDICTS, "titles": {name: about.title for name, about in LISTINGS.items()},
        "figures": _figures(report), "chart": charts.time_chart(report), "tiers": charts.tier_bars(report),
        "looks": charts.TIER_LOOKS, "patterned": charts.PATTERNED,
        "reasons": charts.reason_bars(report), "strips": charts.strips(report, from_ns, to_ns), "lane_ticks": charts.ticks(from_ns, to_ns),
        "sections": [(name, title, [_table(report.listing(each)) for each in names]) for name, title, names in SECTIONS],
        "retention": retention(report), "not_shown": not_shown(report),
        "first": minute(report.head.first_ns), "last": minute(report.head.last_ns),
        "share": lambda word: percent(report.totals.decisions.get(word, 0), report.totals.attaches),
    }  # fmt: skip


def _figures(report: Report) -> list[tuple[str, str, str]]:
    """(number, what it is, what stands below it)"""
    totals = report.totals
    kept = f"and {size(totals.copied_bytes)} copied" if totals.copied_bytes else "without a copy"
    idle = f"{size(round(totals.idle_byte_s / 3600))} for an hour" if totals.idle_byte_s else "nothing stood idle"
    return [
        (f"{totals.attaches:,}", "attaches", f"in {several(totals.launches, 'launch', 'launches')} on {several(totals.hosts, 'host')}"),
        (percent(totals.hits, totals.attaches), "mapped", f"{totals.hits:,} of {totals.attaches:,}"),
        (size(totals.mapped_bytes), "handed out", kept),
        (f"{report.listing('weights').total:,}", "different weights", f"{report.listing('resident').total:,} resident at the end"),
        (size(totals.fallback_bytes), "read from disk", f"by fallbacks, in {span(totals.fallback_s)}"),
        (size(totals.idle_bytes), "idle meanwhile", idle),
    ]


def _table(listing: Listing) -> Table:
    about = LISTINGS[listing.name]
    rows = listing.rows[::-1] if listing.name not in _BY_WEIGHT else listing.rows
    shown = SHOWN.get(listing.name) or tuple((name,) for name in about.columns)
    return Table(
        name=listing.name, title=about.title, says=about.says, empty=about.empty, total=listing.total, more=listing.more,
        by_time=listing.name not in _BY_WEIGHT,
        heads=tuple((COLUMNS[names[0]].label, COLUMNS[names[0]].look) for names in shown),
        rows=[tuple(_cell(row, names, listing.name in WHOLE_DIGEST) for names in shown) for row in rows],
    )  # fmt: skip


def _cell(row: Row, names: tuple[str, ...], whole: bool) -> Cell:
    value = row.get(names[0])
    order = str(value) if COLUMNS[names[0]].look in ("bytes", "seconds") and value is not None else ""
    told = [name for name in names[1:] if (name, row.get(name)) != ("had", "ended")]  # `until` says it
    below = tuple(part for name in told if (part := _part(name, row.get(name), whole)).text)
    return Cell(COLUMNS[names[0]].label, _part(names[0], value, whole), below, order)


def _part(name: str, value: Any, whole: bool) -> Part:
    column = COLUMNS[name]
    if value is None or value == "" or value == []:
        return Part(column.look, "", "", column.label)
    if isinstance(value, list):
        value = ", ".join(map(str, value))
    shown = plain = one_line(str(value))
    if column.look in _SHORT and not (whole and column.look == "digest"):
        shown = _SHORT[column.look](plain)
    if column.look == "bytes":
        shown = size(int(value))
    elif column.look == "seconds":
        shown = span(float(value))
    elif isinstance(value, bool):
        shown = "yes" if value else "no"
    elif isinstance(value, int):
        shown = f"{value:,}" if column.look == "number" and name not in ("rank", "pid", "uid", "operator_uid") else str(value)
    return Part(column.look, shown, plain if shown != plain else "", column.label)


def _cut(text: str) -> str:
    return text if len(text) <= TEXT_MAX else f"{text[: TEXT_MAX - 1]}… ({len(text) - TEXT_MAX + 1:,} characters more)"


_SHORT: dict[str, Callable[[str], str]] = {
    "digest": lambda text: text[:12],
    "ref": lambda text: text[:12],
    "time": lambda text: f"{text[:10]} {text[11:19]}",
    "text": _cut,
    "path": _cut,
}
