"""What `wcache doctor` looks at: each check answers ok, warn or fail, with what was found and what to do."""

from __future__ import annotations

import os
import platform
import resource
import sqlite3
import stat
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import msgspec

from wcache.core.model.errors import WcacheError
from wcache.core.settings import SUN_PATH_MAX, VARIABLES, Settings

WAL_RESET_FIXED = (3, 51, 3)
_DESCRIPTORS_WANTED = 4096
_ROOM_WANTED_BYTES = 1 << 30


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One check. `state` is ok, warn (works, with a limit) or fail (does not work)."""

    check: str
    state: str
    found: str
    remedy: str = ""


def examine(settings: Settings) -> list[Finding]:
    """All checks, in the order in which they build on each other. None raises: a check that cannot be done is a finding."""
    findings = []
    for check in _CHECKS:
        findings += _carried_out(check, settings)
    return findings


def _carried_out(check: Callable[[Settings], Iterator[Finding]], settings: Settings) -> list[Finding]:
    findings: list[Finding] = []
    try:
        findings.extend(check(settings))
    except WcacheError as error:
        findings.append(Finding(check=_name(check), state="fail", found=str(error), remedy=error.remedy))
    except Exception as error:  # a machine may be odd in any way; the other checks still count
        findings.append(Finding(check=_name(check), state="warn", found=f"could not be checked: {type(error).__name__}: {error}"))
    return findings


def _name(check: Callable[[Settings], Iterator[Finding]]) -> str:
    return check.__name__.strip("_").replace("_", " ")


def _python(settings: Settings) -> Iterator[Finding]:
    version = platform.python_version()
    ok = sys.version_info >= (3, 10)
    yield Finding(check="python", state="ok" if ok else "fail", found=version, remedy="" if ok else "install Python 3.10 or newer")
    system = f"{platform.system()} {platform.release()}, {platform.machine()}"
    if sys.platform == "linux":
        yield Finding(check="platform", state="ok", found=system)
    else:
        remedy = "attach on Linux; audit and reports run anywhere"
        yield Finding(check="platform", state="fail", found=f"{system}: weights cannot be mapped here", remedy=remedy)


def _sqlite(settings: Settings) -> Iterator[Finding]:
    from wcache.ledger.database import SQLITE_MINIMUM

    version, found = sqlite3.sqlite_version_info, sqlite3.sqlite_version
    if version < SQLITE_MINIMUM:
        minimum = ".".join(map(str, SQLITE_MINIMUM))
        yield Finding(check="sqlite", state="fail", found=found, remedy=f"use a Python that is built with SQLite {minimum} or newer")
    elif version < WAL_RESET_FIXED:
        note = f"{found}: has the WAL-reset race of releases before 3.51.3; wcache checkpoints only under its own lock, which avoids it"
        yield Finding(check="sqlite", state="ok", found=note)
    else:
        yield Finding(check="sqlite", state="ok", found=found)


def _directories(settings: Settings) -> Iterator[Finding]:
    for check, path in (("runtime directory", settings.runtime_dir), ("state directory", settings.state_dir)):
        try:
            about = path.lstat()
        except PermissionError:
            found = f"{path}: uid {os.geteuid()} may not look at it"
            yield Finding(check=check, state="fail", found=found, remedy="run as the daemon's user, or set another place")
            continue
        except FileNotFoundError:
            parent = next(one for one in path.parents if one.exists())
            if os.access(parent, os.W_OK | os.X_OK):
                yield Finding(check=check, state="ok", found=f"{path}: will be made by the first daemon")
            else:
                remedy = f"set WCACHE_{check.split()[0].upper()}_DIR to a directory of yours"
                yield Finding(check=check, state="fail", found=f"{path}: is not there, and {parent} may not be written", remedy=remedy)
            continue
        mode = stat.S_IMODE(about.st_mode)
        if not stat.S_ISDIR(about.st_mode):
            yield Finding(check=check, state="fail", found=f"{path}: is no directory", remedy="remove it")
        elif about.st_uid != os.geteuid():
            yield Finding(
                check=check, state="fail", found=f"{path}: belongs to uid {about.st_uid}", remedy="run as that user, or set another place"
            )
        elif mode & 0o077:
            yield Finding(check=check, state="fail", found=f"{path}: mode {mode:04o} lets others in", remedy=f"chmod 700 {path}")
        else:
            yield Finding(check=check, state="ok", found=f"{path}, mode {mode:04o}")


def _environment(settings: Settings) -> Iterator[Finding]:
    """A mistyped variable means nothing, and cannot be an error: orchestrators set WCACHE_* of their own for a service of that name."""
    from difflib import get_close_matches

    known = [f"WCACHE_{name.upper()}" for name in (*VARIABLES, "config", "launch", "debug")]
    for name in sorted(os.environ):
        if name.startswith("WCACHE_") and name not in known:
            near = get_close_matches(name, known, n=1)
            remedy = f"did you mean {near[0]}?" if near else "unset it, if it was meant for wcache"
            yield Finding(check="environment", state="warn", found=f"{name} is set, and no setting has that name", remedy=remedy)


def _socket_path(settings: Settings) -> Iterator[Finding]:
    length = len(os.fsencode(settings.socket_path))
    yield Finding(check="socket path", state="ok", found=f"{length} of {SUN_PATH_MAX} bytes")  # a longer one never gets here


def _file_systems(settings: Settings) -> Iterator[Finding]:
    from wcache.core.checkpoint.identity import filesystem_kind
    from wcache.ledger.database import refuse_network_filesystem

    place = next(one for one in (settings.ledger.parent, *settings.ledger.parent.parents) if one.exists())
    refuse_network_filesystem(place)
    yield Finding(check="ledger's file system", state="ok", found=f"{filesystem_kind(place)} at {place}")
    free = os.statvfs(place)
    free_bytes = free.f_bavail * free.f_frsize
    if free_bytes < 100 << 20:
        yield Finding(
            check="ledger's disk",
            state="warn",
            found=f"{free_bytes >> 20} MiB free",
            remedy="free space: without a record there are no hits",
        )
    else:
        yield Finding(check="ledger's disk", state="ok", found=f"{free_bytes >> 20} MiB free")


def _ledger(settings: Settings) -> Iterator[Finding]:
    from wcache.core.model.errors import NotFound
    from wcache.ledger.moment import utc
    from wcache.ledger.store import Ledger

    try:
        with closing(Ledger.open(settings.ledger, create=False, read_only=True)) as ledger:
            seq, _ = ledger.head()
            newest = next(iter(ledger.events(after_seq=seq - 1)), None) if seq else None
    except NotFound:
        yield Finding(check="ledger", state="ok", found=f"{settings.ledger}: will be made by the first daemon")
        return
    yield Finding(check="ledger", state="ok", found=f"{settings.ledger}: {seq} events, schema current")
    ahead_s = (newest.recorded_ns - time.time_ns()) / 1e9 if newest else 0.0
    if newest and ahead_s > 1:
        remedy = "set the clock right: pins wait for files to be 2 s old, and order in the ledger is by seq"
        yield Finding(
            check="clock",
            state="warn",
            found=f"the newest event is {ahead_s:.0f} s in the future ({utc(newest.recorded_ns)})",
            remedy=remedy,
        )
    else:
        yield Finding(check="clock", state="ok", found=f"now {utc(time.time_ns())}")


def _daemon(settings: Settings) -> Iterator[Finding]:
    from wcache.core.model.errors import DaemonUnreachable
    from wcache.core.wire.channel import Channel

    try:
        with closing(Channel.connect(settings.socket_path)) as channel:
            welcome = channel.welcome
        yield Finding(check="daemon", state="ok", found=f"pid {welcome.server_pid}, version {welcome.version}, instance {welcome.instance}")
        if welcome.ledger and Path(welcome.ledger) != settings.ledger:
            remedy = f"use --ledger {welcome.ledger} to audit this daemon"
            yield Finding(check="daemon's ledger", state="warn", found=f"{welcome.ledger}, not {settings.ledger}", remedy=remedy)
    except DaemonUnreachable as error:
        absent = error.reason == "daemon_absent"
        yield Finding(check="daemon", state="warn" if absent else "fail", found=f"{error.reason}: {error.what}", remedy=error.remedy)


def _descriptors(settings: Settings) -> Iterator[Finding]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = "no limit" if hard == resource.RLIM_INFINITY else str(hard)
    enough = hard == resource.RLIM_INFINITY or hard >= _DESCRIPTORS_WANTED
    remedy = "" if enough else f"raise the hard limit to {_DESCRIPTORS_WANTED} (ulimit -Hn, LimitNOFILE=): every shard and lease takes one"
    yield Finding(check="open files", state="ok" if enough else "warn", found=f"soft {soft}, hard {most}", remedy=remedy)


def _memory(settings: Settings) -> Iterator[Finding]:
    from wcache.daemon.budget import room

    free = room()
    enough = free.bytes >= _ROOM_WANTED_BYTES
    remedy = "" if enough else "free memory, or raise the limit of this control group"
    yield Finding(
        check="memory", state="ok" if enough else "warn", found=f"room for {free.bytes >> 20} MiB of weights, by {free.by}", remedy=remedy
    )


def _kernel(settings: Settings) -> Iterator[Finding]:
    import fcntl
    import socket

    try:
        descriptor = os.memfd_create("wcache-doctor", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        try:
            fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, fcntl.F_SEAL_WRITE | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
        finally:
            os.close(descriptor)
        yield Finding(check="sealed memfd", state="ok", found="memory can be shared and sealed")
    except (OSError, AttributeError) as error:
        yield Finding(
            check="sealed memfd", state="fail", found=f"memfd_create or sealing failed: {error}", remedy="Linux 3.17 or newer is needed"
        )
    one, two = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    with one, two:
        try:
            os.close(one.getsockopt(socket.SOL_SOCKET, _SO_PEERPIDFD))
            yield Finding(check="peer pidfd", state="ok", found="SO_PEERPIDFD is there")
        except OSError:
            yield Finding(
                check="peer pidfd", state="ok", found="no SO_PEERPIDFD (Linux 6.5): leases end with their connection, which is enough"
            )


_SO_PEERPIDFD = 77  # asm-generic/socket.h, since Linux 6.5; Python has no name for it

_CHECKS: tuple[Callable[[Settings], Iterator[Finding]], ...] = (
    _python, _sqlite, _kernel, _descriptors, _memory, _environment, _directories, _socket_path, _file_systems, _ledger, _daemon,
)  # fmt: skip
