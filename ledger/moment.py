"""Moments and spans as people write them, and back: RFC 3339 in UTC, `2026-11-29`, `90m` ago, `30d` from now."""

from __future__ import annotations

import functools
import re
import time
from datetime import datetime, timezone

from wcache.core.model.errors import UsageError

LAST_NS = (1 << 63) - 1
"""As late as nanoseconds since 1970 in 64 bits go: a moment that never comes."""

_SPAN = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)\s*(s|m|min|h|d|w)")
_UNIT_S = {"s": 1, "m": 60, "min": 60, "h": 3600, "d": 86400, "w": 604800}


def utc(moment_ns: int | None) -> str | None:
    """RFC 3339 in UTC, to the millisecond."""
    if moment_ns is None:
        return None
    seconds, rest = divmod(moment_ns, 1_000_000_000)
    return f"{_second(seconds)}.{rest // 1_000_000:03d}Z"


@functools.lru_cache(1024)  # rows of one listing lie close together
def _second(seconds: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))


def parse_span_ns(text: str) -> int | None:
    """`45m`, `12h`, `30d`, `2w` in nanoseconds; None for something else."""
    match = _SPAN.fullmatch(text.strip())
    return None if match is None else int(float(match[1]) * _UNIT_S[match[2]] * 1e9)


def parse_moment_ns(text: str, now_ns: int, *, ahead: bool = False) -> int:
    """RFC 3339 or a date (UTC where no zone is given), or a span: that long ago, with `ahead` that long from now. Raises UsageError, also
    for a moment that nanoseconds since 1970 in 64 bits do not reach."""
    span_ns = parse_span_ns(text)
    moment_ns = _parse_ns(text) if span_ns is None else now_ns + span_ns if ahead else now_ns - span_ns
    if not 0 <= moment_ns <= LAST_NS:
        raise UsageError("this time is out of reach", where=text, remedy="give one from 1970 to 2261")
    return moment_ns


def _parse_ns(text: str) -> int:
    try:
        # datetime reads the Z only since Python 3.11.
        moment = datetime.fromisoformat(re.sub(r"[zZ]$", "+00:00", text.strip()))
    except ValueError:
        raise UsageError(
            "this is no time", where=text, remedy="write 2026-11-29T14:00:00Z, 2026-11-29, or a span such as 45m, 12h, 30d"
        ) from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=timezone.utc)
    since_epoch = moment - datetime(1970, 1, 1, tzinfo=timezone.utc)
    return ((since_epoch.days * 86400 + since_epoch.seconds) * 1_000_000 + since_epoch.microseconds) * 1000
