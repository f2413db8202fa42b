"""Group commit."""

from __future__ import annotations

import threading

import pytest
from support import history

from wcache.core.model.errors import IllegalTransition, LedgerError, LedgerUnavailable
from wcache.ledger.lock import FileLock
from wcache.ledger.store import Ledger, NewEvent
from wcache.ledger.upgrade import lock_path
from wcache.ledger.verify import verify
from wcache.ledger.writer import LedgerWriter


def test_many_callers_get_their_own_seqs_and_all_are_durable_when_they_do(ledger: Ledger) -> None:
    writer = LedgerWriter(ledger)
    seqs: list[int] = []

    def caller(name: int) -> None:
        for number in range(20):
            event = NewEvent(event=history.daemon_started(f"d-{name}-{number}"), expected_version=0)
            (seq,) = writer.submit((event,)).result()
            with Ledger.open(ledger.path, read_only=True) as reader:
                assert reader.head()[0] >= seq
            seqs.append(seq)

    threads = [threading.Thread(target=caller, args=(name,)) for name in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    writer.close()
    assert sorted(seqs) == list(range(1, 161))
    assert verify(ledger.path).ok


def test_closing_drains_and_a_closed_writer_takes_nothing(ledger: Ledger) -> None:
    writer = LedgerWriter(ledger)
    futures = [writer.submit((NewEvent(event=history.daemon_started(f"d-{number}")),)) for number in range(600)]
    writer.close()
    writer.close()
    assert [future.result(timeout=0) for future in futures] == [[seq] for seq in range(1, 601)]
    with pytest.raises(LedgerError, match="closed"):
        writer.submit((NewEvent(event=history.daemon_started()),))


def test_one_refused_unit_hears_of_it_and_the_others_are_appended(ledger: Ledger) -> None:
    writer = LedgerWriter(ledger)
    bad = writer.submit((NewEvent(event=history.granted()),))
    good = writer.submit((NewEvent(event=history.daemon_started()),))
    assert isinstance(bad.exception(), IllegalTransition)
    assert good.result() == [1]
    writer.close()


def test_callbacks_run_in_the_writers_thread(ledger: Ledger) -> None:
    writer = LedgerWriter(ledger)
    called: list[str] = []
    with FileLock(lock_path(ledger.path)).held():  # so that the callback is there before the result
        future = writer.submit((NewEvent(event=history.daemon_started()),))
        future.add_done_callback(lambda done: called.append(threading.current_thread().name))
    writer.close()
    assert called == ["wcache-ledger"]


def test_a_writer_goes_on_after_the_ledger_could_not_be_written(ledger: Ledger) -> None:
    writer = LedgerWriter(ledger)
    with FileLock(lock_path(ledger.path)).held():
        failed = writer.submit((NewEvent(event=history.daemon_started("d-1")),))
        assert isinstance(failed.exception(), LedgerUnavailable)
    assert writer.submit((NewEvent(event=history.daemon_started("d-2")),)).result() == [1]
    writer.close()
