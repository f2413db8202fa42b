"""A ledger with segments: a history whose streams begin, go on and end on both sides of their borders."""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path

from support import history

from wcache.core.model import events as ev
from wcache.core.model.errors import WcacheError
from wcache.core.model.vocabulary import Outcome
from wcache.ledger.retention import DAY_NS
from wcache.ledger.segments import close_segment
from wcache.ledger.store import Ledger, NewEvent

LATER_NS = time.time_ns() + 500 * DAY_NS
"""A time at which everything that a test records is old."""

HASHED = history.fingerprint()
UNUSED = history.fingerprint(digest="e" * 64, ino=9)


def add(ledger: Ledger, events: Iterable[ev.Event]) -> None:
    for result in ledger.append_batch([(NewEvent(event=event),) for event in events]):
        if isinstance(result, WcacheError):
            raise result


FIRST: tuple[ev.Event, ...] = (
    history.daemon_started("d-1"), history.recorded(HASHED), history.recorded(UNUSED), history.trust_granted("g-1"),
    history.trust_granted("g-2"), ev.TrustRevoked(grant="g-2", operator_uid=0),
    history.load_started("r-1"), history.load_completed("r-1", (HASHED.id(),)),  # resident to the end
    history.decided("a-1"), history.granted("a-1"), history.mapped("a-1"), history.lease_ended("a-1"),  # proved in the second segment
    history.decided("a-2"), history.granted("a-2"), history.mapped("a-2"), history.verify_failed("a-2"),  # denies for ever
    history.lease_ended("a-2"),
    history.decided("a-3"), history.granted("a-3"), history.mapped("a-3"),  # its lease ends in the third segment
    history.decided("a-4", Outcome.FALLBACK), history.fell_back("a-4"),  # over
    history.load_started("r-2"), history.load_completed("r-2"),
    history.decided("a-5", residency="r-2"), history.granted("a-5", "r-2"), history.mapped("a-5"), history.lease_ended("a-5"),  # over
    history.release_requested("r-2"), ev.ReleaseCompleted(residency="r-2", bytes=1000),
    ev.PeerRefused(peer=ev.Peer(1000, 5), why="another user"),
)  # fmt: skip
SECOND: tuple[ev.Event, ...] = (history.verify_passed("a-1"), history.decided("a-6"), history.granted("a-6"), history.mapped("a-6"))
THIRD: tuple[ev.Event, ...] = (history.lease_ended("a-3"), history.decided("a-7"), history.granted("a-7"))


def three_segments(path: Path) -> Path:
    """Two closed ones, and a third that is being written."""
    with Ledger.open(path) as ledger:
        add(ledger, FIRST)
        close_segment(ledger)
        add(ledger, SECOND)
        close_segment(ledger)
        add(ledger, THIRD)
    return path
