"""The server: accepts, dispatches, sweeps, and ends in order. It never imports torch and never maps weights."""

from __future__ import annotations

import logging
import os
import resource
import socket
import time
from collections.abc import Callable

from wcache.core import __version__
from wcache.core.model.errors import EXIT_INTERRUPTED, EXIT_OK, ProtocolError, WcacheError
from wcache.core.model.events import DaemonStarted, DaemonStopped, Event, LeaseEnded, Peer, ResidencyLost
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
    Prove,
    Publish,
    PublishBegin,
    ReleaseRequest,
    ReplaceRequest,
    ShutdownRequest,
    StatusRequest,
    VerifyBehind,
    VerifyRequest,
    Welcome,
    encode,
)
from wcache.core.wire.peer import peer_of
from wcache.daemon.attaches import acknowledge, begin_attach, decide_attach, leave, look_up, note_orphans
from wcache.daemon.behind import Behind, abandon_behinds, sweep_behinds, take_behind
from wcache.daemon.connection import Connection
from wcache.daemon.deposits import Deposit
from wcache.daemon.door import Door
from wcache.daemon.hashes import Hash, abandon_hash, sweep_hashes, take_files
from wcache.daemon.health import HealthServer
from wcache.daemon.instance import boot_id, bury_predecessors
from wcache.daemon.link import Screen
from wcache.daemon.loads import Load, start_load, stop_load, sweep_loads
from wcache.daemon.loop import READ, Loop
from wcache.daemon.observations import observe
from wcache.daemon.proofs import Proving, abandon_proof
from wcache.daemon.publishes import abandon_publication, begin_publish, take_published
from wcache.daemon.reconcile import take_over
from wcache.daemon.recorder import Outcome, Recorder, new_event
from wcache.daemon.releases import Release, list_leases, release, shut_down
from wcache.daemon.replace import replace_server
from wcache.daemon.residencies import Holdings
from wcache.daemon.sharing import group_of
from wcache.daemon.space import Space
from wcache.daemon.status import tell_status
from wcache.daemon.vault_client import VaultClient
from wcache.daemon.verifies import Verify, abandon_verify, verify

log = logging.getLogger("wcache")

SWEEP_S = 0.5
TEND_S = 2.0
CONNECTIONS_MAX = 1024
_ACCEPTS_PER_TURN = 16
_INTERRUPT_S = 10.0
_ACCEPT_PAUSE_S = 0.2

_HANDLERS: dict[type[Message], Callable[..., None]] = {
    AttachBegin: begin_attach,
    Lookup: look_up,
    Decide: decide_attach,
    Observe: observe,
    Ack: acknowledge,
    LoadRequest: start_load,
    PublishBegin: begin_publish,
    ReleaseRequest: release,
    VerifyRequest: verify,
    StatusRequest: tell_status,
    ShutdownRequest: shut_down,
    ReplaceRequest: replace_server,
}


class Server:
    """Everything between the vault's hand-over and the last event. `run()` returns after an ordered end, or when another server is to go on
    (`leaving`)."""

    def __init__(self, settings: Settings, vault: VaultClient, listener: socket.socket, restored: list[Deposit]) -> None:
        self.settings = settings
        self.vault = vault
        self.instance = vault.instance  # the vault's, hence the same after a restart: what was trusted of it still is
        self.started_ns = time.time_ns()
        self.stopping = False
        self.leaving = False
        self.left = False
        self.replacing = False
        self.holdings = Holdings()
        self.loads: list[Load] = []
        self.hashes: list[Hash] = []
        self.behinds: list[Behind] = []
        self.verifies: list[Verify] = []
        self.releases: dict[str, Release] = {}  # asked for and not complete, by residency
        self.unacked = 0
        self.retried = 0  # operations that workers tried again
        self.unacked_max = _raise_open_files() // 2
        self._interrupted_s = -_INTERRUPT_S
        self._listed: set[str] = set()  # leases that were shown to whoever pressed Ctrl-C
        self._connections: set[Connection] = set()
        self.proofs: list[Proving] = []
        self.door = Door(self, group_of(settings.shared_group))
        self.loop = Loop()
        self.health = None if settings.health_port is None else HealthServer(self, settings.health_port, patient=bool(restored))
        self.space = Space({"ledger": settings.ledger.parent, "journal": settings.runtime_dir})
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
        take_over(self, restored)
        vault.on_signal = self.asked_to_stop
        vault.join(self.loop)
        self._listener: socket.socket | None = listener
        self.loop.watch(listener.fileno(), READ, self._accept)

    @property
    def connections(self) -> set[Connection]:
        return self._connections

    @property
    def connection_count(self) -> int:
        return len(self._connections)

    def run(self) -> None:
        if self.health is not None:
            self.health.start()
        self._tend()
        self._sweep()
        self.loop.run()
        self._close()

    def asked_to_stop(self, signal_name: str, stored: bool = False) -> None:
        """By a signal. Ctrl-C with live leases is refused and lists them; a second one within ten seconds, of the same leases, is meant.
        `stored`: a service manager keeps what the vault holds, and knows whether it starts this unit again."""
        leases, now_s = self.holdings.leases(), time.monotonic()
        attaches = {lease.attach for lease in leases}
        if signal_name == "SIGINT" and self.stopping:
            os._exit(EXIT_INTERRUPTED)  # asked again while it ends: the next start finds what is missing
        if signal_name == "SIGINT" and leases and (now_s - self._interrupted_s > _INTERRUPT_S or not attaches <= self._listed):
            self._interrupted_s, self._listed = now_s, attaches
            log.warning("not stopped: weights are mapped by %s; press Ctrl-C again to stop even so", list_leases(leases))
            return
        self.stop(signal_name, left=stored)

    def leave(self) -> None:
        """End without a word: another server goes on with what the vault keeps."""
        self.leaving = True
        abandon_behinds(self)
        self.vault.leave()
        self.loop.stop()

    def pause_accepting(self) -> None:
        """Who connects waits in the backlog, for this server or another."""
        if self._listener is not None:
            self.loop.unwatch(self._listener.fileno())

    def resume_accepting(self) -> None:
        if self._listener is not None:
            self.loop.watch(self._listener.fileno(), READ, self._accept)

    def stop(self, by: str, then: Callable[[], None] = lambda: None, *, left: bool = False) -> None:
        """End in order: nothing is let go without an event that says so. Once; `then` is called before the loop ends.

        With `left`, residencies and leases do not end: the service manager has them, for the next server of this instance.
        """
        if self.stopping:
            return
        self.stopping, self.left = True, left
        self.vault.stopping()
        if left:
            for connection in self._connections:
                connection.pause()
        self._stop_listening()
        for hashing in list(self.hashes):
            abandon_hash(self, hashing)
        abandon_behinds(self)
        for proving in list(self.proofs):
            abandon_proof(self, proving)
        for running in list(self.verifies):
            abandon_verify(self, running)
        for load in list(self.loads):
            if not (left and load.completing):
                stop_load(self, load)
        unit: list[Event] = []
        if not left:
            unit += [LeaseEnded(attach=lease.attach, how="daemon stopped") for lease in self.holdings.leases()]
            unit += [ResidencyLost(residency=one.residency, why="daemon stopped") for one in self.holdings.resident()]
        for begun in list(self.releases.values()):
            if begun.complete is not None:
                begun.complete()  # the vault ends too
        if not left:
            unit += [ResidencyLost(residency=name, why="daemon stopped") for name, one in self.releases.items() if not one.completing]
        kept = [one.residency for one in self.holdings.resident()] if left else []
        unit.append(DaemonStopped(instance=self.instance, by=by, left=tuple(kept)))
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
            vault_pid=self.vault.pid,
            ledger=str(self.settings.ledger),
        )

    def handle(self, connection: Connection, request: AnyRequest, fds: tuple[int, ...]) -> None:
        if self.stopping:
            close_fds(fds)
            connection.close("the daemon is stopping")
            return
        try:
            if connection.foreign:
                try:
                    self.door.admit(connection, request)
                except WcacheError:
                    close_fds(fds)
                    raise
            if isinstance(request, (HashRequest, Prove)):
                take_files(self, connection, request, fds)
                return
            if isinstance(request, VerifyBehind):
                take_behind(self, connection, request, fds)
                return
            if isinstance(request, Publish):
                take_published(self, connection, request, fds)
                return
            close_fds(fds)
            if isinstance(request, Hello) or fds:
                raise ProtocolError(
                    "Hello comes once, and descriptors only with HashRequest, Prove and Publish", where=type(request).__name__
                )
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
        self.door.left(connection.peer)
        if not self.stopping:
            leave(self, connection)
            abandon_publication(self, connection)

    def screen(self, peer: Peer) -> Screen:
        return self.door.screen(peer)

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
            why = self.door.refuses(sock, peer)
            if why:
                self._refuse(sock, peer, why)
                continue
            if len(self._connections) >= CONNECTIONS_MAX and not self._make_place():
                sock.close()
                continue
            self.door.entered(peer)
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

    def _refuse(self, sock: socket.socket, peer: Peer, why: str) -> None:
        remedy = "run both as the same user" if self.door.gid is None else "run it as the daemon's user, or as a member of its group"
        failure = Failure(code=Reason.PEER_NOT_ALLOWED, what=f"{why}; the client is uid {peer.uid}", remedy=remedy)
        sock.setblocking(False)
        try:
            sock.send(encode_frame(encode(failure)), socket.MSG_NOSIGNAL)
        except OSError:
            pass
        finally:
            sock.close()
        self.door.record(peer, why)

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
        note_orphans(self)
        sweep_hashes(self, now_s)
        sweep_behinds(self, now_s)
        sweep_loads(self, now_s)
        self.loop.call_later(SWEEP_S, self._sweep)

    def _tend(self) -> None:
        """What nobody asks for and must happen all the same."""
        self.space.look()
        journal = self.recorder.journal
        self.recorder.serves_unrecorded = self.space.level("journal") != "full" and journal.size_bytes() < journal.max_bytes
        self.recorder.retry()
        self.loop.call_later(TEND_S, self._tend)

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
        if not (self.leaving or self.left):
            for connection in list(self._connections):
                connection.close("the daemon stopped")
        if self.health is not None:
            self.health.stop()
        for residency in self.holdings:
            residency.drop()
        self.recorder.close()
        if not self.leaving:
            self.vault.bye(EXIT_OK, left=self.left)
        self.vault.close()
        self.loop.close()


def _raise_open_files() -> int:
    """As many descriptors as the system allows, within reason: 66 shards for each of several residencies, and the clients."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = min(hard, 65536) if hard != resource.RLIM_INFINITY else 65536
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return max(soft, wanted)
