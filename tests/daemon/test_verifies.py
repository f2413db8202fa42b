"""Resident memory is checked against the digests of its load, and what fails becomes suspect (the fault: support/faults.py)."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from support.attaching import attach
from support.daemon import DaemonProcess, wait_until
from support.faults import load_with_a_memory_error, two_tensors

from wcache.core.memory import memfd
from wcache.core.model.errors import NotFound, RequestRefused, WorkerDied
from wcache.core.model.events import Identity, MutationDetected, ReleaseCompleted, VerifyFailed, VerifyInconclusive, VerifyPassed
from wcache.core.model.vocabulary import Reason, ResidencyState
from wcache.core.wire.messages import (
    Done,
    LoadRequest,
    Progress,
    ReleaseRequest,
    SegmentManifest,
    Verified,
    VerifyRequest,
)
from wcache.daemon.residencies import Residency, inode_of


def verify(daemon: DaemonProcess, residency: str, *, read: bool = True) -> Verified:
    channel = daemon.connect()
    try:
        reply = channel.call(VerifyRequest(residency=residency, read=read), timeout_s=30)
    finally:
        channel.close()
    assert isinstance(reply, Verified)
    return reply


def restart_server(daemon: DaemonProcess) -> None:
    server = daemon.pid
    os.kill(server, signal.SIGKILL)
    wait_until(lambda: daemon.pid not in (0, server))
    wait_until(lambda: daemon.status())


def test_what_a_server_takes_over_can_be_verified_and_stays_pinned(daemon: DaemonProcess, checkpoint: Path) -> None:
    """The digests of the load outlive the server that took them."""
    residency = daemon.load(checkpoint).residency.residency
    channel = daemon.connect()
    channel.call(LoadRequest(spelling=str(checkpoint), pin=True))
    channel.close()
    restart_server(daemon)
    (one,) = daemon.status().residencies
    assert (one.view.residency, one.pinned) == (residency, True)
    assert verify(daemon, residency).intact


def test_what_was_loaded_passes_by_its_digests_and_by_its_seals(daemon: DaemonProcess, checkpoint: Path) -> None:
    loaded = daemon.load(checkpoint).residency
    for read, by in ((True, "digests"), (False, "seals")):
        verified = verify(daemon, loaded.residency[:6], read=read)
        assert (verified.intact, verified.by, verified.tensors, verified.state) == (True, by, (), "resident")
        assert verified.expected == verified.found == loaded.weights_digest
        assert verified.bytes == (loaded.bytes if read else 0)
    passed = daemon.events("verify.passed")
    assert [(event.by, event.found) for event in passed if isinstance(event, VerifyPassed)] == [
        ("digests", loaded.weights_digest),
        ("seals", loaded.weights_digest),
    ]
    with pytest.raises(NotFound):
        verify(daemon, "r-nothing")


def test_every_segment_of_many_is_verified(daemon: DaemonProcess, many_shards: Path) -> None:
    residency = daemon.load(many_shards).residency.residency
    before = daemon.fd_count()
    assert verify(daemon, residency).intact
    wait_until(lambda: not daemon.workers() and daemon.fd_count() <= before)


def test_memory_that_changed_is_found_named_and_suspect(daemon: DaemonProcess, tmp_path: Path) -> None:
    """The load itself cannot see it: what it hashed was right."""
    path = two_tensors(tmp_path / "model")
    residency = load_with_a_memory_error(daemon, path)
    assert verify(daemon, residency, read=False).intact  # the seals are
    attached = attach(daemon.settings.socket_path, path)
    assert attached.decided.decision.residency == residency

    verified = verify(daemon, residency)
    assert not verified.intact
    assert verified.tensors == ("a",)
    assert verified.state == ResidencyState.SUSPECT
    assert verified.found not in ("", verified.expected)
    failed, detected = daemon.events("verify.failed", "mutation.detected")
    assert isinstance(failed, VerifyFailed)
    assert (failed.residency, failed.attach, failed.found) == (residency, None, verified.found)
    assert detected == MutationDetected(residency=residency, tensors=("a",), why="")

    # No new hits; who has it keeps it and is flagged.
    other = attach(daemon.settings.socket_path, path)
    assert (other.decided.decision.reason, other.decided.segments) == (Reason.SUSPECT, ())
    other.close()
    (lease,) = daemon.status().leases
    assert lease.suspect
    assert attached.fds
    assert not verify(daemon, residency).intact  # again, and it says the same
    restart_server(daemon)
    (one,) = daemon.status().residencies
    assert (one.view.state, one.flaw) == (ResidencyState.SUSPECT, "1 tensors changed")
    assert daemon.status().leases[0].suspect
    attached.close()
    wait_until(lambda: not daemon.status().leases)

    # The checkpoint can be loaded anew beside it, and the suspect one be released.
    fresh = daemon.load(path)
    assert not fresh.reused
    assert verify(daemon, fresh.residency.residency).intact
    hit = attach(daemon.settings.socket_path, path)
    assert hit.decided.decision.residency == fresh.residency.residency
    hit.close()
    channel = daemon.connect()
    assert isinstance(channel.call(ReleaseRequest(residency=residency)), Done)
    channel.close()


def test_a_release_can_check_a_last_time(daemon: DaemonProcess, tmp_path: Path, checkpoint: Path) -> None:
    """The end-of-life check is on record, and a finding does not keep the memory."""
    good = daemon.load(checkpoint).residency.residency
    bad = load_with_a_memory_error(daemon, two_tensors(tmp_path / "model"))
    channel = daemon.connect()
    for residency in (good, bad):
        channel.call(ReleaseRequest(residency=residency, verify=True), timeout_s=30)
    channel.close()
    found = daemon.events("release.requested", "verify.passed", "verify.failed", "mutation.detected", "release.completed")
    assert [(event.type, getattr(event, "residency", "")) for event in found] == [
        ("release.requested", good),
        ("verify.passed", good),
        ("release.completed", good),
        ("release.requested", bad),
        ("verify.failed", bad),
        ("mutation.detected", bad),
        ("release.completed", bad),
    ]
    assert [event.checked for event in found if isinstance(event, ReleaseCompleted)] == ["digests", "digests"]
    assert daemon.status().residencies == ()


def test_a_verification_whose_worker_dies_is_inconclusive_and_changes_nothing(daemon: DaemonProcess, tmp_path: Path) -> None:
    residency = daemon.load(two_tensors(tmp_path / "model")).residency.residency
    channel = daemon.connect()
    channel.send(VerifyRequest(residency=residency))
    wait_until(daemon.workers)
    for worker in daemon.workers():
        os.kill(worker, signal.SIGKILL)
    with pytest.raises(WorkerDied, match="SIGKILL"):
        while isinstance(channel.receive(timeout_s=20)[0], Progress):
            pass
    channel.close()
    (event,) = daemon.events("verify.inconclusive")
    assert isinstance(event, VerifyInconclusive)
    (one,) = daemon.status().residencies
    assert one.view.state is ResidencyState.RESIDENT


def test_nobody_waits_so_nothing_is_read_on(daemon: DaemonProcess, tmp_path: Path) -> None:
    residency = daemon.load(two_tensors(tmp_path / "model")).residency.residency
    channel = daemon.connect()
    channel.send(VerifyRequest(residency=residency))
    wait_until(daemon.workers)
    channel.close()
    wait_until(lambda: not daemon.workers())
    assert daemon.events("verify.passed", "verify.inconclusive") == []


def test_what_is_loading_cannot_be_verified(daemon: DaemonProcess, tmp_path: Path) -> None:
    channel = daemon.connect()
    channel.send(LoadRequest(spelling=str(two_tensors(tmp_path / "model"))))
    wait_until(lambda: daemon.status().residencies)
    with pytest.raises(RequestRefused, match="it is loading"):
        verify(daemon, daemon.status().residencies[0].view.residency)
    channel.close()


def test_memory_that_is_not_sealed_cut_or_another_file_is_a_flaw(tmp_path: Path) -> None:
    """The cheap check, on memory files made for it."""
    asked = Identity("x")
    fd = memfd.create("x", 4096)
    one = Residency(residency="r-1", asked=asked, served=asked, segments=(SegmentManifest("x", 4096, ""),), fds=[fd])
    assert "not sealed" in one.memory_flaw()
    memfd.seal(fd)
    assert one.memory_flaw() == ""
    one.segments = (SegmentManifest("x", 4095, ""),)
    assert "4096 bytes" in one.memory_flaw()
    other = memfd.create("x", 4095)
    memfd.seal(other)
    one.inodes, one.fds = (inode_of(fd),), [other]
    assert "other memory than" in one.memory_flaw()
    plain = os.open(tmp_path, os.O_RDONLY)
    one.fds = [plain]
    assert "no memory file" in one.memory_flaw()
    for each in (fd, other, plain):
        os.close(each)
