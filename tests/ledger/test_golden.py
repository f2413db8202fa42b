"""Ledgers of every schema version that was ever written, shortened, redacted and restored ones too, verify, replay and answer as they did,
for ever (L6). tests/data/ledgers holds them as SQL dumps, each with the answers that were given about it when it was made.

When a migration or a type of event is added, add ledgers (`python tests/ledger/test_golden.py NAME`, where NAME begins with the revision);
never touch the old ones, nor their answers.
"""

from __future__ import annotations

import json
import sqlite3
import sys
import tempfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from wcache.core.model import events as ev
from wcache.core.model.errors import NotFound
from wcache.ledger.audit import Audit
from wcache.ledger.explain import explain
from wcache.ledger.knowledge import Knowledge
from wcache.ledger.replay import replay
from wcache.ledger.schema import SCHEMA_REVISION
from wcache.ledger.segments import close_segment
from wcache.ledger.store import Ledger
from wcache.ledger.upgrade import upgrade
from wcache.ledger.verify import verify

GOLDEN = Path(__file__).parents[1] / "data" / "ledgers"
COLUMNS = (
    "seq", "time", "launch", "rank", "engine", "checkpoint", "decision", "reason", "tier", "asked_digest", "served_digest", "mode", "proof",
)  # fmt: skip
LONG_AFTER_NS = 4_000_000_000_000_000_000  # the year 2096: every grant has expired, every time is past


def opened(dump: Path, path: Path) -> Path:
    path.parent.mkdir(exist_ok=True)
    connection = sqlite3.connect(path)
    connection.executescript(dump.read_text(encoding="utf-8"))
    connection.close()
    return path


def answers(path: Path) -> dict[str, Any]:
    """What audits say of a ledger, as far as it is promised: columns and words that may be added later are left out."""
    report = verify(path)
    with Audit(path) as audit, closing(Knowledge(path)) as knowledge:
        summary = audit.summary()
        counted = (
            "origin",
            "attaches",
            "launches",
            "decisions",
            "reasons",
            "tiers",
            "proofs",
            "wrong_hits",
            "unfinished",
            "residencies",
            "gaps",
        )
        covered = summary["coverage"]
        return {
            "verify": {"ok": report.ok, "events": report.events, "head_seq": report.head_seq, "head_chain": report.head_chain},
            "summary": {name: summary[name] for name in counted},
            "coverage": {
                "first_seq": covered["first_seq"],
                "dropped": [[span["first_seq"], span["last_seq"], span["root"], span["decisions"]] for span in covered["dropped"]],
                "restored": covered["restored"],
                "redacted": covered["redacted"],
            },
            "attaches": [[row[name] for name in COLUMNS] for row in audit.attaches()],
            "wrong_hits": [row["attach"] for row in audit.wrong_hits()],
            "fallbacks": [row["attach"] for row in audit.fallbacks()],
            "trust": [[row["grant"], row["state"], row["hits"]] for row in audit.trust(LONG_AFTER_NS)],
            "residencies": [[item.view.residency, item.view.state.value, item.view.known] for item in knowledge.residencies()],
            "contradictions": [[item.seq, item.asked_key, item.weights_digest] for item in knowledge.contradictions()],
            "instances": [[item.instance, item.state] for item in knowledge.instances(running=False)],
            "types": [[item.seq, item.type, item.late] for item in audit.events()],
        }


@pytest.mark.parametrize("dump", sorted(GOLDEN.glob("*.sql")), ids=lambda dump: dump.stem)
def test_an_old_ledger_upgrades_verifies_replays_answers_and_goes_on(dump: Path, path: Path) -> None:
    opened(dump, path)
    assert upgrade(path) == (dump.stem[:4], SCHEMA_REVISION)
    report = verify(path)
    assert report.ok, report.problems
    assert replay(path) == []
    assert answers(path) == json.loads(dump.with_suffix(".json").read_text(encoding="utf-8"))
    with Audit(path) as audit:
        for item in list(audit.events()):
            assert explain(audit, item.seq).sentences
        with pytest.raises(NotFound):
            explain(audit, report.head_seq + 1)
    with Ledger.open(path) as ledger:
        events = list(ledger.events())
        last = events[-1]
        assert ledger.append(last.stream, None, last.event_id, last.event) == last.seq
        gap = ev.LedgerGap(from_ns=1, to_ns=2, merged=0, lost=0, why="test")
        assert ledger.append("ledger", None, "one-more", gap) == last.seq + 1
        close_segment(ledger)
    assert verify(path).ok


def test_there_is_a_golden_ledger_of_the_present_version() -> None:
    assert (GOLDEN / f"{SCHEMA_REVISION}.sql").exists()


def test_every_type_of_event_is_in_a_golden_ledger() -> None:
    """Whoever adds a type adds a ledger that has it: what is stored today is read for ever."""
    found = {item[1] for file in GOLDEN.glob("*.json") for item in json.loads(file.read_text(encoding="utf-8"))["types"]}
    assert found >= set(ev.EVENT_TYPES), set(ev.EVENT_TYPES) - found


# --- how they are made -----------------------------------------------------------------------------------------------------------


def _every_event(path: Path, beside: Path) -> None:
    from support import history
    from support.histories import event_of
    from support.segments import add

    with Ledger.open(path) as ledger:
        add(ledger, (
            history.daemon_started("d-1"), *history.legal_starts(), history.trust_granted("g-1"),
            ev.TrustRevoked(grant="g-1", operator_uid=0),
            history.decided("a-1"), history.granted("a-1"), history.mapped("a-1"), history.verify_failed("a-1"), history.lease_ended("a-1"),
            history.map_failed("a-1"), history.decided("a-2"), history.granted("a-2"), history.map_failed("a-2"), history.redecided("a-2"),
            history.fell_back("a-2"), history.decided("a-3"), history.granted("a-3"), history.mapped("a-3"), history.verify_passed("a-3"),
            event_of("map.paused", attach="a-3"), event_of("map.resumed", attach="a-3"),
            history.decided("a-4"), history.granted("a-4"), history.inconclusive("a-4"), history.load_failed("r-2"),
            event_of("attach.decided:fallback", attach="a-5"), event_of("fallback.failed", attach="a-5"), history.trust_granted("g-2"),
            ev.ReleaseRefused(residency="r-1", uid=0, why="leased", leases=("a-3",)),
            ev.ResidencyReadopted(residency="r-1", instance="d-1"),
            ev.MutationDetected(residency="r-1", tensors=("w",)), history.release_requested("r-1"),
            ev.ReleaseCompleted(residency="r-1", bytes=1000), history.load_started("r-3"), ev.ResidencyLost(residency="r-3", why="gone"),
            ev.PeerRefused(peer=ev.Peer(1000, 5), why="another user"), ev.LedgerGap(from_ns=1, to_ns=2, merged=1, lost=0, why="full"),
            ev.DaemonStopped(instance="d-1", by="signal"), history.daemon_started("d-2"), ev.DaemonLost(instance="d-2", noticed_by="d-3"),
        ))  # fmt: skip
        size, root = _root(ledger)
        add(ledger, (ev.CheckpointSigned(origin=ledger.origin, size=size, root=root),))
        close_segment(ledger)


def _root(ledger: Ledger) -> tuple[int, str]:
    from wcache.ledger.leaves import roots
    from wcache.ledger.segments import read_history

    size = ledger.head()[0]
    with closing(sqlite3.connect(ledger.path)) as connection:
        return size, roots(connection, read_history(connection, ledger.origin), {size}, ledger.path)[size].hex()


def _redacted(path: Path, beside: Path) -> None:
    from support.segments import FIRST, three_segments

    from wcache.ledger.redact import redact

    three_segments(path)
    over = [seq for seq, event in enumerate(FIRST, 1) if getattr(event, "attach", None) == "a-5" or event.type == "peer.refused"]
    redact(path, over[:2] + over[-1:], "a path with a name")


def _dropped(path: Path, beside: Path) -> None:
    from support import history
    from support.segments import LATER_NS, SECOND, add

    from wcache.ledger.retention import drop_segments

    _redacted(path, beside)
    with Ledger.open(path) as ledger:
        add(ledger, (history.inconclusive("a-5"),))
    drop_segments(path, now_ns=LATER_NS)
    with Ledger.open(path) as ledger:
        add(ledger, (history.lease_ended("a-6"), history.lease_ended("a-4"), *SECOND[:1]))


def _restored(path: Path, beside: Path) -> None:
    from support import history
    from support.segments import add, three_segments

    from wcache.ledger.backup import backup
    from wcache.ledger.restore import restore

    backup(three_segments(path), beside)
    with Ledger.open(path) as ledger:
        add(ledger, (history.lease_ended("a-6"),))
    restore(beside, path, replace=True)
    with Ledger.open(path) as ledger:
        add(ledger, (history.lease_ended("a-6"), history.daemon_started("d-2")))


_STORIES: dict[str, Callable[[Path, Path], None]] = {
    "": _every_event, "-redacted": _redacted, "-dropped": _dropped, "-restored": _restored,
}  # fmt: skip


def _write(name: str) -> None:
    """Adds what is not there yet; an old ledger without answers gets those that this release gives."""
    for suffix, story in _STORIES.items():
        target = GOLDEN / f"{name}{suffix}.sql"
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory) / "state" / "ledger.sqlite"
            if not target.exists():
                story(path, Path(directory) / "backup.sqlite")
                with closing(sqlite3.connect(path)) as connection:
                    target.write_text("\n".join(connection.iterdump()) + "\n", encoding="utf-8")
            said = target.with_suffix(".json")
            if not said.exists():
                fresh = opened(target, Path(directory) / "again" / "ledger.sqlite")
                upgrade(fresh)
                said.write_text(json.dumps(answers(fresh), indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))
    for wanted in sys.argv[1:]:
        _write(wanted)
