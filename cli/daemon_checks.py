"""`wcache doctor`: is a daemon there, does it answer, what did an earlier one leave behind?"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from wcache.cli.checks import Check, Finding, Subject, fail, ok, warn
from wcache.core.settings import LOCK_NAME

_SILENT = frozenset({"daemon_silent", "daemon_timeout", "daemon_closed"})


def daemon(subject: Subject) -> Iterator[Finding]:
    from wcache.core.model.errors import DaemonUnreachable
    from wcache.core.wire.channel import Channel
    from wcache.core.wire.messages import Status, StatusRequest

    settings = subject.settings
    holders = lock_holders(settings.runtime_dir / LOCK_NAME, subject.root)
    try:
        with closing(Channel.connect(settings.socket_path, daemon_uid=settings.daemon_uid)) as channel:
            welcome, status = channel.welcome, channel.call(StatusRequest())
    except DaemonUnreachable as error:
        held = f"pid {', '.join(map(str, holders))} holds its lock"
        if holders and (error.reason in _SILENT or error.reason == "daemon_refused"):
            remedy = f"look at {settings.state_dir}/daemon.log; wake a stopped process with kill -CONT {holders[0]}, else end it"
            yield fail("daemon", f"{error.reason}: {held}, but {error.what}", remedy)
        elif error.reason == "daemon_absent" and holders:
            yield fail(
                "daemon", f"{held}, but its socket is gone", f"end pid {holders[0]} (SIGTERM), and start one with `wcache daemon start`"
            )
        elif error.reason == "daemon_absent":
            yield warn("daemon", f"{error.reason}: {error.what}", error.remedy)
        elif error.reason == "daemon_refused":
            found = f"stale socket {settings.socket_path}: the daemon that made it is gone"
            yield fail("daemon", found, "start one with `wcache daemon start`: it takes the socket away")
        else:
            yield fail("daemon", f"{error.reason}: {error.what}", error.remedy)
        return
    yield ok("daemon", f"pid {welcome.server_pid}, version {welcome.version}, instance {welcome.instance}")
    if isinstance(status, Status) and status.vault_pid:
        if Path(f"/proc/{status.vault_pid}").exists():
            yield ok("vault", f"pid {status.vault_pid}")
        else:
            remedy = "wait a second: the server starts another one; else look at the daemon's log"
            yield warn("vault", f"pid {status.vault_pid} is gone, or in another pid namespace", remedy)
    if welcome.ledger and Path(welcome.ledger) != settings.ledger and not settings.foreign:
        yield warn("daemon's ledger", f"{welcome.ledger}, not {settings.ledger}", f"use --ledger {welcome.ledger} to audit this daemon")


def locks(subject: Subject) -> Iterator[Finding]:
    """A lock of the ledger that somebody holds for long keeps every decision from being recorded."""
    from wcache.core.model.errors import LedgerUnavailable
    from wcache.ledger.lock import FileLock

    settings = subject.settings
    path = settings.ledger.with_name(settings.ledger.name + ".lock")
    if settings.foreign or not path.exists() or not os.access(path, os.W_OK):
        return
    try:
        with FileLock(path).held(wait_s=1.0):
            pass
        yield ok("ledger's lock", f"{path} is free")
    except LedgerUnavailable as error:
        holders = lock_holders(path, subject.root)
        found = f"{error.what}: pid {', '.join(map(str, holders)) or 'unknown'}"
        yield fail("ledger's lock", found, "a stopped process goes on with kill -CONT, or end it: the lock is free as soon as it dies")


def journal(subject: Subject) -> Iterator[Finding]:
    from wcache.ledger.journal import Journal

    settings = subject.settings
    own = (settings.state_dir if settings.foreign else settings.runtime_dir) / "journal.jsonl"
    if not own.exists():
        yield ok("journal", "empty")
        return
    waiting = Journal(own).pending()
    if not waiting:
        yield ok("journal", "empty")
    elif settings.foreign:
        found = f"{waiting} decisions in {own} are in no ledger: the daemon of uid {settings.daemon_uid} was not there"
        yield warn("journal", found, f"give the file to uid {settings.daemon_uid} if they matter, or delete it")
    else:
        remedy = "make the ledger writable again (see above), then `wcache daemon start`, or any attach, merges them"
        yield warn("journal", f"{waiting} decisions wait in {own} to be merged into the ledger", remedy)


def lock_holders(path: Path, root: Path = Path("/")) -> list[int]:
    """Pids that hold a flock(2) of this file, as far as this pid namespace sees them (proc(5), /proc/locks). Takes no lock itself."""
    try:
        about = path.stat()
        lines = (root / "proc/locks").read_text(encoding="ascii").splitlines()
    except OSError:
        return []
    place = f"{os.major(about.st_dev):02x}:{os.minor(about.st_dev):02x}:{about.st_ino}"
    found = [line.split() for line in lines if "->" not in line]
    return sorted({int(words[4]) for words in found if words[1] == "FLOCK" and words[5] == place})


CHECKS: tuple[Check, ...] = (daemon, locks, journal)
