"""Values as text for a person: sizes, times, short digests, and cells that cannot harm a terminal or a spreadsheet."""

from __future__ import annotations

import re
import unicodedata

from wcache.core.text import csv_cell as csv_cell
from wcache.core.text import size as size

_UNSAFE = re.compile(r"[\x00-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff\ud800-\udfff]")


def escape(text: str) -> str:
    """Control characters, bidirectional overrides and lone surrogates as visible escapes: a path may not steer a terminal."""
    return _UNSAFE.sub(lambda match: match[0].encode("unicode_escape").decode("ascii"), text)


_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT]i)?B?", re.IGNORECASE)


def parse_size(text: str) -> int:
    """Bytes of a size as a person types it: 1000, 512MiB, 1.5 GiB. Raises ValueError."""
    found = _SIZE.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"{text!r} is no size: give bytes, or a number with KiB, MiB, GiB or TiB")
    power = "KMGT".index(found[2][0].upper()) + 1 if found[2] else 0
    return int(float(found[1]) * 1024**power)


def duration(seconds: float) -> str:
    if seconds < 1:
        return f"{seconds * 1000:.1f} ms"
    if seconds < 120:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    if days:
        return f"{days} d {hours} h"
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"


def short(digest: str | None, length: int = 8) -> str:
    return (digest or "")[:length]


def width(text: str) -> int:
    """Columns that a terminal needs for it (UAX #11: wide and full-width characters take two, combining ones none)."""
    if text.isascii():
        return len(text)
    return sum(0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in text)


def tail(path: str, length: int = 28) -> str:
    """The end of a long path, which is what tells two of them apart."""
    return path if width(path) <= length else "…" + path[-(length - 1) :]
