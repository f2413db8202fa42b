"""What a report is made of. Times are nanoseconds since the epoch (`_ns`) or RFC 3339 in UTC (`time` and the like in rows)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from wcache.core.model.events import DroppedSpan

Row = dict[str, Any]


class Period(msgspec.Struct, frozen=True, kw_only=True):
    """What was asked about: [since, until). `since_ns` None: from the ledger's first event on. A report of an `until_ns` that is still to
    come ends when it was made, or behind the ledger's newest time, if the clock has gone back since."""

    since_ns: int | None
    until_ns: int

    def holds(self, moment_ns: int) -> bool:
        return moment_ns < self.until_ns and (self.since_ns is None or moment_ns >= self.since_ns)


class Head(msgspec.Struct, frozen=True, kw_only=True):
    """Which ledger, in which state: `size` events, `root` over their leaves (RFC 6962, hex), `chain` the newest event's link.

    `dropped` are the spans that retention took, `restored` the seqs from which on the ledger goes on as a backup did.
    `root` is empty where damage forbids to compute it. `first_ns` and `last_ns` are when the first and the newest event were recorded;
    `first_seq` is above 1 where older segments were dropped.
    """

    name: str
    origin: str
    size: int
    chain: str
    first_seq: int
    first_ns: int | None
    last_ns: int | None
    root: str = ""
    dropped: tuple[DroppedSpan, ...] = ()
    restored: tuple[int, ...] = ()


class Verification(msgspec.Struct, frozen=True, kw_only=True):
    """What `wcache ledger verify` found, `events` of them rebuilt; `done` is False where the report was made without it."""

    done: bool
    events: int = 0
    problems: tuple[Row, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        return self.done and not self.problems


class Totals(msgspec.Struct, kw_only=True):
    """Numbers about the attaches that were decided in the period; an attach counts by its last decision."""

    attaches: int = 0
    launches: int = 0
    hosts: int = 0
    decisions: dict[str, int] = {}
    reasons: dict[str, int] = {}
    tiers: dict[str, int] = {}
    tier_proofs: dict[str, dict[str, int]] = {}
    wrong_hits: int = 0
    trusted: int = 0
    unproven: int = 0
    unprovable: int = 0
    refuted: int = 0
    unfinished: int = 0
    mapped_bytes: int = 0
    copied_bytes: int = 0
    fallback_bytes: int = 0
    fallback_s: float = 0.0
    idle_bytes: int = 0
    idle_byte_s: float = 0.0
    gap_merged: int = 0
    gap_lost: int = 0

    @property
    def hits(self) -> int:
        return self.decisions.get("hit", 0)

    @property
    def missed(self) -> int:
        return self.attaches - self.hits


class Bar(msgspec.Struct, frozen=True):
    """Decisions of one stretch of time, [from, to)."""

    from_ns: int
    to_ns: int
    hit: int = 0
    fallback: int = 0
    strict_miss: int = 0

    @property
    def all(self) -> int:
        return self.hit + self.fallback + self.strict_miss


class Stay(msgspec.Struct, frozen=True, kw_only=True):
    """Weights were resident from `from_ns` to `to_ns`, cut to the period, `number` times at once; `state` is how that ended, `resident`
    where it has not, or where others went on."""

    from_ns: int
    to_ns: int
    state: str
    number: int = 1


class Lane(msgspec.Struct, frozen=True, kw_only=True):
    """When a checkpoint was resident on a device, as `holds` (raw or processed): so many `residencies`, their `stays` in order of time."""

    checkpoint: str
    holds: str
    device: str
    residencies: int
    stays: tuple[Stay, ...]

    @property
    def peak(self) -> int:
        return max(stay.number for stay in self.stays)


class Listing(msgspec.Struct, frozen=True, kw_only=True):
    """Rows of one kind: `total` there are, `rows` are the newest of them, oldest first."""

    name: str
    rows: list[Row]
    total: int

    @property
    def more(self) -> int:
        return self.total - len(self.rows)


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """All facts of one report: the same ledger, period and limit give the same report, but for `made_ns`."""

    made_ns: int
    version: str
    period: Period
    head: Head
    verification: Verification
    totals: Totals
    bars: list[Bar]
    lanes: list[Lane]
    lanes_more: int
    listings: dict[str, Listing]

    def listing(self, name: str) -> Listing:
        return self.listings[name]


def counted(pairs: Iterable[tuple[str, int]]) -> dict[str, int]:
    """Word -> how many in all, the most frequent first."""
    found: dict[str, int] = {}
    for word, number in pairs:
        found[word] = found.get(word, 0) + number
    return dict(sorted(found.items(), key=lambda item: (-item[1], item[0])))
