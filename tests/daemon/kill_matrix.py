"""The kill matrix (D1): every process, by every signal, in every phase.

    python tests/daemon/kill_matrix.py [--rounds 216] [--seed N]

Real processes, one daemon that lives as long as it may. After each round: every acknowledged event is in the ledger, the weights are those
of the files, nothing is left over (processes, memory files, descriptors, leases), and a start works. docs/kill-matrix.md says what each
combination means; `stays()` and `meaning()` are what this program holds the daemon to, and a test compares the two. The last line says
rounds, events, losses.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
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
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1]))

from support.attaching import attach
from support.corpus import make_checkpoint
from support.daemon import DaemonProcess, alive, children_of, links_of, wait_until

from wcache.core.checkpoint.identity import filesystem_kind, pinnable
from wcache.core.model.errors import DaemonUnreachable, WcacheError
from wcache.core.model.events import LoadCompleted, ReleaseCompleted
from wcache.core.model.vocabulary import Outcome
from wcache.core.wire.messages import Done, Loaded, ReleaseRequest, Status
from wcache.ledger.knowledge import Knowledge
from wcache.ledger.store import Ledger
from wcache.ledger.verify import verify

TARGETS = ("server", "vault", "worker", "engine")
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGKILL)
PHASES = ("idle", "loading", "hand-over", "mapped", "committing", "releasing")
ENGINE = Path(__file__).parents[1] / "support" / "kill_engine.py"
PATIENCE_S = 60.0


class Combination(NamedTuple):
    target: str
    signal: signal.Signals
    phase: str

    def __str__(self) -> str:
        return f"{self.target} {self.signal.name} {self.phase}"


MATRIX = tuple(Combination(*each) for each in itertools.product(TARGETS, SIGNALS, PHASES))
LEASED = ("hand-over", "mapped", "committing")


def stays(one: Combination) -> bool:
    """Whether the daemon goes on serving, with everything that was resident."""
    if one.target in ("worker", "engine") or one.signal is signal.SIGKILL:
        return True
    return one.signal is signal.SIGINT and one.phase in LEASED


def meaning(one: Combination) -> str:
    """What the user sees, in one sentence: a row of docs/kill-matrix.md."""
    load = "the load ends as `load.failed` and can be repeated" if one.phase == "loading" else ""
    if one.target == "engine":
        lost = {
            "mapped": "its lease ends",
            "committing": "its lease ends",
            "hand-over": "its attach ends unfinished, its lease too",
        }
        other = {"loading": "the load it asked for goes on", "releasing": "the release goes on"}
        return (lost | other).get(one.phase, "nothing") + "; weights stay resident"
    if one.target == "worker":
        if one.signal is signal.SIGINT:
            return "ignored: the worker finishes"
        return "the worker's load ends as `load.failed` and can be repeated; everything else goes on"
    if not stays(one):
        return "ordered end: leases and residencies end on record, mapped engines keep their memory"
    if one.signal is signal.SIGINT:
        return "refused with a list of the leases; a second one within ten seconds ends the daemon in order"
    if one.target == "vault":
        return "the server starts another vault and deposits everything again; nobody notices"
    parts = {
        "loading": load,
        "hand-over": "the attach is decided again and falls back to the disk, on record",
        "mapped": "the engine keeps weights and lease",
        "committing": "the engine keeps weights and lease, and appends itself what was not acknowledged",
        "releasing": "the release is finished, or was never asked for",
    }
    return "; ".join(part for part in ("another server takes over within a second", parts.get(one.phase, "")) if part)


class Loss(AssertionError):
    """Something that was promised is gone."""


class Engine:
    """The program of tests/support/kill_engine.py."""

    def __init__(self, daemon: DaemonProcess, phase: str, checkpoint: Path) -> None:
        environ = {name: value for name, value in os.environ.items() if not name.startswith("WCACHE_")}
        self.phase = phase
        self.process = subprocess.Popen(
            [sys.executable, str(ENGINE), phase, str(checkpoint)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env={**environ, **daemon.env},
        )  # fmt: skip
        self.recorded: list[str] = []
        self._buffer = b""

    def line(self, timeout_s: float = PATIENCE_S) -> dict[str, Any] | None:
        """The next thing it says that is no recorded event; None when it has ended."""
        assert self.process.stdout is not None
        deadline = time.monotonic() + timeout_s
        while True:
            head, found, rest = self._buffer.partition(b"\n")
            if found:
                self._buffer = rest
                said: dict[str, Any] = json.loads(head)
                if "recorded" not in said:
                    return said
                self.recorded.append(said["recorded"])
                continue
            left_s = deadline - time.monotonic()
            if left_s <= 0 or not select.select([self.process.stdout], [], [], left_s)[0]:
                raise Loss(f"the engine said nothing for {timeout_s} s")
            data = os.read(self.process.stdout.fileno(), 65536)
            if not data:
                return None
            self._buffer += data

    def tell(self, word: str) -> None:
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):
            self.process.stdin.write(word.encode() + b"\n")
            self.process.stdin.flush()

    def end(self) -> None:
        """Close its stdin and read all it still says."""
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):
            self.process.stdin.close()
        while self.line() is not None:
            pass
        self.process.wait(PATIENCE_S)


class Background:
    """A request in a thread: what it answered, or how it failed."""

    def __init__(self, call: Callable[[], Any]) -> None:
        self.answer: Any = None
        self.error: WcacheError | None = None
        self._call = call
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self.answer = self._call()
        except WcacheError as error:
            self.error = error

    def join(self) -> None:
        self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive(), "a request got no answer"


class Arena:
    """One daemon, its checkpoints, and what has been acknowledged so far."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.disk = Path(tempfile.mkdtemp(prefix="wc-kill-"))
        if not pinnable(filesystem_kind(self.disk))[0]:
            self.disk.rmdir()
            self.disk = Path(tempfile.mkdtemp(prefix=".scratch-kill-", dir=Path(__file__).parents[1]))
        tensors = {f"layer.{number:03d}.weight": ("U8", (2048,), bytes([number]) * 2048) for number in range(40)}
        self.base = make_checkpoint(self.disk / "base", tensors, shards=40)  # two messages of descriptors
        self.other = make_checkpoint(self.disk / "other", shards=2, seed=5)
        self.digest = _digest([path.read_bytes() for path in sorted(self.base.glob("*.safetensors"))])
        self.fresh = 0
        self.daemon = DaemonProcess()
        self.resident: str | None = None
        self.acknowledged: set[str] = set()
        self.completed: set[str] = set()
        self.released: set[str] = set()
        self.servers: set[int] = set()
        self.plain_fds: dict[str, int] = {}
        self.verified_s = 0.0

    def close(self) -> None:
        with suppress(DaemonUnreachable, ProcessLookupError):
            status = self.daemon.status()
            for pid in (status.vault_pid, status.server_pid):
                os.kill(pid, signal.SIGSTOP)  # neither may look for the other
            for pid in (status.vault_pid, status.server_pid):
                os.kill(pid, signal.SIGKILL)
        self.daemon.cleanup()
        shutil.rmtree(self.disk, ignore_errors=True)

    def pids(self) -> tuple[int, int]:
        status = self.status()
        return status.server_pid, status.vault_pid

    def status(self) -> Status:
        """Of a daemon that may be between two servers."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                return self.daemon.status()
            except DaemonUnreachable:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.02)

    def prepare(self) -> Status:
        """A daemon that serves the base checkpoint."""
        if self.resident is None:
            self.daemon.start()
        loaded = self.load(self.base)
        if self.resident is not None and (not loaded.reused or loaded.residency.residency != self.resident):
            raise Loss(f"{self.resident} is not resident any more")
        self.resident = loaded.residency.residency
        return self.status()

    def load(self, path: Path) -> Loaded:
        loaded = self.daemon.load(path)
        self.completed.add(loaded.residency.residency)
        return loaded

    def fresh_checkpoint(self) -> Path:
        self.fresh += 1
        return make_checkpoint(self.disk / f"fresh-{self.fresh}", shards=1, seed=self.fresh)

    def release(self, residency: str) -> int | None:
        channel = self.daemon.connect()
        try:
            reply = channel.call(ReleaseRequest(residency=residency, why="kill matrix"))
        finally:
            channel.close()
        assert isinstance(reply, Done)
        self.released.add(residency)
        return reply.seq

    def round(self, one: Combination) -> None:
        before = self.prepare()
        self.servers.add(before.server_pid)
        engine: Engine | None = None
        background: Background | None = None
        fresh: Path | None = None
        if one.target == "engine" or one.phase in LEASED:
            engine = Engine(self.daemon, one.phase if one.phase in LEASED else "idle", self.base)
            said = engine.line()
            assert said is not None, "the engine died at its start"
            assert said.get("hit", True), said
        if one.phase == "loading" or one.target == "worker":
            fresh = self.fresh_checkpoint()
            background = Background(lambda: self.load(fresh))
            wait_until(lambda: any(item.phase for item in self.daemon.status().residencies), PATIENCE_S)
        if one.phase == "releasing":
            victim = self.load(self.other).residency.residency
            releasing = Background(lambda: self.release(victim))
            time.sleep(self.random.uniform(0, 0.02))
        if one.phase == "committing":
            time.sleep(self.random.uniform(0, 0.05))
        leases = {lease.attach for lease in before.leases}
        if engine is not None and one.phase in ("mapped", "committing"):
            leases = {lease.attach for lease in self.status().leases}
            assert leases, "the engine has no lease"
        victim_pid = self._victim(one, before, engine)
        os.kill(victim_pid, one.signal)
        up = self._settle(one, before, victim_pid)
        if engine is not None:
            self._judge_engine(one, engine, leases, up)
        for request in (background, releasing if one.phase == "releasing" else None):
            if request is not None:
                request.join()
        self._judge(one, up)
        if fresh is not None:
            self._judge_load(one, fresh, background, up)

    def _victim(self, one: Combination, before: Status, engine: Engine | None) -> int:
        if one.target == "engine":
            assert engine is not None
            return engine.process.pid
        if one.target == "worker":
            found: list[int] = []

            def worker() -> bool:
                found[:] = [pid for pid in children_of(before.server_pid) if b"wcache.daemon.worker" in _cmdline(pid)]
                return bool(found)

            wait_until(worker)
            return found[0]
        return before.server_pid if one.target == "server" else before.vault_pid

    def _settle(self, one: Combination, before: Status, victim: int) -> bool:
        """Wait for what the matrix promises: the daemon answers with live processes, or is gone."""
        if stays(one):

            def serves() -> bool:
                with suppress(DaemonUnreachable):
                    status = self.daemon.status()
                    self.servers.add(status.server_pid)
                    replaced = one.target in ("server", "vault") and one.signal is signal.SIGKILL
                    gone = replaced and victim in (status.server_pid, status.vault_pid)
                    return not gone and alive(status.server_pid) and alive(status.vault_pid)
                return False

            wait_until(serves, PATIENCE_S, f"serving after {one}")
            if self.daemon.process is not None:
                self.daemon.process.poll()
            return True
        wait_until(lambda: not alive(before.server_pid) and not alive(before.vault_pid), PATIENCE_S, f"ended after {one}")
        self.resident = None
        assert self.daemon.process is not None
        with suppress(subprocess.TimeoutExpired):
            self.daemon.process.wait(5)
        return False

    def _judge_engine(self, one: Combination, engine: Engine, leases: set[str], up: bool) -> None:
        killed = one.target == "engine"
        if killed:
            engine.process.wait(PATIENCE_S)
        elif one.phase == "hand-over":
            engine.tell("go")
            said = engine.line()
            if said is None:
                raise Loss("the engine died of the daemon's death")
            lost = one.target == "server" and one.signal is signal.SIGKILL
            if said["hit"] == (lost or not up):
                raise Loss(f"after {one} the attach ended as {said}")
            with Ledgered(self.daemon) as knowledge:
                row = knowledge.attach(said["attach"])
            if row is None or (row["decision"] == Outcome.HIT.value) != said["hit"]:
                raise Loss(f"after {one} the ledger has another outcome than the engine: {row}")
        else:
            engine.tell("hash")
            said = engine.line()
            if said is None or said.get("digest") != self.digest:
                raise Loss(f"after {one} the engine maps other bytes: {said}")
            if up and not leases <= {lease.attach for lease in self.status().leases}:
                raise Loss(f"after {one} a lease is gone while its engine maps the weights")
        engine.end()
        self.acknowledged.update(engine.recorded)

    def _judge_load(self, one: Combination, fresh: Path, background: Background | None, up: bool) -> None:
        """It can be repeated, and goes away again."""
        assert background is not None
        if up and one.target == "vault" and background.error is not None:
            raise Loss(f"after {one} the load failed: {background.error}")
        if up:
            again = self.load(fresh)
            self.release(again.residency.residency)
        shutil.rmtree(fresh)

    def _judge(self, one: Combination, up: bool) -> None:
        if up:
            self._weights(one)
            self._left_over(one)
        workers = [pid for pid, parent in _workers() if parent in self.servers and (not up or parent != self.pids()[0])]
        wait_until(lambda: not any(alive(pid) for pid in workers), what=f"workers outlive their server after {one}")
        self._events(one, up)

    def _weights(self, one: Combination) -> None:
        attached = attach(self.daemon.settings.socket_path, self.base)
        try:
            if attached.decided.decision.residency != self.resident:
                raise Loss(f"after {one} no hit: {attached.decided.decision}")
            found = _digest([attached.content(name) for name in sorted(attached.fds)])
        finally:
            attached.close()
        if found != self.digest:
            raise Loss(f"after {one} the resident bytes are others")

    def _left_over(self, one: Combination) -> None:
        """Leases, memory files and descriptors of vault and server are those of what is resident."""

        def exact() -> bool:
            status = self.daemon.status()
            if status.leases or any(item.phase for item in status.residencies):
                return False
            if one.phase == "releasing" and len(status.residencies) > 2:
                return False
            shards = {"base": 40, "other": 2}
            wanted = sum(shards.get(Path(item.view.served.spelling).name, 1) for item in status.residencies)
            for name, pid in (("server", status.server_pid), ("vault", status.vault_pid)):
                links = links_of(pid)
                memory = sum("memfd:wcache" in link for link in links)
                plain = len(links) - memory
                if memory != wanted or plain > self.plain_fds.setdefault(name, plain) + 4:
                    return False
            return True

        wait_until(exact, PATIENCE_S, f"something is left over after {one}")
        status = self.status()
        for item in status.residencies:  # an other that was not released is released now, by name
            if item.view.residency != self.resident and Path(item.view.served.spelling).name == "other":
                self.release(item.view.residency)

    def _events(self, one: Combination, up: bool) -> None:
        with Ledger.open(self.daemon.settings.ledger, create=False, read_only=True) as ledger:
            stored = list(ledger.events())
        names = {item.event_id for item in stored}
        missing = self.acknowledged - names
        completed = {item.event.residency for item in stored if isinstance(item.event, LoadCompleted)}
        released = {item.event.residency for item in stored if isinstance(item.event, ReleaseCompleted)}
        lost = [*sorted(missing), *sorted(self.completed - completed), *sorted(self.released - released)]
        if lost:
            raise Loss(f"after {one} acknowledged events are missing: {lost[:5]}")
        self.events = len(stored)
        if up:
            wait_until(lambda: not self._open(), what=f"after {one} the ledger believes in leases that nobody has")
        else:
            with Ledgered(self.daemon) as knowledge:
                left = [*knowledge.open_attaches(), *(item.view.residency for item in knowledge.residencies())]
            if left:
                raise Loss(f"after {one} the ledger believes in what ended with the daemon: {left}")
        if time.monotonic() - self.verified_s > 5:
            self.verify()

    def _open(self) -> tuple[str, ...]:
        with Ledgered(self.daemon) as knowledge:
            return knowledge.open_attaches()

    def verify(self) -> None:
        problems = verify(self.daemon.settings.ledger).problems
        if problems:
            raise Loss(f"the chain is damaged: {problems[:3]}")
        self.verified_s = time.monotonic()


class Ledgered:
    def __init__(self, daemon: DaemonProcess) -> None:
        self._knowledge = Knowledge(daemon.settings.ledger)

    def __enter__(self) -> Knowledge:
        return self._knowledge

    def __exit__(self, *_: object) -> None:
        self._knowledge.close()


def _digest(parts: list[bytes]) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part)
    return digest.hexdigest()


def _cmdline(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def _workers() -> list[tuple[int, int]]:
    """(pid, the server that it was started by) of every worker of this machine."""
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdecimal():
            words = _cmdline(int(entry)).split(b"\0")
            if b"wcache.daemon.worker" in words and words[-2].isdigit():
                found.append((int(entry), int(words[-2])))
    return found


def order(rounds: int, source: random.Random) -> list[Combination]:
    """Every combination before any comes twice."""
    chosen: list[Combination] = []
    while len(chosen) < rounds:
        chosen += source.sample(MATRIX, len(MATRIX))
    return chosen[:rounds]


def run(rounds: Sequence[Combination], seed: int, say: Callable[[str], None] = lambda line: None) -> tuple[int, int, list[str]]:
    """Rounds done, events in the ledger, what was lost."""
    arena = Arena(seed)
    losses: list[str] = []
    done = 0
    try:
        for one in rounds:
            at_s = time.monotonic()
            try:
                arena.round(one)
            except (AssertionError, WcacheError, OSError, ValueError, LookupError, subprocess.SubprocessError) as error:
                losses.append(f"{one}: {type(error).__name__}: {error}")
                say(f"LOST {losses[-1]}\n{arena.daemon.log()[-3000:]}")
                break
            done += 1
            say(f"{done:4d} {one}: {time.monotonic() - at_s:.1f} s")
        if not losses:
            arena.verify()
        return done, getattr(arena, "events", 0), losses
    finally:
        arena.close()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3 * len(MATRIX))
    parser.add_argument("--seed", type=int, default=int(time.time()))
    options = parser.parse_args()
    for number in (signal.SIGINT, signal.SIGTERM):  # a shell that starts this in the background has SIGINT ignored
        signal.signal(number, signal.default_int_handler)
    print(f"kill matrix, seed {options.seed}", flush=True)
    chosen = order(options.rounds, random.Random(options.seed))
    rounds, events, losses = run(chosen, options.seed, lambda line: print(line, flush=True))
    print(f"rounds {rounds}, events {events}, losses {len(losses)}")
    return 1 if losses else 0


if __name__ == "__main__":
    raise SystemExit(main())
