"""A loader's conversation with the daemon about one attach: begin, look up, hash, decide, receive, observe."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import NamedTuple, TypeVar

from wcache.core.model.decide import Decision, Request
from wcache.core.model.errors import DaemonUnreachable, WcacheError
from wcache.core.model.events import Engine, Event, Ranks, encode_payload
from wcache.core.model.evidence import Fingerprint, Location
from wcache.core.model.policy import Policy
from wcache.core.model.vocabulary import Reason
from wcache.core.wire.channel import Channel
from wcache.core.wire.messages import (
    MAX_FDS,
    RESTARTED,
    SHARD,
    Ack,
    AnyReply,
    AttachBegin,
    AttachOffer,
    Decide,
    Decided,
    Done,
    Hashed,
    HashRequest,
    Known,
    Loaded,
    Lookup,
    Message,
    Observe,
    Progress,
    Prove,
    Proved,
    Publish,
    PublishBegin,
    Publishing,
    SegmentManifest,
    Segments,
    Status,
    StatusRequest,
    VerifyBehind,
)
from wcache.loader.collector import paused_collector
from wcache.loader.mapping import Segment
from wcache.loader.packed import Packed, take_packed
from wcache.loader.record import new_event_id as new_event_id

# A hash reports progress all the time; this is only for how long it may be silent (a queue behind another one, a stalled disk).
_HASH_SILENCE_S = 120.0
_PUBLISH_SILENCE_S = 120.0  # the same of a publish, which may wait for room or for another one
_PROOF_SILENCE_S = 40.0  # longer than the server gives its worker
_SETTLE_S = 2.0  # the reply to a report was due long ago when somebody looks for it

M = TypeVar("M")


class Answer(NamedTuple):
    """The recorded decision, and on a hit what was granted: segments of shards, or packed weights. `problem` says why it must not be
    mapped; there is none of it then."""

    decided: Decided
    segments: tuple[Segment, ...] = ()
    packed: Packed | None = None
    problem: WcacheError | None = None


class Session:
    """One connection of one process. A forked child may only let go of it: what it would say would be taken for the parent's word."""

    def __init__(self, socket_path: str | os.PathLike[str], daemon_uid: int | None = None) -> None:
        """Connects and shakes hands. Raises DaemonUnreachable with one of the closed set of reasons."""
        self._channel = Channel.connect(socket_path, daemon_uid=daemon_uid)
        self._pid = os.getpid()
        self._restarted = False  # another server has the connection: it is still the lease, but replies may be one off
        self._told: list[tuple[Event, str]] = []  # reports whose reply was not read yet
        self.instance = self._channel.welcome.instance

    @property
    def foreign(self) -> bool:
        """Whether the daemon is another user's."""
        return self._channel.foreign

    @property
    def usable(self) -> bool:
        """Whether this process may still speak on it."""
        return self._pid == os.getpid() and not self._channel.closed and not self._restarted

    def close(self) -> None:
        self._channel.close()

    def begin(self, request: Request, policy: Policy, launch: str, host: str, engine: Engine, ranks: Ranks) -> AttachOffer:
        message = AttachBegin(request=request, policy=policy, launch=launch, host=host, engine=engine, ranks=ranks)
        return self._expect(AttachOffer, self._channel.call(message))

    def lookup(self, *, root: str | None = None, key: str | None = None) -> tuple[Fingerprint, ...]:
        return self._expect(Known, self._channel.call(Lookup(root=root, key=key))).fingerprints

    def status(self) -> Status:
        return self._expect(Status, self._channel.call(StatusRequest()))

    def hash(
        self, spelling: str, location: Location, descriptors: Sequence[int], on_progress: Callable[[Progress], None] | None = None
    ) -> Fingerprint:
        """Content fingerprint of open files (shards in name order, then the index), taken by a worker of the server."""
        rest = list(descriptors)
        while len(rest) > MAX_FDS:
            self._channel.send(HashRequest(spelling=spelling, location=location, more=True), rest[:MAX_FDS])
            del rest[:MAX_FDS]
        reply = self._channel.call(
            HashRequest(spelling=spelling, location=location), rest, timeout_s=_HASH_SILENCE_S, on_progress=on_progress
        )
        return self._expect(Hashed, reply).fingerprint

    def verify_behind(self, attach: str, location: Location, descriptors: Sequence[int]) -> None:
        """Let the server look at what a weak hit was asked for, when it has time. Waits for nothing; raises DaemonUnreachable."""
        rest = list(descriptors)
        while rest:
            part, rest = rest[:MAX_FDS], rest[MAX_FDS:]
            self._channel.send(VerifyBehind(attach=attach, location=location, more=bool(rest)), part)

    def prove(self, spelling: str, location: Location, descriptors: Sequence[int]) -> Fingerprint:
        """Show another user's daemon the open files (shards in name order, then the index); header evidence as its worker took it."""
        rest = list(descriptors)
        while len(rest) > MAX_FDS:
            self._channel.send(Prove(spelling=spelling, location=location, more=True), rest[:MAX_FDS])
            del rest[:MAX_FDS]
        reply = self._channel.call(Prove(spelling=spelling, location=location), rest, timeout_s=_PROOF_SILENCE_S)
        return self._expect(Proved, reply).header

    def decide(self, attach: str, request: Request, decision: Decision, evidence: Sequence[Fingerprint]) -> Answer:
        """Send the decision; the server's own comes back, and on a hit what was granted, checked for its seals, sizes and headers.

        All of it is received before one that fails its check is told, so that the connection stays usable.
        """
        message = Decide(attach=attach, request=request, decision=decision, evidence=tuple(evidence))
        decided = self._expect(Decided, self._channel.call(message))
        received: list[tuple[SegmentManifest, int]] = []
        manifests = {manifest.name: manifest for manifest in decided.segments}
        try:
            last = not manifests
            while not last:
                reply, descriptors = self._channel.receive()
                batch = self._expect(Segments, reply, descriptors)
                last = batch.last
                if len(batch.names) != len(descriptors) or not manifests.keys() >= set(batch.names):
                    _close_all(descriptors)
                    raise self._confused(f"{len(batch.names)} segments were announced, {len(descriptors)} descriptors came")
                received += [(manifests[name], descriptor) for name, descriptor in zip(batch.names, descriptors, strict=True)]
                self._channel.send(Ack())
        except BaseException:
            _close_all([descriptor for _, descriptor in received])
            raise
        return _checked(decided, received, request.device)

    def begin_publish(self, request: PublishBegin, on_progress: Callable[[Progress], None] | None = None) -> Publishing | Loaded:
        """Ask for room; Loaded where equal weights are resident, perhaps after waiting for who publishes them now."""
        reply = self._channel.call(request, timeout_s=_PUBLISH_SILENCE_S, on_progress=on_progress)
        return reply if isinstance(reply, Loaded) else self._expect(Publishing, reply)

    def publish(self, request: Publish, descriptors: Sequence[int], on_progress: Callable[[Progress], None] | None = None) -> Loaded:
        """Hand the memory over and wait until it is resident."""
        return self._expect(Loaded, self._channel.call(request, descriptors, timeout_s=_PUBLISH_SILENCE_S, on_progress=on_progress))

    def observe(self, event: Event, event_id: str) -> None:
        """Report what happened; returns when it is on record. What was told before must be settled.

        Raises DaemonUnreachable when the server was restarted: the caller appends the event itself, under the same id, and the
        connection stays open, since it is the lease."""
        self._channel.call(_observe(event, event_id), on_progress=self._notice_restart)

    def tell(self, event: Event, event_id: str) -> None:
        """As `observe`, without waiting for the reply: `settle()` reads it."""
        self._channel.send(_observe(event, event_id))
        self._told.append((event, event_id))

    def settle(self) -> list[tuple[Event, str]]:
        """Read the replies that are due; returns what was told and is not known to be on record, for somebody else to record."""
        told, self._told = self._told, []
        lost: list[tuple[Event, str]] = []
        for number, one in enumerate(told):
            try:
                reply, descriptors = self._channel.receive(timeout_s=_SETTLE_S)
                while isinstance(reply, Progress):
                    self._notice_restart(reply)
                    reply, descriptors = self._channel.receive(timeout_s=_SETTLE_S)
                self._expect(Done, reply, descriptors)
            except DaemonUnreachable:  # noqa: PERF203
                return lost + told[number:]
            except WcacheError:  # refused, and the connection goes on
                lost.append(one)
        return lost

    def _notice_restart(self, progress: Progress) -> None:
        if progress.phase == RESTARTED:
            self._restarted = True
            raise DaemonUnreachable(Reason.DAEMON_CLOSED, "the daemon's server was restarted before it answered")

    def _expect(self, wanted: type[M], reply: AnyReply | Message, descriptors: Sequence[int] = ()) -> M:
        if isinstance(reply, wanted):
            return reply
        _close_all(descriptors)
        raise self._confused(f"the daemon answered with {type(reply).__name__} where {wanted.__name__} was due")

    def _confused(self, what: str) -> DaemonUnreachable:
        self.close()
        return DaemonUnreachable(Reason.PROTOCOL_ERROR, what)


def _checked(decided: Decided, received: list[tuple[SegmentManifest, int]], device: str) -> Answer:
    """Every descriptor is looked at before one that fails is told, so that all of them are closed then."""
    if any(manifest.form != SHARD for manifest, _ in received):
        try:
            return Answer(decided, packed=take_packed(received, device))
        except WcacheError as error:
            return Answer(decided, problem=error)
    segments: list[Segment] = []
    problem: WcacheError | None = None
    with paused_collector():
        for manifest, descriptor in received:
            try:
                segments.append(Segment(manifest.name, descriptor, manifest.size_bytes))
            except WcacheError as error:  # noqa: PERF203
                problem = error
    if problem is not None:
        for segment in segments:
            segment.close()
        return Answer(decided, problem=problem)
    return Answer(decided, tuple(segments))


def _observe(event: Event, event_id: str) -> Observe:
    return Observe(event_id=event_id, type=event.type, payload=encode_payload(event).decode(), occurred_ns=time.time_ns())


def _close_all(descriptors: Sequence[int]) -> None:
    for descriptor in descriptors:
        with suppress(OSError):
            os.close(descriptor)
