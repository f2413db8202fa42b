"""One row a run, for people: what was expected, what came, how long it took and what it held."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from wcache.drill.runs import Result, outcome_of

COLUMNS = ("run", "expected", "outcome", "ready_s", "weights_s", "weights_bytes", "rest_bytes", "held")


def rows(results: Sequence[Result]) -> list[dict[str, Any]]:
    """`weights_bytes` is what the server had mapped from the cache when it was ready, `rest_bytes` the rest of its memory."""
    return [
        {
            "run": seen.label,
            "expected": seen.expected,
            "outcome": outcome(seen),
            "ready_s": round(seen.elapsed_s, 1) if seen.ready and seen.elapsed_s is not None else None,
            "weights_s": round(seen.weights_s, 3) if seen.ready and seen.weights_s is not None else None,
            "weights_bytes": seen.server_weights_bytes,
            "rest_bytes": seen.server_rest_bytes,
            "held": None if seen.skipped else seen.held,
        }
        for seen in results
    ]


def outcome(seen: Result) -> str:
    if seen.skipped:
        return f"skipped: {seen.skipped}"
    if seen.ready:
        parts = ["ready"]
    elif seen.exit_status is not None:
        parts = [f"no start, status {seen.exit_status}"]
    else:
        parts = ["no start, timed out" if seen.timed_out else "no answer"]
    parts += [outcome_of(seen)] if seen.attaches else []
    if seen.answers_equal is not None:
        parts.append("same answers" if seen.answers_equal else "other answers")
    return ", ".join(parts)


def sentence(seen: Result) -> str:
    """The outcome in a line, and what was wrong with it."""
    took = f" ({seen.elapsed_s:.1f} s)" if seen.elapsed_s is not None else ""
    return f"{outcome(seen)}{took}" + (f" ✗ {'; '.join(seen.wrong)}" if seen.wrong else "")
