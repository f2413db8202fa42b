"""Removing the words of events that are long past, and keeping what states, counts and proofs need of them.

The row's hash stays, so chain, checkpoints and proofs stand as they did; payload and salt go, so what was there cannot be guessed from the
hash. `payload.redacted` keeps numbers, ids, digests and members of closed sets: which decision it was, not whose path.
"""

from __future__ import annotations

import enum
import os
import sqlite3
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from wcache.core.model import events as ev
from wcache.core.model.errors import NotFound, RequestRefused, UsageError
from wcache.core.model.evidence import Grant, Location
from wcache.core.model.machines import LIVE_RESIDENCY
from wcache.core.model.policy import Policy
from wcache.core.model.vocabulary import REDACTED
from wcache.ledger.database import driver
from wcache.ledger.rebuild import Progress, ignore, offline, write_anew
from wcache.ledger.segments import OPEN_ATTACHES, History, history_of
from wcache.ledger.store import NewEvent
from wcache.ledger.stored import EVENT_COLUMNS, StoredEvent, stored_event

_KEPT_TEXTS = frozenset(
    {
        "attach", "launch", "residency", "fingerprint", "fingerprints", "grant", "instance", "policy", "leases", "left", "reuses", "digest",
        "table_digest", "weights_digest", "processed_digest", "expected", "found", "key", "asked_key", "commit", "seed_id", "nonce",
        "algorithm", "name", "version", "kind", "device", "dtypes", "asked_dtype", "code", "by", "decided_by", "noticed_by", "how",
        "checked", "boot_id", "origin", "source",
    }
)  # fmt: skip
"""Texts that are ids, digests or words of the code. What is not named here is blanked: also what a later release adds."""


ALSO_EVENTS = 20
ALSO_CHARACTERS = 4  # shorter ones are everywhere


class Redaction(msgspec.Struct, frozen=True, kw_only=True):
    """One payload that was removed, and the seq of the `payload.redacted` that says so. `also` are the first other events that have one
    of its words: each is a decision of its own."""

    seq: int
    type: str
    stream: str
    recorded_seq: int
    also: tuple[int, ...] = ()


def redact(path: Path | str, seqs: Sequence[int], why: str, progress: Progress = ignore) -> list[Redaction]:
    """Removes the payloads of these events from the ledger, offline: it is written anew, and the old file is gone afterwards.

    Raises UsageError (no seq, no reason, redacted already), NotFound, RequestRefused for an event that must stay, LedgerUnavailable where
    somebody has the ledger open, LedgerCorrupt where it is damaged. Then nothing has changed.
    """
    wanted = sorted(set(seqs))
    if not wanted or not why.strip():
        raise UsageError("a redaction needs the seq of an event, and a reason", remedy="wcache ledger redact 1234 --reason WHY")
    with offline(path, progress) as alone:
        with alone.engine.begin() as connection:
            db = driver(connection)
            history = history_of(connection, alone.path)
            events = [_find(db, history, seq) for seq in wanted]
            held = _held(db)
            also = [_also(db, item, wanted) for item in events]
        for item in events:
            reason = why_not(item, held)
            if reason:
                raise RequestRefused(reason, where=f"seq {item.seq} ({item.type})", detail="must_stay")
        alone.require_sound(alone.path, "verify")
        made = [
            ev.PayloadRedacted(
                target_seq=item.seq, why=why, uid=os.geteuid(), body=blanked(item.event), body_schema=type(item.event).schema
            )
            for item in events
        ]  # fmt: skip
        after = msgspec.structs.replace(history, redacted={**history.redacted, **{item.target_seq: (0, item) for item in made}})
        recorded = write_anew(alone, after, frozenset(wanted), [NewEvent(event=item) for item in made])
        alone.exchange()
    return [
        Redaction(seq=item.seq, type=item.type, stream=item.stream, recorded_seq=seq, also=rest)
        for item, seq, rest in zip(events, recorded, also, strict=True)
    ]


def blanked(event: ev.Event) -> dict[str, Any]:
    """The payload with every text that is no id, digest or word of a closed set replaced by one that says so."""
    return {field: _blank(field, getattr(event, field)) for field in event.__struct_fields__}


def _blank(name: str, value: Any) -> Any:
    if value is None or isinstance(value, (bool, int, float)):
        return value
    if isinstance(value, (enum.Enum, Policy)):
        return msgspec.to_builtins(value)
    if isinstance(value, str):
        return value if not value or name in _KEPT_TEXTS else REDACTED
    if isinstance(value, Location):
        return None  # names of files, and where they lay
    if isinstance(value, msgspec.Struct):
        return {field: _blank(field, getattr(value, field)) for field in value.__struct_fields__}
    if isinstance(value, dict):  # its keys are names, or words of the code
        return {key: item for key, item in value.items() if isinstance(item, (int, float))}
    return [_blank(name, item) for item in value]


def _also(db: sqlite3.Connection, item: StoredEvent, wanted: Sequence[int]) -> tuple[int, ...]:
    words = sorted(word for word in _words("", item.event) if len(word) >= ALSO_CHARACTERS)
    having = " OR ".join(["instr(payload, ?)"] * len(words))
    quoted = [msgspec.json.encode(word).decode() for word in words]
    sql = f"SELECT seq FROM event WHERE ({having}) AND seq NOT IN ({','.join('?' * len(wanted))}) ORDER BY seq LIMIT {ALSO_EVENTS}"  # noqa: S608
    return tuple(seq for (seq,) in db.execute(sql, (*quoted, *wanted))) if words else ()


def _words(name: str, value: Any) -> set[str]:
    """The texts of a payload that `_blank` removes."""
    if isinstance(value, str) and not isinstance(value, enum.Enum):
        return set() if name in _KEPT_TEXTS or name == "host" else {value}  # a host is in every attach of it
    if isinstance(value, msgspec.Struct) and not isinstance(value, Policy):
        return {word for field in value.__struct_fields__ for word in _words(field, getattr(value, field))}
    if isinstance(value, (list, tuple)):
        return {word for one in value for word in _words(name, one)}
    return set()


def _held(db: sqlite3.Connection) -> dict[str, str]:
    """Streams that something still rests on, each with what that is."""
    now_ns = time.time_ns()
    found: dict[str, str] = {}
    live = sorted(state.value for state in LIVE_RESIDENCY)
    marks = ",".join("?" * len(live))
    sql = "SELECT schema, payload FROM event WHERE stream = ? AND type = ? AND payload IS NOT NULL"
    for name, state in db.execute(f"SELECT residency, state FROM residency WHERE state IN ({marks})", live).fetchall():  # noqa: S608
        found[f"residency/{name}"] = f"the residency is {state}"
        for schema, payload in db.execute(sql, (f"residency/{name}", ev.LoadCompleted.type)).fetchall():
            loaded = ev.decode_payload(ev.LoadCompleted.type, schema, payload)
            assert isinstance(loaded, ev.LoadCompleted)  # noqa: S101
            found.update({f"fingerprint/{item}": f"residency {name} stands on it, and is {state}" for item in loaded.fingerprints})
    marks = ",".join("?" * len(OPEN_ATTACHES))
    for name, state in db.execute(f"SELECT attach, state FROM attach WHERE state IN ({marks})", OPEN_ATTACHES):  # noqa: S608
        found[f"attach/{name}"] = f"the attach is {state} and has no end yet"
    for body in db.execute("SELECT body FROM trust WHERE state = 'active'"):
        grant = msgspec.json.decode(body[0], type=Grant)
        if not grant.expired(now_ns):
            found[f"trust/{grant.grant}"] = "the grant is in force"
            if grant.fingerprint:
                found[f"fingerprint/{grant.fingerprint}"] = f"grant {grant.grant} stands on it, and is in force"
    for (name,) in db.execute("SELECT instance FROM instance WHERE ended_ns IS NULL AND state <> 'lost'"):
        found[f"daemon/{name}"] = "that daemon has no end on record"
    return found


def why_not(item: StoredEvent, held: dict[str, str]) -> str:
    """Why this event has to keep its words; nothing where it need not."""
    if item.stream == "ledger" and not isinstance(item.event, ev.PeerRefused):
        return "what the ledger says about itself stays: gaps, segments, checkpoints and redactions are what makes the rest believable"
    if isinstance(item.event, ev.VerifyFailed) and item.event.attach:
        return "it refuted a hit: the names in it keep that checkpoint from being taken for those weights again"
    if item.stream in held:
        return f"something still rests on it: {held[item.stream]}"
    return ""


def _find(db: sqlite3.Connection, history: History, seq: int) -> StoredEvent:
    if seq < history.first_seq and history.spans:
        raise NotFound(
            f"it was dropped with its segment; the ledger begins with seq {history.first_seq}",
            where=f"seq {seq}",
            remedy="what of it is carried on goes when its stream has ended and the next segment is dropped",
        )
    row = db.execute(f"SELECT {EVENT_COLUMNS} FROM event WHERE seq = ?", (seq,)).fetchone()  # noqa: S608
    if row is None:
        raise NotFound("no such event", where=f"seq {seq}", remedy="`wcache audit` shows seqs")
    if row[9] is None:
        raise UsageError("its payload was removed before", where=f"seq {seq}")
    return stored_event(row)
