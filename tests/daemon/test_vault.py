"""The vault: a dying server loses nothing, a dying vault neither, an upgrade goes unnoticed, and an end is one on purpose (D1)."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.attaching import asked_of, attach, begin, decide_on, evidence_of, receive_segments
from support.corpus import make_checkpoint
from support.daemon import DaemonProcess, alive, links_of, wait_until
from support.descriptors import open_descriptors

from wcache.core.checkpoint.checkpoint import open_checkpoint
from wcache.core.memory import memfd
from wcache.core.model.errors import DaemonUnreachable, RequestRefused
from wcache.core.model.events import (
    DaemonStarted,
    Event,
    LeaseEnded,
    LoadFailed,
    MapCompleted,
    ReleaseCompleted,
    ReleaseRequested,
    ResidencyLost,
    ResidencyReadopted,
    encode_payload,
)
from wcache.core.model.vocabulary import Mode, Outcome, Reason, ResidencyState
from wcache.core.wire.messages import RESTARTED, Done, Observe, Progress, ReleaseRequest, ReplaceRequest, Status
from wcache.daemon.deposits import SEGMENTS, Deposit, Line, pair
from wcache.daemon.notify import notify
from wcache.ledger.store import Ledger, NewEvent
from wcache.ledger.verify import verify
from wcache.loader.attach import attach as loader_attach


def kill_server(daemon: DaemonProcess) -> Status:
    """SIGKILL, and the status of the server that follows."""
    before = daemon.status().server_pid
    os.kill(before, signal.SIGKILL)
    return next_server(daemon, before)


def next_server(daemon: DaemonProcess, before: int) -> Status:
    found: list[Status] = []

    def serves() -> bool:
        try:
            found.append(daemon.status())
        except DaemonUnreachable:
            return False
        return found[-1].server_pid != before

    wait_until(serves)
    return found[-1]


def kill_vault(daemon: DaemonProcess) -> Status:
    before = daemon.status()
    os.kill(before.vault_pid, signal.SIGKILL)
    wait_until(lambda: daemon.status().vault_pid != before.vault_pid)
    after = daemon.status()
    assert after.server_pid == before.server_pid
    wait_until(lambda: any("memfd:wcache" in link for link in links_of(after.vault_pid)) or not after.residencies)
    return after


@pytest.fixture
def any_vault(daemon: DaemonProcess) -> Iterator[DaemonProcess]:
    """A daemon whose vault is replaced during the test: it is no child of this process any more, so it is ended by its pids."""
    yield daemon
    try:
        status = daemon.status()
    except DaemonUnreachable:
        return
    os.kill(status.vault_pid, signal.SIGTERM)
    wait_until(lambda: not alive(status.vault_pid) and not alive(status.server_pid))


def append(daemon: DaemonProcess, *events: Event) -> None:
    with Ledger.open(daemon.settings.ledger) as ledger:
        (result,) = ledger.append_batch([tuple(NewEvent(event=event) for event in events)])
    assert not isinstance(result, Exception), result


def test_a_killed_server_loses_neither_weights_nor_leases_and_its_client_sees_nothing(daemon: DaemonProcess, checkpoint: Path) -> None:
    residency = daemon.load(checkpoint).residency
    attached = attach(daemon.settings.socket_path, checkpoint)
    before = daemon.status()
    after = kill_server(daemon)
    assert (after.instance, after.vault_pid) == (before.instance, before.vault_pid)
    assert [one.view for one in after.residencies] == [residency]
    assert [lease.attach for lease in after.leases] == [attached.attach]
    started, again = daemon.events("daemon.started")
    assert isinstance(again, DaemonStarted)
    assert isinstance(started, DaemonStarted)
    assert (again.instance, again.pid) == (started.instance, after.server_pid)
    assert daemon.events("residency.readopted") == [ResidencyReadopted(residency=residency.residency, instance=before.instance)]
    assert daemon.events("daemon.lost", "residency.lost", "lease.ended") == []
    reply, _ = attached.channel.receive()  # not the end of the connection
    assert isinstance(reply, Progress)
    assert reply.phase == RESTARTED
    later = attach(daemon.settings.socket_path, checkpoint)
    name = next(iter(later.fds))
    assert later.content(name) == (checkpoint / name).read_bytes()
    later.close()
    attached.close()
    wait_until(lambda: not daemon.status().leases)
    wait_until(lambda: len(daemon.events("lease.ended")) == 2)
    assert {event.how for event in daemon.events("lease.ended") if isinstance(event, LeaseEnded)} == {"closed"}


def test_an_event_is_observed_on_a_connection_that_was_handed_back(daemon: DaemonProcess, checkpoint: Path) -> None:
    daemon.load(checkpoint)
    attached = attach(daemon.settings.socket_path, checkpoint)
    kill_server(daemon)
    event = MapCompleted(attach=attached.attach, mode=Mode.ZERO_COPY, tensors=1, bytes=1, copied_tensors=0, copied_bytes=0, ms=1.0)
    payload = encode_payload(event).decode()
    told: list[Progress] = []
    reply = attached.channel.call(
        Observe(event_id="0" * 32, type=event.type, payload=payload, occurred_ns=time.time_ns()), on_progress=told.append
    )
    assert isinstance(reply, Done)
    assert [one.phase for one in told] == [RESTARTED]
    assert daemon.events("map.completed") == [event]
    attached.close()


def test_a_loader_records_by_itself_after_a_restart_and_keeps_its_lease(daemon: DaemonProcess, checkpoint: Path) -> None:
    """Its connection may have lost a request with the old server, so it says nothing more on it; the lease goes on."""
    daemon.load(checkpoint)
    attached = loader_attach(checkpoint, settings=daemon.settings)
    assert attached.hit
    wait_until(lambda: daemon.status().leases)
    kill_server(daemon)
    attached.report_mapped(1.0)
    attached.settle()
    assert len(daemon.events("map.completed")) == 1
    assert [lease.attach for lease in daemon.status().leases] == [attached.attach]
    attached.close()
    wait_until(lambda: not daemon.status().leases)


def test_clients_that_do_not_read_are_not_told_more_than_once(daemon: DaemonProcess, checkpoint: Path) -> None:
    """A lease may live through any number of restarts without reading its connection."""
    daemon.load(checkpoint)
    attached = attach(daemon.settings.socket_path, checkpoint)
    for _ in range(3):
        daemon.status()
        kill_server(daemon)
    assert [lease.attach for lease in daemon.status().leases] == [attached.attach]
    reply, _ = attached.channel.receive()
    assert isinstance(reply, Progress)
    with pytest.raises(DaemonUnreachable):
        attached.channel.receive(timeout_s=0.05)
    attached.close()


def test_many_shards_survive_server_and_vault_in_turn(any_vault: DaemonProcess, many_shards: Path) -> None:
    """More descriptors than a message takes, handed back, deposited again, and handed back by the new vault."""
    daemon = any_vault
    daemon.load(many_shards)
    attached = attach(daemon.settings.socket_path, many_shards)
    kill_server(daemon)
    after = kill_vault(daemon)
    wait_until(lambda: sum("memfd:wcache" in link for link in links_of(after.vault_pid)) == 70)
    after = kill_server(daemon)
    assert [lease.attach for lease in after.leases] == [attached.attach]
    again = attach(daemon.settings.socket_path, many_shards)
    for name in again.fds:
        assert again.content(name) == (many_shards / name).read_bytes()
    again.close()
    attached.close()
    assert daemon.events("daemon.lost", "residency.lost") == []


def test_both_dead_at_once_is_the_end_of_the_residency_and_the_next_start_is_clean(daemon: DaemonProcess, checkpoint: Path) -> None:
    daemon.load(checkpoint)
    attached = attach(daemon.settings.socket_path, checkpoint)
    daemon.kill()
    name = next(iter(attached.fds))
    assert attached.content(name) == (checkpoint / name).read_bytes()
    daemon.start()
    assert len(daemon.events("daemon.lost")) == len(daemon.events("residency.lost")) == 1
    assert daemon.status().residencies == ()
    attached.close()


def test_a_server_that_dies_during_a_hand_over_makes_the_loader_decide_again(daemon: DaemonProcess, many_shards: Path) -> None:
    """The client sees the end of its connection; what the ledger said of a hit is redecided, and the lease has an end."""
    daemon.load(many_shards)
    checkpoint = open_checkpoint(many_shards)
    channel = daemon.connect()
    asked = asked_of(checkpoint)
    offer = begin(channel, asked)
    decided = decide_on(channel, offer, asked, evidence_of(checkpoint, offer))
    assert decided.decision.outcome is Outcome.HIT
    fds = receive_segments(channel, acknowledge=False)
    kill_server(daemon)
    with pytest.raises(DaemonUnreachable) as caught:
        channel.receive()
    assert caught.value.reason == Reason.DAEMON_CLOSED
    (ended,) = daemon.events("lease.ended")
    assert ended == LeaseEnded(attach=offer.attach, how="server died")
    for fd in fds.values():
        os.close(fd)


def test_a_load_that_its_server_did_not_survive_has_failed(daemon: DaemonProcess, tmp_path: Path) -> None:
    path = make_checkpoint(tmp_path / "fresh")
    errors: list[Exception] = []

    def load() -> None:
        try:
            daemon.load(path)
        except DaemonUnreachable as error:
            errors.append(error)

    thread = threading.Thread(target=load)
    thread.start()
    wait_until(lambda: any(one.phase == "settle" for one in daemon.status().residencies))
    workers = daemon.workers()
    after = kill_server(daemon)
    thread.join()
    assert errors
    assert after.residencies == ()
    (failed,) = daemon.events("load.failed")
    assert isinstance(failed, LoadFailed)
    assert (failed.code, failed.message) == ("worker_died", "the server died during the load")
    wait_until(lambda: not any(alive(pid) for pid in workers))
    assert daemon.load(path).residency.state is ResidencyState.RESIDENT


def test_a_release_that_its_server_did_not_survive_is_finished_by_the_next(daemon: DaemonProcess, checkpoint: Path) -> None:
    residency = daemon.load(checkpoint).residency
    append(daemon, ReleaseRequested(residency=residency.residency, uid=0, why="test", force=False, leases=()))
    after = kill_server(daemon)
    wait_until(lambda: daemon.events("release.completed"))
    (completed,) = daemon.events("release.completed")
    assert isinstance(completed, ReleaseCompleted)
    assert (completed.residency, completed.bytes) == (residency.residency, residency.bytes)
    wait_until(lambda: not any("memfd:wcache" in link for pid in (after.server_pid, after.vault_pid) for link in links_of(pid)))
    assert not daemon.load(checkpoint).reused


def test_what_the_ledger_says_is_gone_is_not_kept(daemon: DaemonProcess, checkpoint: Path, twin: Path) -> None:
    """Reconciling takes the ledger's word, and a lease of what is gone is still a lease."""
    lost = daemon.load(checkpoint).residency.residency
    kept = daemon.load(twin).residency.residency
    attached = attach(daemon.settings.socket_path, checkpoint)
    daemon.status()
    append(daemon, ResidencyLost(residency=lost, why="test"))
    after = kill_server(daemon)
    assert [one.view.residency for one in after.residencies] == [kept]
    assert [lease.attach for lease in after.leases] == [attached.attach]
    wait_until(lambda: sum("memfd:wcache" in link for link in links_of(after.vault_pid)) == 3)
    attached.close()
    wait_until(lambda: not daemon.status().leases)


def test_ten_deaths_in_a_row_cost_nothing_but_time(daemon: DaemonProcess, checkpoint: Path) -> None:
    daemon.load(checkpoint)
    vault_pid = daemon.vault_pid
    kill_server(daemon)
    before = len(links_of(vault_pid))
    for _ in range(4):
        after = kill_server(daemon)
    wait_until(lambda: len(links_of(vault_pid)) == before)
    assert [one.view.state for one in after.residencies] == [ResidencyState.RESIDENT]
    assert verify(daemon.settings.ledger).problems == []


def test_an_upgrade_in_place_drops_no_lease_and_no_connection(daemon: DaemonProcess, checkpoint: Path) -> None:
    """`wcache daemon --replace`: the engine's lease, an attach that has not decided, and a new client during the change."""
    daemon.load(checkpoint)
    attached = attach(daemon.settings.socket_path, checkpoint)
    opened = open_checkpoint(checkpoint)
    undecided = daemon.connect()
    offer = begin(undecided, asked_of(opened))
    before = daemon.status()
    channel = daemon.connect()
    assert channel.call(ReplaceRequest(), timeout_s=60) == Done()
    channel.close()
    after = next_server(daemon, before.server_pid)
    assert (after.instance, after.vault_pid) == (before.instance, before.vault_pid)
    assert [lease.attach for lease in after.leases] == [attached.attach]
    decided = decide_on(undecided, offer, asked_of(opened), evidence_of(opened, offer))
    assert decided.decision.outcome is Outcome.HIT
    for fd in receive_segments(undecided).values():
        os.close(fd)
    undecided.close()
    wait_until(lambda: not alive(before.server_pid))
    wait_until(lambda: daemon.events("lease.ended"))
    assert [event.attach for event in daemon.events("lease.ended") if isinstance(event, LeaseEnded)] == [offer.attach]
    assert daemon.events("residency.lost", "daemon.lost", "daemon.stopped") == []
    attached.close()


def test_an_upgrade_waits_for_the_load_that_runs(daemon: DaemonProcess, tmp_path: Path) -> None:
    path = make_checkpoint(tmp_path / "fresh")
    loaded: list[object] = []
    thread = threading.Thread(target=lambda: loaded.append(daemon.load(path)))
    thread.start()
    wait_until(lambda: any(one.phase == "settle" for one in daemon.status().residencies))
    before = daemon.status().server_pid
    channel = daemon.connect()
    assert channel.call(ReplaceRequest(), timeout_s=60) == Done()
    channel.close()
    thread.join()
    assert len(loaded) == 1
    assert [one.view.state for one in next_server(daemon, before).residencies] == [ResidencyState.RESIDENT]


def test_an_upgrade_that_nobody_waits_for_any_more_does_not_happen(daemon: DaemonProcess, tmp_path: Path) -> None:
    path = make_checkpoint(tmp_path / "fresh")
    thread = threading.Thread(target=lambda: daemon.load(path))
    thread.start()
    wait_until(lambda: any(one.phase == "settle" for one in daemon.status().residencies))
    before = daemon.status().server_pid
    channel = daemon.connect()
    channel.send(ReplaceRequest())
    channel.receive()
    channel.close()
    thread.join()
    assert daemon.status().server_pid == before
    assert daemon.load(path).reused


def test_an_upgrade_does_not_wait_for_a_release_that_waits_for_an_engine(daemon: DaemonProcess, checkpoint: Path) -> None:
    residency = daemon.load(checkpoint).residency.residency
    attached = attach(daemon.settings.socket_path, checkpoint)
    deferring = daemon.connect()
    deferring.send(ReleaseRequest(residency=residency, when_free=True))
    wait_until(lambda: daemon.events("release.requested"))
    before = daemon.status().server_pid
    channel = daemon.connect()
    assert channel.call(ReplaceRequest(), timeout_s=60) == Done()
    channel.close()
    with pytest.raises(RequestRefused, match="goes on"):
        while True:
            deferring.receive()
    deferring.close()
    assert [one.view.state for one in next_server(daemon, before).residencies] == [ResidencyState.RELEASING]
    attached.close()
    wait_until(lambda: daemon.events("release.completed"))
    assert daemon.status().residencies == ()


@pytest.mark.parametrize("words", [("daemon", "--replace"), ("daemon", "start", "--replace", "--json")])
def test_the_command_replaces_and_says_so(daemon: DaemonProcess, words: tuple[str, ...]) -> None:
    before = daemon.status().server_pid
    done = subprocess.run(
        [sys.executable, "-m", "wcache.cli", *words],
        env={**os.environ, **daemon.env},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    if "--json" not in words:
        assert f"READY: pid {daemon.pid}, vault {daemon.vault_pid}" in done.stdout
        assert daemon.pid != before
        return
    said = json.loads(done.stdout)
    assert (said["replaced_pid"], said["vault_pid"], said["state"]) == (before, daemon.vault_pid, "ready")
    assert said["server_pid"] not in (0, before)


def test_the_vault_stays_small_and_imports_nothing_big(daemon: DaemonProcess) -> None:
    script = "import sys, wcache.daemon.vault; print(*{'msgspec', 'sqlalchemy', 'blake3', 'logging'}.intersection(sys.modules))"
    assert subprocess.run([sys.executable, "-c", script], capture_output=True, text=True).stdout.strip() == ""
    maps = Path(f"/proc/{daemon.vault_pid}/maps").read_text()
    assert not re.search(r"msgspec|sqlite|torch|libssl", maps)


def test_the_service_manager_hears_ready_restart_and_stop(short_path: Path, disk: Path) -> None:
    """sd_notify(3): READY once the server answers, the watchdog fed by it, STOPPING at the end."""
    address = short_path / "notify"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(address))
        manager.settimeout(20)
        daemon = DaemonProcess(environ={"NOTIFY_SOCKET": str(address), "WATCHDOG_USEC": "300000"})
        try:
            daemon.start()
            heard = [manager.recv(4096).decode()]
            assert "READY=1" in heard[0]
            assert f"MAINPID={daemon.vault_pid}" in heard[0]
            while "WATCHDOG=1" not in heard[-1]:
                heard.append(manager.recv(4096).decode())
            kill_server(daemon)
            while "starting another" not in heard[-1]:
                heard.append(manager.recv(4096).decode())
            assert daemon.stop() == 0
            while "STOPPING=1" not in heard[-1]:
                heard.append(manager.recv(4096).decode())
        finally:
            daemon.cleanup()


def test_without_a_service_manager_nothing_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NOTIFY_SOCKET", raising=False)
    notify(READY=1)
    monkeypatch.setenv("NOTIFY_SOCKET", "/nonexistent/socket")
    notify(READY=1)


def test_a_server_that_cannot_start_says_why_and_the_vault_ends_with_its_code(daemon: DaemonProcess) -> None:
    assert daemon.stop() == 0
    daemon.settings.ledger.write_bytes(b"this is no database" * 100)
    with pytest.raises(AssertionError, match="ledger"):
        daemon.start()
    assert daemon.process is not None
    assert daemon.process.wait(10) == 8


def test_a_server_that_never_starts_is_given_up_and_its_starter_hears_so(daemon: DaemonProcess) -> None:
    assert daemon.stop() == 0
    places = [f"--{name.replace('_', '-')}={getattr(daemon.settings, name)}" for name in ("runtime_dir", "state_dir", "ledger")]
    ours, theirs = os.pipe2(os.O_CLOEXEC)
    with daemon.log_path.open("ab") as log:
        command = [sys.executable, "-m", "wcache.daemon.vault", *places, f"--ready-fd={theirs}", "--what-no-server-knows=1"]
        done = subprocess.run(command, pass_fds=(theirs,), stderr=log, timeout=60)
    os.close(theirs)
    with os.fdopen(ours) as heard:
        said = json.loads(heard.read())
    assert (done.returncode, said["code"]) == (6, "daemon_unreachable")
    assert "exited with 2 at each of 5 starts" in said["what"]
    assert not daemon.settings.socket_path.exists()


def test_deposits_of_any_size_arrive_whole_and_in_order() -> None:
    left, right = pair()
    sender, receiver = Line(left), Line(right)
    fds = tuple(memfd.create(f"part-{number}", 1) for number in range(70))
    text = 'a "quoted" text with ä and \U0001f600 ' * 8000
    sender.deposit(Deposit(SEGMENTS, "r-1", text, fds))
    sender.deposit(Deposit(SEGMENTS, "r-2", "", ()))
    found: list[Deposit] = []
    while len(found) < 2:
        for message, received in receiver.receive():
            whole = receiver.assemble(message, received)
            if whole is not None:
                found.append(whole)
        sender.flush()
    assert [(one.id, len(one.fds), one.text == text) for one in found] == [("r-1", 70, True), ("r-2", 0, False)]
    assert [os.fstat(fd).st_ino for fd in found[0].fds] == [os.fstat(fd).st_ino for fd in fds]
    before = open_descriptors()
    for one in found:
        one.close()
    assert open_descriptors() == before - 70
    for fd in fds:
        os.close(fd)
    sender.close()
    assert receiver.receive() == []
    assert receiver.closed
    receiver.close()
