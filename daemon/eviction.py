"""Room for a load: what the limits leave, and giving back what nobody uses, longest unused first and never more than is needed."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from wcache.core.model.decide import HOST
from wcache.core.model.errors import NoRoom, WcacheError
from wcache.core.model.events import ReleaseRequested
from wcache.core.model.vocabulary import ResidencyState
from wcache.daemon.budget import Room, gpu_room, room
from wcache.daemon.recorder import Outcome
from wcache.daemon.releases import begin_release
from wcache.daemon.verifies import being_verified

if TYPE_CHECKING:
    from wcache.daemon.loads import Load
    from wcache.daemon.residencies import Residency
    from wcache.daemon.server import Server

EVICTED_FOR = "evicted for "
"""How the `why` of an eviction's release.requested begins; the residency that needs the room follows."""

_RETRY_S = 0.05
_SETTLE_S = 1.0  # the kernel's counters of free memory lag behind by up to a second (vm.stat_interval)
_SHOWN = 8


def evictable(server: Server, residency: Residency) -> bool:
    """Whole, and nobody has it, is about to have it, or wants it kept."""
    if residency.state not in (ResidencyState.RESIDENT, ResidencyState.SUSPECT) or residency.pinned or residency.leases:
        return False
    return not residency.reserving() and not being_verified(server, residency)


def choose(candidates: Sequence[Residency], needed_bytes: int) -> list[Residency]:
    """The longest unused ones that together give back what is needed, without any whose bytes the others make up for; none if all of
    them are not enough."""
    chosen: list[Residency] = []
    found_bytes = 0
    for one in sorted(candidates, key=lambda one: one.used_mono_ns):
        if found_bytes >= needed_bytes:
            break
        chosen.append(one)
        found_bytes += one.bytes
    if found_bytes < needed_bytes:
        return []
    for one in reversed(chosen.copy()):
        if found_bytes - one.bytes >= needed_bytes:
            chosen.remove(one)
            found_bytes -= one.bytes
    return chosen


def room_left(server: Server, device: str = HOST) -> tuple[Room, int]:
    """What the limits of a device leave now, and how much of that the running loads will still take. Raises NotFound or Unsupported for a
    GPU that is not there any more."""
    loads = [load for load in server.loads if load.residency.device == device]
    held_bytes = server.holdings.held_bytes(device) + sum(load.taken_bytes() for load in loads)
    budget_bytes = server.settings.budget_bytes
    if device == HOST:
        free = room(budget_bytes=budget_bytes, held_bytes=held_bytes)
    else:
        free = gpu_room(device, budget_bytes=budget_bytes, held_bytes=held_bytes)
    return free, sum(load.left_bytes() for load in loads)


def make_room(server: Server, load: Load, needed_bytes: int, go: Callable[[], None], refuse: Callable[[WcacheError], None]) -> None:
    """`go()` once there is room, or `refuse(why)`: NoRoom with the numbers, before anything is given back in vain. One load at a time, or
    two would evict for the same bytes; neither is called when the load is over."""
    settle_until_s = 0.0
    device = load.residency.device

    def again() -> None:
        nonlocal settle_until_s
        if load.over:
            return
        if any(other.making_room for other in server.loads if other is not load):
            server.loop.call_later(_RETRY_S, again)
            return
        try:
            free, loading_bytes = room_left(server, device)
        except WcacheError as error:
            load.making_room = False
            refuse(error)
            return
        missing_bytes = needed_bytes - (free.bytes - loading_bytes)
        if missing_bytes <= 0:
            load.making_room = False
            go()
            return
        load.making_room = True
        if time.monotonic() < settle_until_s:
            server.loop.call_later(_RETRY_S, again)
            return
        victims = choose([one for one in server.holdings if one.device == device and evictable(server, one)], missing_bytes)
        if not victims:
            load.making_room = False
            refuse(_no_room(server, load, needed_bytes, free, loading_bytes))
            return
        waiting = len(victims)
        failed: WcacheError | None = None

        def given_back(outcome: Outcome) -> None:
            nonlocal waiting, failed, settle_until_s
            waiting -= 1
            failed = outcome if isinstance(outcome, WcacheError) else failed
            if waiting:
                return
            if failed is not None:
                load.making_room = False
                if not load.over:
                    refuse(failed)
                return
            settle_until_s = time.monotonic() + _SETTLE_S
            again()

        for victim in victims:
            why = f"{EVICTED_FOR}{load.residency.residency}"
            requested = ReleaseRequested(residency=victim.residency, uid=os.geteuid(), why=why, force=False, leases=())
            begin_release(server, victim, requested, given_back)

    again()


def _no_room(server: Server, load: Load, needed_bytes: int, free: Room, loading_bytes: int) -> NoRoom:
    loading = f", and running loads will take {loading_bytes} of them" if loading_bytes else ""
    device = load.residency.device
    held = [_described(server, one) for one in server.holdings.held() if one is not load.residency and one.device == device]
    shown = f"; held: {', '.join(held[:_SHOWN])}" if held else ""
    more = f" and {len(held) - _SHOWN} more" if len(held) > _SHOWN else ""
    of = "" if device == HOST else f" of {device}"
    return NoRoom(
        f"{needed_bytes} bytes{of} are needed, {free.bytes} may be taken (by {free.by}){loading}{shown}{more}",
        where=load.residency.asked.spelling,
        remedy="release something, or raise the limit",
    )


def _described(server: Server, one: Residency) -> str:
    if one.leases:
        why = f"mapped by {len(one.leases)}"
    elif one.state is ResidencyState.LOADING:
        why = "loading"
    elif one.pinned:
        why = "pinned"
    elif one.reserving():
        why = "about to be attached"
    else:
        why = "evictable" if evictable(server, one) else one.state
    return f"{one.residency} {one.bytes} ({why})"
