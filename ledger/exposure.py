"""Who ran with other weights than were asked for, and from when to when, as far as the ledger knows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from wcache.core.model.events import AttachDecided, LeaseEnded, MapCompleted
from wcache.core.model.vocabulary import BELOW_PINNED, Mode, Outcome, Proof
from wcache.ledger import schema
from wcache.ledger.audit import Audit
from wcache.ledger.listing import Listing, Window
from wcache.ledger.moment import utc

_A = schema.attach.c
_E = schema.event.c
_LET_GO = "closed"  # how `lease.ended` begins where the engine let go; else its daemon ended, and it keeps what it has mapped
_STREAMS_MAX = 400  # of one IN (...)

LINES_MAX = 20
"""More sentences than that nobody reads in a terminal."""


class Exposure(msgspec.Struct, frozen=True, kw_only=True):
    """One attach that was served other weights than it asked for; or (not `certain`) one that asked by the same name, got the same
    weights on weak evidence, and of which nothing is known.

    `since` is when the weights arrived, `until` when the lease ended, both RFC 3339. `had` is what the function of that name says.
    `asked_digest` is None while it is not certain. `pid` is the engine's own, 0 where none was recorded.
    """

    seq: int
    attach: str
    launch: str
    host: str
    rank: int
    world: int
    engine: str
    engine_version: str
    pid: int
    uid: int
    checkpoint: str
    residency: str | None
    tier: str | None
    mode: str | None
    asked_digest: str | None
    served_digest: str | None
    since: str | None
    until: str | None
    had: str
    certain: bool
    proof: str
    proof_seq: int | None


def had(mode: str | None, arrived: bool, ended: bool, how: str) -> str:
    """Until when an engine had its weights: `ended`, with its lease; `still`; `unknown`, where it has a copy, or memory that outlived its
    daemon, which no lease tells of; or `never`, where it never said that it had them. `how` is that of `lease.ended`."""
    if not arrived:
        return "never"
    if mode == Mode.COPY.value or (ended and not how.startswith(_LET_GO)):
        return "unknown"
    return "ended" if ended else "still"


def exposures(audit: Audit, window: Window | None = None, *, seqs: Sequence[int] = ()) -> list[Exposure]:
    """In the order of the decisions. With `seqs` only what these wrong hits (their decisions) and the checkpoints that they asked for
    have to do with."""
    wrong = audit.wrong_hits(window)
    if seqs:
        asked = {(row["checkpoint"], row["served_digest"]) for row in wrong if row["seq"] in seqs or row["first_seq"] in seqs}
        wrong = [row for row in wrong if (row["checkpoint"], row["served_digest"]) in asked]
    rows = {row["attach"]: (row, True) for row in wrong}
    for row in _unknown(audit, window, wrong):
        rows.setdefault(row["attach"], (row, False))
    told = _told(audit, list(rows))
    found = [_exposure(row, certain, told.get(attach, {})) for attach, (row, certain) in rows.items()]
    return sorted(found, key=lambda one: one.seq)


def exposure_lines(rows: Sequence[Exposure]) -> list[str]:
    """A sentence for each that is certain, then for those that are not, LINES_MAX in all; a last one counts what is left out."""
    ordered = sorted(rows, key=lambda one: not one.certain)
    lines = [exposure_line(one) for one in ordered[:LINES_MAX]]
    left = ordered[LINES_MAX:]
    if certain := sum(one.certain for one in left):
        lines.append(f"{certain} more ran with them: `wcache audit wrong-hits --limit 0` lists all.")
    if waiting := len(left) - certain:
        lines.append(f"{waiting} more got the same weights by the same name, on weak evidence: `wcache audit prove` looks at them.")
    return lines


def exposure_line(one: Exposure) -> str:
    """One exposure in a plain sentence."""
    engine = f"{one.engine} {one.engine_version}".strip()
    pid = f"pid {one.pid}, " if one.pid else ""
    who = f"{engine} on {one.host} ({pid}uid {one.uid}), rank {one.rank} of {one.world} in launch {one.launch}"
    if one.since is None:
        return f"{who} was granted them at seq {one.seq} and never said that it had them."
    until = {
        "ended": f"until {one.until}",
        "still": "and still has them",
        "unknown": "and the ledger does not know until when: it has memory of its own",
    }[one.had]
    if not one.certain:
        had = f"asked by the same name and got the same weights at {one.since}, {until}"
        return f"{who} {had}; that hit is {one.proof} (seq {one.seq})."
    return f"{who} ran with them from {one.since} {until} (seq {one.seq})."


def _unknown(audit: Audit, window: Window | None, wrong: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Weak hits by the same names on the same weights that nobody could decide."""
    names = {(row["checkpoint"], row["served_digest"]) for row in wrong}
    if not names:
        return []
    tiers = [tier.value for tier in BELOW_PINNED]
    spellings = sorted({checkpoint for checkpoint, _ in names})
    found: list[dict[str, Any]] = []
    for start in range(0, len(spellings), _STREAMS_MAX):
        part = spellings[start : start + _STREAMS_MAX]
        open_proofs = _A.proof.in_([Proof.UNPROVEN.value, Proof.UNPROVABLE.value])
        where = (_A.decision == Outcome.HIT.value, _A.checkpoint.in_(part), _A.tier.in_(tiers), open_proofs)
        found += [row for row in Listing(audit, window or Window(), *where).rows() if (row["checkpoint"], row["served_digest"]) in names]
    return found


def _told(audit: Audit, attaches: Sequence[str]) -> dict[str, dict[str, Any]]:
    """attach -> what its events say: the decision, when the weights arrived, and how the lease ended."""
    found: dict[str, dict[str, Any]] = {}
    types = (AttachDecided.type, MapCompleted.type, LeaseEnded.type)
    for start in range(0, len(attaches), _STREAMS_MAX):
        streams = [f"attach/{attach}" for attach in attaches[start : start + _STREAMS_MAX]]
        for item in (*audit.carried(streams.__contains__), *audit.events(where=_E.stream.in_(streams), types=types)):
            found.setdefault(item.stream.partition("/")[2], {})[item.type] = item
    return found


def _exposure(row: dict[str, Any], certain: bool, told: dict[str, Any]) -> Exposure:
    decided, mapped, end = (told.get(cls.type) for cls in (AttachDecided, MapCompleted, LeaseEnded))
    until = had(row["mode"], mapped is not None, row["ended_ns"] is not None, end.event.how if end is not None else _LET_GO)
    return Exposure(
        seq=row["seq"], attach=row["attach"], launch=row["launch"], host=row["host"], rank=row["rank"], world=row["world"],
        engine=row["engine"], engine_version=row["engine_version"] or "",
        pid=decided.event.engine.pid or decided.event.peer.pid if decided is not None else 0,
        uid=row["uid"], checkpoint=row["checkpoint"], residency=row["residency"], tier=row["tier"], mode=row["mode"],
        asked_digest=row["asked_digest"] if certain else None, served_digest=row["served_digest"],
        since=utc(mapped.occurred_ns) if mapped is not None else None, until=utc(row["ended_ns"]) if until == "ended" else None,
        had=until, certain=certain, proof=row["proof"] or Proof.UNPROVEN.value, proof_seq=row["proof_seq"],
    )  # fmt: skip
