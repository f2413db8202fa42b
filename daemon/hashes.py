"""Hashing on request: a worker reads the checkpoint through descriptors that the client opened, once for all who ask at the same time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wcache.core.model.errors import LedgerUnavailable, ProtocolError, WcacheError
from wcache.core.model.events import FingerprintRecorded
from wcache.core.model.evidence import Fingerprint, Verity
from wcache.core.wire.channel import failure_of
from wcache.core.wire.frames import close_fds
from wcache.core.wire.messages import Failure, Hashed, HashRequest, Progress, Prove
from wcache.daemon import orders
from wcache.daemon.behind import hashed_meanwhile, step_aside
from wcache.daemon.jobs import Job, retries_told
from wcache.daemon.proofs import request_proof, require_hashable, require_readable
from wcache.daemon.recorder import Outcome, new_event

if TYPE_CHECKING:
    from wcache.daemon.connection import Connection
    from wcache.daemon.server import Server

HASHES_MAX = 2  # at a time: more would only share the disk
_FILES_MAX = 8192


class Hash:
    """One hash, waiting or running, and those who wait for it. `fds` are owned until the worker has them."""

    def __init__(self, request: HashRequest, fds: list[int], uid: int, foreign: bool) -> None:
        self.request = request
        self.foreign = foreign
        self.key = (request.location.root, request.location.key())  # hard links are hashed apart: each answer is about one place
        self.fds = fds
        self.uid = uid
        self.job: Job | None = None
        self.waiters: list[Connection] = []
        self.phase = orders.Phase("wait", 0, sum(one.size_bytes for one in request.location.files))

    def progress(self) -> Progress:
        return Progress(phase=self.phase.phase, done_bytes=self.phase.done_bytes, total_bytes=self.phase.total_bytes)


def take_files(server: Server, connection: Connection, request: HashRequest | Prove, fds: tuple[int, ...]) -> None:
    """The descriptors of a hash or a proof arrive, in as many messages as it takes."""
    connection.parts.extend(fds)
    if connection.foreign:
        try:
            require_readable(server, connection, fds)
        except WcacheError:
            parts, connection.parts = connection.parts, []
            close_fds(parts)
            raise
    location = request.location
    expected = len(location.files) + (location.index is not None)
    if request.more and len(connection.parts) < expected <= _FILES_MAX:
        connection.proceed()
        return
    parts, connection.parts = connection.parts, []
    if request.more or len(parts) != expected:
        close_fds(parts)
        what = "looked at" if isinstance(request, Prove) else "hashed"
        raise ProtocolError(f"{len(parts)} descriptors came to be {what}, {expected} are needed", where=location.root)
    if isinstance(request, Prove):
        request_proof(server, connection, request, parts)
        return
    if connection.foreign:
        try:
            request = require_hashable(server, connection, request)
        except WcacheError:
            close_fds(parts)
            raise
    # Whoever joins a hash gets evidence for what it finds, so nobody joins that of another user's descriptors, and another user joins none.
    key = (location.root, location.key())
    found = next((one for one in server.hashes if one.key == key and not one.foreign and not connection.foreign), None)
    if found is None:
        found = Hash(request, parts, connection.peer.uid, connection.foreign)
        server.hashes.append(found)
    else:
        close_fds(parts)
    hashing = found
    hashing.waiters.append(connection)
    if not connection.foreign:
        step_aside(server, location.key())
    connection.wait_for(hashing.progress, lambda: _left(server, hashing, connection))
    start_next(server)


def start_next(server: Server) -> None:
    """As many as may run at a time, in the order in which they came."""
    free = HASHES_MAX - sum(one.job is not None for one in server.hashes)
    for hashing in sorted((one for one in server.hashes if one.job is None), key=lambda one: one.foreign):  # others' come after ours
        if free <= 0:
            return
        if hashing.foreign and any(one.foreign and one.job is not None for one in server.hashes):
            return
        free -= 1
        _start(server, hashing)


def _start(server: Server, hashing: Hash) -> None:
    request, fds = hashing.request, tuple(hashing.fds)
    try:
        hashing.job = Job(
            server.loop,
            orders.HashOrder(spelling=request.spelling, location=request.location, fds=fds, known=_measured_earlier(server, hashing)),
            fds,
            lambda report, extra: _report(server, hashing, report, extra),
            lambda failure: _failed(server, hashing, failure),
        )
    except OSError as error:
        _failed(server, hashing, failure_of(WcacheError(f"no worker could be started: {error.strerror}")))
    finally:
        close_fds(fds)
        hashing.fds = []


def _measured_earlier(server: Server, hashing: Hash) -> tuple[Fingerprint, ...]:
    """What was hashed at this place, or under this name, while the kernel measured its files. Another user's places are not ours."""
    if hashing.foreign:
        return ()
    request = hashing.request
    known = server.recorder.knowledge.fingerprints_at(root=request.location.root, spelling=request.spelling)
    return tuple(one for one in known if isinstance(one.verity, Verity))


def _report(server: Server, hashing: Hash, report: orders.Report, fds: tuple[int, ...]) -> None:
    close_fds(fds)
    if isinstance(report, orders.Phase):
        retries_told(server, hashing.phase, report)
        hashing.phase = report
    elif isinstance(report, orders.HashResult) and hashing.job is not None:
        hashing.job.finish()
        _record(server, hashing, report.fingerprint)


def _record(server: Server, hashing: Hash, fingerprint: Fingerprint) -> None:
    unit = [
        new_event(
            FingerprintRecorded.of(
                fingerprint,
                hashing.request.spelling,
                by="server",
                uid=hashing.uid,
                instance=None if hashing.foreign else server.instance,  # instance trust rests on what our own user asked for first
            )
        )
    ]

    def then(outcome: Outcome) -> None:
        # Without a ledger the attach that follows is decided by its policy for that case, so what was found is not thrown away here.
        kept = isinstance(outcome, LedgerUnavailable) and server.recorder.keep(unit)
        waiters = _finish(server, hashing)
        for waiter in waiters:
            if isinstance(outcome, WcacheError) and not kept:
                waiter.fail(outcome)
            else:
                waiter.hashed.add(fingerprint.id())
                waiter.reply(Hashed(fingerprint=fingerprint))
        if isinstance(outcome, list) and not hashing.foreign:
            hashed_meanwhile(server, fingerprint)

    server.recorder.append(unit, then)


def _failed(server: Server, hashing: Hash, failure: Failure | None) -> None:
    if failure is None:
        return
    for waiter in _finish(server, hashing):
        waiter.reply(failure)


def sweep_hashes(server: Server, now_s: float) -> None:
    """Give up on workers that are stuck: whoever waits for them, or for their place, must not wait for ever."""
    for hashing in list(server.hashes):
        stalled = hashing.job.stalled(now_s) if hashing.job is not None else None
        if hashing.job is not None and stalled is not None:
            hashing.job.kill()
            _failed(server, hashing, failure_of(stalled))


def _finish(server: Server, hashing: Hash) -> list[Connection]:
    if hashing in server.hashes:
        server.hashes.remove(hashing)
        server.loop.post(lambda: start_next(server))
    return list(hashing.waiters)


def _left(server: Server, hashing: Hash, connection: Connection) -> None:
    """Nobody waits for it any more: do not read on."""
    hashing.waiters.remove(connection)
    if not hashing.waiters:
        abandon_hash(server, hashing)


def abandon_hash(server: Server, hashing: Hash) -> None:
    if hashing.job is not None:
        hashing.job.kill()
    close_fds(hashing.fds)
    _finish(server, hashing)
