"""D5, D6: a client that is idle, slow, greedy, or not ours is nobody else's problem."""

from __future__ import annotations

import os
import select
import socket
import struct
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path

import msgspec
import pytest
from support.attaching import attach
from support.daemon import DaemonProcess, wait_until
from support.others import as_user

from wcache.core import __version__
from wcache.core.model.errors import DaemonUnreachable
from wcache.core.model.events import PeerRefused
from wcache.core.model.vocabulary import Outcome, Reason
from wcache.core.wire.frames import encode_frame
from wcache.core.wire.messages import PROTOCOL_VERSION, Hello, StatusRequest, encode

HELLO = encode_frame(encode(Hello(protocol=PROTOCOL_VERSION, version=__version__)))


def raw(daemon: DaemonProcess) -> socket.socket:
    sock = socket.socket(socket.AF_UNIX)
    sock.connect(str(daemon.settings.socket_path))
    sock.settimeout(5)
    return sock


def answer_of(sock: socket.socket) -> dict[str, object]:
    size = struct.unpack(">I", sock.recv(4, socket.MSG_WAITALL))[0]
    body: dict[str, object] = msgspec.msgpack.decode(sock.recv(size, socket.MSG_WAITALL))
    return body


def test_idle_slow_and_greedy_clients_do_not_delay_others(daemon: DaemonProcess, checkpoint: Path) -> None:
    daemon.load(checkpoint)
    with ExitStack() as opened:
        for _ in range(50):
            opened.enter_context(raw(daemon))  # says nothing at all
            greeted = opened.enter_context(raw(daemon))
            greeted.sendall(HELLO)
            slow = opened.enter_context(raw(daemon))
            slow.sendall(HELLO[:3])
            greedy = opened.enter_context(raw(daemon))
            greedy.sendall(HELLO + struct.pack(">I", 0xFFFFFFFF))
        started_s = time.monotonic()
        attached = attach(daemon.settings.socket_path, checkpoint)
        assert attached.decided.decision.outcome is Outcome.HIT
        assert time.monotonic() - started_s < 20  # waiting for each of them in turn would take minutes
        attached.close()


def test_a_length_of_16_gib_ends_the_connection_at_once_and_costs_no_memory(daemon: DaemonProcess) -> None:
    before_bytes = daemon.memory()["VmRSS"]
    with raw(daemon) as sock:
        sock.sendall(HELLO)
        assert answer_of(sock)["m"] == "Welcome"
        sock.sendall(struct.pack(">Q", 16 << 30) + b"\xff" * 4096)
        while sock.recv(65536):
            pass
    with raw(daemon) as sock:
        sock.sendall(HELLO)
        assert answer_of(sock)["m"] == "Welcome"
        sock.sendall(struct.pack(">I", 0xFFFFFFFF))
        assert sock.recv(1) == b""
    assert daemon.memory()["VmRSS"] - before_bytes < 4 << 20


def test_who_says_nothing_is_closed_after_the_handshakes_time_limit(daemon: DaemonProcess) -> None:
    before = daemon.fd_count()
    with raw(daemon) as silent, raw(daemon) as slow:
        slow.sendall(HELLO[:5])
        assert silent.recv(1) == slow.recv(1) == b""
    wait_until(lambda: daemon.fd_count() <= before)


def test_a_byte_now_and_then_does_not_stretch_the_time_limit(daemon: DaemonProcess) -> None:
    with raw(daemon) as sock, pytest.raises((BrokenPipeError, ConnectionResetError)):
        for byte in HELLO + HELLO:
            sock.sendall(bytes([byte]))
            select.select([sock], [], [], 0.2)


@pytest.mark.parametrize("garbage", [b"GET / HTTP/1.1\r\n\r\n", encode_frame(b"\xc1\xc1"), encode_frame(b"\x80"), encode_frame(b"")])
def test_garbage_ends_only_its_own_connection(daemon: DaemonProcess, garbage: bytes) -> None:
    with raw(daemon) as before, raw(daemon) as after:
        before.sendall(garbage)
        after.sendall(HELLO)
        assert answer_of(after)["m"] == "Welcome"
        after.sendall(garbage)
        for sock in (before, after):
            while sock.recv(65536):
                pass
    assert daemon.status().state == "ready"


def test_another_protocol_version_is_told_which_one_this_is(daemon: DaemonProcess) -> None:
    with raw(daemon) as sock:
        sock.sendall(encode_frame(msgspec.msgpack.encode({"m": "Hello", "protocol": 99, "other": True})))
        answer = answer_of(sock)
    assert answer["code"] == "version_mismatch"
    assert "speaks protocol 1, the client 99" in str(answer["what"])


def test_idle_connections_make_place_when_there_are_too_many(daemon: DaemonProcess) -> None:
    """More than the daemon keeps: the oldest idle ones go, the newest is served."""
    with ExitStack() as opened:
        for _ in range(1100):
            sock = opened.enter_context(raw(daemon))
            sock.sendall(HELLO)
            answer_of(sock)
        channel = daemon.connect()
        channel.call(StatusRequest())
        channel.close()
        assert daemon.fd_count() < 1100


def test_a_client_that_does_not_read_holds_up_only_itself(daemon: DaemonProcess) -> None:
    with raw(daemon) as sock:
        sock.sendall(HELLO)
        request = encode_frame(encode(StatusRequest()))
        sock.setblocking(False)
        try:
            for _ in range(5000):
                sock.send(request)
        except (BlockingIOError, BrokenPipeError):
            pass
        assert daemon.status().state == "ready"


_AS_NOBODY = """
import os, sys
from wcache.core.wire.channel import Channel
from wcache.core.model.errors import DaemonUnreachable
os.setgroups([]); os.setgid(65534); os.setuid(65534)
try:
    Channel.connect(sys.argv[1])
except DaemonUnreachable as error:
    print(error.reason)
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become another user")
def test_another_user_is_kept_out_by_the_kernel(daemon: DaemonProcess) -> None:
    """D6."""
    found = subprocess.run([sys.executable, "-c", _AS_NOBODY, str(daemon.settings.socket_path)], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == Reason.PEER_NOT_ALLOWED
    assert daemon.events("peer.refused") == []


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become another user")
def test_root_is_another_user_too_and_is_on_record() -> None:
    """D6: root gets past the socket's permissions, and the server turns it away and says so, once a minute."""
    daemon = DaemonProcess(prefix=as_user(65534))
    try:
        os.chown(daemon.base, 65534, 65534)
        daemon.start()
        for _ in range(3):
            with raw(daemon) as sock:
                assert answer_of(sock)["code"] == "peer_not_allowed"
        with pytest.raises(DaemonUnreachable) as caught:
            daemon.connect()
        assert caught.value.reason == Reason.PEER_NOT_ALLOWED
        wait_until(lambda: daemon.events("peer.refused"))
        (refused,) = daemon.events("peer.refused")
        assert isinstance(refused, PeerRefused)
        assert refused.peer.uid == 0
    finally:
        daemon.cleanup()
