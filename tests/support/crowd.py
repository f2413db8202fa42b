"""Hundreds of attaching clients in a few processes: each a small state machine over one non-blocking socket, none a process of its own.

What a client says is prepared beforehand, so that its own work is little beside the server's. Attaches are pinned, decided on record, and
end with every descriptor received and acknowledged.
"""

from __future__ import annotations

import selectors
import socket
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from support.attaching import ENGINE, asked_of, evidence_of
from support.daemon import PATIENCE_S

from wcache.core import __version__
from wcache.core.checkpoint.checkpoint import open_checkpoint
from wcache.core.model.decide import Decision, Request
from wcache.core.model.errors import ProtocolError
from wcache.core.model.events import Ranks
from wcache.core.model.policy import Policy
from wcache.core.model.vocabulary import Outcome, Reason
from wcache.core.wire import messages as wire
from wcache.core.wire.channel import Channel
from wcache.core.wire.frames import FrameDecoder, close_fds, encode_frame, receive_some

HELLO = encode_frame(wire.encode(wire.Hello(protocol=wire.PROTOCOL_VERSION, version=__version__)))
ACK = encode_frame(wire.encode(wire.Ack()))


class Script(msgspec.Struct, frozen=True):
    """What every client of a crowd says; `decide` lacks the attach id, which the offer brings."""

    socket_path: str
    begin: bytes
    decide: dict[str, Any]
    shards: int

    def decision(self, attach: str) -> bytes:
        return encode_frame(msgspec.msgpack.encode({**self.decide, "attach": attach}))


def make_script(socket_path: Path, checkpoint: Path) -> Script:
    """For a checkpoint that is resident and pinnable."""
    opened = open_checkpoint(checkpoint)
    request = Request(asked=asked_of(opened))
    begin = wire.AttachBegin(request=request, policy=Policy(), launch="l-crowd", host="here", engine=ENGINE, ranks=Ranks())
    channel = Channel.connect(socket_path, connect_timeout_s=PATIENCE_S, handshake_timeout_s=PATIENCE_S)
    try:
        offer = channel.call(begin)
    finally:
        channel.close()
    assert isinstance(offer, wire.AttachOffer)
    # What the client decides is only its own opinion: the server decides again on the evidence.
    opinion = Decision(outcome=Outcome.FALLBACK, reason=Reason.NOT_RESIDENT, detail="")
    decide = wire.Decide(attach="", request=request, decision=opinion, evidence=evidence_of(opened, offer))
    return Script(
        socket_path=str(socket_path),
        begin=encode_frame(wire.encode(begin)),
        decide=msgspec.msgpack.decode(wire.encode(decide)),
        shards=len(opened.shards),
    )


class Turn(NamedTuple):
    """One attach of one client, from before its connect(2) to its last descriptor. `failure` is empty for a hit."""

    seconds: float
    failure: str


class Client:
    """One honest client: attaches, takes every descriptor, leaves, and comes again at once. `ended` is called after each attach."""

    def __init__(self, script: Script, selector: selectors.BaseSelector, ended: Callable[[Client], None]) -> None:
        self._script = script
        self._selector = selector
        self._ended = ended
        self._sock: socket.socket | None = None
        self.turns: list[Turn] = []

    def begin(self) -> None:
        self._began_s = time.monotonic()
        self._decoder = FrameDecoder(wire.MAX_REPLY_BYTES)
        self._fds: list[int] = []
        self._sock = sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        sock.connect(self._script.socket_path)  # a Unix socket connects at once while the backlog has room
        sock.setblocking(False)
        self._selector.register(sock, selectors.EVENT_READ, self)
        self._say(HELLO)

    def _say(self, data: bytes) -> None:
        assert self._sock is not None
        if self._sock.send(data, socket.MSG_NOSIGNAL) != len(data):
            self._end("the server does not read")

    def ready(self) -> None:
        assert self._sock is not None
        try:
            data, fds = receive_some(self._sock)
            if not data:
                self._end("the server closed the connection")
                return
            for frame in self._decoder.feed(data, fds):
                self._hear(wire.decode_reply(frame.body), frame.fds)
                if self._sock is None:
                    return
        except BlockingIOError:
            return
        except (OSError, ProtocolError, msgspec.MsgspecError) as error:
            self._end(f"{type(error).__name__}: {error}")

    def _hear(self, reply: wire.AnyReply, fds: tuple[int, ...]) -> None:
        self._fds += fds
        if isinstance(reply, wire.Welcome):
            self._say(self._script.begin)
        elif isinstance(reply, wire.AttachOffer):
            self._say(self._script.decision(reply.attach))
        elif isinstance(reply, wire.Decided):
            if reply.decision.outcome is not Outcome.HIT:
                self._end(f"{reply.decision.outcome.value}: {reply.decision.reason} {reply.decision.detail}")
        elif isinstance(reply, wire.Segments):
            self._say(ACK)
            if reply.last:
                self._end("" if len(self._fds) == self._script.shards else f"{len(self._fds)} descriptors")
        else:
            self._end(f"said {reply}")

    def expired(self, now_s: float) -> bool:
        return self._sock is not None and now_s - self._began_s > PATIENCE_S

    def give_up(self) -> None:
        self._end("no answer in time")

    def _end(self, failure: str) -> None:
        if self._sock is None:
            return
        self.turns.append(Turn(time.monotonic() - self._began_s, failure))
        self._selector.unregister(self._sock)
        self._sock.close()
        self._sock = None
        close_fds(self._fds)
        self._ended(self)


def run_clients(script: Script, count: int, turns: int) -> list[Turn]:
    """`count` clients at once, each with `turns` attaches, one after another without a pause."""
    with selectors.DefaultSelector() as selector:
        again: deque[Client] = deque()
        clients = [Client(script, selector, again.append) for _ in range(count)]
        again.extend(clients)
        looked_s = time.monotonic()
        while again or selector.get_map():
            for _ in range(len(again)):
                client = again.popleft()
                if len(client.turns) < turns:
                    client.begin()
            for key, _ in selector.select(1.0):
                key.data.ready()
            now_s = time.monotonic()
            if now_s - looked_s > 1:
                looked_s = now_s
                for client in clients:
                    if client.expired(now_s):
                        client.give_up()
        return [turn for client in clients for turn in client.turns]
