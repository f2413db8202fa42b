"""What the programs of this folder print: rows of {"what", "value", "unit", "goal"}, with the spread and, of a ratio, what it is against.

`low` and `high` are the quartiles of a timing, or the lowest and highest of a ratio's rounds. A ratio has the unit "x" and compares two
figures that were taken in turns: `bench/run.py` compares it with the run before, since it says more of the code than of the machine.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Callable, Sequence
from typing import Any

Row = dict[str, Any]


def timing(what: str, values: Sequence[float], unit: str, goal: str = "") -> Row:
    """The median of at least two values, and their quartiles."""
    low, middle, high = statistics.quantiles(values, n=4)
    return {"what": what, "value": middle, "unit": unit, "goal": goal, "low": low, "high": high, "of": len(values)}


def ratio(what: str, pairs: Sequence[tuple[float, float]], against: str, goal: str = "") -> Row:
    """The median of first / second, round by round, so that whatever else the machine does meets both sides alike."""
    found = [first / second for first, second in pairs]
    middle = statistics.median(found)
    return {
        "what": what,
        "value": middle,
        "unit": "x",
        "goal": goal,
        "low": min(found),
        "high": max(found),
        "of": len(found),
        "against": against,
    }


def figure(what: str, value: Any, unit: str, goal: str = "") -> Row:
    """One number that has no spread: a count, a size, a rate over the whole run."""
    return {"what": what, "value": value, "unit": unit, "goal": goal}


def shown(value: object) -> str:
    """Three significant digits below 100, whole numbers above."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return str(value)
    return f"{value:.3g}" if abs(value) < 100 else f"{value:,.0f}"


def spread(row: Row) -> str:
    return f"{shown(row['low'])} to {shown(row['high'])}" if "low" in row else ""


def main(description: str | None, measure: Callable[[], list[Row]]) -> None:
    """The command line that most programs have: a table for people, or `--json` for `run.py`."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    rows = measure()
    if arguments.json:
        sys.stdout.write(json.dumps(rows) + "\n")
    else:
        sys.stdout.write(table([("what", "value", "spread", "unit", "goal")] + [columns(row) for row in rows]))


def columns(row: Row) -> tuple[str, ...]:
    return row["what"], shown(row["value"]), spread(row), row["unit"], row.get("goal", "")


def table(lines: Sequence[Sequence[str]]) -> str:
    """A Markdown table, aligned; the first line is its head."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    padded = ["| " + " | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) + " |" for line in lines]
    padded.insert(1, "| " + " | ".join("-" * width for width in widths) + " |")
    return "\n".join(padded) + "\n"
