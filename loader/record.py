"""Recording without a server: the loader appends its own miss or fallback, and where the ledger cannot take it, to the journal.

Needs as little of the rest as can be, since it also records that the rest cannot be imported.
"""

from __future__ import annotations

import os
import secrets
import time
import uuid
from typing import TYPE_CHECKING

import msgspec

from wcache.core.model import decide as model
from wcache.core.model.decide import Decision, Request
from wcache.core.model.errors import IllegalTransition, LedgerError, WcacheError
from wcache.core.model.events import AttachDecided, AttachRedecided, Event, FallbackFailed, Peer
from wcache.core.model.vocabulary import Outcome, Reason
from wcache.core.settings import Settings
from wcache.loader import log
from wcache.loader.question import Question

if TYPE_CHECKING:
    from wcache.ledger.store import Unit

JOURNAL_NAME = "journal.jsonl"


def new_event_id() -> str:
    return uuid.uuid4().hex


def decided_event(attach: str, question: Question, request: Request, decision: Decision, settings: Settings) -> AttachDecided:
    """`attach.decided` as this process says it, for a decision that no server could record."""
    return model.decided_event(
        decision, request, settings.policy, attach=attach, launch=question.launch, host=question.host, engine=question.engine,
        peer=Peer(uid=os.geteuid(), pid=os.getpid()), ranks=question.ranks, by="loader",
    )  # fmt: skip


def record_miss(event: AttachDecided, settings: Settings) -> int | None:
    """Append a miss that this process decided alone; its seq, or None where it went to the journal.

    A server that died after it recorded a hit has said something else about this attach: then this is a redecision of it.
    """
    try:
        return _append(event, new_event_id(), settings)
    except IllegalTransition:
        again = AttachRedecided(
            attach=event.attach, outcome=event.outcome, reason=event.reason or Reason.PROTOCOL_ERROR, detail=event.detail
        )
    try:
        return _append(again, new_event_id(), settings)
    except IllegalTransition:
        return None  # the server recorded a miss of its own, or weights have arrived


def record_event(event: Event, event_id: str, settings: Settings) -> int | None:
    """Append what happened in this process; its seq, or None where it went to the journal or is no news to the ledger."""
    try:
        return _append(event, event_id, settings)
    except IllegalTransition:
        return None


def record_refusal(question: Question, settings: Settings, problem: WcacheError) -> None:
    """An attach that could not even be asked for, and its end: the process that needed the weights does not start."""
    request = msgspec.structs.replace(question.request(), obstacle=Reason.UNSUPPORTED, obstacle_detail=str(problem))
    decision = model.decide((), (), request, settings.policy, time.time_ns())
    attach = "a-" + secrets.token_hex(8)
    record_miss(decided_event(attach, question, request, decision, settings), settings)
    if decision.outcome is Outcome.FALLBACK:
        record_event(FallbackFailed(attach=attach, code=problem.code, message=str(problem), idle_bytes=0), new_event_id(), settings)


def _append(event: Event, event_id: str, settings: Settings) -> int | None:
    """Opened for this one append and closed again: a handle that lives on would be shared by forked children."""
    from wcache.ledger.journal import Journal
    from wcache.ledger.store import Ledger, NewEvent

    unit = (NewEvent(event=event, event_id=event_id, occurred_ns=time.time_ns()),)
    if settings.foreign:
        _keep_own(unit, settings)
        return None
    try:
        ledger = Ledger.open(settings.ledger)
        try:
            result = ledger.append_batch([unit])[0]
        finally:
            ledger.close()
        if isinstance(result, WcacheError):
            raise result
        return result[0]
    except LedgerError as failure:
        try:
            settings.runtime_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
            Journal(settings.runtime_dir / JOURNAL_NAME).write(unit)
        except (OSError, WcacheError) as error:
            log.unrecorded(f"{failure}; {error}")
        return None


def _keep_own(unit: Unit, settings: Settings) -> None:
    """The ledger is another user's, who alone may write it: what its daemon was not there to record stays with this user."""
    from wcache.ledger.journal import Journal

    path = settings.state_dir / JOURNAL_NAME
    try:
        Journal(path).write(unit)
        log.kept_own(settings.daemon_uid, str(path))
    except WcacheError as error:
        log.unrecorded(f"the ledger is uid {settings.daemon_uid}'s; {error}")
