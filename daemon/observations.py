"""Observations: what a client says of its own attach after the decision. A closed set, about nobody else, and with numbers that can be."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wcache.core.model.errors import LedgerError, LedgerUnavailable, RequestRefused, UsageError, WcacheError
from wcache.core.model.events import (
    EVENT_TYPES,
    AttachRedecided,
    Event,
    FallbackCompleted,
    FallbackFailed,
    MapCompleted,
    MapFailed,
    MapPaused,
    MapResumed,
    decode_payload,
)
from wcache.core.wire.messages import Done, Observe
from wcache.daemon.recorder import Outcome
from wcache.ledger.store import NewEvent

if TYPE_CHECKING:
    from wcache.daemon.connection import Connection
    from wcache.daemon.server import Server

_OBSERVED_MAX = 1 << 50  # bytes, milliseconds: sums of these stay within 64 bits
_OBSERVED = (MapCompleted, MapFailed, MapPaused, MapResumed, AttachRedecided, FallbackCompleted, FallbackFailed)


def observe(server: Server, connection: Connection, request: Observe) -> None:
    """What happened in the client after its decision."""
    event = _observed(connection, request)
    unit = [NewEvent(event=event, event_id=request.event_id, occurred_ns=request.occurred_ns)]

    def then(outcome: Outcome) -> None:
        if isinstance(outcome, LedgerUnavailable) and server.recorder.keep(unit):
            connection.reply(Done())
        elif isinstance(outcome, WcacheError):
            connection.fail(outcome)
        else:
            connection.reply(Done(seq=outcome[-1]))

    server.recorder.append(unit, then)


def _observed(connection: Connection, request: Observe) -> Event:
    cls = EVENT_TYPES.get(request.type)
    if cls not in _OBSERVED:
        raise RequestRefused("a client may not report this", where=request.type)
    if len(request.event_id) != 32 or not request.event_id.isalnum():
        raise UsageError("an event id has 32 hex digits", where=request.event_id[:64])
    try:
        event = decode_payload(request.type, cls.schema, request.payload)
    except LedgerError as error:
        raise UsageError(error.what, where=request.type) from None
    numbers = [value for name in event.__struct_fields__ if isinstance(value := getattr(event, name), (int, float))]
    if not all(0 <= number <= _OBSERVED_MAX for number in numbers):
        raise UsageError(f"no size or time is below 0 or over {_OBSERVED_MAX}", where=request.type)
    attach = connection.attach
    if attach is None or not attach.committed or getattr(event, "attach", None) != attach.attach:
        raise RequestRefused("this is about an attach that is not this connection's", where=request.type)
    return event
