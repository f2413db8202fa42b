"""Tables of the ledger as SQLAlchemy Core knows them. What creates them is `wcache.migrations`; a test holds the two together.

`event` is the truth; `stream` and everything below PROJECTIONS can be rebuilt from it (`ledger.replay`). Times are nanoseconds since
the epoch, digests lower-case hex, JSON columns text.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter
from typing import Any

from sqlalchemy import Column, Float, Integer, LargeBinary, MetaData, Table, Text
from sqlalchemy.dialects import sqlite
from sqlalchemy.sql.base import Executable

SCHEMA_REVISION = "0002"
"""The migration that this release writes; a test compares it with alembic's head, which is not imported at run time."""

metadata = MetaData()


def _table(name: str, key: str, *, integer: str = "", real: str = "", text: str = "", blob: str = "") -> Table:
    kinds: list[tuple[str, Any]] = [(integer, Integer), (real, Float), (text, Text), (blob, LargeBinary)]
    keys = key.split()
    columns = [Column(column, kind, primary_key=column in keys) for names, kind in kinds for column in names.split()]
    return Table(name, metadata, *columns)


meta = _table("meta", "key", text="key value")

event = _table(
    "event",
    "seq",
    integer="seq version schema occurred_ns recorded_ns late",
    text="stream event_id type payload",
    blob="salt payload_hash chain",
)

stream = _table("stream", "stream", integer="version", text="stream state")
"""Version and machine state of every stream: what an append is checked against."""

attach = _table(
    "attach",
    "attach",
    integer="seq first_seq decided_ns rank world uid proof_seq ended_ns mapped_bytes copied_bytes fallback_bytes idle_bytes",
    real="map_ms fallback_s",
    text="attach launch host engine engine_version checkpoint residency kind device decision reason detail tier asked_digest asked_key"
    " asked_commit served_digest served_commit mode state proof policy evidence decided_by",
)
"""One row an attach. `seq` is the decision that counts (the redecision, if there was one), `first_seq` the first one."""

residency = _table(
    "residency",
    "residency",
    integer="seq bytes tensors loaded_ns ended_ns",
    text="residency checkpoint root repo commit_id kind device weights_digest table_digest state instance known spellings dtypes served",
)
"""One row a residency. `seq` is its `load.completed`; before that its `load.started`, or the `load.failed` that refused it."""

fingerprint = _table(
    "fingerprint",
    "fingerprint",
    integer="seq recorded_ns pinnable",
    text="fingerprint tier digest weights_digest root key spelling instance body",
)
"""One row a fingerprint: the first time that it was recorded."""

sighting = _table("sighting", "instance spelling", integer="seq", text="instance spelling fingerprint")
"""The first content fingerprint that a daemon instance recorded for a spelling: what instance trust rests on."""

trust = _table("trust", "grant", integer="seq revoked_seq", text="grant scope state body")

contradiction = _table("contradiction", "seq", integer="seq", text="asked_key weights_digest spellings")

policy = _table("policy", "policy", text="policy body")

instance = _table("instance", "instance", integer="seq started_ns ended_ns pid uid", text="instance state version boot_id runtime_dir")

PROJECTIONS: tuple[Table, ...] = (stream, attach, residency, fingerprint, sighting, trust, contradiction, policy, instance)

_DIALECT = sqlite.dialect(paramstyle="qmark")


class Statement:
    """A Core statement compiled once: its SQL, and the names of its parameters in the order in which the driver wants them."""

    def __init__(self, core: Executable) -> None:
        compiled = core.compile(dialect=_DIALECT)  # type: ignore[attr-defined]
        self.sql = str(compiled)
        self.names: tuple[str, ...] = tuple(compiled.positiontup or ())
        self._values = itemgetter(*self.names)

    def rows(self, values: Sequence[dict[str, Any]]) -> list[tuple[Any, ...]]:
        return list(map(self._values, values))


def insert(table: Table) -> Statement:
    return Statement(sqlite.insert(table))


def insert_first(table: Table) -> Statement:
    """The first row of a key stays."""
    return Statement(sqlite.insert(table).on_conflict_do_nothing())


def upsert(table: Table) -> Statement:
    """The last row of a key stays."""
    statement = sqlite.insert(table)
    keys = list(table.primary_key.columns)
    changed = {column.name: statement.excluded[column.name] for column in table.columns if column not in keys}
    return Statement(statement.on_conflict_do_update(index_elements=keys, set_=changed))
