"""Giving memory back, and ending the daemon: refused while somebody has the weights mapped, unless forced."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wcache.core.model.errors import RequestRefused, WcacheError
from wcache.core.model.events import ReleaseCompleted, ReleaseRefused, ReleaseRequested
from wcache.core.model.vocabulary import ResidencyState
from wcache.core.wire.messages import Done, ReleaseRequest, ShutdownRequest
from wcache.daemon.recorder import Outcome, new_event

if TYPE_CHECKING:
    from wcache.daemon.connection import Connection
    from wcache.daemon.residencies import Lease, Residency
    from wcache.daemon.server import Server

_SHOWN = 8


def release(server: Server, connection: Connection, request: ReleaseRequest) -> None:
    residency = server.holdings.find(request.residency)
    if residency.state not in (ResidencyState.RESIDENT, ResidencyState.SUSPECT):
        raise RequestRefused(
            f"it is {residency.state}", where=residency.residency, remedy="wait until that is over", detail=residency.state
        )
    holders = (*residency.leases, *(attach for attach in residency.reserving() if attach not in residency.leases))
    if holders and not request.force:
        _refuse(server, connection, residency, request, holders)
        return
    before, residency.state = residency.state, ResidencyState.RELEASING
    event = ReleaseRequested(
        residency=residency.residency, uid=connection.peer.uid, why=request.why, force=request.force, leases=tuple(residency.leases)
    )

    def recorded(outcome: Outcome) -> None:
        if isinstance(outcome, WcacheError):
            residency.state = before
            connection.fail(outcome)
            return
        server.holdings.retire(residency, ResidencyState.RELEASED)
        completed = ReleaseCompleted(residency=residency.residency, bytes=residency.bytes)
        server.recorder.append([new_event(completed)], lambda ended: connection.reply(Done(seq=_last(ended))))

    server.recorder.append([new_event(event)], recorded)


def _last(outcome: Outcome) -> int | None:
    return None if isinstance(outcome, WcacheError) else outcome[-1]


def _refuse(server: Server, connection: Connection, residency: Residency, request: ReleaseRequest, holders: tuple[str, ...]) -> None:
    leases = list(residency.leases.values())
    if leases:
        error = RequestRefused(
            f"mapped by {_list(leases)}", where=residency.residency, remedy="stop them first, or use --force", detail="leased"
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


def _list(leases: list[Lease]) -> str:
    shown = ", ".join(lease.describe() for lease in leases[:_SHOWN])
    more = f" and {len(leases) - _SHOWN} more" if len(leases) > _SHOWN else ""
    return f"{len(leases)}: {shown}{more}"


def shut_down(server: Server, connection: Connection, request: ShutdownRequest) -> None:
    leases = server.holdings.leases()
    if leases and not request.force:
        raise RequestRefused(f"weights are mapped by {_list(leases)}", remedy="stop them first, or use --force", detail="leased")
    server.stop(f"uid {connection.peer.uid}", lambda: connection.reply(Done()))
