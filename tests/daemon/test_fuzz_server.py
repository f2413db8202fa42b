"""A real server is fed nearly right requests, with and without descriptors: it goes on, serves the others, and keeps nothing of them."""

from __future__ import annotations

import os
import random
import select
import socket
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.attaching import ENGINE, asked_of, attach
from support.daemon import DaemonProcess, wait_until
from support.mutations import edit, encode_roughly, framed, plain_of

from wcache.core import __version__
from wcache.core.checkpoint.checkpoint import open_checkpoint
from wcache.core.checkpoint.fingerprint import header_fingerprint
from wcache.core.checkpoint.reader import Reader
from wcache.core.model.decide import Decision, Request
from wcache.core.model.errors import LedgerError, UsageError, WcacheError
from wcache.core.model.events import AttachRedecided, FallbackCompleted, MapCompleted, MapFailed, Ranks, encode_payload
from wcache.core.model.evidence import Fingerprint
from wcache.core.model.policy import Policy
from wcache.core.model.vocabulary import Mode, Outcome, Reason
from wcache.core.wire import messages as wire
from wcache.core.wire.channel import Channel
from wcache.core.wire.frames import FrameDecoder, close_fds, encode_frame, receive_some, send_some
from wcache.ledger.verify import verify

HELLO = encode_frame(wire.encode(wire.Hello(protocol=wire.PROTOCOL_VERSION, version=__version__)))
PATIENCE_S = 0.3  # some requests have no answer, and some answers take long
NOT_THESE = (wire.ShutdownRequest, wire.ReplaceRequest)  # carried out, they end what is tested


class Victim:
    """One daemon for all examples, and what a request needs to be taken seriously by it."""

    def __init__(self, daemon: DaemonProcess, checkpoint: Path) -> None:
        self.daemon = daemon
        self.checkpoint = checkpoint
        daemon.load(checkpoint)
        self.opened = open_checkpoint(checkpoint)
        self.asked = asked_of(self.opened)
        self.header = header_fingerprint(self.opened, Reader())
        self.files = [checkpoint / one.name for one in self.opened.location.files]
        if self.opened.location.index is not None:
            self.files.append(checkpoint / self.opened.location.index.name)
        self.pid = daemon.status().server_pid
        self.honest()
        wait_until(lambda: not daemon.status().leases)
        self.fds, self.memory_bytes = daemon.fd_count(), daemon.memory()["VmRSS"]

    def honest(self) -> None:
        attached = attach(self.daemon.settings.socket_path, self.checkpoint)
        assert attached.decided.decision.outcome is Outcome.HIT, attached.decided
        assert len(attached.fds) == len(self.opened.shards)
        attached.close()

    def message(self, source: random.Random, attach_id: str, kind: type[wire.Message] | None = None) -> wire.Message:
        """Any request, or one of a kind, as a client in this state would send it."""
        request = Request(asked=self.asked)
        fallback = Decision(outcome=Outcome.FALLBACK, reason=Reason.NOT_RESIDENT, detail="")
        event = source.choice(
            (
                MapCompleted(attach=attach_id, mode=Mode.ZERO_COPY, tensors=1, bytes=1, copied_tensors=0, copied_bytes=0, ms=0.1),
                MapFailed(attach=attach_id, code="x", message="y"),
                AttachRedecided(attach=attach_id, outcome=Outcome.FALLBACK, reason=Reason.MAPPING_FAILED, detail=""),
                FallbackCompleted(attach=attach_id, bytes=1, seconds=0.1, idle_bytes=0),
            )
        )
        payload = encode_payload(event)
        if source.random() < 0.5:
            payload = msgspec.json.encode(edit(source, msgspec.json.decode(payload)))
        messages = (
            wire.AttachBegin(request=request, policy=Policy(accept="header"), launch="l", host="h", engine=ENGINE, ranks=Ranks()),
            wire.Decide(attach=attach_id, request=request, decision=fallback, evidence=(self.header,)),
            wire.Observe(
                event_id=f"{source.getrandbits(128):032x}", type=event.type, payload=payload.decode("utf-8", "replace"), occurred_ns=1
            ),
            wire.Ack(),
            wire.Lookup(root=str(self.checkpoint)),
            wire.StatusRequest(),
            wire.VerifyRequest(residency="none"),
            wire.ReleaseRequest(residency="none", force=True),
            wire.HashRequest(spelling="x", location=self.opened.location),
            wire.VerifyBehind(attach=attach_id, location=self.opened.location),
            wire.Prove(spelling="x", location=self.opened.location),
            wire.LoadRequest(spelling="/nowhere", device="cuda:0"),
        )
        return source.choice([one for one in messages if kind is None or isinstance(one, kind)])


@pytest.fixture(scope="module")
def victim(checkpoint: Path) -> Iterator[Victim]:
    daemon = DaemonProcess()
    try:
        yield Victim(daemon.start(), checkpoint)
    finally:
        daemon.cleanup()


def replies(sock: socket.socket, decoder: FrameDecoder, timeout_s: float) -> list[wire.AnyReply] | None:
    """What the server says next, without its descriptors; None when it has closed."""
    if not select.select([sock], [], [], timeout_s)[0]:
        return []
    try:
        data, fds = receive_some(sock)
    except ConnectionError:
        return None
    close_fds(fds)
    return [wire.decode_reply(frame.body) for frame in decoder.feed(data)] if data else None


def attack(victim: Victim, source: random.Random) -> None:
    """One connection: requests, each nearly right, with descriptors now and then, read or not, and an end of some kind."""
    with socket.socket(socket.AF_UNIX) as sock, ExitStack() as opened:
        sock.connect(str(victim.daemon.settings.socket_path))
        sock.sendall(HELLO)
        decoder = FrameDecoder(wire.MAX_REPLY_BYTES)
        attach_id = "a-0"
        kinds: list[type[wire.Message] | None] = [None] * source.randint(1, 6)
        edits = 0.6
        if source.random() < 0.6:  # as far as an attach goes, so that later requests are more than out of place
            kinds = [wire.AttachBegin, wire.Decide, wire.Observe, wire.Observe, None]
            edits = 0.25
        for kind in kinds:
            message = victim.message(source, attach_id, kind)
            plain: Any = plain_of(message)
            body = wire.encode(message)
            if source.random() < edits:
                body = encode_roughly(source, edit(source, plain))
            with suppress(msgspec.MsgspecError):
                if isinstance(wire.decode_request(body), NOT_THESE):
                    continue
            fds = []
            if isinstance(message, (wire.HashRequest, wire.VerifyBehind, wire.Prove)) or source.random() < 0.1:
                count = source.choice((0, 1, len(victim.files), len(victim.files), wire.MAX_FDS))
                fds = [opened.enter_context(path.open("rb")).fileno() for path in (victim.files * wire.MAX_FDS)[:count]]
            data = framed(source, body)
            cut = source.randrange(1, len(data)) if source.random() < 0.1 else len(data)
            try:
                sent = send_some(sock, data[:cut], fds)
                sock.sendall(data[sent:])
            except ConnectionError:
                return
            if source.random() < 0.8:
                found = replies(sock, decoder, PATIENCE_S)
                if found is None:
                    return
                attach_id = next((one.attach for one in found if isinstance(one, wire.AttachOffer)), attach_id)
        if source.random() < 0.3:
            with suppress(OSError):
                sock.shutdown(socket.SHUT_WR)
            replies(sock, decoder, PATIENCE_S)


@settings(max_examples=50, deadline=None, suppress_health_check=list(HealthCheck))
@given(source=st.randoms(use_true_random=True))
def test_edited_requests_disturb_nobody(victim: Victim, source: random.Random) -> None:
    attack(victim, source)
    victim.honest()


def test_nothing_is_left_of_many_attacks_and_no_defect_showed(victim: Victim) -> None:
    """Many more, of which the last fifty are repeatable, then: the same process, its descriptors, its memory, its log, its ledger."""
    for seed in range(150):
        attack(victim, random.Random(seed))
    daemon = victim.daemon
    victim.honest()
    wait_until(lambda: not daemon.status().leases)
    wait_until(lambda: daemon.fd_count() <= victim.fds + 1, what="descriptors stay open")
    wait_until(lambda: not daemon.workers(), what="a worker goes on")
    status = daemon.status()
    assert status.server_pid == victim.pid
    assert not status.ledger_failure
    assert "a defect" not in daemon.log(), daemon.log()
    assert daemon.memory()["VmRSS"] - victim.memory_bytes < 24 << 20
    assert verify(daemon.settings.ledger).problems == []


def test_a_request_that_nests_without_end_is_refused_with_its_descriptors(victim: Victim) -> None:
    """The decoder recurses, also into what it skips."""
    wait_until(lambda: not victim.daemon.workers())
    deep = b"\x82\xa1m\xadStatusRequest\xa1y" + b"\x91" * 100_000
    for _ in range(20):
        with socket.socket(socket.AF_UNIX) as sock, victim.files[0].open("rb") as file:
            sock.connect(str(victim.daemon.settings.socket_path))
            sock.settimeout(60)
            sock.sendall(HELLO)
            frame = encode_frame(deep)
            assert send_some(sock, frame, [file.fileno()]) == len(frame)
            said = b""
            while data := sock.recv(65536):
                said += data
            assert b"nests too deeply" in said
    wait_until(lambda: victim.daemon.fd_count() <= victim.fds + 1, what="descriptors stay open")
    assert "a defect" not in victim.daemon.log()


def test_a_first_message_that_is_long_is_no_hello(victim: Victim) -> None:
    """It is decoded before anybody knows what it is, and an empty container of one byte is an object of 64."""
    long = b"\x82\xa1m\xa5Hello\xa1x\xdd" + (1_000_000).to_bytes(4, "big") + b"\x80" * 1_000_000
    before_bytes = victim.daemon.memory()["VmRSS"]
    with socket.socket(socket.AF_UNIX) as sock:
        sock.connect(str(victim.daemon.settings.socket_path))
        sock.settimeout(60)
        sock.sendall(encode_frame(long))
        assert b"the first message must be Hello" in sock.recv(65536)
    assert victim.daemon.memory()["VmRSS"] - before_bytes < 16 << 20


def observe_attach(victim: Victim, policy: Policy, evidence: Fingerprint, ranks: Ranks | None = None) -> tuple[Channel, str, wire.AnyReply]:
    """An attach that is decided on one piece of evidence, and what the server said."""
    request = Request(asked=victim.asked)
    channel = victim.daemon.connect()
    try:
        offer = channel.call(wire.AttachBegin(request=request, policy=policy, launch="l", host="h", engine=ENGINE, ranks=ranks or Ranks()))
        assert isinstance(offer, wire.AttachOffer)
        decision = Decision(outcome=Outcome.FALLBACK, reason=Reason.NOT_RESIDENT, detail="")
        reply = channel.call(wire.Decide(attach=offer.attach, request=request, decision=decision, evidence=(evidence,)))
    except BaseException:
        channel.close()
        raise
    return channel, offer.attach, reply


def test_evidence_that_nobody_could_read_back_is_refused_under_every_ledger_policy(victim: Victim) -> None:
    """JSON has no infinities, SQLite no integers over 64 bits. Such a record is the client's fault and no failure of the ledger: it must
    not be served from the journal, stay in it, or take the records beside it down."""
    coverage = victim.header.coverage
    for bad in (
        msgspec.structs.replace(victim.header, coverage=msgspec.structs.replace(coverage, seconds=float("nan"))),
        msgspec.structs.replace(victim.header, coverage=msgspec.structs.replace(coverage, reads=2**64 - 1)),
    ):
        for on_ledger_failure in ("no_hit", "serve"):
            policy = Policy(accept="header", on_ledger_failure=on_ledger_failure)
            bad = msgspec.structs.replace(bad, nonce=on_ledger_failure)
            with pytest.raises(LedgerError, match="cannot be stored"):
                observe_attach(victim, policy, bad)
    with pytest.raises(LedgerError, match="64 bits"):
        observe_attach(victim, Policy(), victim.header, Ranks(rank=2**63))
    status = victim.daemon.status()
    assert (status.ledger_failure, status.journalled, status.leases) == ("", 0, ())
    victim.honest()


def test_sizes_and_times_that_cannot_be_are_refused(victim: Victim) -> None:
    """Their sums must stay within what SQLite adds up."""
    channel, name, _ = observe_attach(victim, Policy(), victim.header)
    good = encode_payload(FallbackCompleted(attach=name, bytes=1, seconds=0.5, idle_bytes=0)).decode()
    for bad in ('"bytes":-1', f'"bytes":{2**63}', f'"bytes":{10**30}', f'"bytes":{2**51}'):
        with pytest.raises(UsageError, match="size or time"):
            channel.call(
                wire.Observe(
                    event_id=os.urandom(16).hex(), type="fallback.completed", payload=good.replace('"bytes":1', bad), occurred_ns=1
                )
            )
    assert isinstance(
        channel.call(wire.Observe(event_id=os.urandom(16).hex(), type="fallback.completed", payload=good, occurred_ns=1)), wire.Done
    )
    channel.close()


def odd_descriptor(kind: str, opened: ExitStack, path: Path) -> int:
    """Something that is no regular file, or that never ends, or never begins."""
    if kind == "pipe":
        ends = os.pipe()
        for end in ends:
            opened.callback(os.close, end)
        return ends[0]
    if kind == "socket":
        ours, theirs = socket.socketpair()
        opened.enter_context(ours)
        return opened.enter_context(theirs).fileno()
    if kind == "directory":
        fd = os.open(path, os.O_RDONLY)
    elif kind == "path":
        fd = os.open(path, os.O_PATH)
    elif kind == "write-only":
        fd = os.open(path / "w", os.O_WRONLY | os.O_CREAT)
    elif kind == "event":
        fd = os.eventfd(0) if hasattr(os, "eventfd") else os.open("/dev/null", os.O_RDONLY)
    else:
        fd = os.open(f"/dev/{kind}", os.O_RDONLY)
    opened.callback(os.close, fd)
    return fd


@pytest.mark.parametrize("kind", ["pipe", "socket", "directory", "path", "write-only", "event", "zero", "null", "random"])
def test_a_hash_of_what_is_no_file_is_refused_and_holds_up_nobody(victim: Victim, tmp_path: Path, kind: str) -> None:
    """A worker that read them would wait or read for ever, and two workers are all there are."""
    location = victim.opened.location
    with ExitStack() as opened:
        for _ in range(3):
            channel = victim.daemon.connect()
            opened.callback(channel.close)
            fds = [odd_descriptor(kind, opened, tmp_path) for _ in victim.files]
            with pytest.raises(WcacheError) as caught:
                channel.call(wire.HashRequest(spelling=kind, location=location), fds, timeout_s=60)
            assert "timeout" not in caught.value.code
    victim.honest()
    wait_until(lambda: not victim.daemon.workers())
