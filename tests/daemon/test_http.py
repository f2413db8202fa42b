"""The small HTTP server: what it answers, and that nobody can keep it from answering the others."""

from __future__ import annotations

import http.client
import select
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from support.daemon import wait_until

from wcache.core.model.errors import UsageError
from wcache.daemon import http as subject
from wcache.daemon.http import Answer, Listener, Reply, bind
from wcache.daemon.loop import Loop


class Running:
    """A listener in a thread, as the daemon has one. `/never` gets no answer, `/long` one that does not fit into a socket's buffers."""

    def __init__(self, port: int = 0, sock: socket.socket | None = None) -> None:
        self.loop = Loop()
        sock = sock or (None if port else bind(0))
        self.port = port or (sock.getsockname()[1] if sock else 0)
        self.listener = Listener(self.loop, self.port, sock, self.answer)
        self.thread = threading.Thread(target=self.loop.run, daemon=True)
        self.thread.start()

    def answer(self, path: str, reply: Reply) -> None:
        if path == "/long":
            reply(Answer(200, b"x" * (32 << 20)))
        elif path != "/never":
            reply(Answer(200 if path == "/" else 404, path.encode()))

    def close(self) -> None:
        self.loop.post(self.loop.stop)
        self.thread.join()
        self.listener.close()
        self.loop.close()

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=60)

    def ask(self, raw: bytes) -> bytes:
        with self.connect() as sock:
            sock.sendall(raw)
            return b"".join(iter(lambda: sock.recv(65536), b""))


@pytest.fixture
def server() -> Iterator[Running]:
    running = Running()
    try:
        yield running
    finally:
        running.close()


def status_of(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1])


def test_a_get_is_answered_and_the_connection_closed(server: Running) -> None:
    client = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    client.request("GET", "/?query=1")
    answer = client.getresponse()
    assert (answer.status, answer.read(), answer.headers["Connection"]) == (200, b"/", "close")
    client.close()


def test_a_head_has_the_length_and_no_body(server: Running) -> None:
    answer = server.ask(b"HEAD / HTTP/1.1\r\nHost: x\r\n\r\n")
    assert status_of(answer) == 200
    assert b"Content-Length: 1\r\n" in answer and answer.endswith(b"\r\n\r\n")


@pytest.mark.parametrize(
    ("raw", "status"),
    [
        (b"GET /nothing HTTP/1.1\r\n\r\n", 404),
        (b"POST / HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc", 405),
        (b"GET /\r\n\r\n", 400),
        (b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nX: " + b"a" * 20_000, 431),
        (b"GET / HTTP/1.1\r\nHost: x\r\n\r\nGET / HTTP/1.1\r\n\r\n", 200),
    ],
)
def test_what_is_no_request_for_a_page_is_refused_by_its_name(server: Running, raw: bytes, status: int) -> None:
    assert status_of(server.ask(raw)) == status


def test_a_request_in_single_bytes_and_a_half_closed_connection_are_answered(server: Running) -> None:
    with server.connect() as sock:
        for byte in b"GET / HTTP/1.1\r\n\r\n":
            sock.sendall(bytes([byte]))
        sock.shutdown(socket.SHUT_WR)
        assert status_of(sock.recv(65536)) == 200


def test_who_half_closes_and_then_waits_for_an_answer_costs_no_time(server: Running) -> None:
    """An end of file is ready for ever: it must not be watched for ever."""
    with server.connect() as sock:
        sock.sendall(b"GET /never HTTP/1.1\r\n\r\n")
        sock.shutdown(socket.SHUT_WR)
        clock = time.pthread_getcpuclockid(server.thread.ident or 0)
        before_s = time.clock_gettime(clock)
        assert not select.select([sock], [], [], 0.5)[0]
        assert time.clock_gettime(clock) - before_s < 0.1


def test_idle_slow_and_greedy_clients_do_not_keep_others_waiting(server: Running) -> None:
    with ExitStack() as opened:
        for _ in range(3 * subject.CLIENTS_MAX):
            opened.enter_context(server.connect())
        for _ in range(8):
            slow = opened.enter_context(server.connect())
            slow.sendall(b"GET / HT")
            greedy = opened.enter_context(server.connect())
            greedy.sendall(b"GET /long HTTP/1.1\r\n\r\n")  # and never reads
        assert status_of(server.ask(b"GET / HTTP/1.1\r\n\r\n")) == 200


def test_who_asks_nothing_or_reads_nothing_is_closed_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subject, "REQUEST_S", 0.2)
    monkeypatch.setattr(subject, "ANSWER_S", 0.3)
    server = Running()
    try:
        with server.connect() as idle, server.connect() as unanswered, server.connect() as unread:
            unanswered.sendall(b"GET /never HTTP/1.1\r\n\r\n")
            unread.sendall(b"GET /long HTTP/1.1\r\n\r\n")
            assert idle.recv(1) == b""
            assert unanswered.recv(1) == b""
            wait_until(lambda: server.listener.clients == 0)
    finally:
        server.close()


def test_a_port_that_is_taken_is_one_clear_line(server: Running) -> None:
    with pytest.raises(UsageError) as caught:
        bind(server.port)
    assert caught.value.detail == "taken"
    assert str(server.port) in caught.value.diagnostics() and "--health-port" in caught.value.diagnostics()


def test_a_port_that_a_predecessor_still_has_is_taken_over_when_it_is_free(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subject, "_BIND_AGAIN_S", 0.05)
    first = Running()
    second = Running(first.port)
    try:
        first.close()
        deadline_s = time.monotonic() + 60
        while True:
            try:
                assert status_of(second.ask(b"GET / HTTP/1.1\r\n\r\n")) == 200
                return
            except ConnectionRefusedError:
                assert time.monotonic() < deadline_s
    finally:
        second.close()


def test_only_this_machine_can_ask(server: Running) -> None:
    addresses = {info[4][0] for info in socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)} - {"127.0.0.1"}
    for address in addresses:
        if not str(address).startswith("127."):
            with pytest.raises(OSError):
                socket.create_connection((str(address), server.port), timeout=2)
