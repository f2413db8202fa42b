"""Random histories, legal or not: appended through the ledger, judged by a model in memory, replayed, verified."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from support import history

from wcache.core.model import events as ev
from wcache.core.model.errors import IllegalTransition, WcacheError
from wcache.core.model.machines import StreamState, check, evolve, is_late
from wcache.core.model.vocabulary import ResidencyState
from wcache.ledger.replay import replay
from wcache.ledger.store import Ledger, NewEvent
from wcache.ledger.verify import verify

units = st.lists(st.lists(history.events(), min_size=1, max_size=3), min_size=1, max_size=6)


class Model:
    """The plainest ledger: a list and a dict. A unit that is illegal somewhere is as if it had never come."""

    def __init__(self) -> None:
        self.states: dict[str, StreamState] = {}
        self.events: list[tuple[ev.Event, bool]] = []

    def append(self, unit: list[ev.Event]) -> bool:
        states, added = dict(self.states), []
        for event in unit:
            stream = ev.stream_of(event)
            state = states.get(stream, StreamState())
            try:
                check(stream, state, event)
            except IllegalTransition:
                return False
            if isinstance(event, ev.LeaseGranted):
                at = states.get(f"residency/{event.residency}", StreamState()).residency
                if at is not ResidencyState.RESIDENT:
                    return False
            late = is_late(stream, state, event)
            if not late:
                states[stream] = evolve(stream, state, event)
            added.append((event, late))
        self.states = states
        self.events += added
        return True


class Histories(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.directory = tempfile.TemporaryDirectory(prefix="wcache-histories-")
        self.ledger = Ledger.open(Path(self.directory.name) / "ledger.sqlite")
        self.model = Model()
        self.appended: list[NewEvent] = []

    @initialize(start=st.booleans())
    def begin(self, start: bool) -> None:
        if start:
            self.append([history.legal_starts(), [history.decided("a-1"), history.granted("a-1")]])

    @rule(batch=units)
    def append(self, batch: list[list[ev.Event]]) -> None:
        new = [tuple(NewEvent(event=event) for event in unit) for unit in batch]
        for unit, item, result in zip(batch, new, self.ledger.append_batch(new), strict=True):
            legal = self.model.append(unit)
            assert legal is not isinstance(result, WcacheError), result
            if not isinstance(result, WcacheError):
                assert result == list(range(len(self.model.events) - len(unit) + 1, len(self.model.events) + 1))
                self.appended += item

    @rule(data=st.data())
    def retry(self, data: st.DataObject) -> None:
        """The same event again is the same seq, whatever happened since."""
        if self.appended:
            index = data.draw(st.integers(0, len(self.appended) - 1))
            assert self.ledger.append_batch([(self.appended[index],)]) == [[index + 1]]

    @invariant()
    def holds_what_the_model_holds(self) -> None:
        assert [(item.event, item.late) for item in self.ledger.events()] == self.model.events

    def teardown(self) -> None:
        report = verify(self.ledger.path)
        assert report.ok, report.problems
        assert report.events == len(self.model.events)
        self.ledger.close()
        self.directory.cleanup()


Histories.TestCase.settings = settings(max_examples=25, stateful_step_count=12, deadline=None, suppress_health_check=list(HealthCheck))
TestHistories = Histories.TestCase


@settings(max_examples=25, deadline=None)
@given(batches=st.lists(units, min_size=1, max_size=8), size=st.integers(1, 5))
def test_projections_do_not_depend_on_how_events_were_batched(batches: list[list[list[ev.Event]]], size: int) -> None:
    """What replay rebuilds in blocks of its own is what appending left in batches of others."""
    with tempfile.TemporaryDirectory(prefix="wcache-histories-") as directory, Ledger.open(Path(directory) / "ledger.sqlite") as ledger:
        ledger.append_batch([tuple(NewEvent(event=event) for event in history.legal_starts())])
        for batch in batches:
            ledger.append_batch([tuple(NewEvent(event=event) for event in unit) for unit in batch])
        import wcache.ledger.replay as module

        before, module.BLOCK_EVENTS = module.BLOCK_EVENTS, size
        try:
            assert replay(ledger) == []
            assert verify(ledger.path).ok
        finally:
            module.BLOCK_EVENTS = before
