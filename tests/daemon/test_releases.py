"""A10: what somebody has mapped is not taken away by accident, and whoever asked is on record."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from support.attaching import asked_of, attach, begin, decide_on, evidence_of, receive_segments
from support.corpus import make_checkpoint
from support.daemon import DaemonProcess, wait_until

from wcache.core.checkpoint.checkpoint import open_checkpoint
from wcache.core.model.errors import DaemonUnreachable, NotFound, RequestRefused, UsageError, WcacheError
from wcache.core.model.events import ReleaseCompleted, ReleaseRefused, ReleaseRequested
from wcache.core.model.vocabulary import Reason, ResidencyState
from wcache.core.wire.channel import Channel
from wcache.core.wire.messages import Ack, Done, Progress, ReleaseRequest, ReplaceRequest, ShutdownRequest


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


def deferred(daemon: DaemonProcess, residency: str, **options: bool) -> Channel:
    """A release that waits: its channel, once the wait has begun."""
    channel = daemon.connect()
    channel.send(ReleaseRequest(residency=residency, when_free=True, why="later", **options))
    reply, _ = channel.receive()
    assert isinstance(reply, Progress)
    assert reply.phase == "wait"
    return channel


def end_of(channel: Channel) -> Done:
    while True:
        reply, _ = channel.receive(timeout_s=60)
        if not isinstance(reply, Progress):
            assert isinstance(reply, Done)
            channel.close()
            return reply


def test_a_deferred_release_is_on_record_at_once_and_waits_for_the_last_lease(daemon: DaemonProcess, checkpoint: Path) -> None:
    """A10, the other answer. Nobody gets it from then on."""
    residency = daemon.load(checkpoint).residency.residency
    first = attach(daemon.settings.socket_path, checkpoint)
    second = attach(daemon.settings.socket_path, checkpoint)
    waiting = deferred(daemon, residency)
    wait_until(lambda: daemon.events("release.requested"))
    (requested,) = daemon.events("release.requested")
    assert isinstance(requested, ReleaseRequested)
    assert (requested.when_free, requested.uid, requested.why) == (True, os.geteuid(), "later")
    assert set(requested.leases) == {first.attach, second.attach}
    late = attach(daemon.settings.socket_path, checkpoint)
    assert late.decided.decision.reason is Reason.RELEASED
    late.close()
    with pytest.raises(RequestRefused, match="it is releasing"):
        release(daemon, residency)
    first.close()
    wait_until(lambda: len(daemon.status().leases) == 1)
    assert daemon.events("release.completed") == []
    name = next(iter(second.fds))
    assert second.content(name) == (checkpoint / name).read_bytes()
    second.close()
    end_of(waiting)
    assert daemon.status().residencies == ()
    assert [event.type for event in daemon.events("lease.ended", "release.completed")] == ["lease.ended"] * 2 + ["release.completed"]


def test_a_deferred_release_goes_on_without_whoever_asked_and_can_be_joined(daemon: DaemonProcess, checkpoint: Path) -> None:
    residency = daemon.load(checkpoint).residency.residency
    attached = attach(daemon.settings.socket_path, checkpoint)
    deferred(daemon, residency).close()
    second = deferred(daemon, residency)
    attached.close()
    end_of(second)
    assert len(daemon.events("release.requested")) == len(daemon.events("release.completed")) == 1


def test_what_is_deferred_can_be_forced(daemon: DaemonProcess, checkpoint: Path) -> None:
    residency = daemon.load(checkpoint).residency.residency
    attached = attach(daemon.settings.socket_path, checkpoint)
    waiting = deferred(daemon, residency)
    channel = daemon.connect()
    channel.send(ReleaseRequest(residency=residency, force=True))
    end_of(channel)
    end_of(waiting)
    assert [event.force for event in daemon.events("release.requested") if isinstance(event, ReleaseRequested)] == [False, True]
    assert daemon.status().residencies == ()
    attached.close()


def test_a_release_when_free_of_what_is_free_is_done_at_once(daemon: DaemonProcess, checkpoint: Path) -> None:
    residency = daemon.load(checkpoint).residency.residency
    channel = daemon.connect()
    assert isinstance(channel.call(ReleaseRequest(residency=residency, when_free=True)), Done)
    channel.close()
    (completed,) = daemon.events("release.completed")
    assert isinstance(completed, ReleaseCompleted)
    assert completed.checked == "seals"


def test_a_daemon_that_stops_over_a_deferred_release_says_that_the_weights_are_gone(daemon: DaemonProcess, checkpoint: Path) -> None:
    residency = daemon.load(checkpoint).residency.residency
    attached = attach(daemon.settings.socket_path, checkpoint)
    deferred(daemon, residency).close()
    channel = daemon.connect()
    channel.call(ShutdownRequest(force=True))
    channel.close()
    assert daemon.process is not None
    daemon.process.wait(10)
    assert [event.type for event in daemon.events("release.requested", "release.completed", "residency.lost")] == [
        "release.requested",
        "residency.lost",
    ]
    attached.close()


def test_a_deferred_release_outlives_the_server(daemon: DaemonProcess, checkpoint: Path) -> None:
    """D1: the request is on record, so the next server keeps to it."""
    residency = daemon.load(checkpoint).residency.residency
    attached = attach(daemon.settings.socket_path, checkpoint)
    deferred(daemon, residency).close()
    wait_until(lambda: daemon.events("release.requested"))
    server = daemon.pid
    os.kill(server, signal.SIGKILL)
    wait_until(lambda: daemon.pid not in (0, server) and answers(daemon))
    (one,) = daemon.status().residencies
    assert (one.view.state, one.leases) == (ResidencyState.RELEASING, 1)
    assert daemon.events("release.completed") == []
    attached.close()
    wait_until(lambda: daemon.events("release.completed"))
    assert daemon.status().residencies == ()


def answers(daemon: DaemonProcess) -> bool:
    try:
        daemon.status()
    except WcacheError:
        return False
    return True


def test_a_deferred_release_does_not_hold_up_a_new_server(daemon: DaemonProcess, checkpoint: Path) -> None:
    """Whoever waits is told that it goes on, and it does."""
    residency = daemon.load(checkpoint).residency.residency
    attached = attach(daemon.settings.socket_path, checkpoint)
    waiting = deferred(daemon, residency)
    wait_until(lambda: daemon.events("release.requested"))
    server = daemon.pid
    channel = daemon.connect()
    assert channel.call(ReplaceRequest(), timeout_s=60) == Done()
    channel.close()
    with pytest.raises(RequestRefused, match="is on record and goes on"):
        end_of(waiting)
    waiting.close()
    wait_until(lambda: daemon.pid not in (0, server) and answers(daemon))
    (one,) = daemon.status().residencies
    assert (one.view.state, one.leases) == (ResidencyState.RELEASING, 1)
    attached.close()
    wait_until(lambda: daemon.events("release.completed"))


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
