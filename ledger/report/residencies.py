"""What was resident: at the end of the period, in it, and when."""

from __future__ import annotations

from itertools import pairwise

import msgspec

from wcache.core.model.vocabulary import ResidencyState
from wcache.ledger.moment import utc
from wcache.ledger.report.model import Lane, Listing, Row, Stay
from wcache.ledger.report.source import Source

LANES_MAX = 24
LANE_PARTS = 1000
"""A lane is drawn this many parts wide: stays that are closer together than one part are drawn as one."""
COUNTED_PARTS = 180

_COLUMNS = "residency, checkpoint, kind AS holds, device, bytes, tensors, weights_digest, state, loaded_ns, ended_ns, spellings"
_ARRIVED = "state IN ('granted', 'mapped', 'copied', 'ended')"


class Residencies:
    """Of the period that lies in [from_ns, to_ns). `to_ns` is the instant of the inventory."""

    def __init__(self, source: Source, from_ns: int, to_ns: int) -> None:
        self.source = source
        self.from_ns, self.to_ns = from_ns, to_ns
        sql = f"SELECT {_COLUMNS} FROM residency WHERE loaded_ns < ? AND (ended_ns IS NULL OR ended_ns >= ?) ORDER BY loaded_ns, residency"  # noqa: S608
        self.lived = source.rows(sql, (to_ns, from_ns))

    def _state(self, row: Row) -> str:
        """At the end of the period: what ended later was resident then."""
        over = row["ended_ns"] is not None and row["ended_ns"] < self.to_ns
        later = row["ended_ns"] is not None and not over
        return ResidencyState.RESIDENT.value if later else str(row["state"])

    def resident(self, limit: int | None) -> Listing:
        leases = {
            row["residency"]: row["number"]
            for row in self.source.rows(
                "SELECT residency, count(*) AS number FROM attach WHERE decision = 'hit' AND decided_ns < ?"  # noqa: S608
                f" AND (ended_ns IS NULL OR ended_ns >= ?) AND {_ARRIVED} GROUP BY residency",
                (self.to_ns, self.to_ns),
            )
        }
        there = [row for row in self.lived if row["ended_ns"] is None or row["ended_ns"] >= self.to_ns]
        rows = [
            {
                **{name: row[name] for name in ("residency", "checkpoint", "holds", "device", "bytes", "tensors", "weights_digest")},
                "loaded": utc(row["loaded_ns"]), "state": self._state(row), "leases": leases.get(row["residency"], 0),
            }
            for row in there
        ]  # fmt: skip
        return Listing(name="resident", rows=rows if limit is None else rows[-limit:], total=len(rows))

    def weights(self, limit: int | None) -> Listing:
        """Every weights digest that was resident, by how often it was hit."""
        where, parameters = self.source.decided()
        sql = f"SELECT served_digest, count(*) AS hits FROM attach WHERE {where} AND decision = 'hit' GROUP BY served_digest"  # noqa: S608
        hits = {row["served_digest"]: row["hits"] for row in self.source.rows(sql, parameters)}
        found: dict[str, Row] = {}
        for row in self.lived:
            digest = row["weights_digest"]
            about = found.setdefault(
                digest,
                {
                    "weights_digest": digest, "checkpoints": [], "bytes": row["bytes"], "tensors": row["tensors"], "residencies": 0,
                    "hits": hits.get(digest, 0), "holds": set(), "devices": set(), "first_ns": row["loaded_ns"],
                },
            )  # fmt: skip
            about["residencies"] += 1
            about["holds"].add(row["holds"])
            about["devices"].add(row["device"])
            about["checkpoints"] = list(dict.fromkeys([*about["checkpoints"], *msgspec.json.decode(row["spellings"])]))
        rows = sorted(found.values(), key=lambda row: (-row["hits"], row["first_ns"], row["weights_digest"]))
        for row in rows:
            row.update(holds=sorted(row["holds"]), devices=sorted(row["devices"]), first_loaded=utc(row.pop("first_ns")))
        return Listing(name="weights", rows=rows if limit is None else rows[:limit], total=len(rows))

    def lanes(self) -> tuple[list[Lane], int]:
        """Those that were resident longest, in order of their first load, and how many others there are."""
        by_lane: dict[tuple[str, str, str], list[Row]] = {}
        for row in self.lived:
            by_lane.setdefault((row["checkpoint"], row["holds"], row["device"]), []).append(row)
        lanes = [
            Lane(checkpoint=name, holds=holds, device=device, residencies=len(rows), stays=self._stays(rows))
            for (name, holds, device), rows in by_lane.items()
        ]
        longest = sorted(lanes, key=lambda lane: -sum(stay.to_ns - stay.from_ns for stay in lane.stays))[:LANES_MAX]
        return sorted(longest, key=lambda lane: (lane.stays[0].from_ns, lane.checkpoint, lane.device)), len(lanes) - len(longest)

    def _stays(self, rows: list[Row]) -> tuple[Stay, ...]:
        stays = [
            Stay(
                from_ns=(begins := max(row["loaded_ns"], self.from_ns)),
                to_ns=max(begins, self.to_ns if row["ended_ns"] is None else min(row["ended_ns"], self.to_ns)),
                state=self._state(row),
            )
            for row in rows
        ]
        if any(after.from_ns < before.to_ns for before, after in pairwise(stays)):
            return self._counted(stays)
        near_ns = (self.to_ns - self.from_ns) // LANE_PARTS
        merged: list[Stay] = []
        for stay in stays:
            last = merged[-1] if merged else None
            if last is not None and stay.from_ns - last.to_ns < near_ns:
                merged[-1] = Stay(from_ns=last.from_ns, to_ns=stay.to_ns, state=stay.state)
            else:
                merged.append(stay)
        return tuple(merged)

    def _counted(self, stays: list[Stay]) -> tuple[Stay, ...]:
        """Where several hosts report to one ledger: how many at once, the most in each part of the lane."""
        part_ns = max(1, (self.to_ns - self.from_ns) // COUNTED_PARTS)
        changes: dict[int, int] = {}
        for stay in stays:
            changes[stay.from_ns] = changes.get(stay.from_ns, 0) + 1
            changes[stay.to_ns] = changes.get(stay.to_ns, 0) - 1
        found: list[Stay] = []
        number, most, part = 0, 0, 0
        for moment_ns in [*sorted(changes), self.to_ns]:
            while moment_ns >= self.from_ns + (part + 1) * part_ns and part < COUNTED_PARTS:
                self._add(found, part, part_ns, max(most, number))
                part, most = part + 1, number
            number += changes.get(moment_ns, 0)
            most = max(most, number)
        return tuple(found)

    def _add(self, found: list[Stay], part: int, part_ns: int, number: int) -> None:
        from_ns = self.from_ns + part * part_ns
        if found and found[-1].number == number and found[-1].to_ns == from_ns:
            found[-1] = Stay(from_ns=found[-1].from_ns, to_ns=from_ns + part_ns, state=found[-1].state, number=number)
        elif number:
            found.append(Stay(from_ns=from_ns, to_ns=from_ns + part_ns, state=ResidencyState.RESIDENT.value, number=number))
