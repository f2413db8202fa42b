"""HTTP/1.1 as far as a probe or a scraper needs it (RFC 9112): one GET or HEAD a connection, with caps and deadlines, on a loop of its own.

It has its own thread, so that nothing that comes in here can delay an attach; the number of answers a second is limited, because the
threads of a Python process share one interpreter.
"""

from __future__ import annotations

import errno
import logging
import socket
from collections.abc import Callable
from typing import NamedTuple

from wcache.core.model.errors import UsageError
from wcache.daemon.loop import READ, WRITE, Loop

log = logging.getLogger("wcache")

HOST = "127.0.0.1"
HEAD_MAX_BYTES = 8192
REQUEST_S = 5.0
ANSWER_S = 10.0  # to make it, and then once more to have it read
CLIENTS_MAX = 64
_ACCEPTS_PER_TURN = 4
_TURN_S = 0.05  # with the one above: 80 requests a second at most
_BIND_AGAIN_S = 1.0
_BACKLOG = 64

_PHRASES = {
    200: "OK", 400: "Bad Request", 404: "Not Found", 405: "Method Not Allowed", 431: "Request Header Fields Too Large",
    503: "Service Unavailable",
}  # fmt: skip


class Answer(NamedTuple):
    status: int
    body: bytes
    content_type: str = "text/plain; charset=utf-8"


Reply = Callable[[Answer], None]
Site = Callable[[str, Reply], None]
"""Answers a path, at once or later, by one call in the loop's thread. Calls that come too late do nothing."""


def bind(port: int) -> socket.socket:
    """A listening socket on 127.0.0.1; port 0 takes a free one. Raises UsageError, with `detail` "taken" where another has the port."""
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # the last one's connections in TIME_WAIT are in nobody's way
        sock.bind((HOST, port))
        sock.listen(_BACKLOG)
    except OSError as error:
        sock.close()
        taken = error.errno == errno.EADDRINUSE
        raise UsageError(
            f"cannot listen for health checks: {error.strerror}",
            where=f"{HOST}:{port}",
            remedy="choose another --health-port",
            detail="taken" if taken else "",
        ) from None
    return sock


class Listener:
    """Accepts on one port, a few at a time. Without a socket (the port is still its predecessor's) it goes on asking for it."""

    def __init__(self, loop: Loop, port: int, sock: socket.socket | None, site: Site) -> None:
        self._loop = loop
        self._port = port
        self._sock = sock
        self._site = site
        self._clients: dict[_Client, None] = {}  # in the order in which they came
        if sock is None:
            loop.call_later(_BIND_AGAIN_S, self._bind)
        else:
            loop.watch(sock.fileno(), READ, self._accept)

    @property
    def clients(self) -> int:
        return len(self._clients)

    def close(self) -> None:
        if self._sock is not None:
            self._loop.unwatch(self._sock.fileno())
            self._sock.close()
        for client in list(self._clients):
            client.close()

    def _bind(self) -> None:
        try:
            self._sock = bind(self._port)
        except UsageError as error:
            log.warning("%s", error.diagnostics())
            self._loop.call_later(_BIND_AGAIN_S, self._bind)
        else:
            self._loop.watch(self._sock.fileno(), READ, self._accept)

    def _accept(self, _ready: int) -> None:
        sock = self._sock
        if sock is None:
            return
        for _ in range(_ACCEPTS_PER_TURN):
            try:
                accepted, _ = sock.accept()
            except OSError:
                break
            if len(self._clients) >= CLIENTS_MAX:
                next(iter(self._clients)).close()  # the oldest: who has waited long is not about to ask
            self._clients[_Client(self._loop, accepted, self._site, self._gone)] = None
        self._loop.unwatch(sock.fileno())
        self._loop.call_later(_TURN_S, self._resume)

    def _resume(self) -> None:
        if self._sock is not None and self._sock.fileno() >= 0:
            self._loop.watch(self._sock.fileno(), READ, self._accept)

    def _gone(self, client: _Client) -> None:
        self._clients.pop(client, None)


class _Client:
    """Reads a head, asks for the answer, writes it, waits until the other side has closed, each within its time."""

    def __init__(self, loop: Loop, sock: socket.socket, site: Site, on_gone: Callable[[_Client], None]) -> None:
        sock.setblocking(False)
        self._loop = loop
        self._sock = sock
        self._site = site
        self._on_gone = on_gone
        self._head = b""
        self._out = memoryview(b"")
        self._asked = self._answered = self._ended = self._closed = False
        self._bodiless = False
        self._deadline = loop.call_later(REQUEST_S, self.close)
        loop.watch(sock.fileno(), READ, self._ready)

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        self._deadline.cancel()
        self._loop.unwatch(self._sock.fileno())
        self._sock.close()
        self._on_gone(self)

    def _ready(self, ready: int) -> None:
        if ready & READ:
            self._read()
        if ready & WRITE and not self._closed:
            self._write()

    def _read(self) -> None:
        try:
            data = self._sock.recv(4096)
        except BlockingIOError:
            return
        except OSError:
            self.close()
            return
        if not data:
            self._ended = True  # half-closed by one who still reads is fine, but only once it has asked
            if not self._asked or (self._answered and not self._out):
                self.close()
            else:
                self._watch()
            return
        if self._asked:
            return  # whatever else it says is not listened to
        self._head += data
        if b"\r\n\r\n" in self._head:
            self._ask()
        elif len(self._head) > HEAD_MAX_BYTES:
            self._asked = True
            self._answer(Answer(431, b"the request is too long\n"))

    def _ask(self) -> None:
        self._asked = True
        words = self._head.split(b"\r\n", 1)[0].split(b" ")
        self._head = b""
        if len(words) != 3 or not words[2].startswith(b"HTTP/1."):
            self._answer(Answer(400, b"this is no HTTP/1.1 request\n"))
            return
        if words[0] not in (b"GET", b"HEAD"):
            self._answer(Answer(405, b"only GET and HEAD\n"))
            return
        self._bodiless = words[0] == b"HEAD"
        self._deadline.cancel()
        self._deadline = self._loop.call_later(ANSWER_S, self.close)
        self._site(words[1].split(b"?", 1)[0].decode("latin-1"), self._answer)

    def _answer(self, answer: Answer) -> None:
        if self._closed or self._answered:
            return
        self._answered = True
        self._deadline.cancel()
        self._deadline = self._loop.call_later(ANSWER_S, self.close)
        head = (
            f"HTTP/1.1 {answer.status} {_PHRASES[answer.status]}\r\nContent-Type: {answer.content_type}\r\n"
            f"Content-Length: {len(answer.body)}\r\nCache-Control: no-store\r\nConnection: close\r\n"
            + ("Allow: GET, HEAD\r\n" if answer.status == 405 else "")
            + "\r\n"
        )
        self._out = memoryview(head.encode("latin-1") + (b"" if self._bodiless else answer.body))
        self._write()

    def _write(self) -> None:
        try:
            while self._out:
                self._out = self._out[self._sock.send(self._out) :]
            if self._ended:
                self.close()
            else:
                # Closing with something unread would reset the connection, and the answer with it: the other side closes first.
                self._sock.shutdown(socket.SHUT_WR)
        except BlockingIOError:
            self._watch()
        except OSError:
            self.close()
        else:
            self._watch()

    def _watch(self) -> None:
        if self._closed:
            return
        events = (0 if self._ended else READ) | (WRITE if self._out else 0)
        if events:
            self._loop.watch(self._sock.fileno(), events, self._ready)
        else:
            self._loop.unwatch(self._sock.fileno())
