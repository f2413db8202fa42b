"""Disks that are full, read-only, unreadable or far away, files that are damaged, clocks that go back: with real daemons, real engines
(the loader in this process) and real file systems."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import pairwise
from pathlib import Path

import msgspec
import pytest
from support.corpus import make_checkpoint
from support.daemon import DaemonProcess, wait_until
from support.mounts import fill, needs_root, read_only, remote, tmpfs
from support.probes import health_of, metrics_of

from wcache.core.model.events import AttachDecided, FallbackCompleted, LedgerGap, MapCompleted
from wcache.core.model.vocabulary import Mode, Outcome, Reason
from wcache.core.settings import Settings
from wcache.ledger.audit import Audit
from wcache.ledger.journal import Journal
from wcache.ledger.store import Ledger, NewEvent
from wcache.ledger.verify import verify
from wcache.loader import load_file
from wcache.loader.attach import Attachment, attach

SMALL_BYTES = 8 << 20


@pytest.fixture(scope="module")
def model(disk: Path) -> Path:
    return make_checkpoint(disk / "adversity")


@contextmanager
def running(state_dir: Path, **environ: str) -> Iterator[DaemonProcess]:
    process = DaemonProcess(state_dir, environ={"WCACHE_HEALTH_PORT": "0", **environ})
    try:
        yield process.start()
    finally:
        process.cleanup()


def ask(daemon: DaemonProcess, model: Path, on_ledger_failure: str = "no_hit") -> Attachment:
    return attach(model, settings=daemon.settings, on_ledger_failure=on_ledger_failure)


def read_from_disk(daemon: DaemonProcess, model: Path) -> None:
    assert load_file(model / "model.safetensors", settings=daemon.settings, on_ledger_failure="no_hit")


def is_merged(daemon: DaemonProcess) -> bool:
    status = daemon.status()
    return status.journalled == 0 and not status.ledger_failure


UNAVAILABLE = f'wcache_decisions_total{{decision="fallback",reason="{Reason.LEDGER_UNAVAILABLE}"}}'


@needs_root
def test_on_a_full_disk_engines_read_the_disk_and_that_is_merged_when_there_is_room(tmp_path: Path, model: Path) -> None:
    """L2, no_hit: journalled, shown everywhere while it lasts, merged without anybody asking, counted."""
    with tmpfs(tmp_path / "small", SMALL_BYTES) as small, running(small / "state") as daemon:
        daemon.load(model)
        assert health_of(daemon)[0] == 200
        filler = fill(small)
        read_from_disk(daemon, model)
        status = daemon.status()
        assert status.journalled >= 2 and "the disk is full" in status.ledger_failure
        wait_until(lambda: any("ledger" in warning for warning in daemon.status().warnings))
        code, body = health_of(daemon)
        assert code == 503 and "the disk is full" in body["why"][0]
        assert metrics_of(daemon)[UNAVAILABLE] == 1 and metrics_of(daemon)["wcache_ledger_up"] == 0
        assert not daemon.events("attach.decided")
        assert not status.leases
        filler.unlink()
        wait_until(lambda: is_merged(daemon), what="the journal is merged")  # nobody attaches meanwhile
        (decided,) = daemon.events("attach.decided")
        assert isinstance(decided, AttachDecided)
        assert (decided.outcome, decided.reason) == (Outcome.FALLBACK, Reason.LEDGER_UNAVAILABLE)
        (completed,) = daemon.events("fallback.completed")
        assert isinstance(completed, FallbackCompleted) and completed.attach == decided.attach
        (gap,) = daemon.events("ledger.gap")
        assert isinstance(gap, LedgerGap) and gap.lost == 0
        with Audit(daemon.settings.ledger) as audit:
            assert audit.summary()["gaps"] == {"count": 1, "merged": gap.merged, "lost": 0}
        wait_until(lambda: metrics_of(daemon)["wcache_ledger_gaps_total"] == 1)
        assert metrics_of(daemon)[UNAVAILABLE] == 1
        assert health_of(daemon)[0] == 200
        found = ask(daemon, model)
        assert found.hit
        found.close()
        assert verify(daemon.settings.ledger).ok


@needs_root
def test_under_serve_hits_go_on_from_the_journal_and_are_merged(tmp_path: Path, model: Path) -> None:
    """L2, serve."""
    with ExitStack() as held:
        small = held.enter_context(tmpfs(tmp_path / "small", SMALL_BYTES))
        daemon = held.enter_context(running(small / "state", WCACHE_ON_LEDGER_FAILURE="serve"))
        daemon.load(model)
        filler = fill(small)
        found = ask(daemon, model, "serve")
        assert found.hit and found.seq is None
        assert found.tensors()
        refused = ask(daemon, model, "no_hit")
        assert not refused.hit and refused.decision.reason is Reason.LEDGER_UNAVAILABLE
        assert health_of(daemon)[0] == 200, "this daemon's own policy says that it still serves"
        assert metrics_of(daemon)['wcache_decisions_total{decision="hit",reason=""}'] == 1
        filler.unlink()
        wait_until(lambda: is_merged(daemon), what="the journal is merged")
        assert [event.type for event in daemon.events("lease.granted", "map.completed")] == ["lease.granted", "map.completed"]
        assert len(daemon.status().leases) == 1
        found.close()
        wait_until(lambda: daemon.events("lease.ended"))
        assert verify(daemon.settings.ledger).ok


@needs_root
def test_a_journal_below_its_hard_mark_is_kept_for_those_who_are_turned_away(model: Path, disk: Path) -> None:
    process = DaemonProcess(disk / "hard-mark", environ={"WCACHE_HEALTH_PORT": "0"})
    with ExitStack() as held:
        held.callback(process.cleanup)
        run = held.enter_context(tmpfs(process.settings.runtime_dir, 4 << 20))
        state = held.enter_context(tmpfs(process.settings.state_dir, SMALL_BYTES))
        daemon = process.start()
        daemon.load(model)
        fill(state)
        fill(run, leave_bytes=40_000)  # a fiftieth of 4 MiB is 83,886
        wait_until(lambda: metrics_of(daemon)['wcache_space_low{mark="hard",place="journal"}'] == 1)
        assert metrics_of(daemon)["wcache_journal_serves"] == 0
        found = ask(daemon, model, "serve")
        assert not found.hit and found.decision.reason is Reason.LEDGER_UNAVAILABLE
        assert daemon.status().journalled == 1
        assert any("the hard mark is 83886" in warning for warning in daemon.status().warnings)


@needs_root
def test_a_server_that_dies_while_the_disk_is_full_comes_back_with_what_it_held(tmp_path: Path, model: Path) -> None:
    """D1 and L2 at once: it cannot record that it took over, so it waits; the vault goes on keeping weights and leases."""
    with tmpfs(tmp_path / "small", SMALL_BYTES) as small, running(small / "state") as daemon:
        loaded = daemon.load(model).residency
        found = ask(daemon, model)
        found.report_mapped(1.0)
        wait_until(lambda: daemon.events("map.completed"), what="the server read its thanks, from which on the vault has the lease")
        filler = fill(small)
        os.kill(daemon.pid, signal.SIGKILL)
        wait_until(lambda: daemon.log().count("the disk is full") >= 2, what="it tried, and tried again")
        filler.unlink()
        wait_until(lambda: "took over" in daemon.log())
        (residency,) = daemon.status().residencies
        assert residency.view.residency == loaded.residency and residency.leases == 1
        found.close()
        wait_until(lambda: not daemon.status().leases)
        assert verify(daemon.settings.ledger).ok


def test_a_late_event_of_the_journal_is_flagged_and_changes_no_state(tmp_path: Path, model: Path) -> None:
    """L2: a loader's word about its map comes after the end of its lease."""
    process = DaemonProcess(tmp_path / "state")
    try:
        daemon = process.start()
        daemon.load(model)
        found = ask(daemon, model)
        found.close()
        wait_until(lambda: daemon.events("lease.ended"))
        event = MapCompleted(attach=found.attach, mode=Mode.ZERO_COPY, tensors=1, bytes=1, copied_tensors=0, copied_bytes=0, ms=1.0)
        Journal(daemon.settings.runtime_dir / "journal.jsonl").write((NewEvent(event=event),))
        wait_until(lambda: daemon.events("ledger.gap"), what="what a loader left is merged by the running daemon")
        with Ledger.open(daemon.settings.ledger, read_only=True) as ledger:
            (mapped,) = ledger.events(types=["map.completed"])
        assert mapped.late
        with Audit(daemon.settings.ledger) as audit:
            (row,) = audit.attaches()
        assert row["state"] == "ended" and row["mapped_bytes"] is None
    finally:
        process.cleanup()


def fails_to_start(process: DaemonProcess) -> str:
    """What a daemon that does not start says: one line."""
    try:
        with pytest.raises(AssertionError) as caught:
            process.start()
    finally:
        process.cleanup()
    said = str(caught.value).splitlines()[0]
    assert '"m":"Failure"' in said, caught.value
    failure = msgspec.json.decode(said[said.index("{") :].split("}")[0] + "}")
    return f"{failure['code']}: {failure['where']}: {failure['what']}; {failure['remedy']}"


def falls_back_alone(settings: Settings, model: Path) -> None:
    """Without a daemon, and with a ledger that takes nothing: the engine starts, and the journal says so."""
    assert load_file(model / "model.safetensors", settings=settings)
    assert Journal(settings.runtime_dir / "journal.jsonl").pending() == 2


@needs_root
def test_a_read_only_file_system_keeps_a_daemon_from_starting_and_no_engine(tmp_path: Path, model: Path) -> None:
    """L3, L8"""
    with tmpfs(tmp_path / "frozen", SMALL_BYTES) as frozen:
        with running(frozen / "state") as daemon:
            daemon.load(model)
            daemon.stop()
        read_only(frozen)
        process = DaemonProcess(frozen / "state")
        process.settings.runtime_dir.mkdir(mode=0o700)
        falls_back_alone(process.settings, model)
        said = fails_to_start(process)
        assert "Read-only file system" in said and "WCACHE_LEDGER" in said
        with Audit(process.settings.ledger) as audit:
            assert audit.summary()["residencies"] == {"lost": 1}


@needs_root
def test_a_ledger_that_may_not_be_read_keeps_a_daemon_from_starting() -> None:
    process = DaemonProcess(prefix=("setpriv", "--bounding-set=-dac_override,-dac_read_search"))  # root, but bound by permissions
    process.settings.state_dir.mkdir(mode=0o700)
    with Ledger.open(process.settings.ledger):
        pass
    os.chown(process.settings.ledger, 65534, 65534)  # and 0600
    said = fails_to_start(process)
    assert "ermission" in said or "unable to open" in said
    assert str(process.settings.ledger) in said


@pytest.mark.parametrize("damage", ["half", "garbage", "page"])
def test_a_damaged_ledger_keeps_a_daemon_from_starting_and_no_engine(tmp_path: Path, model: Path, damage: str) -> None:
    """L3: half a file, something that is no database, one page overwritten."""
    with running(tmp_path / "state") as daemon:
        daemon.load(model)
        for _ in range(3):
            ask(daemon, model).close()
        daemon.stop()
        ledger = daemon.settings.ledger
    size_bytes = ledger.stat().st_size
    with ledger.open("r+b") as file:
        if damage == "half":
            file.truncate(size_bytes // 2)
        elif damage == "garbage":
            file.write(b"<html>" * 1000)
        else:
            for offset in range(4096, size_bytes, 4096):
                file.seek(offset)
                file.write(b"\xff" * 4096)
    process = DaemonProcess(tmp_path / "state")
    process.settings.runtime_dir.mkdir(mode=0o700)
    falls_back_alone(process.settings, model)
    said = fails_to_start(process)
    assert said.startswith("ledger_corrupt: ") and "wcache ledger verify" in said


CLOCK = """
import os, time
_offset_ns, _real_ns = int(os.environ["TEST_CLOCK_OFFSET_S"]) * 10**9, time.time_ns
time.time_ns = lambda: _real_ns() + _offset_ns
time.time = lambda: time.time_ns() / 1e9
"""


def test_a_clock_that_went_back_an_hour_changes_no_order_and_no_decision(tmp_path: Path, model: Path) -> None:
    """L5: two daemons, the second by a clock an hour behind the first's."""
    (tmp_path / "sitecustomize.py").write_text(CLOCK)
    path = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    lived = []
    for offset_s in (3600, 0):
        with running(tmp_path / "state", PYTHONPATH=path, TEST_CLOCK_OFFSET_S=str(offset_s)) as daemon:
            daemon.load(model)
            found = ask(daemon, model)
            assert found.hit
            found.close()
            wait_until(lambda: not daemon.status().leases)
            assert daemon.stop() == 0
            lived.append(daemon.settings.ledger)
    with Ledger.open(lived[0], read_only=True) as ledger:
        events = list(ledger.events())
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    assert any(after.recorded_ns < before.recorded_ns for before, after in pairwise(events))
    report = verify(lived[0])
    assert report.ok and any("the clock went back 1 times" in note for note in report.notes)
    with Audit(lived[0]) as audit:
        assert audit.summary()["decisions"] == {"hit": 2}


@needs_root
def test_a_ledger_far_away_is_refused_before_it_is_made(tmp_path: Path) -> None:
    """L7, on a mount that the kernel itself calls fuse.sshfs."""
    with remote(tmp_path / "far") as far:
        process = DaemonProcess(environ={})
        process.settings = msgspec.structs.replace(process.settings, ledger=far / "ledger.sqlite")
        said = fails_to_start(process)
        assert "fuse.sshfs" in said and "WCACHE_LEDGER" in said and str(far) in said
