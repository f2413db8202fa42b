"""Loads: byte for byte, once, recorded before they count, and nothing half loaded stays."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from support.attaching import attach
from support.corpus import make_checkpoint
from support.daemon import DaemonProcess, wait_until, zeros_shard
from support.faults import catch, go_on

from wcache.core.checkpoint.checkpoint import open_checkpoint
from wcache.core.checkpoint.fingerprint import content_fingerprint
from wcache.core.checkpoint.reader import Reader
from wcache.core.model.errors import CheckpointChanged, CheckpointInvalid, CheckpointUnreadable, WcacheError, WorkerDied
from wcache.core.model.events import FingerprintRecorded, LoadCompleted, LoadFailed, LoadStarted
from wcache.core.model.vocabulary import ResidencyState, Tier
from wcache.core.wire.messages import Loaded, LoadRequest, Progress


def test_a_load_is_resident_byte_for_byte_and_on_record(daemon: DaemonProcess, checkpoint: Path) -> None:
    loaded = daemon.load(checkpoint)
    assert loaded.residency.state is ResidencyState.RESIDENT
    assert loaded.residency.weights_digest == content_fingerprint(open_checkpoint(checkpoint), Reader()).digest
    assert not loaded.reused
    started, *recorded, completed = daemon.events("load.started", "fingerprint.recorded", "load.completed")
    assert isinstance(started, LoadStarted)
    assert isinstance(completed, LoadCompleted)
    assert completed.residency == started.residency == loaded.residency.residency
    assert set(completed.seconds) == {"settle", "read", "seal"}
    fingerprints = [event for event in recorded if isinstance(event, FingerprintRecorded)]
    assert [event.fingerprint for event in fingerprints] == list(completed.fingerprints)
    assert {event.evidence.tier for event in fingerprints} == {Tier.CONTENT, Tier.HEADER, Tier.SAMPLED}
    assert fingerprints[0].evidence.pinnable
    attached = attach(daemon.settings.socket_path, checkpoint)
    for name in attached.fds:
        assert attached.content(name) == (checkpoint / name).read_bytes()
    attached.close()


def test_a_checkpoint_of_more_shards_than_fit_into_a_message_loads(daemon: DaemonProcess, many_shards: Path) -> None:
    daemon.load(many_shards)
    attached = attach(daemon.settings.socket_path, many_shards)
    assert len(attached.fds) == 70
    for name in attached.fds:
        assert attached.content(name) == (many_shards / name).read_bytes()
    attached.close()


def test_what_is_resident_is_not_loaded_again_by_whatever_spelling(daemon: DaemonProcess, checkpoint: Path, tmp_path: Path) -> None:
    """I5."""
    first = daemon.load(checkpoint)
    (tmp_path / "link").symlink_to(checkpoint)
    for spelling in (str(checkpoint), f"{checkpoint}/", f"{checkpoint}/../{checkpoint.name}", str(tmp_path / "link")):
        again = daemon.load(spelling)
        assert again.reused
        assert again.residency.residency == first.residency.residency
    assert len(daemon.events("load.started")) == 1


def test_two_that_load_the_same_at_once_cost_one_load(daemon: DaemonProcess, tmp_path: Path) -> None:
    """Single flight, also by two spellings of one checkpoint."""
    path = make_checkpoint(tmp_path / "fresh", shards=2)
    (tmp_path / "link").symlink_to(path)
    found: list[Loaded] = []

    def load(spelling: Path) -> None:
        found.append(daemon.load(spelling))

    threads = [threading.Thread(target=load, args=(spelling,)) for spelling in (path, path, tmp_path / "link")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({loaded.residency.residency for loaded in found}) == 1
    assert len(found) == 3
    assert len(daemon.events("load.started")) == len(daemon.events("load.completed")) == 1


def test_different_checkpoints_are_resident_side_by_side(daemon: DaemonProcess, checkpoint: Path, twin: Path) -> None:
    """D9, the part that fits."""
    assert daemon.load(checkpoint).residency.weights_digest != daemon.load(twin).residency.weights_digest
    status = daemon.status()
    assert len(status.residencies) == 2
    assert status.resident_bytes == sum(one.view.bytes for one in status.residencies) > 0


def test_an_invalid_checkpoint_is_refused_with_its_rule_and_nothing_stays(daemon: DaemonProcess, tmp_path: Path) -> None:
    """I3: cut by 100 bytes, header untouched."""
    path = make_checkpoint(tmp_path / "cut", shards=2)
    shard = path / "model-00002-of-00002.safetensors"
    os.truncate(shard, shard.stat().st_size - 100)
    before = daemon.fd_count()
    with pytest.raises(CheckpointInvalid, match=r"model-00002-of-00002\.safetensors"):
        daemon.load(path)
    (failed,) = daemon.events("load.failed")
    assert isinstance(failed, LoadFailed)
    assert failed.code == "checkpoint_invalid"
    assert failed.detail
    assert failed.asked.spelling == str(path)
    assert not daemon.status().residencies
    wait_until(lambda: not daemon.workers() and daemon.fd_count() <= before)


def test_an_absent_checkpoint_is_one_clear_line(daemon: DaemonProcess, tmp_path: Path) -> None:
    with pytest.raises(CheckpointUnreadable, match="no such file"):
        daemon.load(tmp_path / "absent")


def stop_in_phase(daemon: DaemonProcess, path: Path, phase: str, act: Callable[[int], None]) -> WcacheError | None:
    """Load `path`, stop the worker before or while it reads, call `act(worker pid)`, let it go on; how the load ended."""
    channel = daemon.connect()
    done = False

    def on_progress(progress: Progress) -> None:
        nonlocal done
        if progress.phase != "wait" and not done:
            done = True
            worker = catch(daemon, int(phase == "read"))
            act(worker)
            go_on(worker)

    try:
        channel.call(LoadRequest(spelling=str(path)), timeout_s=60, on_progress=on_progress)
    except WcacheError as error:
        return error
    finally:
        channel.close()
        assert done, "it was too fast for this test"
    return None


@pytest.mark.parametrize("change", ["bytes", "size", "replaced"])
def test_a_checkpoint_that_changes_during_the_load_is_named_and_not_kept(daemon: DaemonProcess, disk: Path, change: str) -> None:
    """D8."""
    shard = zeros_shard(disk / f"changing-{change}" / "model.safetensors", 200 << 20)

    def act(_worker: int) -> None:
        if change == "bytes":
            with shard.open("r+b") as file:
                file.seek(150 << 20)
                file.write(b"other")
        elif change == "size":
            os.truncate(shard, 100 << 20)
        else:
            copy = shard.with_name("new")
            zeros_shard(copy, 200 << 20)
            copy.rename(shard)

    error = stop_in_phase(daemon, shard.parent, "read", act)
    assert isinstance(error, CheckpointChanged)
    assert shard.name in error.where or str(shard.parent) == error.where
    assert daemon.status().resident_bytes == 0
    (failed,) = daemon.events("load.failed")
    assert isinstance(failed, LoadFailed)
    assert failed.code == "checkpoint_changed"
    shard.unlink()


@pytest.mark.parametrize("phase", ["settle", "read"])
def test_a_worker_that_is_killed_leaves_nothing_and_the_next_load_works(daemon: DaemonProcess, disk: Path, phase: str) -> None:
    """D1, the worker's part."""
    shard = zeros_shard(disk / f"killed-{phase}" / "model.safetensors", (200 if phase == "read" else 1) << 20)
    before = daemon.fd_count()
    error = stop_in_phase(daemon, shard.parent, phase, lambda worker: os.kill(worker, signal.SIGKILL))
    assert isinstance(error, WorkerDied)
    assert "SIGKILL" in error.what
    assert daemon.status().residencies == ()
    wait_until(lambda: not daemon.workers() and daemon.fd_count() <= before)
    assert daemon.load(shard.parent).residency.state is ResidencyState.RESIDENT
    assert [type(event) for event in daemon.events("load.started", "load.failed", "load.completed")] == [
        LoadStarted,
        LoadFailed,
        LoadStarted,
        LoadCompleted,
    ]
    shard.unlink()


def test_progress_and_phase_of_a_load_are_in_the_status(daemon: DaemonProcess, tmp_path: Path) -> None:
    """D10. A fresh checkpoint settles first."""
    path = make_checkpoint(tmp_path / "fresh")
    thread = threading.Thread(target=lambda: daemon.load(path))
    thread.start()
    wait_until(lambda: any(one.phase == "settle" for one in daemon.status().residencies))
    (one,) = daemon.status().residencies
    assert one.view.state is ResidencyState.LOADING
    assert one.view.table_digest
    assert one.total_bytes == one.view.bytes > 0
    thread.join()
    (one,) = daemon.status().residencies
    assert one.view.state is ResidencyState.RESIDENT
    assert one.phase is None


def test_the_server_never_maps_the_weights(daemon: DaemonProcess, disk: Path) -> None:
    """Its own memory is its own: a checkpoint of 200 MB, held and handed out, does not show in it."""
    shard = zeros_shard(disk / "server-memory" / "model.safetensors", 200 << 20)
    before_bytes = daemon.memory()["VmRSS"]
    daemon.load(shard.parent)
    attached = attach(daemon.settings.socket_path, shard.parent)
    memory = daemon.memory()
    assert memory["RssShmem"] == 0
    assert memory["VmRSS"] - before_bytes < 4 << 20
    assert "torch" not in Path(f"/proc/{daemon.pid}/maps").read_text()
    attached.close()
    shard.unlink()
