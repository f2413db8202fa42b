"""The receipt of a launch: what the ledger says of each of its attaches, as soon as the launch is ready and at its end."""

from __future__ import annotations

import os
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import click
import msgspec

from wcache.cli.text import duration, escape, size
from wcache.core.model.errors import NotFound, UsageError, WcacheError
from wcache.core.settings import Settings

_POLL_S = 0.5
_QUIET_S = 3.0
_REPORT_S = 10.0
_ANSWER_S = 30.0  # some servers compute something before they say that they are well
_NOTHING = (
    "0 attaches recorded: the command did not load weights through wcache. It may not read safetensors files with Python's safetensors "
    "package, may run a Python without wcache, or one that ignores PYTHONPATH (python -I, -E, -S)"
)


class Receipts:
    """Watches one launch in the ledger and prints its receipt on stderr: when it is ready, and at the end what came after that.

    Ready is when `ready_url` answers with a status below 400, and what was asked by then is told (for ten seconds at most); without one,
    when every attach of the launch has said how it went, every rank has asked, and nothing has changed for three seconds.

    What the launch asked before, as one whose name is used again, is on record after `after_seq` events and does not count.
    """

    def __init__(
        self, launch: str, command: Sequence[str], settings: Settings, ready_url: str | None, output: Path | None, *, after_seq: int = 0
    ) -> None:
        self.launch = launch
        self._command = list(command)
        self._settings = settings
        self._url = ready_url
        self._output = output
        self._after_seq = after_seq
        self._started = False
        self._printed: list[str] | None = None
        self._ready = False

    def watch(self, ended: threading.Event) -> None:
        """Until the launch is ready and its receipt is printed, or the command has ended."""
        self._started = True
        arrived = self._wait_for_url if self._url is not None else self._wait_for_quiet
        if arrived(ended):
            self._ready = True
            self._say(None)

    def _wait_for_url(self, ended: threading.Event) -> bool:
        while not _answers(self._url or ""):
            if ended.wait(_POLL_S):
                return False
        deadline_s = time.monotonic() + _REPORT_S
        while _open_ends(self._ask()) and time.monotonic() < deadline_s:
            if ended.wait(_POLL_S):
                return False
        return True

    def _wait_for_quiet(self, ended: threading.Event) -> bool:
        seen: dict[str, Any] | None = None
        since_s = time.monotonic()
        while not ended.wait(_POLL_S):
            found = self._ask()
            if found != seen:
                seen, since_s = found, time.monotonic()
            elif found["attaches"] and not _open_ends(found) and time.monotonic() - since_s >= _QUIET_S:
                return True
        return False

    def finish(self, exit_status: int) -> None:
        """The receipt at the end, where it says more than the last one."""
        if self._started:
            self._say(exit_status)

    def _ask(self) -> dict[str, Any]:
        from wcache.ledger.audit import Audit

        nothing = {"launch": self.launch, "complete": False, "ranks": 0, "mapped": 0, "attaches": []}
        try:
            with Audit(self._settings.ledger) as audit:
                return audit.launch_since(self.launch, self._after_seq)
        except NotFound:
            if self._settings.foreign:
                return {**nothing, "text": f"the ledger is uid {self._settings.daemon_uid}'s: ask there with `wcache audit launch`"}
            return {**nothing, "text": _NOTHING}
        except WcacheError as error:
            return {**nothing, "text": f"the ledger cannot be read: {error}"}

    def _say(self, exit_status: int | None) -> None:
        found = self._ask()
        if self._output is not None:
            _write(self._output, {**found, "command": self._command, "ready": self._ready, "exit_status": exit_status})
        lines = [f"launch {self.launch}: {found['text']}", *(_line(row) for row in found["attaches"])]
        if lines != self._printed:
            self._printed = lines
            with suppress(OSError):  # the terminal may be gone: the command's status still counts
                click.echo("\n".join(f"wcache: {escape(line)}" for line in lines), err=True)


def last_seq(settings: Settings) -> int:
    """What is on record by now; 0 where the ledger is not there, or cannot be read."""
    from wcache.ledger.audit import Audit

    try:
        with Audit(settings.ledger) as audit:
            return audit.last_seq
    except WcacheError:
        return 0


def check_output(path: Path) -> None:
    """Raises UsageError before the command is started, rather than after it has ended."""
    if path.is_dir() or not os.access(path.parent, os.W_OK):
        raise UsageError("a receipt cannot be written there", where=str(path), remedy="name a file in a directory that you may write")


def check_url(url: str) -> None:
    """Raises UsageError."""
    if not url.startswith(("http://", "https://")):
        raise UsageError("no http URL", where=url, remedy="for example --ready-url http://127.0.0.1:8000/health")


def _open_ends(found: dict[str, Any]) -> bool:
    """Whether an attach has not said yet how it went, or a rank has not asked."""
    from wcache.core.model.machines import UNFINISHED

    asked = {row["rank"] for row in found["attaches"]}
    return len(asked) < found["ranks"] or any(row["state"] in UNFINISHED for row in found["attaches"])


def _answers(url: str) -> bool:
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # a proxy that answers is not the server
    try:
        with direct.open(url, timeout=_ANSWER_S):
            return True
    except (OSError, ValueError):  # HTTPError is one: a status of 400 and more
        return False


def _line(row: dict[str, Any]) -> str:
    """One attach: what was decided on which evidence, and how the weights arrived."""
    words = [f"rank {row['rank']}: {row['decision']}"]
    if row["reason"]:
        words.append(row["reason"])
    if row["tier"]:
        words.append(f"tier {row['tier']}")
    if row["mode"]:
        words.append(row["mode"])
    if row["copied_bytes"]:
        words.append(f"{size(row['mapped_bytes'])}, {size(row['copied_bytes'])} of it copied")
    elif row["mapped_bytes"] is not None:
        words.append(f"{size(row['mapped_bytes'])} in {duration(row['map_ms'] / 1000)}")  # copying is the engine's, and took longer
    if row["fallback_bytes"] is not None:
        words.append(f"{size(row['fallback_bytes'])} read from disk in {duration(row['fallback_s'])}")
    elif row["state"] == "failed":
        words.append("failed")
    return f"{', '.join(words)}, seq {row['seq']}: {row['checkpoint']}"


def _write(path: Path, document: dict[str, Any]) -> None:
    """At once: a reader sees the receipt before or this one, never a half."""
    scratch = path.with_name(f"{path.name}.{os.getpid()}")
    try:
        scratch.write_bytes(msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n")
        scratch.replace(path)
    except OSError as error:
        click.echo(f"wcache: {escape(str(path))}: the receipt was not written: {error.strerror}", err=True)
