"""How long `wcache status` takes from a shell, beside `python -c pass` of the same interpreter; best and middle of several runs."""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from pathlib import Path

from places import places, wcache

RUNS = 15
GOAL_MS = 150


def times_ms(command: list[str], environ: dict[str, str]) -> list[float]:
    found = []
    for _ in range(RUNS):
        began = time.perf_counter()
        subprocess.run(command, env=environ, capture_output=True, check=False)
        found.append((time.perf_counter() - began) * 1e3)
    return found


def measure() -> list[dict[str, object]]:
    entry = str(Path(sys.executable).parent / "wcache")
    with places() as environ:
        wcache(environ, "daemon", "start")
        bare = times_ms([sys.executable, "-c", "pass"], environ)
        status = times_ms([entry, "status"], environ)
        usage = times_ms([entry, "--help"], environ)
    rows: list[dict[str, object]] = []
    for what, found in (("python -c pass", bare), ("wcache status", status), ("wcache --help", usage)):
        rows.append({"what": f"{what}, best of {RUNS}", "value": min(found), "unit": "ms", "goal": ""})
        goal = f"< {GOAL_MS}" if what.startswith("wcache") else ""
        rows.append({"what": f"{what}, median", "value": statistics.median(found), "unit": "ms", "goal": goal})
    return rows


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.parse_args()
    sys.stdout.write(json.dumps(measure()) + "\n")
