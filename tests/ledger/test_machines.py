"""Both state machines through a real ledger, against tables written down here by hand from the design and not taken from the code.

An authority event that is not in the table cannot be appended; an observation always can, and where it comes late it is flagged and
changes no state; what the projection says is what the table says; replay agrees at the end.
"""

from __future__ import annotations

import tempfile
from contextlib import closing
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from support import history

from wcache.core.model import events as ev
from wcache.core.model.errors import IllegalTransition
from wcache.core.model.vocabulary import Mode, Outcome, ResidencyState
from wcache.ledger.knowledge import Knowledge
from wcache.ledger.replay import replay
from wcache.ledger.store import Ledger, NewEvent
from wcache.ledger.verify import verify

FEW = settings(max_examples=20, stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck))


class InLedger(RuleBasedStateMachine):
    """One stream; `append` compares the ledger's verdict with what the table wants."""

    def __init__(self) -> None:
        super().__init__()
        self.directory = tempfile.TemporaryDirectory(prefix="wcache-machines-")
        self.ledger = Ledger.open(Path(self.directory.name) / "ledger.sqlite")
        self.lates: list[bool] = []

    def append(self, event: ev.Event, next_state: str | None, authority: bool) -> bool:
        """Whether it was taken as a step. `next_state` None: not in the table."""
        (result,) = self.ledger.append_batch([(NewEvent(event=event),)])
        if authority and next_state is None:
            assert isinstance(result, IllegalTransition), f"{event.type} was taken"
            return False
        assert result == [len(self.lates) + 1], result
        self.lates.append(next_state is None)
        return next_state is not None

    @invariant()
    def late_events_are_flagged_and_no_illegal_one_is_there(self) -> None:
        assert [item.late for item in self.ledger.events()] == self.lates

    def teardown(self) -> None:
        assert replay(self.ledger) == []
        assert verify(self.ledger.path).ok
        self.ledger.close()
        self.directory.cleanup()


# Event name -> is it an authority event, and from which state to which.
_KEEPS = {"resident": "resident", "suspect": "suspect"}
RESIDENCY: dict[str, tuple[bool, dict[str, str]]] = {
    "load.started": (True, {"absent": "loading"}),
    "load.completed": (True, {"loading": "resident"}),
    "load.failed": (True, {"absent": "failed", "loading": "failed"}),
    "release.requested": (True, {"resident": "releasing", "suspect": "releasing"}),
    "release.refused": (False, _KEEPS),  # says who asked; it moves nothing
    "release.completed": (True, {"releasing": "released"}),
    "residency.lost": (False, {"loading": "lost", "resident": "lost", "suspect": "lost", "releasing": "lost"}),
    "residency.readopted": (False, _KEEPS),
    "mutation.detected": (False, {"resident": "suspect", "suspect": "suspect"}),
    "verify.passed": (False, _KEEPS),
    "verify.failed": (False, _KEEPS),
}
_RESIDENCY_EVENTS: dict[str, ev.Event] = {
    "load.started": history.load_started(),
    "load.completed": history.load_completed(),
    "load.failed": history.load_failed(),
    "release.requested": history.release_requested(),
    "release.refused": ev.ReleaseRefused(residency="r-1", uid=0, why="leased", leases=("a-1",)),
    "release.completed": ev.ReleaseCompleted(residency="r-1", bytes=1000),
    "residency.lost": ev.ResidencyLost(residency="r-1", why="gone"),
    "residency.readopted": ev.ResidencyReadopted(residency="r-1", instance="d-2"),
    "mutation.detected": ev.MutationDetected(residency="r-1", tensors=("w",)),
    "verify.passed": history.verify_passed(attach=None),
    "verify.failed": history.verify_failed(attach=None),
}


class Residencies(InLedger):
    def __init__(self) -> None:
        super().__init__()
        self.state = "absent"

    @rule(name=st.sampled_from(sorted(RESIDENCY)))
    def any_event(self, name: str) -> None:
        authority, steps = RESIDENCY[name]
        if self.append(_RESIDENCY_EVENTS[name], steps.get(self.state), authority):
            self.state = steps[self.state]

    @precondition(lambda self: any(self.state in steps for _, steps in RESIDENCY.values()))
    @rule(data=st.data())
    def a_legal_event(self, data: st.DataObject) -> None:
        """So that long lives are lived too."""
        self.any_event(data.draw(st.sampled_from(sorted(name for name, (_, steps) in RESIDENCY.items() if self.state in steps))))

    @invariant()
    def the_projection_has_that_state(self) -> None:
        with closing(Knowledge(self.ledger)) as knowledge:
            rows = [item.view.state.value for item in knowledge.residencies(ResidencyState)]
        assert rows == ([] if self.state == "absent" else [self.state])


ATTACH: dict[str, tuple[bool, dict[str, str]]] = {
    "decided hit": (True, {"asked": "decided"}),
    "decided fallback": (True, {"asked": "decided"}),
    "decided strict_miss": (True, {"asked": "missed"}),
    "redecided fallback": (True, {"granted": "decided", "failed": "decided", "ended": "decided"}),
    "redecided strict_miss": (True, {"granted": "missed", "failed": "missed", "ended": "missed"}),
    "lease.granted": (True, {"decided": "granted"}),
    "map.completed": (False, {"granted": "mapped"}),
    "map.completed copy": (False, {"granted": "copied"}),
    "map.failed": (False, {"granted": "failed"}),
    "lease.ended": (False, {"granted": "ended", "mapped": "ended", "copied": "ended"}),
    "fallback.completed": (False, {"decided": "fell_back"}),
    "fallback.failed": (False, {"decided": "failed"}),
}
_ATTACH_EVENTS: dict[str, ev.Event] = {
    "decided hit": history.decided(),
    "decided fallback": history.decided(outcome=Outcome.FALLBACK),
    "decided strict_miss": history.decided(outcome=Outcome.STRICT_MISS),
    "redecided fallback": history.redecided(),
    "redecided strict_miss": history.redecided(outcome=Outcome.STRICT_MISS),
    "lease.granted": history.granted(),
    "map.completed": history.mapped(),
    "map.completed copy": history.mapped(mode=Mode.COPY),
    "map.failed": history.map_failed(),
    "lease.ended": history.lease_ended(),
    "fallback.completed": history.fell_back(),
    "fallback.failed": ev.FallbackFailed(attach="a-1", code="x", message="y", idle_bytes=3),
}
PROOFS = {"verify.passed": "proved", "verify.failed": "refuted", "verify.inconclusive": "unprovable"}
_STRENGTH = ["unproven", "unprovable", "proved", "refuted"]


class Attaches(InLedger):
    """The outcome that counts decides which of a decided attach's ways are open."""

    def __init__(self) -> None:
        super().__init__()
        self.lates = [False, False]
        self.ledger.append_batch([(NewEvent(event=history.load_started()), NewEvent(event=history.load_completed()))])
        self.state, self.outcome, self.proof = "asked", "", ""
        self.arrived = False

    def _next(self, name: str) -> str | None:
        step = ATTACH[name][1].get(self.state)
        if name.startswith("redecided") and (self.outcome != "hit" or self.arrived):
            return None
        if name == "lease.granted" and self.outcome != "hit":
            return None
        if name.startswith("fallback") and self.outcome != "fallback":
            return None
        return step

    @rule(name=st.sampled_from(sorted(ATTACH)))
    def any_event(self, name: str) -> None:
        following = self._next(name)
        if not self.append(_ATTACH_EVENTS[name], following, ATTACH[name][0]):
            return
        self.state = str(following)
        if "decided" in name:
            self.outcome = name.partition(" ")[2]
            self.proof = "unproven" if self.outcome == "hit" else ""
        self.arrived = self.arrived or self.state in ("mapped", "copied")

    @precondition(lambda self: any(self._next(name) for name in ATTACH))
    @rule(data=st.data())
    def a_legal_event(self, data: st.DataObject) -> None:
        self.any_event(data.draw(st.sampled_from(sorted(name for name in ATTACH if self._next(name)))))

    @rule(name=st.sampled_from(sorted(PROOFS)))
    def a_proof(self, name: str) -> None:
        """Of a hit; it never moves the attach itself, and a stronger one stands."""
        event: Any = {"verify.passed": history.verify_passed(), "verify.failed": history.verify_failed()}.get(name)
        hit = self.outcome == "hit"
        if self.append(event or history.inconclusive(), "as it is" if hit else None, authority=False):
            self.proof = max(self.proof, PROOFS[name], key=_STRENGTH.index)

    @invariant()
    def the_projection_has_that_state(self) -> None:
        with closing(Knowledge(self.ledger)) as knowledge:
            row = knowledge.attach("a-1")
        if self.state == "asked":
            assert row is None
            return
        assert row is not None
        assert (row["state"], row["decision"], row["proof"] or "") == (self.state, self.outcome, self.proof)


Residencies.TestCase.settings = FEW
Attaches.TestCase.settings = FEW
TestResidencies = Residencies.TestCase
TestAttaches = Attaches.TestCase
