"""The server: accepts, dispatches, sweeps, and ends in order. It never imports torch and never maps weights."""

from __future__ import annotations

import logging
import os
import resource
import secrets
import socket
import time
from collections.abc import Callable

from wcache.core import __version__
from wcache.core.model.errors import ProtocolError, WcacheError
from wcache.core.model.events import DaemonStarted, DaemonStopped, Event, LeaseEnded, Peer, PeerRefused, ResidencyLost
from wcache.core.model.vocabulary import Reason
from wcache.core.settings import Settings
from wcache.core.wire.frames import close_fds, encode_frame
from wcache.core.wire.messages import (
    PROTOCOL_VERSION,
    Ack,
    AnyRequest,
    AttachBegin,
    Decide,
    Failure,
    HashRequest,
    Hello,
    LoadRequest,
    Lookup,
    Message,
    Observe,
    ReleaseRequest,
    ShutdownRequest,
    StatusRequest,
    Welcome,
    encode,
)
from wcache.core.wire.peer import peer_of
from wcache.daemon.attaches import acknowledge, begin_attach, decide_attach, leave, look_up, observe
from wcache.daemon.connection import Connection
from wcache.daemon.hashes import Hash, abandon_hash, request_hash, sweep_hashes
from wcache.daemon.instance import InstanceLock, boot_id, bury_predecessors, listen
from wcache.daemon.loads import Load, start_load, stop_load, sweep_loads
from wcache.daemon.loop import READ, Loop
from wcache.daemon.recorder import Outcome, Recorder, new_event
from wcache.daemon.releases import release, shut_down
from wcache.daemon.residencies import Holdings
from wcache.daemon.status import tell_status

log = logging.getLogger("wcache")

SWEEP_S = 0.5
CONNECTIONS_MAX = 1024
_ACCEPTS_PER_TURN = 16
_ACCEPT_PAUSE_S = 0.2
_REFUSED_EVERY_S = 60.0  # of one uid on record: a refused peer must not fill the ledger

_HANDLERS: dict[type[Message], Callable[..., None]] = {
    AttachBegin: begin_attach,
    Lookup: look_up,
    Decide: decide_attach,
    Observe: observe,
    Ack: acknowledge,
    LoadRequest: start_load,
    ReleaseRequest: release,
    StatusRequest: tell_status,
    ShutdownRequest: shut_down,
}


class Server:
    """Everything between the lock and the last event. `run()` returns after an ordered end."""

    def __init__(self, settings: Settings, lock: InstanceLock) -> None:
        self.settings = settings
        self.instance = f"d-{secrets.token_hex(8)}"
        self.started_ns = time.time_ns()
        self.stopping = False
        self.holdings = Holdings()
        self.loads: list[Load] = []
        self.hashes: list[Hash] = []
        self.unacked = 0
        self.unacked_max = _raise_open_files() // 2
        self._lock = lock
        self._connections: set[Connection] = set()
        self._refused_s: dict[int, float] = {}
        self.loop = Loop()
        self.recorder = Recorder(self.loop, settings.ledger, settings.runtime_dir)
        bury_predecessors(self.recorder.ledger, self.recorder.knowledge, settings, self.instance)
        self._append_now(
            DaemonStarted(
                instance=self.instance,
                version=__version__,
                boot_id=boot_id(),
                pid=os.getpid(),
                uid=os.geteuid(),
                origin=self.recorder.ledger.origin,
                runtime_dir=str(settings.runtime_dir),
            )
        )
        self._listener: socket.socket | None = listen(settings)
        self.loop.watch(self._listener.fileno(), READ, self._accept)

    def run(self) -> None:
        self._sweep()
        self.loop.run()
        self._close()

    def stop(self, by: str, then: Callable[[], None] = lambda: None) -> None:
        """End in order: nothing is let go without an event that says so. Once; `then` is called before the loop ends."""
        if self.stopping:
            return
        self.stopping = True
        self._stop_listening()
        for hashing in list(self.hashes):
            abandon_hash(self, hashing)
        for load in list(self.loads):
            stop_load(self, load)
        unit: list[Event] = [LeaseEnded(attach=lease.attach, how="daemon stopped") for lease in self.holdings.leases()]
        unit += [ResidencyLost(residency=one.residency, why="daemon stopped") for one in self.holdings.resident()]
        unit.append(DaemonStopped(instance=self.instance, by=by))
        events = [new_event(event) for event in unit]

        def ended(outcome: Outcome) -> None:
            if isinstance(outcome, WcacheError):
                self.recorder.keep(events)
            then()
            self.loop.stop()

        self.recorder.append(events, ended)

    # --- what a connection asks of us ---

    def welcome(self) -> Message:
        return Welcome(
            protocol=PROTOCOL_VERSION,
            version=__version__,
            instance=self.instance,
            server_pid=os.getpid(),
            ledger=str(self.settings.ledger),
        )

    def handle(self, connection: Connection, request: AnyRequest, fds: tuple[int, ...]) -> None:
        if self.stopping:
            close_fds(fds)
            connection.close("the daemon is stopping")
            return
        try:
            if isinstance(request, HashRequest):
                request_hash(self, connection, request, fds)
                return
            close_fds(fds)
            if isinstance(request, Hello) or fds:
                raise ProtocolError("Hello comes once, and descriptors only with HashRequest", where=type(request).__name__)
            _HANDLERS[type(request)](self, connection, request)
        except WcacheError as error:
            connection.fail(error)
        except OSError as error:
            connection.fail(WcacheError(f"{error.strerror or error}", where=type(request).__name__))
        except Exception:
            log.exception("a defect while handling %s", type(request).__name__)
            connection.fail(
                WcacheError("a defect in the daemon", where=type(request).__name__, remedy="its log has the details; report it")
            )

    def gone(self, connection: Connection, why: str) -> None:
        self._connections.discard(connection)
        if not self.stopping:
            leave(self, connection)

    # --- connections ---

    def _accept(self, _ready: int) -> None:
        for _ in range(_ACCEPTS_PER_TURN):
            if self._listener is None:
                return
            try:
                sock, _ = self._listener.accept()
            except BlockingIOError:
                return
            except OSError:  # no descriptor left
                if not self._make_place():
                    self._pause_accepting()
                return
            peer = peer_of(sock)
            if peer.uid != os.geteuid():
                self._refuse(sock, peer)
                continue
            if len(self._connections) >= CONNECTIONS_MAX and not self._make_place():
                sock.close()
                continue
            self._connections.add(Connection(self.loop, self, sock, peer))

    def _pause_accepting(self) -> None:
        """The backlog waits: epoll would report it again and again."""
        listener = self._listener
        if listener is None:
            return
        self.loop.unwatch(listener.fileno())

        def resume() -> None:
            if self._listener is listener:
                self.loop.watch(listener.fileno(), READ, self._accept)

        self.loop.call_later(_ACCEPT_PAUSE_S, resume)

    def _refuse(self, sock: socket.socket, peer: Peer) -> None:
        why = f"this daemon serves uid {os.geteuid()} only"
        failure = Failure(code=Reason.PEER_NOT_ALLOWED, what=f"{why}, the client is uid {peer.uid}", remedy="run both as the same user")
        sock.setblocking(False)
        try:
            sock.send(encode_frame(encode(failure)), socket.MSG_NOSIGNAL)
        except OSError:
            pass
        finally:
            sock.close()
        now_s = time.monotonic()
        if now_s - self._refused_s.get(peer.uid, -_REFUSED_EVERY_S) >= _REFUSED_EVERY_S:
            self._refused_s[peer.uid] = now_s
            self.recorder.observe(PeerRefused(peer=peer, why=why))

    def _make_place(self) -> bool:
        """Close the connection that has been idle longest; those that hold or wait for something stay."""
        idle = [one for one in self._connections if one.idle]
        if not idle:
            return False
        min(idle, key=lambda one: one.active_s).close("made place for another")
        return True

    def _sweep(self) -> None:
        now_s = time.monotonic()
        for connection in list(self._connections):
            why = connection.overdue(now_s)
            if why:
                connection.close(why)
            else:
                connection.tell_progress(now_s)
        sweep_hashes(self, now_s)
        sweep_loads(self, now_s)
        self.loop.call_later(SWEEP_S, self._sweep)

    # --- the end ---

    def _append_now(self, event: Event) -> None:
        """At the start, before anybody is served: a failure ends the start."""
        (result,) = self.recorder.ledger.append_batch([(new_event(event),)])
        if isinstance(result, WcacheError):
            raise result
        self.recorder.seq = result[-1]

    def _stop_listening(self) -> None:
        listener, self._listener = self._listener, None
        if listener is not None:
            self.loop.unwatch(listener.fileno())
            self.settings.socket_path.unlink(missing_ok=True)
            listener.close()

    def _close(self) -> None:
        for connection in list(self._connections):
            connection.close("the daemon stopped")
        for residency in self.holdings:
            residency.drop()
        self.recorder.close()
        self.loop.close()
        self._lock.release()


def _raise_open_files() -> int:
    """As many descriptors as the system allows, within reason: 66 shards for each of several residencies, and the clients."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = min(hard, 65536) if hard != resource.RLIM_INFINITY else 65536
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return max(soft, wanted)
