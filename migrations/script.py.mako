"""${message}

Revision ID: ${up_revision}
Revises: ${down_revision | comma,n}
"""

from __future__ import annotations

revision = ${repr(up_revision)}
down_revision = ${repr(down_revision)}
branch_labels = ${repr(branch_labels)}
depends_on = ${repr(depends_on)}

# Statements that make the tables of a new ledger as well; changes of existing rows go into upgrade().
STATEMENTS: tuple[str, ...] = ()


def upgrade() -> None:
    from alembic import op

    for statement in STATEMENTS:
        op.execute(statement)
