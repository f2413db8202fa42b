"""300 clients at once, 10 of them hostile: how long the other 290 wait for their weights, against the same run without the ten.

Every honest client attaches again and again without a pause (connect, handshake, offer, recorded decision, descriptors), so the daemon is
saturated and a time is mostly a place in the queue. Runs with and without alternate; the ratio of their p99 is what counts.
"""

from __future__ import annotations

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
from rows import Row, figure, main, ratio

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


def measure() -> list[Row]:
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
    pairs = [(p99_ms(with_them), p99_ms(without)) for without, with_them in zip(alone, beside, strict=True)]
    everyone = [[turn for run in runs for turn in run] for runs in (alone, beside)]
    return [
        figure(f"{HONEST} clients, p99 attach", p99_ms(everyone[0]), "ms"),
        figure(f"{HONEST} clients beside {len(hostile.KINDS)} hostile ones, p99 attach", p99_ms(everyone[1]), "ms"),
        ratio("p99 beside hostile clients / without them", pairs, "the same clients alone, in turns", f"<= {GOAL:g}"),
        figure("attaches", sum(map(len, everyone)), ""),
        figure("attaches that were no hit", failed, "", "0"),
    ]


if __name__ == "__main__":
    main(__doc__, measure)
