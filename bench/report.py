"""The report of a big ledger as one HTML page, with and without verification: how long it takes, and how big the page is.

The ledger is that of a simulated fleet (bench/simulate.py), or given: `--ledger FILE`.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path

from audit import EVENTS, GOAL_EVENTS, made

from wcache.ledger.moment import LAST_NS
from wcache.ledger.report.collect import collect
from wcache.ledger.report.formats import rows_kept
from wcache.ledger.report.html import render_html
from wcache.ledger.report.model import Period

GOAL_S = 10
GOAL_BYTES = 2_000_000


def measure(path: Path) -> list[dict[str, object]]:
    period = Period(since_ns=None, until_ns=LAST_NS)
    rows: list[dict[str, object]] = []
    size = ""
    for verify in (False, True):
        began = time.perf_counter()
        found = collect(path, period, limit=rows_kept("html"), verify=verify)
        page = render_html(found).encode()
        took_s = time.perf_counter() - began
        big = found.head.size >= GOAL_EVENTS
        size = f"{found.head.size / 1e6:.1f} M events"
        how = "verified" if verify else "not verified"
        rows.append({"what": f"HTML report of {size}, {how}", "value": took_s, "unit": "s", "goal": f"< {GOAL_S}" if big else ""})
    goal = f"< {GOAL_BYTES / 1e6:.0f}" if big else ""
    return [*rows, {"what": f"its page, of {size}", "value": len(page) / 1e6, "unit": "MB", "goal": goal}]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=EVENTS)
    parser.add_argument("--ledger", type=Path, help="report on this one instead of making one")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="wcache-bench-") as directory:
        ledger = arguments.ledger or Path(directory) / "ledger.sqlite"
        if arguments.ledger is None:
            made(ledger, arguments.events)
        found = measure(ledger)
    if arguments.json:
        sys.stdout.write(json.dumps(found) + "\n")
    else:
        for row in found:
            sys.stdout.write(f"{row['what']:<62} {row['value']:>12,.3f} {row['unit']:<3} {row['goal']}\n")
