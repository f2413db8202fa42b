"""One daemon per directory; ready means answering; and an end, in order or not, that the next one puts on record."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from support.attaching import attach
from support.commands import with_tests_on_path
from support.corpus import make_checkpoint
from support.daemon import DaemonProcess, links_of, wait_until, zeros_shard
from support.faults import catch

from wcache.core.model.errors import DaemonRunning, DaemonUnreachable, RequestRefused, UsageError
from wcache.core.model.events import DaemonLost, DaemonStarted, DaemonStopped, LeaseEnded, ResidencyLost
from wcache.core.model.vocabulary import Outcome, ResidencyState
from wcache.core.settings import LOCK_NAME
from wcache.daemon.launch import start_background
from wcache.daemon.place import prepare_directory
from wcache.ledger.verify import verify


@pytest.fixture
def stopped() -> object:
    process = DaemonProcess()
    yield process
    process.cleanup()


def test_ready_means_that_it_answers(daemon: DaemonProcess) -> None:
    assert "Weight cache daemon READY" in daemon.log()
    status = daemon.status()
    assert (status.state, status.server_pid, status.runtime_dir) == ("ready", daemon.pid, str(daemon.settings.runtime_dir))
    assert oct(daemon.settings.runtime_dir.stat().st_mode)[-3:] == "700"
    assert oct(daemon.settings.socket_path.stat().st_mode)[-3:] == "600"
    (started,) = daemon.events("daemon.started")
    assert isinstance(started, DaemonStarted)
    assert started.instance == status.instance


def test_a_second_daemon_is_refused_and_the_first_keeps_its_socket_while_it_loads(daemon: DaemonProcess, tmp_path: Path) -> None:
    """D2. Fresh files keep the first one busy."""
    path = make_checkpoint(tmp_path / "fresh")
    thread = threading.Thread(target=lambda: daemon.load(path))
    thread.start()
    wait_until(lambda: daemon.status().residencies)
    inode = daemon.settings.socket_path.stat().st_ino
    with pytest.raises(DaemonRunning, match=f"pid {daemon.vault_pid}"):
        start_background(daemon.settings)
    assert daemon.settings.socket_path.stat().st_ino == inode
    assert daemon.status().residencies[0].view.state is ResidencyState.LOADING
    thread.join()
    assert daemon.status().residencies[0].view.state is ResidencyState.RESIDENT


def test_a_start_after_kill_9_is_clean_and_buries_the_predecessor(daemon: DaemonProcess, checkpoint: Path) -> None:
    """D4: stale socket and lock file; every acknowledged event is there; what was held is lost on record."""
    residency = daemon.load(checkpoint).residency.residency
    attached = attach(daemon.settings.socket_path, checkpoint)
    instance = daemon.status().instance
    daemon.kill()
    assert daemon.settings.socket_path.exists()
    with pytest.raises(DaemonUnreachable) as caught:
        daemon.connect()
    assert caught.value.reason == "daemon_refused"
    name = next(iter(attached.fds))
    assert attached.content(name) == (checkpoint / name).read_bytes()
    daemon.start()
    assert daemon.status().residencies == ()
    lost, ended, gone = daemon.events("daemon.lost", "lease.ended", "residency.lost")
    assert isinstance(lost, DaemonLost)
    assert isinstance(ended, LeaseEnded)
    assert isinstance(gone, ResidencyLost)
    assert (lost.instance, lost.noticed_by) == (instance, daemon.status().instance)
    assert (ended.attach, gone.residency) == (attached.attach, residency)
    attached.close()
    assert not daemon.load(checkpoint).reused
    attached = attach(daemon.settings.socket_path, checkpoint)
    assert attached.decided.decision.outcome is Outcome.HIT  # pinned: the hash of the first life still counts
    attached.close()
    assert daemon.stop() == 0
    assert verify(daemon.settings.ledger).problems == []


@pytest.mark.parametrize("phase", ["settle", "read"])
def test_a_server_killed_during_a_load_takes_its_worker_with_it(daemon: DaemonProcess, disk: Path, phase: str) -> None:
    """D1."""
    from wcache.core.wire.messages import LoadRequest, Progress

    path = zeros_shard(disk / f"server-killed-{phase}" / "model.safetensors", 200 << 20).parent
    channel = daemon.connect()
    workers: list[int] = []

    def on_progress(progress: Progress) -> None:
        if progress.phase != "wait" and not workers:
            workers.append(catch(daemon, int(phase == "read")))
            daemon.kill()

    with pytest.raises(DaemonUnreachable):
        channel.call(LoadRequest(spelling=str(path)), timeout_s=60, on_progress=on_progress)
    wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in workers))
    daemon.start()
    assert len(daemon.events("load.started")) == len(daemon.events("residency.lost")) == 1
    assert daemon.load(path).residency.state is ResidencyState.RESIDENT


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_in_order(daemon: DaemonProcess, checkpoint: Path, number: signal.Signals) -> None:
    daemon.load(checkpoint)
    attached = attach(daemon.settings.socket_path, checkpoint)
    assert daemon.process is not None
    daemon.process.send_signal(number)
    if number == signal.SIGINT:  # somebody has the weights mapped: asked back first
        wait_until(lambda: f"mapped by 1: test 1 rank 0 (pid {os.getpid()}" in daemon.log())
        assert daemon.status().state == "ready"
        daemon.process.send_signal(number)
    assert daemon.process.wait(10) == 0
    attached.close()
    assert not daemon.settings.socket_path.exists()
    ended, lost, stopped = daemon.events("lease.ended", "residency.lost", "daemon.stopped")
    assert isinstance(ended, LeaseEnded)
    assert isinstance(lost, ResidencyLost)
    assert isinstance(stopped, DaemonStopped)
    assert (ended.how, lost.why, stopped.by) == ("daemon stopped", "daemon stopped", number.name)


def test_a_stop_during_a_load_is_on_record_and_leaves_no_worker(daemon: DaemonProcess, tmp_path: Path) -> None:
    path = make_checkpoint(tmp_path / "fresh")
    errors: list[BaseException] = []

    def load() -> None:
        try:
            daemon.load(path)
        except (RequestRefused, DaemonUnreachable) as error:
            errors.append(error)

    thread = threading.Thread(target=load)
    thread.start()
    wait_until(lambda: any(one.phase == "settle" for one in daemon.status().residencies))
    workers = daemon.workers()
    assert daemon.stop() == 0
    thread.join()
    assert isinstance(errors[0], RequestRefused)
    assert "stopped during the load" in str(errors[0])
    assert [event.type for event in daemon.events("load.started", "load.failed", "daemon.stopped")] == [
        "load.started",
        "load.failed",
        "daemon.stopped",
    ]
    wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in workers))


_FORKS = """
import os, sys
from support.attaching import attach
attached = attach(sys.argv[1], sys.argv[2])
print(attached.attach, flush=True)
if sys.argv[3] == "wait" or (sys.argv[3] == "fork" and os.fork() == 0):
    sys.stdin.read()
os._exit(0)
"""


def run_client(daemon: DaemonProcess, checkpoint: Path, how: str, prefix: tuple[str, ...] = ()) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*prefix, sys.executable, "-c", _FORKS, str(daemon.settings.socket_path), str(checkpoint), how],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=with_tests_on_path(os.environ),
    )


def test_a_dead_engine_that_nobody_reaped_holds_no_lease(daemon: DaemonProcess, checkpoint: Path) -> None:
    """D3: a zombie has a pid, and its connection is closed."""
    daemon.load(checkpoint)
    client = run_client(daemon, checkpoint, "exit")
    assert client.stdout is not None
    client.stdout.readline()
    wait_until(lambda: " Z " in Path(f"/proc/{client.pid}/stat").read_text())
    wait_until(lambda: not daemon.status().leases)
    client.communicate()


def test_a_lease_lives_as_long_as_any_copy_of_its_connection_and_is_marked_orphaned(daemon: DaemonProcess, checkpoint: Path) -> None:
    daemon.load(checkpoint)
    client = run_client(daemon, checkpoint, "fork")
    assert client.stdout is not None
    assert client.stdin is not None
    attach_id = client.stdout.readline().strip()
    client.wait()
    (lease,) = daemon.status().leases
    assert (lease.attach, lease.orphaned) == (attach_id, True)
    client.stdin.close()
    wait_until(lambda: not daemon.status().leases)
    client.stdout.close()


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("unshare"), reason="needs root and unshare for a pid namespace")
def test_an_engine_in_another_pid_namespace_is_seen_alive_and_dead(daemon: DaemonProcess, checkpoint: Path) -> None:
    """D3: its pid means nothing here; the connection does."""
    daemon.load(checkpoint)
    client = run_client(daemon, checkpoint, "wait", ("unshare", "--pid", "--fork", "--kill-child", "--mount-proc"))
    assert client.stdout is not None
    assert client.stdout.readline().startswith("a-")
    (lease,) = daemon.status().leases
    assert not lease.orphaned
    client.kill()  # and with it, by --kill-child, the engine
    wait_until(lambda: not daemon.status().leases)
    client.communicate()


def test_the_background_start_reports_its_pid_and_survives_the_starter(stopped: DaemonProcess) -> None:
    pid = start_background(stopped.settings)
    try:
        assert stopped.status().vault_pid == pid
        assert "Weight cache daemon READY" in (stopped.settings.state_dir / "daemon.log").read_text()
        assert os.getsid(pid) == pid
    finally:
        os.kill(pid, signal.SIGTERM)
        assert os.waitpid(pid, 0)[1] == 0


def test_a_directory_that_others_may_enter_is_refused(stopped: DaemonProcess) -> None:
    stopped.settings.runtime_dir.mkdir(mode=0o700)
    stopped.settings.runtime_dir.chmod(0o755)
    with pytest.raises(RequestRefused, match=r"mode 0755") as caught:
        start_background(stopped.settings)
    assert "chmod 700" in caught.value.remedy
    stopped.settings.runtime_dir.chmod(0o700)
    if os.geteuid() == 0:
        os.chown(stopped.settings.runtime_dir, 65534, 65534)
        with pytest.raises(RequestRefused, match="belongs to uid 65534"):
            prepare_directory(stopped.settings.runtime_dir)


def test_a_path_that_is_too_long_for_a_socket_is_refused_at_the_start(tmp_path: Path) -> None:
    """D6."""
    deep = tmp_path / ("x" * 100)
    found = subprocess.run(
        [sys.executable, "-m", "wcache.daemon.main", f"--runtime-dir={deep}", f"--state-dir={tmp_path}"], capture_output=True, text=True
    )
    assert found.returncode == UsageError.exit_code
    assert "the kernel allows 107" in found.stderr
    assert "WCACHE_RUNTIME_DIR" in found.stderr
    assert "Traceback" not in found.stderr


def test_the_lock_is_not_inherited_by_workers(daemon: DaemonProcess, tmp_path: Path) -> None:
    path = make_checkpoint(tmp_path / "fresh")
    thread = threading.Thread(target=lambda: daemon.load(path))
    thread.start()
    wait_until(lambda: any(one.phase == "settle" for one in daemon.status().residencies))
    (worker,) = daemon.workers()
    assert not any(LOCK_NAME in name or "ledger" in name for name in links_of(worker))
    thread.join()
