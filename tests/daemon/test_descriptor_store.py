"""The service manager's descriptor store: weights and leases outlive vault and server together, on record (D1)."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.attaching import attach
from support.commands import in_processes
from support.corpus import make_checkpoint
from support.daemon import DaemonProcess, alive, links_of, wait_until
from support.manager import Manager, Unit
from support.segments import LATER_NS

from wcache.core.memory import memfd
from wcache.core.model.events import DaemonStarted, DaemonStopped, LeaseEnded, LoadFailed, ResidencyLost, ResidencyReadopted
from wcache.core.model.vocabulary import ResidencyState, Tier
from wcache.core.wire.messages import LoadRequest, ReleaseRequest
from wcache.daemon.deposits import CONNECTION, SEGMENTS, Deposit
from wcache.daemon.descriptor_store import Store, returned
from wcache.ledger.retention import drop_segments
from wcache.ledger.verify import verify
from wcache.loader.attach import attach as loader_attach


@pytest.fixture
def unit() -> Iterator[Unit]:
    started = Unit()
    try:
        started.start()
        yield started
    finally:
        started.cleanup()


def set_of(residency: str) -> set[str]:
    return {f"wcache.segments.{residency}", f"wcache.segments.{residency}.text"}


def serves_the_bytes_of(daemon: DaemonProcess, path: Path) -> None:
    """A hit, with the bytes of the files."""
    attached = attach(daemon.settings.socket_path, path)
    for name in attached.fds:
        assert attached.content(name) == (path / name).read_bytes()
    attached.close()


def test_vault_and_server_killed_at_once_lose_nothing_where_the_service_manager_keeps_it(unit: Unit, checkpoint: Path) -> None:
    """The same residency, its bytes verified, the engine's lease with its connection, and the instance goes on."""
    residency = unit.load(checkpoint).residency
    attached = attach(unit.settings.socket_path, checkpoint)
    wait_until(lambda: len(unit.manager.names()) == 4)
    before = unit.status()
    unit.kill()
    unit.start()
    after = unit.status()
    assert after.instance == before.instance
    assert after.vault_pid != before.vault_pid
    assert [one.view for one in after.residencies] == [residency]
    assert [lease.attach for lease in after.leases] == [attached.attach]
    assert unit.events("residency.readopted") == [ResidencyReadopted(residency=residency.residency, instance=before.instance)]
    assert unit.events("daemon.lost", "daemon.stopped", "residency.lost", "lease.ended") == []
    done = in_processes(unit.env)("verify", residency.residency)
    assert done.returncode == 0, done.stderr
    serves_the_bytes_of(unit, checkpoint)
    attached.close()
    wait_until(lambda: not unit.status().leases)
    assert verify(unit.settings.ledger).problems == []


def test_a_restart_of_the_unit_keeps_weights_and_leases(unit: Unit, checkpoint: Path) -> None:
    """SIGTERM is how a restart and a stop both begin: the manager knows which it is, so nothing is given up, and the record says so."""
    residency = unit.load(checkpoint).residency.residency
    attached = loader_attach(checkpoint, settings=unit.settings)
    assert attached.hit
    wait_until(lambda: len(unit.manager.names()) == 4)
    instance = unit.status().instance
    unit.restart()
    assert unit.events("daemon.stopped") == [DaemonStopped(instance=instance, by="SIGTERM", left=(residency,))]
    assert [event.instance for event in unit.events("daemon.started") if isinstance(event, DaemonStarted)] == [instance, instance]
    assert unit.events("residency.lost", "daemon.lost", "lease.ended") == []
    assert [lease.attach for lease in unit.status().leases] == [attached.attach]
    attached.report_mapped(1.0)
    attached.settle()
    assert len(unit.events("map.completed")) == 1
    attached.close()
    wait_until(lambda: not unit.status().leases)
    unit.restart()
    assert [one.view.state for one in unit.status().residencies] == [ResidencyState.RESIDENT]
    assert len(unit.events("residency.readopted")) == 2
    serves_the_bytes_of(unit, checkpoint)


def test_what_is_kept_over_a_restart_outlives_a_drop_of_the_segments_that_it_is_from(unit: Unit, checkpoint: Path) -> None:
    """As `ExecStartPre=wcache ledger segment drop` does: the weights, a lease, and the evidence that the next hit rests on are carried."""
    residency = unit.load(checkpoint).residency.residency
    attached = loader_attach(checkpoint, settings=unit.settings)
    attached.report_mapped(1.0)
    attached.settle()
    done = in_processes(unit.env)("ledger", "segment", "close")
    assert done.returncode == 0, done.stderr
    wait_until(lambda: len(unit.manager.names()) == 4)
    assert unit.stop() == 0, unit.log()
    dropped = drop_segments(unit.settings.ledger, now_ns=LATER_NS)
    assert dropped.span is not None and dropped.span.decisions == {"hit": 1}
    unit.start()
    assert unit.events("residency.lost", "daemon.lost", "lease.ended") == []
    assert [lease.attach for lease in unit.status().leases] == [attached.attach]
    again = loader_attach(checkpoint, settings=unit.settings)
    assert again.hit
    assert [(event.tier, event.residency) for event in unit.events("attach.decided")] == [(Tier.PINNED, residency)]  # type: ignore[attr-defined]
    for one in (attached, again):
        one.close()
    wait_until(lambda: not unit.status().leases)
    assert verify(unit.settings.ledger).problems == []


def test_a_load_that_runs_when_the_unit_is_restarted_has_failed(unit: Unit, checkpoint: Path, tmp_path: Path) -> None:
    """It is on record, nothing half loaded comes back, and what was resident does."""
    resident = unit.load(checkpoint).residency.residency
    channel = unit.connect()
    channel.send(LoadRequest(spelling=str(make_checkpoint(tmp_path / "fresh"))))
    wait_until(lambda: any(one.phase == "settle" for one in unit.status().residencies))
    unit.restart()
    channel.close()
    (failed,) = unit.events("load.failed")
    assert isinstance(failed, LoadFailed)
    assert "stopped during the load" in failed.message
    assert [one.view.residency for one in unit.status().residencies] == [resident]
    assert unit.manager.names() == set_of(resident)


def test_a_stop_of_the_unit_is_put_on_record_by_the_next_start(unit: Unit, checkpoint: Path) -> None:
    """The manager lets go of its store; nothing comes back, so residency and lease have ended, without a `daemon.lost`."""
    residency = unit.load(checkpoint).residency.residency
    attached = attach(unit.settings.socket_path, checkpoint)
    before = unit.status().instance
    assert unit.stop() == 0
    unit.manager.empty()
    unit.start()
    assert unit.status().instance != before
    assert unit.status().residencies == ()
    (lost,) = unit.events("residency.lost")
    assert isinstance(lost, ResidencyLost)
    assert lost.residency == residency
    assert "left it with the service manager" in lost.why
    assert unit.events("lease.ended") == [LeaseEnded(attach=attached.attach, how="daemon stopped")]
    assert unit.events("daemon.lost") == []
    attached.close()


def test_a_stop_that_is_meant_leaves_nothing_with_the_manager(unit: Unit, checkpoint: Path) -> None:
    """`wcache daemon stop` ends residencies at once, on record."""
    unit.load(checkpoint)
    wait_until(unit.manager.names)
    assert in_processes(unit.env)("daemon", "stop").returncode == 0
    assert unit.process is not None
    assert unit.process.wait(20) == 0
    wait_until(lambda: not unit.manager.names())
    assert len(unit.events("residency.lost")) == 1
    assert unit.events("daemon.stopped") != []


def test_what_is_released_is_removed_from_the_store_before_that_is_on_record(unit: Unit, checkpoint: Path, twin: Path) -> None:
    released = unit.load(checkpoint).residency.residency
    kept = unit.load(twin).residency.residency
    wait_until(lambda: unit.manager.names() == set_of(released) | set_of(kept))
    channel = unit.connect()
    channel.call(ReleaseRequest(residency=released), timeout_s=30)
    channel.close()
    assert len(unit.events("release.completed")) == 1
    assert unit.manager.names() == set_of(kept)
    unit.kill()
    unit.start()
    assert [one.view.residency for one in unit.status().residencies] == [kept]


@pytest.mark.parametrize("missing", ["descriptor", "text"])
def test_a_set_that_comes_back_incomplete_is_lost_and_removed(unit: Unit, checkpoint: Path, twin: Path, missing: str) -> None:
    lost = unit.load(checkpoint).residency.residency
    kept = unit.load(twin).residency.residency
    wait_until(lambda: unit.manager.names() == set_of(lost) | set_of(kept))
    unit.kill()
    name = f"wcache.segments.{lost}"
    unit.manager.remove(name if missing == "descriptor" else f"{name}.text", count=1)
    unit.start()
    assert [one.view.residency for one in unit.status().residencies] == [kept]
    assert [event.residency for event in unit.events("residency.lost") if isinstance(event, ResidencyLost)] == [lost]
    wait_until(lambda: unit.manager.names() == set_of(kept))
    assert not unit.load(checkpoint).reused


def test_descriptors_that_are_not_ours_are_ignored_and_closed(unit: Unit, checkpoint: Path) -> None:
    """Of other names, of sets that never were, and a text that is none: not sealed, or not of this protocol."""
    residency = unit.load(checkpoint).residency.residency
    wait_until(lambda: unit.manager.names() == set_of(residency))
    unit.kill()
    open_text, sealed_text = memfd.create("deposit", 64), memfd.create("deposit", 2)
    os.pwrite(sealed_text, b"[]", 0)
    memfd.seal(sealed_text)
    unit.manager.add("stored", memfd.create("somebody's", 1))
    unit.manager.add("wcache.segments.r-0", memfd.create("part", 1))
    unit.manager.add("wcache.segments.r-1.text", open_text)
    unit.manager.add("wcache.segments.r-2.text", sealed_text)
    unit.start()
    assert [one.view.residency for one in unit.status().residencies] == [residency]
    wait_until(lambda: unit.manager.names() == {"stored", *set_of(residency)})
    links = [*links_of(unit.vault_pid), *links_of(unit.pid)]
    assert not any(name in link for link in links for name in ("wcache:deposit", "wcache:somebody", "wcache:part"))
    assert b"LISTEN_FDS" not in Path(f"/proc/{unit.pid}/environ").read_bytes()


def test_a_new_vault_goes_on_with_the_store(unit: Unit, checkpoint: Path, twin: Path) -> None:
    """It deposits everything again, under the same names, and what is dropped later goes from the store too."""
    first = unit.load(checkpoint).residency.residency
    attached = attach(unit.settings.socket_path, checkpoint)
    wait_until(lambda: len(unit.manager.names()) == 4)
    count = len(unit.manager.stored)
    before = unit.status()
    os.kill(before.vault_pid, signal.SIGKILL)
    wait_until(lambda: unit.status().vault_pid != before.vault_pid)
    vault_pid = unit.status().vault_pid
    wait_until(lambda: any(f"MAINPID={vault_pid}" in text for text in unit.manager.said))
    second = unit.load(twin).residency.residency
    wait_until(lambda: unit.manager.names() >= set_of(first) | set_of(second))
    wait_until(lambda: len(unit.manager.stored) == count + len(list(twin.glob("*.safetensors"))) + 1)
    attached.close()
    wait_until(lambda: unit.manager.names() == set_of(first) | set_of(second))
    channel = unit.connect()
    channel.call(ReleaseRequest(residency=first), timeout_s=30)
    channel.close()
    assert unit.manager.names() == set_of(second)
    os.kill(vault_pid, signal.SIGSTOP)
    os.kill(before.server_pid, signal.SIGKILL)
    os.kill(vault_pid, signal.SIGKILL)
    wait_until(lambda: not alive(vault_pid) and not alive(before.server_pid))
    unit.start()
    assert [one.view.residency for one in unit.status().residencies] == [second]
    serves_the_bytes_of(unit, twin)


def test_an_engine_that_died_meanwhile_has_no_lease_afterwards(unit: Unit, checkpoint: Path) -> None:
    """The manager lets go of a connection whose other end is gone, or the next server finds out."""
    unit.load(checkpoint)
    attached = attach(unit.settings.socket_path, checkpoint)
    other = attach(unit.settings.socket_path, checkpoint)
    wait_until(lambda: len(unit.manager.names()) == 6)
    unit.kill()
    attached.close()
    wait_until(lambda: f"wcache.connection.{attached.attach}" not in unit.manager.names())
    unit.manager.watches.clear()
    other.close()
    unit.start()
    wait_until(lambda: not unit.status().leases)
    wait_until(lambda: len(unit.events("lease.ended")) == 2)
    wait_until(lambda: not any("connection" in name for name in unit.manager.names()))


def test_many_descriptors_and_a_pin_survive(unit: Unit, many_shards: Path) -> None:
    """More than a message takes, and a deposit that changed after it was stored."""
    residency = unit.load(many_shards).residency.residency
    wait_until(lambda: len(unit.manager.stored) == 71)
    said = len(unit.manager.said)
    channel = unit.connect()
    channel.call(LoadRequest(spelling=str(many_shards), pin=True), timeout_s=30)
    channel.close()
    assert unit.status().residencies[0].pinned
    # Two names removed, 70 descriptors in three messages, the text in one.
    wait_until(lambda: len(unit.manager.said) >= said + 6 and len(unit.manager.stored) == 71)
    unit.kill()
    unit.start()
    (one,) = unit.status().residencies
    assert (one.view.residency, one.pinned) == (residency, True)
    serves_the_bytes_of(unit, many_shards)


def test_what_does_not_fit_is_not_stored_in_part_and_the_log_says_so(checkpoint: Path, many_shards: Path) -> None:
    unit = Unit(room=70)
    try:
        unit.start()
        large = unit.load(many_shards).residency.residency
        small = unit.load(checkpoint).residency.residency
        wait_until(lambda: unit.manager.names() == set_of(small))
        assert f"no room for {large} among the 70 descriptors" in unit.log()
        unit.kill()
        unit.start()
        assert [one.view.residency for one in unit.status().residencies] == [small]
        assert [event.residency for event in unit.events("residency.lost") if isinstance(event, ResidencyLost)] == [large]
    finally:
        unit.cleanup()


def test_another_ledger_knows_nothing_of_what_comes_back(unit: Unit, checkpoint: Path) -> None:
    """It is let go, leases too: a start must not fail for ever over what somebody moved away."""
    unit.load(checkpoint)
    attached = attach(unit.settings.socket_path, checkpoint)
    wait_until(lambda: len(unit.manager.names()) == 4)
    unit.kill()
    for path in unit.settings.ledger.parent.glob("ledger.sqlite*"):
        path.unlink()
    unit.start()
    assert unit.status().residencies == ()
    assert unit.status().leases == ()
    wait_until(lambda: not unit.manager.names())
    attached.close()


def test_a_server_that_cannot_start_does_not_cost_what_came_back(unit: Unit, checkpoint: Path) -> None:
    """The vault waits with it until the ledger is well again."""
    residency = unit.load(checkpoint).residency.residency
    wait_until(lambda: unit.manager.names() == set_of(residency))
    unit.kill()
    ledger = unit.settings.ledger
    aside = ledger.with_name("aside")
    for path in ledger.parent.glob("ledger.sqlite*"):
        path.rename(path.with_name(path.name.replace("ledger.sqlite", "aside")))
    ledger.mkdir()

    def heal() -> None:
        wait_until(lambda: "starting another, holding 1 residencies" in unit.log(), 20)
        ledger.rmdir()
        for path in ledger.parent.glob("aside*"):
            path.rename(path.with_name(path.name.replace("aside", "ledger.sqlite")))
        assert not aside.exists()

    unit.begin()
    heal()
    unit.wait_ready()
    assert [one.view.residency for one in unit.status().residencies] == [residency]


def test_without_a_store_sigterm_ends_everything_as_ever(checkpoint: Path) -> None:
    """A manager that keeps no descriptors gets none."""
    unit = Unit(room=0)
    try:
        unit.start()
        unit.load(checkpoint)
        assert unit.stop() == 0
        assert len(unit.events("residency.lost")) == 1
        assert not any("FDSTORE" in text for text in unit.manager.said)
    finally:
        unit.cleanup()


def test_a_manager_that_does_not_read_is_not_waited_for_and_gets_everything_later(
    short_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = short_path / "notify"
    manager = Manager(str(address), 4096)
    manager.pause()
    monkeypatch.setenv("NOTIFY_SOCKET", str(address))
    monkeypatch.setenv("FDSTORE", "4096")
    store = Store.of_manager("d-1", None)
    assert store is not None
    fds = [memfd.create("part", 1) for _ in range(3)]
    told: list[int] = []
    for number in range(400):
        store.put(Deposit(SEGMENTS, f"r-{number}", "text", tuple(fds)))
        store.forget((SEGMENTS, f"r-{number}"), lambda number=number: told.append(number))  # type: ignore[misc]
    store.put(Deposit(CONNECTION, "c", "text", (fds[0],)))
    assert store.due_s is not None
    assert told == []
    manager.resume()

    def all_told() -> bool:
        store.turn()
        return len(told) == 400

    wait_until(all_told)
    wait_until(lambda: (store.turn(), manager.names() == {"wcache.connection.c", "wcache.connection.c.text"})[1])
    for fd in fds:
        os.close(fd)
    manager.close()


def test_variables_of_another_process_are_not_taken_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LISTEN_PID", str(os.getppid()))
    monkeypatch.setenv("LISTEN_FDS", "1")
    monkeypatch.setenv("LISTEN_FDNAMES", "wcache.segments.r-1.text")
    assert returned() == (None, [], [])
    assert not {"LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"} & set(os.environ)
