"""What the server is and holds, for `wcache status`."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from wcache.core import __version__
from wcache.core.wire.messages import ResidencyStatus, Status, StatusRequest
from wcache.daemon.attaches import note_orphans
from wcache.daemon.eviction import evictable, room_left
from wcache.daemon.proofs import narrowed

if TYPE_CHECKING:
    from wcache.daemon.connection import Connection
    from wcache.daemon.server import Server


def tell_status(server: Server, connection: Connection, _request: StatusRequest) -> None:
    note_orphans(server)
    connection.reply(narrowed(server, connection, status_of(server)))


def status_of(server: Server) -> Status:
    holdings, recorder = server.holdings, server.recorder
    loading = {load.residency.residency: load for load in server.loads}
    free, loading_bytes = room_left(server)
    residencies = []
    for one in holdings.held():
        load = loading.get(one.residency)
        phase = load.phase if load else None
        residencies.append(
            ResidencyStatus(
                view=one.view(),
                leases=len(one.leases),
                loaded_ns=one.loaded_ns,
                used_ns=one.used_ns(),
                pinned=one.pinned,
                evictable=evictable(server, one),
                flaw=one.flaw,
                phase=phase.phase if phase else None,
                done_bytes=phase.done_bytes if phase else 0,
                total_bytes=phase.total_bytes if phase else 0,
            )
        )
    return Status(
        version=__version__,
        instance=server.instance,
        server_pid=os.getpid(),
        vault_pid=server.vault.pid,
        state="stopping" if server.stopping else "ready",
        started_ns=server.started_ns,
        runtime_dir=str(server.settings.runtime_dir),
        ledger=str(recorder.path),
        ledger_seq=recorder.seq,
        resident_bytes=holdings.resident_bytes(),
        budget_bytes=max(0, free.bytes - loading_bytes),
        budget_by=free.by,
        memory_bytes=memory_bytes(),
        residencies=tuple(residencies),
        leases=tuple(lease.status(suspect=bool(one.flaw)) for one in holdings for lease in one.leases.values()),
        journalled=recorder.journal.pending(),
        ledger_failure=recorder.failure.diagnostics() if recorder.failure else "",
        warnings=tuple(server.space.warnings()),
        health_port=server.health.port if server.health else None,
    )


def memory_bytes() -> int:
    """Resident set of this process (proc(5), statm): the weights are not in it, the server never maps them."""
    with open("/proc/self/statm", encoding="ascii") as file:  # noqa: PTH123
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
