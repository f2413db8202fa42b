"""What the server is and holds, for `wcache status`."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from wcache.core import __version__
from wcache.core.wire.messages import ResidencyStatus, Status, StatusRequest
from wcache.daemon.budget import room

if TYPE_CHECKING:
    from wcache.daemon.connection import Connection
    from wcache.daemon.server import Server


def tell_status(server: Server, connection: Connection, _request: StatusRequest) -> None:
    connection.reply(status_of(server))


def status_of(server: Server) -> Status:
    holdings, recorder = server.holdings, server.recorder
    loading = {load.residency.residency: load for load in server.loads}
    free = room()
    residencies = []
    for one in holdings.held():
        load = loading.get(one.residency)
        phase = load.phase if load else None
        residencies.append(
            ResidencyStatus(
                view=one.view(),
                leases=len(one.leases),
                loaded_ns=one.loaded_ns,
                phase=phase.phase if phase else None,
                done_bytes=phase.done_bytes if phase else 0,
                total_bytes=phase.total_bytes if phase else 0,
            )
        )
    return Status(
        version=__version__,
        instance=server.instance,
        server_pid=os.getpid(),
        state="stopping" if server.stopping else "ready",
        started_ns=server.started_ns,
        runtime_dir=str(server.settings.runtime_dir),
        ledger=str(recorder.path),
        ledger_seq=recorder.seq,
        resident_bytes=holdings.resident_bytes(),
        budget_bytes=max(0, free.bytes - sum(load.left_bytes() for load in server.loads)),
        budget_by=free.by,
        memory_bytes=memory_bytes(),
        residencies=tuple(residencies),
        leases=tuple(lease.status() for lease in holdings.leases()),
        journalled=recorder.journal.pending(),
    )


def memory_bytes() -> int:
    """Resident set of this process (proc(5), statm): the weights are not in it, the server never maps them."""
    with open("/proc/self/statm", encoding="ascii") as file:  # noqa: PTH123
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
