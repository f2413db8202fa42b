"""The drill's own daemon: places that nobody else uses, and the commands that an operator would type."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

import msgspec

from wcache.core.model.errors import ProtocolError, RequestRefused, WcacheError
from wcache.core.model.policy import Policy
from wcache.drill.interrupts import uninterrupted

_START_S = 60.0
_KILL_S = 10.0


class OwnDaemon:
    """A context manager: at its end no process of the daemon is left, however its start went, and its runtime directory is gone.

    The ledger stays, below `out`.
    """

    def __init__(self, out: Path, policy: Policy) -> None:
        self.runtime_dir = Path(tempfile.mkdtemp(prefix="wcache-drill-", dir=os.environ.get("XDG_RUNTIME_DIR")))
        self.state_dir = out / "state"
        self.ledger = self.state_dir / "ledger.sqlite"
        self._config = out / "wcache.toml"
        self._config.write_text(_policy_file(policy), encoding="utf-8")
        self.pids: tuple[int, ...] = ()
        self._started = False

    def __enter__(self) -> OwnDaemon:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        with uninterrupted():
            with suppress(WcacheError):
                self.stop()
            self._kill()  # what did not listen yet could not be asked to stop
            shutil.rmtree(self.runtime_dir, ignore_errors=True)

    def environ(self) -> dict[str, str]:
        """What a process needs to find this daemon and ledger, and nothing of other settings of wcache."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith("WCACHE_") or name == "WCACHE_DEBUG"}
        return {
            **kept,
            "WCACHE_CONFIG": str(self._config),
            "WCACHE_RUNTIME_DIR": str(self.runtime_dir),
            "WCACHE_STATE_DIR": str(self.state_dir),
            "WCACHE_LEDGER": str(self.ledger),
        }

    def start(self) -> float:
        """Seconds until it was ready. Raises RequestRefused where it is not after 60 s."""
        began_s = time.monotonic()
        self._started = True
        with uninterrupted():
            ready = self._wcache("daemon", "start", timeout_s=_START_S)
            self.pids = tuple(pid for pid in (ready["server_pid"], ready["vault_pid"]) if pid)
        return time.monotonic() - began_s

    def load(self, model: str, revision: str | None) -> dict[str, Any]:
        """What `wcache load --json` says: the residency, its sizes and digest, and seconds for each phase. Pinned: nothing evicts it."""
        words = ("--revision", revision) if revision else ()
        loaded: dict[str, Any] = self._wcache("load", model, *words, "--pin", timeout_s=None)
        return loaded

    def release(self, residency: str) -> None:
        self._wcache("release", residency, timeout_s=_START_S)

    def residencies(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self._wcache("ls", timeout_s=_START_S)
        return found

    def stop(self) -> None:
        """Idempotent. Weights that a server has mapped stay mapped there."""
        if self._started:
            self._wcache("daemon", "stop", "--force", timeout_s=_START_S)
            self._started, self.pids = False, ()

    def _kill(self) -> None:
        """Whatever has this daemon's runtime directory in its environment: commands, vault, server, workers."""
        mark = b"\0WCACHE_RUNTIME_DIR=%s\0" % os.fsencode(self.runtime_dir)
        deadline_s = time.monotonic() + _KILL_S
        while time.monotonic() < deadline_s:
            left = False
            for entry in Path("/proc").iterdir():
                with suppress(OSError, ValueError):
                    if int(entry.name) != os.getpid() and mark in b"\0" + (entry / "environ").read_bytes():
                        os.kill(int(entry.name), signal.SIGKILL)
                        left = True
            if not left:
                return
            time.sleep(0.05)

    def _wcache(self, *words: str, timeout_s: float | None) -> Any:
        """Raises RequestRefused with what the command said."""
        command = [sys.executable, "-m", "wcache.cli", *words, "--json"]
        # A session of its own: Ctrl+C is the drill's, which stops the daemon in its own order.
        try:
            done = subprocess.run(
                command,
                env=self.environ(),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=timeout_s,
                check=False,
                start_new_session=True,
            )
        except subprocess.TimeoutExpired:
            remedy = f"{self.state_dir / 'daemon.log'} may say why"
            raise RequestRefused(f"not done within {timeout_s:.0f} s", where=f"wcache {' '.join(words)}", remedy=remedy) from None
        try:
            document = json.loads(done.stdout)
        except ValueError:
            said = done.stderr.decode("utf-8", "replace").strip() or f"nothing, and exit status {done.returncode}"
            raise ProtocolError(f"unexpected answer: {said}", where=f"wcache {' '.join(words)}") from None
        if done.returncode and isinstance(document, dict) and "error" in document:
            error = document["error"]
            where = error.get("where") or f"wcache {' '.join(words)}"
            raise RequestRefused(error["what"], where=where, remedy=error.get("remedy", ""), detail=error.get("code", ""))
        return document


def _policy_file(policy: Policy) -> str:
    """The policy as `wcache.toml` has it, but for what happens on a miss: that is each run's own."""
    values = {name: value for name, value in msgspec.to_builtins(policy).items() if value is not None and name != "on_miss"}
    lines = [f"{name} = {json.dumps(value)}" for name, value in values.items()]  # of words and numbers, JSON and TOML are the same
    return "\n".join(("[policy]", *lines, ""))


def launch_environ(environ: Mapping[str, str], launch: str) -> dict[str, str]:
    return {**environ, "WCACHE_LAUNCH": launch}
