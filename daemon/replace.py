"""`wcache daemon --replace`: this server makes way for one of the code that is installed now, and no client notices.

In order: whatever runs long (loads, hashes, checks) is finished while everybody is served; then whoever has nothing running is no longer
read from, and who connects waits in the backlog, until every request is answered and every hand-over complete; then every connection goes
to the vault, and the process ends without touching a residency or a lease. Whoever asked for it can give up until then, by going away.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wcache.core.model.errors import RequestRefused
from wcache.core.wire.messages import Done, Progress, ReplaceRequest
from wcache.daemon.kept import connection_deposit

if TYPE_CHECKING:
    from wcache.daemon.connection import Connection
    from wcache.daemon.server import Server

_LOOK_S = 0.02


def replace_server(server: Server, connection: Connection, _request: ReplaceRequest) -> None:
    if server.replacing:
        raise RequestRefused("the server is being replaced already", remedy="wait for that")
    server.replacing = True
    connection.wait_for(_progress, lambda: _give_up(server))
    _step(server, connection)


def _running(server: Server) -> int:
    ending = sum(begun.ending or not begun.recorded for begun in server.releases.values())
    return len(server.loads) + len(server.hashes) + len(server.proofs) + len(server.verifies) + ending


def _progress() -> Progress:
    return Progress(phase="wait", done_bytes=0, total_bytes=0)


def _step(server: Server, requester: Connection) -> None:
    if server.stopping or not server.replacing:
        return
    if not _running(server):
        server.pause_accepting()
        _excuse_deferred(server)
        others = [one for one in server.connections if one is not requester]
        for one in others:
            if one.movable:
                one.pause()
        if all(one.movable for one in others):
            for one in others:
                if one.kept is None:
                    deposit = connection_deposit(one)
                    one.kept = deposit.key
                    server.vault.keep(deposit)
            _leave(server, requester)
            return
    server.loop.call_later(_LOOK_S, lambda: _step(server, requester))


def _excuse_deferred(server: Server) -> None:
    """They may wait for days; the release itself is on record, and the next server goes on with it."""
    for begun in server.releases.values():
        waiters, begun.waiters = begun.waiters, []
        for waiter in waiters:
            waiter(
                RequestRefused("the release is on record and goes on, but the server is being replaced", where=begun.residency.residency)
            )


def _leave(server: Server, requester: Connection) -> None:
    """Once the vault has everything."""
    if server.stopping or not server.replacing:
        return
    if server.vault.pending:
        server.loop.call_later(_LOOK_S, lambda: _leave(server, requester))
        return
    requester.reply(Done())
    server.leave()


def _give_up(server: Server) -> None:
    """Whoever asked is gone: go on as if nothing had been asked."""
    if server.leaving or not server.replacing:
        return
    server.replacing = False
    for one in server.connections:
        if one.kept is not None and not one.leased:
            server.vault.drop(one.kept)
            one.kept = None
        one.resume()
    server.resume_accepting()
