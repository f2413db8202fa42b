"""Published weights at the server: what it takes over, what it refuses, and what is left when somebody dies in the middle."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from support.attaching import ENGINE, asked_of, attach, hash_now
from support.commands import clean_environ
from support.daemon import DaemonProcess, wait_until

from wcache.core.checkpoint.checkpoint import open_checkpoint
from wcache.core.memory import memfd, table
from wcache.core.memory.packing import Placement
from wcache.core.memory.table import Table
from wcache.core.model.errors import DaemonUnreachable, MappingFailed, NoRoom, ProtocolError, RequestRefused, Unsupported, UsageError
from wcache.core.model.events import LoadCompleted, LoadFailed, LoadStarted, Ranks, ReleaseCompleted, ResidencyReadopted
from wcache.core.model.vocabulary import Kind, Lineage, ResidencyState
from wcache.core.wire.channel import Channel
from wcache.core.wire.messages import Loaded, Progress, Publish, PublishBegin, Publishing
from wcache.loader.attach import attach as loader_attach

MEMORY_BYTES = 1 << 20
CONFIG = {"dtype": '"float32"'}
TABLE = Table(
    size_bytes=MEMORY_BYTES,
    tensors=(
        Placement("a", "F32", (1024,), 0, 4096),
        Placement("a.turned", "F32", (32, 32), 0, 4096, "", (1, 32)),
        Placement("b", "U8", (4096,), 8192, 4096),
    ),
    blocks=((0, 4096), (8192, 4096)),
)  # fmt: skip


class Publisher:
    """An engine on the wire, step by step. Its evidence is a hash that it asks for first."""

    def __init__(self, daemon: DaemonProcess, place: Path, *, made: Table = TABLE, memory_bytes: int = MEMORY_BYTES, **more: Any) -> None:
        self.channel = daemon.connect()
        self.memory_bytes = memory_bytes
        self.made = made
        self.begun: str = ""
        words: dict[str, Any] = {"device": "cpu", "config": CONFIG, "size_bytes": memory_bytes, "tensors": len(made.tensors), **more}
        asked = asked_of(open_checkpoint(place))
        self.request = PublishBegin(asked=asked, engine=ENGINE, ranks=Ranks(), evidence=(hash_now(self.channel, place),), **words)

    def begin(self) -> Publishing | Loaded:
        reply = self.channel.call(self.request, timeout_s=30)
        assert isinstance(reply, (Publishing, Loaded))
        self.begun = reply.residency if isinstance(reply, Publishing) else ""
        return reply

    def hand_over(self, residency: str, *, sealed: bool = True, cut_bytes: int = 0, fds: int = 2, **fields: int) -> None:
        """Send it; the reply is the caller's to await."""
        table_fd, table_bytes = table.seal(self.made, "table")
        memory = memfd.create("memory", self.memory_bytes - cut_bytes)
        try:
            os.pwrite(memory, b"weights!" * 1024, 0)
            if sealed:
                memfd.seal(memory)
            words = {"table_bytes": table_bytes, "memory_bytes": self.memory_bytes, **fields}
            self.channel.send(Publish(residency=residency, **words), (table_fd, memory)[:fds])
        finally:
            os.close(table_fd)
            os.close(memory)

    def await_loaded(self) -> Loaded:
        while True:
            reply, _ = self.channel.receive(timeout_s=30)
            if isinstance(reply, Loaded):
                return reply

    def publish(self) -> Loaded:
        begun = self.begin()
        assert isinstance(begun, Publishing)
        self.hand_over(begun.residency)
        return self.await_loaded()


def started(daemon: DaemonProcess, place: Path, **words: Any) -> tuple[Publisher, str]:
    publisher = Publisher(daemon, place, **words)
    begun = publisher.begin()
    assert isinstance(begun, Publishing)
    return publisher, begun.residency


def nothing_half(daemon: DaemonProcess) -> bool:
    return all(one.view.state is ResidencyState.RESIDENT for one in daemon.status().residencies)


def failure(daemon: DaemonProcess, residency: str) -> LoadFailed | None:
    return next((event for event in daemon.events("load.failed") if isinstance(event, LoadFailed) and event.residency == residency), None)


def test_published_memory_is_taken_over_hashed_and_on_record(daemon: DaemonProcess, checkpoint: Path) -> None:
    loaded = Publisher(daemon, checkpoint).publish()
    view = loaded.residency
    assert (view.kind, view.bytes, view.tensors, view.lineage) == (Kind.PROCESSED, MEMORY_BYTES, 3, Lineage.UNPROVEN)
    assert "before they were read" in loaded.unproven_why
    events = daemon.events("load.started", "load.completed")
    assert [type(event) for event in events] == [LoadStarted, LoadCompleted]
    assert isinstance(events[1], LoadCompleted)
    assert events[1].processed_digest == view.processed_digest and events[1].weights_digest == view.weights_digest
    assert nothing_half(daemon)


@pytest.mark.parametrize(
    ("made", "words", "word"),
    [
        (TABLE, {"sealed": False}, "not sealed"),
        (TABLE, {"cut_bytes": 4096}, "manifest says"),
        (TABLE, {"memory_bytes": MEMORY_BYTES // 2}, "were announced"),
        (TABLE, {"table_bytes": 7}, "manifest says"),
        (TABLE, {"fds": 1}, "1 descriptors"),
        (msgspec.structs.replace(TABLE, size_bytes=2 * MEMORY_BYTES), {}, "the memory has"),
        (msgspec.structs.replace(TABLE, blocks=((0, 4096), (4000, 9000))), {}, "overlapping"),
        (msgspec.structs.replace(TABLE, blocks=((0, 4096),)), {}, "outside of every block"),
        (msgspec.structs.replace(TABLE, tensors=(Placement("x", "F32", (1024,), 0, 4000),)), {}, "does not fit"),
        (msgspec.structs.replace(TABLE, tensors=(Placement("x", "F32", (1000,), 1, 4000),)), {}, "does not fit"),
        (msgspec.structs.replace(TABLE, tensors=(Placement("x", "F32", (2, 2), 0, 16, "", (1 << 40, 1)),)), {}, "does not fit"),
        (msgspec.structs.replace(TABLE, tensors=(Placement("x", "F32", (-2, -2), 0, 16),)), {}, "below 0"),
        (msgspec.structs.replace(TABLE, tensors=(Placement("x", "F99", (4,), 0, 4),)), {}, "unknown"),
        (msgspec.structs.replace(TABLE, tensors=(TABLE.tensors[0], TABLE.tensors[0])), {}, "twice"),
        (msgspec.structs.replace(TABLE, tensors=TABLE.tensors[:1]), {"tensors": 2}, "were announced"),
    ],
)
def test_memory_that_is_not_what_was_said_is_refused_and_on_record(
    daemon: DaemonProcess, checkpoint: Path, made: Table, words: dict[str, Any], word: str
) -> None:
    begin_words = {"tensors": words.pop("tensors")} if "tensors" in words else {}
    publisher, residency = started(daemon, checkpoint, made=made, **begin_words)
    fds = daemon.fd_count()
    publisher.hand_over(residency, **words)
    with pytest.raises((MappingFailed, ProtocolError), match=word):
        publisher.await_loaded()
    found = failure(daemon, residency)
    assert found is not None and word in found.message
    assert not daemon.status().residencies
    wait_until(lambda: daemon.fd_count() <= fds)
    assert Publisher(daemon, checkpoint).publish().residency.kind is Kind.PROCESSED  # the daemon serves others as before


def test_what_cannot_be_meant_is_refused_before_there_is_anything(daemon: DaemonProcess, checkpoint: Path) -> None:
    for words, error in (
        ({"size_bytes": 0}, UsageError),
        ({"size_bytes": 1 << 60}, UsageError),
        ({"tensors": 0}, UsageError),
        ({"device": "tpu"}, Unsupported),
        ({"source": "a-unknown"}, RequestRefused),
    ):
        with pytest.raises(error):
            Publisher(daemon, checkpoint, **words).begin()
    blind = Publisher(daemon, checkpoint)
    blind.request = msgspec.structs.replace(blind.request, evidence=())
    with pytest.raises(RequestRefused, match="nobody knows which weights"):
        blind.begin()
    fds = daemon.fd_count()
    with pytest.raises(RequestRefused, match="nothing of this id"):
        blind.hand_over("r-0123")
        blind.await_loaded()
    publisher, _ = started(daemon, checkpoint)
    with pytest.raises(RequestRefused, match="publishes already"):
        publisher.begin()
    assert daemon.fd_count() <= fds + 1
    assert not [event for event in daemon.events("load.started") if isinstance(event, LoadStarted) and event.tensors == 0]


# --- room --------------------------------------------------------------------------------------------------------------------


@pytest.fixture
def budgeted() -> Iterator[DaemonProcess]:
    process = DaemonProcess(environ={"WCACHE_BUDGET_BYTES": str(5 * MEMORY_BYTES // 2)})
    try:
        yield process.start()
    finally:
        process.cleanup()


def test_a_publish_that_does_not_fit_is_refused_with_the_numbers(budgeted: DaemonProcess, checkpoint: Path) -> None:
    """D7."""
    with pytest.raises(NoRoom, match=f"{3 * MEMORY_BYTES} bytes are needed"):
        Publisher(budgeted, checkpoint, memory_bytes=3 * MEMORY_BYTES).begin()
    (event,) = budgeted.events("load.failed")
    assert isinstance(event, LoadFailed) and event.code == "no_room"
    assert not budgeted.status().residencies


def test_a_publish_evicts_what_nobody_uses_and_is_evicted_like_anything_else(budgeted: DaemonProcess, checkpoint: Path) -> None:
    """D9."""
    held = [Publisher(budgeted, checkpoint, config={"n": str(number)}).publish().residency.residency for number in range(3)]
    gone = [event.residency for event in budgeted.events("release.completed") if isinstance(event, ReleaseCompleted)]
    assert gone == held[:1]
    pinned = Publisher(budgeted, checkpoint, config={"n": "pinned"}, pin=True).publish()
    assert pinned.pinned
    Publisher(budgeted, checkpoint, config={"n": "last"}).publish()
    left = {one.view.residency for one in budgeted.status().residencies}
    assert pinned.residency.residency in left and len(left) == 2


def test_room_that_was_promised_to_one_is_not_given_to_another(budgeted: DaemonProcess, checkpoint: Path) -> None:
    """D7: two at once."""
    first, residency = started(budgeted, checkpoint, memory_bytes=2 * MEMORY_BYTES, config={"n": "1"})
    with pytest.raises(NoRoom, match="running loads will take"):
        Publisher(budgeted, checkpoint, config={"n": "2"}).begin()
    first.hand_over(residency)
    assert first.await_loaded().residency.bytes == 2 * MEMORY_BYTES


# --- the same at once --------------------------------------------------------------------------------------------------------


def test_whoever_publishes_the_same_waits_and_gets_it_or_has_its_turn(daemon: DaemonProcess, checkpoint: Path) -> None:
    first, residency = started(daemon, checkpoint)
    answers: list[Publishing | Loaded] = []
    others = [Publisher(daemon, checkpoint) for _ in range(2)]
    threads = [threading.Thread(target=lambda one=one: answers.append(one.begin())) for one in others]
    for thread in threads:
        thread.start()
    assert len(daemon.status().residencies) == 1 and not answers
    first.channel.close()  # it dies: one of the others goes on, the last one waits for that
    wait_until(lambda: len(answers) == 1)
    (begun,) = answers
    assert isinstance(begun, Publishing) and begun.residency != residency
    turn = next(one for one in others if one.begun == begun.residency)  # the last one still waits
    turn.hand_over(begun.residency)
    loaded = turn.await_loaded()
    for thread in threads:
        thread.join(timeout=30)
    waited = next(answer for answer in answers if isinstance(answer, Loaded))
    assert waited.reused and not loaded.reused
    assert waited.residency.residency == loaded.residency.residency
    assert failure(daemon, residency) is not None


# --- who dies ----------------------------------------------------------------------------------------------------------------


def test_an_engine_that_goes_away_before_the_hand_over_leaves_nothing(daemon: DaemonProcess, checkpoint: Path) -> None:
    fds = daemon.fd_count()
    publisher, residency = started(daemon, checkpoint)
    publisher.channel.close()
    wait_until(lambda: failure(daemon, residency) is not None)
    found = failure(daemon, residency)
    assert found is not None and found.detail == "publisher_gone"
    assert not daemon.status().residencies
    wait_until(lambda: daemon.fd_count() <= fds)


def test_an_engine_that_dies_after_the_hand_over_leaves_whole_weights(daemon: DaemonProcess, checkpoint: Path) -> None:
    publisher, residency = started(daemon, checkpoint)
    publisher.hand_over(residency)
    reply, _ = publisher.channel.receive()
    assert isinstance(reply, Progress)  # the server has it
    publisher.channel.close()
    wait_until(lambda: [one.view.state for one in daemon.status().residencies] == [ResidencyState.RESIDENT])
    assert failure(daemon, residency) is None


_ENGINE = """
import sys, torch
from wcache.loader import publish as module
from wcache.loader.attach import attach
step, place = sys.argv[1:3]
found = attach(place, on_miss="strict")
tensors = {name: tensor for name, tensor in found.tensors().items()}
def stop(*_):
    print("here", flush=True)
    sys.stdin.read()
if step == "fill":
    module._fill_host = stop
elif step == "begin":
    stop()
elif step == "sent":
    call = module.Session.publish
    def sent(self, request, fds, on_progress=None):
        self._channel.send(request, fds)
        self._channel.receive()
        stop()
    module.Session.publish = sent
module.publish(tensors, attachment=found, config={"dtype": '"mixed"'})
"""


@pytest.mark.parametrize(("step", "stays"), [("begin", False), ("fill", False), ("sent", True)])
def test_a_publisher_that_is_killed_at_any_step_leaves_all_or_nothing(
    daemon: DaemonProcess, checkpoint: Path, step: str, stays: bool
) -> None:
    """D1, for engines that publish."""
    raw = daemon.load(checkpoint).residency.residency
    command = [sys.executable, "-c", _ENGINE, step, str(checkpoint)]
    engine = subprocess.Popen(command, env={**clean_environ(), **daemon.env}, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert engine.stdout is not None and engine.stdout.readline() == "here\n"
        engine.send_signal(signal.SIGKILL)
    finally:
        engine.kill()
        engine.communicate(timeout=30)
    expected = 2 if stays else 1
    wait_until(lambda: nothing_half(daemon) and len(daemon.status().residencies) == expected, timeout_s=30)
    assert raw in {one.view.residency for one in daemon.status().residencies}
    wait_until(lambda: not any(one.leases for one in daemon.status().residencies))


def test_a_server_that_is_killed_between_loses_what_is_half_and_keeps_what_is_whole(daemon: DaemonProcess, checkpoint: Path) -> None:
    """D1: the vault has what was said to be resident, and nothing else."""
    whole = Publisher(daemon, checkpoint).publish().residency
    publisher, half = started(daemon, checkpoint, config={"n": "half"})
    os.kill(daemon.pid, signal.SIGKILL)
    with pytest.raises(DaemonUnreachable):
        publisher.hand_over(half)
        publisher.await_loaded()
    wait_until(lambda: _answers(daemon), timeout_s=30)
    (kept,) = daemon.status().residencies
    assert kept.view == whole
    events = daemon.events("residency.readopted", "load.failed")
    assert [(type(event), getattr(event, "residency", "")) for event in events] == [
        (ResidencyReadopted, whole.residency),
        (LoadFailed, half),
    ]
    settings = daemon.settings
    found = loader_attach(checkpoint, settings=settings, kind="processed", config=CONFIG, on_miss="strict", accept="header")
    assert bytes(found.tensors()["b"][:8].numpy()) == bytes(8) and found.tensors()["a.turned"].stride() == (1, 32)


def _answers(daemon: DaemonProcess) -> bool:
    try:
        Channel.connect(daemon.settings.socket_path).close()
    except DaemonUnreachable:
        return False
    return True


def test_processed_weights_are_attached_and_released_like_any_others(daemon: DaemonProcess, checkpoint: Path) -> None:
    published = Publisher(daemon, checkpoint).publish().residency
    raw = attach(daemon.settings.socket_path, checkpoint, accept="header")
    assert raw.decided.decision.residency is None  # of another kind
    raw.close()
    found = loader_attach(checkpoint, settings=daemon.settings, kind="processed", config=CONFIG, accept="header")
    assert found.hit and found.decision.residency == published.residency
    assert sorted(found.tensors()) == ["a", "a.turned", "b"]
