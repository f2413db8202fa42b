"""The geometry of the charts, in per cent: a chart without a view box keeps its letters readable at every width."""

from __future__ import annotations

import math

import msgspec

from wcache.core.model.vocabulary import REASON_TEXT, Outcome, Proof
from wcache.ledger.moment import utc
from wcache.ledger.report.attaches import DAY_NS
from wcache.ledger.report.model import Bar, Lane, Report
from wcache.ledger.report.words import minute, percent

TICKS = 4
_GAP = 0.16  # of a bar's share of the width, left free between two
_LEAST = 0.4  # per cent: what is there is seen

_LANE_FOOT, _LANE_HEIGHT = 90, 78  # per cent

TIER_TEXT = {
    "content": "every byte was hashed for this attach",
    "pinned": "hashed earlier, and no file has changed since",
    "sampled": "headers, sizes and samples agree",
    "header": "names, shapes and sizes agree",
    "attested": "a name that somebody else vouches for",
    "trusted": "an operator said so",
}
_TIER_ORDER = tuple(TIER_TEXT)
_HASHED = ("content", "pinned")
HASHED = "hashed"
"""A hit on hashed content at which nobody looked again: there is nothing to be proved."""
_PROOFS = tuple(proof.value for proof in (Proof.PROVED, Proof.UNPROVEN, Proof.UNPROVABLE, Proof.REFUTED))
TIER_LOOKS = {
    HASHED: "on hashed content",
    "proved": "proved",
    "unproven": "unproven",
    "unprovable": "unprovable",
    "refuted": "refuted",
}
PATTERNED = {
    "fallback": "stripes",
    "strict_miss": "cross",
    "unproven": "stripes",
    "unprovable": "dots",
    "refuted": "cross",
    "lost": "cross",
    "suspect": "stripes",
}
"""Colour is not all that tells them apart."""


class Rect(msgspec.Struct, frozen=True):
    """A piece of a chart; `look` is its class, `says` what a pointer that rests on it is told."""

    x: float
    y: float
    width: float
    height: float
    look: str
    says: str = ""


class TimeChart(msgspec.Struct, frozen=True, kw_only=True):
    """Stacked bars. `rises` are the labels of the vertical axis from the top, `ticks` of the horizontal one, evenly spread."""

    rects: tuple[Rect, ...]
    rises: tuple[str, ...]
    ticks: tuple[str, ...]
    step: str
    bars: tuple[tuple[str, Bar], ...]


class RowBar(msgspec.Struct, frozen=True, kw_only=True):
    """One line of a horizontal bar chart."""

    name: str
    says: str
    number: int
    share: str
    rects: tuple[Rect, ...]
    parts: tuple[tuple[str, int], ...] = ()


class Strip(msgspec.Struct, frozen=True, kw_only=True):
    """One lane of the timeline."""

    lane: Lane
    rects: tuple[Rect, ...]
    says: str


def time_chart(report: Report) -> TimeChart:
    bars = report.bars
    top = _round_up(max((bar.all for bar in bars), default=0))
    step_ns = bars[0].to_ns - bars[0].from_ns
    rects, share = [], 100 / len(bars)
    for number, bar in enumerate(bars):
        x, at = number * share + share * _GAP / 2, 0.0
        for word, amount in (
            (outcome.value, getattr(bar, outcome.value)) for outcome in (Outcome.HIT, Outcome.FALLBACK, Outcome.STRICT_MISS)
        ):
            if amount:
                height = max(100 * amount / top, _LEAST)
                says = f"{_when(bar.from_ns, step_ns)}: {amount:,} {word}"
                rects.append(Rect(round(x, 3), round(100 - at - height, 3), round(share * (1 - _GAP), 3), round(height, 3), word, says))
                at += height
    from_ns, to_ns = bars[0].from_ns, bars[-1].to_ns
    return TimeChart(
        rects=tuple(rects), rises=(f"{top:,}", f"{top // 2:,}" if top > 1 else "", "0"), ticks=ticks(from_ns, to_ns), step=_step(step_ns),
        bars=tuple((_when(bar.from_ns, step_ns), bar) for bar in bars if bar.all),
    )  # fmt: skip


def ticks(from_ns: int, to_ns: int) -> tuple[str, ...]:
    """Moments that are evenly spread over a span, first and last included, as short as they are still different."""
    moments = [utc(from_ns + (to_ns - from_ns) * n // TICKS) or "" for n in range(TICKS + 1)]
    if to_ns - from_ns >= TICKS * DAY_NS:
        return tuple(moment[:10] for moment in moments)
    return tuple(f"{moment[5:10]} {moment[11:16]}" for moment in moments)


def _when(moment_ns: int, step_ns: int) -> str:
    text = utc(moment_ns) or ""
    return text[:10] if step_ns >= DAY_NS else f"{text[:10]} {text[11:16]}"


def _step(step_ns: int) -> str:
    days, minutes = step_ns // DAY_NS, step_ns // 60_000_000_000
    if days:
        return {1: "a day", 7: "a week"}.get(days, f"{days} days")
    return {60: "an hour", 1: "a minute"}.get(minutes, f"{minutes // 60} hours" if minutes >= 60 else f"{minutes} minutes")


def _round_up(number: int) -> int:
    """The next of 2, 4, 6, 8, 10, 20, 40, …: its half is whole."""
    if number <= 2:
        return 2
    power = 10 ** math.floor(math.log10(number))
    return next(int(step * power) for step in (1, 2, 4, 6, 8, 10) if step * power >= number and (step * power) % 2 == 0)


def tier_bars(report: Report) -> tuple[RowBar, ...]:
    """Hits by what they rest on, the strongest first, each by what is known of them afterwards."""
    totals = report.totals
    most = max(totals.tiers.values(), default=1)
    names = [
        *(tier for tier in _TIER_ORDER if tier in totals.tier_proofs),
        *(tier for tier in totals.tier_proofs if tier not in _TIER_ORDER),
    ]
    found = []
    for tier in names:
        proofs, x, rects, parts = totals.tier_proofs[tier], 0.0, [], []
        for proof in _PROOFS:
            if proofs.get(proof):
                look = HASHED if tier in _HASHED and proof == Proof.UNPROVEN.value else proof
                width = max(100 * proofs[proof] / most, _LEAST)
                rects.append(Rect(round(x, 3), 0, round(width, 3), 100, look, f"{tier}: {proofs[proof]:,} {TIER_LOOKS[look]}"))
                parts.append((TIER_LOOKS[look], proofs[proof]))
                x += width
        number = sum(proofs.values())
        share = percent(number, totals.hits)
        found.append(RowBar(name=tier, says=TIER_TEXT.get(tier, ""), number=number, share=share, rects=tuple(rects), parts=tuple(parts)))
    return tuple(found)


def reason_bars(report: Report) -> tuple[RowBar, ...]:
    totals = report.totals
    most = max(totals.reasons.values(), default=1)
    texts = {reason.value: text for reason, text in REASON_TEXT.items()}
    return tuple(
        RowBar(
            name=reason, says=texts.get(reason, ""), number=number, share=percent(number, totals.missed),
            rects=(Rect(0, 0, round(max(100 * number / most, _LEAST), 3), 100, "fallback", f"{reason}: {number:,}"),),
        )
        for reason, number in totals.reasons.items()
    )  # fmt: skip


def strips(report: Report, from_ns: int, to_ns: int) -> tuple[Strip, ...]:
    length = max(1, to_ns - from_ns)
    found = []
    for lane in report.lanes:
        rects = []
        for stay in lane.stays:
            x = 100 * (stay.from_ns - from_ns) / length
            width = max(100 * (stay.to_ns - stay.from_ns) / length, _LEAST)
            how = stay.state if lane.peak == 1 else f"{stay.number} at once"
            says = f"{minute(stay.from_ns)} to {minute(stay.to_ns)}: {how}"
            height = _LANE_HEIGHT * stay.number / lane.peak
            rects.append(Rect(round(x, 3), round(_LANE_FOOT - height, 3), round(width, 3), round(height, 3), stay.state, says))
        says = "; ".join(rect.says for rect in rects[:20]) + ("; …" if len(rects) > 20 else "")
        found.append(Strip(lane=lane, rects=tuple(rects), says=f"{lane.checkpoint} on {lane.device}: {says}"))
    return tuple(found)
