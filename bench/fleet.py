"""A year of a fleet, made up: what 200 nodes with weight caches would have recorded. The same seed tells the same story.

A node serves one checkpoint after another: a load, then engines that start, map, run and end, most of them on evidence that is enough,
some on weak evidence that is looked at later, some that fall back, few that were wrong; now and then a new revision, a daemon that is
restarted or dies.
"""

from __future__ import annotations

import hashlib
import heapq
import random
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import msgspec

from wcache.core.model import events as ev
from wcache.core.model.evidence import Coverage, FileIdentity, Fingerprint, Grant, Location
from wcache.core.model.policy import Policy
from wcache.core.model.vocabulary import Kind, Mode, OptIn, Outcome, Reason, Tier, TrustScope

START_NS = 1_735_689_600_000_000_000  # 2025-01-01T00:00:00Z
YEAR_NS = 365 * 86_400 * 1_000_000_000
S_NS = 1_000_000_000
HOUR_NS = 3600 * S_NS
LEASE_NS = 6 * HOUR_NS  # on average
EVENTS_OF_LAUNCH = 13.4  # on average, with what is around it: how often engines start follows from it

CHECKPOINTS = (
    ("acme/chat-8b", 16, 291), ("acme/chat-70b", 141, 723), ("acme/code-32b", 65, 771), ("acme/embed-1b", 2, 312),
    ("acme/draft-1b", 2, 146), ("support/chat-8b-tuned", 16, 291), ("legal/chat-8b-tuned", 16, 291),
    ("acme/vision-12b", 25, 664), ("acme/rerank-2b", 5, 272),
    ("research/moe-47b", 93, 995), ("research/moe-47b-abl", 93, 995), ("acme/small-135m", 1, 272),
)  # fmt: skip
ENGINES = (("vllm", "0.31.0"), ("vllm", "0.32.1"), ("vllm", "0.33.0"), ("sglang", "0.5.3"), ("transformers", "4.57.1"))
PINNED = Policy()
LOOSE = Policy(accept="header")
HONOURING = Policy(trusted=OptIn.HONOUR)
STRICT = Policy(on_miss="strict")
MISSES = (
    (Reason.NOT_RESIDENT, 30, "the daemon holds no weights like these"), (Reason.STILL_LOADING, 12, "{residency} is loading"),
    (Reason.EVIDENCE_INSUFFICIENT, 20, "have header, policy accepts pinned and above"),
    (Reason.CONTENT_MISMATCH, 10, "sampled digests differ"),
    (Reason.DAEMON_ABSENT, 12, ""), (Reason.CONFIG_MISMATCH, 6, "differs in quantization"), (Reason.NO_ROOM, 4, "16 GiB are needed"),
    (Reason.DEVICE_MISMATCH, 3, "asked on GPU-1, resident on GPU-0"), (Reason.TRUST_EXPIRED, 3, "grant g-expired has expired"),
)  # fmt: skip


class Told(NamedTuple):
    """Events that are appended together, and when they happened."""

    occurred_ns: int
    node: int
    unit: tuple[ev.Event, ...]


class Node:
    """One machine's story. `events()` are in the order of time."""

    def __init__(self, seed: int, number: int, every_ns: float) -> None:
        self.random = random.Random(f"{seed}/{number}")
        self.number = number
        self.host = f"node-{number:03d}"
        self.instance = self.id("d")
        self.now_ns = START_NS + int(self.random.random() * 86_400 * S_NS)
        self._every_ns = every_ns

    def id(self, prefix: str) -> str:
        return f"{prefix}-{self.random.getrandbits(128):032x}"

    def tell(self, *unit: ev.Event, after_s: float = 0.0) -> Told:
        self.now_ns += int(after_s * S_NS)
        return Told(self.now_ns, self.number, unit)

    def started(self) -> ev.DaemonStarted:
        return ev.DaemonStarted(
            instance=self.instance, version="0.1.0", boot_id=f"boot-{self.number}", pid=self.random.randrange(100, 60_000), uid=990,
            origin="0" * 32, runtime_dir="/run/wcache",
        )  # fmt: skip

    def events(self) -> Iterator[Told]:
        yield self.tell(self.started())
        if self.number % 10 == 0:
            yield from self.grant()
        revision = 0
        while True:
            name, gib, tensors = self.random.choice(CHECKPOINTS)
            revision += self.random.random() < 0.3
            model = _Model(self, name, revision, gib << 30, tensors)
            yield from model.load()
            for _ in range(int(self.random.expovariate(1 / 40)) + 1):
                yield from model.launch()
                self.now_ns += int(self.random.expovariate(1 / self._every_ns))
                if self.random.random() < 0.03:
                    yield from self.restart(model)
            yield from model.release()

    def grant(self) -> Iterator[Told]:
        name = self.random.choice(CHECKPOINTS)[0]
        grant = Grant(
            grant=self.id("g"), scope=TrustScope.CHECKPOINT, reason="mirror of a checked copy", operator_uid=1000, granted_ns=self.now_ns,
            expires_ns=self.now_ns + 90 * 24 * HOUR_NS, spellings=(name,), weights_digest=_digest(name, "weights"),
        )  # fmt: skip
        yield self.tell(ev.TrustGranted(grant=grant), after_s=60)
        if self.random.random() < 0.5:
            yield self.tell(ev.TrustRevoked(grant=grant.grant, operator_uid=1000, reason="replaced"), after_s=3600)

    def restart(self, model: _Model) -> Iterator[Told]:
        """The daemon ends, in order or not; what it held goes over to the next one."""
        instance, self.instance = self.instance, self.id("d")
        if self.random.random() < 0.7:
            yield self.tell(ev.DaemonStopped(instance=instance, by="signal", left=(model.residency,)), after_s=1)
            yield self.tell(self.started(), after_s=2)
        else:
            yield self.tell(self.started(), after_s=2)
            yield self.tell(ev.DaemonLost(instance=instance, noticed_by=self.instance))
        yield self.tell(ev.ResidencyReadopted(residency=model.residency, instance=self.instance))


class _Model:
    """A checkpoint on a node, as long as it is resident."""

    def __init__(self, node: Node, name: str, revision: int, size_bytes: int, tensors: int) -> None:
        self.node = node
        self.residency = node.id("r")
        self.bytes, self.tensors, self.shards = size_bytes, tensors, max(1, size_bytes >> 32)
        root = f"/models/{name}/{revision}"
        files = tuple(
            FileIdentity(f"model-{n:05d}.safetensors", 259, 10_000 * revision + n, 1 << 32, START_NS + n, START_NS + n)
            for n in range(min(4, self.shards))
        )
        commit = _digest(name, str(revision))[:40]
        self.location = Location(root, files, None, FileIdentity("", 259, 2, 4096, START_NS, START_NS), "ext4", name, commit)
        self.weights = _digest(name, f"weights {revision}")
        self.table = _digest(name.split("-")[0], "table")
        self.asked = ev.Identity(name, root, name, commit, self.location.key(), self.table)
        self.served = msgspec.structs.replace(self.asked, digest=self.weights)
        self.evidence = {tier: self._fingerprint(tier) for tier in (Tier.HEADER, Tier.SAMPLED, Tier.CONTENT)}

    def _fingerprint(self, tier: Tier) -> Fingerprint:
        content = tier is Tier.CONTENT
        read_bytes = {Tier.HEADER: self.shards << 16, Tier.SAMPLED: 256 << 16, Tier.CONTENT: self.bytes}[tier]
        return Fingerprint(
            tier=tier, algorithm="wcache/weights/1" if content else f"wcache/{tier}/1",
            digest=self.weights if content else _digest(self.location.root, tier.value), location=self.location, table_digest=self.table,
            coverage=Coverage(
                read_bytes, self.bytes, samples=256 if tier is Tier.SAMPLED else 0, files_opened=self.shards, read_bytes=read_bytes,
                chance_4k=read_bytes / self.bytes if tier is Tier.SAMPLED else 0.0, reads=self.shards, stats=self.shards + 1,
                seconds=read_bytes / 2e9,
            ),
            weights_digest=self.weights if content else None, seed_id="s-1" if tier is Tier.SAMPLED else None, pinnable=content,
        )  # fmt: skip

    def load(self) -> Iterator[Told]:
        node = self.node
        size = {"bytes": self.bytes, "tensors": self.tensors, "shards": self.shards}
        started = ev.LoadStarted(residency=self.residency, asked=self.asked, kind=Kind.RAW, device="cpu", **size, instance=node.instance)
        yield node.tell(started, after_s=5)
        if node.random.random() < 0.02:
            failed = ev.LoadFailed(residency=self.residency, asked=self.asked, code="no_room", message="the budget does not hold it")
            yield node.tell(failed, after_s=1)
            self.residency = node.id("r")
            started = msgspec.structs.replace(started, residency=self.residency)
            yield node.tell(started, after_s=600)
        for item in self.evidence.values():
            recorded = ev.FingerprintRecorded.of(item, self.asked.spelling, by="worker", uid=990, instance=node.instance)
            yield node.tell(recorded, after_s=self.bytes / 3e9)
        completed = ev.LoadCompleted(
            residency=self.residency, served=self.served, kind=Kind.RAW, device="cpu", **size, weights_digest=self.weights,
            table_digest=self.table, dtypes=("BF16",), fingerprints=tuple(item.id() for item in self.evidence.values()),
            seconds={"read": self.bytes / 1e9, "seal": 0.1},
        )  # fmt: skip
        yield node.tell(completed, after_s=1)

    def launch(self) -> Iterator[Told]:
        """One engine start: its ranks ask one after another; a few weeks or minutes later it ends."""
        node, draw = self.node, self.node.random
        world = draw.choice((1, 1, 2, 4, 4, 8))
        launch, engine = node.id("l"), ev.Engine(*draw.choice(ENGINES), draw.randrange(100, 60_000))
        tier = draw.choices((Tier.PINNED, Tier.CONTENT, Tier.HEADER, Tier.SAMPLED, Tier.TRUSTED), (80, 5, 6, 6, 3))[0]
        missed = draw.random() < 0.06
        hits: list[ev.AttachDecided] = []
        for rank in range(world):
            decided = self._decided(launch, engine, ev.Ranks(rank, world, tp=world), tier)
            if missed or draw.random() < 0.004:
                yield from self._miss(decided)
                continue
            lease = ev.LeaseGranted(attach=decided.attach, residency=self.residency)
            yield node.tell(decided, lease, after_s=0.05)
            if draw.random() < 0.002:
                yield node.tell(ev.MapFailed(attach=decided.attach, code="mapping_failed", message="mmap: ENOMEM"), after_s=0.01)
                again = ev.AttachRedecided(
                    attach=decided.attach, outcome=Outcome.FALLBACK, reason=Reason.MAPPING_FAILED, detail="mmap: ENOMEM"
                )
                yield node.tell(again)
                yield node.tell(self._fell_back(decided.attach), after_s=20)
                continue
            mapped = ev.MapCompleted(
                attach=decided.attach, mode=Mode.ZERO_COPY, tensors=self.tensors, bytes=self.bytes, copied_tensors=0, copied_bytes=0,
                ms=round(draw.lognormvariate(1, 0.5), 3),
            )  # fmt: skip
            yield node.tell(mapped, after_s=0.01)
            hits.append(decided)
        if tier in (Tier.HEADER, Tier.SAMPLED, Tier.TRUSTED) and draw.random() < 0.6:
            yield from self._look(hits)
        node.now_ns += int(draw.expovariate(1 / LEASE_NS))
        for decided in hits:
            yield node.tell(ev.LeaseEnded(attach=decided.attach, how="closed"), after_s=0.001)

    def _decided(self, launch: str, engine: ev.Engine, ranks: ev.Ranks, tier: Tier) -> ev.AttachDecided:
        policy = {Tier.TRUSTED: HONOURING, Tier.HEADER: LOOSE, Tier.SAMPLED: LOOSE}.get(tier, PINNED)
        basis = self.evidence[tier if tier in self.evidence else Tier.CONTENT]
        digest = self.weights if tier in (Tier.PINNED, Tier.TRUSTED) else basis.digest
        return ev.AttachDecided(
            attach=self.node.id("a"), launch=launch, host=self.node.host, engine=engine, peer=ev.Peer(990, engine.pid + ranks.rank),
            ranks=ranks, asked=self.asked, served=self.served, residency=self.residency, kind=Kind.RAW, device="cpu", outcome=Outcome.HIT,
            reason=None, detail="", tier=tier, mode=Mode.ZERO_COPY, evidence=(ev.EvidenceRef(tier, basis.id(), digest, True),),
            policy=policy.digest(), policy_body=policy, decided_by="server", asked_dtype="bfloat16",
        )  # fmt: skip

    def _miss(self, decided: ev.AttachDecided) -> Iterator[Told]:
        node, draw = self.node, self.node.random
        reason, _, detail = draw.choices(MISSES, [weight for _, weight, _ in MISSES])[0]
        policy = STRICT if draw.random() < 0.1 else PINNED
        missed = msgspec.structs.replace(
            decided, served=None, residency=None, outcome=Outcome.STRICT_MISS if policy is STRICT else Outcome.FALLBACK, reason=reason,
            detail=detail.format(residency=self.residency), tier=None, mode=None, evidence=(), policy=policy.digest(), policy_body=policy,
            decided_by="loader" if reason is Reason.DAEMON_ABSENT else "server",
        )  # fmt: skip
        yield node.tell(missed, after_s=0.1)
        if policy is not STRICT and draw.random() < 0.98:
            yield node.tell(self._fell_back(decided.attach), after_s=self.bytes / 5e8)

    def _fell_back(self, attach: str) -> ev.FallbackCompleted:
        return ev.FallbackCompleted(attach=attach, bytes=self.bytes, seconds=round(self.bytes / 5e8, 3), idle_bytes=self.bytes)

    def _look(self, hits: Sequence[ev.AttachDecided]) -> Iterator[Told]:
        """Weak hits are proved afterwards; a few were wrong, and of a few nothing can be said any more."""
        chance = self.node.random.random()
        for number, decided in enumerate(hits):
            about = {"subject": "hit", "attach": decided.attach, "residency": self.residency}
            found: ev.Event = ev.VerifyPassed(**about, expected=self.weights, found=self.weights, seconds=self.bytes / 1e9)
            if chance < 0.01:
                found = ev.VerifyFailed(
                    **about, expected=self.weights, found=_digest(self.weights, "other"), asked_key=self.asked.key,
                    spellings=(self.asked.spelling,), seconds=self.bytes / 1e9,
                )  # fmt: skip
            elif chance < 0.06:
                found = ev.VerifyInconclusive(**about, why="the files changed since")
            yield self.node.tell(found, after_s=0 if number else 300)

    def release(self) -> Iterator[Told]:
        node = self.node
        if node.random.random() < 0.05:
            yield node.tell(ev.ResidencyLost(residency=self.residency, why="the machine was restarted"), after_s=1)
            return
        requested = ev.ReleaseRequested(residency=self.residency, uid=1000, why="another checkpoint", force=False, leases=())
        yield node.tell(requested, after_s=30)
        yield node.tell(ev.ReleaseCompleted(residency=self.residency, bytes=self.bytes, checked="seals"), after_s=1)


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def story(seed: int, nodes: int, events: int) -> Iterator[Told]:
    """What happened on all nodes, in the order of time, for about a year's worth of `events`; it goes on for ever."""
    every_ns = max(60 * S_NS, YEAR_NS * nodes * EVENTS_OF_LAUNCH / events - LEASE_NS)
    return heapq.merge(*(Node(seed, number, every_ns).events() for number in range(nodes)))
