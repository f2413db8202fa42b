"""Numbers and times as a reader of a report has them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from wcache.ledger.moment import utc


def several(number: int, one: str, many: str = "") -> str:
    """`1 hit`, `1,204 hits`."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def listed(parts: Iterable[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    *most, last = [*parts] or [""]
    return f"{', '.join(most)} and {last}" if most else last


def counts(numbers: Mapping[str, int], limit: int = 4) -> str:
    """`3 not_resident, 1 released`, the most frequent first, the rest added up."""
    shown = [f"{number:,} {word}" for word, number in [*numbers.items()][:limit]]
    rest = sum([*numbers.values()][limit:])
    return ", ".join([*shown, *([f"{rest:,} for other reasons"] if rest else [])])


def minute(moment_ns: int | None) -> str:
    """`2026-11-29 14:03 UTC`."""
    text = utc(moment_ns)
    return "" if text is None else f"{text[:10]} {text[11:16]} UTC"


def span(seconds: float) -> str:
    """`2.5 s`, `14 min`, `3.2 h`, `12 d`: two or three digits, the unit that fits."""
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {unit}" if seconds >= 20 * length or unit == "min" else f"{seconds / length:.1f} {unit}"
    return f"{seconds:.1f} s" if seconds >= 0.1 or seconds == 0 else f"{seconds * 1000:.0f} ms"


def percent(part: int, whole: int) -> str:
    """Never 100 % where something is missing, never 0 % where something is there."""
    if not whole:
        return "–"
    share = 100 * part / whole
    if 0 < share < 0.1:
        return "< 0.1 %"
    return "> 99.9 %" if 99.9 < share < 100 else f"{share:.1f}".removesuffix(".0") + " %"
