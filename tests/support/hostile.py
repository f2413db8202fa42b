"""Ten clients that nobody wants, each in a thread that goes on until it is told to stop. They run as the daemon's own user."""

from __future__ import annotations

import os
import random
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress

import msgspec
from support.attaching import ENGINE
from support.crowd import HELLO, Script

from wcache.core.model.decide import Request
from wcache.core.model.events import Identity, Ranks
from wcache.core.model.policy import Policy
from wcache.core.wire import messages as wire
from wcache.core.wire.frames import FrameDecoder, close_fds, encode_frame, receive_some, send_some

_STATUS = encode_frame(wire.encode(wire.StatusRequest()))
_HOLD_S = 3600.0
_RECEIVE_S = 15.0


class Attacker(threading.Thread):
    """`act` is called again and again, each time with a new connection, at most `rate` times a second; it returns or raises OSError."""

    def __init__(self, name: str, script: Script, act: Callable[[Attacker, socket.socket], None], rate: float) -> None:
        super().__init__(name=name, daemon=True)
        self.script = script
        self.random = random.Random(name)
        self.connections = 0
        self._act = act
        self._pause_s = 1 / rate
        self._stop_asked = threading.Event()

    def run(self) -> None:
        while not self._stop_asked.is_set():
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC) as sock:
                sock.settimeout(_RECEIVE_S)
                with suppress(OSError):
                    sock.connect(self.script.socket_path)
                    self.connections += 1
                    self._act(self, sock)
            self._stop_asked.wait(self._pause_s)

    def hold(self, sock: socket.socket, seconds: float = _HOLD_S) -> None:
        """Do nothing, and read nothing, until the server has closed or the time is over."""
        sock.setblocking(False)
        end_s = time.monotonic() + seconds
        while time.monotonic() < end_s and not self._stop_asked.wait(0.1):
            with suppress(BlockingIOError):
                if not sock.recv(1, socket.MSG_PEEK) or sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
                    return

    def stopping(self, seconds: float) -> bool:
        return self._stop_asked.wait(seconds)

    def stop(self) -> None:
        self._stop_asked.set()


def _reply(sock: socket.socket, decoder: FrameDecoder) -> wire.AnyReply:
    while True:
        data, fds = receive_some(sock)
        close_fds(fds)
        if not data:
            raise ConnectionError
        for frame in decoder.feed(data):
            return wire.decode_reply(frame.body)


def idle(attacker: Attacker, sock: socket.socket) -> None:
    """Connects and says nothing."""
    attacker.hold(sock)


def slow(attacker: Attacker, sock: socket.socket) -> None:
    """The handshake, and then a byte a second."""
    sock.sendall(HELLO)
    for byte in attacker.script.begin:
        sock.sendall(bytes([byte]))
        if attacker.stopping(1.0):
            return


def endless(attacker: Attacker, sock: socket.socket) -> None:
    """Announces 16 GiB and begins to send them."""
    sock.sendall(HELLO + struct.pack(">Q", 16 << 30))
    sock.sendall(b"\xff" * (4 << 20))


def garbage(attacker: Attacker, sock: socket.socket) -> None:
    """Bytes without a meaning, half of them after a proper handshake."""
    sock.sendall(HELLO * attacker.random.randrange(2) + attacker.random.randbytes(2000))
    while sock.recv(65536):
        pass


def half_closed(attacker: Attacker, sock: socket.socket) -> None:
    """Asks, and closes its sending side."""
    sock.sendall(HELLO + attacker.script.begin + _STATUS)
    sock.shutdown(socket.SHUT_WR)
    attacker.hold(sock, 5.0)


def unread(attacker: Attacker, sock: socket.socket) -> None:
    """Attaches as far as the decision, and never takes its descriptors."""
    decoder = FrameDecoder(wire.MAX_REPLY_BYTES)
    sock.sendall(HELLO)
    _reply(sock, decoder)
    sock.sendall(attacker.script.begin)
    offer = _reply(sock, decoder)
    if isinstance(offer, wire.AttachOffer):
        sock.sendall(attacker.script.decision(offer.attach))
        attacker.hold(sock)


def vanishing(attacker: Attacker, sock: socket.socket) -> None:
    """Leaves as soon as it has come, sometimes in the middle of a word."""
    sock.sendall((HELLO + attacker.script.begin)[: attacker.random.choice((0, 0, 5, 200))])


def silent(attacker: Attacker, sock: socket.socket) -> None:
    """Shakes hands, asks for an offer, and says nothing more."""
    sock.sendall(HELLO + attacker.script.begin)
    attacker.hold(sock)


def huge(attacker: Attacker, sock: socket.socket) -> None:
    """Requests that are as long as requests may be, one after another."""
    asked = Identity("/" + "x" * (wire.MAX_REQUEST_BYTES - 2000))
    begin = wire.AttachBegin(request=Request(asked=asked), policy=Policy(), launch="l", host="h", engine=ENGINE, ranks=Ranks())
    decoder = FrameDecoder(wire.MAX_REPLY_BYTES)
    sock.sendall(HELLO)
    _reply(sock, decoder)
    for _ in range(20):
        sock.sendall(encode_frame(wire.encode(begin)))
        _reply(sock, decoder)
        if attacker.stopping(0.05):
            return


def wrong_descriptors(attacker: Attacker, sock: socket.socket) -> None:
    """Descriptors beside messages that carry none, as many as fit, until it is told off."""
    fds = [os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC) for _ in range(wire.MAX_FDS)]
    try:
        sock.sendall(HELLO)
        for _ in range(20):
            send_some(sock, _STATUS, fds)
            send_some(sock, encode_frame(msgspec.msgpack.encode({"m": "Ack"})), fds)
            if attacker.stopping(0.05):
                return
    finally:
        close_fds(fds)


KINDS: tuple[Callable[[Attacker, socket.socket], None], ...] = (
    idle, slow, endless, garbage, half_closed, unread, vanishing, silent, huge, wrong_descriptors,
)  # fmt: skip


def main() -> None:
    """The script comes as JSON on stdin's first line; works until stdin ends, and then says how often each kind has connected."""
    script = msgspec.json.decode(sys.stdin.readline(), type=Script)
    rate = float(sys.argv[1])
    attackers = [Attacker(kind.__name__, script, kind, rate) for kind in KINDS]
    for attacker in attackers:
        attacker.start()
    sys.stdout.write("at work\n")
    sys.stdout.flush()
    sys.stdin.read()
    for attacker in attackers:
        attacker.stop()
    sys.stdout.write(msgspec.json.encode({attacker.name: attacker.connections for attacker in attackers}).decode())


if __name__ == "__main__":
    main()
