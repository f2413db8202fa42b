"""The state machines through a real ledger, against the tables of `support.transitions`.

An authority event that is not in the table cannot be appended; an observation always can, and where it comes late it is flagged and
changes no state; what the projection says is what the table says; replay agrees at the end.
"""

from __future__ import annotations

import tempfile
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from support.histories import event_of
from support.transitions import ATTACH, ATTACH_PLACES, MACHINES, PAIRS, PROOF_STRENGTH, PROOFS, RESIDENCY, Table, paths

from wcache.core.model.errors import IllegalTransition
from wcache.core.model.vocabulary import ResidencyState
from wcache.ledger.knowledge import Knowledge
from wcache.ledger.replay import replay
from wcache.ledger.store import Ledger, NewEvent
from wcache.ledger.verify import verify

FEW = settings(max_examples=10, stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck))
_ID = {"residency": "residency", "attach": "attach", "trust": "grant"}  # the field of an event that says which stream of a kind


@pytest.mark.parametrize("kind", MACHINES)
def test_a_ledger_takes_the_steps_that_were_decided_and_no_other(ledger: Ledger, kind: str) -> None:
    """Every place of a machine with every event of it, each pair on a stream of its own that was led there."""
    _, table, places = MACHINES[kind]
    ways = paths(table, next(iter(places)))
    lates: list[bool] = []
    wanted: dict[str, str] = {}
    if kind == "attach":
        ledger.append_batch([(NewEvent(event=event_of("load.started")), NewEvent(event=event_of("load.completed")))])  # to be leased
        lates += [False, False]
    for number, (_, place, name) in enumerate(pair for pair in PAIRS if pair[0] == kind):
        stream = f"s-{number}"
        units = [(NewEvent(event=event_of(step, **{_ID[kind]: stream})),) for step in (*ways[place], name)]
        *way, last = ledger.append_batch(units)
        lates += [False] * len(way)
        authority, steps = table[name]
        if authority and place not in steps:
            assert isinstance(last, IllegalTransition), f"{name} was taken by one that is {place}"
        else:
            lates.append(place not in steps)
            assert last == [len(lates)], f"{name} by one that is {place}: {last}"
        wanted[stream] = steps.get(place, place)
    assert [item.late for item in ledger.events()] == lates
    for _ in range(2):
        with closing(Knowledge(ledger)) as knowledge:
            assert {stream: _projected(knowledge, kind, stream) for stream in wanted} == {
                stream: _row(kind, place) for stream, place in wanted.items()
            }
        assert replay(ledger) == []
    assert verify(ledger.path).ok


def _projected(knowledge: Knowledge, kind: str, stream: str) -> tuple[str, ...] | None:
    """What the projection says of where it is; None where it has nothing."""
    if kind == "residency":
        return next(((item.view.state.value,) for item in knowledge.residencies(ResidencyState) if item.view.residency == stream), None)
    if kind == "attach":
        row = knowledge.attach(stream)
        return (row["state"], row["decision"]) if row is not None else None
    states = [
        state
        for state, grants in (("active", knowledge.grants()), ("revoked", knowledge.grants(include_revoked=True)))
        if any(grant.grant == stream for grant in grants)
    ]
    return (states[0],) if states else None


def _row(kind: str, place: str) -> tuple[str, ...] | None:
    """The same of a place in the table."""
    if kind != "attach":
        return (place,) if place != "absent" else None
    view = ATTACH_PLACES[place]
    return (view.state.value, view.outcome.value) if view.outcome is not None else None


class InLedger(RuleBasedStateMachine):
    """One stream through a long life; `append` compares the ledger's verdict with what the table wants."""

    kind: str
    table: Table
    place: str

    def __init__(self) -> None:
        super().__init__()
        self.directory = tempfile.TemporaryDirectory(prefix="wcache-machines-")
        self.ledger = Ledger.open(Path(self.directory.name) / "ledger.sqlite")
        self.lates: list[bool] = []

    def append(self, name: str) -> None:
        authority, steps = self.table[name]
        then = steps.get(self.place)
        (result,) = self.ledger.append_batch([(NewEvent(event=event_of(name)),)])
        if authority and then is None:
            assert isinstance(result, IllegalTransition), f"{name} was taken"
            return
        assert result == [len(self.lates) + 1], result
        self.lates.append(then is None)
        self.moved(name, then)

    def moved(self, name: str, then: str | None) -> None:
        self.place = then or self.place

    def legal(self) -> list[str]:
        return [name for name, (_, steps) in self.table.items() if self.place in steps]

    @rule(data=st.data())
    def any_event(self, data: st.DataObject) -> None:
        self.append(data.draw(st.sampled_from(list(self.table))))

    @precondition(lambda self: self.legal())
    @rule(data=st.data())
    def a_legal_event(self, data: st.DataObject) -> None:
        """So that long lives are lived too."""
        self.append(data.draw(st.sampled_from(self.legal())))

    @invariant()
    def the_projection_has_that_state(self) -> None:
        with closing(Knowledge(self.ledger)) as knowledge:
            assert _projected(knowledge, self.kind, MACHINES[self.kind][0].partition("/")[2]) == _row(self.kind, self.place)

    @invariant()
    def late_events_are_flagged_and_no_illegal_one_is_there(self) -> None:
        assert [item.late for item in self.ledger.events()] == self.lates

    def teardown(self) -> None:
        assert replay(self.ledger) == []
        assert verify(self.ledger.path).ok
        self.ledger.close()
        self.directory.cleanup()


class Residencies(InLedger):
    kind, table, place = "residency", RESIDENCY, "absent"


class Attaches(InLedger):
    kind, table, place = "attach", ATTACH, "asked"

    def __init__(self) -> None:
        super().__init__()
        self.ledger.append_batch([(NewEvent(event=event_of("load.started")), NewEvent(event=event_of("load.completed")))])
        self.lates = [False, False]
        self.proof = ""

    def moved(self, name: str, then: str | None) -> None:
        super().moved(name, then)
        if "decided" in name:
            self.proof = "unproven" if name.endswith(":hit") else ""
        elif name in PROOFS and then is not None:
            self.proof = max(self.proof, PROOFS[name], key=PROOF_STRENGTH.index)

    @invariant()
    def the_projection_has_that_proof(self) -> None:
        with closing(Knowledge(self.ledger)) as knowledge:
            row = knowledge.attach("a-1")
        assert (row["proof"] if row else None) == (self.proof or None)


Residencies.TestCase.settings = FEW
Attaches.TestCase.settings = FEW
TestResidencies = Residencies.TestCase
TestAttaches = Attaches.TestCase
