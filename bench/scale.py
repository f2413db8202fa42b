"""One node under many engines: 8 ranks of 16 models attached at the same time, then 1,000 attaches a minute, and what they leave behind.

A rank is a process that attaches every model and keeps it mapped. Beside it, in the same run, one rank does the same alone. Then all
ranks together keep a pace of 1,000 attaches a minute, as a node does whose engines are short-lived: how long each takes, what it costs
the daemon, and by how many events and bytes the ledger grows, scaled up to a day; `bench/audit.py --events` takes that many.
"""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

from attach import processor_ms
from places import places, sparse_checkpoint, wcache
from rows import Row, figure, main, ratio, timing

RANKS = 8
MODELS = 16
TENSORS = 272
SIZE_BYTES = 4 << 20
PACE_PER_MINUTE = 1_000
PACED_S = 20
DAY_S = 86_400
RANK = """
import json, sys, time
from wcache.core.model.events import Ranks
from wcache.loader.attach import attach

rank, world, *places = sys.argv[1:]
ranks = Ranks(int(rank), int(world), tp=int(world))

def once(place):
    began = time.perf_counter()
    attachment = attach(place, on_miss="strict", ranks=ranks)
    maps = [attachment.shard(name) for name in attachment.segments]
    ms = (time.perf_counter() - began) * 1e3
    attachment.report_mapped(ms)
    return ms, attachment, maps

print("ready", flush=True)
held = []
for line in sys.stdin:
    what, *numbers = line.split()
    if what == "all":
        began = time.perf_counter()
        held = [once(place) for place in places]
        answer = {"ms": [ms for ms, _, _ in held], "seconds": time.perf_counter() - began}
    elif what == "close":
        for _, attachment, _ in held:
            attachment.close()
        held, answer = [], {}
    else:
        count, every_s = int(numbers[0]), float(numbers[1])
        first, found, late = time.monotonic() + every_s * int(rank) / int(world), [], 0
        for number in range(count):
            due = first + number * every_s
            if (wait := due - time.monotonic()) > 0:
                time.sleep(wait)
            else:
                late += wait < -every_s
            ms, attachment, _ = once(places[number % len(places)])
            attachment.close()
            found.append(ms)
        answer = {"ms": found, "late": late}
    print(json.dumps(answer), flush=True)
"""


@contextmanager
def rank_process(environ: dict[str, str], rank: int, models: list[Path]) -> Iterator[Callable[[str], Callable[[], Any]]]:
    """Calling it sends a line; calling what that returns waits for the answer."""
    command = [sys.executable, "-c", RANK, str(rank), str(RANKS), *map(str, models)]
    with subprocess.Popen(command, env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None and process.stdout is not None
        process.stdout.readline()

        def say(line: str) -> Callable[[], Any]:
            assert process.stdin is not None and process.stdout is not None
            process.stdin.write(line + "\n")
            process.stdin.flush()
            answer = process.stdout
            return lambda: json.loads(answer.readline())

        yield say
        process.stdin.close()


def percentile(values: list[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]


def measure() -> list[Row]:
    rows: list[Row] = []
    with places() as environ, ExitStack() as stack:
        scratch = Path(environ["WCACHE_STATE_DIR"]).parent
        ledger = Path(json.loads(wcache(environ, "daemon", "start", "--json"))["ledger"])
        wcache(environ, "daemon", "stop")
        empty_bytes = ledger.stat().st_size
        wcache(environ, "daemon", "start")
        models = [sparse_checkpoint(scratch / f"m{number}", TENSORS, 1, SIZE_BYTES) for number in range(MODELS)]
        for model in models:
            wcache(environ, "load", str(model))
        os.sync()
        status = json.loads(wcache(environ, "status", "--json"))
        daemon = (int(status["server_pid"]), int(status["vault_pid"]))
        ranks = [stack.enter_context(rank_process(environ, rank, models)) for rank in range(RANKS)]
        rows += attached_at_once(ranks, environ)
        rows += paced(ranks, daemon)
        wcache(environ, "daemon", "stop", "--force")
        rows += left_behind(ledger, empty_bytes)
    return rows


def attached_at_once(ranks: list[Any], environ: dict[str, str]) -> list[Row]:
    """Three rounds, alone and all together in turns."""
    alone: list[dict[str, Any]] = []
    together: list[list[dict[str, Any]]] = []
    took_s: list[float] = []
    leases = 0
    for say in ranks:  # imports, first pages of the ledger: not counted
        say("all")()
        say("close")()
    for _ in range(3):
        alone.append(ranks[0]("all")())
        ranks[0]("close")()
        began = time.perf_counter()
        waiting = [say("all") for say in ranks]
        together.append([wait() for wait in waiting])
        took_s.append(time.perf_counter() - began)
        leases = len(json.loads(wcache(environ, "status", "--json"))["leases"])
        for say in ranks:
            say("close")()
    one = [ms for answer in alone for ms in answer["ms"]]
    every = [ms for round_ in together for answer in round_ for ms in answer["ms"]]
    return [
        figure(f"{RANKS} ranks x {MODELS} models: leases at the same time", leases, "", f"{RANKS * MODELS}"),
        timing("one rank alone, an attach", one, "ms"),
        timing(f"{RANKS} ranks at once, an attach", every, "ms"),
        figure(f"{RANKS} ranks at once, p99 of an attach", percentile(every, 0.99), "ms"),
        timing(f"{RANKS} ranks at once, until all {RANKS * MODELS} are mapped", took_s, "s"),
        ratio(
            f"attaches a second: {RANKS} ranks at once / one alone",
            [(RANKS / all_s, 1 / answer["seconds"]) for all_s, answer in zip(took_s, alone, strict=True)],
            "one rank that attaches the same models alone", ">= 1: nobody waits for nothing",
        ),
    ]  # fmt: skip


def paced(ranks: list[Any], daemon: tuple[int, ...]) -> list[Row]:
    count = PACE_PER_MINUTE * PACED_S // 60 // RANKS
    before_ms, began = processor_ms(*daemon), time.perf_counter()
    waiting = [say(f"pace {count} {60 * RANKS / PACE_PER_MINUTE}") for say in ranks]
    answers = [wait() for wait in waiting]
    took_s = time.perf_counter() - began
    spent_ms = processor_ms(*daemon) - before_ms
    found = [ms for answer in answers for ms in answer["ms"]]
    return [
        figure(f"{PACE_PER_MINUTE:,} attaches a minute: kept", len(found) / took_s * 60, "1/min", f">= {PACE_PER_MINUTE * 0.95:.0f}"),
        figure("attaches that began more than one beat late", sum(answer["late"] for answer in answers), "", "0"),
        timing(f"{PACE_PER_MINUTE:,} attaches a minute, an attach", found, "ms"),
        figure(f"{PACE_PER_MINUTE:,} attaches a minute, p99 of an attach", percentile(found, 0.99), "ms"),
        figure("the daemon's share of one core", spent_ms / took_s / 10, "%"),
        figure("the daemon's processor time an attach", spent_ms / len(found), "ms"),
    ]


def left_behind(ledger: Path, empty_bytes: int) -> list[Row]:
    """Of everything above, loads and all; the file as it is after an orderly stop, less what a new one takes."""
    with closing(sqlite3.connect(f"{ledger.as_uri()}?mode=ro", uri=True)) as db:
        events, attaches = (db.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in ("event", "attach"))
    grown_bytes = ledger.stat().st_size - empty_bytes
    a_day = PACE_PER_MINUTE * DAY_S / 60
    return [
        figure("ledger growth an attach", grown_bytes / attaches, "bytes"),
        figure("events an attach", events / attaches, ""),
        figure(f"a day of {PACE_PER_MINUTE:,} attaches a minute, scaled up: events", events / attaches * a_day / 1e6, "M"),
        figure(f"a day of {PACE_PER_MINUTE:,} attaches a minute, scaled up: ledger", grown_bytes / attaches * a_day / 1e9, "GB"),
    ]


if __name__ == "__main__":
    main(__doc__, measure)
