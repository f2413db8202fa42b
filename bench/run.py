"""`make bench`: runs every program of this folder, each in a process of its own, and prints one table.

A program takes `--json` and prints one list of rows: {"what", "value", "unit", "goal"}; `goal` may be empty. Ratios
within one run are what counts: the numbers of a loaded machine say little. Nothing here is part of the test suite.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

BENCH = Path(__file__).resolve().parent
LIMIT_S = 600


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="programs of this folder, without .py (default: all)")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    # what others import or start
    parts = ("run", "places", "fleet", "simulate", "gpu_places", "gpu_engine", "vllm_engine", "remote_mount")
    names = args.names or sorted(path.stem for path in BENCH.glob("*.py") if path.stem not in parts)
    rows: list[dict[str, Any]] = []
    failed = 0
    for name in names:
        sys.stderr.write(f"bench/{name}.py ...\n")
        done = subprocess.run([sys.executable, str(BENCH / f"{name}.py"), "--json"], capture_output=True, text=True, timeout=LIMIT_S)
        try:
            if done.returncode:
                raise ValueError(f"exit code {done.returncode}")
            rows += [{"bench": name, **row} for row in json.loads(done.stdout)]
        except (ValueError, KeyError, TypeError) as error:
            failed += 1
            sys.stderr.write(f"bench/{name}.py: {error}\n{done.stderr[-1000:]}")
    if args.json:
        sys.stdout.write(json.dumps({"machine": machine(), "rows": rows}) + "\n")
    else:
        sys.stdout.write(f"{machine()}\n\n{markdown(rows)}")
    return 1 if failed else 0


def machine() -> str:
    """The machine in general words: what a number depends on, and nothing that names it."""
    cores = len(os.sched_getaffinity(0))
    kernel = ".".join(platform.release().split("-")[0].split(".")[:2])
    versions = f"Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}"
    return f"{cores} cores, {platform.machine()}, Linux {kernel}, {versions}, load average {os.getloadavg()[0]:.1f}"


def markdown(rows: list[dict[str, Any]]) -> str:
    header = ("bench", "what", "value", "unit", "goal")
    cells = [header, *((row["bench"], row["what"], _number(row["value"]), row["unit"], row.get("goal", "")) for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = ["| " + " | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) + " |" for line in cells]
    lines.insert(1, "| " + " | ".join("-" * width for width in widths) + " |")
    return "\n".join(lines) + "\n"


def _number(value: object) -> str:
    """Three significant digits below 100, whole numbers above."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return str(value)
    return f"{value:.3g}" if abs(value) < 100 else f"{value:,.0f}"


if __name__ == "__main__":
    sys.exit(main())
