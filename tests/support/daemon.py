"""A real vault and its server in a runtime directory of its own, for every room's tests."""

from __future__ import annotations

import os
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from wcache.core.model.events import Event
from wcache.core.settings import Settings, load_settings
from wcache.core.wire.channel import Channel
from wcache.core.wire.messages import Loaded, LoadRequest, Status, StatusRequest
from wcache.ledger.store import Ledger

PATIENCE_S = 60.0  # for what happens in a moment, on a machine however busy: nobody waits for it to pass


def wait_until(condition: Callable[[], object], timeout_s: float = PATIENCE_S, what: str = "") -> None:
    """Wait for a state, never for a time."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, f"not within {timeout_s} s: {what or condition}"
        time.sleep(0.01)


def zeros_shard(shard: Path, data_bytes: int) -> Path:
    """A shard of one tensor of zeros that takes no disk, only memory once it is loaded."""
    header = f'{{"zeros":{{"dtype":"U8","shape":[{data_bytes}],"data_offsets":[0,{data_bytes}]}}}}'.encode()
    header += b" " * (-len(header) % 8)
    shard.parent.mkdir(exist_ok=True)
    with shard.open("wb") as file:
        file.write(len(header).to_bytes(8, "little") + header)
        file.truncate(8 + len(header) + data_bytes)
    return shard


def command_of(pid: int) -> bytes:
    """Its command line; empty for one that is gone."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def links_of(pid: int) -> list[str]:
    """What a process has open, as proc_pid_fd(5) names it. What it closes meanwhile is left out."""
    found = []
    for fd in os.listdir(f"/proc/{pid}/fd"):
        with suppress(OSError):
            found.append(os.readlink(f"/proc/{pid}/fd/{fd}"))
    return found


def children_of(pid: int) -> list[int]:
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def alive(pid: int) -> bool:
    """Whether there is such a process and it is no zombie. Of a killed one the first thread may be one while others still hold files."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        return state not in ("Z", "X") or len(os.listdir(f"/proc/{pid}/task")) > 1
    except OSError:
        return False


class DaemonProcess:
    """`start()` returns when it is ready. The runtime directory is short (a socket's path has 107 bytes at most) and private."""

    def __init__(self, state_dir: Path | None = None, *, prefix: tuple[str, ...] = (), environ: dict[str, str] | None = None) -> None:
        self.base = Path(tempfile.mkdtemp(prefix="wc-", dir="/tmp"))
        self.settings: Settings = load_settings(
            {"WCACHE_CONFIG": "", "HOME": str(self.base)},
            runtime_dir=str(self.base / "run"),
            state_dir=str(state_dir or self.base / "state"),
        )
        self.process: subprocess.Popen[bytes] | None = None
        self._prefix = prefix
        self._environ = environ or {}

    @property
    def env(self) -> dict[str, str]:
        """What a client process needs to find this daemon."""
        return {
            "WCACHE_RUNTIME_DIR": str(self.settings.runtime_dir),
            "WCACHE_STATE_DIR": str(self.settings.state_dir),
            "WCACHE_LEDGER": str(self.settings.ledger),
        }

    @property
    def log_path(self) -> Path:
        return self.base / "daemon.log"

    @property
    def vault_pid(self) -> int:
        """The first vault's: the process that the test started."""
        assert self.process is not None
        return self.process.pid

    @property
    def pid(self) -> int:
        """The present server's: a child of the vault. 0 while there is none."""
        return next(iter(children_of(self.vault_pid)), 0)

    def spawn(self) -> int:
        """Start without waiting; returns the read end of its ready pipe."""
        ours, theirs = os.pipe2(os.O_CLOEXEC)
        places = (
            f"--runtime-dir={self.settings.runtime_dir}",
            f"--state-dir={self.settings.state_dir}",
            f"--ledger={self.settings.ledger}",
        )
        with self.log_path.open("ab") as log:
            self.process = subprocess.Popen(
                [*self._prefix, sys.executable, "-m", "wcache.daemon.vault", *places, f"--ready-fd={theirs}"],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=(theirs,),
                env={**self._clean_environ(), **self._environ},
            )
        os.close(theirs)
        return ours

    def _clean_environ(self) -> dict[str, str]:
        """Nothing of the developer's own settings."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("WCACHE_", "XDG_"))}
        return {**kept, "HOME": str(self.base)}

    def start(self) -> DaemonProcess:
        ready = self.spawn()
        try:
            poller = select.poll()
            poller.register(ready, select.POLLIN)
            assert poller.poll(PATIENCE_S * 1000), self.log()
            line = os.read(ready, 65536)
        finally:
            os.close(ready)
        assert line == b"READY\n", line.decode() + self.log()
        return self

    def stop(self) -> int:
        """SIGTERM, and its exit status."""
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=PATIENCE_S)

    def kill(self) -> None:
        """Vault and server at once, by SIGKILL: the daemon is dead. The vault first, and both before either can look for the other."""
        assert self.process is not None
        pids = [self.process.pid, *children_of(self.process.pid)]
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGSTOP)
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait(timeout=PATIENCE_S)
        wait_until(lambda: not any(alive(pid) for pid in pids[1:]))

    def cleanup(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.kill()
        self._kill_successors()
        shutil.rmtree(self.base, ignore_errors=True)

    def _kill_successors(self) -> None:
        """Vault and server that took over from those that the test killed: found by the runtime directory in their command lines."""
        place = str(self.settings.runtime_dir).encode()
        pids = [int(entry) for entry in os.listdir("/proc") if entry.isdigit()]
        for pid in [pid for pid in pids if place in (command := command_of(pid)) and b"wcache.daemon." in command]:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGSTOP)
                os.kill(pid, signal.SIGKILL)

    def log(self) -> str:
        return self.log_path.read_text() if self.log_path.exists() else ""

    def connect(self) -> Channel:
        return Channel.connect(self.settings.socket_path, connect_timeout_s=PATIENCE_S, handshake_timeout_s=PATIENCE_S)

    def load(self, spelling: str | Path) -> Loaded:
        channel = self.connect()
        try:
            reply = channel.call(LoadRequest(spelling=str(spelling)), timeout_s=PATIENCE_S)
        finally:
            channel.close()
        assert isinstance(reply, Loaded)
        return reply

    def status(self) -> Status:
        channel = self.connect()
        try:
            reply = channel.call(StatusRequest(), timeout_s=PATIENCE_S)
        finally:
            channel.close()
        assert isinstance(reply, Status)
        return reply

    def events(self, *types: str) -> list[Event]:
        """What the ledger has, in order; of these stored type names only, if any are given."""
        with Ledger.open(self.settings.ledger, create=False, read_only=True) as ledger:
            return [stored.event for stored in ledger.events(types=types or None)]

    def workers(self) -> list[int]:
        """Pids of the server's workers. One that is not yet past exec(2) is left out: to stop it would stop the server, which waits for
        that (vfork(2))."""
        return [pid for pid in children_of(self.pid) if b"wcache.daemon.worker" in command_of(pid)]

    def fd_count(self) -> int:
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    def memory(self) -> dict[str, int]:
        """VmRSS, RssAnon, RssFile, RssShmem of the server in bytes."""
        text = Path(f"/proc/{self.pid}/status").read_text()
        return {name: int(size) * 1024 for name, size in re.findall(r"(VmRSS|RssAnon|RssFile|RssShmem):\s+(\d+) kB", text)}
