"""The three state machines as docs/architecture.md and docs/adr/0009 have them, written down by hand: what the code is compared with.

A table says for each event, by its name in `support.histories`, whether it is an authority event and from which place it leads where.
What is not in it is illegal for an authority event; for an observation it is late and moves nothing.
"""

from __future__ import annotations

from collections.abc import Mapping

from wcache.core.model.machines import AttachView, StreamState
from wcache.core.model.vocabulary import AttachState, Outcome, ResidencyState

Table = Mapping[str, tuple[bool, Mapping[str, str]]]


def _stay(*places: str) -> dict[str, str]:
    return {place: place for place in places}


_HELD = ("resident", "suspect")
_CHECKED = (*_HELD, "releasing")  # the check at the end of a life comes between the request and the completion of a release

RESIDENCY: Table = {
    "load.started": (True, {"absent": "loading"}),
    "load.completed": (True, {"loading": "resident"}),
    "load.failed": (True, {"absent": "failed", "loading": "failed"}),  # absent: refused before it began
    # Asked again while it is deferred: forced, or to be told when it is over.
    "release.requested": (True, {"resident": "releasing", "suspect": "releasing", "releasing": "releasing"}),
    "release.refused": (False, _stay(*_HELD)),  # says who asked
    "release.completed": (True, {"releasing": "released"}),
    "residency.lost": (False, {"loading": "lost", "resident": "lost", "suspect": "lost", "releasing": "lost"}),
    "residency.readopted": (False, _stay(*_HELD)),
    # The memory of one that is being released goes either way; the record says in which condition.
    "mutation.detected": (False, {"resident": "suspect", **_stay("suspect", "releasing")}),
    # A verification says what was found; only a mutation casts suspicion, and nothing takes it away.
    "verify.passed:residency": (False, _stay(*_CHECKED)),
    "verify.failed:residency": (False, _stay(*_CHECKED)),
    "verify.inconclusive:residency": (False, _stay(*_CHECKED)),
}

ATTACH_PLACES: Mapping[str, AttachView] = {
    "asked": AttachView(),
    "decided hit": AttachView(AttachState.DECIDED, Outcome.HIT),
    "decided fallback": AttachView(AttachState.DECIDED, Outcome.FALLBACK),
    "missed": AttachView(AttachState.MISSED, Outcome.STRICT_MISS),
    "granted": AttachView(AttachState.GRANTED, Outcome.HIT),
    "mapped": AttachView(AttachState.MAPPED, Outcome.HIT, arrived=True),
    "copied": AttachView(AttachState.COPIED, Outcome.HIT, arrived=True),
    "map failed": AttachView(AttachState.FAILED, Outcome.HIT),
    "ended early": AttachView(AttachState.ENDED, Outcome.HIT),  # before anything arrived
    "ended": AttachView(AttachState.ENDED, Outcome.HIT, arrived=True),
    "fell back": AttachView(AttachState.FELL_BACK, Outcome.FALLBACK),
    "fallback failed": AttachView(AttachState.FAILED, Outcome.FALLBACK),
}
"""Where an attach can be: more than its states, since the outcome and whether weights arrived decide which ways are open. Without proof."""

_OF_A_HIT = tuple(place for place, view in ATTACH_PLACES.items() if view.outcome is Outcome.HIT)
_WITHOUT_WEIGHTS = ("granted", "map failed", "ended early")  # a hit that has its weights is never decided again

ATTACH: Table = {
    "attach.decided:hit": (True, {"asked": "decided hit"}),
    "attach.decided:fallback": (True, {"asked": "decided fallback"}),
    "attach.decided:strict_miss": (True, {"asked": "missed"}),
    "attach.redecided:fallback": (True, dict.fromkeys(_WITHOUT_WEIGHTS, "decided fallback")),
    "attach.redecided:strict_miss": (True, dict.fromkeys(_WITHOUT_WEIGHTS, "missed")),
    "lease.granted": (True, {"decided hit": "granted"}),
    "map.completed:zero_copy": (False, {"granted": "mapped"}),
    "map.completed:copy": (False, {"granted": "copied"}),
    "map.failed": (False, {"granted": "map failed"}),
    # A lease that is paused is still that lease: what is resumed is the same memory.
    "map.paused": (False, _stay("mapped")),
    "map.resumed": (False, _stay("mapped")),
    "lease.ended": (False, {"granted": "ended early", "mapped": "ended", "copied": "ended"}),
    "fallback.completed": (False, {"decided fallback": "fell back"}),
    "fallback.failed": (False, {"decided fallback": "fallback failed"}),
    "verify.passed": (False, _stay(*_OF_A_HIT)),  # what is known of a hit is apart from where it stands: PROOFS
    "verify.failed": (False, _stay(*_OF_A_HIT)),
    "verify.inconclusive": (False, _stay(*_OF_A_HIT)),
}

PROOFS = {"verify.passed": "proved", "verify.failed": "refuted", "verify.inconclusive": "unprovable"}
PROOF_STRENGTH = ["unproven", "unprovable", "proved", "refuted"]
"""A stronger one stands: a refutation for ever, a proof against files that went away later."""

GRANT: Table = {
    "trust.granted": (True, {"absent": "active"}),
    "trust.revoked": (True, {"active": "revoked"}),
}

MACHINES: Mapping[str, tuple[str, Table, Mapping[str, StreamState]]] = {
    "residency": ("residency/r-1", RESIDENCY, {state.value: StreamState(residency=state) for state in ResidencyState}),
    "attach": ("attach/a-1", ATTACH, {place: StreamState(attach=view) for place, view in ATTACH_PLACES.items()}),
    "trust": ("trust/g-1", GRANT, {place: StreamState(grant=place) for place in ("absent", "active", "revoked")}),
}
"""Kind of stream -> the stream of `support.histories`, its table, and the state that each place is."""

PAIRS = [(kind, place, name) for kind, (_, table, places) in MACHINES.items() for place in places for name in table]
"""Every place of every machine with every event of it."""


def paths(table: Table, start: str) -> dict[str, tuple[str, ...]]:
    """The shortest way to every place that can be reached, as names of events."""
    found: dict[str, tuple[str, ...]] = {start: ()}
    queue = [start]
    for place in queue:
        for name, (_, steps) in table.items():
            if (then := steps.get(place)) is not None and then not in found:
                found[then] = (*found[place], name)
                queue.append(then)
    return found
