"""The schema: what migrations make, that they are all or nothing, and that events are append-only by the database itself."""

from __future__ import annotations

import shutil
import sqlite3
from importlib.resources import files
from pathlib import Path

import pytest
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import Connection
from support import history

from wcache.core.model.errors import LedgerError
from wcache.ledger import schema
from wcache.ledger.database import connect_writer
from wcache.ledger.store import Ledger
from wcache.ledger.upgrade import create, give_birth, migrate, upgrade
from wcache.ledger.views import VIEWS

SNAPSHOT = Path(__file__).parents[1] / "data" / "schema.sql"
FAILING = f"""
revision = "9999"
down_revision = "{schema.SCHEMA_REVISION}"

def upgrade():
    from alembic import op
    op.execute("CREATE TABLE half (a INTEGER) STRICT")
    op.execute("ALTER TABLE attach ADD COLUMN extra TEXT")
    op.execute("CREATE TABLE attach (a INTEGER)")
"""


def objects(connection: Connection | sqlite3.Connection) -> list[tuple[str, str]]:
    sql = "SELECT type || ' ' || name, sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY type, name"
    rows = connection.exec_driver_sql(sql) if isinstance(connection, Connection) else connection.execute(sql)
    return [(name, " ".join(text.split()) if "alembic_version" in name else text) for name, text in rows]


def as_text(found: list[tuple[str, str]]) -> str:
    return "".join(f"-- {name}\n{sql};\n\n" for name, sql in found)


def test_the_schema_is_the_committed_snapshot(ledger: Ledger) -> None:
    """After a deliberate change: write what this test prints into tests/data/schema.sql."""
    connection = sqlite3.connect(ledger.path)
    text = as_text(objects(connection))
    connection.close()
    assert text == SNAPSHOT.read_text(), text


def test_a_new_ledger_has_the_schema_that_alembic_makes_from_nothing(tmp_path: Path) -> None:
    migrated = connect_writer(tmp_path / "migrated.sqlite")
    created = connect_writer(tmp_path / "created.sqlite")
    with migrated.begin() as left, created.begin() as right:
        migrate(left)
        give_birth(left)
        create(right)
        assert objects(left) == objects(right)
    migrated.dispose()
    created.dispose()


def test_the_revision_that_the_code_writes_is_the_newest_migration() -> None:
    config = Config()
    config.set_main_option("script_location", str(files("wcache.migrations")))
    assert ScriptDirectory.from_config(config).get_current_head() == schema.SCHEMA_REVISION


def test_tables_in_the_code_have_the_columns_and_keys_of_the_file(ledger: Ledger) -> None:
    connection = sqlite3.connect(ledger.path)
    for table in schema.metadata.tables.values():
        rows = connection.execute(f'PRAGMA table_info("{table.name}")').fetchall()
        assert {row[1] for row in rows} == {column.name for column in table.columns}, table.name
        assert {row[1] for row in rows if row[5]} == {column.name for column in table.primary_key.columns}, table.name
        kinds = {"INTEGER": "INTEGER", "FLOAT": "REAL", "TEXT": "TEXT", "BLOB": "BLOB"}
        assert {row[1]: row[2] for row in rows} == {column.name: kinds[str(column.type)] for column in table.columns}
    connection.close()


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE event SET payload = '{}' WHERE seq = 1",
        "DELETE FROM event WHERE seq = 1",
        "DELETE FROM event",
        "INSERT OR REPLACE INTO event SELECT * FROM event WHERE seq = 1",
        "REPLACE INTO event SELECT 99, stream, version, 'new', type, schema, 1, 1, 0, payload, salt, payload_hash, chain FROM event",
        "REPLACE INTO event SELECT 99, 'x', 1, event_id, type, schema, 1, 1, 0, payload, salt, payload_hash, chain FROM event",
        "INSERT INTO event SELECT 0, 'x', 1, 'new', type, schema, 1, 1, 0, payload, salt, payload_hash, chain FROM event",
        "INSERT INTO event SELECT NULL, 'x', 1, 'new', type, schema, 1, 1, 0, payload, salt, payload_hash, chain FROM event",
        "INSERT INTO event SELECT seq, 'x', 1, 'new', type, schema, 1, 1, 0, '', salt, payload_hash, chain FROM event WHERE true"
        " ON CONFLICT (seq) DO UPDATE SET payload = ''",
    ],
)
def test_the_database_itself_refuses_to_change_events(ledger: Ledger, statement: str) -> None:
    ledger.append("daemon/d-1", 0, "id-1", history.daemon_started())
    connection = sqlite3.connect(ledger.path, isolation_level=None)
    with pytest.raises(sqlite3.IntegrityError, match="append-only"):
        connection.execute(statement)
    connection.close()


def test_a_migration_that_fails_half_way_leaves_the_schema_byte_identical(ledger: Ledger, tmp_path: Path) -> None:
    """L6"""
    ledger.append("daemon/d-1", 0, "id-1", history.daemon_started())
    scripts = tmp_path / "migrations 100%"
    shutil.copytree(str(files("wcache.migrations")), scripts)
    (scripts / "versions" / "9999_failing.py").write_text(FAILING)
    connection = sqlite3.connect(ledger.path)
    before = objects(connection)
    with pytest.raises(LedgerError, match="already exists"):
        upgrade(ledger.path, scripts)
    assert objects(connection) == before
    assert connection.execute("SELECT version_num FROM alembic_version").fetchall() == [(schema.SCHEMA_REVISION,)]
    connection.close()
    assert ledger.append("daemon/d-2", 0, "id-2", history.daemon_started("d-2")) == 2


def test_upgrading_a_current_ledger_changes_nothing(ledger: Ledger) -> None:
    assert upgrade(ledger.path) == (schema.SCHEMA_REVISION, schema.SCHEMA_REVISION)


@pytest.mark.parametrize(("revision", "remedy"), [("0000", "wcache ledger upgrade"), ("9999", "newer")])
def test_a_ledger_of_another_release_is_refused_with_the_remedy(path: Path, revision: str, remedy: str) -> None:
    Ledger.open(path).close()
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("UPDATE alembic_version SET version_num = ?", (revision,))
    connection.close()
    for read_only in (False, True):
        with pytest.raises(LedgerError) as raised:
            Ledger.open(path, read_only=read_only)
        assert remedy in raised.value.diagnostics()


def test_every_view_is_documented_with_exactly_its_columns(ledger: Ledger) -> None:
    connection = sqlite3.connect(ledger.path)
    names = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'view' ORDER BY rowid")]
    found = {name: [row[1] for row in connection.execute(f"PRAGMA table_info({name})")] for name in names}
    connection.close()
    assert found == {name: list(columns) for name, (_, columns) in VIEWS.items()}


def test_some_other_sqlite_file_is_refused(path: Path) -> None:
    path.parent.mkdir()
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE somebody_elses (a)")
    connection.close()
    with pytest.raises(LedgerError, match="no ledger"):
        Ledger.open(path)
