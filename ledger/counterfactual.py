"""Deciding a recorded attach again, as it was and with one thing changed: what would have turned the decision.

`decide()` is pure, so it answers for the past as well: it is given what the ledger held at the decision's seq (residencies as they stood,
the evidence that was taken, grants and contradictions of then). What the record does not hold, such as the configuration that an engine
asked with, is not guessed: where deciding again does not give what was recorded, that is said, and nothing else is concluded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import combinations
from typing import TYPE_CHECKING

import msgspec

from wcache.core.model import events as ev
from wcache.core.model.decide import HOST, Decision, Request, ResidencyView, agrees, decide
from wcache.core.model.evidence import Contradiction, Coverage, Fingerprint, Grant
from wcache.core.model.machines import StreamState, evolve
from wcache.core.model.policy import Policy
from wcache.core.model.vocabulary import SCALE, Kind, Lineage, Mode, OptIn, Outcome, Reason, ResidencyState, Tier
from wcache.ledger.projection import Accepted, Row, residency_row

if TYPE_CHECKING:
    from wcache.ledger.audit import Audit
    from wcache.ledger.recorded import AuditEvent

DECIDED = frozenset({
    Reason.NOT_RESIDENT, Reason.STILL_LOADING, Reason.RELEASED, Reason.SUSPECT, Reason.CONTENT_MISMATCH, Reason.EVIDENCE_INSUFFICIENT,
    Reason.TRUST_EXPIRED, Reason.CONFIG_MISMATCH, Reason.DEVICE_MISMATCH,
})  # fmt: skip
"""Reasons that `decide()` finds by itself. The others are obstacles: known before any residency is looked at, or met after a hit."""

MAX_TURNS = 6
_ALIKE = 3  # so many of the newest residencies of the asked checkpoint are changed in thought
_NOBODY = "0" * 64  # a digest that no weights have


class Situation(msgspec.Struct, frozen=True, kw_only=True):
    """What `decide()` is given. `residencies` lie in the order in which they were loaded."""

    residencies: tuple[ResidencyView, ...]
    evidence: tuple[Fingerprint, ...]
    request: Request
    policy: Policy
    now_ns: int
    grants: tuple[Grant, ...] = ()
    contradictions: tuple[Contradiction, ...] = ()

    def decide(self) -> Decision:
        return decide(
            self.residencies, self.evidence, self.request, self.policy, self.now_ns, grants=self.grants, contradictions=self.contradictions
        )


class Change(msgspec.Struct, frozen=True):
    """One thing that could have been otherwise: in words that follow "with", and what then is the case. Of one `group` the first that turns
    the decision is enough: the smallest change of a setting."""

    text: str
    apply: Callable[[Situation], Situation]
    group: str = ""


class Turn(msgspec.Struct, frozen=True):
    """Changes that turn the decision, and what it becomes."""

    changes: tuple[str, ...]
    decision: Decision


def situation_at(audit: Audit, item: AuditEvent) -> Situation:
    """What the ledger held when the `attach.decided` of `item` was appended."""
    event = item.event
    assert isinstance(event, ev.AttachDecided)  # noqa: S101
    taken = (audit.fingerprint(reference.fingerprint) for reference in event.evidence)
    request = Request(
        asked=event.asked, kind=event.kind, device=event.device, dtype=event.asked_dtype,
        mode=Mode.COPY if event.mode is Mode.COPY else None, obstacle=event.reason if event.reason not in DECIDED else None,
        obstacle_detail=event.detail, lock=event.lock,
    )  # fmt: skip
    residencies = tuple(_residencies(audit, item))
    if event.kind is Kind.PROCESSED and event.reason is not Reason.CONFIG_MISMATCH:  # then it was theirs
        served = next((view for view in residencies if view.residency == event.residency), None)
        request = msgspec.structs.replace(request, config=served.config if served is not None else {})
    return Situation(
        residencies=residencies, evidence=tuple(found for found in taken if found is not None), request=request, policy=event.policy_body,
        now_ns=item.occurred_ns, grants=audit.grants_at(item.seq), contradictions=audit.contradictions(before_seq=item.seq),
    )  # fmt: skip


def _residencies(audit: Audit, item: AuditEvent) -> Iterator[ResidencyView]:
    event = item.event
    assert isinstance(event, ev.AttachDecided)  # noqa: S101
    for name in audit.residencies_near(item.seq, item.occurred_ns, event.asked):
        row: Row | None = None
        state, completed = StreamState(), None
        stream = f"residency/{name}"
        for told in audit.stream(stream):
            if told.seq > item.seq or told.late:
                continue
            state = evolve(stream, state, told.event)
            named: list[Fingerprint] = []
            if isinstance(told.event, ev.LoadCompleted):
                completed = told.event
                named = [found for found in map(audit.fingerprint, completed.fingerprints) if found is not None]
            accepted = Accepted(told.seq, told.occurred_ns, told.recorded_ns, False, stream, told.event, state)
            row = residency_row(row, accepted, named)
        if row is not None:
            yield _view(row, completed)


def _view(row: Row, completed: ev.LoadCompleted | None) -> ResidencyView:
    return ResidencyView(
        residency=row["residency"], state=ResidencyState(row["state"]), kind=Kind(row["kind"] or Kind.RAW.value),
        device=row["device"] or "", served=msgspec.json.decode(row["served"], type=ev.Identity),
        spellings=tuple(msgspec.json.decode(row["spellings"])),
        weights_digest=row["weights_digest"], table_digest=row["table_digest"], known=msgspec.json.decode(row["known"]),
        dtypes=tuple(msgspec.json.decode(row["dtypes"])), bytes=row["bytes"] or 0, tensors=row["tensors"] or 0,
        config=completed.config if completed else {}, processed_digest=completed.processed_digest if completed else None,
        lineage=completed.lineage if completed else None,
    )  # fmt: skip


def agrees_with_record(again: Decision, event: ev.AttachDecided) -> bool:
    """Whether deciding again gave what was recorded: a hit, or the same reason."""
    return again.reason == event.reason


def turns(situation: Situation) -> list[Turn]:
    """Single changes that turn a miss into a hit, or a hit into something else; pairs of changes where no single one does."""
    now = situation.decide()
    hit = now.outcome is Outcome.HIT
    offered = list(_of_a_hit(situation, now) if hit else _of_a_miss(situation))
    found: list[Turn] = []
    for number in (1, 2):
        groups: set[str] = set()
        for changes in combinations(offered, number):
            other = situation
            for change in changes:
                other = change.apply(other)
            decision = other.decide()
            named = {change.group for change in changes} - {""}
            if (decision.outcome is Outcome.HIT) != hit and not named & groups:
                groups |= named
                found.append(Turn(tuple(change.text for change in changes), decision))
        if found:
            return found[:MAX_TURNS]
    return found


def _request(request: Request) -> Callable[[Situation], Situation]:
    return lambda given: msgspec.structs.replace(given, request=request)


def _policy(**fields: object) -> Callable[[Situation], Situation]:
    return lambda given: msgspec.structs.replace(given, policy=msgspec.structs.replace(given.policy, **fields))


def _of_a_hit(situation: Situation, now: Decision) -> Iterator[Change]:
    policy = situation.policy
    for tier in SCALE:
        if (tier.rank or 0) > (policy.accept_tier.rank or 0):
            yield Change(f"accept = {tier}", _policy(accept=tier.value), "accept")
    if policy.trusted is OptIn.HONOUR:
        yield Change("trusted = ignore", _policy(trusted=OptIn.IGNORE))
    if policy.attested is OptIn.HONOUR:
        yield Change("attested = ignore", _policy(attested=OptIn.IGNORE))
    for grant in situation.grants:
        if any(item.grant == grant.grant for item in situation.evidence):
            yield Change(f"grant {grant.grant} expired", _grant(grant, expires_ns=0))
    other = Fingerprint(tier=Tier.CONTENT, algorithm="", digest=_NOBODY, weights_digest=_NOBODY, coverage=Coverage(0, 0))
    yield Change("a full hash that finds other weights in the files", _evidence(other))
    for view in situation.residencies:
        if view.residency == now.residency:
            yield Change(f"{view.residency} released before", _changed(view, state=ResidencyState.RELEASED))


def _of_a_miss(situation: Situation) -> Iterator[Change]:
    request, policy = situation.request, situation.policy
    if request.obstacle is not None:
        free = msgspec.structs.replace(request, obstacle=None, obstacle_detail="")
        yield Change(f"{request.obstacle} out of the way", _request(free))
    for tier in reversed(SCALE):
        if (tier.rank or 0) < (policy.accept_tier.rank or 0):
            yield Change(f"accept = {tier}", _policy(accept=tier.value), "accept")
    tiers = {item.tier for item in situation.evidence}
    if policy.trusted is OptIn.IGNORE and Tier.TRUSTED in tiers:
        yield Change("trusted = honour", _policy(trusted=OptIn.HONOUR))
    if policy.attested is OptIn.IGNORE and Tier.ATTESTED in tiers:
        yield Change("attested = honour", _policy(attested=OptIn.HONOUR))
    for grant in situation.grants:
        if grant.expired(situation.now_ns) and any(item.grant == grant.grant for item in situation.evidence):
            yield Change(f"grant {grant.grant} still in force", _grant(grant, expires_ns=None))
    alike = [view for view in situation.residencies if view.kind is request.kind and _alike(view, request.asked)][-_ALIKE:]
    for view in alike:
        yield from _of_a_residency(view, request)
    if not alike:
        yield Change("these weights resident, and hashed before", _loaded)
    if situation.contradictions:
        yield Change("no earlier refutation", lambda given: msgspec.structs.replace(given, contradictions=()))


def _of_a_residency(view: ResidencyView, request: Request) -> Iterator[Change]:
    if view.state is ResidencyState.LOADING:
        yield Change(f"the load of {view.residency} completed before", _completed(view))
    elif view.state is not ResidencyState.RESIDENT:
        yield Change(f"{view.residency} resident (it was {view.state})", _changed(view, state=ResidencyState.RESIDENT))
    if view.device not in (request.device, HOST):
        yield Change(f"the weights asked for on {view.device}", _request(msgspec.structs.replace(request, device=view.device)))
    if request.kind is Kind.PROCESSED and view.config != request.config:
        text = f"the configuration that {view.residency} was prepared for"
        yield Change(text, _request(msgspec.structs.replace(request, config=view.config)))
    if view.weights_digest is not None:
        yield Change(f"a full hash that finds the weights of {view.residency} in the files", _hashed(view))


def _alike(view: ResidencyView, asked: ev.Identity) -> bool:
    """Whether somebody who asked for this could have meant these weights."""
    served = view.served
    if asked.spelling in (*view.spellings, served.spelling):
        return True
    pairs = ((asked.root, served.root), (asked.repo, served.repo), (asked.table_digest, view.table_digest))
    return any(left is not None and left == right for left, right in pairs)


def _evidence(item: Fingerprint) -> Callable[[Situation], Situation]:
    return lambda given: msgspec.structs.replace(given, evidence=(*given.evidence, item))


def _grant(grant: Grant, **fields: object) -> Callable[[Situation], Situation]:
    def apply(given: Situation) -> Situation:
        changed = tuple(msgspec.structs.replace(item, **fields) if item.grant == grant.grant else item for item in given.grants)
        return msgspec.structs.replace(given, grants=changed)

    return apply


def _changed(view: ResidencyView, **fields: object) -> Callable[[Situation], Situation]:
    def apply(given: Situation) -> Situation:
        changed = (msgspec.structs.replace(item, **fields) if item.residency == view.residency else item for item in given.residencies)
        return msgspec.structs.replace(given, residencies=tuple(changed))

    return apply


def _hashed(view: ResidencyView) -> Callable[[Situation], Situation]:
    """The files are what is resident: evidence to the contrary was not there either."""

    def apply(given: Situation) -> Situation:
        kept = (item for item in given.evidence if agrees(item, view) is not False and item.tier is not Tier.SAMPLED)
        content = Fingerprint(
            tier=Tier.CONTENT, algorithm="", digest=view.weights_digest or "", weights_digest=view.weights_digest,
            table_digest=view.table_digest, coverage=Coverage(0, 0),
        )  # fmt: skip
        return msgspec.structs.replace(given, evidence=(*kept, content))

    return apply


def _completed(view: ResidencyView) -> Callable[[Situation], Situation]:
    """A load hashes the files that it reads, so whoever asks for them afterwards has that evidence."""
    done = {"state": ResidencyState.RESIDENT, "weights_digest": view.weights_digest or _NOBODY}
    resident = msgspec.structs.replace(view, **done)
    return lambda given: _hashed(resident)(_changed(view, **done)(given))


def _loaded(given: Situation) -> Situation:
    """The checkpoint had been loaded as it was asked for."""
    asked = given.request.asked
    digest = asked.digest or _NOBODY
    view = ResidencyView(
        residency="", state=ResidencyState.RESIDENT, kind=given.request.kind, device=given.request.device,
        served=msgspec.structs.replace(asked, digest=digest), spellings=(asked.spelling,), weights_digest=digest,
        table_digest=asked.table_digest, config=given.request.config, lineage=Lineage.PROVEN,
    )  # fmt: skip
    return _hashed(view)(msgspec.structs.replace(given, residencies=(*given.residencies, view)))
