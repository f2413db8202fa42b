"""A10: what somebody has mapped is not taken away by accident, and whoever asked is on record."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from support.attaching import asked_of, attach, begin, decide_on, evidence_of, receive_segments
from support.corpus import make_checkpoint
from support.daemon import DaemonProcess, wait_until

from wcache.core.checkpoint.checkpoint import open_checkpoint
from wcache.core.model.errors import DaemonUnreachable, NotFound, RequestRefused, UsageError
from wcache.core.model.events import ReleaseCompleted, ReleaseRefused, ReleaseRequested
from wcache.core.model.vocabulary import Reason
from wcache.core.wire.messages import Ack, Done, ReleaseRequest, ShutdownRequest


def release(daemon: DaemonProcess, residency: str, *, force: bool = False) -> Done:
    channel = daemon.connect()
    try:
        reply = channel.call(ReleaseRequest(residency=residency, force=force, why="test"))
    finally:
        channel.close()
    assert isinstance(reply, Done)
    return reply


def test_a_release_gives_the_memory_back_and_is_on_record(daemon: DaemonProcess, checkpoint: Path) -> None:
    before = daemon.fd_count()
    loaded = daemon.load(checkpoint)
    release(daemon, loaded.residency.residency)
    requested, completed = daemon.events("release.requested", "release.completed")
    assert isinstance(requested, ReleaseRequested)
    assert isinstance(completed, ReleaseCompleted)
    assert (requested.uid, requested.why, completed.bytes) == (os.geteuid(), "test", loaded.residency.bytes)
    assert daemon.status().residencies == ()
    wait_until(lambda: daemon.fd_count() <= before)
    attached = attach(daemon.settings.socket_path, checkpoint)
    assert attached.decided.decision.reason is Reason.RELEASED
    attached.close()
    again = daemon.load(checkpoint)
    assert not again.reused
    attached = attach(daemon.settings.socket_path, checkpoint)
    assert attached.decided.decision.residency == again.residency.residency
    attached.close()


def test_what_an_engine_has_mapped_is_not_released_unless_forced(daemon: DaemonProcess, checkpoint: Path) -> None:
    residency = daemon.load(checkpoint).residency.residency
    attached = attach(daemon.settings.socket_path, checkpoint)
    with pytest.raises(RequestRefused, match=r"mapped by 1: test 1 rank 0"):
        release(daemon, residency)
    (refused,) = daemon.events("release.refused")
    assert isinstance(refused, ReleaseRefused)
    assert (refused.uid, refused.leases) == (os.geteuid(), (attached.attach,))
    release(daemon, residency, force=True)
    (requested,) = daemon.events("release.requested")
    assert isinstance(requested, ReleaseRequested)
    assert requested.leases == (attached.attach,)
    name = next(iter(attached.fds))
    assert attached.content(name) == (checkpoint / name).read_bytes()  # whoever has it keeps it
    attached.close()


def test_what_an_attach_is_about_to_decide_on_is_reserved(daemon: DaemonProcess, checkpoint: Path) -> None:
    residency = daemon.load(checkpoint).residency.residency
    opened = open_checkpoint(checkpoint)
    channel = daemon.connect()
    offer = begin(channel, asked_of(opened))
    with pytest.raises(RequestRefused, match="about to decide") as caught:
        release(daemon, residency)
    assert caught.value.detail == "reserved"
    channel.close()
    wait_until(lambda: release_goes(daemon, residency))
    assert offer.residencies


def release_goes(daemon: DaemonProcess, residency: str) -> bool:
    try:
        release(daemon, residency)
    except RequestRefused:
        return False
    return True


def test_a_decision_after_a_forced_release_is_no_hit(daemon: DaemonProcess, checkpoint: Path) -> None:
    residency = daemon.load(checkpoint).residency.residency
    opened = open_checkpoint(checkpoint)
    channel = daemon.connect()
    offer = begin(channel, asked_of(opened))
    release(daemon, residency, force=True)
    decided = decide_on(channel, offer, asked_of(opened), evidence_of(opened, offer))
    assert decided.decision.reason is Reason.RELEASED
    assert decided.segments == ()
    channel.close()


def test_a_prefix_is_enough_if_it_means_one(daemon: DaemonProcess, checkpoint: Path, twin: Path) -> None:
    first, second = daemon.load(checkpoint).residency.residency, daemon.load(twin).residency.residency
    with pytest.raises(UsageError, match="2 residencies"):
        release(daemon, "r-")
    with pytest.raises(NotFound, match="no such residency"):
        release(daemon, "nothing")
    unique = next(first[:length] for length in range(3, len(first)) if not second.startswith(first[:length]))
    release(daemon, unique)
    release(daemon, second.removeprefix("r-"))
    assert daemon.status().residencies == ()


def test_a_daemon_whose_weights_are_mapped_does_not_stop_unless_forced(daemon: DaemonProcess, checkpoint: Path) -> None:
    daemon.load(checkpoint)
    attached = attach(daemon.settings.socket_path, checkpoint)
    channel = daemon.connect()
    with pytest.raises(RequestRefused, match="mapped by 1: test"):
        channel.call(ShutdownRequest())
    assert channel.call(ShutdownRequest(force=True)) == Done()
    channel.close()
    assert daemon.process is not None
    assert daemon.process.wait(10) == 0
    assert [event.type for event in daemon.events("lease.ended", "residency.lost", "daemon.stopped")] == [
        "lease.ended",
        "residency.lost",
        "daemon.stopped",
    ]
    name = next(iter(attached.fds))
    assert attached.content(name) == (checkpoint / name).read_bytes()
    attached.close()


def test_a_forced_release_during_the_hand_over_never_sends_another_residency(daemon: DaemonProcess, disk: Path, many_shards: Path) -> None:
    """The numbers of the closed descriptors are those of the next load's memory: same names, same sizes, other bytes."""
    tensors = {f"layer.{number:03d}.weight": ("U8", (256,), bytes([number + 100]) * 256) for number in range(70)}
    other = make_checkpoint(disk / "many-other", tensors, shards=70)
    residency = daemon.load(many_shards).residency.residency
    opened = open_checkpoint(many_shards)
    channel = daemon.connect()
    offer = begin(channel, asked_of(opened))
    assert decide_on(channel, offer, asked_of(opened), evidence_of(opened, offer)).segments
    for fd in receive_segments(channel, acknowledge=False).values():
        os.close(fd)
    release(daemon, residency, force=True)
    daemon.load(other)
    channel.send(Ack())
    with pytest.raises(DaemonUnreachable) as caught:
        channel.receive()
    assert caught.value.reason == Reason.DAEMON_CLOSED
    wait_until(lambda: daemon.events("lease.ended"))
    assert daemon.status().leases == ()
