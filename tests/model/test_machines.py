"""The state machines: exhaustive over the small enumerations, stateful over random histories."""

from __future__ import annotations

import itertools

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.histories import ATTACH_EVENTS, GRANT_EVENTS, RESIDENCY_EVENTS, event_of

from wcache.core.model import machines
from wcache.core.model.errors import IllegalTransition
from wcache.core.model.events import EVENT_TYPES
from wcache.core.model.machines import AttachView, StreamState
from wcache.core.model.vocabulary import AttachState, Outcome, Proof, ResidencyState

STREAMS = {"residency/r-1": RESIDENCY_EVENTS, "attach/a-1": ATTACH_EVENTS, "trust/g-1": GRANT_EVENTS}
TERMINAL = {ResidencyState.RELEASED, ResidencyState.FAILED, ResidencyState.LOST}


@pytest.mark.parametrize("type_name", RESIDENCY_EVENTS)
@pytest.mark.parametrize("state", list(ResidencyState))
def test_every_residency_state_takes_every_event(state: ResidencyState, type_name: str) -> None:
    before = StreamState(residency=state)
    event = event_of(type_name)
    after = machines.evolve("residency/r-1", before, event)
    in_table = (state, event.type) in machines.RESIDENCY_TABLE
    if in_table:
        machines.check("residency/r-1", before, event)
        assert not machines.is_late("residency/r-1", before, event)
    else:
        assert after == before
        if event.authority:
            with pytest.raises(IllegalTransition):
                machines.check("residency/r-1", before, event)
        else:
            assert machines.is_late("residency/r-1", before, event)
            machines.check("residency/r-1", before, event)
    if state in TERMINAL:
        assert after.residency is state


def _views() -> list[AttachView]:
    outcomes: list[Outcome | None] = [None, *Outcome]
    proofs: list[Proof | None] = [None, *Proof]
    return [AttachView(*parts) for parts in itertools.product(AttachState, outcomes, (False, True), proofs)]


def test_attach_is_total_and_only_authority_can_be_illegal() -> None:
    """Every view, also unreachable ones, takes every event; what has no step changes nothing."""
    for view, type_name in itertools.product(_views(), ATTACH_EVENTS):
        before = StreamState(attach=view)
        event = event_of(type_name)
        after = machines.evolve("attach/a-1", before, event)
        if machines.is_late("attach/a-1", before, event):
            assert after == before
        if event.authority:
            try:
                machines.check("attach/a-1", before, event)
            except IllegalTransition:
                assert after == before


@pytest.mark.parametrize(
    ("history", "state"),
    [
        (["attach.decided:hit", "lease.granted", "map.completed:zero_copy"], AttachState.MAPPED),
        (["attach.decided:hit", "lease.granted", "map.completed:copy"], AttachState.COPIED),
        (["attach.decided:hit", "lease.granted", "map.completed:zero_copy", "lease.ended"], AttachState.ENDED),
        (["attach.decided:hit", "lease.granted", "map.failed"], AttachState.FAILED),
        (["attach.decided:hit", "lease.granted", "map.failed", "attach.redecided:fallback"], AttachState.DECIDED),
        (["attach.decided:hit", "lease.granted", "map.failed", "attach.redecided:fallback", "fallback.completed"], AttachState.FELL_BACK),
        (["attach.decided:hit", "lease.granted", "map.failed", "attach.redecided:strict_miss"], AttachState.MISSED),
        (["attach.decided:hit", "lease.granted", "lease.ended", "attach.redecided:strict_miss"], AttachState.MISSED),
        (["attach.decided:fallback", "fallback.completed"], AttachState.FELL_BACK),
        (["attach.decided:fallback", "fallback.failed"], AttachState.FAILED),
        (["attach.decided:strict_miss"], AttachState.MISSED),
    ],
)
def test_the_ways_an_attach_can_go(history: list[str], state: AttachState) -> None:
    current = StreamState()
    for step in history:
        event = event_of(step)
        machines.check("attach/a-1", current, event)
        assert not machines.is_late("attach/a-1", current, event)
        current = machines.evolve("attach/a-1", current, event)
    assert current.attach.state is state


def test_an_attach_that_has_its_weights_cannot_be_decided_again() -> None:
    current = StreamState()
    for step in ("attach.decided:hit", "lease.granted", "map.completed:zero_copy", "lease.ended"):
        current = machines.evolve("attach/a-1", current, event_of(step))
    with pytest.raises(IllegalTransition):
        machines.check("attach/a-1", current, event_of("attach.redecided:fallback"))


@pytest.mark.parametrize("later", ["verify.passed", "verify.inconclusive"])
def test_a_refutation_stands_whatever_comes_later(later: str) -> None:
    current = StreamState()
    for step in ("attach.decided:hit", "verify.failed", later):
        current = machines.evolve("attach/a-1", current, event_of(step))
    assert current.attach.proof is Proof.REFUTED


def test_a_proof_is_not_undone_by_files_that_went_away() -> None:
    current = StreamState()
    for step in ("attach.decided:hit", "verify.passed", "verify.inconclusive"):
        current = machines.evolve("attach/a-1", current, event_of(step))
    assert current.attach.proof is Proof.PROVED


@given(
    stream=st.sampled_from(sorted(STREAMS)),
    data=st.data(),
)
def test_random_histories_never_leave_the_table(stream: str, data: st.DataObject) -> None:
    """Whatever order events come in: illegal ones are refused, late ones change nothing, terminal residencies stay."""
    steps = data.draw(st.lists(st.sampled_from(STREAMS[stream]), max_size=25))
    state = StreamState()
    for step in steps:
        event = event_of(step)
        try:
            machines.check(stream, state, event)
        except IllegalTransition:
            assert event.authority
            continue
        late = machines.is_late(stream, state, event)
        after = machines.evolve(stream, state, event)
        assert not late or after == state
        if state.residency in TERMINAL:
            assert after.residency is state.residency
        if state.attach.arrived:
            assert after.attach.arrived and after.attach.outcome is Outcome.HIT
        state = after


def test_an_event_on_a_foreign_stream_is_illegal() -> None:
    with pytest.raises(IllegalTransition):
        machines.check("residency/r-2", StreamState(), event_of("load.started"))


def test_every_event_round_trips_and_is_frozen() -> None:
    from wcache.core.model.events import decode_payload, encode_payload, stream_of

    for name, cls in EVENT_TYPES.items():
        event = event_of(name)
        assert type(event) is cls
        assert decode_payload(name, cls.schema, encode_payload(event)) == event
        assert cls.says and stream_of(event)
        with pytest.raises(AttributeError):
            setattr(event, cls.__struct_fields__[0], None)


def test_replace_keeps_streamstate_hashable_and_comparable() -> None:
    assert msgspec.structs.replace(StreamState(), grant="active") != StreamState()
