"""The soak: one daemon, everything that users do to it, in a random order, with processes killed in between.

    python tests/daemon/soak.py [--seconds 600] [--seed N]

Engines attach (zero_copy, copy, pinned, content), keep what they mapped or let it go; checkpoints are loaded, released, evicted, and
overwritten under everybody's feet; engines, workers, server and vault are killed. What an engine maps must be what its checkpoint held at
some time during the attach, and stay that. Every few seconds everything is let go and the daemon is weighed: memory, descriptors, threads,
memory files. In the last part server and vault are left alive, so that a leak of theirs would show. The last line says seconds, operations,
kills, wrong hits, growth.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1]))

from support.corpus import encode_safetensors, make_checkpoint
from support.crowd import make_script, run_clients
from support.daemon import DaemonProcess, alive, children_of, wait_until

from wcache.core.model.errors import DaemonUnreachable, WcacheError
from wcache.core.wire.messages import ReleaseRequest, Status
from wcache.ledger.knowledge import Knowledge
from wcache.ledger.verify import verify

ENGINE = Path(__file__).parents[1] / "support" / "soak_engine.py"
ENGINES = 3
CHECKPOINTS = 6
TENSOR_BYTES = 128 << 10
TENSORS = 8
BUDGET_BYTES = 3 * TENSORS * TENSOR_BYTES + (512 << 10)  # three of the six fit
CHAOS = 0.5  # the part of the time in which server and vault are killed too
PATIENCE_S = 60.0
EVERY_S = {"kill": 1.2, "load": 0.4, "release": 1.5, "overwrite": 2.5}  # on the average
MEMORY_TOLERANCE_BYTES = 2 << 20
LONG_S = 300.0
FD_TOLERANCE = 4
THREAD_TOLERANCE = 2
WARM_ATTACHES = 2000


class Failure(AssertionError):
    """Something that was promised does not hold."""


class Sample(NamedTuple):
    """Server and vault together, with nothing resident, nothing leased, nothing running. Their memory is the proportional set size of
    what is no file."""

    at_s: float
    pss_bytes: int
    fds: int
    threads: int
    memfds: int


class Version(NamedTuple):
    digest: str
    since_s: float
    until_s: float = float("inf")


class Model:
    """One checkpoint directory, and what it held when."""

    def __init__(self, path: Path, source: random.Random) -> None:
        self.path = path
        self._source = source
        make_checkpoint(path, self._tensors(), shards=2)
        self.versions = [Version(self._digest(), 0.0)]

    def overwrite(self) -> None:
        """Other bytes, same names and sizes: in place, in place with the old times, or by renaming."""
        began_s = time.monotonic()
        how = self._source.randrange(3)
        tensors = self._tensors()
        for number, file in enumerate(self._files()):
            part = {name: tensor for position, (name, tensor) in enumerate(tensors.items()) if position % 2 == number}
            data = encode_safetensors(part, {"format": "pt"})
            before = file.stat()
            if how == 2:
                fresh = file.with_suffix(".new")
                fresh.write_bytes(data)
                fresh.rename(file)
            else:
                with file.open("r+b") as opened:
                    opened.write(data)
                if how == 1:
                    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
        self.versions[-1] = self.versions[-1]._replace(until_s=time.monotonic())
        self.versions.append(Version(self._digest(), began_s))

    def held(self, digest: str, since_s: float, until_s: float) -> bool:
        """Whether these were its bytes at some time between."""
        return any(one.digest == digest and one.since_s <= until_s and one.until_s >= since_s for one in self.versions)

    def _tensors(self) -> dict[str, Any]:
        return {f"layer.{number}.weight": ("U8", (TENSOR_BYTES,), self._source.randbytes(TENSOR_BYTES)) for number in range(TENSORS)}

    def _files(self) -> list[Path]:
        return sorted(self.path.glob("*.safetensors"))

    def _digest(self) -> str:
        return hashlib.sha256(b"".join(file.read_bytes() for file in self._files())).hexdigest()


class Engine:
    """The process of tests/support/soak_engine.py. It has at most one order at a time."""

    def __init__(self, environ: dict[str, str], errors: Path) -> None:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("WCACHE_")}
        with errors.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, str(ENGINE)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, env={**kept, **environ}
            )
        self.order: dict[str, Any] | None = None
        self.model: Model | None = None
        self.asked_s = 0.0
        self.keeps = False
        self._buffer = b""

    def tell(self, order: dict[str, Any], model: Model | None = None) -> None:
        assert self.process.stdin is not None and self.order is None
        self.order, self.model, self.asked_s = order, model, time.monotonic()
        self.process.stdin.write(json.dumps(order).encode() + b"\n")
        self.process.stdin.flush()

    def fileno(self) -> int:
        assert self.process.stdout is not None
        return self.process.stdout.fileno()

    def answer(self) -> dict[str, Any] | None:
        """After select(2) said that there is something; None while it is incomplete. Raises Failure where the process has ended."""
        data = os.read(self.fileno(), 65536)
        if not data:
            raise Failure(f"an engine ended by itself, {self.process.wait(PATIENCE_S)}, while it was to {self.order}")
        self._buffer += data
        if not self._buffer.endswith(b"\n"):
            return None
        said: dict[str, Any] = json.loads(self._buffer)
        self._buffer = b""
        return said

    def end(self) -> None:
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                with suppress(OSError):
                    stream.close()
        self.process.wait(PATIENCE_S)


class Soak:
    def __init__(self, seconds: float, seed: int, say: Callable[[str], None]) -> None:
        self.seconds = seconds
        self.random = random.Random(seed)
        self.say = say
        self.counts: Counter[str] = Counter()
        self.kills: Counter[str] = Counter()
        self.reasons: Counter[str] = Counter()
        self.wrong: list[str] = []
        self.hits: list[str] = []
        self.samples: list[Sample] = []
        self.calm: list[Sample] = []
        self.disk = Path(tempfile.mkdtemp(prefix=".scratch-soak-", dir=Path(__file__).parents[1]))
        self.models = [Model(self.disk / f"model-{number}", self.random) for number in range(CHECKPOINTS)]
        self.daemon = DaemonProcess(environ={"WCACHE_BUDGET_BYTES": str(BUDGET_BYTES)})
        self.engines: list[Engine] = []
        self.threads: list[threading.Thread] = []
        self.defects: list[str] = []
        self.began_s = time.monotonic()
        self.warm = False

    def run(self) -> None:
        self.daemon.start()
        self.engines = [self._engine() for _ in range(ENGINES)]
        sample_every_s = max(5.0, self.seconds / 40)
        due = {name: self.began_s + self.random.expovariate(1 / mean_s) for name, mean_s in EVERY_S.items()}
        sample_at_s = self.began_s + sample_every_s / 2
        while (now_s := time.monotonic()) - self.began_s < self.seconds:
            if self.defects:
                raise Failure(self.defects[0])
            for name, mean_s in EVERY_S.items():
                if now_s >= due[name]:
                    due[name] = now_s + self.random.expovariate(1 / mean_s)
                    getattr(self, f"_{name}")()
            for engine in self.engines:
                if engine.order is None:
                    self._employ(engine)
            self._listen(0.02)
            if self.calm_now and not self.warm:
                self._warm_up()
                sample_at_s = time.monotonic()
            if now_s >= sample_at_s:
                self._weigh()
                sample_at_s = time.monotonic() + sample_every_s
        self._weigh()
        self._judge()

    def close(self) -> None:
        for engine in self.engines:
            with suppress(OSError):
                engine.process.kill()
            engine.end()
        with suppress(WcacheError):
            for pid in self._pids():
                os.kill(pid, signal.SIGKILL)
        self.daemon.cleanup()
        shutil.rmtree(self.disk, ignore_errors=True)

    @property
    def operations(self) -> int:
        return sum(self.counts.values())

    @property
    def calm_now(self) -> bool:
        return time.monotonic() - self.began_s > self.seconds * CHAOS

    # --- engines ---

    def _engine(self) -> Engine:
        return Engine(self.daemon.env, self.disk / "engines.log")

    def _employ(self, engine: Engine) -> None:
        chance = self.random.random()
        if engine.keeps and chance < 0.2:
            engine.tell({"do": "drop"})
            engine.keeps = False
        elif engine.keeps and chance < 0.4:
            engine.tell({"do": "check"})
        else:
            model = self.random.choice(self.models)
            keep = self.random.random() < 0.3
            policy = {"accept": "content" if self.random.random() < 0.15 else "pinned", "wait_s": 3}
            order = {"do": "attach", "path": str(model.path), "policy": policy, "keep": keep, "copy": self.random.random() < 0.4}
            engine.tell(order, model)
            engine.keeps = engine.keeps or keep

    def _listen(self, timeout_s: float) -> None:
        ready, _, _ = select.select(self.engines, [], [], timeout_s)
        for engine in ready:
            said = engine.answer()
            if said is not None:
                self._take(engine, said)

    def _take(self, engine: Engine, said: dict[str, Any]) -> None:
        order, model, asked_s = engine.order, engine.model, engine.asked_s
        engine.order = None
        assert order is not None
        if order["do"] == "check":
            self.counts["check"] += 1
            if said["changed"]:
                self.wrong.append(f"{said['changed']} mappings of an engine changed under it")
        elif order["do"] == "attach":
            assert model is not None
            if not said["hit"]:
                self.counts["miss"] += 1
                self.reasons[said["reason"]] += 1
                return
            self.counts["attach copy" if order["copy"] else "attach zero_copy"] += 1
            self.hits.append(said["attach"])
            if said["seq"] is None:
                self.wrong.append(f"attach {said['attach']} is a hit without a record")
            if not model.held(said["digest"], asked_s, time.monotonic()):
                self.wrong.append(f"attach {said['attach']} of {model.path.name} mapped what it never held at that time")

    def _settle_engines(self) -> None:
        """Every order is answered, everything is dropped."""
        for order in (None, {"do": "drop"}):
            for engine in self.engines:
                if order is not None:
                    engine.tell(order)
                    engine.keeps = False
            deadline_s = time.monotonic() + PATIENCE_S
            while any(engine.order is not None for engine in self.engines):
                if time.monotonic() > deadline_s:
                    raise Failure(f"an engine did not answer for {PATIENCE_S} s")
                self._listen(0.1)

    # --- what happens ---

    def _in_thread(self, call: Callable[[], None]) -> None:
        def run() -> None:
            try:
                call()
            except WcacheError as error:
                self.reasons[f"{error.code}"] += 1
            except Exception as error:
                self.defects.append(f"{type(error).__name__}: {error}")

        self.threads = [thread for thread in self.threads if thread.is_alive()]
        thread = threading.Thread(target=run, daemon=True)
        self.threads.append(thread)
        thread.start()

    def _load(self) -> None:
        model = self.random.choice(self.models)
        if len(self.threads) >= 3:
            self.threads = [thread for thread in self.threads if thread.is_alive()]
            return

        def load() -> None:
            loaded = self.daemon.load(model.path)
            self.counts["load reused" if loaded.reused else "load"] += 1

        self._in_thread(load)

    def _release(self) -> None:
        number = self.random.random()

        def release() -> None:
            found = [one.view.residency for one in self.daemon.status().residencies if one.phase is None]
            if found:
                self._give_back(found[int(number * len(found))])

        self._in_thread(release)

    def _give_back(self, residency: str) -> None:
        channel = self.daemon.connect()
        try:
            channel.call(ReleaseRequest(residency=residency, why="soak"))
            self.counts["release"] += 1
        finally:
            channel.close()

    def _overwrite(self) -> None:
        self.random.choice(self.models).overwrite()
        self.counts["overwrite"] += 1

    def _kill(self) -> None:
        kinds = ("engine", "worker") if self.calm_now else ("engine", "engine", "worker", "server", "vault")
        kind = self.random.choice(kinds)
        if kind == "engine":
            position = self.random.randrange(len(self.engines))
            engine = self.engines[position]
            engine.process.kill()
            engine.end()
            self.engines[position] = self._engine()
        elif kind == "worker":
            workers = children_of(self._pids()[0])
            workers = [pid for pid in workers if b"wcache.daemon.worker" in _cmdline(pid)]
            if not workers:
                return
            with suppress(ProcessLookupError):
                os.kill(self.random.choice(workers), signal.SIGKILL)
        else:
            victim = self._pids()[0 if kind == "server" else 1]
            os.kill(victim, signal.SIGKILL)
            wait_until(lambda: self._serves_without(victim), PATIENCE_S, f"serving after the {kind} was killed")
            if self.daemon.process is not None:
                self.daemon.process.poll()
        self.kills[kind] += 1

    def _serves_without(self, victim: int) -> bool:
        with suppress(DaemonUnreachable):
            pids = self._pids_now()
            return victim not in pids and all(alive(pid) for pid in pids)
        return False

    def _pids_now(self) -> tuple[int, int]:
        status = self.daemon.status()
        return status.server_pid, status.vault_pid

    def _pids(self) -> tuple[int, int]:
        status = self._status()
        return status.server_pid, status.vault_pid

    def _status(self) -> Status:
        """Of a daemon that may be between two servers."""
        deadline_s = time.monotonic() + PATIENCE_S
        while True:
            try:
                return self.daemon.status()
            except DaemonUnreachable:
                if time.monotonic() > deadline_s:
                    raise
                time.sleep(0.05)

    # --- what is measured ---

    def _warm_up(self) -> None:
        """SQLite's page caches fill up with the ledger's pages, once in a server's life: that must not look like a leak."""
        self._weigh()
        model = self.models[0]
        self.daemon.load(model.path)
        script = make_script(self.daemon.settings.socket_path, model.path)
        turns = run_clients(script, 8, WARM_ATTACHES // 8)
        failed = [turn.failure for turn in turns if turn.failure]
        if failed:
            raise Failure(f"{len(failed)} of {len(turns)} attaches at a quiet moment: {failed[0]}")
        self.counts["attach to warm up"] += len(turns)
        self.warm = True

    def _weigh(self) -> None:
        self._settle_engines()
        for thread in self.threads:
            thread.join(PATIENCE_S)
        deadline_s = time.monotonic() + PATIENCE_S
        while True:
            status = self._status()
            if not status.residencies and not status.leases and not status.journalled and not self._busy(status):
                break
            if time.monotonic() > deadline_s:
                raise Failure(f"does not come to rest: {status}")
            for one in status.residencies:
                if one.phase is None and not one.leases:
                    with suppress(WcacheError):
                        self._give_back(one.view.residency)
            time.sleep(0.05)
        sample = self._sample(status)
        if sample.memfds:  # the vault lets go a moment later
            wait_until(lambda: not self._sample(status).memfds, PATIENCE_S, "memory of released weights stays")
            sample = self._sample(status)
        self.samples.append(sample)
        if self.warm:
            self.calm.append(sample)
        self.say(
            f"{sample.at_s:6.1f} s  {self.operations} operations, {sum(self.kills.values())} kills, {len(self.wrong)} wrong hits; "
            f"pss {sample.pss_bytes / 1e6:.2f} MB, {sample.fds} descriptors, {sample.threads} threads, {sample.memfds} memory files"
        )
        if self.wrong:
            raise Failure(self.wrong[0])

    def _busy(self, status: Status) -> bool:
        return any(b"wcache.daemon.worker" in _cmdline(pid) for pid in children_of(status.server_pid))

    def _sample(self, status: Status) -> Sample:
        pss_bytes = fds = threads = memfds = 0
        for pid in (status.server_pid, status.vault_pid):
            process = Path(f"/proc/{pid}")
            rollup = (process / "smaps_rollup").read_text()
            # Without pages of files: how many share those depends on who else runs Python at that moment.
            pss_bytes += sum(int(rollup.split(f"{name}:", 1)[1].split()[0]) * 1024 for name in ("Pss_Anon", "Pss_Shmem"))
            threads += len(os.listdir(process / "task"))
            for fd in os.listdir(process / "fd"):
                with suppress(OSError):
                    memory = os.readlink(process / "fd" / fd).startswith("/memfd:wcache")
                    memfds += memory
                    fds += not memory
        return Sample(time.monotonic() - self.began_s, pss_bytes, fds, threads, memfds)

    @property
    def growth(self) -> dict[str, float]:
        """Of the calm part, by its slope: bytes of memory, over the whole part. Of the others, the spread over the whole run."""
        times, sizes = [one.at_s for one in self.calm], [float(one.pss_bytes) for one in self.calm]
        span_s = times[-1] - times[0] if len(times) > 1 else 0.0
        return {
            "pss": slope(times, sizes) * span_s,
            "descriptors": spread([one.fds for one in self.samples]),
            "threads": spread([one.threads for one in self.samples]),
            "memfds": max((one.memfds for one in self.samples), default=0),
        }

    def _judge(self) -> None:
        growth = self.growth
        limits = {"pss": MEMORY_TOLERANCE_BYTES, "descriptors": FD_TOLERANCE, "threads": THREAD_TOLERANCE, "memfds": 0}
        for name, limit in limits.items():
            if growth[name] > limit:
                raise Failure(f"{name} grew by {growth[name]:.0f}, {limit} is tolerated")
        problems = verify(self.daemon.settings.ledger).problems
        if problems:
            raise Failure(f"the chain is damaged: {problems[:3]}")
        knowledge = Knowledge(self.daemon.settings.ledger)
        try:
            for name in self.hits:
                row = knowledge.attach(name)
                if row is None or row["decision"] != "hit":
                    raise Failure(f"attach {name} mapped weights, and the ledger says {row and row['decision']}")
            wait_until(lambda: not knowledge.open_attaches(), what="the ledger believes in leases that nobody has")
        finally:
            knowledge.close()
        self.counts["eviction"] += sum(event.why.startswith("evicted") for event in self.daemon.events("release.requested"))  # type: ignore[attr-defined]
        # What comes two or three times in a run is left to chance: it may be demanded of a long run only.
        rare = ("attach copy", "miss", "release", "overwrite", "eviction")
        for name in ("attach zero_copy", "load", *(rare if self.seconds >= LONG_S else ())):
            if not self.counts[name]:
                raise Failure(f"nothing was tried: no {name}")
        if "a defect" in self.daemon.log():
            raise Failure(f"a defect: {self.daemon.log()[-2000:]}")


def slope(times: list[float], values: list[float]) -> float:
    """Of the least-squares line, per second."""
    if len(times) < 2:
        return 0.0
    middle_s, middle = sum(times) / len(times), sum(values) / len(values)
    below = sum((at_s - middle_s) ** 2 for at_s in times)
    return sum((at_s - middle_s) * (value - middle) for at_s, value in zip(times, values, strict=True)) / below


def spread(values: list[int]) -> int:
    return max(values, default=0) - min(values, default=0)


def _cmdline(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def run(seconds: float, seed: int, say: Callable[[str], None] = lambda line: None) -> tuple[str, str]:
    """The last line, and what failed (nothing, if all is well)."""
    soak = Soak(seconds, seed, say)
    failure = ""
    try:
        soak.run()
    except (AssertionError, WcacheError, OSError, subprocess.SubprocessError) as error:
        failure = f"{type(error).__name__}: {error}"
        say(f"FAILED {failure}\n{soak.daemon.log()[-3000:]}")
    finally:
        soak.close()
    growth = soak.growth
    say(f"operations {dict(sorted(soak.counts.items()))}; refusals and misses {dict(soak.reasons.most_common())}")
    kills = ", ".join(f"{kind} {number}" for kind, number in sorted(soak.kills.items()))
    last = (
        f"soak: seconds {time.monotonic() - soak.began_s:.0f}, operations {soak.operations}, kills {sum(soak.kills.values())} ({kills}), "
        f"wrong hits {len(soak.wrong)}, growth: pss {growth['pss'] / 1024:+.0f} KiB, descriptors {growth['descriptors']:+.0f}, "
        f"threads {growth['threads']:+.0f}, memory files {growth['memfds']:+.0f}, seed {seed}{', FAILED' if failure else ''}"
    )
    return last, failure


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    options = parser.parse_args()
    print(f"soak of {options.seconds:.0f} s, seed {options.seed}", flush=True)
    last, failure = run(options.seconds, options.seed, lambda line: print(line, flush=True))
    print(last)
    return 1 if failure else 0


if __name__ == "__main__":
    raise SystemExit(main())
