"""The state machines of a residency, an attach and a grant (DESIGN: state machines).

`evolve` is total: every state takes every event. An authority event that is not in the table is illegal and must not be appended
(`check`); an observation that is not in the table leaves the state as it is and is flagged late (`is_late`).
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from wcache.core.model import events as ev
from wcache.core.model.errors import IllegalTransition
from wcache.core.model.vocabulary import AttachState, Mode, Outcome, Proof, ResidencyState

R = ResidencyState
A = AttachState

RESIDENCY_TABLE: Mapping[tuple[ResidencyState, str], ResidencyState] = {
    (R.ABSENT, "load.started"): R.LOADING,
    (R.ABSENT, "load.failed"): R.FAILED,  # refused before it began: an invalid checkpoint, no room
    (R.LOADING, "load.completed"): R.RESIDENT,
    (R.LOADING, "load.failed"): R.FAILED,
    (R.LOADING, "residency.lost"): R.LOST,
    (R.RESIDENT, "release.requested"): R.RELEASING,
    (R.RESIDENT, "release.refused"): R.RESIDENT,
    (R.RESIDENT, "residency.lost"): R.LOST,
    (R.RESIDENT, "residency.readopted"): R.RESIDENT,
    (R.RESIDENT, "mutation.detected"): R.SUSPECT,
    (R.RESIDENT, "verify.passed"): R.RESIDENT,
    (R.RESIDENT, "verify.failed"): R.RESIDENT,
    (R.RESIDENT, "verify.inconclusive"): R.RESIDENT,
    (R.SUSPECT, "release.requested"): R.RELEASING,
    (R.SUSPECT, "release.refused"): R.SUSPECT,
    (R.SUSPECT, "residency.lost"): R.LOST,
    (R.SUSPECT, "residency.readopted"): R.SUSPECT,
    (R.SUSPECT, "mutation.detected"): R.SUSPECT,
    (R.SUSPECT, "verify.passed"): R.SUSPECT,
    (R.SUSPECT, "verify.failed"): R.SUSPECT,
    (R.SUSPECT, "verify.inconclusive"): R.SUSPECT,
    (R.RELEASING, "release.requested"): R.RELEASING,  # a deferred one, forced later
    (R.RELEASING, "release.completed"): R.RELEASED,
    (R.RELEASING, "mutation.detected"): R.RELEASING,  # the end-of-life check comes between request and completion
    (R.RELEASING, "verify.passed"): R.RELEASING,
    (R.RELEASING, "verify.failed"): R.RELEASING,
    (R.RELEASING, "verify.inconclusive"): R.RELEASING,
    (R.RELEASING, "residency.lost"): R.LOST,
}
"""(state, stored event type) -> next state. What is not here is illegal (authority) or late (observation)."""

LIVE_RESIDENCY = frozenset({R.LOADING, R.RESIDENT, R.SUSPECT, R.RELEASING})
"""States in which a daemon still holds, or is about to hold, memory."""


class AttachView(msgspec.Struct, frozen=True):
    """State of one attach: where it stands, the outcome that counts, whether weights ever arrived, and what is known of the hit."""

    state: AttachState = A.ASKED
    outcome: Outcome | None = None
    arrived: bool = False
    proof: Proof | None = None


LEASED = frozenset({A.GRANTED, A.MAPPED, A.COPIED})
"""States in which an attach holds a lease: `leased` of a residency is the count of these."""

UNFINISHED = frozenset({A.ASKED, A.DECIDED, A.GRANTED})
"""States that say how an attach began and not how it went."""

_PROOF_STRENGTH = {None: -1, Proof.UNPROVEN: 0, Proof.UNPROVABLE: 1, Proof.PROVED: 2, Proof.REFUTED: 3}
_VERIFIED = {"verify.passed": Proof.PROVED, "verify.failed": Proof.REFUTED, "verify.inconclusive": Proof.UNPROVABLE}


ATTACH_LOOKS_AT: Mapping[str, str] = {"attach.decided": "outcome", "attach.redecided": "outcome", "map.completed": "mode"}
"""Stored event type -> the one field that the step of an attach depends on besides its type and the view: steps can be remembered."""


def evolve_residency(state: ResidencyState, event: ev.Event) -> ResidencyState:
    return RESIDENCY_TABLE.get((state, event.type), state)


def _attach_step(view: AttachView, event: ev.Event) -> AttachView | None:
    """The next view, or None where the table has no entry."""
    state, replace = view.state, msgspec.structs.replace
    if isinstance(event, ev.AttachDecided):
        if state is not A.ASKED:
            return None
        hit = event.outcome is Outcome.HIT
        return AttachView(
            state=A.MISSED if event.outcome is Outcome.STRICT_MISS else A.DECIDED,
            outcome=event.outcome,
            proof=Proof.UNPROVEN if hit else None,
        )
    if isinstance(event, ev.AttachRedecided):
        # A map that failed, or a lease that ended before anything arrived, is decided again; never one that has its weights.
        if view.outcome is not Outcome.HIT or view.arrived or state not in (A.GRANTED, A.FAILED, A.ENDED):
            return None
        return AttachView(state=A.MISSED if event.outcome is Outcome.STRICT_MISS else A.DECIDED, outcome=event.outcome)
    if isinstance(event, ev.LeaseGranted):
        return replace(view, state=A.GRANTED) if state is A.DECIDED and view.outcome is Outcome.HIT else None
    if isinstance(event, ev.MapCompleted):
        if state is not A.GRANTED:
            return None
        return replace(view, state=A.COPIED if event.mode is Mode.COPY else A.MAPPED, arrived=True)
    if isinstance(event, (ev.MapPaused, ev.MapResumed)):
        return view if state is A.MAPPED else None
    if isinstance(event, ev.MapFailed):
        return replace(view, state=A.FAILED) if state is A.GRANTED else None
    if isinstance(event, ev.LeaseEnded):
        return replace(view, state=A.ENDED) if state in LEASED else None
    if isinstance(event, ev.FallbackCompleted):
        return replace(view, state=A.FELL_BACK) if state is A.DECIDED and view.outcome is Outcome.FALLBACK else None
    if isinstance(event, ev.FallbackFailed):
        return replace(view, state=A.FAILED) if state is A.DECIDED and view.outcome is Outcome.FALLBACK else None
    proof = _VERIFIED.get(event.type)
    if proof is not None and view.outcome is Outcome.HIT:
        # A refutation stands for ever; a proof is not undone by files that went away later.
        return replace(view, proof=proof) if _PROOF_STRENGTH[proof] > _PROOF_STRENGTH[view.proof] else view
    return None


def evolve_attach(view: AttachView, event: ev.Event) -> AttachView:
    return _attach_step(view, event) or view


GRANT_TABLE: Mapping[tuple[str, str], str] = {("absent", "trust.granted"): "active", ("active", "trust.revoked"): "revoked"}


def evolve_grant(state: str, event: ev.Event) -> str:
    return GRANT_TABLE.get((state, event.type), state)


class StreamState(msgspec.Struct, frozen=True):
    """State of any stream; exactly the part that its kind has is meaningful."""

    residency: ResidencyState = R.ABSENT
    attach: AttachView = AttachView()
    grant: str = "absent"


def evolve(stream: str, state: StreamState, event: ev.Event) -> StreamState:
    """Total: an event that the stream's machine does not know leaves the state unchanged."""
    kind = stream.partition("/")[0]
    if kind == "residency":
        return msgspec.structs.replace(state, residency=evolve_residency(state.residency, event))
    if kind == "attach":
        return msgspec.structs.replace(state, attach=evolve_attach(state.attach, event))
    if kind == "trust":
        return msgspec.structs.replace(state, grant=evolve_grant(state.grant, event))
    return state


def _has_step(stream: str, state: StreamState, event: ev.Event) -> bool:
    kind = stream.partition("/")[0]
    if kind == "residency":
        return (state.residency, event.type) in RESIDENCY_TABLE
    if kind == "attach":
        return _attach_step(state.attach, event) is not None
    if kind == "trust":
        return (state.grant, event.type) in GRANT_TABLE
    return True


def check(stream: str, state: StreamState, event: ev.Event) -> None:
    """Raises IllegalTransition for an authority event that the stream's machine does not allow now, or that is on a foreign stream."""
    if ev.stream_of(event) != stream:
        raise IllegalTransition("stream", stream, event.type, where=stream)
    if not event.authority or _has_step(stream, state, event):
        return
    kind = stream.partition("/")[0]
    at = {"residency": state.residency.value, "attach": state.attach.state.value, "trust": state.grant}[kind]
    raise IllegalTransition(kind, at, event.type, where=stream)


def is_late(stream: str, state: StreamState, event: ev.Event) -> bool:
    """True for an observation that tells of something the state has already left behind."""
    return not event.authority and not _has_step(stream, state, event)
