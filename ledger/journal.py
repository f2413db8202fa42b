"""The journal: where units wait while the ledger cannot be written. JSON lines in one 0600 file, merged into the ledger later.

A line is `{"events": [{event_id, type, schema, payload, occurred_ns}]}` or, where the size cap kept a unit out, `{"lost": n, "at_ns": t}`.
Event ids are assigned before the line is written, so merging twice is merging once.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from wcache.core.model.errors import EventIdReused, LedgerError, LedgerUnavailable, WcacheError
from wcache.core.model.events import Event, LedgerGap, decode_payload, encode_payload
from wcache.ledger.lock import FileLock
from wcache.ledger.store import Ledger, NewEvent, Unit

MAX_BYTES = 16 << 20
_MARKER_BYTES = 64 << 10  # room beyond the cap for saying that something was lost
_MERGE_UNITS = 256
_UNIT_BEGINS = b'{"events":['


class Merge(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a journal: events that are in the ledger now, events lost or refused, and the seq of the `ledger.gap` that says so."""

    merged: int
    lost: int
    gap_seq: int | None = None


class _Line(msgspec.Struct, omit_defaults=True):
    events: list[_Entry] = []
    lost: int = 0
    at_ns: int = 0


class _Entry(msgspec.Struct):
    event_id: str
    type: str
    schema: int
    payload: msgspec.Raw
    occurred_ns: int

    def event(self) -> Event:
        return decode_payload(self.type, self.schema, bytes(self.payload))


class Journal:
    """One journal file. Several processes may write it; each write is durable when it returns."""

    def __init__(self, path: Path | str, max_bytes: int = MAX_BYTES) -> None:
        self.path = Path(path)
        self.max_bytes = max_bytes
        self._lock = FileLock(self.path.with_name(self.path.name + ".lock"))

    def write(self, unit: Unit) -> None:
        """Appends a unit. Raises LedgerUnavailable where the cap or the disk does not allow it; the loss is counted if that still fits."""
        entries = [
            _Entry(new.event_id, new.event.type, new.event.schema, msgspec.Raw(encode_payload(new.event)), new.occurred_ns) for new in unit
        ]
        body = msgspec.json.encode(_Line(events=entries)) + b"\n"
        with self._open(create=True) as descriptor:
            size = os.fstat(descriptor).st_size
            if size + len(body) <= self.max_bytes:
                self._put(descriptor, size, body)
                return
            marker = msgspec.json.encode(_Line(lost=len(unit), at_ns=time.time_ns())) + b"\n"
            if size + len(marker) <= self.max_bytes + _MARKER_BYTES:
                self._put(descriptor, size, marker)
        raise LedgerUnavailable(
            f"the journal is full ({size} of {self.max_bytes} bytes)",
            where=str(self.path),
            remedy="make the ledger writable again: the journal is merged when the daemon next opens it",
        )

    def pending(self) -> int:
        """Units that wait for a merge, a torn one included: counted by how their lines begin, which costs next to nothing."""
        try:
            body = b"\n" + self.path.read_bytes()
        except OSError:
            return 0
        return body.count(b"\n" + _UNIT_BEGINS)

    def waiting(self) -> list[tuple[str, Event]]:
        """Event ids and events that wait for a merge; those that this release cannot read are left out."""
        units = [unit for line in self._peek() if (unit := _unit(line)) is not None]
        return [(new.event_id, new.event) for unit in units for new in unit]

    def size_bytes(self) -> int:
        try:
            return self.path.stat().st_size
        except OSError:
            return 0

    def _peek(self) -> list[_Line]:
        """Without the lock, so that whoever only looks waits for nobody; a line that is being written is not there yet."""
        try:
            descriptor = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return []
        try:
            return [line for line in _lines(_read(descriptor)) if line is not None]
        finally:
            os.close(descriptor)

    def merge(self, ledger: Ledger) -> Merge:
        """Appends everything that waits, then one `ledger.gap`, then empties the file. Idempotent. Late events are flagged as such.

        A unit that is illegal by now (its residency is gone) is merged event by event; what is still refused counts as lost.
        Raises LedgerUnavailable or LedgerCorrupt where the ledger cannot be written; the journal then stays as it is.
        """
        done = Merge(merged=0, lost=0)
        seen = b""
        while True:
            # The ledger is never waited for under the journal's lock: it may be unwell, and whoever has a line to write must not wait.
            with self._open(create=False) as descriptor:
                whole = _read(descriptor)
                if not whole.startswith(seen):
                    seen = b""  # somebody else has merged and emptied it meanwhile
                body = whole[len(seen) :]
                if not body:
                    if whole:
                        os.ftruncate(descriptor, 0)
                        os.fsync(descriptor)
                    return done
            part = _merge_part(ledger, body)
            done = Merge(merged=done.merged + part.merged, lost=done.lost + part.lost, gap_seq=part.gap_seq or done.gap_seq)
            seen = whole

    @contextmanager
    def _open(self, *, create: bool) -> Iterator[int]:
        """The file, locked against other processes; -1 where it is absent and `create` is not set.

        Raises LedgerUnavailable where the lock or the file cannot be had.
        """
        try:
            if create:
                self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            descriptor = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC | (os.O_CREAT if create else 0), 0o600)
        except FileNotFoundError:
            yield -1
            return
        except OSError as error:
            raise self._failed(error) from error
        try:
            with self._lock.held():
                yield descriptor
        except OSError as error:
            raise self._failed(error) from error
        finally:
            os.close(descriptor)

    def _put(self, descriptor: int, size: int, body: bytes) -> None:
        """All of `body` or nothing: a line that the disk takes in part is taken back."""
        # A torn last line of a crashed writer must not swallow this one.
        if size and os.pread(descriptor, 1, size - 1) != b"\n":
            body = b"\n" + body
        try:
            view = memoryview(body)
            while view:
                view = view[os.write(descriptor, view) :]
            os.fsync(descriptor)
        except OSError:
            os.ftruncate(descriptor, size)
            raise

    def _failed(self, error: OSError) -> LedgerUnavailable:
        return LedgerUnavailable(
            f"the journal cannot be written: {os.strerror(error.errno or 0)}",
            where=str(self.path),
            remedy="free space in the runtime directory, or make it writable",
        )


def _read(descriptor: int) -> bytes:
    if descriptor < 0:
        return b""
    size = os.fstat(descriptor).st_size
    body = b""
    while len(body) < size and (part := os.pread(descriptor, size - len(body), len(body))):
        body += part
    return body


def _lines(body: bytes) -> Iterator[_Line | None]:
    """Every line; None for one that is torn or no line of a journal."""
    for raw in body.split(b"\n"):
        if raw:
            try:
                yield msgspec.json.decode(raw, type=_Line)
            except (msgspec.MsgspecError, UnicodeDecodeError):
                yield None


def _merge_part(ledger: Ledger, body: bytes) -> Merge:
    """The lines of `body` into the ledger, and one `ledger.gap` about them."""
    units: list[Unit] = []
    lost = unreadable = 0
    times: list[int] = []
    for line in _lines(body):
        unit = None if line is None else _unit(line)
        if line is None or unit is None:
            unreadable += 1
            continue
        lost += line.lost
        times += [line.at_ns] * bool(line.lost) + [new.occurred_ns for new in unit]
        if unit:
            units.append(unit)
    merged, refused = _append(ledger, units)
    lost += refused + unreadable
    why = f"{refused} refused, {unreadable} unreadable" if refused + unreadable else "the ledger could not be written"
    return Merge(merged=merged, lost=lost, gap_seq=_append_gap(ledger, body, times, merged, lost, why))


def _unit(line: _Line) -> Unit | None:
    try:
        return tuple(NewEvent(event=entry.event(), event_id=entry.event_id, occurred_ns=entry.occurred_ns) for entry in line.events)
    except LedgerError:
        return None


def _append(ledger: Ledger, units: list[Unit]) -> tuple[int, int]:
    """(events that are in the ledger, events that were refused)."""
    merged = refused = 0
    for start in range(0, len(units), _MERGE_UNITS):
        part = units[start : start + _MERGE_UNITS]
        for unit, result in zip(part, ledger.append_batch(part), strict=True):
            if not isinstance(result, WcacheError):
                merged += len(unit)
                continue
            for alone in ledger.append_batch([(new,) for new in unit]):
                if isinstance(alone, WcacheError):
                    refused += 1
                else:
                    merged += 1
    return merged, refused


def _append_gap(ledger: Ledger, body: bytes, times: list[int], merged: int, lost: int, why: str) -> int | None:
    """The event id comes from the journal's bytes: a crash between the merge and the emptying must not count the gap twice."""
    now_ns = time.time_ns()
    gap = LedgerGap(from_ns=min(times, default=now_ns), to_ns=max(times, default=now_ns), merged=merged, lost=lost, why=why)
    event_id = hashlib.sha256(b"wcache/gap/1\n" + ledger.origin.encode() + body).hexdigest()[:32]
    result = ledger.append_batch([(NewEvent(event=gap, event_id=event_id, occurred_ns=now_ns),)])[0]
    if isinstance(result, EventIdReused):
        return None  # the first attempt counted it, with other numbers
    if isinstance(result, WcacheError):
        raise result
    return result[0]
