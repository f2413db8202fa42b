"""The drill: starts a server again and again, with a daemon of its own, without one and against it, and writes down what happened."""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from wcache.core.checkpoint.checkpoint import Checkpoint, open_checkpoint
from wcache.core.checkpoint.spelling import absolute_spelling, resolve_root
from wcache.core.memory import nvml
from wcache.core.model.errors import NotFound, RequestRefused, UsageError
from wcache.core.model.policy import Policy
from wcache.drill import device, runs, table
from wcache.drill.answers import Interview, NoAnswer
from wcache.drill.cache import OwnDaemon, launch_environ
from wcache.drill.command import ServerCommand, Tensors
from wcache.drill.memory import MemoryPoint, cached_share, memory_point, visible_gpus
from wcache.drill.receipt import Preparation, receipt
from wcache.drill.runs import Result, Run
from wcache.drill.server import RunningServer, port_taken, wait_port_free
from wcache.drill.twin import make_twin
from wcache.ledger.audit import Audit
from wcache.ledger.moment import utc

Say = Callable[[str], None]
_LINE = 300  # of a server's last words; some name every choice there is
_TOOK = re.compile(r"Loading weights took ([\d.]+) seconds|Load weight end\. elapsed=([\d.]+) s")  # vLLM's and SGLang's words


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """How a drill goes. `out` must be absent or empty: what it measured before stays what it was."""

    out: Path
    tensors: Tensors
    wait_s: float
    rounds: int
    prompts: tuple[str, ...]
    policy: Policy


class Drill:
    """One drill. `run()` returns its receipt, the contents of `drill.json`; `say` hears one line whenever there is news."""

    def __init__(self, server: ServerCommand, options: Options, say: Say) -> None:
        """The preflight. Raises UsageError, RequestRefused, or what is wrong with the checkpoint, before anything is started."""
        self._server = server
        self._options = options
        self._say = say
        self._single_file = resolve_root(server.model, server.revision).single_file
        self._checkpoint: Checkpoint = open_checkpoint(server.model, revision=server.revision)
        if port_taken(server.host, server.port):
            raise RequestRefused("somebody listens on this port", where=server.url, remedy="stop it, or let the server use another one")
        self._gpus: tuple[nvml.Gpu, ...] = visible_gpus()
        device.require_unused(self._gpus)
        self._results: list[Result] = []
        self._points: list[MemoryPoint] = []
        self._began_s = time.time()
        _make_empty(options.out)

    def run(self) -> dict[str, Any]:
        """Raises UsageError where the server does not start even without wcache: then there is nothing to compare with."""
        tensors = self._options.tensors
        rounds = range(1, self._options.rounds + 1)
        self._point("nothing")
        with OwnDaemon(self._options.out, self._options.policy) as daemon:
            self._daemon = daemon
            for number in rounds:
                self._start(runs.DISK.in_round(number))
            self._start(runs.ABSENT_FALLBACK)
            self._start(runs.ABSENT_STRICT)
            preparation = self._prepare(daemon)
            self._point("daemon")
            for number in rounds:
                self._start(runs.warm(1, tensors).in_round(number), point="daemon + engine")
                self._point("engine stopped")
                self._start(runs.warm(2, tensors).in_round(number))
            self._start_in_another_dtype()
            self._start_twin()
            document = receipt(
                server=self._server,
                checkpoint=self._checkpoint,
                options=msgspec.to_builtins(self._options, enc_hook=str),
                device=device.device_facts(self._gpus),
                began_s=self._began_s,
                preparation=preparation,
                points=self._points,
                results=self._results,
                ledger=daemon.ledger,
            )
        document["table"] = table.rows(self._results)
        _write(self._options.out / "drill.json", document)
        return document

    # --- before the warm starts ---------------------------------------------------------------------------------------------

    def _prepare(self, daemon: OwnDaemon) -> Preparation:
        self._say("daemon: starts, and loads the checkpoint")
        start_s = daemon.start()
        began_s = time.monotonic()
        loaded = daemon.load(absolute_spelling(self._server.model), self._server.revision)
        load_s = time.monotonic() - began_s
        self._say(f"daemon: {loaded['tensors']} tensors resident after {start_s + load_s:.1f} s")
        publish_s = None
        if self._options.tensors == "processed":
            publish_s = self._start(runs.PREPARE).elapsed_s
            self._require_published(daemon)
            daemon.release(loaded["residency"])  # so that what is not taken as processed is not taken at all
        return Preparation(
            daemon_start_s=start_s, load_s=load_s, load_phases_s=loaded["seconds"], publish_s=publish_s,
            weights_digest=loaded["weights_digest"], resident=daemon.residencies(),
        )  # fmt: skip

    def _require_published(self, daemon: OwnDaemon) -> None:
        if not any(row.get("kind") == "processed" for row in daemon.residencies()):
            self._results[-1].wrong.append("nothing was published")
            self._save(self._results[-1])

    # --- runs ---------------------------------------------------------------------------------------------------------------

    def _start_in_another_dtype(self) -> None:
        run = runs.dtype(self._options.tensors)
        found, why_not = device.other_dtype(self._server, Path(self._checkpoint.location.root) / "config.json", self._gpus)
        if found is None:
            seen = Result(label=run.label, case=run.case, expected=run.expected, started_utc=_now(), command=[], skipped=why_not)
            self._finish(run, seen)
            return
        self._start(run, self._server.with_dtype(found))

    def _start_twin(self) -> None:
        twin = make_twin(self._checkpoint, self._options.out / "twin", self._single_file)
        self._say(f"twin: a copy in which {twin.tensor} is zero")
        self._start(runs.TWIN, self._server.with_model(str(twin.place)))

    def _start(self, run: Run, server: ServerCommand | None = None, *, point: str = "") -> Result:
        server = server or self._server
        words = server.words if run.way == "disk" else server.cached(strict=run.way == "strict", tensors=self._options.tensors)
        launch = "l-" + secrets.token_hex(8)
        seen = Result(
            label=run.label, case=run.case, expected=run.expected, started_utc=_now(), command=list(words),
            launch=None if run.way == "disk" else launch, page_cache_share=cached_share(shard.path for shard in self._checkpoint.shards),
        )  # fmt: skip
        self._say(f"{run.label}: starts")
        log = self._options.out / f"{run.label}.log"
        with RunningServer(words, launch_environ(self._daemon.environ(), launch), log) as running:
            seen.pid = running.pid
            healthy = running.wait_healthy(server.url, self._options.wait_s)
            seen.elapsed_s = running.elapsed_s
            seen.exit_status = running.exit_status
            seen.timed_out = not healthy and seen.exit_status is None
            if healthy:
                seen.others_cpu_share = running.others_cpu_share()
                self._ask(seen, server, running)
            if seen.ready:
                held = memory_point(point, daemon=self._daemon.pids, server=running.processes(), gpus=self._uuids)
                seen.server_weights_bytes, seen.server_rest_bytes = held.server.weights_bytes, held.server.rest_bytes
                if point and point not in {found.moment for found in self._points}:
                    self._points.append(held)
            running.stop()
            seen.killed = running.killed
            if not seen.ready:
                seen.last_words = running.last_words()
        seen.port_taken = not wait_port_free(server.host, server.port)
        self._read_ledger(seen, log)
        return self._finish(run, seen)

    def _ask(self, seen: Result, server: ServerCommand, running: RunningServer) -> None:
        """A server is ready when it has answered: some load their model only then."""
        try:
            interview = Interview(server.url, server.model, as_started=server.engine == "transformers")
            seen.answers = [interview.answer(self._options.prompts[0])]
            seen.first_answer_s = running.elapsed_s
            seen.answers += interview.answers(self._options.prompts[1:])
            seen.ready = True
        except NoAnswer as error:
            seen.no_answer = str(error)
            seen.exit_status = running.exit_status

    def _read_ledger(self, seen: Result, log: Path) -> None:
        if seen.launch is None:
            with suppress(OSError):
                seen.weights_s = weights_took_s(log.read_text(encoding="utf-8", errors="replace"))
                seen.weights_s_by = "the server's log" if seen.weights_s is not None else ""
            return
        with suppress(NotFound), Audit(self._daemon.ledger) as audit:
            found = audit.launch(seen.launch)
            seen.attaches, seen.complete = found["attaches"], found["complete"]
        seen.decided = list({(row["rank"], row["checkpoint"], row["engine"]): row for row in seen.attaches}.values())
        took_s = [row["map_ms"] / 1000 if row["map_ms"] is not None else row["fallback_s"] for row in seen.decided]
        if took_s and None not in took_s:
            seen.weights_s, seen.weights_s_by = max(took_s), "the ledger"

    def _finish(self, run: Run, seen: Result) -> Result:
        disk = next((one.answers for one in self._results if one.case == "disk"), seen.answers)
        if seen.ready and self._results:
            seen.answers_equal = seen.answers == disk
        seen.wrong = runs.judge(run, seen, self._options.tensors, disk)
        self._results.append(seen)
        self._save(seen)
        self._say(f"{run.label}: {table.sentence(seen)}")
        if seen.wrong:
            for line in seen.last_words:
                self._say(f"  {line if len(line) <= _LINE else line[:_LINE] + '…'}")
        if run.case == "disk" and not seen.ready:
            raise UsageError(
                f"the server is not ready even without wcache: {seen.wrong[0]}", where=str(self._options.out / f"{run.label}.log"),
                remedy="the log says why; correct the command" + (", or wait longer (--wait)" if seen.timed_out else ""),
            )  # fmt: skip
        if run.case == "absent_fallback" and self._server.by_plugin and seen.exit_status is not None and not seen.attaches:
            raise UsageError(
                f"the server ended with status {seen.exit_status} before it asked the cache",
                where=str(self._options.out / f"{run.label}.log"),
                remedy="the log says why; wcache must be installed in the server's own environment",
            )
        return seen

    def _save(self, seen: Result) -> None:
        _write(self._options.out / f"{seen.label}.json", {**msgspec.to_builtins(seen), "held": seen.held})

    # --- memory -------------------------------------------------------------------------------------------------------------

    @property
    def _uuids(self) -> Sequence[str]:
        return [gpu.uuid for gpu in self._gpus]

    def _point(self, moment: str) -> None:
        if moment not in {found.moment for found in self._points}:
            daemon = self._daemon.pids if self._points else ()
            self._points.append(memory_point(moment, daemon=daemon, gpus=self._uuids))


def weights_took_s(log: str) -> float | None:
    """What a server that knows nothing of wcache says of its weights: the slowest rank's seconds, or None where it says nothing."""
    return max((float(vllm or sglang) for vllm, sglang in _TOOK.findall(log)), default=None)


def _make_empty(out: Path) -> None:
    try:
        out.mkdir(parents=True, exist_ok=True)
        occupied = any(out.iterdir())
    except OSError as error:
        raise UsageError(f"no directory for the results: {error.strerror}", where=str(out), remedy="name another one with --out") from None
    if occupied:
        raise UsageError("there are files in it already", where=str(out), remedy="name a new directory with --out")


def _write(path: Path, document: object) -> None:
    try:
        path.write_bytes(msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n")
    except OSError as error:
        raise UsageError(f"cannot be written: {error.strerror}", where=str(path), remedy="make room, or name another --out") from None


def _now() -> str:
    return utc(time.time_ns()) or ""
