"""One well-formed event of every type, by its stored name; `type:outcome` and `type:mode` choose a variant. All on the streams
`residency/r-1`, `attach/a-1`, `trust/g-1`, `daemon/d-1`."""

from __future__ import annotations

from wcache.core.model import events as ev
from wcache.core.model.evidence import Coverage, Fingerprint, Grant
from wcache.core.model.policy import Policy
from wcache.core.model.vocabulary import Kind, Mode, Outcome, Reason, Tier, TrustScope

RESIDENCY_EVENTS = [
    "load.started", "load.completed", "load.failed", "release.requested", "release.refused", "release.completed", "residency.lost",
    "residency.readopted", "mutation.detected", "verify.passed:residency", "verify.failed:residency", "verify.inconclusive:residency",
]  # fmt: skip
ATTACH_EVENTS = [
    "attach.decided:hit", "attach.decided:fallback", "attach.decided:strict_miss", "attach.redecided:fallback",
    "attach.redecided:strict_miss", "lease.granted", "map.completed:zero_copy", "map.completed:copy", "map.failed", "map.paused",
    "map.resumed", "lease.ended", "fallback.completed", "fallback.failed", "verify.passed", "verify.failed", "verify.inconclusive",
]  # fmt: skip
GRANT_EVENTS = ["trust.granted", "trust.revoked"]

DIGEST = "ab" * 32
ASKED = ev.Identity("/models/a", "/models/a", key="k1", table_digest="t1", digest=DIGEST)
FINGERPRINT = Fingerprint(
    tier=Tier.CONTENT, algorithm="blake3", digest=DIGEST, weights_digest=DIGEST, table_digest="t1", coverage=Coverage(10, 10)
)
POLICY = Policy()


def decided(outcome: str = "hit", *, attach: str = "a-1", residency: str | None = "r-1", policy: Policy = POLICY) -> ev.AttachDecided:
    hit = outcome == "hit"
    return ev.AttachDecided(
        attach=attach,
        launch="l-1",
        host="node",
        engine=ev.Engine("test", "1"),
        peer=ev.Peer(1000, 42),
        ranks=ev.Ranks(),
        asked=ASKED,
        served=ASKED if hit else None,
        residency=residency if hit else None,
        kind=Kind.RAW,
        device="cpu",
        outcome=Outcome(outcome),
        reason=None if hit else Reason.NOT_RESIDENT,
        detail="",
        tier=Tier.PINNED if hit else None,
        mode=Mode.ZERO_COPY if hit else None,
        evidence=(ev.EvidenceRef(Tier.CONTENT, FINGERPRINT.id(), DIGEST, True),),
        policy=policy.digest(),
        policy_body=policy,
        decided_by="server",
    )


def event_of(name: str, *, residency: str = "r-1", attach: str = "a-1", grant: str = "g-1", instance: str = "d-1") -> ev.Event:
    name, _, variant = name.partition(":")
    on_attach = attach if variant != "residency" else None
    on_residency = residency if variant == "residency" else None
    build: dict[str, object] = {
        "daemon.started": lambda: ev.DaemonStarted(
            instance=instance, version="0", boot_id="b", pid=1, uid=0, origin="o", runtime_dir="/run/w"
        ),
        "daemon.stopped": lambda: ev.DaemonStopped(instance=instance, by="uid 0"),
        "daemon.lost": lambda: ev.DaemonLost(instance=instance, noticed_by="d-2"),
        "load.started": lambda: ev.LoadStarted(
            residency=residency, asked=ASKED, kind=Kind.RAW, device="cpu", bytes=10, tensors=1, shards=1, instance=instance
        ),
        "load.completed": lambda: ev.LoadCompleted(
            residency=residency, served=ASKED, kind=Kind.RAW, device="cpu", bytes=10, tensors=1, shards=1, weights_digest=DIGEST,
            table_digest="t1", dtypes=("F32",), fingerprints=(FINGERPRINT.id(),), seconds={"read": 0.5},
        ),
        "load.failed": lambda: ev.LoadFailed(residency=residency, asked=ASKED, code="no_room", message="m"),
        "fingerprint.recorded": lambda: ev.FingerprintRecorded(
            fingerprint=FINGERPRINT.id(), evidence=FINGERPRINT, spelling="/models/a", by="server", uid=0, instance=instance
        ),
        "trust.granted": lambda: ev.TrustGranted(
            grant=Grant(grant=grant, scope=TrustScope.RESIDENCY, reason="r", operator_uid=0, granted_ns=1, residency=residency)
        ),
        "trust.revoked": lambda: ev.TrustRevoked(grant=grant, operator_uid=0),
        "attach.decided": lambda: decided(variant or "hit", attach=attach, residency=residency),
        "attach.redecided": lambda: ev.AttachRedecided(
            attach=attach, outcome=Outcome(variant or "fallback"), reason=Reason.MAPPING_FAILED, detail="d"
        ),
        "lease.granted": lambda: ev.LeaseGranted(attach=attach, residency=residency),
        "map.completed": lambda: ev.MapCompleted(
            attach=attach, mode=Mode(variant or "zero_copy"), tensors=1, bytes=10, copied_tensors=0, copied_bytes=0, ms=1.0
        ),
        "map.paused": lambda: ev.MapPaused(attach=attach, bytes=10),
        "map.resumed": lambda: ev.MapResumed(attach=attach, bytes=10, ms=1.0),
        "map.failed": lambda: ev.MapFailed(attach=attach, code="mapping_failed", message="m"),
        "lease.ended": lambda: ev.LeaseEnded(attach=attach, how="closed"),
        "fallback.completed": lambda: ev.FallbackCompleted(attach=attach, bytes=10, seconds=1.0, idle_bytes=10),
        "fallback.failed": lambda: ev.FallbackFailed(attach=attach, code="c", message="m", idle_bytes=0),
        "release.requested": lambda: ev.ReleaseRequested(residency=residency, uid=0, why="", force=False, leases=()),
        "release.refused": lambda: ev.ReleaseRefused(residency=residency, uid=0, why="", leases=(attach,)),
        "release.completed": lambda: ev.ReleaseCompleted(residency=residency, bytes=10),
        "verify.passed": lambda: ev.VerifyPassed(
            subject="s", attach=on_attach, residency=on_residency, expected=DIGEST, found=DIGEST, seconds=1.0
        ),
        "verify.failed": lambda: ev.VerifyFailed(
            subject="s", attach=on_attach, residency=on_residency, expected=DIGEST, found="cd" * 32, asked_key="k1",
            spellings=("/models/a",), seconds=1.0,
        ),
        "verify.inconclusive": lambda: ev.VerifyInconclusive(subject="s", attach=on_attach, residency=on_residency, why="gone"),
        "mutation.detected": lambda: ev.MutationDetected(residency=residency, tensors=("w",)),
        "residency.lost": lambda: ev.ResidencyLost(residency=residency, why="w"),
        "residency.readopted": lambda: ev.ResidencyReadopted(residency=residency, instance=instance),
        "peer.refused": lambda: ev.PeerRefused(peer=ev.Peer(1, 2), why="w"),
        "ledger.gap": lambda: ev.LedgerGap(from_ns=1, to_ns=2, merged=1, lost=0, why="w"),
        "checkpoint.signed": lambda: ev.CheckpointSigned(origin="o", size=1, root="r"),
        "segment.opened": lambda: ev.SegmentOpened(state={}),
        "segment.closed": lambda: ev.SegmentClosed(size=1, root="r"),
        "segment.dropped": lambda: ev.SegmentDropped(
            spans=(
                ev.DroppedSpan(
                    first_seq=1, last_seq=1, from_ns=1, to_ns=1, at_ns=2, uid=0, keep_days=400, root="r", events={"ledger.gap": 1},
                    decisions={},
                ),
            ),
            carried=(),
            versions={"ledger": 1},
        ),
        "payload.redacted": lambda: ev.PayloadRedacted(target_seq=1, why="w"),
    }  # fmt: skip
    return build[name]()  # type: ignore[operator,no-any-return]
