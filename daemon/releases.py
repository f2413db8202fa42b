"""Giving memory back, and ending the daemon: refused while somebody has the weights mapped, unless deferred or forced."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from wcache.core.model.errors import LedgerUnavailable, RequestRefused, WcacheError
from wcache.core.model.events import ReleaseCompleted, ReleaseRefused, ReleaseRequested
from wcache.core.model.vocabulary import ResidencyState
from wcache.core.wire.messages import Done, Failure, Progress, ReleaseRequest, ShutdownRequest, Verified
from wcache.daemon.deposits import SEGMENTS
from wcache.daemon.recorder import Outcome, new_event
from wcache.daemon.verifies import abandon_verify, check_bytes, check_seals

if TYPE_CHECKING:
    from wcache.daemon.connection import Connection
    from wcache.daemon.residencies import Lease, Residency
    from wcache.daemon.server import Server

_SHOWN = 8


class Release:
    """One that is asked for and not complete. `waiters` are told how it ended; it goes on without them.

    In order: the request is recorded, the last lease ends (unless it is forced), the memory is checked a last time, it is let go, and
    that is recorded.
    """

    def __init__(self, residency: Residency, *, before: ResidencyState, force: bool, verify: bool) -> None:
        self.residency = residency
        self.before = before
        self.force = force
        self.verify = verify
        self.recorded = False
        self.ending = False
        self.complete: Callable[[], None] | None = None  # while only the vault's answer is missing
        self.completing = False  # its completion is on its way into the ledger
        self.waiters: list[Callable[[Outcome], None]] = []

    def progress(self) -> Progress:
        return Progress(phase="wait", done_bytes=0, total_bytes=0, residency=self.residency.residency)


def release(server: Server, connection: Connection, request: ReleaseRequest) -> None:
    residency = server.holdings.find(request.residency)
    deferred = server.releases.get(residency.residency)
    if deferred is not None and not deferred.ending and (request.force or request.when_free):
        _join(server, connection, deferred, request)
        return
    if residency.state not in (ResidencyState.RESIDENT, ResidencyState.SUSPECT):
        remedy = "use --force to release it under its leases" if deferred is not None and residency.leases else "wait until that is over"
        raise RequestRefused(f"it is {residency.state}", where=residency.residency, remedy=remedy, detail=residency.state)
    holders = (*residency.leases, *(attach for attach in residency.reserving() if attach not in residency.leases))
    if holders and not request.force and not request.when_free:
        _refuse(server, connection, residency, request, holders)
        return
    requested = _requested(connection, residency, request)
    begun = begin_release(server, residency, requested, _answer(connection, residency), verify=request.verify)
    if request.verify or (residency.leases and not request.force):
        connection.wait_for(begun.progress, lambda: None)


def begin_release(
    server: Server, residency: Residency, requested: ReleaseRequested, then: Callable[[Outcome], None], *, verify: bool = False
) -> Release:
    """Nobody gets it from here on. `then` is called once: with the seq of its completion, or why it could not be recorded and stays."""
    begun = Release(residency, before=residency.state, force=requested.force, verify=verify)
    begun.waiters.append(then)
    server.releases[residency.residency] = begun
    residency.state = ResidencyState.RELEASING

    def recorded(outcome: Outcome) -> None:
        if isinstance(outcome, WcacheError):
            residency.state = ResidencyState.SUSPECT if residency.flaw else begun.before
            _over(server, begun, outcome)
            return
        begun.recorded = True
        proceed(server, begun)

    server.recorder.append([new_event(requested)], recorded)
    return begun


def resume_release(server: Server, residency: Residency) -> None:
    """Of an earlier server of this instance, whose request is on record: go on with it."""
    residency.state = ResidencyState.RELEASING
    begun = Release(residency, before=residency.state, force=False, verify=False)
    begun.recorded = True
    server.releases[residency.residency] = begun
    proceed(server, begun)


def lease_gone(server: Server, residency: Residency) -> None:
    """A lease of it ended: a release may have waited for that."""
    begun = server.releases.get(residency.residency)
    if begun is not None:
        proceed(server, begun)


def proceed(server: Server, begun: Release) -> None:
    """As far as it goes now."""
    residency = begun.residency
    if begun.ending or not begun.recorded or (residency.leases and not begun.force) or server.stopping:
        return  # of a daemon that stops, its last events say what became of it
    begun.ending = True
    sealed = check_seals(server, residency)

    def let_go(checked: str) -> None:
        if server.stopping:
            return
        for running in [one for one in server.verifies if one.residency is residency]:
            abandon_verify(server, running)
            for waiter in running.waiters:
                waiter(Failure(code="refused", what="it was released meanwhile", where=residency.residency))
        begun.complete = lambda: dropped(checked)
        server.vault.drop((SEGMENTS, residency.residency), begun.complete)

    def dropped(checked: str) -> None:
        if begun.completing:
            return
        begun.complete, begun.completing = None, True
        server.holdings.retire(residency, ResidencyState.RELEASED)
        unit = [new_event(ReleaseCompleted(residency=residency.residency, bytes=residency.bytes, checked=checked))]

        def recorded(outcome: Outcome) -> None:
            if isinstance(outcome, LedgerUnavailable):
                server.recorder.keep(unit)
            _over(server, begun, outcome if isinstance(outcome, list) else [])

        server.recorder.append(unit, recorded)

    def verified(verdict: Verified | Failure) -> None:
        let_go("digests" if isinstance(verdict, Verified) else "seals" if sealed else "")

    if begun.verify:
        check_bytes(server, residency, verified)
    else:
        let_go("seals" if sealed else "")


def _over(server: Server, begun: Release, outcome: Outcome) -> None:
    server.releases.pop(begun.residency.residency, None)
    for waiter in begun.waiters:
        waiter(outcome)


def _answer(connection: Connection, residency: Residency) -> Callable[[Outcome], None]:
    def told(outcome: Outcome) -> None:
        if isinstance(outcome, WcacheError):
            connection.fail(outcome)
        else:
            connection.reply(Done(seq=outcome[-1] if outcome else None, residency=residency.residency))

    return told


def _requested(connection: Connection, residency: Residency, request: ReleaseRequest) -> ReleaseRequested:
    return ReleaseRequested(
        residency=residency.residency,
        uid=connection.peer.uid,
        why=request.why,
        force=request.force,
        leases=tuple(residency.leases),
        when_free=request.when_free and not request.force,
    )


def _join(server: Server, connection: Connection, begun: Release, request: ReleaseRequest) -> None:
    """Wait with those who asked before, or force what they only deferred."""
    begun.verify = begun.verify or request.verify
    answer = _answer(connection, begun.residency)
    begun.waiters.append(answer)
    connection.wait_for(begun.progress, lambda: None)

    def recorded(outcome: Outcome) -> None:
        if not isinstance(outcome, WcacheError):
            begun.force = True
            proceed(server, begun)
        elif begun.residency.residency in server.releases:
            begun.waiters.remove(answer)
            answer(outcome)

    if request.force:
        server.recorder.append([new_event(_requested(connection, begun.residency, request))], recorded)


def _refuse(server: Server, connection: Connection, residency: Residency, request: ReleaseRequest, holders: tuple[str, ...]) -> None:
    leases = list(residency.leases.values())
    if leases:
        error = RequestRefused(
            f"mapped by {list_leases(leases)}",
            where=residency.residency,
            remedy="stop them first, or use --when-free or --force",
            detail="leased",
        )
    else:
        error = RequestRefused(
            f"{len(holders)} attach(es) are about to decide on it: {', '.join(holders[:_SHOWN])}",
            where=residency.residency,
            remedy="try again in half a minute, or use --force",
            detail="reserved",
        )
    event = ReleaseRefused(residency=residency.residency, uid=connection.peer.uid, why=request.why, leases=holders)
    server.recorder.append([new_event(event)], lambda _: connection.fail(error))


def list_leases(leases: list[Lease]) -> str:
    shown = ", ".join(lease.describe() for lease in leases[:_SHOWN])
    more = f" and {len(leases) - _SHOWN} more" if len(leases) > _SHOWN else ""
    return f"{len(leases)}: {shown}{more}"


def shut_down(server: Server, connection: Connection, request: ShutdownRequest) -> None:
    leases = server.holdings.leases()
    if leases and not request.force:
        raise RequestRefused(f"weights are mapped by {list_leases(leases)}", remedy="stop them first, or use --force", detail="leased")
    server.stop(f"uid {connection.peer.uid}", lambda: connection.reply(Done()))
