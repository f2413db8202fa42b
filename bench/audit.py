"""Questions to a big ledger, and verifying all of it, beside one plain pass of sqlite3 over the same rows.

The ledger is the simulated fleet of `bench/simulate.py`: 200 nodes over a year. `--events 1000000` is the size that the goal names; the
default keeps `make bench` short, and `--ledger` takes one that is there. Questions are asked as a user asks them: `wcache audit …`, a
process each, everything that it prints; every figure is the best of three.
"""

from __future__ import annotations

import argparse
import json
import os
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from simulate import simulate

from wcache.ledger.audit import Audit, Window
from wcache.ledger.verify import verify

EVENTS = 200_000
GOAL_EVENTS = 1_000_000
GOAL_S = 1
GOAL_VERIFY_PER_S = 250_000


def ledger_events(path: Path) -> int:
    with sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True) as db:
        return int(db.execute("SELECT max(seq) FROM event").fetchone()[0])


def asked_s(path: Path, *question: str) -> float:
    """Seconds of a whole command."""
    best = float("inf")
    environ = {**os.environ, "WCACHE_LEDGER": str(path)}
    for _ in range(3):
        began = time.perf_counter()
        done = subprocess.run([sys.executable, "-m", "wcache.cli", "audit", *question], env=environ, stdout=subprocess.DEVNULL, check=False)
        best = min(best, time.perf_counter() - began)
        if done.returncode not in (0, 1):
            raise SystemExit(f"wcache audit {' '.join(question)} failed")
    return best


def questions(path: Path) -> dict[str, tuple[str, ...]]:
    with Audit(path) as audit:
        newest = audit.attaches(Window(limit=1))[0]
        hit = next(audit.listing("hits", Window(limit=1)).rows())
    middle = str(newest["time"])
    return {
        "summary": ("summary",),
        "summary of a week": ("summary", "--since", middle[:8] + "01"),
        "attaches": ("attaches",),
        "launch": ("launch", str(newest["launch"])),
        "fallbacks": ("fallbacks",),
        "hits --unproven": ("hits", "--unproven"),
        "wrong-hits": ("wrong-hits",),
        "trust": ("trust",),
        "timeline": ("timeline", str(hit["residency"])),
        "at": ("at", middle),
        "explain": ("explain", str(hit["seq"])),
        "fallbacks, every one as JSON lines": ("fallbacks", "--format", "jsonl"),
        "attaches, every one as JSON lines": ("attaches", "--format", "jsonl"),
    }


def measure(path: Path, made_s: float | None) -> list[dict[str, object]]:
    count = ledger_events(path)
    size = f"{count / 1e6:.1f} M events"
    rows: list[dict[str, object]] = []
    if made_s is not None:
        rows.append({"what": f"simulate, {size}", "value": count / made_s, "unit": "1/s", "goal": ""})
    # The goal is stated for its size; at another one the figure stands without it.
    goal = f"< {GOAL_S}" if count >= GOAL_EVENTS else ""
    rows.append({"what": "wcache audit --help (a process that asks nothing)", "value": asked_s(path, "--help"), "unit": "s", "goal": ""})
    for name, question in questions(path).items():
        rows.append({"what": f"wcache audit {name}, {size}", "value": asked_s(path, *question), "unit": "s", "goal": goal})
    began = time.perf_counter()
    with sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True) as db:
        for _ in db.execute("SELECT * FROM event ORDER BY seq"):
            pass
    plain_s = time.perf_counter() - began
    began, cpu = time.perf_counter(), sum(os.times()[:4])
    report = verify(path)
    took_s, cpu_s = time.perf_counter() - began, sum(os.times()[:4]) - cpu
    if not report.ok:
        raise SystemExit(f"verify found {report.problems[0]}")
    goal = f">= {GOAL_VERIFY_PER_S}"
    rows.append({"what": f"ledger verify, {size}", "value": count / took_s, "unit": "1/s", "goal": goal})
    rows.append({"what": "ledger verify, processor time an event, all processes", "value": cpu_s / count * 1e6, "unit": "us", "goal": ""})
    rows.append({"what": f"sqlite3 reads every event row, {size}", "value": count / plain_s, "unit": "1/s", "goal": ""})
    rows.append({"what": "verify / plain pass", "value": took_s / plain_s, "unit": "x", "goal": ""})
    return rows


def made(path: Path, events: int) -> float:
    began = time.perf_counter()
    simulate(path, events)
    return time.perf_counter() - began


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=EVENTS)
    parser.add_argument("--ledger", type=Path, help="one that is there, instead of making one")
    parser.add_argument("--directory", type=Path, help="where to write (default: a temporary directory)")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    if arguments.ledger is not None:
        found = measure(arguments.ledger.absolute(), None)
    else:
        with tempfile.TemporaryDirectory(prefix="wcache-bench-", dir=arguments.directory) as directory:
            ledger = Path(directory) / "ledger.sqlite"
            found = measure(ledger, made(ledger, arguments.events))
    if arguments.json:
        sys.stdout.write(json.dumps(found) + "\n")
    else:
        for row in found:
            sys.stdout.write(f"{row['what']:<62} {row['value']:>12,.3f} {row['unit']:<3} {row['goal']}\n")
