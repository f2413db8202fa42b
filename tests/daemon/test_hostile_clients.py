"""300 clients at once, ten of them hostile, each in its own way: the others get their weights. bench/hostile_clients.py has the times."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.crowd import make_script, run_clients
from support.daemon import DaemonProcess, wait_until
from support.hostile import KINDS, Attacker

from wcache.ledger.knowledge import Knowledge
from wcache.ledger.verify import verify

HONEST = 290
TURNS = 2


def test_ten_hostile_clients_of_three_hundred_spoil_it_for_nobody(daemon: DaemonProcess, checkpoint: Path) -> None:
    daemon.load(checkpoint)
    script = make_script(daemon.settings.socket_path, checkpoint)
    wait_until(lambda: daemon.status().leases == ())
    fds, memory_bytes, pid = daemon.fd_count(), daemon.memory()["VmRSS"], daemon.pid
    attackers = [Attacker(kind.__name__, script, kind, 50.0) for kind in KINDS]
    for attacker in attackers:
        attacker.start()
    try:
        wait_until(lambda: all(attacker.connections for attacker in attackers))
        turns = run_clients(script, HONEST, TURNS)
    finally:
        for attacker in attackers:
            attacker.stop()
    assert [turn.failure for turn in turns if turn.failure] == []
    assert len(turns) == HONEST * TURNS
    for attacker in attackers:
        attacker.join(60)
    wait_until(lambda: daemon.status().leases == (), what="a hostile client keeps its lease")
    wait_until(lambda: daemon.fd_count() <= fds + 1, what="descriptors stay open")
    assert daemon.pid == pid
    assert "a defect" not in daemon.log(), daemon.log()
    assert daemon.memory()["VmRSS"] - memory_bytes < 32 << 20
    assert verify(daemon.settings.ledger).problems == []
    knowledge = Knowledge(daemon.settings.ledger)
    try:
        assert knowledge.open_attaches() == ()
    finally:
        knowledge.close()


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_each_hostile_client_alone_is_got_rid_of(daemon: DaemonProcess, checkpoint: Path, kind: object) -> None:
    """After it has gone nothing of it is left, whatever it did before."""
    daemon.load(checkpoint)
    script = make_script(daemon.settings.socket_path, checkpoint)
    wait_until(lambda: daemon.status().leases == ())
    fds = daemon.fd_count()
    attacker = Attacker("one", script, kind, 50.0)  # type: ignore[arg-type]
    attacker.start()
    wait_until(lambda: attacker.connections)
    assert [turn.failure for turn in run_clients(script, 5, 5)] == [""] * 25
    attacker.stop()
    attacker.join(60)
    assert not attacker.is_alive()
    wait_until(lambda: daemon.fd_count() <= fds + 1, what="descriptors stay open")
    wait_until(lambda: daemon.status().leases == ())
