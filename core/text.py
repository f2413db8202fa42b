"""Values as text for people and for other programs' tables."""

from __future__ import annotations

FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")
"""With these a spreadsheet takes a cell for a formula (OWASP, CSV injection), the full-width ones in East Asian locales."""


def csv_cell(text: str) -> str:
    """A cell that a spreadsheet does not take for a formula. Numbers must not come here."""
    return f"'{text}" if text.startswith(FORMULA_STARTS) else text


def size(amount_bytes: int | None) -> str:
    """Binary units, three digits: 269 MiB."""
    if amount_bytes is None:
        return ""
    value, unit = float(amount_bytes), "B"
    for unit in ("B", "KiB", "MiB", "GiB", "TiB", "PiB"):
        if value < 1024 or unit == "PiB":
            break
        value /= 1024
    return f"{value:.0f} {unit}" if value >= 100 or unit == "B" else f"{value:.1f} {unit}"
