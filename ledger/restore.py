"""Putting a backup in the ledger's place. The restored ledger goes on under a new origin, and says where it left the old one.

What the lost ledger recorded after the backup may turn up again, in a signed checkpoint or as a copy: two ledgers of one origin that differ
behind some seq would each make a forgery of the other. Up to the backup's newest event nothing changes, so earlier checkpoints still hold.
"""

from __future__ import annotations

import os
import sqlite3
import time
from pathlib import Path

import msgspec
from sqlalchemy.exc import DBAPIError

from wcache.core.model import events as ev
from wcache.core.model.errors import LedgerError, LedgerUnavailable, UsageError
from wcache.ledger.backup import copy
from wcache.ledger.chain import new_origin
from wcache.ledger.database import connect_reader, connect_writer, driver, meaning, refuse_network_filesystem, translated
from wcache.ledger.lock import FileLock
from wcache.ledger.rebuild import Offline, Progress, ignore, require_alone, require_room
from wcache.ledger.segments import history_of, opening
from wcache.ledger.store import Ledger, NewEvent
from wcache.ledger.stored import read_origin
from wcache.ledger.upgrade import lock_path, upgrade

_MAGIC = b"SQLite format 3\x00"  # https://sqlite.org/fileformat.html, section 1.3


class Restored(msgspec.Struct, frozen=True, kw_only=True):
    """A backup that is the ledger now: it has everything up to `last_seq` as `old_origin` had it, and goes on under `origin`.

    `lost` is how many later events the replaced ledger had, where it could be read; `kept` is where that lies now.
    """

    origin: str
    old_origin: str
    first_seq: int
    last_seq: int
    newest_ns: int | None
    opened_seq: int
    gap_seq: int
    lost: int
    kept: str | None


def restore(source: Path | str, target: Path | str, *, replace: bool = False, progress: Progress = ignore) -> Restored:
    """Verifies the backup `source` and makes a copy of it the ledger at `target`, offline. The backup stays as it is.

    Nothing is ever overwritten: a ledger that is there is refused, or with `replace` kept beside it under another name. Raises NotFound,
    UsageError, LedgerUnavailable (somebody has that ledger open, no room), LedgerCorrupt for a backup that does not verify.
    """
    source, target = Path(source).absolute(), Path(target).absolute()
    try:
        if source.exists() and target.exists() and source.samefile(target):
            raise UsageError("this is the ledger itself", where=str(source), remedy="name a backup of it")
        connect_reader(source).dispose()
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        refuse_network_filesystem(target.parent)
        with FileLock(lock_path(target)).held(), translated(target):
            target = target.resolve()
            present = target.exists()
            if present and not replace:
                remedy = "add --replace: what is there is kept beside it under another name"
                raise UsageError("there is a ledger already", where=str(target), remedy=remedy)
            require_room(target, source.stat().st_size)
            alone = Offline(target, None, progress)
            alone.clean()
            try:
                there = _look_at(target) if present else _There()
                restored = _prepare(source, alone, there)
                keep = _free_name(target) if present else None
                if keep is not None and there.broken:
                    _set_aside_log(target, keep)
                alone.exchange(keep)
            finally:
                alone.clean()
    except OSError as error:
        where = str(error.filename or target)
        raise LedgerUnavailable(f"cannot be restored: {os.strerror(error.errno or 0)}", where=where) from error
    return msgspec.structs.replace(restored, kept=str(keep) if keep is not None else None)


class _There(msgspec.Struct, frozen=True):
    """What is known of the ledger that is to be replaced."""

    origin: str = ""
    head_seq: int = 0
    broken: bool = False


def _look_at(target: Path) -> _There:
    """Makes sure that nobody has it open, and that its one file has everything that is in its log. A broken one may say nothing."""
    with target.open("rb") as file:
        if file.read(len(_MAGIC)) != _MAGIC:
            return _There(broken=True)  # SQLite would throw its log away
    try:
        engine = connect_writer(target)
        try:
            require_alone(engine, target)
            with engine.begin() as connection:
                (head,) = driver(connection).execute("SELECT coalesce(max(seq), 0) FROM event").fetchone()
                return _There(read_origin(connection, target), head)
        finally:
            engine.dispose()
    except (DBAPIError, sqlite3.Error, LedgerError) as error:
        if isinstance(error if isinstance(error, LedgerError) else meaning(error, target), LedgerUnavailable):
            raise
        return _There(broken=True)


def _set_aside_log(target: Path, keep: Path) -> None:
    """What the log of a broken file has cannot be moved into it, and SQLite would apply it to whatever file lies beside it."""
    for suffix in ("-wal", "-journal"):
        log = target.with_name(target.name + suffix)
        if log.exists():
            log.replace(keep.with_name(keep.name + suffix))
    target.with_name(target.name + "-shm").unlink(missing_ok=True)


def _free_name(target: Path) -> Path:
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    candidates = (target.with_name(f"{target.name}.replaced-{stamp}{extra}") for extra in ("", *(f"-{n}" for n in range(2, 1000))))
    return next(name for name in candidates if not name.exists())


def _prepare(source: Path, alone: Offline, there: _There) -> Restored:
    """The new file: the backup, brought to this release's schema, verified, and what says that it was restored."""
    alone.progress(0, 1, "copy")
    copy(source, alone.new)
    upgrade(alone.new)
    alone.require_sound(alone.new, "verify", source)
    origin = new_origin()
    engine = connect_writer(alone.new)
    try:
        with engine.begin() as connection:
            before = history_of(connection, alone.new)
            (head, newest_ns) = driver(connection).execute("SELECT coalesce(max(seq), 0), max(recorded_ns) FROM event").fetchone()
            connection.exec_driver_sql("UPDATE meta SET value = ? WHERE key = 'origin'", (origin,))
    finally:
        engine.dispose()
    lost = max(0, there.head_seq - head) if there.origin == before.origin else 0
    now_ns = time.time_ns()
    gap = ev.LedgerGap(
        from_ns=newest_ns or now_ns,
        to_ns=now_ns,
        merged=0,
        lost=lost,
        why=f"restored from a backup by uid {os.geteuid()}; what else the ledger recorded after seq {head} is unknown",
    )
    with Ledger.open(alone.new) as ledger:
        (opened_seq,), (gap_seq,) = ledger.append_within(
            lambda db: (NewEvent(event=opening(db, origin, before, alone.new)),), lambda db: (NewEvent(event=gap),)
        )
    alone.finish()
    return Restored(
        origin=origin,
        old_origin=before.origin,
        first_seq=before.first_seq,
        last_seq=head,
        newest_ns=newest_ns,
        opened_seq=opened_seq,
        gap_seq=gap_seq,
        lost=lost,
        kept=None,
    )
