"""`wcache audit explain`: why, on which evidence, and what would have changed it, by deciding again; for every reason there is."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from support import history

from wcache.core.model import events as ev
from wcache.core.model.decide import Request, decide, decided_event
from wcache.core.model.evidence import Contradiction, Fingerprint, Grant
from wcache.core.model.policy import Policy
from wcache.core.model.vocabulary import Kind, Lineage, OptIn, Outcome, Reason, ResidencyState, Tier, TrustScope
from wcache.ledger.audit import Audit
from wcache.ledger.counterfactual import DECIDED, agrees_with_record, situation_at, turns
from wcache.ledger.explain import explain
from wcache.ledger.knowledge import Knowledge
from wcache.ledger.store import Ledger, NewEvent

NOW_NS = 10_000
HEADER = history.fingerprint(Tier.HEADER, "1" * 64)
SAMPLED = history.fingerprint(Tier.SAMPLED, "2" * 64, seed_id="s1")
CONTENT = history.fingerprint()
PINNED = history.fingerprint(Tier.PINNED, reuses=CONTENT.id())
OTHER_SAMPLES = history.fingerprint(Tier.SAMPLED, "3" * 64, seed_id="s1")
TRUSTED = history.fingerprint(Tier.TRUSTED, grant="g-1", reuses=CONTENT.id())
GRANT = Grant(
    grant="g-1", scope=TrustScope.CHECKPOINT, reason="mirror", operator_uid=0, granted_ns=1, spellings=(history.ROOT,),
    weights_digest=history.WEIGHTS,
)  # fmt: skip
EXPIRED = msgspec.structs.replace(GRANT, expires_ns=NOW_NS - 1)
RESIDENT = (
    history.load_started(), *map(history.recorded, (HEADER, SAMPLED, CONTENT)),
    history.load_completed(fingerprints=(HEADER.id(), SAMPLED.id(), CONTENT.id())),
)  # fmt: skip
ON_GPU = tuple(msgspec.structs.replace(item, device="GPU-1") if hasattr(item, "device") else item for item in RESIDENT)
PROCESSED = tuple(
    msgspec.structs.replace(
        item,
        kind=Kind.PROCESSED,
        **({"config": {"dtype": '"bf16"'}, "lineage": Lineage.PROVEN} if "config" in item.__struct_fields__ else {}),
    )
    if hasattr(item, "kind")
    else item
    for item in RESIDENT
)
RELEASED = (*RESIDENT, history.release_requested(), ev.ReleaseCompleted(residency="r-1", bytes=1000))


class Told:
    """A ledger with a past, and one attach that `decide()` decided on what is in it."""

    def __init__(self, path: Path) -> None:
        self.ledger = Ledger.open(path)

    def append(self, *events: ev.Event, at_ns: int = 1000) -> list[int]:
        result = self.ledger.append_batch([tuple(NewEvent(event=event, occurred_ns=at_ns) for event in events)])[0]
        assert isinstance(result, list), result
        return result

    def decide(self, evidence: tuple[Fingerprint, ...] = (), policy: Policy | None = None, **asked: Any) -> int:
        policy = policy or Policy()
        request = Request(**{"asked": history.identity(digest=None), "device": "cpu", **asked})
        self.append(*map(history.recorded, evidence)) if evidence else None
        knowledge = Knowledge(self.ledger)
        known = [item.view for item in knowledge.residencies(ResidencyState)]
        completed = {view.residency: knowledge.completed(view.residency) for view in known}
        views = [
            msgspec.structs.replace(view, config=done.config, lineage=done.lineage) if (done := completed[view.residency]) else view
            for view in known
        ]
        decision = decide(views, evidence, request, policy, NOW_NS, grants=knowledge.grants(), contradictions=knowledge.contradictions())
        knowledge.close()
        event = decided_event(
            decision, request, policy, attach="a-9", launch="l-9", host="node", engine=ev.Engine("vllm", "0.33"), peer=ev.Peer(0, 1),
            ranks=ev.Ranks(), by="server",
        )  # fmt: skip
        return self.append(event, at_ns=NOW_NS)[-1]

    def explained(self, seq: int) -> str:
        with Audit(self.ledger.path) as audit:
            return "\n".join(explain(audit, seq).sentences)


@pytest.fixture
def told(path: Path) -> Told:
    return Told(path)


HONOUR = Policy(trusted=OptIn.HONOUR)
HASHED = "a full hash that finds the weights of r-1 in the files"

CASES: dict[Reason, tuple[tuple[ev.Event, ...], tuple[Fingerprint, ...], dict[str, Any], list[tuple[tuple[str, ...], str]]]] = {
    Reason.NOT_RESIDENT: ((), (), {}, [(("these weights resident, and hashed before",), "content")]),
    Reason.STILL_LOADING: ((history.load_started(),), (), {}, [(("the load of r-1 completed before",), "content")]),
    Reason.RELEASED: (RELEASED, (PINNED,), {}, [(("r-1 resident (it was released)",), "pinned")]),
    Reason.SUSPECT: (
        (*RESIDENT, ev.MutationDetected(residency="r-1", tensors=("w",))), (PINNED,), {}, [(("r-1 resident (it was suspect)",), "pinned")],
    ),
    Reason.CONTENT_MISMATCH: (RESIDENT, (HEADER, OTHER_SAMPLES), {}, [((HASHED,), "content")]),
    Reason.EVIDENCE_INSUFFICIENT: (RESIDENT, (HEADER,), {}, [(("accept = header",), "header"), ((HASHED,), "content")]),
    Reason.TRUST_EXPIRED: (
        (*RESIDENT, ev.TrustGranted(grant=EXPIRED)), (TRUSTED,), {"policy": HONOUR},
        [(("grant g-1 still in force",), "trusted"), ((HASHED,), "content")],
    ),
    Reason.CONFIG_MISMATCH: (
        PROCESSED, (PINNED,), {"kind": Kind.PROCESSED, "config": {"dtype": '"fp8"'}},
        [(("the configuration that r-1 was prepared for",), "pinned")],
    ),
    Reason.DEVICE_MISMATCH: (ON_GPU, (PINNED,), {"device": "GPU-0"}, [(("the weights asked for on GPU-1",), "pinned")]),
}  # fmt: skip


def test_every_reason_is_either_decided_or_an_obstacle() -> None:
    assert set(CASES) == DECIDED


@pytest.mark.parametrize("reason", list(CASES))
def test_what_would_have_changed_a_decided_miss_is_found_by_deciding_again(told: Told, reason: Reason) -> None:
    past, evidence, asked, expected = CASES[reason]
    if past:
        told.append(*past)
    seq = told.decide(evidence, **asked)
    with Audit(told.ledger.path) as audit:
        item = audit.event(seq)
        assert isinstance(item.event, ev.AttachDecided)
        assert item.event.reason is reason
        situation = situation_at(audit, item)
        assert agrees_with_record(situation.decide(), item.event)
        found = [(turn.changes, str(turn.decision.tier)) for turn in turns(situation)]
    assert found == expected
    text = told.explained(seq)
    assert f"reason {reason}" in text
    for changes, tier in expected:
        assert f"What would have changed it: with {' and '.join(changes)} it would have been a hit at {tier}." in text
    assert "What to do: " in text
    assert "{" not in text


@pytest.mark.parametrize("reason", [reason for reason in Reason if reason not in DECIDED])
def test_of_an_obstacle_it_is_told_what_there_would_have_been_without_it(told: Told, reason: Reason) -> None:
    told.append(*RESIDENT)
    seq = told.decide(obstacle=reason, obstacle_detail="d")
    text = told.explained(seq)
    assert f"reason {reason}" in text
    assert "Had that not been in the way, what the ledger held would have made it a fallback (evidence_insufficient: have none" in text
    assert f"What would have changed it: with {reason} out of the way and {HASHED} it would have been a hit at content." in text
    assert "What to do: " in text


HITS: list[tuple[Fingerprint, Policy, str, str]] = [
    (PINNED, Policy(), "accept = content", "evidence_insufficient"),
    (HEADER, Policy(accept="header"), "accept = sampled", "evidence_insufficient"),
    (TRUSTED, HONOUR, "trusted = ignore", "evidence_insufficient"),
    (TRUSTED, HONOUR, "grant g-1 expired", "trust_expired"),
    (HEADER, Policy(accept="header"), "a full hash that finds other weights in the files", "content_mismatch"),
    (PINNED, Policy(), "r-1 released before", "released"),
]


@pytest.mark.parametrize(("evidence", "policy", "change", "reason"), HITS)
def test_what_would_have_changed_a_hit(told: Told, evidence: Fingerprint, policy: Policy, change: str, reason: str) -> None:
    told.append(*RESIDENT, ev.TrustGranted(grant=GRANT))
    text = told.explained(told.decide((evidence,), policy))
    assert "Decided by the server: hit." in text
    assert ("Those bytes were hashed" in text) is (evidence.reuses is not None)
    assert f"What would have changed it: with {change} it would have been a fallback ({reason})." in text


def test_it_is_decided_again_on_what_was_known_then_and_not_on_what_came_later(told: Told) -> None:
    """A residency that was released since, a grant that was revoked since, a refutation that was found since."""
    told.append(*RESIDENT, ev.TrustGranted(grant=GRANT))
    seq = told.decide((HEADER, TRUSTED), Policy(accept="header", trusted=OptIn.HONOUR))
    before = told.explained(seq)
    told.append(history.granted("a-9"), history.mapped("a-9"), at_ns=NOW_NS)
    told.append(history.lease_ended("a-9"), at_ns=NOW_NS + 5 * 3_600_000_000_000)
    told.append(ev.TrustRevoked(grant="g-1", operator_uid=0), history.release_requested())
    told.append(history.decided("a-8"), history.verify_failed("a-8"))
    told.append(ev.ReleaseCompleted(residency="r-1", bytes=1000), at_ns=NOW_NS + 1)
    after = told.explained(seq)
    assert [line for line in after.splitlines() if line.startswith("What would")] == [
        line for line in before.splitlines() if line.startswith("What would")
    ]
    assert "5.0 hours after the decision" in after
    with Audit(told.ledger.path) as audit:
        (found,) = audit.contradictions()
        assert isinstance(found, Contradiction)
    assert f"Since seq {found.seq} this checkpoint is known not to be the weights that were served" in after


def test_where_the_record_does_not_hold_enough_nothing_is_concluded(told: Told) -> None:
    told.append(*RESIDENT)
    seq = told.append(history.decided("a-9", Outcome.FALLBACK, reason=Reason.SUSPECT))[0]
    text = told.explained(seq)
    assert "the record does not hold all that the server saw" in text
    assert "What would have changed it: " not in text
    assert "What to do: Release those weights" in text


CHANGED: list[Callable[[], ev.Event]] = [history.load_completed, history.fell_back, history.lease_ended]


@pytest.mark.parametrize("make", CHANGED)
def test_other_events_are_told_in_a_sentence(told: Told, make: Callable[[], ev.Event]) -> None:
    told.append(*RESIDENT)
    told.append(history.decided("a-1"), history.granted("a-1"))
    event = make()
    seq = 5 if isinstance(event, ev.LoadCompleted) else told.append(event)[0]
    assert told.explained(seq)
