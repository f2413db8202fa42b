"""Who holds a lease: the connection says so, and the kernel whether the process that attached is still there. A13, D3."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.daemon import DaemonProcess, wait_until

from wcache.core.model.events import AttachDecided, LeaseEnded
from wcache.core.wire.messages import LeaseStatus

TESTS = Path(__file__).parents[1]
HAS_PEERPIDFD = tuple(map(int, os.uname().release.split("-")[0].split(".")[:2])) >= (6, 5)

# Attaches and holds its lease until it is told more: "fork" makes a child that inherits the connection, then this process ends.
ENGINE = """
    import os, signal, sys
    sys.path.insert(0, sys.argv[1])
    from pathlib import Path
    from support.attaching import attach
    attached = attach(Path(sys.argv[2]), sys.argv[3])
    print(attached.attach, flush=True)
    if sys.stdin.readline().strip() == "fork":
        child = os.fork()
        if child:
            print(child, flush=True)
            os._exit(0)
        name = next(iter(attached.fds))
        if attached.content(name) != (Path(sys.argv[3]) / name).read_bytes():
            os._exit(1)
        signal.pause()
"""


class Engine:
    """A process of its own that has `checkpoint` mapped."""

    def __init__(self, socket_path: Path, checkpoint: Path, *prefix: str) -> None:
        arguments = [sys.executable, "-c", textwrap.dedent(ENGINE), str(TESTS), str(socket_path), str(checkpoint)]
        self.process = subprocess.Popen([*prefix, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.attach = self.line()

    def line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def fork(self) -> int:
        """The pid of the child that has the lease now; the first process is a zombie until `reap()`."""
        assert self.process.stdin is not None
        self.process.stdin.write("fork\n")
        self.process.stdin.flush()
        child = int(self.line())
        wait_until(lambda: state_of(self.process.pid) == "Z")
        return child

    def end(self) -> None:
        if self.process.returncode is None:
            self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                stream.close()


def state_of(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def leases(daemon: DaemonProcess) -> tuple[LeaseStatus, ...]:
    return daemon.status().leases


@pytest.fixture
def engine(daemon: DaemonProcess, checkpoint: Path) -> Iterator[Engine]:
    daemon.load(checkpoint)
    engine = Engine(daemon.settings.socket_path, checkpoint)
    try:
        yield engine
    finally:
        engine.end()


@pytest.mark.skipif(not HAS_PEERPIDFD, reason="SO_PEERPIDFD is there since Linux 6.5")
def test_a_lease_whose_first_process_is_dead_and_whose_child_lives_is_orphaned(daemon: DaemonProcess, engine: Engine) -> None:
    """A13. The zombie that nobody has reaped counts as dead (D3), the child keeps the lease and reads the weights."""
    (lease,) = leases(daemon)
    assert not lease.orphaned
    child = engine.fork()
    try:
        wait_until(lambda: leases(daemon)[0].orphaned)
        engine.end()
        (lease,) = leases(daemon)
        assert (lease.attach, lease.orphaned) == (engine.attach, True)
        assert daemon.events("lease.ended") == []
    finally:
        os.kill(child, signal.SIGKILL)
    wait_until(lambda: not leases(daemon))
    wait_until(lambda: daemon.events("lease.ended"))
    (ended,) = daemon.events("lease.ended")
    assert isinstance(ended, LeaseEnded)
    assert (ended.attach, ended.how, ended.checked) == (engine.attach, "closed by a child", "seals")


def test_a_lease_ends_with_the_process_even_if_nobody_reaps_it(daemon: DaemonProcess, engine: Engine) -> None:
    """D3: a zombie is dead."""
    engine.process.kill()
    wait_until(lambda: state_of(engine.process.pid) == "Z")
    wait_until(lambda: daemon.events("lease.ended"))
    (ended,) = daemon.events("lease.ended")
    assert isinstance(ended, LeaseEnded)
    assert ended.how == "closed"
    assert leases(daemon) == ()


def can_unshare() -> bool:
    return subprocess.run(["unshare", "--pid", "--fork", "true"], check=False, capture_output=True).returncode == 0


@pytest.mark.skipif(not can_unshare(), reason="pid namespaces cannot be made here")
def test_an_engine_in_a_pid_namespace_of_its_own_is_alive_until_it_dies(daemon: DaemonProcess, checkpoint: Path) -> None:
    """D3: its own idea of its pid is 1 or so, and means nothing here."""
    daemon.load(checkpoint)
    engine = Engine(daemon.settings.socket_path, checkpoint, "unshare", "--pid", "--fork", "--kill-child")
    try:
        (lease,) = leases(daemon)
        assert lease.engine.pid < 10
        assert not lease.orphaned
        engine.process.kill()
        wait_until(lambda: not leases(daemon))
    finally:
        engine.end()


@pytest.mark.skipif(not can_unshare(), reason="pid namespaces cannot be made here")
def test_an_engine_that_the_daemons_pid_namespace_does_not_see_is_alive_until_it_dies(checkpoint: Path) -> None:
    """D3: the kernel shows pid 0 for it. Its connection says that it lives, and only that."""
    daemon = DaemonProcess(prefix=("unshare", "--pid", "--fork", "--kill-child"))
    try:
        os.close(daemon.spawn())
        wait_until(lambda: daemon.settings.socket_path.exists())
        daemon.load(checkpoint)
        engine = Engine(daemon.settings.socket_path, checkpoint)
        try:
            assert [(lease.attach, lease.orphaned) for lease in leases(daemon)] == [(engine.attach, False)]
            (decided,) = daemon.events("attach.decided")
            assert isinstance(decided, AttachDecided)
            assert decided.peer.pid == 0
            if HAS_PEERPIDFD:
                child = engine.fork()
                wait_until(lambda: leases(daemon)[0].orphaned)
                os.kill(child, signal.SIGKILL)
            else:
                engine.process.kill()
            wait_until(lambda: not leases(daemon))
        finally:
            engine.end()
    finally:
        daemon.cleanup()
