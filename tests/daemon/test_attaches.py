"""No recorded decision, no weights; and what a client does with its connection decides how long it holds them."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import msgspec
import pytest
from support.attaching import asked_of, attach, begin, decide_on, evidence_of, hash_now, receive_segments
from support.commands import with_tests_on_path
from support.corpus import make_checkpoint
from support.daemon import DaemonProcess, wait_until

from wcache.core.checkpoint.checkpoint import open_checkpoint
from wcache.core.checkpoint.fingerprint import header_fingerprint
from wcache.core.checkpoint.reader import Reader
from wcache.core.model.decide import Decision, Request
from wcache.core.model.errors import DaemonUnreachable, ProtocolError, RequestRefused, UsageError
from wcache.core.model.events import AttachDecided, LeaseEnded, LeaseGranted, MapCompleted, encode_payload
from wcache.core.model.policy import Policy
from wcache.core.model.vocabulary import Mode, Outcome, Reason, ResidencyState, Tier
from wcache.core.wire.messages import Ack, Decide, Decided, Done, Known, LoadRequest, Lookup, Observe, Segments, StatusRequest


def test_a_hit_is_decided_granted_and_ended_on_record(daemon: DaemonProcess, checkpoint: Path) -> None:
    loaded = daemon.load(checkpoint)
    attached = attach(daemon.settings.socket_path, checkpoint)
    decision = attached.decided.decision
    assert (decision.outcome, decision.tier, decision.mode) == (Outcome.HIT, Tier.PINNED, Mode.ZERO_COPY)
    (lease,) = daemon.status().leases
    assert (lease.attach, lease.residency) == (attached.attach, loaded.residency.residency)
    attached.close()
    wait_until(lambda: not daemon.status().leases)
    wait_until(lambda: daemon.events("lease.ended"))
    decided, granted, ended = daemon.events("attach.decided", "lease.granted", "lease.ended")
    assert isinstance(decided, AttachDecided)
    assert isinstance(granted, LeaseGranted)
    assert isinstance(ended, LeaseEnded)
    assert decided.attach == granted.attach == ended.attach == attached.attach
    assert decided.asked.digest == loaded.residency.weights_digest
    assert decided.peer.uid == os.geteuid()
    assert decided.decided_by == "server"
    assert ended.how == "closed"


def test_a_client_that_skips_the_decision_gets_no_descriptor(daemon: DaemonProcess, checkpoint: Path) -> None:
    daemon.load(checkpoint)
    channel = daemon.connect()
    asked = asked_of(open_checkpoint(checkpoint))
    begin(channel, asked)
    with pytest.raises(ProtocolError, match="nothing is to be acknowledged"):
        channel.call(Ack())
    reply, fds = channel.receive() if channel.send(StatusRequest()) is None else (None, [])
    assert not isinstance(reply, Segments)
    assert fds == []
    with pytest.raises(RequestRefused, match="no undecided attach"):
        channel.call(
            Decide(
                attach="a-0000000000000000",
                request=Request(asked=asked),
                decision=Decision(outcome=Outcome.HIT, reason=None, detail=""),
                evidence=(),
            )
        )
    assert daemon.status().leases == ()
    assert daemon.events("attach.decided") == []
    channel.close()


def test_a_claimed_hit_is_decided_again_by_the_server(daemon: DaemonProcess, checkpoint: Path) -> None:
    """A loader that says `hit` with header evidence under `pinned` gets what decide() says: a miss, and nothing to map."""
    loaded = daemon.load(checkpoint)
    channel = daemon.connect()
    opened = open_checkpoint(checkpoint)
    offer = begin(channel, asked_of(opened))
    claim = Decision(outcome=Outcome.HIT, reason=None, detail="", residency=loaded.residency.residency, tier=Tier.PINNED)
    evidence = (header_fingerprint(opened, Reader()),)
    reply = channel.call(Decide(attach=offer.attach, request=Request(asked=asked_of(opened)), decision=claim, evidence=evidence))
    assert isinstance(reply, Decided)
    assert (reply.decision.outcome, reply.decision.reason) == (Outcome.FALLBACK, Reason.EVIDENCE_INSUFFICIENT)
    assert reply.segments == ()
    assert reply.idle_bytes == loaded.residency.bytes
    channel.close()


def test_invented_evidence_does_not_count(daemon: DaemonProcess, checkpoint: Path, twin: Path) -> None:
    """Content that the server's worker did not hash for this connection, and pins that rest on nothing it recorded."""
    daemon.load(checkpoint)
    resident = daemon.status().residencies[0].view
    asked = open_checkpoint(twin)
    header = header_fingerprint(asked, Reader())
    content = msgspec.structs.replace(
        header, tier=Tier.CONTENT, digest=resident.weights_digest or "", weights_digest=resident.weights_digest, pinnable=True
    )
    invented_pin = msgspec.structs.replace(content, tier=Tier.PINNED, reuses=content.id())
    recorded = next(event.evidence for event in daemon.events("fingerprint.recorded") if event.evidence.tier is Tier.CONTENT)  # type: ignore[attr-defined]
    foreign_pin = msgspec.structs.replace(content, tier=Tier.PINNED, reuses=recorded.id())  # of another place
    for claim in ((content,), (invented_pin,), (foreign_pin,), (recorded,)):
        channel = daemon.connect()
        offer = begin(channel, asked_of(asked))
        decided = decide_on(channel, offer, asked_of(asked), (header, *claim))
        assert decided.decision.reason is Reason.EVIDENCE_INSUFFICIENT, claim
        channel.close()


def test_evidence_about_another_place_does_not_count(daemon: DaemonProcess, checkpoint: Path, twin: Path) -> None:
    """True evidence, in answer to another question."""
    daemon.load(checkpoint)
    channel = daemon.connect()
    asked = asked_of(open_checkpoint(twin))
    true = evidence_of(open_checkpoint(checkpoint), begin(channel, asked_of(open_checkpoint(checkpoint))))
    assert true[-1].tier is Tier.PINNED
    decided = decide_on(channel, begin(channel, asked), asked, (*true, hash_now(channel, checkpoint)))
    assert decided.decision.reason is Reason.EVIDENCE_INSUFFICIENT
    channel.close()
    (event,) = daemon.events("attach.decided")
    assert isinstance(event, AttachDecided)
    assert event.asked.digest is None


def test_a_claimed_key_gives_way_to_what_the_evidence_is_about(daemon: DaemonProcess, checkpoint: Path) -> None:
    daemon.load(checkpoint)
    opened = open_checkpoint(checkpoint)
    claimed = msgspec.structs.replace(asked_of(opened), root=None, key="0" * 64)
    channel = daemon.connect()
    offer = begin(channel, asked_of(opened))
    decide_on(channel, offer, claimed, evidence_of(opened, offer))
    channel.close()
    (event,) = daemon.events("attach.decided")
    assert isinstance(event, AttachDecided)
    assert (event.asked.root, event.asked.key) == (str(checkpoint), opened.location.key())


def test_a_hash_for_an_earlier_question_does_not_answer_the_next(daemon: DaemonProcess, checkpoint: Path, twin: Path) -> None:
    daemon.load(twin)
    policy, opened = Policy(accept="content"), open_checkpoint(checkpoint)
    channel = daemon.connect()
    offer = begin(channel, asked_of(opened), policy)
    fingerprint = hash_now(channel, checkpoint)
    assert decide_on(channel, offer, asked_of(opened), (fingerprint,), policy).decision.outcome is Outcome.FALLBACK
    daemon.load(checkpoint)
    offer = begin(channel, asked_of(opened), policy)
    assert decide_on(channel, offer, asked_of(opened), (fingerprint,), policy).decision.outcome is Outcome.FALLBACK
    channel.close()


def test_what_was_hashed_for_this_connection_counts_and_an_older_hash_does_not(daemon: DaemonProcess, checkpoint: Path) -> None:
    """`accept = content` means now."""
    daemon.load(checkpoint)
    policy, opened = Policy(accept="content"), open_checkpoint(checkpoint)
    channel = daemon.connect()
    offer = begin(channel, asked_of(opened), policy)
    fingerprint = hash_now(channel, checkpoint)
    assert decide_on(channel, offer, asked_of(opened), (fingerprint,), policy).decision.outcome is Outcome.HIT
    channel.close()
    channel = daemon.connect()
    offer = begin(channel, asked_of(opened), policy)
    assert decide_on(channel, offer, asked_of(opened), (fingerprint,), policy).decision.outcome is Outcome.FALLBACK
    channel.close()


def test_a_twin_with_equal_headers_is_no_hit(daemon: DaemonProcess, checkpoint: Path, twin: Path) -> None:
    """I1, at the wire."""
    daemon.load(checkpoint)
    attached = attach(daemon.settings.socket_path, twin, "content")
    assert attached.decided.decision.reason is Reason.CONTENT_MISMATCH
    assert attached.fds == {}
    attached.close()


def test_descriptors_are_sent_once_and_in_batches_after_acknowledgement(daemon: DaemonProcess, many_shards: Path) -> None:
    daemon.load(many_shards)
    opened = open_checkpoint(many_shards)
    channel = daemon.connect()
    offer = begin(channel, asked_of(opened))
    decided = decide_on(channel, offer, asked_of(opened), evidence_of(opened, offer))
    assert len(decided.segments) == 70
    first = receive_segments(channel, acknowledge=False)
    assert len(first) == 32
    with pytest.raises(DaemonUnreachable):
        channel.receive(timeout_s=0.2)
    for fd in first.values():
        os.close(fd)
    wait_until(lambda: not daemon.status().leases)
    attached = attach(daemon.settings.socket_path, many_shards)
    with pytest.raises(RequestRefused, match="has its lease already"):
        begin(attached.channel, asked_of(opened))
    attached.close()


def test_a_miss_may_be_followed_by_another_attach_on_the_same_connection(daemon: DaemonProcess, checkpoint: Path) -> None:
    opened = open_checkpoint(checkpoint)
    channel = daemon.connect()
    first = begin(channel, asked_of(opened))
    assert begin(channel, asked_of(opened)).attach == first.attach
    assert decide_on(channel, first, asked_of(opened), ()).decision.reason is Reason.NOT_RESIDENT
    daemon.load(checkpoint)
    second = begin(channel, asked_of(opened))
    assert second.attach != first.attach
    assert decide_on(channel, second, asked_of(opened), evidence_of(opened, second)).decision.outcome is Outcome.HIT
    channel.close()


def test_what_is_loading_is_told_so(daemon: DaemonProcess, tmp_path: Path) -> None:
    path = make_checkpoint(tmp_path / "fresh")
    loading = daemon.connect()
    loading.send(LoadRequest(spelling=str(path)))
    opened = open_checkpoint(path)
    channel = daemon.connect()
    wait_until(lambda: any(view.table_digest for view in begin(channel, asked_of(opened)).residencies))
    offer = begin(channel, asked_of(opened))
    assert offer.residencies[0].state is ResidencyState.LOADING
    assert decide_on(channel, offer, asked_of(opened), ()).decision.reason is Reason.STILL_LOADING
    channel.close()
    loading.close()


def test_look_ups_find_content_by_place_and_by_identity(daemon: DaemonProcess, checkpoint: Path) -> None:
    loaded = daemon.load(checkpoint)
    location = open_checkpoint(checkpoint).location
    channel = daemon.connect()
    for question in (Lookup(root=location.root), Lookup(key=location.key())):
        reply = channel.call(question)
        assert isinstance(reply, Known)
        assert {item.weights_digest for item in reply.fingerprints} == {loaded.residency.weights_digest}
    assert channel.call(Lookup(root="/nowhere")) == Known(fingerprints=())
    channel.close()


def observe(attached_id: str, event_id: str | None = None, **fields: int) -> Observe:
    body = MapCompleted(
        attach=attached_id, mode=Mode.ZERO_COPY, tensors=1, bytes=fields.get("bytes", 2), copied_tensors=0, copied_bytes=0, ms=1.0
    )
    return Observe(event_id=event_id or uuid.uuid4().hex, type=body.type, payload=encode_payload(body).decode(), occurred_ns=1)


def test_observations_are_appended_once_and_only_about_the_own_attach(daemon: DaemonProcess, checkpoint: Path) -> None:
    daemon.load(checkpoint)
    attached = attach(daemon.settings.socket_path, checkpoint)
    said = observe(attached.attach)
    first, again = attached.channel.call(said), attached.channel.call(said)
    assert isinstance(first, Done)
    assert first == again
    assert len(daemon.events("map.completed")) == 1
    with pytest.raises(RequestRefused, match="not this connection's"):
        attached.channel.call(observe("a-somebody-else"))
    with pytest.raises(RequestRefused, match="may not report"):
        attached.channel.call(Observe(event_id=uuid.uuid4().hex, type="trust.granted", payload="{}", occurred_ns=1))
    with pytest.raises(UsageError):
        attached.channel.call(Observe(event_id=uuid.uuid4().hex, type="map.completed", payload="{", occurred_ns=1))
    with pytest.raises(UsageError):
        attached.channel.call(Observe(event_id="x", type="map.completed", payload=said.payload, occurred_ns=1))
    attached.close()


_DIES_BEFORE_MAPPING = """
import os, sys
from support.attaching import asked_of, begin, decide_on, evidence_of
from wcache.core.checkpoint.checkpoint import open_checkpoint
from wcache.core.wire.channel import Channel
opened = open_checkpoint(sys.argv[2])
for _ in range(100):
    if os.fork() == 0:
        channel = Channel.connect(sys.argv[1])
        offer = begin(channel, asked_of(opened))
        assert decide_on(channel, offer, asked_of(opened), evidence_of(opened, offer)).segments
        channel.receive()
        os.kill(os.getpid(), 9)
    assert os.WTERMSIG(os.wait()[1]) == 9
"""


def test_a_hundred_clients_killed_before_they_map_cost_nothing(daemon: DaemonProcess, checkpoint: Path) -> None:
    """A8."""
    daemon.load(checkpoint)
    before, resident_bytes = daemon.fd_count(), daemon.status().resident_bytes
    subprocess.run(
        [sys.executable, "-c", _DIES_BEFORE_MAPPING, str(daemon.settings.socket_path), str(checkpoint)],
        check=True,
        env=with_tests_on_path(os.environ),
    )
    wait_until(lambda: not daemon.status().leases)
    wait_until(lambda: daemon.fd_count() <= before)
    assert daemon.status().resident_bytes == resident_bytes
    wait_until(lambda: len(daemon.events("lease.ended")) == 100)
    assert len(daemon.events("lease.granted")) == 100


def test_five_hundred_attaches_leave_memory_and_descriptors_flat(daemon: DaemonProcess, checkpoint: Path) -> None:
    """A9, at the wire: nothing grows but SQLite's page caches."""
    daemon.load(checkpoint)

    def cycle(count: int) -> int:
        for _ in range(count):
            attach(daemon.settings.socket_path, checkpoint).close()
        wait_until(lambda: not daemon.status().leases)
        return daemon.memory()["RssAnon"]

    fds = daemon.fd_count()
    warm_bytes = cycle(300)
    assert cycle(200) - warm_bytes < 2 << 20
    wait_until(lambda: daemon.fd_count() <= fds)


@contextmanager
def ledger_blocked(daemon: DaemonProcess) -> Iterator[None]:
    """Hold the writers' lock: every append of the server runs into its deadline."""
    with Path(f"{daemon.settings.ledger}.lock").open("ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def decide_while_blocked(daemon: DaemonProcess, checkpoint: Path, choice: Literal["no_hit", "serve"]) -> Decided:
    policy, opened = Policy(on_ledger_failure=choice), open_checkpoint(checkpoint)
    channel = daemon.connect()
    offer = begin(channel, asked_of(opened), policy)
    decided = decide_on(channel, offer, asked_of(opened), evidence_of(opened, offer), policy)
    channel.close()
    return decided


def test_without_a_durable_record_there_are_no_weights_unless_the_policy_says_serve(daemon: DaemonProcess, checkpoint: Path) -> None:
    """L2. The journal has both, and follows when the ledger takes events again."""
    daemon.load(checkpoint)
    with ledger_blocked(daemon):
        refused = decide_while_blocked(daemon, checkpoint, "no_hit")
        served = decide_while_blocked(daemon, checkpoint, "serve")
        assert daemon.status().journalled >= 2
    assert (refused.seq, refused.decision.outcome, refused.decision.reason) == (None, Outcome.FALLBACK, Reason.LEDGER_UNAVAILABLE)
    assert refused.segments == ()
    assert (served.seq, served.decision.outcome, len(served.segments)) == (None, Outcome.HIT, 3)
    attach(daemon.settings.socket_path, checkpoint).close()
    wait_until(lambda: daemon.events("ledger.gap") and not daemon.status().journalled)
    decided = [event for event in daemon.events("attach.decided") if isinstance(event, AttachDecided)]
    assert sorted(event.outcome for event in decided) == [Outcome.FALLBACK, Outcome.HIT, Outcome.HIT]


def test_a_journal_that_was_left_behind_is_merged_at_the_next_start(daemon: DaemonProcess, checkpoint: Path) -> None:
    daemon.load(checkpoint)
    with ledger_blocked(daemon):
        decide_while_blocked(daemon, checkpoint, "serve")
        daemon.kill()
    assert daemon.events("attach.decided") == []
    daemon.start()
    (decided,) = daemon.events("attach.decided")
    assert isinstance(decided, AttachDecided)
    assert decided.outcome is Outcome.HIT
    assert len(daemon.events("ledger.gap")) == 1
    assert daemon.status().journalled == 0
