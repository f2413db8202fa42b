"""Events for tests of the ledger: one builder a type with plausible bodies, and random histories that may be illegal."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from wcache.core.model import events as ev
from wcache.core.model.evidence import Coverage, FileIdentity, Fingerprint, Grant, Location
from wcache.core.model.policy import Policy
from wcache.core.model.vocabulary import Kind, Mode, Outcome, Reason, Tier, TrustScope

WEIGHTS = "a" * 64
OTHER = "b" * 64
TABLE = "c" * 64
ROOT = "/models/base"


def location(root: str = ROOT, ino: int = 7) -> Location:
    file = FileIdentity("model.safetensors", 1, ino, 1000, 5, 6)
    return Location(root, (file,), None, FileIdentity("", 1, 2, 4096, 5, 6), "ext4", repo="org/base", commit="c0ffee")


def fingerprint(tier: Tier = Tier.CONTENT, digest: str = WEIGHTS, root: str = ROOT, ino: int = 7, **more: Any) -> Fingerprint:
    weights = digest if tier in (Tier.CONTENT, Tier.PINNED, Tier.TRUSTED) else None
    fields: dict[str, Any] = {"table_digest": TABLE, "weights_digest": weights, "location": location(root, ino), "pinnable": True, **more}
    return Fingerprint(tier=tier, algorithm="wcache/weights/1", digest=digest, coverage=Coverage(1000, 1000), **fields)


def recorded(evidence: Fingerprint, spelling: str = ROOT, instance: str | None = "d-1") -> ev.FingerprintRecorded:
    return ev.FingerprintRecorded(fingerprint=evidence.id(), evidence=evidence, spelling=spelling, by="server", uid=0, instance=instance)


def identity(spelling: str = ROOT, digest: str | None = WEIGHTS) -> ev.Identity:
    return ev.Identity(spelling, ROOT, "org/base", "c0ffee", location().key(), TABLE, digest)


def daemon_started(instance: str = "d-1") -> ev.DaemonStarted:
    return ev.DaemonStarted(instance=instance, version="1", boot_id="boot", pid=10, uid=0, origin="0" * 32, runtime_dir="/run/wcache")


def load_started(residency: str = "r-1") -> ev.LoadStarted:
    return ev.LoadStarted(
        residency=residency, asked=identity(digest=None), kind=Kind.RAW, device="cpu", bytes=1000, tensors=3, shards=1, instance="d-1"
    )


def load_completed(residency: str = "r-1", fingerprints: tuple[str, ...] = ()) -> ev.LoadCompleted:
    return ev.LoadCompleted(
        residency=residency, served=identity(), kind=Kind.RAW, device="cpu", bytes=1000, tensors=3, shards=1, weights_digest=WEIGHTS,
        table_digest=TABLE, dtypes=("BF16",), fingerprints=fingerprints, seconds={"read": 0.5},
    )  # fmt: skip


def load_failed(residency: str = "r-1") -> ev.LoadFailed:
    return ev.LoadFailed(residency=residency, asked=identity(digest=None), code="no_room", message="no room")


def decided(attach: str = "a-1", outcome: Outcome = Outcome.HIT, residency: str = "r-1", **more: Any) -> ev.AttachDecided:
    hit = outcome is Outcome.HIT
    fields: dict[str, Any] = {
        "attach": attach, "launch": "l-1", "host": "node", "engine": ev.Engine("test", "1", 1), "peer": ev.Peer(0, 1),
        "ranks": ev.Ranks(0, 2),
        "asked": identity(digest=None), "served": identity() if hit else None, "residency": residency if hit else None, "kind": Kind.RAW,
        "device": "cpu", "outcome": outcome, "reason": None if hit else Reason.NOT_RESIDENT, "detail": "",
        "tier": Tier.PINNED if hit else None, "mode": Mode.ZERO_COPY if hit else None,
        "evidence": (ev.EvidenceRef(Tier.PINNED, "f" * 32, WEIGHTS, True),) if hit else (), "policy": Policy().digest(),
        "policy_body": Policy(), "decided_by": "server",
    }  # fmt: skip
    return ev.AttachDecided(**{**fields, **more})


def redecided(attach: str = "a-1", outcome: Outcome = Outcome.FALLBACK) -> ev.AttachRedecided:
    return ev.AttachRedecided(attach=attach, outcome=outcome, reason=Reason.MAPPING_FAILED, detail="mmap")


def granted(attach: str = "a-1", residency: str = "r-1") -> ev.LeaseGranted:
    return ev.LeaseGranted(attach=attach, residency=residency)


def mapped(attach: str = "a-1", mode: Mode = Mode.ZERO_COPY) -> ev.MapCompleted:
    return ev.MapCompleted(attach=attach, mode=mode, tensors=3, bytes=1000, copied_tensors=0, copied_bytes=0, ms=0.5)


def map_failed(attach: str = "a-1") -> ev.MapFailed:
    return ev.MapFailed(attach=attach, code="mapping_failed", message="mmap")


def lease_ended(attach: str = "a-1") -> ev.LeaseEnded:
    return ev.LeaseEnded(attach=attach, how="closed")


def fell_back(attach: str = "a-1") -> ev.FallbackCompleted:
    return ev.FallbackCompleted(attach=attach, bytes=1000, seconds=2.0, idle_bytes=500)


def verify_failed(attach: str | None = "a-1", residency: str | None = "r-1") -> ev.VerifyFailed:
    return ev.VerifyFailed(
        subject="hit", attach=attach, residency=residency, expected=WEIGHTS, found=OTHER, asked_key=location().key(),
        spellings=(ROOT,), seconds=0.1,
    )  # fmt: skip


def verify_passed(attach: str | None = "a-1", residency: str | None = "r-1") -> ev.VerifyPassed:
    return ev.VerifyPassed(subject="hit", attach=attach, residency=residency, expected=WEIGHTS, found=WEIGHTS, seconds=0.1)


def inconclusive(attach: str = "a-1") -> ev.VerifyInconclusive:
    return ev.VerifyInconclusive(subject="hit", attach=attach, residency="r-1", why="the files changed")


def trust_granted(grant: str = "g-1") -> ev.TrustGranted:
    body = Grant(
        grant=grant, scope=TrustScope.CHECKPOINT, reason="because", operator_uid=0, granted_ns=1, spellings=(ROOT,), weights_digest=WEIGHTS
    )
    return ev.TrustGranted(grant=body)


def release_requested(residency: str = "r-1") -> ev.ReleaseRequested:
    return ev.ReleaseRequested(residency=residency, uid=0, why="asked", force=False, leases=())


_FINGERPRINTS = (
    fingerprint(Tier.HEADER, "1" * 64),
    fingerprint(Tier.SAMPLED, "2" * 64, seed_id="s1"),
    fingerprint(Tier.CONTENT, WEIGHTS),
    fingerprint(Tier.CONTENT, OTHER, "/models/other", 8),
)

residencies = st.sampled_from(["r-1", "r-2"])
attaches = st.sampled_from(["a-1", "a-2", "a-3"])
grants = st.sampled_from(["g-1", "g-2"])
instances = st.sampled_from(["d-1", "d-2"])
names = st.lists(st.sampled_from([item.id() for item in _FINGERPRINTS]), max_size=3, unique=True).map(tuple)


def events() -> st.SearchStrategy[ev.Event]:
    """Any event of any stream of a small world, legal or not."""
    return st.one_of(
        st.builds(load_started, residencies),
        st.builds(load_completed, residencies, names),
        st.builds(load_failed, residencies),
        st.builds(release_requested, residencies),
        st.builds(lambda r: ev.ReleaseCompleted(residency=r, bytes=1000), residencies),
        st.builds(lambda r: ev.ReleaseRefused(residency=r, uid=0, why="leased", leases=("a-1",)), residencies),
        st.builds(lambda r: ev.MutationDetected(residency=r, tensors=("w",)), residencies),
        st.builds(lambda r: ev.ResidencyLost(residency=r, why="gone"), residencies),
        st.builds(lambda r: ev.ResidencyReadopted(residency=r, instance="d-2"), residencies),
        st.builds(decided, attaches, st.sampled_from(Outcome), residencies),
        st.builds(redecided, attaches, st.sampled_from([Outcome.FALLBACK, Outcome.STRICT_MISS])),
        st.builds(granted, attaches, residencies),
        st.builds(mapped, attaches, st.sampled_from(Mode)),
        st.builds(map_failed, attaches),
        st.builds(lease_ended, attaches),
        st.builds(fell_back, attaches),
        st.builds(lambda a: ev.FallbackFailed(attach=a, code="x", message="y", idle_bytes=3), attaches),
        st.builds(verify_failed, st.none() | attaches, residencies),
        st.builds(verify_passed, st.none() | attaches, residencies),
        st.builds(inconclusive, attaches),
        st.builds(trust_granted, grants),
        st.builds(lambda g: ev.TrustRevoked(grant=g, operator_uid=0), grants),
        st.builds(recorded, st.sampled_from(_FINGERPRINTS), st.sampled_from([ROOT, "org/base"]), st.none() | instances),
        st.builds(daemon_started, instances),
        st.builds(lambda d: ev.DaemonStopped(instance=d, by="signal"), instances),
        st.builds(lambda d: ev.DaemonLost(instance=d, noticed_by="d-9"), instances),
        st.builds(lambda: ev.LedgerGap(from_ns=1, to_ns=2, merged=1, lost=0, why="full")),
    )


def legal_starts() -> list[ev.Event]:
    """A residency that is there, so that random histories get somewhere."""
    return [
        load_started("r-1"),
        *(recorded(item) for item in _FINGERPRINTS[:3]),
        load_completed("r-1", tuple(i.id() for i in _FINGERPRINTS[:3])),
    ]
