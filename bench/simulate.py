"""A ledger of a million events: a fleet of 200 nodes over a year, written in minutes instead of hours.

`python bench/simulate.py LEDGER` makes one to try audits and reports on. The fast path writes what the real one would: the same encoding,
state machines, chain and projections, in one transaction for thousands of events, with the clock of the story instead of today's.
`wcache ledger verify` does not know the difference, and a test appends the same story the ordinary way. The same seed gives the same file.
"""

from __future__ import annotations

import argparse
import hashlib
import random
import sqlite3
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from fleet import Told, story

from wcache.core.model.events import encode_payload, stream_of
from wcache.ledger import chain, schema
from wcache.ledger.projection import Accepted, project
from wcache.ledger.store import Ledger
from wcache.ledger.streams import Streams

EVENTS = 1_000_000
NODES = 200
SEED = 1
BATCH_EVENTS = 20_000
RECORDED_AFTER_NS = 3_000_000

_INSERT = schema.insert(schema.event)
_NAMES = (
    "seq",
    "stream",
    "version",
    "event_id",
    "type",
    "schema",
    "occurred_ns",
    "recorded_ns",
    "late",
    "payload",
    "salt",
    "payload_hash",
    "chain",
)


class Writer:
    """Fills a new ledger file. Nothing is durable before `close`."""

    def __init__(self, path: Path, seed: int) -> None:
        with Ledger.open(path):
            pass
        origin = hashlib.sha256(f"simulation {seed}".encode()).hexdigest()[:32]
        self._db = sqlite3.connect(path, isolation_level=None)
        for pragma in ("synchronous=OFF", "cache_size=-262144", "wal_autocheckpoint=4000"):
            self._db.execute(f"PRAGMA {pragma}")
        self._db.execute("UPDATE meta SET value = ? WHERE key = 'origin'", (origin,))
        self._random = random.Random(seed)
        self._chain = chain.Chain(origin)
        self._link = self._chain.genesis
        self._streams = Streams()
        self._seq = self._recorded_ns = 0

    def write(self, told: list[Told]) -> int:
        """Appends units in one transaction; returns the number of events. An illegal one is a mistake of the story and raises."""
        rows, accepted = [], []
        for occurred_ns, _, unit in told:
            self._recorded_ns = max(self._recorded_ns, occurred_ns + RECORDED_AFTER_NS)
            for event in unit:
                stream, payload = stream_of(event), encode_payload(event)
                version, state, late = self._streams.advance(stream, event, None)
                self._streams.keep()
                self._seq += 1
                salt, event_id = self._random.randbytes(chain.SALT_BYTES), f"{self._random.getrandbits(128):032x}"
                hashed = chain.payload_hash(salt, payload)
                leaf = self._chain.leaf(
                    self._seq, stream, version, event.type, event.schema, event_id, occurred_ns, self._recorded_ns, late, hashed
                )
                self._link = chain.Chain.link(self._link, leaf)
                values = (
                    self._seq, stream, version, event_id, event.type, event.schema, occurred_ns, self._recorded_ns, int(late),
                    payload.decode(), salt, hashed, self._link,
                )  # fmt: skip
                rows.append(values)
                accepted.append(Accepted(self._seq, occurred_ns, self._recorded_ns, late, stream, event, state))
        self._db.execute("BEGIN IMMEDIATE")
        self._db.executemany(f"INSERT INTO event ({', '.join(_NAMES)}) VALUES ({', '.join('?' * len(_NAMES))})", rows)
        self._streams.write(self._db)
        project(self._db, accepted)
        self._db.execute("COMMIT")
        return len(rows)

    def close(self) -> None:
        self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        self._db.close()


def batches(events: int, nodes: int, seed: int) -> Iterator[list[Told]]:
    """The story in pieces, cut at the unit that reaches `events`."""
    batch: list[Told] = []
    held = done = 0
    for told in story(seed, nodes, events):
        batch.append(told)
        held += len(told.unit)
        if held >= BATCH_EVENTS or done + held >= events:
            yield batch
            done += held
            batch, held = [], 0
            if done >= events:
                return


def simulate(path: Path, events: int = EVENTS, nodes: int = NODES, seed: int = SEED, progress: Callable[[int], None] | None = None) -> int:
    """Makes a new ledger at `path`; returns how many events it has (a unit is never cut, so a few more than asked for)."""
    if path.exists():
        raise SystemExit(f"{path} is there already: choose another name")
    writer = Writer(path, seed)
    done = 0
    for batch in batches(events, nodes, seed):
        done += writer.write(batch)
        if progress is not None:
            progress(done)
    writer.close()
    return done


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ledger", type=Path, help="the file to make")
    parser.add_argument("--events", type=int, default=EVENTS)
    parser.add_argument("--nodes", type=int, default=NODES)
    parser.add_argument("--seed", type=int, default=SEED)
    arguments = parser.parse_args()
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    began = time.perf_counter()
    columns = (TextColumn("simulate"), BarColumn(), MofNCompleteColumn(), TextColumn("events"), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=arguments.events)
        count = simulate(arguments.ledger, arguments.events, arguments.nodes, arguments.seed, lambda done: bar.update(task, completed=done))
    took_s = time.perf_counter() - began
    sys.stdout.write(f"{arguments.ledger}: {count} events of {arguments.nodes} nodes in {took_s:.0f} s ({count / took_s:,.0f}/s)\n")


if __name__ == "__main__":
    main()
