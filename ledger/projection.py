"""Projections: one row an attach, a residency, a fingerprint, ..., changed in the transaction that appends the event.

A row is evolved by pure functions (row before, event, state after) -> row after, so replaying gives the same rows as appending did.
Late observations change no row. What is projected where is documented beside the tables in `ledger.schema`.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeGuard

import msgspec
from sqlalchemy import Table

from wcache.core.model import events as ev
from wcache.core.model.evidence import Fingerprint, known_of
from wcache.core.model.machines import AttachView, StreamState
from wcache.core.model.policy import Policy
from wcache.core.model.vocabulary import REDACTED, Tier
from wcache.ledger import schema

Row = dict[str, Any]
_CONTENT, _PINNED, _TRUSTED = Tier.CONTENT, Tier.PINNED, Tier.TRUSTED  # whose digest is the weights digest; the strongest first
MAX_IN = 500  # parameters of one IN (...): far below SQLITE_MAX_VARIABLE_NUMBER of any build


class Accepted(msgspec.Struct, frozen=True):
    """An event that has its place: what a projection may look at."""

    seq: int
    occurred_ns: int
    recorded_ns: int
    late: bool
    stream: str
    event: ev.Event
    state: StreamState
    """The stream's state after the event."""


_encode = msgspec.json.Encoder(order="deterministic").encode


def as_json(value: Any) -> str:
    return _encode(value).decode()


def select_in(db: sqlite3.Connection, sql: str, keys: Iterable[str]) -> Iterable[tuple[Any, ...]]:
    """Rows of `sql`, which ends in `IN`, for any number of keys."""
    wanted = list(keys)
    for start in range(0, len(wanted), MAX_IN):
        part = tuple(wanted[start : start + MAX_IN])
        marks = ",".join("?" * len(part))
        yield from db.execute(f"{sql} ({marks})", part)


class _Rows:
    """The rows of one table that one transaction touches: read once, changed in memory, written once."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self.key = next(iter(table.primary_key.columns)).name
        self.names = [column.name for column in table.columns]
        columns = ", ".join(f'"{name}"' for name in self.names)
        self.select = f'SELECT {columns} FROM {table.name} WHERE "{self.key}" IN'  # noqa: S608
        self.upsert = schema.upsert(table)

    def load(self, db: sqlite3.Connection, keys: set[str]) -> dict[str, Row]:
        if not keys:
            return {}
        found = (dict(zip(self.names, values, strict=True)) for values in select_in(db, self.select, sorted(keys)))
        return {row[self.key]: row for row in found}

    def blank(self) -> Row:
        return dict.fromkeys(self.names)


_ATTACH = _Rows(schema.attach)
_RESIDENCY = _Rows(schema.residency)
_TRUST = _Rows(schema.trust)
_INSTANCE = _Rows(schema.instance)
_FINGERPRINT = schema.insert_first(schema.fingerprint)
_SIGHTING = schema.insert_first(schema.sighting)
_POLICY = schema.insert_first(schema.policy)
_CONTRADICTION = schema.insert(schema.contradiction)


def _known_digest(evidence: Iterable[ev.EvidenceRef], otherwise: str | None) -> str | None:
    """The digest that the strongest evidence about known content has."""
    pinned = trusted = None
    for reference in evidence:
        if reference.tier is _CONTENT:
            return reference.digest
        if reference.tier is _PINNED:
            pinned = pinned or reference.digest
        elif reference.tier is _TRUSTED:
            trusted = trusted or reference.digest
    return pinned or trusted or otherwise


def _decided(row: Row, seq: int, occurred_ns: int, event: ev.AttachDecided) -> None:
    # `_value_`: the plain attribute behind `value`, whose descriptor costs more than all else where a million are replayed.
    asked, served, engine, ranks, evidence = event.asked, event.served, event.engine, event.ranks, event.evidence
    reason, tier, mode = event.reason, event.tier, event.mode
    row.update(
        attach=event.attach, seq=seq, first_seq=seq, decided_ns=occurred_ns, launch=event.launch, rank=ranks.rank, world=ranks.world,
        host=event.host, engine=engine.name, engine_version=engine.version, uid=event.peer.uid, checkpoint=asked.spelling,
        residency=event.residency, kind=event.kind._value_, device=event.device, decision=event.outcome._value_,
        reason=reason._value_ if reason else None, detail=event.detail, tier=tier._value_ if tier else None,
        asked_digest=_known_digest(evidence, asked.digest), asked_key=asked.key, asked_commit=asked.commit,
        served_digest=served.digest if served else None, served_commit=served.commit if served else None,
        mode=mode._value_ if mode else None, policy=event.policy, evidence=as_json(evidence), decided_by=event.decided_by,
    )  # fmt: skip


def _redecided(row: Row, seq: int, occurred_ns: int, event: ev.AttachRedecided) -> None:
    row.update(seq=seq, decision=event.outcome.value, reason=event.reason.value, detail=event.detail, mode=None)


def _mapped(row: Row, seq: int, occurred_ns: int, event: ev.MapCompleted) -> None:
    row.update(mode=event.mode.value, mapped_bytes=event.bytes, copied_bytes=event.copied_bytes, map_ms=event.ms)


def _fell_back(row: Row, seq: int, occurred_ns: int, event: ev.FallbackCompleted) -> None:
    row.update(fallback_bytes=event.bytes, fallback_s=event.seconds, idle_bytes=event.idle_bytes)


def _could_not(row: Row, seq: int, occurred_ns: int, event: ev.FallbackFailed) -> None:
    row["idle_bytes"] = event.idle_bytes


def _ended(row: Row, seq: int, occurred_ns: int, event: ev.LeaseEnded) -> None:
    row["ended_ns"] = occurred_ns


_ATTACH_STEPS: dict[type[ev.Event], Callable[[Row, int, int, Any], None]] = {
    ev.AttachRedecided: _redecided, ev.MapCompleted: _mapped, ev.FallbackCompleted: _fell_back, ev.FallbackFailed: _could_not,
    ev.LeaseEnded: _ended,
}  # fmt: skip


def attach_row(row: Row | None, seq: int, occurred_ns: int, event: ev.Event, view: AttachView) -> Row | None:
    """The row of an attach after an event that was not late; `view` is its state then."""
    if row is None:
        if not isinstance(event, ev.AttachDecided):
            return None
        row = _ATTACH.blank()
        _decided(row, seq, occurred_ns, event)
    elif (step := _ATTACH_STEPS.get(type(event))) is not None:
        step(row, seq, occurred_ns, event)
    proof = view.proof
    if proof != row["proof"]:
        verified = isinstance(event, (ev.VerifyPassed, ev.VerifyFailed, ev.VerifyInconclusive))
        row.update(proof=proof.value if proof else None, proof_seq=seq if verified else None)
        if isinstance(event, (ev.VerifyPassed, ev.VerifyFailed)):
            row.update(asked_digest=event.found)
    row["state"] = view.state._value_
    return row


def residency_row(row: Row | None, item: Accepted, named: Sequence[Fingerprint]) -> Row | None:
    event = item.event
    if row is None:
        if not isinstance(event, (ev.LoadStarted, ev.LoadFailed)):
            return None
        row = _RESIDENCY.blank()
        asked = event.asked
        row.update(
            residency=event.residency, seq=item.seq, checkpoint=asked.spelling, root=asked.root, repo=asked.repo, commit_id=asked.commit,
            known="{}", spellings=as_json(_names(asked)), dtypes="[]", served=as_json(asked),
        )  # fmt: skip
    if isinstance(event, ev.LoadStarted):
        row.update(kind=event.kind.value, device=event.device, bytes=event.bytes, tensors=event.tensors, instance=event.instance)
    elif isinstance(event, ev.LoadCompleted):
        served = event.served
        earlier = msgspec.json.decode(row["spellings"], type=list[str])
        row.update(
            seq=item.seq, root=served.root, repo=served.repo, commit_id=served.commit, kind=event.kind.value, device=event.device,
            bytes=event.bytes, tensors=event.tensors, weights_digest=event.weights_digest, table_digest=event.table_digest,
            loaded_ns=item.occurred_ns, dtypes=as_json(event.dtypes), served=as_json(served), known=as_json(known_of(named)),
            spellings=as_json(list(dict.fromkeys([*earlier, *_names(served)]))),
        )  # fmt: skip
    elif isinstance(event, ev.ResidencyReadopted):
        row.update(instance=event.instance)
    elif isinstance(event, (ev.LoadFailed, ev.ReleaseCompleted, ev.ResidencyLost)):
        row.update(ended_ns=item.occurred_ns)
    row["state"] = item.state.residency.value
    return row


def _names(identity: ev.Identity) -> list[str]:
    return list(dict.fromkeys(name for name in (identity.spelling, identity.root, identity.repo) if name))


def is_evidence(event: ev.Event) -> TypeGuard[ev.FingerprintRecorded]:
    """A redacted fingerprint is none any more: the next look at those files takes it anew."""
    return isinstance(event, ev.FingerprintRecorded) and event.spelling != REDACTED


def fingerprint_row(item: Accepted, event: ev.FingerprintRecorded) -> Row:
    evidence = event.evidence
    location = evidence.location
    return {
        "fingerprint": event.fingerprint, "seq": item.seq, "tier": evidence.tier.value, "digest": evidence.digest,
        "weights_digest": evidence.weights_digest, "root": location.root if location else None, "key": location.key() if location else None,
        "spelling": event.spelling, "instance": event.instance, "recorded_ns": item.recorded_ns, "pinnable": int(evidence.pinnable),
        "body": as_json(evidence),
    }  # fmt: skip


def instance_row(row: Row | None, item: Accepted) -> Row | None:
    event = item.event
    if isinstance(event, ev.DaemonStarted) and row is None:
        return {
            "instance": event.instance, "seq": item.seq, "state": "running", "started_ns": item.occurred_ns, "ended_ns": None,
            "pid": event.pid, "uid": event.uid, "version": event.version, "boot_id": event.boot_id, "runtime_dir": event.runtime_dir,
        }  # fmt: skip
    if row is not None and row["state"] != "lost" and isinstance(event, ev.DaemonStarted):  # another server, or its unit started again
        row.update(state="running", ended_ns=None, pid=event.pid, version=event.version)
    elif row is not None and row["ended_ns"] is None and isinstance(event, (ev.DaemonStopped, ev.DaemonLost)):
        row.update(state="stopped" if isinstance(event, ev.DaemonStopped) else "lost", ended_ns=item.occurred_ns)
    return row


def _evolve_all(
    table: _Rows, db: sqlite3.Connection, items: Sequence[tuple[str, Accepted]], step: Callable[[Row | None, Accepted], Row | None]
) -> None:
    if not items:
        return
    rows: dict[str, Row | None] = dict(table.load(db, {key for key, _ in items}))
    for key, item in items:
        rows[key] = step(rows.get(key), item)
    _write(db, table.upsert, [row for row in rows.values() if row is not None])


def _write(db: sqlite3.Connection, statement: schema.Statement, rows: list[Row]) -> None:
    if rows:
        db.executemany(statement.sql, statement.rows(rows))


def grant_row(row: Row | None, item: Accepted) -> Row | None:
    event = item.event
    if isinstance(event, ev.TrustGranted):
        grant = event.grant
        state, scope = item.state.grant, grant.scope.value
        return {"grant": grant.grant, "seq": item.seq, "scope": scope, "state": state, "body": as_json(grant), "revoked_seq": None}
    if row is not None:
        row.update(state=item.state.grant, revoked_seq=item.seq)
    return row


def contradiction_row(seq: int, event: ev.VerifyFailed) -> Row:
    """A refuted hit: what was asked is known not to be what was served."""
    return {"seq": seq, "asked_key": event.asked_key or "", "weights_digest": event.expected, "spellings": as_json(event.spellings)}


class _Named:
    """The fingerprints that `load.completed` events name: those recorded before them."""

    def __init__(self, db: sqlite3.Connection, items: Sequence[Accepted]) -> None:
        names = {name for item in items if isinstance(item.event, ev.LoadCompleted) for name in item.event.fingerprints}
        rows = select_in(db, "SELECT fingerprint, seq, body FROM fingerprint WHERE fingerprint IN", sorted(names))
        self._found = {name: (seq, msgspec.json.decode(body, type=Fingerprint)) for name, seq, body in rows}

    def by(self, item: Accepted) -> dict[str, Fingerprint]:
        if not isinstance(item.event, ev.LoadCompleted):
            return {}
        found = ((name, self._found.get(name)) for name in item.event.fingerprints)
        return {name: entry[1] for name, entry in found if entry is not None and entry[0] < item.seq}


def _sighting(instance: str, spelling: str, item: Accepted, fingerprint: str) -> Row:
    return {"instance": instance, "spelling": spelling, "seq": item.seq, "fingerprint": fingerprint}


def sightings_recorded(item: Accepted, event: ev.FingerprintRecorded) -> list[Row]:
    """What an instance saw by taking a content fingerprint, under every name."""
    if not event.instance or event.evidence.tier is not Tier.CONTENT:
        return []
    root = event.evidence.location.root if event.evidence.location else event.spelling
    return [_sighting(event.instance, name, item, event.fingerprint) for name in dict.fromkeys([event.spelling, root])]


def sightings_loaded(item: Accepted, row: Row | None, named: Mapping[str, Fingerprint]) -> list[Row]:
    """What an instance saw by completing a load; `row` is the residency's, `named` the fingerprints that the event names."""
    content = [name for name, evidence in named.items() if evidence.tier is Tier.CONTENT]
    if row is None or not row["instance"] or not content:
        return []
    return [_sighting(row["instance"], name, item, content[0]) for name in msgspec.json.decode(row["spellings"], type=list[str])]


def project(db: sqlite3.Connection, accepted: Sequence[Accepted]) -> None:
    """Brings every projection up to date with events in seq order, in the caller's transaction."""
    items = [item for item in accepted if not item.late]
    by_kind: dict[str, list[tuple[str, Accepted]]] = {}
    for item in items:
        kind, _, key = item.stream.partition("/")
        by_kind.setdefault(kind, []).append((key, item))

    recorded = [(item, item.event) for _, item in by_kind.get("fingerprint", ()) if is_evidence(item.event)]
    sightings = [row for item, event in recorded for row in sightings_recorded(item, event)]
    _write(db, _FINGERPRINT, [fingerprint_row(item, event) for item, event in recorded])

    fingerprints = _Named(db, items)

    def attach_step(row: Row | None, item: Accepted) -> Row | None:
        return attach_row(row, item.seq, item.occurred_ns, item.event, item.state.attach)

    def residency_step(row: Row | None, item: Accepted) -> Row | None:
        named = fingerprints.by(item)
        changed = residency_row(row, item, list(named.values()))
        sightings.extend(sightings_loaded(item, changed, named))
        return changed

    _evolve_all(_ATTACH, db, by_kind.get("attach", ()), attach_step)
    _evolve_all(_RESIDENCY, db, by_kind.get("residency", ()), residency_step)
    _evolve_all(_TRUST, db, by_kind.get("trust", ()), grant_row)
    _evolve_all(_INSTANCE, db, by_kind.get("daemon", ()), instance_row)
    policies: dict[str, Policy] = {}
    for item in items:
        if isinstance(item.event, ev.AttachDecided):
            policies.setdefault(item.event.policy, item.event.policy_body)
    _write(db, _POLICY, [{"policy": name, "body": as_json(body)} for name, body in policies.items()])
    refuted = [(item.seq, item.event) for item in items if isinstance(item.event, ev.VerifyFailed) and item.event.attach]
    _write(db, _CONTRADICTION, [contradiction_row(seq, event) for seq, event in refuted])
    _write(db, _SIGHTING, sorted(sightings, key=lambda row: int(row["seq"])))
