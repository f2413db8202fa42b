"""Is resident memory still what was loaded? Seals, sizes and inodes here; bytes by a worker, through the segments' descriptors.

What fails becomes `suspect`: nobody gets it any more, those who have it are flagged, and a release stays possible.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from wcache.core.model.decide import HOST
from wcache.core.model.errors import LedgerUnavailable, RequestRefused, WcacheError
from wcache.core.model.events import Event, MutationDetected, VerifyFailed, VerifyInconclusive, VerifyPassed
from wcache.core.model.vocabulary import ResidencyState
from wcache.core.wire.channel import failure_of
from wcache.core.wire.frames import close_fds
from wcache.core.wire.messages import Failure, Progress, Verified, VerifyRequest
from wcache.daemon import orders
from wcache.daemon.jobs import Job
from wcache.daemon.kept import segments_of
from wcache.daemon.recorder import Outcome, new_event

if TYPE_CHECKING:
    from wcache.daemon.connection import Connection
    from wcache.daemon.residencies import Residency
    from wcache.daemon.server import Server

VERIFIES_MAX = 1  # at a time: each uses all cores

Verdict = Callable[[Verified | Failure], None]


class Verify:
    """One check of every byte, waiting or running, and those who wait for it."""

    def __init__(self, residency: Residency) -> None:
        self.residency = residency
        self.waiters: list[Verdict] = []
        self.job: Job | None = None
        self.began_s = time.monotonic()
        self.phase = orders.Phase("wait", 0, residency.bytes)

    def progress(self) -> Progress:
        phase, residency = self.phase, self.residency.residency
        return Progress(phase=phase.phase, done_bytes=phase.done_bytes, total_bytes=phase.total_bytes, residency=residency)


def verify(server: Server, connection: Connection, request: VerifyRequest) -> None:
    residency = server.holdings.find(request.residency)
    if residency.state not in (ResidencyState.RESIDENT, ResidencyState.SUSPECT):
        raise RequestRefused(
            f"it is {residency.state}", where=residency.residency, remedy="wait until that is over", detail=residency.state
        )
    flaw = residency.memory_flaw()
    if not flaw and not request.read and residency.device != HOST:
        raise RequestRefused(
            "the memory of a GPU has no seals: only reading it says anything", where=residency.residency,
            remedy="verify it without --no-read", detail="no_seals",
        )  # fmt: skip
    if flaw or not request.read:
        _conclude(server, residency, 0.0, (), flaw, None, "seals", connection.reply)
        return
    running = check_bytes(server, residency, connection.reply)
    connection.wait_for(running.progress, lambda: _left(server, running, connection.reply))


def check_bytes(server: Server, residency: Residency, then: Verdict) -> Verify:
    """Have a worker hash all of it, once for all who ask at the same time."""
    found = next((one for one in server.verifies if one.residency is residency), None)
    if found is None:
        found = Verify(residency)
        server.verifies.append(found)
    found.waiters.append(then)
    _start_next(server)
    return found


def check_seals(server: Server, residency: Residency) -> bool:
    """The check that costs next to nothing, at every end of a lease and of a residency. A flaw is put on record once. False too where
    there is nothing to look at: any more, since it was released by force, or on a GPU, whose memory has no seals."""
    if not residency.fds:
        return False
    flaw = residency.memory_flaw()
    if flaw and flaw != residency.flaw:
        _suspect(server, residency, flaw)
        server.recorder.observe(MutationDetected(residency=residency.residency, tensors=(), why=flaw))
    return not flaw and residency.device == HOST


def being_verified(server: Server, residency: Residency) -> bool:
    return any(one.residency is residency for one in server.verifies)


def abandon_verify(server: Server, running: Verify) -> None:
    """End it without a verdict; those who wait are told by whoever ends it."""
    if running.job is not None:
        running.job.kill()
    _finish(server, running)


def _start_next(server: Server) -> None:
    for running in server.verifies[:VERIFIES_MAX]:
        if running.job is None:
            _start(server, running)


def _start(server: Server, running: Verify) -> None:
    residency = running.residency
    order = orders.VerifyOrder(
        segments=residency.segments,
        tensor_digests=residency.tensor_digests,
        fds=tuple(residency.fds),
        weights_digest=residency.weights_digest or "",
        device=residency.device,
    )
    try:
        running.job = Job(
            server.loop,
            order,
            order.fds,
            lambda report, extra: _report(server, running, report, extra),
            lambda failure: _failed(server, running, failure),
        )
    except OSError as error:
        _failed(server, running, failure_of(WcacheError(f"no worker could be started: {error.strerror}")))


def _report(server: Server, running: Verify, report: orders.Report, fds: tuple[int, ...]) -> None:
    close_fds(fds)
    if isinstance(report, orders.Phase):
        running.phase = report
    elif isinstance(report, orders.VerifyResult) and running.job is not None:
        running.job.finish()
        waiters = _finish(server, running)
        why = report.why or ("" if report.intact or report.tensors else "the bytes differ")
        seconds = time.monotonic() - running.began_s

        def tell(reply: Verified | Failure) -> None:
            for waiter in waiters:
                waiter(reply)

        _conclude(server, running.residency, seconds, report.tensors, why, report.found, "digests", tell)


def _conclude(
    server: Server, residency: Residency, seconds: float, tensors: tuple[str, ...], why: str, found: str | None, by: str, tell: Verdict
) -> None:
    """Put the verdict on record, act on it, and tell it. Sealed memory that was not read is what it was (`found` is None)."""
    intact = not tensors and not why
    expected = residency.weights_digest or ""
    events: list[Event] = []
    if intact:
        found = expected if found is None else found
        passed = VerifyPassed(
            subject="residency", attach=None, residency=residency.residency, expected=expected, found=found, seconds=seconds, by=by
        )
        events.append(passed)
    else:
        _suspect(server, residency, why or f"{len(tensors)} tensors changed")
        if found is not None:
            failed = VerifyFailed(
                subject="residency", attach=None, residency=residency.residency, expected=expected, found=found,
                asked_key=residency.served.key, spellings=residency.view().spellings, seconds=seconds,
            )  # fmt: skip
            events.append(failed)
        events.append(MutationDetected(residency=residency.residency, tensors=tensors, why=why))
    unit = [new_event(event) for event in events]

    def recorded(outcome: Outcome) -> None:
        if isinstance(outcome, LedgerUnavailable):
            server.recorder.keep(unit)
        tell(
            Verified(
                residency=residency.residency, intact=intact, by=by, tensors=tensors, why=why, expected=expected, found=found or "",
                bytes=residency.bytes if by == "digests" else 0, seconds=seconds, state=residency.state,
                seq=None if isinstance(outcome, WcacheError) else outcome[-1],
            )
        )  # fmt: skip

    server.recorder.append(unit, recorded)


def _suspect(server: Server, residency: Residency, flaw: str) -> None:
    residency.flaw = flaw
    if residency.state is ResidencyState.RESIDENT:
        residency.state = ResidencyState.SUSPECT
        server.vault.keep(segments_of(residency))  # what is wrong with it must outlive this server


def _failed(server: Server, running: Verify, failure: Failure | None) -> None:
    if failure is None or running not in server.verifies:
        return
    residency = running.residency.residency
    waiters, told = _finish(server, running), failure

    def recorded() -> None:
        for waiter in waiters:
            waiter(told)

    event = VerifyInconclusive(subject="residency", attach=None, residency=residency, why=failure.what)
    server.recorder.observe(event, then=recorded)


def _finish(server: Server, running: Verify) -> list[Verdict]:
    if running in server.verifies:
        server.verifies.remove(running)
        server.loop.post(lambda: _start_next(server))
    return list(running.waiters)


def _left(server: Server, running: Verify, waiter: Verdict) -> None:
    """Nobody waits for it any more: do not read on."""
    running.waiters.remove(waiter)
    if not running.waiters:
        abandon_verify(server, running)
