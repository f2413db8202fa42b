"""`/health` and `/metrics`: a thread with a loop of its own that asks the server's loop how it is, and says so when no answer comes.

Healthy is a server that answers, takes attaches, can record them, and serves every checkpoint that it is expected to.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from wcache.core.checkpoint.spelling import ResolvedRoot, resolve_root
from wcache.core.model.decide import ResidencyView
from wcache.core.model.errors import UsageError, WcacheError
from wcache.core.model.vocabulary import ResidencyState
from wcache.core.wire.messages import ResidencyStatus, Status
from wcache.daemon.http import Answer, Listener, Reply, bind
from wcache.daemon.loop import Loop
from wcache.daemon.space import Room
from wcache.daemon.status import status_of

if TYPE_CHECKING:
    from wcache.daemon.metrics import Metrics
    from wcache.daemon.server import Server

log = logging.getLogger("wcache")

LOOK_S = 2.0
"""A server that has not answered its own thread for so long serves nobody else either."""

_FRESH_S = 0.1  # probes that come closer together share one look
_METRICS_FRESH_S = 0.5
_RESOLVE_EVERY_S = 5.0


class Look(msgspec.Struct, frozen=True, kw_only=True):
    """What the server's loop says of itself; `status` is what `wcache status` shows."""

    status: Status
    idle_bytes: int
    connections: int
    unacknowledged: int
    hashes: tuple[tuple[bool, int, int], ...]  # running, done and total bytes of each hash job
    queued: int
    commit_s: float | None
    committed_ns: int | None
    journal_bytes: int
    journalled: int
    unrecorded: int
    retried: int
    serves_unrecorded: bool
    rooms: dict[str, Room]


class Expected(msgspec.Struct, frozen=True, kw_only=True):
    """One expected checkpoint: whether it can be served, and if not, why."""

    checkpoint: str
    served: bool
    why: str = ""
    residency: str | None = None
    phase: str | None = None
    done_bytes: int = 0
    total_bytes: int = 0


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """Healthy where `why` is empty."""

    why: tuple[str, ...]
    expected: tuple[Expected, ...] = ()

    @property
    def healthy(self) -> bool:
        return not self.why


def take_look(server: Server) -> Look:
    """In the server's loop."""
    recorder = server.recorder
    return Look(
        status=status_of(server),
        idle_bytes=server.holdings.idle_bytes(),
        connections=server.connection_count,
        unacknowledged=server.unacked,
        hashes=(
            *((one.job is not None, one.phase.done_bytes, one.phase.total_bytes) for one in server.hashes),
            *((one.job is not None, one.phase.done_bytes, one.phase.total_bytes) for one in server.behinds),
        ),
        queued=recorder.queued,
        commit_s=recorder.commit_s,
        committed_ns=recorder.committed_ns,
        journal_bytes=recorder.journal.size_bytes(),
        journalled=recorder.journalled,
        unrecorded=recorder.unrecorded,
        retried=server.retried,
        serves_unrecorded=recorder.serves_unrecorded,
        rooms=dict(server.space.rooms),
    )


def judge(look: Look, wanted: Iterable[tuple[str, ResolvedRoot | None]], *, serve_unrecorded: bool) -> Verdict:
    """`wanted` are spellings and where they lead, as far as that is known. `serve_unrecorded`: the daemon's own policy says `serve`."""
    why = [] if look.status.state == "ready" else [f"the daemon is {look.status.state}"]
    if look.status.ledger_failure and not (serve_unrecorded and look.serves_unrecorded):
        why.append(f"no attach can be recorded, so there are no hits: {look.status.ledger_failure}")
    expected = tuple(_expected(spelling, resolved, look.status.residencies) for spelling, resolved in wanted)
    why += [f"{one.checkpoint}: {one.why}" for one in expected if not one.served]
    return Verdict(why=tuple(why), expected=expected)


def _expected(spelling: str, resolved: ResolvedRoot | None, residencies: Sequence[ResidencyStatus]) -> Expected:
    found = [one for one in residencies if _is_meant(spelling, resolved, one.view)]
    for one in found:
        if one.view.state is ResidencyState.RESIDENT:
            return Expected(checkpoint=spelling, served=True, residency=one.view.residency)
    if not found:
        return Expected(checkpoint=spelling, served=False, why="it is not resident, and nobody loads it")
    newest = found[-1]
    part = f", {newest.phase} {newest.done_bytes * 100 // newest.total_bytes} %" if newest.phase and newest.total_bytes else ""
    return Expected(
        checkpoint=spelling,
        served=False,
        why=f"it is {newest.view.state}{part}",
        residency=newest.view.residency,
        phase=newest.phase,
        done_bytes=newest.done_bytes,
        total_bytes=newest.total_bytes,
    )


def _is_meant(spelling: str, resolved: ResolvedRoot | None, view: ResidencyView) -> bool:
    served = view.served
    if spelling in (served.spelling, served.root, served.repo):
        return True
    if resolved is None or served.root != resolved.root:
        return False
    # A single file and the directory that it lies in have the same root.
    name = resolved.single_file
    return served.spelling.endswith(f"/{name}") if name else not served.spelling.endswith(".safetensors")


class _Wanted:
    """The expected spellings and where they lead. Resolving asks file systems, which may hang: it has a thread of its own, and until it
    is done only the spelling itself is compared."""

    def __init__(self, spellings: Sequence[str]) -> None:
        self._resolved: dict[str, ResolvedRoot | None] = dict.fromkeys(spellings)
        self._thread: threading.Thread | None = None
        self._tried_s = -_RESOLVE_EVERY_S

    def pairs(self) -> list[tuple[str, ResolvedRoot | None]]:
        unknown = any(resolved is None for resolved in self._resolved.values())
        idle = self._thread is None or not self._thread.is_alive()
        if unknown and idle and time.monotonic() - self._tried_s >= _RESOLVE_EVERY_S:
            self._tried_s = time.monotonic()
            self._thread = threading.Thread(target=self._resolve, name="wcache-expected", daemon=True)
            self._thread.start()
        return list(self._resolved.items())

    def _resolve(self) -> None:
        for spelling, resolved in list(self._resolved.items()):
            if resolved is None:
                try:
                    self._resolved[spelling] = resolve_root(spelling)
                except WcacheError:
                    continue  # it may be mounted, or downloaded, later


class HealthServer:
    """`start()` after the server's loop can take posts; `stop()` at its end. `port` is the one that was taken."""

    def __init__(self, server: Server, port: int, *, patient: bool = False) -> None:
        """Raises UsageError where the port cannot be had; with `patient` one that is taken is waited for (a predecessor still has it)."""
        try:
            sock = bind(port)
        except UsageError as error:
            if not (patient and error.detail == "taken"):
                raise
            sock = None
        self.port = port if sock is None else int(sock.getsockname()[1])
        self._server = server
        self._loop = Loop()
        self._listener = Listener(self._loop, self.port, sock, self._serve)
        self._wanted = _Wanted(server.settings.expect)
        self._serve_unrecorded = server.settings.policy.on_ledger_failure == "serve"
        self._metrics: Metrics | None = None
        self._page = b""
        self._page_s = -_METRICS_FRESH_S
        self._look: Look | None = None
        self._look_s = -_FRESH_S
        self._waiting: list[Callable[[Look | None], None]] = []
        self._thread = threading.Thread(target=self._loop.run, name="wcache-health", daemon=True)

    def start(self) -> None:
        self._wanted.pairs()
        self._thread.start()
        log.info("Health and metrics on http://127.0.0.1:%d", self.port)

    def stop(self) -> None:
        if self._thread.is_alive():
            self._loop.post(self._loop.stop)
            self._thread.join()
        self._listener.close()
        self._loop.close()

    # --- in the thread ---

    def _serve(self, path: str, reply: Reply) -> None:
        if path == "/health":
            self._with_look(lambda look: reply(self._health(look)))
        elif path == "/metrics":
            self._with_look(lambda look: reply(self._exposition(look)))
        else:
            reply(Answer(404, b"here are /health and /metrics\n"))

    def _with_look(self, then: Callable[[Look | None], None]) -> None:
        if self._look is not None and time.monotonic() - self._look_s < _FRESH_S:
            then(self._look)
            return
        self._waiting.append(then)
        if len(self._waiting) == 1:
            late = self._loop.call_later(LOOK_S, lambda: self._looked(None))

            def looked(look: Look | None) -> None:
                late.cancel()
                self._looked(look)

            self._server.loop.post(lambda: self._take(looked))

    def _take(self, looked: Callable[[Look | None], None]) -> None:
        """In the server's loop."""
        try:
            look: Look | None = take_look(self._server)
        except Exception:
            log.exception("a defect while looking at the daemon's health")
            look = None
        self._loop.post(lambda: looked(look))

    def _looked(self, look: Look | None) -> None:
        self._look, self._look_s = look, time.monotonic()
        waiting, self._waiting = self._waiting, []
        for then in waiting:
            then(look)

    def _health(self, look: Look | None) -> Answer:
        if look is None:
            return _json(503, {"status": "unavailable", "why": [f"the server has not answered for {LOOK_S:g} s"], "state": "silent"})
        verdict = self._judge(look)
        status = look.status
        document = {
            "status": "ok" if verdict.healthy else "unavailable",
            "why": verdict.why,
            "state": status.state,
            "version": status.version,
            "instance": status.instance,
            "expected": verdict.expected,
            "residencies": [_residency(one) for one in status.residencies],
            "ledger": {"seq": status.ledger_seq, "failure": status.ledger_failure or None, "journalled": status.journalled},
            "warnings": status.warnings,
        }
        return _json(200 if verdict.healthy else 503, document)

    def _judge(self, look: Look) -> Verdict:
        return judge(look, self._wanted.pairs(), serve_unrecorded=self._serve_unrecorded)

    def _exposition(self, look: Look | None) -> Answer:
        if look is None:
            return Answer(503, f"the server has not answered for {LOOK_S:g} s\n".encode())
        if self._metrics is None:
            from wcache.daemon.metrics import Metrics  # with prometheus-client, which nobody else needs

            self._metrics = Metrics(self._server.recorder.path, self._server.recorder.journal)
        if time.monotonic() - self._page_s >= _METRICS_FRESH_S:
            self._page = self._metrics.page(look, self._judge(look))
            self._page_s = time.monotonic()
        return Answer(200, self._page, "text/plain; version=0.0.4; charset=utf-8")


def _residency(one: ResidencyStatus) -> dict[str, Any]:
    view = one.view
    return {
        "residency": view.residency, "checkpoint": view.served.spelling, "state": view.state, "device": view.device, "bytes": view.bytes,
        "leases": one.leases, "phase": one.phase, "done_bytes": one.done_bytes, "total_bytes": one.total_bytes,
    }  # fmt: skip


def _json(status: int, document: dict[str, Any]) -> Answer:
    return Answer(status, msgspec.json.encode(document) + b"\n", "application/json")
