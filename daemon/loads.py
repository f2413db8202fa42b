"""Loads: a worker opens a checkpoint, the server makes room and records the start, the worker fills sealed memory, the server records
the end, and only then is it resident. Nothing half loaded stays."""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec import UNSET

from wcache.core.memory import memfd
from wcache.core.model.decide import HOST
from wcache.core.model.errors import MappingFailed, RequestRefused, WcacheError
from wcache.core.model.events import Event, FingerprintRecorded, Identity, LoadCompleted, LoadFailed, LoadStarted, ResidencyLost
from wcache.core.model.evidence import known_of
from wcache.core.model.vocabulary import Kind, ResidencyState
from wcache.core.wire.channel import failure_of
from wcache.core.wire.frames import close_fds
from wcache.core.wire.messages import MEMORY, Failure, Loaded, LoadRequest, Progress, identity_of
from wcache.daemon import orders
from wcache.daemon.budget import require_gpu
from wcache.daemon.deposits import SEGMENTS
from wcache.daemon.eviction import make_room
from wcache.daemon.jobs import Job, retries_told
from wcache.daemon.kept import segments_of
from wcache.daemon.recorder import Outcome, new_event
from wcache.daemon.residencies import Residency, inode_of

if TYPE_CHECKING:
    from wcache.daemon.connection import Connection
    from wcache.daemon.server import Server

LOADS_MAX = 4


class Load:
    """One load in progress and those who wait for it."""

    def __init__(self, request: LoadRequest, residency: Residency) -> None:
        self.wanted = (request.spelling, request.revision, request.device, request.place)
        self.residency = residency
        self.job: Job | None = None
        self.waiters: list[Connection] = []
        self.opened: orders.Opened | None = None
        self.phase = orders.Phase("wait", 0, 0)
        self.pin = request.pin
        self.making_room = False
        self.started = False  # it has its room, and load.started is on record or about to be
        self.completing = False  # load.completed is on its way into the ledger
        self.over = False

    def progress(self) -> Progress:
        phase = self.phase
        return Progress(phase=phase.phase, done_bytes=phase.done_bytes, total_bytes=phase.total_bytes, residency=self.residency.residency)

    def left_bytes(self) -> int:
        """What it will still take of its device."""
        return self.residency.bytes - self.taken_bytes() if self.started else 0

    def taken_bytes(self) -> int:
        """What it has taken so far: memory of the host page by page, a GPU's all at once."""
        if not self.started or self.residency.device == HOST:
            return self.phase.done_bytes if self.started else 0
        return self.residency.bytes if self.phase.phase in ("read", "seal") else 0

    def tell(self, loaded: Loaded) -> None:
        """To all who wait for it."""
        for waiter in list(self.waiters):
            waiter.reply(loaded)

    def failed(self, server: Server) -> None:
        """It has ended so, and those who wait know."""

    def wait(self, connection: Connection) -> None:
        self.waiters.append(connection)
        connection.wait_for(self.progress, lambda: self.waiters.remove(connection))


def start_load(server: Server, connection: Connection, request: LoadRequest) -> None:
    if request.device != HOST:
        require_gpu(request.device)
    for running in server.loads:
        if running.wanted == (request.spelling, request.revision, request.device, request.place):
            running.pin = running.pin if request.pin is None else request.pin
            running.wait(connection)
            return
    if len(server.loads) >= LOADS_MAX:
        raise RequestRefused(f"{LOADS_MAX} loads are running", remedy="wait for one of them", detail="busy")
    asked = Identity(request.spelling)
    residency = Residency(residency=f"r-{secrets.token_hex(8)}", asked=asked, served=asked, device=request.device)
    load = Load(request, residency)
    revision = None if request.place else request.revision
    order = orders.LoadOrder(
        spelling=request.place or request.spelling, revision=revision, state_dir=str(server.settings.state_dir),
        device=request.device, again=request.again,
    )  # fmt: skip
    load.job = Job(
        server.loop,
        order,
        (),
        lambda report, fds: _report(server, load, report, fds),
        lambda failure: _end(server, load, failure),
    )
    server.loads.append(load)
    server.holdings.add(residency)
    load.wait(connection)


def _report(server: Server, load: Load, report: orders.Report, fds: tuple[int, ...]) -> None:
    if load.over:
        close_fds(fds)
    elif isinstance(report, orders.Phase):
        retries_told(server, load.phase, report)
        load.phase = report
        now_s = time.monotonic()
        for waiter in list(load.waiters):
            waiter.tell_progress(now_s, 0.1)
    elif isinstance(report, orders.Filled):
        _take(server, load, report, fds)
    elif isinstance(report, orders.Opened):
        _opened(server, load, report)
    elif isinstance(report, orders.LoadResult):
        _complete(server, load, report)


def _opened(server: Server, load: Load, opened: orders.Opened) -> None:
    """The worker waits for Go. Is the same already here, or on its way, and is there room?"""
    key, residency = opened.location.key(), load.residency
    for other in server.holdings.resident():
        if other.state is ResidencyState.RESIDENT and other.served.key == key and _alike(other, residency):
            _reuse(server, load, other)
            return
    for running in server.loads:
        same = running is not load and running.opened is not None and running.opened.location.key() == key
        if same and _alike(running.residency, residency):
            abandon_load(server, load)
            running.pin = running.pin if load.pin is None else load.pin
            for waiter in list(load.waiters):
                running.wait(waiter)
            return
    load.opened = opened
    residency.asked = identity_of(opened.location, residency.asked.spelling, table_digest=opened.table_digest)
    residency.served = residency.asked
    residency.table_digest = opened.table_digest
    residency.tensors = opened.tensors
    make_room(server, load, opened.bytes, lambda: _begin(server, load, opened), lambda error: fail_load(server, load, failure_of(error)))


def _alike(one: Residency, other: Residency) -> bool:
    return (one.kind, one.device) == (other.kind, other.device)


def _begin(server: Server, load: Load, opened: orders.Opened) -> None:
    """There is room, and it is reserved from here on."""
    residency = load.residency
    residency.bytes = opened.bytes
    load.started = True
    load.phase = orders.Phase("wait", 0, opened.bytes)
    event = LoadStarted(
        residency=residency.residency,
        asked=residency.asked,
        kind=Kind.RAW,
        device=residency.device,
        bytes=opened.bytes,
        tensors=opened.tensors,
        shards=len(opened.location.files),
        instance=server.instance,
    )

    def then(outcome: Outcome) -> None:
        if load.over:
            return
        if isinstance(outcome, WcacheError):
            fail_load(server, load, failure_of(outcome))
        elif load.job is not None:
            load.job.send(orders.Go())

    server.recorder.append([new_event(event, expected_version=0)], then)


def _reuse(server: Server, load: Load, other: Residency) -> None:
    abandon_load(server, load)
    other.touch()

    def tell(_error: WcacheError | None = None) -> None:
        for waiter in list(load.waiters):
            waiter.reply(Loaded(residency=other.view(), reused=True, seconds={}, pinned=other.pinned))

    if load.pin is None or load.pin is other.pinned:
        tell()
        return
    other.pinned = load.pin
    server.vault.keep(segments_of(other), tell)  # what is said to be pinned is so for the next server too


def abandon_load(server: Server, load: Load) -> None:
    """End the worker of a load that is not needed."""
    load.over = True
    if load.job is not None:
        load.job.kill()
    if load in server.loads:
        server.loads.remove(load)
    server.vault.drop((SEGMENTS, load.residency.residency))
    server.holdings.forget(load.residency)


def _take(server: Server, load: Load, filled: orders.Filled, fds: tuple[int, ...]) -> None:
    residency, segments = load.residency, filled.segments
    residency.fds.extend(fds)  # from here on closed with the residency, whatever happens
    residency.segments += segments
    residency.inodes += tuple(inode_of(fd) for fd in fds)
    residency.tensor_digests += filled.tensor_digests
    try:
        if not len(segments) == len(fds) == len(filled.tensor_digests):
            raise MappingFailed(f"{len(fds)} descriptors and {len(filled.tensor_digests)} digests came for {len(segments)} segments")
        for segment, fd in zip(segments, fds, strict=True):
            if segment.form == MEMORY:
                residency.bytes = segment.size_bytes  # what the GPU gave, in whole pages of its own
            else:
                memfd.check_sealed(fd, segment.size_bytes, name=segment.name)
    except MappingFailed as error:
        fail_load(server, load, failure_of(error))
        return
    if load.job is not None:
        load.job.send(orders.Taken())


def _complete(server: Server, load: Load, result: orders.LoadResult) -> None:
    residency, opened = load.residency, load.opened
    content = result.fingerprints[0]
    if (
        opened is None
        or content.weights_digest is None
        or content.location is None
        or len(residency.segments) != (len(opened.location.files) if residency.device == HOST else 2)
    ):
        fail_load(server, load, failure_of(MappingFailed("the worker did not hand over every segment", where=residency.asked.spelling)))
        return
    if load.job is not None:
        load.job.finish()
    residency.served = identity_of(
        content.location, residency.asked.spelling, table_digest=content.table_digest, digest=content.weights_digest
    )
    residency.weights_digest, residency.table_digest = content.weights_digest, content.table_digest
    residency.dtypes = result.dtypes
    residency.pinned = load.pin is True
    residency.touch()
    residency.known = known_of(result.fingerprints)
    recorded = [
        FingerprintRecorded.of(item, residency.asked.spelling, by="server", uid=os.geteuid(), instance=server.instance)
        for item in result.fingerprints
    ]
    completed = LoadCompleted(
        residency=residency.residency,
        served=residency.served,
        kind=Kind.RAW,
        device=residency.device,
        bytes=residency.bytes,
        tensors=residency.tensors,
        shards=len(opened.location.files),
        weights_digest=content.weights_digest,
        table_digest=content.table_digest or "",
        dtypes=result.dtypes,
        fingerprints=tuple(item.id() for item in result.fingerprints),
        seconds=result.seconds,
        strays=opened.strays,
        misaligned=result.misaligned,
        retried=result.retried or UNSET,
        pinned=residency.pinned,
    )

    become_resident(server, load, [*recorded, completed], result.seconds, retried=result.retried)


def become_resident(server: Server, load: Load, events: Sequence[Event], seconds: dict[str, float], *, retried: int = 0) -> None:
    """The vault has it, then the ledger (`events` end with load.completed), and only then is it resident and those who wait are told: what
    is said to be resident survives this server."""
    residency = load.residency

    def kept(error: WcacheError | None) -> None:
        if load.over:
            return
        if error is not None:
            fail_load(server, load, failure_of(error))
            return
        load.completing = True
        server.recorder.append([new_event(event) for event in events], then)

    def then(outcome: Outcome) -> None:
        if load.over:
            return
        if isinstance(outcome, WcacheError):
            fail_load(server, load, failure_of(outcome))
            return
        load.over = True
        server.loads.remove(load)
        residency.state = ResidencyState.RESIDENT
        residency.loaded_ns = time.time_ns()
        load.tell(Loaded(residency=residency.view(), reused=False, seconds=seconds, pinned=residency.pinned, retried=retried))

    server.vault.keep(segments_of(residency), kept)


def _end(server: Server, load: Load, failure: Failure | None) -> None:
    if failure is not None and not load.over:
        fail_load(server, load, failure)


def fail_load(server: Server, load: Load, failure: Failure) -> None:
    """End it, keep nothing, put it on record, and then tell those who wait."""
    abandon_load(server, load)
    where = f"{failure.where}: " if failure.where else ""
    event = LoadFailed(
        residency=load.residency.residency,
        asked=load.residency.asked,
        code=failure.code,
        message=f"{where}{failure.what}",
        detail=failure.detail,
    )

    def then() -> None:
        for waiter in list(load.waiters):
            waiter.reply(failure)
        load.failed(server)

    server.recorder.observe(event, then=then)


def sweep_loads(server: Server, now_s: float) -> None:
    """As for hashes. A load whose worker waits for the ledger is not stuck."""
    for load in list(server.loads):
        stalled = load.job.stalled(now_s) if load.job is not None and not load.over else None
        if stalled is not None:
            fail_load(server, load, failure_of(stalled))


def stop_load(server: Server, load: Load) -> None:
    """The daemon ends."""
    if load.completing:  # too late to fail
        abandon_load(server, load)
        server.recorder.observe(ResidencyLost(residency=load.residency.residency, why="daemon stopped"))
        return
    fail_load(server, load, Failure(code="refused", what="the daemon was stopped during the load", where=load.residency.asked.spelling))
