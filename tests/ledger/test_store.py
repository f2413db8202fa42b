"""What `append` promises."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from support import history

from wcache.core.model import events as ev
from wcache.core.model.errors import (
    EventIdReused,
    IllegalTransition,
    LedgerError,
    LedgerUnavailable,
    NotFound,
    WcacheError,
    WrongExpectedVersion,
)
from wcache.core.model.vocabulary import Outcome
from wcache.ledger.store import Ledger, NewEvent, Unit
from wcache.ledger.verify import verify


def unit(*events: ev.Event) -> Unit:
    return tuple(NewEvent(event=event) for event in events)


def resident(ledger: Ledger, residency: str = "r-1") -> None:
    assert ledger.append_batch([unit(history.load_started(residency), history.load_completed(residency))]) == [[1, 2]]


def test_an_event_comes_back_as_it_was_appended(ledger: Ledger) -> None:
    event = history.daemon_started()
    assert ledger.append("daemon/d-1", 0, "id-1", event, occurred_ns=5) == 1
    (stored,) = ledger.events()
    assert (stored.seq, stored.stream, stored.version, stored.event_id, stored.occurred_ns) == (1, "daemon/d-1", 1, "id-1", 5)
    assert stored.event == event
    assert abs(stored.recorded_ns - time.time_ns()) < 60e9
    assert not stored.late


def test_the_same_id_and_body_again_gives_the_old_seq_whatever_version_is_expected(ledger: Ledger) -> None:
    first = ledger.append("daemon/d-1", 0, "id-1", history.daemon_started())
    ledger.append("daemon/d-1", 1, "id-2", ev.DaemonStopped(instance="d-1", by="signal"))
    assert ledger.append("daemon/d-1", 0, "id-1", history.daemon_started()) == first
    assert ledger.head()[0] == 2


def test_the_same_id_twice_in_one_batch_is_one_event(ledger: Ledger) -> None:
    new = NewEvent(event=history.daemon_started(), event_id="id-1")
    assert ledger.append_batch([(new, new), (new,)]) == [[1, 1], [1]]


def test_the_same_id_with_another_body_is_refused(ledger: Ledger) -> None:
    ledger.append("daemon/d-1", 0, "id-1", history.daemon_started())
    with pytest.raises(EventIdReused):
        ledger.append("daemon/d-2", 0, "id-1", history.daemon_started("d-2"))
    with pytest.raises(EventIdReused):
        ledger.append("daemon/d-1", None, "id-1", ev.DaemonStopped(instance="d-1", by="signal"))


def test_another_version_than_the_expected_one_is_refused_with_both(ledger: Ledger) -> None:
    ledger.append("daemon/d-1", 0, "id-1", history.daemon_started())
    with pytest.raises(WrongExpectedVersion) as raised:
        ledger.append("daemon/d-1", 0, "id-2", history.daemon_started())
    assert (raised.value.expected, raised.value.actual) == (0, 1)


def test_an_event_is_refused_on_a_stream_that_is_not_its_own(ledger: Ledger) -> None:
    with pytest.raises(LedgerError, match="belongs to daemon/d-1"):
        ledger.append("attach/a-1", None, "id-1", history.daemon_started())


def test_an_illegal_authority_event_leaves_the_rest_of_its_batch_as_it_is(ledger: Ledger) -> None:
    resident(ledger)
    good, bad, later = ledger.append_batch(
        [unit(history.decided("a-1"), history.granted("a-1")), unit(history.granted("a-2")), unit(history.mapped("a-1"))]
    )
    assert good == [3, 4]
    assert isinstance(bad, IllegalTransition)
    assert later == [5]


def test_a_unit_is_appended_whole_or_not_at_all(ledger: Ledger) -> None:
    resident(ledger)
    (result,) = ledger.append_batch([unit(history.decided("a-1", Outcome.FALLBACK), history.granted("a-1"))])
    assert isinstance(result, IllegalTransition)
    assert ledger.head()[0] == 2
    assert ledger.append_batch([unit(history.decided("a-1"))]) == [[3]]


@pytest.mark.parametrize("event", [history.release_requested(), ev.ResidencyLost(residency="r-1", why="gone"), history.load_failed("r-9")])
def test_a_lease_is_granted_only_on_a_residency_that_is_resident_at_that_moment(ledger: Ledger, event: ev.Event) -> None:
    resident(ledger)
    residency = "r-9" if isinstance(event, ev.LoadFailed) else "r-1"
    ledger.append_batch([unit(event)])
    (result,) = ledger.append_batch([unit(history.decided(residency=residency), history.granted(residency=residency))])
    assert isinstance(result, IllegalTransition)
    assert result.machine == "residency"


def test_a_late_observation_is_kept_flagged_and_changes_nothing(ledger: Ledger) -> None:
    resident(ledger)
    ledger.append_batch([unit(history.decided(), history.granted()), unit(history.mapped()), unit(history.lease_ended())])
    (result,) = ledger.append_batch([unit(history.map_failed())])
    assert result == [7]
    assert [item.seq for item in ledger.events() if item.late] == [7]
    assert verify(ledger.path).ok
    (result,) = ledger.append_batch([unit(history.decided())])
    assert isinstance(result, IllegalTransition)
    assert "ended" in str(result)


def test_what_cannot_be_stored_is_refused_alone(ledger: Ledger) -> None:
    bad, good = ledger.append_batch([unit(history.recorded(history.fingerprint(), spelling="\udcff")), unit(history.daemon_started())])
    assert isinstance(bad, LedgerError)
    assert good == [1]


def test_events_are_read_by_stream_type_and_seq_across_pages(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wcache.ledger.stored.PAGE_EVENTS", 2)
    resident(ledger)
    ledger.append_batch([unit(history.daemon_started(f"d-{number}")) for number in range(5)])
    assert [item.seq for item in ledger.events()] == [1, 2, 3, 4, 5, 6, 7]
    assert [item.seq for item in ledger.events(after_seq=2, types=["daemon.started"])] == [3, 4, 5, 6, 7]
    assert [item.type for item in ledger.events(stream="residency/r-1")] == ["load.started", "load.completed"]


def test_file_and_directory_are_the_owners_alone(ledger: Ledger) -> None:
    ledger.append("daemon/d-1", 0, "id-1", history.daemon_started())
    names = sorted(entry.name for entry in ledger.path.parent.iterdir())
    assert names == ["ledger.sqlite", "ledger.sqlite-shm", "ledger.sqlite-wal", "ledger.sqlite.lock"]
    assert {oct(entry.stat().st_mode & 0o777) for entry in ledger.path.parent.iterdir()} == {"0o600"}
    assert oct(ledger.path.parent.stat().st_mode & 0o777) == "0o700"


def test_origin_and_head_survive_closing(path: Path) -> None:
    with Ledger.open(path) as first:
        first.append("daemon/d-1", 0, "id-1", history.daemon_started())
        origin, head = first.origin, first.head()
    with Ledger.open(path, create=False) as again:
        assert (again.origin, again.head()) == (origin, head)
    with Ledger.open(path, read_only=True) as reader:
        assert (reader.origin, reader.head()) == (origin, head)
        assert [item.seq for item in reader.events()] == [1]
        with pytest.raises(LedgerUnavailable, match="reading only"):
            reader.append("daemon/d-1", None, "id-2", ev.DaemonStopped(instance="d-1", by="x"))


def test_an_absent_ledger_is_not_found_unless_it_may_be_created(path: Path) -> None:
    for options in ({"create": False}, {"read_only": True}):
        with pytest.raises(NotFound):
            Ledger.open(path, **options)
    assert not path.exists()


def test_a_closed_ledger_says_so(ledger: Ledger) -> None:
    ledger.close()
    ledger.close()
    with pytest.raises(LedgerError, match="closed"):
        ledger.head()


def test_a_ledger_replaced_under_an_open_handle_is_noticed(ledger: Ledger) -> None:
    os.rename(ledger.path, ledger.path.with_name("moved"))
    with pytest.raises(LedgerUnavailable, match="removed or replaced"):
        ledger.append("daemon/d-1", 0, "id-1", history.daemon_started())


def test_order_is_by_seq_when_the_clock_goes_back_an_hour_and_verify_notes_it(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    """L5"""
    now = time.time_ns()
    ledger.append("daemon/d-1", 0, "id-1", history.daemon_started())
    with monkeypatch.context() as patch:
        patch.setattr("wcache.ledger.store.time.time_ns", lambda: now - 3600 * 10**9)
        ledger.append("daemon/d-2", 0, "id-2", history.daemon_started("d-2"))
    assert [item.seq for item in ledger.events()] == [1, 2]
    report = verify(ledger.path)
    assert report.ok
    assert any("clock went back 1 times, first at seq 2" in note for note in report.notes)


def test_a_forked_child_is_told_to_open_its_own_ledger(ledger: Ledger) -> None:
    """A13: the handle is not shared."""
    ledger.append("daemon/d-1", 0, "id-1", history.daemon_started())
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            ledger.append("daemon/d-2", 0, "id-2", history.daemon_started("d-2"))
            answer = "appended"
        except WcacheError as error:
            answer = str(error)
        os.write(writing, answer.encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        assert "forked child" in pipe.read()
    os.waitpid(child, 0)
    assert ledger.append("daemon/d-2", 0, "id-2", history.daemon_started("d-2")) == 2
    assert verify(ledger.path).ok


def test_opening_a_current_ledger_imports_neither_alembic_nor_torch(ledger: Ledger) -> None:
    script = (
        "import sys; from wcache.ledger.store import Ledger; from wcache.ledger.knowledge import Knowledge\n"
        "ledger = Ledger.open(sys.argv[1]); Knowledge(ledger).grants(); ledger.close()\n"
        "Ledger.open(sys.argv[1] + '.new').close()\n"
        "print([name for name in ('alembic', 'mako', 'torch', 'rich', 'click') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script, str(ledger.path)], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
