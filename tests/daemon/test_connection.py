"""The deadlines of one connection, asked at times that have not come yet."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator

import pytest

from wcache.core import __version__
from wcache.core.model.decide import Request
from wcache.core.model.events import Engine, Identity, Peer, Ranks
from wcache.core.model.policy import Policy
from wcache.core.wire.frames import encode_frame
from wcache.core.wire.messages import (
    PROTOCOL_VERSION,
    AnyRequest,
    AttachBegin,
    Done,
    Hello,
    Message,
    Progress,
    StatusRequest,
    Welcome,
    encode,
)
from wcache.daemon.attaches import Attach
from wcache.daemon.connection import FRAME_S, HANDSHAKE_S, IDLE_ATTACH_S, IDLE_S, Connection
from wcache.daemon.loop import Loop

HELLO = encode_frame(encode(Hello(protocol=PROTOCOL_VERSION, version=__version__)))
STATUS = encode_frame(encode(StatusRequest()))


class FrontDesk:
    """Keeps what it is asked; answers nothing by itself."""

    def __init__(self) -> None:
        self.requests: list[AnyRequest] = []
        self.gone_why: list[str] = []

    def welcome(self) -> Message:
        return Welcome(protocol=PROTOCOL_VERSION, version=__version__, instance="d-1", server_pid=1, ledger="")

    def handle(self, connection: Connection, request: AnyRequest, fds: tuple[int, ...]) -> None:
        self.requests.append(request)

    def gone(self, connection: Connection, why: str) -> None:
        self.gone_why.append(why)


class Bench:
    def __init__(self) -> None:
        self.loop = Loop()
        self.desk = FrontDesk()
        self.client, served = socket.socketpair()
        self.client.settimeout(5)
        self.connection = Connection(self.loop, self.desk, served, Peer(uid=os.geteuid(), pid=1))

    def say(self, data: bytes) -> None:
        """Send, and let the loop take it."""
        self.client.sendall(data)
        self.turn()

    def turn(self) -> None:
        self.loop.call_later(0, self.loop.stop)
        self.loop.run()

    def overdue_after(self, seconds: float) -> str:
        return self.connection.overdue(time.monotonic() + seconds)


@pytest.fixture
def bench() -> Iterator[Bench]:
    made = Bench()
    yield made
    made.connection.close("test over")
    made.client.close()
    made.loop.close()


def test_no_handshake(bench: Bench) -> None:
    bench.say(HELLO[:6])
    assert bench.overdue_after(HANDSHAKE_S - 0.5) == ""
    assert bench.overdue_after(HANDSHAKE_S + 0.5) == "no handshake in time"


def test_an_idle_one_goes_after_half_a_minute_and_one_with_an_attach_later(bench: Bench) -> None:
    bench.say(HELLO)
    assert bench.overdue_after(IDLE_S - 1) == ""
    assert bench.overdue_after(IDLE_S + 1) == "idle"
    begin = AttachBegin(request=Request(asked=Identity("x")), policy=Policy(), launch="l", host="h", engine=Engine("e"), ranks=Ranks())
    bench.connection.attach = Attach("a-1", begin)
    assert bench.overdue_after(IDLE_S + 1) == ""
    assert bench.overdue_after(IDLE_ATTACH_S + 1) == "idle"


def test_one_that_waits_for_its_reply_may_wait_and_is_told_how_far_it_is(bench: Bench) -> None:
    bench.say(HELLO + STATUS)
    assert bench.connection.busy
    bench.connection.wait_for(lambda: Progress(phase="read", done_bytes=1, total_bytes=2), lambda: None)
    assert bench.overdue_after(3600) == ""
    before = len(bench.client.recv(65536))
    bench.connection.tell_progress(time.monotonic() + 2)
    assert before
    assert b"Progress" in bench.client.recv(65536)


def test_a_request_that_never_becomes_complete(bench: Bench) -> None:
    bench.say(HELLO + STATUS[:5])
    assert bench.overdue_after(FRAME_S - 1) == ""
    assert bench.overdue_after(FRAME_S + 1) == "a request took too long to arrive"
    bench.say(STATUS[5:])
    assert bench.overdue_after(FRAME_S + 1) == ""


def test_replies_that_nobody_reads(bench: Bench) -> None:
    bench.say(HELLO)
    for _ in range(200):
        bench.connection.send(Progress(phase="x" * 10_000, done_bytes=0, total_bytes=0))
    assert bench.overdue_after(FRAME_S + 1) == "replies were not read"
    while bench.connection.overdue(time.monotonic() + FRAME_S + 1):
        bench.client.recv(1 << 20)
        bench.turn()


def test_descriptors_that_nobody_acknowledges(bench: Bench) -> None:
    bench.say(HELLO)
    bench.connection.unacked = 32
    assert bench.overdue_after(FRAME_S - 1) == ""
    assert bench.overdue_after(FRAME_S + 1) == "descriptors were not acknowledged"


def test_requests_are_handled_one_after_another(bench: Bench) -> None:
    bench.say(HELLO + STATUS + STATUS)
    assert len(bench.desk.requests) == 1
    bench.connection.reply(Done())
    assert len(bench.desk.requests) == 2


def test_requests_that_pile_up_end_the_connection(bench: Bench) -> None:
    bench.say(HELLO + STATUS * 100)
    assert bench.desk.gone_why == ["requests piled up"]


def test_whoever_leaves_is_gone_once_and_its_request_is_told(bench: Bench) -> None:
    bench.say(HELLO + STATUS)
    told: list[int] = []
    bench.connection.wait_for(lambda: Progress(phase="x", done_bytes=0, total_bytes=0), lambda: told.append(1))
    bench.client.close()
    bench.turn()
    bench.connection.close("again")
    assert len(bench.desk.gone_why) == 1
    assert told == [1]


def test_a_defect_in_one_callback_does_not_end_the_loop(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    def broken() -> None:
        raise KeyError("a defect")

    bench.loop.post(broken)
    bench.turn()
    bench.say(HELLO + STATUS)
    assert len(bench.desk.requests) == 1
    assert "a defect in the daemon" in caplog.text
