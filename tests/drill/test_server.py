"""Servers under observation: what is left of them, their memory, and a twin of a checkpoint."""

from __future__ import annotations

import mmap
import os
import signal
import sys
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file
from support.corpus import make_checkpoint
from support.daemon import alive, children_of, wait_until

from wcache.core.checkpoint.checkpoint import open_checkpoint
from wcache.drill import server
from wcache.drill.busy import busy_s, others_share, spent_s
from wcache.drill.interrupts import uninterrupted
from wcache.drill.memory import cached_share, pss
from wcache.drill.server import RunningServer, session_of
from wcache.drill.twin import make_twin

DAEMONISING = """
import os, signal
read, write = os.pipe()
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.write(write, b"%d" % os.getpid())
        signal.pause()
    os._exit(0)
os.wait()
print(os.read(read, 20).decode(), flush=True)
signal.pause()
"""
STUBBORN = """
import signal, subprocess, sys
signal.signal(signal.SIGINT, signal.SIG_IGN)
subprocess.Popen([sys.executable, "-c", "import os, signal; os.setsid(); signal.pause()"])
print("up", flush=True)
signal.pause()
"""

WORKING = """
import os, signal, time
def work():
    while time.process_time() < 0.2: pass
if not (child := os.fork()):
    work()
    os._exit(0)
os.waitpid(child, 0)
work()
print("up", flush=True)
signal.pause()
"""


def test_a_server_that_ignores_sigint_is_killed_with_all_its_children(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also with a child that has left its session, as long as it is a descendant."""
    monkeypatch.setattr(server, "STOP_S", 0.5)
    log = tmp_path / "log"
    with RunningServer([sys.executable, "-c", STUBBORN], os.environ, log) as running:
        wait_until(lambda: log.read_text() == "up\n" and children_of(running.pid), 60)
        pids = session_of(running.pid)
        assert {running.pid, *children_of(running.pid)} <= pids and os.getpid() not in pids
    assert running.killed and running.exit_status == 128 + 9
    wait_until(lambda: not any(alive(pid) for pid in pids))


def test_a_helper_that_became_a_daemon_is_counted_and_ends_with_its_server(tmp_path: Path) -> None:
    """setsid(2) and two forks: neither of the server's session nor its descendant any more."""
    log = tmp_path / "log"
    with RunningServer([sys.executable, "-c", DAEMONISING], os.environ, log) as running:
        wait_until(lambda: log.read_text().endswith("\n"), 60)
        helper = int(log.read_text())
        assert running.processes() == {running.pid, helper}
    assert not Path(f"/proc/{helper}").exists()


SLOW = """
import http.server, sys, time
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        time.sleep(float(sys.argv[1]))
        self.send_response(200)
        self.end_headers()
    def log_message(self, *words):
        pass
with http.server.HTTPServer(("127.0.0.1", 0), Handler) as server:
    print(server.server_port, flush=True)
    server.serve_forever()
"""


@pytest.mark.parametrize(("answer_s", "wait_s", "healthy"), [(2.5, 60.0, True), (600.0, 1.0, False)])
def test_a_server_may_take_its_time_to_say_that_it_is_healthy_but_not_more_than_a_start(
    tmp_path: Path, answer_s: float, wait_s: float, healthy: bool
) -> None:
    """SGLang computes a token before it answers, each time anew: who hangs up and asks again never hears it."""
    log = tmp_path / "log"
    with RunningServer([sys.executable, "-c", SLOW, str(answer_s)], os.environ, log) as running:
        wait_until(lambda: log.read_text().endswith("\n"), 60)
        began_s = running.elapsed_s
        assert running.wait_healthy(f"http://127.0.0.1:{int(log.read_text())}", began_s + wait_s) is healthy
        assert running.elapsed_s - began_s < 30


def test_an_interrupt_waits_until_what_is_started_is_known() -> None:
    done = False
    with pytest.raises(KeyboardInterrupt), uninterrupted():
        os.kill(os.getpid(), signal.SIGINT)
        done = True
    assert done


def test_what_other_work_took_of_the_processors_is_all_but_the_servers_own(tmp_path: Path) -> None:
    """The server's is also what its children had that have ended."""
    log = tmp_path / "log"
    with RunningServer([sys.executable, "-c", WORKING], os.environ, log) as running:
        wait_until(lambda: log.read_text() == "up\n", 60)
        assert spent_s([running.pid]) > 0.3
    cores = os.cpu_count() or 1
    assert others_share(busy_s() - 5.0, 10.0, 3.0) == pytest.approx(2.0 / (10.0 * cores), abs=0.1)
    assert others_share(busy_s(), 10.0, 3.0) == 0.0


def test_weights_of_a_residency_are_told_from_the_rest_of_the_memory() -> None:
    """As the daemon names its segments: what a process has mapped of them, to the page."""
    before = pss([os.getpid()])
    descriptor = os.memfd_create("wcache:model.safetensors")
    os.write(descriptor, b"w" * (1 << 20))
    with mmap.mmap(descriptor, 1 << 20) as mapped:
        assert mapped[::4096] == b"w" * 256
        found = pss([os.getpid()])
    os.close(descriptor)
    assert before.weights_bytes == 0 < before.rest_bytes
    assert found.weights_bytes == 1 << 20


def test_the_page_cache_is_asked_what_it_holds(disk_path: Path) -> None:
    file = disk_path / "file"
    file.write_bytes(os.urandom(1 << 20))
    assert cached_share([str(file)]) == 1.0
    with file.open("rb") as opened:
        os.fdatasync(opened.fileno())
        os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    assert cached_share([str(file)]) == 0.0
    assert cached_share([str(file) + "-gone"]) is None


def test_a_twin_differs_in_the_final_norm_alone(disk_path: Path) -> None:
    """I1: headers, names and sizes are equal, and so is every other tensor."""
    ones = np.ones(64, np.float32)
    names = ("model.layers.0.input_layernorm.weight", "model.norm.weight", "model.layers.1.input_layernorm.weight", "lm_head.weight")
    original = open_checkpoint(make_checkpoint(disk_path / "model", dict.fromkeys(names, ones), shards=2))
    twin, zeroed = make_twin(original, disk_path / "twin")
    assert zeroed == "model.norm.weight"
    copy = open_checkpoint(twin)
    assert [shard.header.raw for shard in copy.shards] == [shard.header.raw for shard in original.shards]
    found = {name: tensor for shard in copy.shards for name, tensor in load_file(shard.path).items()}
    assert {name for name, tensor in found.items() if not tensor.any()} == {zeroed}
    assert sum(path.is_symlink() for path in twin.iterdir()) == len(list(twin.iterdir())) - 1


def test_a_server_gets_the_signals_that_its_starter_ignores(tmp_path: Path) -> None:
    """A drill in the background of a script ignores SIGINT, and its servers must not."""
    log = tmp_path / "log"
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with RunningServer([sys.executable, "-c", "import time\nprint('up', flush=True)\ntime.sleep(600)"], os.environ, log) as running:
            wait_until(lambda: log.read_text() == "up\n", 60)
    finally:
        signal.signal(signal.SIGINT, before)
    assert not running.killed and running.exit_status == 128 + 2
