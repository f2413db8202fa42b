"""`decide()`: each promise of the evidence and deciding sections, as a value in and a value out."""

from __future__ import annotations

import itertools

import msgspec
import pytest
from freezegun import freeze_time
from hypothesis import given
from hypothesis import strategies as st

from wcache.core.model.config import normalise_config
from wcache.core.model.decide import Decision, Request, ResidencyView, decide
from wcache.core.model.errors import EvidenceUnavailable
from wcache.core.model.events import Identity
from wcache.core.model.evidence import Contradiction, Coverage, Fingerprint, Grant, Lock
from wcache.core.model.policy import Policy
from wcache.core.model.vocabulary import SCALE, Kind, Lineage, Mode, OptIn, Outcome, Reason, ResidencyState, Tier, TrustScope

GOOD, OTHER = "aa" * 32, "bb" * 32


def residency(**changes: object) -> ResidencyView:
    fields: dict[str, object] = {
        "residency": "r-1",
        "state": ResidencyState.RESIDENT,
        "kind": Kind.RAW,
        "device": "cpu",
        "served": Identity("/m", "/m", key="k-m", table_digest="t", digest=GOOD),
        "spellings": ("/m", "m"),
        "weights_digest": GOOD,
        "table_digest": "t",
        "known": {"header": "h", "sampled:s1": "s", "attested": "n"},
        "dtypes": ("BF16",),
    }
    return ResidencyView(**{**fields, **changes})  # type: ignore[arg-type]


def evidence(tier: Tier, digest: str, **changes: object) -> Fingerprint:
    known = tier in (Tier.PINNED, Tier.CONTENT, Tier.TRUSTED)
    fields: dict[str, object] = {
        "tier": tier,
        "algorithm": "test",
        "digest": digest,
        "coverage": Coverage(0, 1),
        "table_digest": None if tier is Tier.TRUSTED else "t",
        "weights_digest": digest if known else None,
        "seed_id": "s1" if tier is Tier.SAMPLED else None,
    }
    return Fingerprint(**{**fields, **changes})  # type: ignore[arg-type]


def ask(spelling: str = "/m", **changes: object) -> Request:
    identity = Identity(spelling, spelling, key=f"k-{spelling}", table_digest="t")
    return Request(asked=identity, **changes)  # type: ignore[arg-type]


def outcome(decision: Decision) -> tuple[Outcome, Reason | None]:
    return decision.outcome, decision.reason


SAME = {Tier.HEADER: "h", Tier.SAMPLED: "s", Tier.PINNED: GOOD, Tier.CONTENT: GOOD}


@pytest.mark.parametrize(("have", "accept"), list(itertools.product(SCALE, SCALE)))
def test_a_tier_is_enough_exactly_when_it_is_not_below_accept(have: Tier, accept: Tier) -> None:
    decision = decide([residency()], [evidence(have, SAME[have])], ask(), Policy(accept=accept.value), 0)
    if SCALE.index(have) >= SCALE.index(accept):
        assert outcome(decision) == (Outcome.HIT, None) and decision.tier is have and decision.mode is Mode.ZERO_COPY
    else:
        assert outcome(decision) == (Outcome.FALLBACK, Reason.EVIDENCE_INSUFFICIENT)


@pytest.mark.parametrize(("on_miss", "missed"), [("fallback", Outcome.FALLBACK), ("strict", Outcome.STRICT_MISS)])
def test_the_policy_says_what_a_miss_becomes(on_miss: str, missed: Outcome) -> None:
    policy = Policy(on_miss=on_miss)  # type: ignore[arg-type]
    assert outcome(decide([], [], ask(), policy, 0)) == (missed, Reason.NOT_RESIDENT)


@pytest.mark.parametrize("reason", list(Reason))
def test_an_obstacle_is_the_reason_and_never_a_hit(reason: Reason) -> None:
    request = ask(obstacle=reason, obstacle_detail="why")
    decision = decide([residency()], [evidence(Tier.CONTENT, GOOD)], request, Policy(), 0)
    assert outcome(decision) == (Outcome.FALLBACK, reason) and decision.detail == "why" and decision.residency is None


def test_contrary_evidence_with_a_current_identity_beats_weaker_agreement() -> None:
    pieces = [evidence(Tier.HEADER, "h"), evidence(Tier.PINNED, OTHER)]
    decision = decide([residency()], pieces, ask(), Policy(accept="header"), 0)
    assert outcome(decision) == (Outcome.FALLBACK, Reason.CONTENT_MISMATCH)
    assert decision.served is not None and decision.served.digest == GOOD and OTHER in decision.detail


def test_contrary_evidence_beats_trust() -> None:
    grant = Grant(grant="g", scope=TrustScope.CHECKPOINT, reason="r", operator_uid=0, granted_ns=0, spellings=("/m",), weights_digest=GOOD)
    pieces = [evidence(Tier.TRUSTED, GOOD, grant="g"), evidence(Tier.CONTENT, OTHER)]
    policy = Policy(trusted=OptIn.HONOUR)
    assert decide([residency()], pieces, ask(), policy, 0, grants=[grant]).reason is Reason.CONTENT_MISMATCH


def test_equal_headers_with_other_samples_are_other_weights() -> None:
    """I2: the bytes differ for certain, so nothing needs to be hashed."""
    pieces = [evidence(Tier.HEADER, "h"), evidence(Tier.SAMPLED, "x")]
    assert decide([residency()], pieces, ask(), Policy(accept="header"), 0).reason is Reason.CONTENT_MISMATCH


def test_another_sharding_is_no_contradiction_and_content_decides() -> None:
    """I13: other header and sample digests over an equal table do not stand against a full hash."""
    pieces = [evidence(Tier.HEADER, "h2"), evidence(Tier.SAMPLED, "x")]
    assert decide([residency()], pieces, ask(), Policy(), 0).reason is Reason.EVIDENCE_INSUFFICIENT
    assert decide([residency()], [*pieces, evidence(Tier.CONTENT, GOOD)], ask(), Policy(), 0).outcome is Outcome.HIT


def test_two_commits_with_other_weights_are_named_in_the_miss() -> None:
    """I6: refs/main moved between load and attach."""
    served = Identity("org/m", "/hub/snap/c1", "org/m", "c1", "k1", "t", GOOD)
    asked = Identity("org/m", "/hub/snap/c2", "org/m", "c2", "k2", "t")
    decision = decide([residency(served=served)], [evidence(Tier.CONTENT, OTHER)], Request(asked=asked), Policy(), 0)
    assert decision.reason is Reason.CONTENT_MISMATCH and "c1" in decision.detail and "c2" in decision.detail


@pytest.mark.parametrize("tier", [Tier.HEADER, Tier.SAMPLED])
def test_equal_headers_do_not_make_two_commits_of_a_repository_one(tier: Tier) -> None:
    """I6: fine-tunes have equal headers; what looked at the content, or the attested names, still may say that nothing changed."""
    served = Identity("org/m", "/hub/snap/c1", "org/m", "c1", "k1", "t", GOOD)
    moved = Request(asked=Identity("org/m", "/hub/snap/c2", "org/m", "c2", "k2", "t"))
    same = Request(asked=Identity("org/m", "/hub/snap/c1", "org/m", "c1", "k1", "t"))
    copied = Request(asked=Identity("/copy", "/copy", None, None, "k3", "t"))
    piece, policy = evidence(tier, SAME[tier]), Policy(accept="header", attested=OptIn.HONOUR)
    decision = decide([residency(served=served)], [piece], moved, policy, 0)
    assert decision.reason is Reason.EVIDENCE_INSUFFICIENT
    assert "c1" in decision.detail and "c2" in decision.detail and decision.served == served
    for request in (same, copied):
        assert decide([residency(served=served)], [piece], request, policy, 0).outcome is Outcome.HIT
    for other in (evidence(Tier.CONTENT, GOOD), evidence(Tier.PINNED, GOOD), evidence(Tier.ATTESTED, "n")):
        assert decide([residency(served=served)], [piece, other], moved, policy, 0).outcome is Outcome.HIT


def test_another_table_at_the_same_place_is_a_content_mismatch_elsewhere_it_is_not_resident() -> None:
    piece = evidence(Tier.HEADER, "h9", table_digest="t9")
    here = Request(asked=Identity("/m", "/m", table_digest="t9"))
    there = Request(asked=Identity("/n", "/n", table_digest="t9"))
    assert decide([residency()], [piece], here, Policy(), 0).reason is Reason.CONTENT_MISMATCH
    assert decide([residency()], [piece], there, Policy(), 0).reason is Reason.NOT_RESIDENT


@pytest.mark.parametrize(
    ("state", "reason"),
    [
        (ResidencyState.LOADING, Reason.STILL_LOADING),
        (ResidencyState.SUSPECT, Reason.SUSPECT),
        (ResidencyState.RELEASING, Reason.RELEASED),
        (ResidencyState.RELEASED, Reason.RELEASED),
        (ResidencyState.LOST, Reason.NOT_RESIDENT),
        (ResidencyState.FAILED, Reason.NOT_RESIDENT),
    ],
)
def test_only_resident_weights_are_handed_out(state: ResidencyState, reason: Reason) -> None:
    assert decide([residency(state=state)], [evidence(Tier.CONTENT, GOOD)], ask(), Policy(), 0).reason is reason


def test_a_good_residency_wins_over_a_released_one_of_the_same_weights() -> None:
    views = [residency(residency="r-0", state=ResidencyState.RELEASED), residency()]
    assert decide(views, [evidence(Tier.PINNED, GOOD)], ask(), Policy(), 0).residency == "r-1"


def test_another_device_is_named() -> None:
    decision = decide([residency(device="cuda:0")], [evidence(Tier.CONTENT, GOOD)], ask(), Policy(), 0)
    assert decision.reason is Reason.DEVICE_MISMATCH and "cuda:0" in decision.detail


def test_raw_weights_in_another_dtype_are_a_hit_in_mode_copy() -> None:
    """I12, A4."""
    decision = decide([residency()], [evidence(Tier.PINNED, GOOD)], ask(dtype="F32"), Policy(), 0)
    assert decision.outcome is Outcome.HIT and decision.mode is Mode.COPY
    same = decide([residency()], [evidence(Tier.PINNED, GOOD)], ask(dtype="BF16"), Policy(), 0)
    assert same.mode is Mode.ZERO_COPY


def _processed(resident: dict[str, object], asked: dict[str, object]) -> Decision:
    view = residency(kind=Kind.PROCESSED, config=normalise_config(resident), lineage=Lineage.PROVEN)
    request = ask(kind=Kind.PROCESSED, config=normalise_config(asked))
    return decide([view], [evidence(Tier.PINNED, GOOD)], request, Policy(on_miss="strict"), 0)


def test_processed_weights_of_another_dtype_are_a_config_mismatch_naming_dtype() -> None:
    """I12."""
    decision = _processed({"dtype": "float16"}, {"dtype": "bfloat16"})
    assert outcome(decision) == (Outcome.STRICT_MISS, Reason.CONFIG_MISMATCH) and "dtype" in decision.detail


def test_data_parallel_replicas_of_a_dense_model_hit_and_of_an_expert_parallel_one_do_not() -> None:
    """I11."""
    assert _processed({"data_parallel_size": 1}, {"data_parallel_size": 2}).outcome is Outcome.HIT
    experts = {"enable_expert_parallel": True}
    decision = _processed({"data_parallel_size": 1, **experts}, {"data_parallel_size": 2, **experts})
    assert decision.reason is Reason.CONFIG_MISMATCH and "data_parallel_size" in decision.detail


UNPROVEN = residency(kind=Kind.PROCESSED, lineage=Lineage.UNPROVEN)
PROCESSED = ask(kind=Kind.PROCESSED)


@pytest.mark.parametrize("accept", ["pinned", "content"])
def test_processed_weights_of_unproven_lineage_are_no_hit_on_what_is_known_of_the_checkpoint(accept: str) -> None:
    decision = decide([UNPROVEN], [evidence(Tier.CONTENT, GOOD)], PROCESSED, Policy(accept=accept), 0)  # type: ignore[arg-type]
    assert outcome(decision) == (Outcome.FALLBACK, Reason.EVIDENCE_INSUFFICIENT) and "lineage" in decision.detail
    other = decide([UNPROVEN], [evidence(Tier.CONTENT, OTHER)], PROCESSED, Policy(accept=accept), 0)  # type: ignore[arg-type]
    assert other.reason is Reason.CONTENT_MISMATCH


def test_processed_weights_of_unproven_lineage_are_a_hit_below_pinned_and_never_at_more_than_sampled() -> None:
    for tier, reached in ((Tier.HEADER, Tier.HEADER), (Tier.PINNED, Tier.SAMPLED), (Tier.CONTENT, Tier.SAMPLED)):
        decision = decide([UNPROVEN], [evidence(tier, SAME[tier])], PROCESSED, Policy(accept="header"), 0)
        assert (decision.outcome, decision.tier) == (Outcome.HIT, reached)


def test_an_operator_may_vouch_for_processed_weights_of_unproven_lineage() -> None:
    grant = Grant(grant="g", scope=TrustScope.RESIDENCY, reason="r", operator_uid=0, granted_ns=0, residency="r-1")
    pieces = [evidence(Tier.TRUSTED, GOOD, grant="g")]
    decision = decide([UNPROVEN], pieces, PROCESSED, Policy(trusted=OptIn.HONOUR), 0, grants=[grant])
    assert (decision.outcome, decision.tier) == (Outcome.HIT, Tier.TRUSTED)


def test_proven_processed_weights_are_preferred_and_their_mode_does_not_depend_on_dtypes() -> None:
    proven = residency(residency="r-2", kind=Kind.PROCESSED, lineage=Lineage.PROVEN, dtypes=("BF16", "F32"))
    decision = decide([UNPROVEN, proven], [evidence(Tier.PINNED, GOOD)], ask(kind=Kind.PROCESSED, dtype="F32"), Policy(accept="header"), 0)
    assert (decision.residency, decision.tier, decision.mode) == ("r-2", Tier.PINNED, Mode.ZERO_COPY)


def test_an_unknown_engine_field_counts() -> None:
    """The key fails closed: a field that nobody has listed as harmless is part of it."""
    assert _processed({"brand_new_switch": 1}, {"brand_new_switch": 2}).reason is Reason.CONFIG_MISMATCH


def test_a_configuration_that_cannot_be_normalised_gives_no_key() -> None:
    """I14."""

    class Quantization:
        def to_dict(self) -> dict[str, str]:
            raise RuntimeError("not ready")

    with pytest.raises(EvidenceUnavailable, match=r"quantization_config.*not ready"):
        normalise_config({"quantization_config": Quantization()})
    with pytest.raises(EvidenceUnavailable, match="no plain value"):
        normalise_config({"quantization_config": object()})


# --- opt-in evidence ------------------------------------------------------------------------------------------------------


def test_attested_counts_only_when_honoured() -> None:
    piece = evidence(Tier.ATTESTED, "n")
    assert decide([residency()], [piece], ask(), Policy(), 0).reason is Reason.EVIDENCE_INSUFFICIENT
    assert decide([residency()], [piece], ask(), Policy(attested=OptIn.HONOUR), 0).tier is Tier.ATTESTED


def test_an_attested_name_holds_only_until_content_refutes_it() -> None:
    """I10."""
    pieces = [evidence(Tier.ATTESTED, "n"), evidence(Tier.PINNED, OTHER)]
    assert decide([residency()], pieces, ask(), Policy(attested=OptIn.HONOUR), 0).reason is Reason.CONTENT_MISMATCH


GRANTS = {
    TrustScope.CHECKPOINT: {"spellings": ("/m",), "weights_digest": GOOD},
    TrustScope.RESIDENCY: {"residency": "r-1"},
    TrustScope.INSTANCE: {"instance": "d-1"},
    TrustScope.STORE: {"prefix": "/"},
}


def _trusting(scope: TrustScope, now_ns: int, *, spelling: str = "/m", honour: bool = True, expires_ns: int | None = 100) -> Decision:
    fields = {"grant": "g", "scope": scope, "reason": "r", "operator_uid": 0, "granted_ns": 0, "expires_ns": expires_ns, **GRANTS[scope]}
    piece = evidence(Tier.TRUSTED, GOOD, grant="g", reuses="f1")
    policy = Policy(trusted=OptIn.HONOUR if honour else OptIn.IGNORE)
    return decide([residency()], [piece], ask(spelling), policy, now_ns, grants=[Grant(**fields)])


@pytest.mark.parametrize("scope", [TrustScope.CHECKPOINT, TrustScope.RESIDENCY, TrustScope.INSTANCE])
def test_a_grant_holds_until_it_expires_and_only_when_honoured(scope: TrustScope) -> None:
    assert _trusting(scope, 99).tier is Tier.TRUSTED
    assert _trusting(scope, 100).reason is Reason.TRUST_EXPIRED
    assert _trusting(scope, 10**18, expires_ns=None).outcome is Outcome.HIT
    assert _trusting(scope, 0, honour=False).reason is Reason.EVIDENCE_INSUFFICIENT


def test_a_grant_is_literal_about_spellings() -> None:
    assert _trusting(TrustScope.CHECKPOINT, 0, spelling="/m/").outcome is Outcome.FALLBACK
    assert _trusting(TrustScope.RESIDENCY, 0, spelling="/elsewhere").outcome is Outcome.FALLBACK


def test_a_store_grant_is_no_evidence_by_itself() -> None:
    assert _trusting(TrustScope.STORE, 0).outcome is Outcome.FALLBACK


def test_a_grant_of_thirty_days_ends_after_thirty_days() -> None:
    import time

    with freeze_time("2026-11-01T00:00:00Z") as clock:
        expires_ns = time.time_ns() + 30 * 86_400 * 10**9
        clock.move_to("2026-11-30T23:59:59Z")
        assert _trusting(TrustScope.CHECKPOINT, time.time_ns(), expires_ns=expires_ns).outcome is Outcome.HIT
        clock.move_to("2026-12-01T00:00:00Z")
        assert _trusting(TrustScope.CHECKPOINT, time.time_ns(), expires_ns=expires_ns).reason is Reason.TRUST_EXPIRED


# --- contradictions -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tier", [Tier.HEADER, Tier.SAMPLED, Tier.ATTESTED, Tier.TRUSTED])
@pytest.mark.parametrize("spelling", ["/copy", "/touched"])
def test_a_refuted_checkpoint_is_denied_at_every_tier_below_a_full_hash(tier: Tier, spelling: str) -> None:
    """I16: by identity, and by place also after its identity changed."""
    digest = {**SAME, Tier.ATTESTED: "n", Tier.TRUSTED: GOOD}[tier]
    contradiction = Contradiction("k-/copy", GOOD, ("/copy", "/touched"), 7)
    grant = Grant(
        grant="g", scope=TrustScope.CHECKPOINT, reason="", operator_uid=0, granted_ns=0, spellings=(spelling,), weights_digest=GOOD
    )
    policy = Policy(accept="header", attested=OptIn.HONOUR, trusted=OptIn.HONOUR)
    piece = evidence(tier, digest, grant="g" if tier is Tier.TRUSTED else None)
    decision = decide([residency()], [piece], ask(spelling), policy, 0, grants=[grant], contradictions=[contradiction])
    assert decision.reason is Reason.CONTENT_MISMATCH and "seq 7" in decision.detail


def test_a_contradiction_leaves_the_residency_good_for_everybody_else() -> None:
    contradiction = Contradiction("k-/copy", GOOD, ("/copy",), 7)
    policy = Policy(accept="header")
    assert decide([residency()], [evidence(Tier.HEADER, "h")], ask("/m"), policy, 0, contradictions=[contradiction]).outcome is Outcome.HIT


def test_good_files_put_at_a_refuted_place_hit_again_once_they_are_hashed() -> None:
    contradiction = Contradiction("k-old", GOOD, ("/copy",), 7)
    pieces = [evidence(Tier.HEADER, "h"), evidence(Tier.CONTENT, GOOD)]
    assert decide([residency()], pieces, ask("/copy"), Policy(accept="header"), 0, contradictions=[contradiction]).tier is Tier.CONTENT


# --- properties -----------------------------------------------------------------------------------------------------------

tiers = st.sampled_from([*SCALE, Tier.ATTESTED])
policies = st.builds(
    Policy,
    accept=st.sampled_from([tier.value for tier in SCALE]),
    attested=st.sampled_from(OptIn),
    trusted=st.sampled_from(OptIn),
    on_miss=st.sampled_from(["fallback", "strict"]),
)


@given(data=st.data(), accept=st.sampled_from(["pinned", "content"]), asked_digest=st.sampled_from([GOOD, OTHER]))
def test_no_truthful_evidence_makes_a_wrong_hit_at_pinned_and_above(data: st.DataObject, accept: str, asked_digest: str) -> None:
    """Weak digests may be equal or not, whatever the content; the strong ones tell the truth about the asked checkpoint."""
    pieces = data.draw(
        st.lists(
            st.sampled_from(SCALE).flatmap(
                lambda tier: st.builds(
                    evidence,
                    st.just(tier),
                    st.just(asked_digest) if tier in (Tier.PINNED, Tier.CONTENT) else st.sampled_from(["h", "s", "x"]),
                )
            ),
            max_size=6,
        )
    )
    states = data.draw(st.lists(st.sampled_from(ResidencyState), min_size=0, max_size=4))
    views = [residency(residency=f"r-{i}", state=state, weights_digest=GOOD) for i, state in enumerate(states)]
    decision = decide(views, pieces, ask(), Policy(accept=accept), 0)  # type: ignore[arg-type]
    if decision.outcome is Outcome.HIT:
        assert asked_digest == GOOD and decision.tier in (Tier.PINNED, Tier.CONTENT)
        chosen = next(view for view in views if view.residency == decision.residency)
        assert chosen.state is ResidencyState.RESIDENT


@given(policy=policies, pieces=st.lists(tiers.map(lambda tier: evidence(tier, "zz")), max_size=4), now_ns=st.integers(0, 2**62))
def test_decide_is_total_and_says_a_reason_exactly_when_it_misses(policy: Policy, pieces: list[Fingerprint], now_ns: int) -> None:
    decision = decide([residency()], pieces, ask(), policy, now_ns)
    assert (decision.reason is None) == (decision.outcome is Outcome.HIT)
    if decision.outcome is not Outcome.HIT:
        assert (decision.outcome is Outcome.STRICT_MISS) == (policy.on_miss == "strict")


@given(policy=policies, seed=st.randoms())
def test_more_agreement_never_turns_a_hit_into_a_miss(policy: Policy, seed: object) -> None:
    weak = [evidence(Tier.HEADER, "h")]
    strong = [*weak, evidence(Tier.SAMPLED, "s"), evidence(Tier.CONTENT, GOOD)]
    if decide([residency()], weak, ask(), policy, 0).outcome is Outcome.HIT:
        assert decide([residency()], strong, ask(), policy, 0).outcome is Outcome.HIT


LOCK = Lock(path="/etc/wcache.lock", digest="ee" * 32, weights=(GOOD,))


@pytest.mark.parametrize("tier", [*SCALE, Tier.TRUSTED])
def test_a_lock_forbids_whatever_the_evidence_says_and_allows_nothing_by_itself(tier: Tier) -> None:
    other = msgspec.structs.replace(LOCK, weights=(OTHER,))
    item = evidence(tier, SAME.get(tier, GOOD))
    policy = Policy(accept="header")
    denied = decide([residency()], [item], ask(lock=other), policy, 0)
    assert outcome(denied) == (Outcome.FALLBACK, Reason.CONTENT_MISMATCH) and "/etc/wcache.lock" in denied.detail
    assert outcome(decide([residency()], [], ask(lock=LOCK), policy, 0)) == (Outcome.FALLBACK, Reason.EVIDENCE_INSUFFICIENT)
    if tier in SCALE:
        assert decide([residency()], [item], ask(lock=LOCK), policy, 0).outcome is Outcome.HIT
        both = [residency(residency="r-2", weights_digest=OTHER), residency()]
        assert decide(both, [evidence(Tier.HEADER, "h")], ask(lock=LOCK), policy, 0).residency == "r-1"


def test_a_policy_that_says_nothing_of_what_came_later_keeps_its_digest() -> None:
    """Ledgers name policies by digest, and keep them by it."""
    plain = Policy()
    assert plain.digest() == "ecbf1c02a252e835d08fab320a8a85fd", "as before there were verify_behind and locks"
    read = msgspec.json.decode(msgspec.json.encode(plain), type=Policy)
    assert read == plain and read.verifies_behind and read.lock is msgspec.UNSET
    off = Policy(verify_behind="off")
    assert off.digest() != plain.digest() and not off.verifies_behind
