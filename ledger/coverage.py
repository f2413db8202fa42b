"""What a ledger can still answer about: since when it has everything, what was dropped, restored and redacted."""

from __future__ import annotations

import sqlite3
from typing import Any

import msgspec

from wcache.core.model.errors import NotFound
from wcache.ledger.moment import utc
from wcache.ledger.segments import History, carried_event
from wcache.ledger.stored import StoredEvent


def coverage(db: sqlite3.Connection, history: History) -> dict[str, Any]:
    """`since` is when the oldest event that is there was recorded; `dropped` has the spans before it, `restored` the seqs from which on
    the ledger goes on as a backup did, `redacted` counts payloads that are gone."""
    row = db.execute("SELECT recorded_ns FROM event ORDER BY seq LIMIT 1").fetchone()
    return {
        "first_seq": history.first_seq,
        "since": utc(row[0]) if row else None,
        "dropped": [
            {**msgspec.to_builtins(span), "from": utc(span.from_ns), "to": utc(span.to_ns), "dropped": utc(span.at_ns)}
            for span in history.spans
        ],
        "restored": [seq for seq, _ in history.origins],
        "redacted": len(history.redacted),
    }


def in_words(found: dict[str, Any]) -> str:
    """One line for a person, of what `coverage` returned."""
    parts = [f"since {found['since']}, seq {found['first_seq']}" if found["since"] else "nothing yet"]
    if found["dropped"]:
        first, last = found["dropped"][0], found["dropped"][-1]
        parts.append(f"seq {first['first_seq']} to {last['last_seq']} ({first['from']} to {last['to']}) were dropped by policy")
    if found["restored"]:
        parts.append(f"restored from a backup before seq {', '.join(map(str, found['restored']))}")
    if found["redacted"]:
        parts.append(f"{found['redacted']} redacted")
    return "; ".join(parts)


def remarks_on(history: History, seq: int) -> list[str]:
    """Sentences about an event that is not, or not where, it was."""
    found = []
    if seq in history.redacted:
        at, redaction = history.redacted[seq]
        found.append(f"Its words were removed by uid {redaction.uid}, recorded as seq {at}: {redaction.why!r}.")
    if seq < history.first_seq:
        found.append(
            f"It was dropped with its segment; the ledger carries it on because something still rests on it (seq {history.dropped_seq})."
        )
    return found


def require_covered(db: sqlite3.Connection, history: History, moment_ns: int) -> None:
    """Raises NotFound for a moment of which the ledger once knew more than it does."""
    if history.spans:
        (since_ns,) = db.execute("SELECT recorded_ns FROM event ORDER BY seq LIMIT 1").fetchone()
        if history.spans[0].from_ns <= moment_ns < since_ns:
            raise NotFound(
                f"the ledger has everything since {utc(since_ns)} only: what was recorded before was dropped by policy",
                where=utc(moment_ns) or "",
                remedy="ask a backup that was made before (`--ledger FILE`)",
            )


def find_dropped(history: History, seq: int) -> StoredEvent | None:
    """An event of a dropped segment that was carried; None for one that was never there. Raises NotFound for one that is gone."""
    for item in history.carried:
        if item.seq == seq:
            return carried_event(item)
    for span in history.spans:
        if span.first_seq <= seq <= span.last_seq:
            raise NotFound(
                f"it was dropped by uid {span.uid} at {utc(span.at_ns)}, with everything up to seq {span.last_seq}",
                where=f"seq {seq}",
                remedy="ask a backup that was made before (`--ledger FILE`)",
            )
    return None
