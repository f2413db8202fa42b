"""300 clients at once, 10 of them hostile: how long the other 290 wait for their weights, against the same run without the ten.

Every honest client attaches again and again without a pause (connect, handshake, offer, recorded decision, descriptors), so the daemon is
saturated and a time is mostly a place in the queue. Runs with and without alternate; the ratio of their p99 is what counts.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
from places import ROOT, places, wcache

sys.path.insert(0, str(ROOT / "tests"))

from support import hostile
from support.corpus import make_checkpoint
from support.crowd import Script, Turn, make_script, run_clients

HONEST = 290
TURNS = 5
PAIRS = 5
RATE = 100.0  # what each hostile client does at most, times a second: else they measure who gets the two cores
GOAL = 2.0


@contextmanager
def attacked(script: Script, rate: float = RATE) -> Iterator[dict[str, int]]:
    """The hostile clients at work; afterwards, how often each kind connected."""
    connections: dict[str, int] = {}
    environ = {**os.environ, "PYTHONPATH": str(ROOT / "tests")}
    with subprocess.Popen(
        [sys.executable, hostile.__file__, str(rate)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environ
    ) as process:
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(msgspec.json.encode(script).decode() + "\n")
        process.stdin.flush()
        assert process.stdout.readline() == "at work\n"
        yield connections
        process.stdin.close()
        connections.update(json.loads(process.stdout.read()))


def p99_ms(turns: list[Turn]) -> float:
    times = sorted(turn.seconds for turn in turns)
    return times[int(len(times) * 0.99)] * 1000


def measure() -> list[dict[str, object]]:
    """Of every pair of runs, its ratio; of all, the middle one. A load of the machine that changes in between moves single ones."""
    alone: list[list[Turn]] = []
    beside: list[list[Turn]] = []
    with places() as environ:
        scratch = Path(environ["WCACHE_STATE_DIR"]).parent
        checkpoint = make_checkpoint(scratch / "model", shards=3)
        wcache(environ, "daemon", "start")
        wcache(environ, "load", str(checkpoint))
        script = make_script(Path(environ["WCACHE_RUNTIME_DIR"]) / "wcache.sock", checkpoint)
        run_clients(script, HONEST, 1)
        for number in range(PAIRS):
            for under_attack in (False, True) if number % 2 == 0 else (True, False):
                if under_attack:
                    with attacked(script):
                        time.sleep(0.5)
                        beside.append(run_clients(script, HONEST, TURNS))
                else:
                    alone.append(run_clients(script, HONEST, TURNS))
    failed = sum(bool(turn.failure) for run in (*alone, *beside) for turn in run)
    ratios = sorted(p99_ms(with_them) / p99_ms(without) for without, with_them in zip(alone, beside, strict=True))
    middle = ratios[len(ratios) // 2]
    everyone = [[turn for run in runs for turn in run] for runs in (alone, beside)]
    return [
        {"what": f"{HONEST} clients, p99 attach", "value": p99_ms(everyone[0]), "unit": "ms", "goal": ""},
        {
            "what": f"{HONEST} clients beside {len(hostile.KINDS)} hostile ones, p99 attach",
            "value": p99_ms(everyone[1]),
            "unit": "ms",
            "goal": "",
        },
        {"what": "ratio of the two, median of the pairs", "value": middle, "unit": "x", "goal": f"<= {GOAL:g}"},
        {"what": "ratio of the two, worst pair", "value": ratios[-1], "unit": "x", "goal": ""},
        {"what": "attaches", "value": sum(map(len, everyone)), "unit": "", "goal": ""},
        {"what": "attaches that were no hit", "value": failed, "unit": "", "goal": "0"},
    ]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    found = measure()
    if arguments.json:
        sys.stdout.write(json.dumps(found) + "\n")
    else:
        for row in found:
            sys.stdout.write(f"{row['what']:<58} {row['value']:>9.2f} {row['unit']:<3} {row['goal']}\n")
