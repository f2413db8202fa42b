"""A month of an engine fleet in one ledger, through the real append path, each event at its own frozen time.

Forty engine starts: two fallbacks (nothing was resident; a grant had expired), one start on an operator's word, one on headers alone that
was served another checkpoint's weights and is refuted later by the real proof, one release while an engine had the weights mapped.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone
from pathlib import Path

import msgspec
from freezegun import freeze_time
from support.corpus import make_checkpoint
from support.past import Past

from wcache.core.model import events as ev
from wcache.core.model.evidence import Fingerprint, Grant
from wcache.core.model.policy import Policy
from wcache.core.model.vocabulary import Kind, Mode, OptIn, Outcome, Proof, Reason, Tier, TrustScope
from wcache.ledger.evidence import TRUSTED_ALGORITHM
from wcache.ledger.prove import prove

FIRST = datetime(2041, 6, 1, tzinfo=timezone.utc)  # after the files were made, whenever the test runs: proofs compare the two
END = FIRST + timedelta(days=30)
HOSTS = ("gpu-01", "gpu-02", "gpu-03", "gpu-04")
OPERATOR = 1007
MAPPED_BYTES = 257 << 20
IDLE_BYTES = 3 << 30


class Month:
    """`seqs` has the decisions that a report must name, by what they are."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = folder / "ledger.sqlite"
        self.base = make_checkpoint(folder / "models" / "assistant-8b", seed=0)
        self.twin = make_checkpoint(folder / "models" / "assistant-8b-tuned", seed=1)
        self.draft = make_checkpoint(folder / "models" / "draft-1b", seed=7)
        self.seqs: dict[str, int] = {}
        self.starts = 0
        self._ends: list[tuple[datetime, str]] = []
        with self._at(0, 0):
            self._past = Past(self.path)
        self._tell()
        self._past.ledger.close()

    def _append(self, *events: ev.Event) -> list[int]:
        return self._past.append(*events)

    def _tell(self) -> None:
        with self._at(0, 8):
            self._append(ev.DaemonStarted(
                instance="d-1", version="0.1.0", boot_id="b" * 32, pid=411, uid=990, origin=self._past.ledger.origin,
                runtime_dir="/run/wcache",
            ))  # fmt: skip
        with self._at(0, 8.1):
            base = self._past.resident(self.base)
        with self._at(0, 8.2):
            draft = self._past.resident(self.draft)
        grant = self._grant(draft)
        for day in range(30):
            if day == 20:
                self._release(draft)
            if day == 24:
                self._prove()
            self._day(day, base, draft, grant)
        with self._at(30, 0):
            assert self.starts == 40

    def _day(self, day: int, base: ev.LoadCompleted, draft: ev.LoadCompleted, grant: Grant) -> None:
        pinned = self._pinned(self.base, base)
        self.start(day, 9, self.base, base, pinned)
        if day == 4:
            self.seqs["trusted"] = self.start(day, 10, self.draft, draft, self._on_word(draft, grant))
        elif day == 9:
            self.seqs["absent"] = self.start(
                day, 10, self.twin, None, (), reason=Reason.NOT_RESIDENT, detail="nothing resident has these names"
            )
        elif day == 13:
            detail = f"grant {grant.grant} expired"
            self.seqs["expired"] = self.start(day, 10, self.draft, draft, (), reason=Reason.TRUST_EXPIRED, detail=detail)
        elif day == 17:
            self.seqs["wrong"] = self.start(day, 10, self.twin, base, (self._past.evidence(self.twin),), hours=30)
        elif day in (2, 6, 11, 15, 22):
            self.start(day, 15, self.base, base, pinned)

    def _prove(self) -> None:
        with self._at(24, 3):
            (found,) = prove(self._past.ledger, [self.seqs["wrong"]])
            assert found.proof is Proof.REFUTED

    def _pinned(self, root: Path, completed: ev.LoadCompleted) -> tuple[Fingerprint, ...]:
        found = msgspec.structs.replace(self._past.evidence(root), tier=Tier.PINNED, digest=completed.weights_digest)
        return (msgspec.structs.replace(found, weights_digest=completed.weights_digest, reuses=completed.fingerprints[0]),)

    def _on_word(self, completed: ev.LoadCompleted, grant: Grant) -> tuple[Fingerprint, ...]:
        trusted = self._past.trusted(grant.grant, completed.fingerprints[0], completed.weights_digest, "1")
        assert trusted.algorithm == TRUSTED_ALGORITHM
        return (trusted,)

    def _grant(self, completed: ev.LoadCompleted) -> Grant:
        with self._at(0, 8.5) as moment:
            granted_ns = int(moment.timestamp()) * 1_000_000_000
            grant = Grant(
                grant="t-1", scope=TrustScope.CHECKPOINT, reason="share is read-only until the migration, change CHG-4711",
                operator_uid=OPERATOR, granted_ns=granted_ns, expires_ns=granted_ns + 10 * 86400 * 1_000_000_000,
                spellings=(str(self.draft),), weights_digest=completed.weights_digest, fingerprint=completed.fingerprints[0],
            )  # fmt: skip
            self._append(ev.TrustGranted(grant=grant))
        return grant

    def _release(self, completed: ev.LoadCompleted) -> None:
        """While an engine has it mapped, by force."""
        self.start(19, 22, self.draft, completed, self._pinned(self.draft, completed), hours=6)
        (attach,) = [f"a-{self.starts}"]
        with self._at(20, 1):
            (self.seqs["release"],) = self._append(
                ev.ReleaseRequested(residency=completed.residency, uid=OPERATOR, why="make room", force=True, leases=(attach,))
            )
            self._append(ev.ReleaseCompleted(residency=completed.residency, bytes=completed.bytes, checked="seals"))
        self._end(attach, 20, 4)

    def start(
        self,
        day: int,
        hour: float,
        root: Path,
        served: ev.LoadCompleted | None,
        evidence: tuple[Fingerprint, ...],
        *,
        reason: Reason | None = None,
        detail: str = "",
        hours: float = 4,
    ) -> int:
        """One engine start of one rank; a hit runs for so many hours. Returns the decision's seq."""
        self.starts += 1
        attach, hit = f"a-{self.starts}", reason is None
        policy = Policy(accept="header" if evidence and evidence[0].tier is Tier.HEADER else "pinned", trusted=OptIn.HONOUR)
        location = evidence[0].location if evidence else None
        asked = ev.Identity(str(root), str(root), key=location.key() if location else None)
        with self._at(day, hour):
            known = [item for item in evidence if not list(self._past.ledger.events(stream=f"fingerprint/{item.id()}"))]
            seqs = self._append(
                *(self._past.record(item, asked.spelling) for item in known),
                ev.AttachDecided(
                    attach=attach, launch=f"l-{self.starts:02d}", host=HOSTS[self.starts % len(HOSTS)],
                    engine=ev.Engine("vllm", "0.33.0", 77), peer=ev.Peer(990, 77), ranks=ev.Ranks(), asked=asked,
                    served=served.served if served and hit else None, residency=served.residency if served else None,
                    kind=Kind.RAW, device="cpu", outcome=Outcome.HIT if hit else Outcome.FALLBACK, reason=reason, detail=detail,
                    tier=evidence[0].tier if evidence else None, mode=Mode.ZERO_COPY if hit else None,
                    evidence=tuple(ev.EvidenceRef(item.tier, item.id(), item.digest, True) for item in evidence), policy=policy.digest(),
                    policy_body=policy, decided_by="server",
                ),
                *((ev.LeaseGranted(attach=attach, residency=served.residency),) if served and hit else ()),
            )  # fmt: skip
        with self._at(day, hour + 0.001):
            if hit:
                self._append(ev.MapCompleted(
                    attach=attach, mode=Mode.ZERO_COPY, tensors=272, bytes=MAPPED_BYTES, copied_tensors=0, copied_bytes=0, ms=1.4
                ))  # fmt: skip
            else:
                self._append(ev.FallbackCompleted(attach=attach, bytes=MAPPED_BYTES, seconds=41.5, idle_bytes=IDLE_BYTES))
        if hit and (day, hour) != (19, 22):
            self._end(attach, day, hour + hours)
        return seqs[len(known)]

    def _end(self, attach: str, day: int, hour: float) -> None:
        """Its lease ends then, in order of time with everything else."""
        heapq.heappush(self._ends, (FIRST + timedelta(days=day, hours=hour), attach))

    @contextmanager
    def _at(self, day: int, hour: float) -> Iterator[datetime]:
        moment = FIRST + timedelta(days=day, hours=hour)
        while self._ends and self._ends[0][0] < moment:
            ended, attach = heapq.heappop(self._ends)
            with freeze_time(ended):
                self._append(ev.LeaseEnded(attach=attach, how="closed"))
        with freeze_time(moment):
            yield moment
