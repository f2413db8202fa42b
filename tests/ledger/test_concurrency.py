"""Several writers, stopped writers, killed writers: real processes and real signals."""

from __future__ import annotations

import itertools
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from support import history
from support.descriptors import open_descriptors

from wcache.core.model.errors import LedgerUnavailable
from wcache.ledger.lock import FileLock
from wcache.ledger.store import Ledger
from wcache.ledger.upgrade import lock_path
from wcache.ledger.verify import verify

APPENDER = """
import sys, time
sys.path.insert(0, sys.argv[4])
from support import history
from wcache.ledger.store import Ledger
path, name, seconds = sys.argv[1], sys.argv[2], float(sys.argv[3])
ledger = Ledger.open(path)
print("ready", flush=True)
sys.stdin.readline()
stop, number = time.monotonic() + seconds, 0
while time.monotonic() < stop:
    instance = f"d-{name}-{number}"
    ledger.append(f"daemon/{instance}", 0, f"{name}-{number}", history.daemon_started(instance))
    number += 1
print(number, flush=True)
"""

HOLDER = """
import sys
from pathlib import Path
from wcache.ledger.lock import FileLock
with FileLock(Path(sys.argv[1])).held():
    print("held", flush=True)
    sys.stdin.readline()
"""


def appender(path: Path, name: str, seconds: float) -> subprocess.Popen[str]:
    """A process that appends as fast as it can for so long, once `go` is called."""
    support = str(Path(__file__).parents[1])
    arguments = [sys.executable, "-c", APPENDER, str(path), name, str(seconds), support]
    process = subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def go(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()


def forked_appender(path: Path, start: int) -> tuple[int, int]:
    """(pid, pipe): a child that appends events start, start + 1, ... and says `trying N` before and `done N SEQ` after each."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid:
        os.close(writing)
        return pid, reading
    try:
        ledger = Ledger.open(path)
        for number in itertools.count(start):
            os.write(writing, f"trying {number}\n".encode())
            instance = f"d-one-{number}"
            seq = ledger.append(f"daemon/{instance}", 0, f"one-{number}", history.daemon_started(instance))
            os.write(writing, f"done {number} {seq}\n".encode())
    finally:
        os._exit(1)


@contextmanager
def holding(path: Path) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen([sys.executable, "-c", HOLDER, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def test_two_processes_append_at_once_gapless_with_a_fair_share_and_an_intact_chain(path: Path) -> None:
    """L1"""
    Ledger.open(path).close()
    processes = [appender(path, name, 3.0) for name in ("left", "right")]
    for process in processes:
        go(process)
    shares = [int(process.communicate()[0]) for process in processes]
    report = verify(path)
    assert report.ok, report.problems
    assert sum(shares) == report.events == report.head_seq
    assert min(shares) >= 0.1 * max(shares), shares  # without the queue one of them gets next to nothing


def test_a_killed_writer_loses_nothing_acknowledged_and_a_retry_gives_the_same_seq(path: Path) -> None:
    """L4: twenty times kill -9 at a random moment, so between INSERT and COMMIT, and after COMMIT before the acknowledgement."""
    Ledger.open(path).close()
    chance = random.Random(4)
    acknowledged: dict[int, int] = {}
    tried = -1
    for _ in range(20):
        pid, reading = forked_appender(path, tried + 1)
        with os.fdopen(reading) as pipe:
            lines = [pipe.readline() for _ in range(chance.randrange(1, 9))]
            time.sleep(chance.uniform(0.0, 0.002))  # the random moment
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            lines += pipe.readlines()
        for words in (line.split() for line in lines):
            if words[0] == "done":
                acknowledged[int(words[1])] = int(words[2])
            else:
                tried = int(words[1])
    report = verify(path)
    assert report.ok, report.problems
    with Ledger.open(path) as ledger:
        present = {int(item.event_id.split("-")[1]): item.seq for item in ledger.events()}
        assert len(acknowledged) >= 10
        assert acknowledged.items() <= present.items()
        for number in range(tried + 1):
            instance = f"d-one-{number}"
            seq = ledger.append(f"daemon/{instance}", 0, f"one-{number}", history.daemon_started(instance))
            assert seq == present.get(number, seq)
        assert ledger.head()[0] == tried + 1
    assert verify(path).ok


def test_a_stopped_lock_holder_is_reported_after_the_deadline_and_does_not_block_for_ever(ledger: Ledger) -> None:
    """L10"""
    with holding(lock_path(ledger.path)) as holder:
        holder.send_signal(signal.SIGSTOP)
        begun = time.monotonic()
        with pytest.raises(LedgerUnavailable, match="another writer has held the lock"):
            ledger.append("daemon/d-1", 0, "id-1", history.daemon_started())
        assert 1.5 < time.monotonic() - begun < 60
    assert ledger.append("daemon/d-1", 0, "id-1", history.daemon_started()) == 1


def test_waiting_again_and_again_keeps_one_place_in_the_queue(tmp_path: Path) -> None:
    lock = FileLock(tmp_path / "lock")
    outside = open_descriptors()
    with holding(lock.path):
        before = open_descriptors(), len(os.listdir("/proc/self/task"))
        for _ in range(5):
            with pytest.raises(LedgerUnavailable), lock.held(0.01):
                pass
        assert open_descriptors() - before[0] == 1
        assert len(os.listdir("/proc/self/task")) - before[1] == 1
    with lock.held():
        pass
    assert open_descriptors() == outside


def test_a_lock_that_comes_after_its_deadline_is_given_back(tmp_path: Path) -> None:
    lock, other = FileLock(tmp_path / "lock"), FileLock(tmp_path / "lock")
    with other.held(), pytest.raises(LedgerUnavailable), lock.held(0.01):
        pass
    with other.held():  # although `lock` was the next in the queue
        pass
    with lock.held(0.5):
        pass


def test_a_forked_child_does_not_keep_its_parents_lock(tmp_path: Path) -> None:
    """L10: the parent dies by SIGKILL inside the lock, the child lives on, and nobody waits for it."""
    lock = FileLock(tmp_path / "lock")
    reading, writing = os.pipe()
    parent = os.fork()
    if parent == 0:
        with lock.held():
            child = os.fork()
            if child == 0:
                os.write(writing, f"{os.getpid()}\n".encode())
                signal.pause()
            signal.pause()
    os.close(writing)
    with os.fdopen(reading) as pipe:
        child = int(pipe.readline())
    try:
        with pytest.raises(LedgerUnavailable), lock.held(0.05):
            pass
        os.kill(parent, signal.SIGKILL)
        os.waitpid(parent, 0)
        with lock.held(1.0):
            os.kill(child, 0)  # it lives
    finally:
        os.kill(child, signal.SIGKILL)


def test_a_removed_lock_file_is_noticed(tmp_path: Path) -> None:
    lock = FileLock(tmp_path / "lock")
    with lock.held():
        lock.path.unlink()
    with lock.held(), pytest.raises(LedgerUnavailable), FileLock(lock.path).held(0.01):
        pass


def test_a_reader_sees_what_was_committed_while_a_writer_goes_on(path: Path) -> None:
    """L8"""
    Ledger.open(path).close()
    process = appender(path, "one", 60)
    go(process)
    try:
        with Ledger.open(path, read_only=True) as reader:
            seen = 0
            while seen < 50:
                events = list(reader.events())
                assert [item.seq for item in events] == list(range(1, len(events) + 1))
                seen = len(events)
        assert verify(path).ok
    finally:
        process.kill()
        process.communicate()
