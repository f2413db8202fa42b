"""What somebody does to a ledger who may write its file, with and without the code at hand."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from wcache.ledger.chain import Chain


def tamper(path: Path, *statements: str) -> None:
    """As somebody would who may write the file: without the triggers, which are put back."""
    connection = sqlite3.connect(path, isolation_level=None)
    triggers = connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
    for name, _ in triggers:
        connection.execute(f"DROP TRIGGER {name}")
    for statement in statements:
        connection.execute(statement)
    for _, sql in triggers:
        connection.execute(sql)
    connection.close()


def rechain(path: Path, seq: int) -> None:
    """Everything from `seq` on written anew by somebody who has the code: a ledger that verifies."""
    connection = sqlite3.connect(path, isolation_level=None)
    origin = connection.execute("SELECT value FROM meta WHERE key = 'origin'").fetchone()[0]
    rows = connection.execute(
        "SELECT seq, stream, version, type, schema, event_id, occurred_ns, recorded_ns, late, payload_hash, chain FROM event ORDER BY seq"
    ).fetchall()
    connection.close()
    link, statements = Chain(origin).genesis, []
    for row in rows:
        link = Chain.link(link, Chain(origin).leaf(*row[:8], bool(row[8]), row[9]))
        statements.append(f"UPDATE event SET chain = x'{link.hex()}' WHERE seq = {row[0]}")
    tamper(path, *statements[seq - 1 :])
