"""Alembic's entry: runs on the connection that `wcache.ledger.upgrade` hands over, or on a URL for developers (alembic.ini)."""

from __future__ import annotations

from alembic import context
from sqlalchemy import Connection

from wcache.ledger.schema import metadata


def run(connection: Connection) -> None:
    # transactional_ddl: SQLite's DDL is transactional, alembic does not believe it by itself; a half migration must leave nothing.
    context.configure(connection=connection, target_metadata=metadata, transactional_ddl=True)
    with context.begin_transaction():
        context.run_migrations()


given: Connection | None = context.config.attributes.get("connection")
if given is not None:
    run(given)
else:
    from pathlib import Path

    from wcache.ledger.database import connect_writer

    with connect_writer(Path(context.config.get_main_option("ledger") or "ledger.sqlite")).connect() as own:
        run(own)
        own.commit()
