"""A ledger with a past: residencies and hits on real checkpoints, without a daemon."""

from __future__ import annotations

import itertools
import time
from pathlib import Path

from wcache.core.checkpoint.checkpoint import open_checkpoint
from wcache.core.checkpoint.fingerprint import attested_fingerprint, content_fingerprint, header_fingerprint
from wcache.core.checkpoint.reader import Reader
from wcache.core.model import events as ev
from wcache.core.model.errors import WcacheError
from wcache.core.model.evidence import Coverage, Fingerprint
from wcache.core.model.policy import Policy
from wcache.core.model.vocabulary import Kind, Mode, OptIn, Outcome, Reason, Tier
from wcache.ledger.store import Ledger, NewEvent

LATER_NS = 10_000_000_000  # so long after the files were written that they count as settled


class Past:
    """Appends histories to a ledger. Ids are counted: r-1, a-1, l-1."""

    def __init__(self, path: Path) -> None:
        self.ledger = Ledger.open(path)
        self._numbers = itertools.count(1)

    def append(self, *events: ev.Event, occurred_ns: int | None = None) -> list[int]:
        when = time.time_ns() if occurred_ns is None else occurred_ns
        result = self.ledger.append_batch([tuple(NewEvent(event=event, occurred_ns=when) for event in events)])[0]
        if isinstance(result, WcacheError):
            raise result
        return result

    def record(self, evidence: Fingerprint, spelling: str) -> ev.FingerprintRecorded:
        return ev.FingerprintRecorded(fingerprint=evidence.id(), evidence=evidence, spelling=spelling, by="test", uid=0, instance="d-1")

    def resident(self, root: Path, *, occurred_ns: int | None = None) -> ev.LoadCompleted:
        """The checkpoint at `root` becomes a residency."""
        reader = Reader()
        checkpoint = open_checkpoint(root, reader=reader)
        content = content_fingerprint(checkpoint, reader)
        header = header_fingerprint(checkpoint, reader)
        residency = f"r-{next(self._numbers)}"
        served = ev.Identity(
            str(root), checkpoint.location.root, None, checkpoint.location.commit, checkpoint.location.key(), checkpoint.table_digest,
            content.weights_digest,
        )  # fmt: skip
        sizes = {"bytes": checkpoint.total_bytes, "tensors": checkpoint.tensor_count, "shards": len(checkpoint.shards)}
        completed = ev.LoadCompleted(
            residency=residency, served=served, kind=Kind.RAW, device="cpu", **sizes, weights_digest=content.digest,
            table_digest=checkpoint.table_digest, dtypes=("F32",), fingerprints=(content.id(), header.id()), seconds={"read": 0.1},
        )  # fmt: skip
        started = ev.LoadStarted(residency=residency, asked=ev.Identity(str(root)), kind=Kind.RAW, device="cpu", **sizes, instance="d-1")
        self.append(started, self.record(content, str(root)), self.record(header, str(root)), completed, occurred_ns=occurred_ns)
        return completed

    def evidence(self, root: Path, tier: Tier = Tier.HEADER) -> Fingerprint:
        reader = Reader()
        checkpoint = open_checkpoint(root, reader=reader)
        return {Tier.HEADER: header_fingerprint, Tier.ATTESTED: attested_fingerprint}[tier](checkpoint, reader)

    def trusted(self, grant: str, reuses: str, digest: str, nonce: str) -> Fingerprint:
        return Fingerprint(
            tier=Tier.TRUSTED, algorithm="wcache-grant-1", digest=digest, weights_digest=digest, coverage=Coverage(0, 0), grant=grant,
            reuses=reuses, age_s=1.0, nonce=nonce,
        )  # fmt: skip

    def decided(
        self,
        asked: ev.Identity,
        served: ev.LoadCompleted | None,
        evidence: tuple[Fingerprint, ...] = (),
        *,
        outcome: Outcome = Outcome.HIT,
        reason: Reason | None = None,
        detail: str = "",
        launch: str = "l-1",
        rank: int = 0,
        world: int = 1,
        mapped: bool = True,
        engine: str = "vllm",
        occurred_ns: int | None = None,
    ) -> int:
        """One attach; a hit is also mapped. Returns the decision's seq."""
        attach = f"a-{next(self._numbers)}"
        when = time.time_ns() + LATER_NS if occurred_ns is None else occurred_ns
        hit = outcome is Outcome.HIT
        policy = Policy(accept="header", trusted=OptIn.HONOUR)
        known = [item for item in evidence if not list(self.ledger.events(stream=f"fingerprint/{item.id()}"))]
        event = ev.AttachDecided(
            attach=attach, launch=launch, host="node", engine=ev.Engine(engine, "0.33"), peer=ev.Peer(0, 1), ranks=ev.Ranks(rank, world),
            asked=asked, served=served.served if served else None, residency=served.residency if served else None, kind=Kind.RAW,
            device="cpu", outcome=outcome, reason=reason, detail=detail, tier=evidence[0].tier if evidence else None,
            mode=Mode.ZERO_COPY if hit else None,
            evidence=tuple(ev.EvidenceRef(item.tier, item.id(), item.digest, hit) for item in evidence),
            policy=policy.digest(), policy_body=policy, decided_by="server",
        )  # fmt: skip
        seqs = self.append(
            *(self.record(item, asked.spelling) for item in known),
            event,
            *((ev.LeaseGranted(attach=attach, residency=served.residency),) if hit and served else ()),
            occurred_ns=when,
        )
        if hit and mapped:
            done = ev.MapCompleted(attach=attach, mode=Mode.ZERO_COPY, tensors=2, bytes=100, copied_tensors=0, copied_bytes=0, ms=0.5)
            self.append(done, occurred_ns=when)
        elif outcome is Outcome.FALLBACK:
            self.append(ev.FallbackCompleted(attach=attach, bytes=100, seconds=1.5, idle_bytes=4096), occurred_ns=when)
        return seqs[len(known)]

    def weak_hit(self, root: Path, served: ev.LoadCompleted, tier: Tier = Tier.HEADER, *, occurred_ns: int | None = None) -> int:
        """A hit on nothing but weak evidence about the checkpoint at `root`."""
        evidence = self.evidence(root, tier)
        assert evidence.location is not None
        asked = ev.Identity(str(root), evidence.location.root, key=evidence.location.key(), table_digest=evidence.table_digest)
        return self.decided(asked, served, (evidence,), occurred_ns=occurred_ns)
