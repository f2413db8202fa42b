"""Taking the facts of a report: one state of the ledger, and its verification beside that."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec

from wcache.core import __version__
from wcache.ledger.report.attaches import HOUR_NS, Attaches, totals_and_bars
from wcache.ledger.report.catalogue import LISTINGS
from wcache.ledger.report.model import Head, Period, Report, Verification
from wcache.ledger.report.record import Record
from wcache.ledger.report.residencies import Residencies
from wcache.ledger.report.root import Root
from wcache.ledger.report.source import Source
from wcache.ledger.verify import verify_to

Progress = Callable[[int, int], None]
"""(done, in all) of the verification, in events"""


def collect(path: Path, period: Period, *, limit: int | None = None, verify: bool = True, progress: Progress | None = None) -> Report:
    """Everything that a report says. `limit`: so many rows of each list are kept, the totals count all.

    Raises NotFound and LedgerError as `Audit` does; damage that verification finds is part of the report.
    """
    made_ns = time.time_ns()
    with Source(path, period) as source, ThreadPoolExecutor(1) as beside:
        asked = beside.submit(_ask, source, limit, made_ns)
        try:
            if verify:
                # It sees what the source does, or more: at least what the report tells of is looked at, however the ledger grows meanwhile.
                verification, root = _verified(path, source.size, progress)
            else:
                with Root(path, source.size) as alone:
                    verification, root = Verification(done=False), alone.result()
            report = asked.result()
        except BaseException:
            source.stop()
            raise
    return msgspec.structs.replace(report, head=msgspec.structs.replace(report.head, root=root), verification=verification)


def _ask(source: Source, limit: int | None, made_ns: int) -> Report:
    """All but verification and root."""
    record = Record(source, limit)
    end_ns = max(made_ns, record.newest_ns + 1)
    source.period = msgspec.structs.replace(source.period, until_ns=min(source.period.until_ns, end_ns))
    head = _head(source)
    from_ns = _begin_ns(source, head)
    to_ns = max(source.period.until_ns, from_ns + 1)
    totals, bars = totals_and_bars(source, from_ns, to_ns)
    totals.gap_merged, totals.gap_lost = record.gaps()
    attaches = Attaches(source, totals, limit)
    residencies = Residencies(source, from_ns, to_ns)
    lanes, lanes_more = residencies.lanes()
    found = [*attaches.listings(), residencies.resident(limit), residencies.weights(limit), *record.listings(attaches)]
    listings = {listing.name: listing for listing in found}
    return Report(
        made_ns=made_ns, version=__version__, period=source.period, head=head, totals=totals, bars=bars, lanes=lanes, lanes_more=lanes_more,
        verification=Verification(done=False), listings={name: listings[name] for name in LISTINGS},
    )  # fmt: skip


def _begin_ns(source: Source, head: Head) -> int:
    """Where the charts begin: as asked, or with the first event that has its time in the period."""
    if source.period.since_ns is not None:
        return source.period.since_ns
    first_ns = source.one("SELECT min(decided_ns) FROM attach") or head.first_ns or source.period.until_ns - HOUR_NS
    return min(first_ns, head.first_ns or first_ns)


def _head(source: Source) -> Head:
    ends = source.rows(
        "SELECT seq, recorded_ns, chain FROM event WHERE seq IN ((SELECT min(seq) FROM event), ?) ORDER BY seq", (source.size,)
    )
    return Head(
        name=source.path.name,
        origin=source.origin,
        size=source.size,
        chain=bytes(ends[-1]["chain"]).hex() if ends else "",
        first_seq=ends[0]["seq"] if ends else 0,
        first_ns=ends[0]["recorded_ns"] if ends else None,
        last_ns=ends[-1]["recorded_ns"] if ends else None,
        dropped=source.history.spans,
        restored=tuple(seq for seq, _ in source.history.origins),
    )


def _verified(path: Path, size: int, progress: Progress | None) -> tuple[Verification, str]:
    found, root = verify_to(path, size, progress)
    problems = tuple(msgspec.to_builtins(problem) for problem in found.problems)
    verification = Verification(done=True, events=found.events, problems=problems, notes=tuple(found.notes))
    return verification, root.hex() if root is not None else ""
