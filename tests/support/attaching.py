"""The wire side of an attach, step by step, for tests that need to stop half way or to cheat."""

from __future__ import annotations

import os
from contextlib import ExitStack
from pathlib import Path
from typing import Literal, NamedTuple

from support.daemon import PATIENCE_S

from wcache.core.checkpoint.checkpoint import Checkpoint, hold_checkpoint, open_checkpoint
from wcache.core.checkpoint.fingerprint import header_fingerprint, pinned_fingerprint
from wcache.core.checkpoint.reader import Reader
from wcache.core.memory import memfd
from wcache.core.model.decide import Request, decide
from wcache.core.model.events import Engine, Identity, Ranks
from wcache.core.model.evidence import Fingerprint
from wcache.core.model.policy import Policy
from wcache.core.wire.channel import Channel
from wcache.core.wire.messages import (
    MAX_FDS,
    Ack,
    AttachBegin,
    AttachOffer,
    Decide,
    Decided,
    Hashed,
    HashRequest,
    Segments,
    identity_of,
)

ENGINE = Engine("test", "1", os.getpid())


def asked_of(checkpoint: Checkpoint) -> Identity:
    return identity_of(checkpoint.location, checkpoint.spelling, table_digest=checkpoint.table_digest)


def begin(channel: Channel, asked: Identity, policy: Policy | None = None, device: str = "cpu") -> AttachOffer:
    request = AttachBegin(
        request=Request(asked=asked, device=device), policy=policy or Policy(), launch="l-test", host="here", engine=ENGINE, ranks=Ranks()
    )
    reply = channel.call(request)
    assert isinstance(reply, AttachOffer)
    return reply


def hash_now(channel: Channel, path: str | Path) -> Fingerprint:
    """A HashRequest in batches of 32 descriptors."""
    with hold_checkpoint(path) as held:
        fds = [file.descriptor for file in held.files.values()] + ([held.index.descriptor] if held.index else [])
        location = held.checkpoint.location
        while len(fds) > MAX_FDS:
            channel.send(HashRequest(spelling=str(path), location=location, more=True), fds[:MAX_FDS])
            del fds[:MAX_FDS]
        reply = channel.call(HashRequest(spelling=str(path), location=location), fds, timeout_s=PATIENCE_S)
    assert isinstance(reply, Hashed)
    return reply.fingerprint


def evidence_of(checkpoint: Checkpoint, offer: AttachOffer) -> tuple[Fingerprint, ...]:
    """Header, and pinned where the offer knows the content."""
    reader = Reader()
    pins = [pinned_fingerprint(known, checkpoint.location) for known in offer.known]
    return (header_fingerprint(checkpoint, reader), *[pin for pin in pins if pin is not None][:1])


def decide_on(
    channel: Channel,
    offer: AttachOffer,
    asked: Identity,
    evidence: tuple[Fingerprint, ...],
    policy: Policy | None = None,
    device: str = "cpu",
) -> Decided:
    request, policy = Request(asked=asked, device=device), policy or Policy()
    decision = decide(offer.residencies, evidence, request, policy, 0, grants=offer.grants, contradictions=offer.contradictions)
    reply = channel.call(Decide(attach=offer.attach, request=request, decision=decision, evidence=evidence))
    assert isinstance(reply, Decided)
    return reply


def receive_segments(channel: Channel, *, acknowledge: bool = True) -> dict[str, int]:
    """Shard name to descriptor, which are then the caller's."""
    found: dict[str, int] = {}
    while True:
        reply, fds = channel.receive()
        assert isinstance(reply, Segments), reply
        assert len(fds) == len(reply.names) <= MAX_FDS
        found.update(zip(reply.names, fds, strict=True))
        if acknowledge:
            channel.send(Ack())
        if reply.last or not acknowledge:
            return found


class Attached(NamedTuple):
    channel: Channel
    attach: str
    decided: Decided
    fds: dict[str, int]

    def close(self) -> None:
        for fd in self.fds.values():
            os.close(fd)
        self.channel.close()

    def content(self, name: str) -> bytes:
        size_bytes = next(one.size_bytes for one in self.decided.segments if one.name == name)
        memfd.check_sealed(self.fds[name], size_bytes)
        with memfd.map_private(self.fds[name], size_bytes) as mapping:
            return bytes(mapping)


def attach(
    socket_path: Path, path: str | Path, accept: Literal["header", "sampled", "pinned", "content"] = "pinned", device: str = "cpu"
) -> Attached:
    """A whole attach: decided, and its descriptors received on a hit."""
    policy = Policy(accept=accept)
    with ExitStack() as undo:
        channel = Channel.connect(socket_path, connect_timeout_s=PATIENCE_S, handshake_timeout_s=PATIENCE_S)
        undo.callback(channel.close)
        checkpoint = open_checkpoint(path)
        asked = asked_of(checkpoint)
        offer = begin(channel, asked, policy, device)
        evidence = evidence_of(checkpoint, offer)
        if accept == "content":
            evidence = (*evidence, hash_now(channel, path))
        decided = decide_on(channel, offer, asked, evidence, policy, device)
        fds = receive_segments(channel) if decided.segments else {}
        undo.pop_all()
    return Attached(channel, offer.attach, decided, fds)
