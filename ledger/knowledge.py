"""What the ledger knows now, as decisions need it: earlier fingerprints, grants, contradictions, residencies. Reads projections only."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec
from sqlalchemy import Engine

from wcache.core.model.decide import ResidencyView
from wcache.core.model.errors import LedgerCorrupt
from wcache.core.model.events import AttachDecided, Event, FingerprintRecorded, Identity, LoadCompleted, decode_payload
from wcache.core.model.evidence import Contradiction, Fingerprint, Grant
from wcache.core.model.machines import LIVE_RESIDENCY
from wcache.core.model.vocabulary import Kind, ResidencyState, Tier
from wcache.ledger.database import connect_reader, driver, translated
from wcache.ledger.store import Ledger
from wcache.ledger.upgrade import require_current

KNOWN_LIMIT = 64
"""So many of the newest fingerprints of a place are worth comparing; older ones describe files that are gone."""


class KnownResidency(msgspec.Struct, frozen=True, kw_only=True):
    """A residency as the ledger has it. `seq` is that of its `load.completed` where there is one."""

    view: ResidencyView
    seq: int
    instance: str | None
    loaded_ns: int | None
    ended_ns: int | None


class KnownInstance(msgspec.Struct, frozen=True, kw_only=True):
    """A daemon instance: `state` is running (or died unnoticed), stopped, lost."""

    instance: str
    seq: int
    state: str
    started_ns: int
    ended_ns: int | None
    pid: int
    uid: int
    version: str
    boot_id: str
    runtime_dir: str


class Knowledge:
    """Read-only view on one connection of its own; every call sees the newest committed state. One thread at a time."""

    def __init__(self, ledger: Ledger | Path | str) -> None:
        self.path = ledger.path if isinstance(ledger, Ledger) else Path(ledger).absolute()
        self._engine: Engine = connect_reader(self.path)
        try:
            with translated(self.path), self._engine.begin() as connection:
                require_current(connection, self.path)
                # One connection for the engine's life. A single SELECT is a transaction of its own, so nothing has to be begun.
                self._db = driver(connection)
        except BaseException:
            self._engine.dispose()
            raise

    def close(self) -> None:
        self._engine.dispose()

    def fingerprints_at(self, root: str | None = None, key: str | None = None, spelling: str | None = None) -> tuple[Fingerprint, ...]:
        """Content hashed earlier at this place, under these identities, or of this spelling (any of them); newest first."""
        found: dict[str, tuple[int, str]] = {}
        for column, value in (("root", root), ("key", key), ("spelling", spelling)):
            if value is not None:
                sql = f'SELECT fingerprint, seq, body FROM fingerprint WHERE "{column}" = ? AND tier = ? ORDER BY seq DESC LIMIT ?'  # noqa: S608
                found.update({name: (seq, body) for name, seq, body in self._rows(sql, (value, Tier.CONTENT.value, KNOWN_LIMIT))})
        newest = sorted(found.values(), reverse=True)[:KNOWN_LIMIT]
        return tuple(self._decode(body, Fingerprint) for _, body in newest)

    def fingerprint(self, fingerprint: str) -> Fingerprint | None:
        """The recorded body of a fingerprint id, of any tier."""
        rows = self._rows("SELECT body FROM fingerprint WHERE fingerprint = ?", (fingerprint,))
        return self._decode(rows[0][0], Fingerprint) if rows else None

    def taken_by_server(self, fingerprint: str) -> bool:
        """Whether a server's own worker recorded this fingerprint, perhaps beside others who did."""
        rows = self._rows("SELECT payload FROM event WHERE stream = ? AND payload IS NOT NULL", (f"fingerprint/{fingerprint}",))
        if any(msgspec.json.decode(payload).get("by") == "server" for (payload,) in rows):
            return True
        carried = self._carried(f"fingerprint/{fingerprint}")
        return any(isinstance(event, FingerprintRecorded) and event.by == "server" for event in carried)

    def grants(self, include_revoked: bool = False) -> tuple[Grant, ...]:
        """In the order in which they were granted. Expired ones are among them: whether that matters is for `decide()`."""
        states = ("active", "revoked") if include_revoked else ("active",)
        sql = f"SELECT body FROM trust WHERE state IN ({_marks(states)}) ORDER BY seq"  # noqa: S608
        return tuple(self._decode(body, Grant) for (body,) in self._rows(sql, states))

    def contradictions(self) -> tuple[Contradiction, ...]:
        rows = self._rows("SELECT asked_key, weights_digest, spellings, seq FROM contradiction ORDER BY seq")
        return tuple(Contradiction(key, digest, tuple(msgspec.json.decode(names)), seq) for key, digest, names, seq in rows)

    def first_of_instance(self, instance: str, spelling: str) -> Fingerprint | None:
        """The first content fingerprint that this daemon instance recorded under this spelling (or resolved directory)."""
        sql = (
            "SELECT fingerprint.body FROM sighting JOIN fingerprint USING (fingerprint)"
            " WHERE sighting.instance = ? AND sighting.spelling = ?"
        )
        rows = self._rows(sql, (instance, spelling))
        return self._decode(rows[0][0], Fingerprint) if rows else None

    def residencies(self, states: Iterable[ResidencyState] = LIVE_RESIDENCY) -> tuple[KnownResidency, ...]:
        """Residencies in these states (by default: those that a daemon holds or is about to hold), oldest first."""
        wanted = tuple(sorted(state.value for state in states))
        columns = (
            "residency, state, kind, device, served, spellings, weights_digest, table_digest, known, dtypes, bytes, tensors,"
            " seq, instance, loaded_ns, ended_ns"
        )
        rows = self._rows(f"SELECT {columns} FROM residency WHERE state IN ({_marks(wanted)}) ORDER BY seq", wanted)  # noqa: S608
        return tuple(self._residency(row) for row in rows)

    def decided(self, attach: str) -> AttachDecided | None:
        """The first decision of an attach, whole."""
        found = self._event(f"attach/{attach}", AttachDecided)
        return found if isinstance(found, AttachDecided) else None

    def completed(self, residency: str) -> LoadCompleted | None:
        """What was recorded when these weights became resident."""
        found = self._event(f"residency/{residency}", LoadCompleted)
        return found if isinstance(found, LoadCompleted) else None

    def attach(self, attach: str) -> dict[str, Any] | None:
        """The projected row of an attach by its id: column -> value; `evidence` is JSON text."""
        rows = self._rows("SELECT * FROM attach WHERE attach = ?", (attach,), named=True)
        return dict(rows[0]) if rows else None

    def instances(self, runtime_dir: str | None = None, running: bool = True) -> tuple[KnownInstance, ...]:
        """Daemon instances, oldest first; `running`: only those without an end. `runtime_dir` narrows to one place."""
        sql = "SELECT * FROM instance WHERE (? IS NULL OR runtime_dir = ?) AND (? = 0 OR ended_ns IS NULL) ORDER BY seq"
        rows = self._rows(sql, (runtime_dir, runtime_dir, int(running)), named=True)
        return tuple(msgspec.convert(dict(row), KnownInstance) for row in rows)

    def open_attaches(self) -> tuple[str, ...]:
        """Attaches that hold a lease as far as the ledger knows."""
        rows = self._rows("SELECT attach FROM attach WHERE state IN ('granted', 'mapped', 'copied') ORDER BY seq")
        return tuple(str(row[0]) for row in rows)

    def head(self) -> int:
        """The newest seq; 0 of an empty ledger."""
        return int(self._rows("SELECT coalesce(max(seq), 0) FROM event")[0][0])

    def _event(self, stream: str, kind: type[Event]) -> Event | None:
        sql = "SELECT schema, payload FROM event WHERE stream = ? AND type = ? AND payload IS NOT NULL ORDER BY seq LIMIT 1"
        rows = self._rows(sql, (stream, kind.type))
        if rows:
            return decode_payload(kind.type, rows[0][0], rows[0][1])
        return next((event for event in self._carried(stream) if isinstance(event, kind)), None)

    def _carried(self, stream: str) -> list[Event]:
        """What a drop of old segments carried of a stream. Nothing of it is kept in memory: it is asked for rarely."""
        from wcache.ledger.segments import carried_of

        with translated(self.path):
            return [item.event for item in carried_of(self._db, stream)]

    def _rows(self, sql: str, parameters: tuple[Any, ...] = (), named: bool = False) -> list[Any]:
        with translated(self.path):
            cursor = self._db.execute(sql, parameters)
            found = cursor.fetchall()
            return [dict(zip((column[0] for column in cursor.description), row, strict=True)) for row in found] if named else found

    def _decode(self, body: str, kind: type[Any]) -> Any:
        try:
            return msgspec.json.decode(body, type=kind)
        except msgspec.MsgspecError as error:
            raise LedgerCorrupt(f"a projected {kind.__name__.lower()} cannot be read: {error}", where=str(self.path)) from error

    def _residency(self, row: Sequence[Any]) -> KnownResidency:
        (name, state, kind, device, served, spellings, weights, table, known, dtypes, size, tensors, seq, instance, loaded, ended) = row
        view = ResidencyView(
            residency=name, state=ResidencyState(state), kind=Kind(kind or Kind.RAW.value), device=device or "",
            served=self._decode(served, Identity), spellings=tuple(msgspec.json.decode(spellings)), weights_digest=weights,
            table_digest=table, known=msgspec.json.decode(known), dtypes=tuple(msgspec.json.decode(dtypes)), bytes=size or 0,
            tensors=tensors or 0,
        )  # fmt: skip
        return KnownResidency(view=view, seq=seq, instance=instance, loaded_ns=loaded, ended_ns=ended)


def _marks(values: Sequence[object]) -> str:
    return ",".join("?" * len(values))
