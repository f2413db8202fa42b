"""Durable, validated, chained, projected events a second at 64 callers, beside raw sqlite3 doing the same work in the same run.

Both write the same events with the same statements: look up ids and stream states, check, insert, chain, project, one group commit for
what waits (synchronous=FULL). The raw side has no SQLAlchemy, no state machine and no typed events: bodies are made beforehand.
"""

from __future__ import annotations

import hashlib
import sqlite3
import tempfile
import threading
import time
from concurrent.futures import Future
from pathlib import Path
from queue import Empty, SimpleQueue

from rows import Row, figure, main, ratio, timing

from wcache.core.model import events as ev
from wcache.core.model.policy import Policy
from wcache.core.model.vocabulary import Kind, Mode, Outcome, Tier
from wcache.ledger.database import connect_writer
from wcache.ledger.store import Ledger, NewEvent, Unit
from wcache.ledger.upgrade import create
from wcache.ledger.writer import LedgerWriter

CALLERS = 64
ROUNDS = 4
SECONDS = 6.0  # of each side
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


def run_callers(seconds: float, work: object, name: str) -> tuple[float, list[float]]:
    """64 threads, each waiting for its own unit before the next; returns (events a second, latencies in ms)."""
    latencies: list[list[float]] = [[] for _ in range(CALLERS)]
    counts = [0] * CALLERS
    stop_at = time.perf_counter() + seconds

    def caller(index: int) -> None:
        number = 0
        while time.perf_counter() < stop_at:
            for unit in units_of_attach(f"a-{name}-{index}-{number}", "r-1"):
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


def measure(seconds: float, directory: Path) -> list[Row]:
    """Both in turns, ROUNDS times, each a part of `seconds`."""
    ledger = Ledger.open(directory / "wcache" / "ledger.sqlite")
    load_residency(ledger, "r-1")
    writer, raw = LedgerWriter(ledger), RawWriter(directory / "raw.sqlite")
    rates: dict[str, list[float]] = {}
    waits: dict[str, list[float]] = {}
    for number in range(ROUNDS):
        for name, work in (("wcache ledger", writer.submit), ("raw sqlite3", raw.submit)):
            rate, latencies = run_callers(seconds / ROUNDS, work, f"{number}")
            rates.setdefault(name, []).append(rate)
            waits.setdefault(name, []).extend(latencies)
    writer.close()
    ledger.close()
    raw.close()
    rows: list[Row] = []
    for name, found in rates.items():
        ours = name == "wcache ledger"
        p99 = sorted(waits[name])[int(len(waits[name]) * 0.99)]
        rows.append(timing(f"{name}: events", found, "1/s", ">= 3000" if ours else ""))
        rows.append(timing(f"{name}: a caller waits", waits[name], "ms"))
        rows.append(figure(f"{name}: a caller waits, p99", p99, "ms", "<= 40" if ours else ""))
    pairs = list(zip(rates["wcache ledger"], rates["raw sqlite3"], strict=True))
    rows.append(ratio("wcache / raw sqlite3, events a second", pairs, "plain sqlite3 writing the same rows", ">= 0.5"))
    return rows


def rounds() -> list[Row]:
    with tempfile.TemporaryDirectory(prefix="wcache-bench-") as directory:
        return measure(SECONDS, Path(directory))


if __name__ == "__main__":
    main(__doc__, rounds)
