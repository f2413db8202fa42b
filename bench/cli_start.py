"""How long commands and the loader's import take in a process of their own, beside `python -c pass` of the same interpreter.

They take turns. Wall time is what a user waits for; processor time, as wait4(2) has it, is what a busy machine changes least.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from places import places, wcache
from rows import Row, main, ratio, timing

RUNS = 15
GOAL_MS = 150


def once(command: list[str], environ: dict[str, str]) -> tuple[float, float]:
    """Wall and processor time in ms."""
    began = time.perf_counter()
    process = subprocess.Popen(command, env=environ, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, _, used = os.wait4(process.pid, 0)
    took_s = time.perf_counter() - began
    process.returncode = 0
    return took_s * 1e3, (used.ru_utime + used.ru_stime) * 1e3


def measure() -> list[Row]:
    entry = str(Path(sys.executable).parent / "wcache")
    bare = "python -c pass"
    commands = {
        bare: [sys.executable, "-c", "pass"],
        "wcache status": [entry, "status"],
        "wcache --help": [entry, "--help"],
        "import wcache.loader": [sys.executable, "-c", "import wcache.loader"],
        "from wcache.loader import load_file": [sys.executable, "-c", "from wcache.loader import load_file"],
    }
    found: dict[str, list[tuple[float, float]]] = {what: [] for what in commands}
    with places() as environ:
        wcache(environ, "daemon", "start")
        for number in range(RUNS + 1):
            for what, command in commands.items():
                times = once(command, environ)
                if number:  # the first fills the caches
                    found[what].append(times)
    rows: list[Row] = []
    for what, times in found.items():
        wall, processor = zip(*times, strict=True)
        rows.append(timing(what, wall, "ms", f"< {GOAL_MS}" if what.startswith("wcache") else ""))
        rows.append(timing(f"{what}, processor time", processor, "ms"))
    for what in list(commands)[1:]:
        pairs = [(ours[1], plain[1]) for ours, plain in zip(found[what], found[bare], strict=True)]
        rows.append(ratio(f"{what} / {bare}, processor time", pairs, bare))
    return rows


if __name__ == "__main__":
    main(__doc__, measure)
