"""`make bench`: runs every program of this folder that can run here, one after another, each in a process of its own.

Prints a table of each, writes everything into `build/bench.json`, and compares every ratio with the committed run, `bench/results.json`. A
ratio that is more than twice as bad as there is measured once more; if it is again, the exit code is 1. Seconds are never compared: they
say as much of the machine as of the code. `--record` makes the run the committed one, and draws docs/benchmarks/*.svg from it.

A program takes `--json` and prints one list of rows: see `rows.py`. Nothing here is part of the test suite.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sqlite3
import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

from rows import Row, columns, table

BENCH = Path(__file__).resolve().parent
RECORDED = BENCH / "results.json"
LATEST = BENCH.parent / "build" / "bench.json"
LIMIT_S, LONG_LIMIT_S = 600, 3600
WORSE = 2.0
# What others import or start.
PARTS = ("run", "rows", "places", "plots", "fleet", "simulate", "remote_mount", "gpu_places", "gpu_engine", "vllm_engine")
# A minute or more for each of many starts: only when they are named.
LONG = ("remote_start", "vllm_start")
PACKAGES = ("wcache-ledger", "sqlalchemy", "msgspec", "safetensors", "torch", "transformers")
Results = dict[str, dict[str, Any]]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="programs of this folder, without .py (default: all but those that start many servers)")
    parser.add_argument("--record", action="store_true", help="keep the results as bench/results.json and draw the plots of docs/")
    args = parser.parse_args()
    names = args.names or sorted(path.stem for path in BENCH.glob("*.py") if path.stem not in PARTS + LONG)
    recorded: Results = json.loads(RECORDED.read_text(encoding="utf-8")) if RECORDED.exists() else {}
    results: Results = {}
    failed: list[str] = []
    for name in names:
        found = run(name)
        worse = {} if args.record else regressions(found, recorded.get(name))
        if worse:
            sys.stderr.write(f"bench/{name}.py: {len(worse)} ratios are worse than the recorded run's; once more\n")
            again = regressions(run(name), recorded.get(name))
            worse = {what: line for what, line in again.items() if what in worse}
        if found is None:
            failed.append(f"{name}: did not finish")
            continue
        failed += worse.values()
        results[name] = found
        sys.stdout.write(shown(name, found))
        sys.stdout.flush()
    LATEST.parent.mkdir(exist_ok=True)
    LATEST.write_text(as_json(results), encoding="utf-8")
    if args.record:
        RECORDED.write_text(as_json({**recorded, **results}), encoding="utf-8")
        from plots import draw

        draw({**recorded, **results}, BENCH.parent / "docs" / "benchmarks")
    seconds = sum(found["seconds"] for found in results.values())
    sys.stdout.write(f"{seconds:.0f} s; {LATEST.relative_to(BENCH.parent)} has all of it\n")
    sys.stdout.write("".join(f"FAILED  {line}\n" for line in failed))
    return 1 if failed else 0


def run(name: str) -> dict[str, Any] | None:
    """Rows, machine, versions and load average before and after; None where the program failed, whose message is told."""
    sys.stderr.write(f"bench/{name}.py ...\n")
    environ = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}  # as an installed package has it
    load_before, began = os.getloadavg()[0], time.monotonic()
    command = [sys.executable, str(BENCH / f"{name}.py"), "--json"]
    try:
        limit_s = LONG_LIMIT_S if name in LONG else LIMIT_S
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit_s, env=environ, check=True)
        rows: list[Row] = json.loads(done.stdout)
    except (subprocess.SubprocessError, ValueError) as error:
        tail = getattr(error, "stderr", "") or ""
        sys.stderr.write(f"bench/{name}.py: {error}\n{tail[-1000:]}")
        return None
    return {
        "machine": machine(), "versions": versions(), "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "load_average": [round(load_before, 1), round(os.getloadavg()[0], 1)], "seconds": round(time.monotonic() - began, 1), "rows": rows,
    }  # fmt: skip


def regressions(found: dict[str, Any] | None, recorded: dict[str, Any] | None) -> dict[str, str]:
    """What each ratio is that is more than WORSE times as bad as the recorded one. Without one to compare with, nothing is."""
    if found is None or recorded is None:
        return {}
    before = {row["what"]: row for row in recorded["rows"]}
    lines = {}
    for row in found["rows"]:
        old = before.get(row["what"])
        if row["unit"] != "x" or old is None or old["unit"] != "x" or min(row["value"], old["value"]) <= 0:
            continue
        more_is_better = str(row.get("goal", "")).startswith((">", "≥"))
        factor = old["value"] / row["value"] if more_is_better else row["value"] / old["value"]
        if factor > WORSE:
            lines[row["what"]] = f"{row['what']}: {row['value']:.3g}, was {old['value']:.3g}"
    return lines


def machine() -> str:
    """The machine in general words: what a number depends on, and nothing that names it."""
    kernel = ".".join(platform.release().split("-")[0].split(".")[:2])
    return f"{len(os.sched_getaffinity(0))} cores, {platform.machine()}, Linux {kernel}"


def versions() -> dict[str, str]:
    return {"Python": platform.python_version(), "SQLite": sqlite3.sqlite_version, **{name: version(name) for name in PACKAGES}}


def as_json(results: Results) -> str:
    """A line a row, so that a difference can be read."""
    parts = []
    for name in sorted(results):
        head = {key: value for key, value in results[name].items() if key != "rows"}
        rows = ",\n    ".join(
            json.dumps({key: _rounded(value) for key, value in row.items()}, ensure_ascii=False) for row in results[name]["rows"]
        )
        parts.append(f' "{name}": {json.dumps(head)[:-1]}, "rows": [\n    {rows}\n ]}}')
    return "{\n" + ",\n".join(parts) + "\n}\n"


def _rounded(value: Any) -> Any:
    return float(f"{value:.4g}") if isinstance(value, float) else value


def shown(name: str, found: dict[str, Any]) -> str:
    before, after = found["load_average"]
    head = f"{name}: {found['seconds']:.0f} s, load average {before} to {after}; {found['machine']}"
    if not found["rows"]:
        return f"{head}: cannot be measured here\n\n"
    return f"{head}\n\n{table([('what', 'value', 'spread', 'unit', 'goal')] + [columns(row) for row in found['rows']])}\n"


if __name__ == "__main__":
    sys.exit(main())
