# ruff: noqa: S608 (nothing in here comes from outside)
"""Views for people and their tools: datasette, DuckDB, Grafana, a plain sqlite3. docs/audit.md says what each is for.

DuckDB reads a view through its own parser and hands it back: `count(*)` does not survive that, `count(column)` does.

Revision ID: 0002
Revises: 0001
"""

from __future__ import annotations

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def _utc(column: str) -> str:
    """RFC 3339 in UTC to the millisecond, as `wcache audit` prints it."""
    return f"strftime('%Y-%m-%dT%H:%M:%S', {column} / 1000000000, 'unixepoch') || printf('.%03dZ', {column} / 1000000 % 1000)"


STATEMENTS = (
    f"""CREATE VIEW attaches AS
SELECT seq, {_utc("decided_ns")} AS time, launch, rank, world, host, engine, engine_version, checkpoint, decision, reason, detail, tier,
  mode, state, proof, residency, kind, device, asked_digest, served_digest, asked_commit, served_commit, mapped_bytes, copied_bytes, map_ms,
  fallback_bytes, fallback_s, idle_bytes, {_utc("ended_ns")} AS ended, uid, decided_by, policy, attach, first_seq, proof_seq, decided_ns
FROM attach""",
    """CREATE VIEW hits AS
SELECT * FROM attaches WHERE decision = 'hit'""",
    """CREATE VIEW unproven_hits AS
SELECT * FROM attaches
WHERE decision = 'hit' AND proof = 'unproven' AND tier IN ('header', 'sampled', 'attested', 'trusted')""",
    """CREATE VIEW wrong_hits AS
SELECT * FROM attaches
WHERE decision = 'hit' AND (proof = 'refuted' OR asked_digest <> served_digest)""",
    """CREATE VIEW fallbacks AS
SELECT * FROM attaches WHERE decision <> 'hit'""",
    # Per rank the last attach of each checkpoint by each engine counts, as in `wcache audit launch`.
    f"""CREATE VIEW launches AS
SELECT launch, {_utc("min(decided_ns)")} AS time, min(host) AS host, min(engine) AS engine, min(checkpoint) AS checkpoint,
  max(max(world), max(rank) + 1) AS ranks, count(DISTINCT rank) AS asked,
  count(DISTINCT rank) - count(DISTINCT CASE WHEN decision <> 'hit' OR mapped_bytes IS NULL THEN rank END) AS mapped,
  min(decided_ns) AS decided_ns
FROM attach AS this
WHERE NOT EXISTS (
  SELECT 1 FROM attach AS later WHERE later.launch = this.launch AND later.rank = this.rank AND later.checkpoint = this.checkpoint
    AND later.engine = this.engine AND later.seq > this.seq
)
GROUP BY launch""",
    """CREATE VIEW incomplete_launches AS
SELECT * FROM launches WHERE mapped < ranks""",
    f"""CREATE VIEW residencies AS
SELECT residency, seq, state, checkpoint, root, repo, commit_id, kind, device, bytes, tensors, weights_digest,
  {_utc("loaded_ns")} AS loaded, {_utc("ended_ns")} AS ended, instance,
  (SELECT count(attach) FROM attach WHERE attach.residency = residency.residency AND attach.state IN ('granted', 'mapped', 'copied'))
    AS leases,
  loaded_ns, ended_ns
FROM residency""",
    f"""CREATE VIEW grants AS
SELECT "grant", seq, scope, state, json_extract(body, '$.reason') AS reason, json_extract(body, '$.operator_uid') AS operator_uid,
  {_utc("json_extract(body, '$.granted_ns')")} AS granted, {_utc("json_extract(body, '$.expires_ns')")} AS expires, revoked_seq,
  json_extract(body, '$.spellings') AS spellings, json_extract(body, '$.weights_digest') AS weights_digest,
  json_extract(body, '$.residency') AS residency, json_extract(body, '$.instance') AS instance, json_extract(body, '$.prefix') AS prefix
FROM trust""",
    f"""CREATE VIEW events AS
SELECT seq, {_utc("occurred_ns")} AS time, {_utc("recorded_ns")} AS recorded, type, stream, version, late, payload, occurred_ns, recorded_ns
FROM event""",
    """CREATE VIEW days AS
SELECT strftime('%Y-%m-%d', decided_ns / 1000000000, 'unixepoch') AS day, decision, coalesce(reason, tier) AS why,
  count(attach) AS attaches, sum(mapped_bytes) AS mapped_bytes, sum(fallback_bytes) AS fallback_bytes, sum(idle_bytes) AS idle_bytes
FROM attach GROUP BY 1, 2, 3""",
)


def upgrade() -> None:
    from alembic import op

    for statement in STATEMENTS:
        op.get_bind().exec_driver_sql(statement)  # as it stands: `op.execute` would take %H:%M for a parameter
