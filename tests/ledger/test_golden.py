"""Ledgers of every schema version that was ever written replay and verify for ever (L6). tests/data/ledgers holds them as SQL dumps.

When a migration is added, add a ledger of the new version (`python tests/ledger/test_golden.py NEW.sql`) and never touch the old ones.
"""

from __future__ import annotations

import sqlite3
import sys
import tempfile
from pathlib import Path

import pytest

from wcache.core.model import events as ev
from wcache.ledger.replay import replay
from wcache.ledger.schema import SCHEMA_REVISION
from wcache.ledger.store import Ledger, NewEvent
from wcache.ledger.upgrade import upgrade
from wcache.ledger.verify import verify

GOLDEN = Path(__file__).parents[1] / "data" / "ledgers"


@pytest.mark.parametrize("dump", sorted(GOLDEN.glob("*.sql")), ids=lambda dump: dump.stem)
def test_an_old_ledger_upgrades_verifies_replays_and_goes_on(dump: Path, path: Path) -> None:
    path.parent.mkdir()
    connection = sqlite3.connect(path)
    connection.executescript(dump.read_text(encoding="utf-8"))
    connection.close()
    assert upgrade(path) == (dump.stem[:4], SCHEMA_REVISION)
    report = verify(path)
    assert report.ok, report.problems
    assert replay(path) == []
    with Ledger.open(path) as ledger:
        events = list(ledger.events())
        assert [item.seq for item in events] == list(range(1, len(events) + 1))
        assert len({item.type for item in events}) > 20
        last = events[-1]
        assert ledger.append(last.stream, None, last.event_id, last.event) == last.seq
        gap = ev.LedgerGap(from_ns=1, to_ns=2, merged=0, lost=0, why="test")
        assert ledger.append("ledger", None, "one-more", gap) == last.seq + 1
    assert verify(path).ok


def test_there_is_a_golden_ledger_of_the_present_version() -> None:
    assert (GOLDEN / f"{SCHEMA_REVISION}.sql").exists()


def _write(target: Path) -> None:
    from support import history

    story: list[ev.Event] = [
        history.daemon_started("d-1"), *history.legal_starts(), history.trust_granted("g-1"), ev.TrustRevoked(grant="g-1", operator_uid=0),
        history.decided("a-1"), history.granted("a-1"), history.mapped("a-1"), history.verify_failed("a-1"), history.lease_ended("a-1"),
        history.map_failed("a-1"), history.decided("a-2"), history.granted("a-2"), history.map_failed("a-2"), history.redecided("a-2"),
        history.fell_back("a-2"), history.decided("a-3"), history.granted("a-3"), history.mapped("a-3"), history.verify_passed("a-3"),
        history.decided("a-4"), history.granted("a-4"), history.inconclusive("a-4"), history.load_failed("r-2"),
        ev.ReleaseRefused(residency="r-1", uid=0, why="leased", leases=("a-3",)), ev.MutationDetected(residency="r-1", tensors=("w",)),
        history.release_requested("r-1"), ev.ReleaseCompleted(residency="r-1", bytes=1000), history.load_started("r-3"),
        ev.ResidencyLost(residency="r-3", why="gone"), ev.PeerRefused(peer=ev.Peer(1000, 5), why="another user"),
        ev.LedgerGap(from_ns=1, to_ns=2, merged=1, lost=0, why="full"), ev.DaemonStopped(instance="d-1", by="signal"),
        history.daemon_started("d-2"), ev.DaemonLost(instance="d-2", noticed_by="d-3"),
    ]  # fmt: skip
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "ledger.sqlite"
        with Ledger.open(path) as ledger:
            results = ledger.append_batch([(NewEvent(event=event),) for event in story])
            assert results == [[seq] for seq in range(1, len(story) + 1)], results
        connection = sqlite3.connect(path)
        target.write_text("\n".join(connection.iterdump()) + "\n", encoding="utf-8")
        connection.close()


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))
    _write(Path(sys.argv[1]))
