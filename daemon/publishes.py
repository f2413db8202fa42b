"""Published weights: an engine's post-load tensors come in memory that it filled itself. The server makes room, takes the memory over, lets
a worker look at it, and says what they were made from. Nothing half published stays."""

from __future__ import annotations

import os
import secrets
import time
from typing import TYPE_CHECKING

import msgspec

from wcache.core.memory import memfd
from wcache.core.memory.device import UUID_PREFIXES
from wcache.core.model.decide import HOST
from wcache.core.model.errors import MappingFailed, ProtocolError, RequestRefused, Unsupported, UsageError, WcacheError
from wcache.core.model.events import FingerprintRecorded, LoadCompleted, LoadStarted
from wcache.core.model.vocabulary import Kind, Lineage, ResidencyState
from wcache.core.wire.channel import failure_of
from wcache.core.wire.frames import close_fds
from wcache.core.wire.messages import MEMORY, TABLE, Failure, Loaded, LoadRequest, Publish, PublishBegin, Publishing, SegmentManifest
from wcache.daemon import orders
from wcache.daemon.eviction import make_room
from wcache.daemon.jobs import Job
from wcache.daemon.loads import Load, become_resident, fail_load
from wcache.daemon.origin import Origin, find_origin
from wcache.daemon.recorder import Outcome, new_event
from wcache.daemon.residencies import Residency, inode_of

if TYPE_CHECKING:
    from wcache.daemon.connection import Connection
    from wcache.daemon.server import Server

PUBLISHES_MAX = 64
SIZE_MAX_BYTES = 1 << 50


class Publication(Load):
    """A load whose memory an engine fills. `followers` began to publish the same meanwhile: they get it, or have their turn."""

    def __init__(self, connection: Connection, request: PublishBegin, residency: Residency, origin: Origin) -> None:
        super().__init__(LoadRequest(spelling=residency.asked.spelling, device=request.device, pin=request.pin), residency)
        self.wanted = ("", None, "", residency.residency)  # no load asks for it
        self.connection = connection
        self.request = request
        self.origin = origin
        self.followers: list[tuple[Connection, PublishBegin]] = []
        self.received = False  # the memory is here, and the engine not needed any more

    def left_bytes(self) -> int:
        return self.residency.bytes if self.started and not self.received else 0

    def taken_bytes(self) -> int:
        return self.residency.bytes if self.received else 0

    def leave(self) -> None:
        """The engine has handed it over, or given up."""
        if self.connection.publication is self:
            self.connection.publication = None

    def follow(self, connection: Connection, request: PublishBegin) -> None:
        place = (connection, request)
        self.followers.append(place)
        connection.wait_for(self.progress, lambda: self.followers.remove(place))

    def tell(self, loaded: Loaded) -> None:
        loaded = msgspec.structs.replace(loaded, unproven_why=self.origin.why)
        super().tell(loaded)
        for follower, _ in list(self.followers):
            follower.reply(msgspec.structs.replace(loaded, reused=True, seconds={}))

    def failed(self, server: Server) -> None:
        self.leave()
        followers, self.followers = self.followers, []
        for connection, request in followers:
            try:
                begin_publish(server, connection, request)
            except WcacheError as error:  # noqa: PERF203
                connection.fail(error)


def begin_publish(server: Server, connection: Connection, request: PublishBegin) -> None:
    if connection.publication is not None and not connection.publication.over:
        raise RequestRefused("this connection publishes already", remedy="publish on a new connection")
    if server.stopping:
        raise RequestRefused("the daemon is stopping")
    if request.device != HOST and not request.device.startswith(UUID_PREFIXES):
        raise Unsupported(f"{request.device!r} is neither cpu nor the UUID of a GPU", where="device")
    if not 0 < request.size_bytes < SIZE_MAX_BYTES or request.tensors <= 0:
        raise UsageError(f"{request.tensors} tensors in {request.size_bytes} bytes cannot be published", where=request.asked.spelling)
    origin = find_origin(server, connection, request, time.time_ns())
    resident = _equal(server, request, origin)
    if resident is not None:
        resident.touch()
        load = server.recorder.knowledge.completed(resident.residency)
        why = load.unproven_why if load is not None else ""
        connection.reply(Loaded(residency=resident.view(), reused=True, seconds={}, pinned=resident.pinned, unproven_why=why))
        return
    running = [one for one in server.loads if isinstance(one, Publication)]
    same = next((one for one in running if one.request.config == request.config and _one_content(one, request, origin)), None)
    if same is not None:
        same.follow(connection, request)
        return
    if len(running) >= PUBLISHES_MAX:
        raise RequestRefused(f"{PUBLISHES_MAX} engines are publishing", remedy="wait for one of them", detail="busy")
    residency = Residency(
        residency=f"r-{secrets.token_hex(8)}", asked=origin.asked, served=origin.served, device=request.device, kind=Kind.PROCESSED,
        config=request.config, lineage=origin.lineage, tensors=request.tensors,
    )  # fmt: skip
    publication = connection.publication = Publication(connection, request, residency, origin)
    server.loads.append(publication)
    server.holdings.add(residency)
    publication.wait(connection)
    make_room(
        server,
        publication,
        request.size_bytes,
        lambda: _begin(server, publication),
        lambda error: fail_load(server, publication, failure_of(error)),
    )


def _equal(server: Server, request: PublishBegin, origin: Origin) -> Residency | None:
    """What is resident under the same key, unless its lineage is unproven and that of the new one would not be."""
    for one in server.holdings.resident():
        key = (one.kind, one.state, one.device, one.weights_digest, one.config)
        if key != (Kind.PROCESSED, ResidencyState.RESIDENT, request.device, origin.weights_digest, request.config):
            continue
        if one.lineage is Lineage.PROVEN or origin.lineage is Lineage.UNPROVEN:
            return one
    return None


def _one_content(running: Publication, request: PublishBegin, origin: Origin) -> bool:
    ours = (request.device, origin.weights_digest, origin.lineage)
    return not running.over and ours == (running.request.device, running.origin.weights_digest, running.origin.lineage)


def _begin(server: Server, publication: Publication) -> None:
    """There is room, and it is reserved from here on."""
    residency, request = publication.residency, publication.request
    residency.bytes = request.size_bytes
    publication.started = True
    publication.phase = orders.Phase("fill", 0, request.size_bytes)
    event = LoadStarted(
        residency=residency.residency,
        asked=residency.asked,
        kind=Kind.PROCESSED,
        device=residency.device,
        bytes=request.size_bytes,
        tensors=request.tensors,
        shards=0,
        instance=server.instance,
    )

    def then(outcome: Outcome) -> None:
        if publication.over:
            return
        if isinstance(outcome, WcacheError):
            fail_load(server, publication, failure_of(outcome))
            return
        publication.waiters.remove(publication.connection)
        publication.connection.reply(Publishing(residency=residency.residency))

    server.recorder.append([new_event(event, expected_version=0)], then)


def take_published(server: Server, connection: Connection, request: Publish, fds: tuple[int, ...]) -> None:
    """The engine hands the memory over. From here on it goes on without it."""
    publication = connection.publication
    if publication is None or publication.residency.residency != request.residency or publication.waiters:
        close_fds(fds)
        raise RequestRefused("nothing of this id is being published on this connection", where=request.residency)
    residency = publication.residency
    residency.fds = list(fds)  # from here on closed with the residency, whatever happens
    publication.wait(connection)
    publication.received = True
    publication.leave()
    try:
        if len(fds) != 2 or request.memory_bytes != residency.bytes or request.table_bytes <= 0:
            raise ProtocolError(
                f"{len(fds)} descriptors and {request.memory_bytes} bytes came, a table and {residency.bytes} bytes were announced",
                where=request.residency,
            )
        residency.segments = (
            SegmentManifest("table", request.table_bytes, "", TABLE),
            SegmentManifest("memory", request.memory_bytes, "", MEMORY),
        )
        residency.inodes = tuple(inode_of(fd) for fd in fds)
        memfd.check_sealed(fds[0], request.table_bytes, name="table")
        publication.phase = orders.Phase("hash", 0, request.memory_bytes)
        publication.job = Job(
            server.loop,
            orders.PublishOrder(segments=residency.segments, fds=fds, device=residency.device),
            fds,
            lambda report, extra: _report(server, publication, report, extra),
            lambda failure: _end(server, publication, failure),
        )
    except WcacheError as error:
        fail_load(server, publication, failure_of(error))
    except OSError as error:
        fail_load(server, publication, failure_of(WcacheError(f"no worker could be started: {error.strerror}")))


def abandon_publication(server: Server, connection: Connection) -> None:
    """The connection is gone. What was not handed over is given up."""
    publication = connection.publication
    if publication is not None and not publication.over:
        what = "the engine went away before it handed the weights over"
        fail_load(
            server, publication, Failure(code="refused", what=what, where=publication.residency.asked.spelling, detail="publisher_gone")
        )


def _report(server: Server, publication: Publication, report: orders.Report, fds: tuple[int, ...]) -> None:
    close_fds(fds)
    if publication.over:
        return
    if isinstance(report, orders.Phase):
        publication.phase = report
        now_s = time.monotonic()
        for waiter in (*publication.waiters, *(connection for connection, _ in publication.followers)):
            waiter.tell_progress(now_s, 0.1)
    elif isinstance(report, orders.PublishResult):
        _complete(server, publication, report)


def _end(server: Server, publication: Publication, failure: Failure | None) -> None:
    if failure is not None and not publication.over:
        fail_load(server, publication, failure)


def _complete(server: Server, publication: Publication, result: orders.PublishResult) -> None:
    residency, origin = publication.residency, publication.origin
    if publication.job is not None:
        publication.job.finish()
    if result.tensors != publication.request.tensors:
        what = f"{result.tensors} tensors came, {publication.request.tensors} were announced"
        fail_load(server, publication, failure_of(MappingFailed(what, where=residency.residency)))
        return
    table, memory = residency.segments
    residency.segments = (SegmentManifest(table.name, table.size_bytes, result.table_digest, TABLE), memory)
    residency.tensor_digests = (b"", result.block_digests)
    residency.processed_digest = result.processed_digest
    residency.weights_digest, residency.table_digest = origin.weights_digest, origin.served.table_digest
    residency.known, residency.dtypes = origin.known, result.dtypes
    residency.pinned = publication.pin is True
    residency.touch()
    recorded = [
        FingerprintRecorded.of(item, residency.asked.spelling, by="loader", uid=os.geteuid(), instance=server.instance)
        for item in origin.unrecorded
    ]
    completed = LoadCompleted(
        residency=residency.residency,
        served=residency.served,
        kind=Kind.PROCESSED,
        device=residency.device,
        bytes=residency.bytes,
        tensors=residency.tensors,
        shards=0,
        weights_digest=origin.weights_digest,
        table_digest=residency.table_digest or "",
        dtypes=result.dtypes,
        fingerprints=origin.fingerprints,
        seconds=result.seconds,
        pinned=residency.pinned,
        processed_digest=result.processed_digest,
        lineage=origin.lineage,
        source=origin.source,
        config=residency.config,
        by=publication.request.engine,
        unproven_why=origin.why,
        by_attach=publication.request.source,
    )
    become_resident(server, publication, [*recorded, completed], result.seconds)
