"""The schema's version: read without alembic, changed with it, in one transaction."""

from __future__ import annotations

import time
from importlib import import_module
from importlib.resources import files
from pathlib import Path
from typing import Any

from sqlalchemy import Connection

from wcache.core.model.errors import LedgerError, LedgerUnavailable, NotFound
from wcache.ledger.chain import new_origin
from wcache.ledger.database import connect_writer, refuse_network_filesystem, translated
from wcache.ledger.lock import FileLock
from wcache.ledger.schema import SCHEMA_REVISION

_ALEMBIC_VERSION = """CREATE TABLE alembic_version (
  version_num VARCHAR(32) NOT NULL,
  CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
)"""


def lock_path(path: Path) -> Path:
    return path.with_name(path.name + ".lock")


def revision(connection: Connection) -> str | None:
    """The migration that the file was last brought to; None for a file without tables."""
    names = {row[0] for row in connection.exec_driver_sql("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if "alembic_version" not in names:
        if names:
            raise LedgerError("this SQLite file is no ledger", remedy="set WCACHE_LEDGER to another file")
        return None
    row = connection.exec_driver_sql("SELECT version_num FROM alembic_version").one_or_none()
    return None if row is None else str(row[0])


def require_current(connection: Connection, path: Path) -> None:
    """Raises LedgerError for a file of an older or a newer release."""
    found = revision(connection)
    if found == SCHEMA_REVISION:
        return
    if found is None:
        raise NotFound("the ledger is empty", where=str(path), remedy="start a daemon once, or correct WCACHE_LEDGER")
    if found < SCHEMA_REVISION:
        raise LedgerError(
            f"its schema is {found}, this release needs {SCHEMA_REVISION}", where=str(path), remedy="run `wcache ledger upgrade`"
        )
    raise LedgerError(
        f"its schema is {found}, this release knows {SCHEMA_REVISION}",
        where=str(path),
        remedy="use the release that wrote it, or a newer one",
    )


def migrate(connection: Connection, scripts: Path | None = None) -> None:
    """Brings the schema to the newest version in the caller's transaction. `scripts` is another place for the migrations (tests)."""
    from alembic import command
    from alembic.config import Config

    config = Config()
    place = str(scripts or files("wcache.migrations"))
    config.set_main_option("script_location", place.replace("%", "%%"))
    config.attributes["connection"] = connection
    command.upgrade(config, "head")


def create(connection: Connection) -> None:
    """Schema, origin and time of birth of a new ledger, in the caller's transaction."""
    lay_out(connection)
    give_birth(connection)


def lay_out(connection: Connection) -> None:
    """The schema alone: the same as `migrate` makes, without alembic."""
    connection.exec_driver_sql(_ALEMBIC_VERSION)
    names = sorted(entry.name for entry in files("wcache.migrations.versions").iterdir() if entry.name[:4].isdigit())
    for name in names:
        migration = import_module(f"wcache.migrations.versions.{name.removesuffix('.py')}")
        for statement in migration.STATEMENTS:
            connection.exec_driver_sql(statement)
    connection.exec_driver_sql("INSERT INTO alembic_version (version_num) VALUES (?)", (SCHEMA_REVISION,))


def give_birth(connection: Connection) -> None:
    rows: list[tuple[Any, ...]] = [("origin", new_origin()), ("created_ns", str(time.time_ns()))]
    connection.exec_driver_sql("INSERT INTO meta (key, value) VALUES (?, ?)", rows)


def upgrade(path: Path, scripts: Path | None = None) -> tuple[str | None, str]:
    """Brings the file at `path` to this release's schema; returns the revision before and after. All or nothing.

    Raises LedgerError; the schema is then what it was.
    """
    try:
        absent = not path.exists()
    except OSError as error:  # EACCES on the way to it, in some releases of Python
        raise LedgerUnavailable("no permission to look at the ledger", where=str(path), remedy="upgrade it as the daemon's user") from error
    if absent:
        raise NotFound("there is no ledger", where=str(path), remedy="start a daemon once, or set WCACHE_LEDGER")
    refuse_network_filesystem(path.parent)
    with FileLock(lock_path(path)).held(), translated(path):
        engine = connect_writer(path)
        try:
            with engine.begin() as connection:
                before = revision(connection)
                if before is not None and before > SCHEMA_REVISION and scripts is None:
                    require_current(connection, path)
                if before is None:
                    create(connection)
                elif before != SCHEMA_REVISION or scripts is not None:
                    migrate(connection, scripts)
                after = revision(connection)
        finally:
            engine.dispose()
    return before, after or ""
