"""Durable, validated, chained, projected events a second at 64 callers, beside raw sqlite3 doing the same work in the same run.

Both write the same events with the same statements: look up ids and stream states, check, insert, chain, project, one group commit for
what waits (synchronous=FULL). The raw side has no SQLAlchemy, no state machine and no typed events: bodies are made beforehand.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sqlite3
import statistics
import sys
import tempfile
import threading
import time
from concurrent.futures import Future
from pathlib import Path
from queue import Empty, SimpleQueue

from wcache.core.model import events as ev
from wcache.core.model.policy import Policy
from wcache.core.model.vocabulary import Kind, Mode, Outcome, Tier
from wcache.ledger.database import connect_writer
from wcache.ledger.store import Ledger, NewEvent, Unit
from wcache.ledger.upgrade import create
from wcache.ledger.writer import LedgerWriter

CALLERS = 64
POLICY = Policy()


def units_of_attach(attach: str, residency: str) -> list[Unit]:
    """What one hit writes: decision and lease together, then the map, then the end of the lease."""
    served = ev.Identity("/models/base", "/models/base", key="k" * 64, table_digest="t" * 64, digest="w" * 64)
    evidence = (ev.EvidenceRef(Tier.PINNED, "f" * 32, "w" * 64, True),)
    decided = ev.AttachDecided(
        attach=attach, launch="l-1", host="h", engine=ev.Engine("bench", "1", 1), peer=ev.Peer(0, 1), ranks=ev.Ranks(), asked=served,
        served=served, residency=residency, kind=Kind.RAW, device="cpu", outcome=Outcome.HIT, reason=None, detail="", tier=Tier.PINNED,
        mode=Mode.ZERO_COPY, evidence=evidence, policy=POLICY.digest(), policy_body=POLICY, decided_by="server",
    )  # fmt: skip
    mapped = ev.MapCompleted(attach=attach, mode=Mode.ZERO_COPY, tensors=272, bytes=1 << 28, copied_tensors=0, copied_bytes=0, ms=1.5)
    return [
        (NewEvent(event=decided, expected_version=0), NewEvent(event=ev.LeaseGranted(attach=attach, residency=residency))),
        (NewEvent(event=mapped),),
        (NewEvent(event=ev.LeaseEnded(attach=attach, how="closed")),),
    ]


def load_residency(ledger: Ledger, residency: str) -> None:
    served = ev.Identity("/models/base", "/models/base", key="k" * 64, table_digest="t" * 64, digest="w" * 64)
    started = ev.LoadStarted(residency=residency, asked=served, kind=Kind.RAW, device="cpu", bytes=1, tensors=1, shards=1, instance="d-1")
    completed = ev.LoadCompleted(
        residency=residency, served=served, kind=Kind.RAW, device="cpu", bytes=1, tensors=1, shards=1, weights_digest="w" * 64,
        table_digest="t" * 64, dtypes=("BF16",), fingerprints=(), seconds={},
    )  # fmt: skip
    results = ledger.append_batch([(NewEvent(event=started), NewEvent(event=completed))])
    if isinstance(results[0], Exception):
        raise results[0]


def run_callers(seconds: float, work: object) -> tuple[float, list[float]]:
    """64 threads, each waiting for its own unit before the next; returns (events a second, latencies in ms)."""
    latencies: list[list[float]] = [[] for _ in range(CALLERS)]
    counts = [0] * CALLERS
    stop_at = time.perf_counter() + seconds

    def caller(index: int) -> None:
        number = 0
        while time.perf_counter() < stop_at:
            for unit in units_of_attach(f"a-{index}-{number}", "r-1"):
                before = time.perf_counter()
                work(unit).result()  # type: ignore[operator]
                latencies[index].append((time.perf_counter() - before) * 1e3)
                counts[index] += len(unit)
            number += 1

    threads = [threading.Thread(target=caller, args=(index,)) for index in range(CALLERS)]
    begun = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    took = time.perf_counter() - begun
    return sum(counts) / took, sorted(value for values in latencies for value in values)


class RawWriter:
    """The same group commit in plain sqlite3 on the same schema: the least that the same promises cost."""

    def __init__(self, path: Path) -> None:
        with connect_writer(path).begin() as connection:
            create(connection)
        self.jobs: SimpleQueue[tuple[Unit, Future[list[int]]] | None] = SimpleQueue()
        self.path = path
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def submit(self, unit: Unit) -> Future[list[int]]:
        future: Future[list[int]] = Future()
        self.jobs.put((unit, future))
        return future

    def close(self) -> None:
        self.jobs.put(None)
        self.thread.join()

    def run(self) -> None:
        db = sqlite3.connect(self.path, isolation_level=None)
        for pragma in ("journal_mode=WAL", "synchronous=FULL", "wal_autocheckpoint=2000"):
            db.execute(f"PRAGMA {pragma}")
        seq, link = 0, b"\0" * 32
        columns = [(row[1], "some text" if row[2] == "TEXT" else 1) for row in db.execute("PRAGMA table_info(attach)")]
        attach_sql = f"INSERT OR REPLACE INTO attach VALUES ({','.join('?' * len(columns))})"
        while (job := self.jobs.get()) is not None:
            batch = [job]
            while len(batch) < 256:
                try:
                    more = self.jobs.get_nowait()
                except Empty:
                    break
                if more is None:
                    self.jobs.put(None)
                    break
                batch.append(more)
            new = [(event, ev.stream_of(event.event), ev.encode_payload(event.event)) for unit, _ in batch for event in unit]
            db.execute("BEGIN IMMEDIATE")
            db.execute(
                f"SELECT event_id FROM event WHERE event_id IN ({','.join('?' * len(new))})", [n[0].event_id for n in new]
            ).fetchall()
            streams = dict(
                db.execute(
                    f"SELECT stream, version FROM stream WHERE stream IN ({','.join('?' * len(new))})", [n[1] for n in new]
                ).fetchall()
            )
            rows, attaches = [], {}
            for event, stream, payload in new:
                seq += 1
                streams[stream] = streams.get(stream, 0) + 1
                salt = b"s" * 16
                hashed = hashlib.sha256(salt + payload).digest()
                leaf = hashlib.sha256(f"{seq}{stream}{streams[stream]}{event.event_id}".encode() + hashed).digest()
                link = hashlib.sha256(link + leaf).digest()
                now = time.time_ns()
                rows.append(
                    (seq, stream, streams[stream], event.event_id, event.event.type, 1, now, now, 0, payload.decode(), salt, hashed, link)
                )
                attaches[stream] = [stream if name == "attach" else seq if name == "seq" else default for name, default in columns]
            db.executemany("INSERT INTO event VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?)", rows)
            db.executemany("INSERT OR REPLACE INTO stream VALUES (?,?,'')", list(streams.items()))
            db.executemany(attach_sql, list(attaches.values()))
            db.execute("COMMIT")
            for unit, future in batch:
                future.set_result([0] * len(unit))


def measure(seconds: float, directory: Path) -> dict[str, dict[str, float]]:
    results = {}
    ledger = Ledger.open(directory / "wcache" / "ledger.sqlite")
    load_residency(ledger, "r-1")
    writer = LedgerWriter(ledger)
    results["wcache ledger"] = _figures(*run_callers(seconds, writer.submit))
    writer.close()
    ledger.close()
    raw = RawWriter(directory / "raw.sqlite")
    results["raw sqlite3"] = _figures(*run_callers(seconds, raw.submit))
    raw.close()
    return results


def rows(results: dict[str, dict[str, float]]) -> list[dict[str, object]]:
    goals = {("wcache ledger", "events_per_s"): ">= 3000", ("wcache ledger", "p99_ms"): "<= 40"}
    found: list[dict[str, object]] = []
    for name, figures in results.items():
        for figure, value in figures.items():
            what, unit = ("events", "1/s") if figure == "events_per_s" else (figure.removesuffix("_ms"), "ms")
            found.append({"what": f"{name}: {what}", "value": value, "unit": unit, "goal": goals.get((name, figure), "")})
    ours, raw = (results[name]["events_per_s"] for name in ("wcache ledger", "raw sqlite3"))
    return [*found, {"what": "wcache / raw sqlite3", "value": ours / raw, "unit": "x", "goal": ""}]


def _figures(rate: float, latencies: list[float]) -> dict[str, float]:
    p99 = latencies[int(len(latencies) * 0.99)]
    return {"events_per_s": round(rate), "p50_ms": round(statistics.median(latencies), 2), "p99_ms": round(p99, 2)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--directory", type=Path, help="where to write (default: a temporary directory)")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="wcache-bench-", dir=arguments.directory) as directory:
        results = measure(arguments.seconds, Path(directory))
    if arguments.json:
        json.dump(rows(results), sys.stdout)
        return
    print(f"durable, validated, chained, projected events; {CALLERS} callers, group commit")
    for name, figures in results.items():
        print(f"  {name:<16} {figures['events_per_s']:>7,} events/s   p50 {figures['p50_ms']:>6} ms   p99 {figures['p99_ms']:>6} ms")


if __name__ == "__main__":
    main()
