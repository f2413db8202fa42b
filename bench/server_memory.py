"""Resident memory of the server's process, empty and with SmolLM2 resident: the weights must not be in it, and neither must torch."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from places import checkpoint, places, wcache

GOAL_MB = 40


def resident_mb(pid: int) -> float:
    """VmRSS of proc_pid_status(5), in MB of 10^6 bytes; the kernel's kB are 1,024 bytes."""
    for line in Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024 / 1e6
    raise SystemExit(f"process {pid} has no VmRSS")


def measure() -> list[dict[str, object]]:
    with places() as environ:
        wcache(environ, "daemon", "start")
        pid = int(json.loads(wcache(environ, "daemon", "status", "--json"))["server_pid"])
        empty = resident_mb(pid)
        wcache(environ, "load", str(checkpoint()))
        loaded = resident_mb(pid)
        torch = "libtorch" in Path(f"/proc/{pid}/maps").read_text(encoding="utf-8")
    return [
        {"what": "server, nothing resident", "value": empty, "unit": "MB", "goal": f"<= {GOAL_MB}"},
        {"what": "server, 269 MB resident", "value": loaded, "unit": "MB", "goal": f"<= {GOAL_MB}"},
        {"what": "torch in the server", "value": "yes" if torch else "no", "unit": "", "goal": "no"},
    ]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.parse_args()
    sys.stdout.write(json.dumps(measure()) + "\n")
