"""The state machines: exhaustive over the small enumerations, stateful over random histories."""

from __future__ import annotations

import itertools

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.histories import ATTACH_EVENTS, GRANT_EVENTS, RESIDENCY_EVENTS, event_of
from support.transitions import ATTACH, ATTACH_PLACES, GRANT, MACHINES, PAIRS, PROOF_STRENGTH, PROOFS, RESIDENCY, paths

from wcache.core.model import machines
from wcache.core.model.errors import IllegalTransition
from wcache.core.model.events import EVENT_TYPES, decode_payload, encode_payload, stream_of
from wcache.core.model.machines import AttachView, StreamState
from wcache.core.model.vocabulary import AttachState, Outcome, Proof, ResidencyState

STREAMS = {"residency/r-1": RESIDENCY_EVENTS, "attach/a-1": ATTACH_EVENTS, "trust/g-1": GRANT_EVENTS}
TERMINAL = {ResidencyState.RELEASED, ResidencyState.FAILED, ResidencyState.LOST}


@pytest.mark.parametrize(("kind", "place", "name"), PAIRS)
def test_the_machine_takes_the_steps_that_were_decided_and_no_other(kind: str, place: str, name: str) -> None:
    """Every place of every machine with every event of it, against a table that was written by hand."""
    stream, table, places = MACHINES[kind]
    authority, steps = table[name]
    before, event = places[place], event_of(name)
    assert event.authority is authority
    after = machines.evolve(stream, before, event)
    if place in steps:
        machines.check(stream, before, event)
        assert not machines.is_late(stream, before, event)
        assert _without_proof(after) == places[steps[place]]
        return
    assert after == before
    if authority:
        with pytest.raises(IllegalTransition):
            machines.check(stream, before, event)
    else:
        machines.check(stream, before, event)
        assert machines.is_late(stream, before, event)


def _without_proof(state: StreamState) -> StreamState:
    return msgspec.structs.replace(state, attach=msgspec.structs.replace(state.attach, proof=None))


def test_the_table_knows_every_event_and_every_state() -> None:
    """A new event of a stream, or a new state, has to be decided about."""
    for kind, (_, table, places) in MACHINES.items():
        named = {name.partition(":")[0] for name in table}
        streams = {type_name: stream_of(event_of(type_name)) for type_name in EVENT_TYPES}
        assert {type_name for type_name, stream in streams.items() if stream.startswith(f"{kind}/")} <= named
        assert set(paths(table, next(iter(places)))) == set(places), "a place that no way leads to"
    assert set(RESIDENCY_EVENTS) == set(RESIDENCY) and set(ATTACH_EVENTS) == set(ATTACH) and set(GRANT_EVENTS) == set(GRANT)
    assert {view.state for view in ATTACH_PLACES.values()} == set(AttachState)
    assert {state.residency for state in MACHINES["residency"][2].values()} == set(ResidencyState)


@pytest.mark.parametrize("known", PROOF_STRENGTH)
@pytest.mark.parametrize("name", PROOFS)
def test_a_stronger_proof_of_a_hit_stands(known: str, name: str) -> None:
    """A refutation whatever comes later, and a proof against files that went away."""
    for place, view in ATTACH_PLACES.items():
        before = StreamState(attach=msgspec.structs.replace(view, proof=Proof(known)))
        after = machines.evolve("attach/a-1", before, event_of(name)).attach.proof
        hit = view.outcome is Outcome.HIT
        assert after == (max(known, PROOFS[name], key=PROOF_STRENGTH.index) if hit else known), place


@pytest.mark.parametrize("name", [name for name in ATTACH if "decided" in name])
def test_a_decision_begins_without_any_proof(name: str) -> None:
    for place, view in ATTACH_PLACES.items():
        if place in ATTACH[name][1]:
            before = StreamState(attach=msgspec.structs.replace(view, proof=Proof.PROVED if view.outcome is Outcome.HIT else None))
            assert machines.evolve("attach/a-1", before, event_of(name)).attach.proof == (Proof.UNPROVEN if name.endswith(":hit") else None)


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
    for name, cls in EVENT_TYPES.items():
        event = event_of(name)
        assert type(event) is cls
        assert decode_payload(name, cls.schema, encode_payload(event)) == event
        assert cls.says and stream_of(event)
        with pytest.raises(AttributeError):
            setattr(event, cls.__struct_fields__[0], None)


def test_replace_keeps_streamstate_hashable_and_comparable() -> None:
    assert msgspec.structs.replace(StreamState(), grant="active") != StreamState()
