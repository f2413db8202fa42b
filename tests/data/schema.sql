-- index attach_decided_ns
CREATE INDEX attach_decided_ns ON attach (decided_ns);

-- index attach_launch
CREATE INDEX attach_launch ON attach (launch);

-- index attach_residency
CREATE INDEX attach_residency ON attach (residency);

-- index attach_seq
CREATE UNIQUE INDEX attach_seq ON attach (seq);

-- index fingerprint_key
CREATE INDEX fingerprint_key ON fingerprint (key, tier, seq);

-- index fingerprint_root
CREATE INDEX fingerprint_root ON fingerprint (root, tier, seq);

-- index fingerprint_spelling
CREATE INDEX fingerprint_spelling ON fingerprint (spelling, tier, seq);

-- index residency_state
CREATE INDEX residency_state ON residency (state);

-- table alembic_version
CREATE TABLE alembic_version ( version_num VARCHAR(32) NOT NULL, CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num) );

-- table attach
CREATE TABLE attach (
  attach TEXT NOT NULL PRIMARY KEY,
  seq INTEGER NOT NULL,
  first_seq INTEGER NOT NULL,
  decided_ns INTEGER NOT NULL,
  launch TEXT NOT NULL,
  rank INTEGER NOT NULL,
  world INTEGER NOT NULL,
  host TEXT NOT NULL,
  engine TEXT NOT NULL,
  engine_version TEXT NOT NULL,
  uid INTEGER NOT NULL,
  checkpoint TEXT NOT NULL,
  residency TEXT,
  kind TEXT NOT NULL,
  device TEXT NOT NULL,
  decision TEXT NOT NULL,
  reason TEXT,
  detail TEXT NOT NULL,
  tier TEXT,
  asked_digest TEXT,
  asked_key TEXT,
  asked_commit TEXT,
  served_digest TEXT,
  served_commit TEXT,
  mode TEXT,
  state TEXT NOT NULL,
  proof TEXT,
  proof_seq INTEGER,
  ended_ns INTEGER,
  mapped_bytes INTEGER,
  copied_bytes INTEGER,
  map_ms REAL,
  fallback_bytes INTEGER,
  fallback_s REAL,
  idle_bytes INTEGER,
  policy TEXT NOT NULL,
  evidence TEXT NOT NULL,
  decided_by TEXT NOT NULL
) STRICT;

-- table contradiction
CREATE TABLE contradiction (
  seq INTEGER NOT NULL PRIMARY KEY,
  asked_key TEXT NOT NULL,
  weights_digest TEXT NOT NULL,
  spellings TEXT NOT NULL
) STRICT;

-- table event
CREATE TABLE event (
  seq INTEGER NOT NULL PRIMARY KEY,
  stream TEXT NOT NULL,
  version INTEGER NOT NULL,
  event_id TEXT NOT NULL UNIQUE,
  type TEXT NOT NULL,
  schema INTEGER NOT NULL,
  occurred_ns INTEGER NOT NULL,
  recorded_ns INTEGER NOT NULL,
  late INTEGER NOT NULL CHECK (late IN (0, 1)),
  payload TEXT,
  salt BLOB,
  payload_hash BLOB NOT NULL CHECK (length(payload_hash) = 32),
  chain BLOB NOT NULL CHECK (length(chain) = 32),
  UNIQUE (stream, version)
) STRICT;

-- table fingerprint
CREATE TABLE fingerprint (
  fingerprint TEXT NOT NULL PRIMARY KEY,
  seq INTEGER NOT NULL,
  tier TEXT NOT NULL,
  digest TEXT NOT NULL,
  weights_digest TEXT,
  root TEXT,
  key TEXT,
  spelling TEXT NOT NULL,
  instance TEXT,
  recorded_ns INTEGER NOT NULL,
  pinnable INTEGER NOT NULL CHECK (pinnable IN (0, 1)),
  body TEXT NOT NULL
) STRICT;

-- table instance
CREATE TABLE instance (
  instance TEXT NOT NULL PRIMARY KEY,
  seq INTEGER NOT NULL,
  state TEXT NOT NULL,
  started_ns INTEGER NOT NULL,
  ended_ns INTEGER,
  pid INTEGER NOT NULL,
  uid INTEGER NOT NULL,
  version TEXT NOT NULL,
  boot_id TEXT NOT NULL,
  runtime_dir TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- table meta
CREATE TABLE meta (
  key TEXT NOT NULL PRIMARY KEY,
  value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- table policy
CREATE TABLE policy (
  policy TEXT NOT NULL PRIMARY KEY,
  body TEXT NOT NULL
) STRICT;

-- table residency
CREATE TABLE residency (
  residency TEXT NOT NULL PRIMARY KEY,
  seq INTEGER NOT NULL,
  checkpoint TEXT NOT NULL,
  root TEXT,
  repo TEXT,
  commit_id TEXT,
  kind TEXT,
  device TEXT,
  bytes INTEGER,
  tensors INTEGER,
  weights_digest TEXT,
  table_digest TEXT,
  state TEXT NOT NULL,
  loaded_ns INTEGER,
  ended_ns INTEGER,
  instance TEXT,
  known TEXT NOT NULL,
  spellings TEXT NOT NULL,
  dtypes TEXT NOT NULL,
  served TEXT NOT NULL
) STRICT;

-- table sighting
CREATE TABLE sighting (
  instance TEXT NOT NULL,
  spelling TEXT NOT NULL,
  seq INTEGER NOT NULL,
  fingerprint TEXT NOT NULL,
  PRIMARY KEY (instance, spelling)
) STRICT, WITHOUT ROWID;

-- table stream
CREATE TABLE stream (
  stream TEXT NOT NULL PRIMARY KEY,
  version INTEGER NOT NULL,
  state TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- table trust
CREATE TABLE trust (
  grant TEXT NOT NULL PRIMARY KEY,
  seq INTEGER NOT NULL,
  scope TEXT NOT NULL,
  state TEXT NOT NULL,
  body TEXT NOT NULL,
  revoked_seq INTEGER
) STRICT, WITHOUT ROWID;

-- trigger event_no_delete
CREATE TRIGGER event_no_delete BEFORE DELETE ON event
BEGIN SELECT RAISE(ABORT, 'events are append-only'); END;

-- trigger event_no_replace
CREATE TRIGGER event_no_replace BEFORE INSERT ON event
WHEN NEW.seq <= coalesce((SELECT max(seq) FROM event), 0)
  OR EXISTS (SELECT 1 FROM event WHERE event_id = NEW.event_id)
  OR EXISTS (SELECT 1 FROM event WHERE stream = NEW.stream AND version = NEW.version)
BEGIN SELECT RAISE(ABORT, 'events are append-only'); END;

-- trigger event_no_update
CREATE TRIGGER event_no_update BEFORE UPDATE ON event
BEGIN SELECT RAISE(ABORT, 'events are append-only'); END;

-- view attaches
CREATE VIEW attaches AS
SELECT seq, strftime('%Y-%m-%dT%H:%M:%S', decided_ns / 1000000000, 'unixepoch') || printf('.%03dZ', decided_ns / 1000000 % 1000) AS time, launch, rank, world, host, engine, engine_version, checkpoint, decision, reason, detail, tier,
  mode, state, proof, residency, kind, device, asked_digest, served_digest, asked_commit, served_commit, mapped_bytes, copied_bytes, map_ms,
  fallback_bytes, fallback_s, idle_bytes, strftime('%Y-%m-%dT%H:%M:%S', ended_ns / 1000000000, 'unixepoch') || printf('.%03dZ', ended_ns / 1000000 % 1000) AS ended, uid, decided_by, policy, attach, first_seq, proof_seq, decided_ns
FROM attach;

-- view days
CREATE VIEW days AS
SELECT strftime('%Y-%m-%d', decided_ns / 1000000000, 'unixepoch') AS day, decision, coalesce(reason, tier) AS why,
  count(attach) AS attaches, sum(mapped_bytes) AS mapped_bytes, sum(fallback_bytes) AS fallback_bytes, sum(idle_bytes) AS idle_bytes
FROM attach GROUP BY 1, 2, 3;

-- view events
CREATE VIEW events AS
SELECT seq, strftime('%Y-%m-%dT%H:%M:%S', occurred_ns / 1000000000, 'unixepoch') || printf('.%03dZ', occurred_ns / 1000000 % 1000) AS time, strftime('%Y-%m-%dT%H:%M:%S', recorded_ns / 1000000000, 'unixepoch') || printf('.%03dZ', recorded_ns / 1000000 % 1000) AS recorded, type, stream, version, late, payload, occurred_ns, recorded_ns
FROM event;

-- view fallbacks
CREATE VIEW fallbacks AS
SELECT * FROM attaches WHERE decision <> 'hit';

-- view grants
CREATE VIEW grants AS
SELECT "grant", seq, scope, state, json_extract(body, '$.reason') AS reason, json_extract(body, '$.operator_uid') AS operator_uid,
  strftime('%Y-%m-%dT%H:%M:%S', json_extract(body, '$.granted_ns') / 1000000000, 'unixepoch') || printf('.%03dZ', json_extract(body, '$.granted_ns') / 1000000 % 1000) AS granted, strftime('%Y-%m-%dT%H:%M:%S', json_extract(body, '$.expires_ns') / 1000000000, 'unixepoch') || printf('.%03dZ', json_extract(body, '$.expires_ns') / 1000000 % 1000) AS expires, revoked_seq,
  json_extract(body, '$.spellings') AS spellings, json_extract(body, '$.weights_digest') AS weights_digest,
  json_extract(body, '$.residency') AS residency, json_extract(body, '$.instance') AS instance, json_extract(body, '$.prefix') AS prefix
FROM trust;

-- view hits
CREATE VIEW hits AS
SELECT * FROM attaches WHERE decision = 'hit';

-- view incomplete_launches
CREATE VIEW incomplete_launches AS
SELECT * FROM launches WHERE mapped < ranks;

-- view launches
CREATE VIEW launches AS
SELECT launch, strftime('%Y-%m-%dT%H:%M:%S', min(decided_ns) / 1000000000, 'unixepoch') || printf('.%03dZ', min(decided_ns) / 1000000 % 1000) AS time, min(host) AS host, min(engine) AS engine, min(checkpoint) AS checkpoint,
  max(max(world), max(rank) + 1) AS ranks, count(DISTINCT rank) AS asked,
  count(DISTINCT rank) - count(DISTINCT CASE WHEN decision <> 'hit' OR mapped_bytes IS NULL THEN rank END) AS mapped,
  min(decided_ns) AS decided_ns
FROM attach AS this
WHERE NOT EXISTS (
  SELECT 1 FROM attach AS later WHERE later.launch = this.launch AND later.rank = this.rank AND later.checkpoint = this.checkpoint
    AND later.engine = this.engine AND later.seq > this.seq
)
GROUP BY launch;

-- view residencies
CREATE VIEW residencies AS
SELECT residency, seq, state, checkpoint, root, repo, commit_id, kind, device, bytes, tensors, weights_digest,
  strftime('%Y-%m-%dT%H:%M:%S', loaded_ns / 1000000000, 'unixepoch') || printf('.%03dZ', loaded_ns / 1000000 % 1000) AS loaded, strftime('%Y-%m-%dT%H:%M:%S', ended_ns / 1000000000, 'unixepoch') || printf('.%03dZ', ended_ns / 1000000 % 1000) AS ended, instance,
  (SELECT count(attach) FROM attach WHERE attach.residency = residency.residency AND attach.state IN ('granted', 'mapped', 'copied'))
    AS leases,
  loaded_ns, ended_ns
FROM residency;

-- view unproven_hits
CREATE VIEW unproven_hits AS
SELECT * FROM attaches
WHERE decision = 'hit' AND proof = 'unproven' AND tier IN ('header', 'sampled', 'attested', 'trusted');

-- view wrong_hits
CREATE VIEW wrong_hits AS
SELECT * FROM attaches
WHERE decision = 'hit' AND (proof = 'refuted' OR asked_digest <> served_digest);

