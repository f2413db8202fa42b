"""`wcache doctor`: directories, permissions, file systems, the ledger's file, a checkpoint."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from wcache.cli.checks import Check, Finding, Subject, fail, ok, warn
from wcache.cli.text import size
from wcache.core.settings import SUN_PATH_MAX, VARIABLES

_FREE_WANTED_BYTES = 100 << 20
_VANISHING = frozenset({"tmpfs", "ramfs"})


def group(subject: Subject) -> Iterator[Finding]:
    from wcache.daemon.sharing import group_of

    name = subject.settings.shared_group
    if name:
        gid = group_of(name)
        member = os.geteuid() == 0 or gid in {os.getegid(), *os.getgroups()}
        remedy = f"add this user to the group (usermod -aG {name}), and log in anew"
        yield ok("shared group", f"{name}, gid {gid}") if member else fail("shared group", f"this user is not in {name}", remedy)


def directories(subject: Subject) -> Iterator[Finding]:
    settings = subject.settings
    shared = settings.shared_group is not None
    for check, path in (("runtime directory", settings.runtime_dir), ("state directory", settings.state_dir)):
        runtime = check.startswith("runtime")
        try:
            about = path.stat()
        except FileNotFoundError:
            parent = next(one for one in path.parents if one.exists())
            if settings.foreign and runtime:
                remedy = f"ask uid {settings.daemon_uid} to start it, or correct WCACHE_RUNTIME_DIR"
                yield fail(check, f"{path}: is not there, so there is no daemon of uid {settings.daemon_uid}", remedy)
            elif os.access(parent, os.W_OK | os.X_OK):
                yield ok(check, f"{path}: will be made by the first daemon")
            else:
                remedy = f"set WCACHE_{check.split()[0].upper()}_DIR to a directory of yours"
                yield fail(check, f"{path}: is not there, and {parent} may not be written", remedy)
            continue
        except PermissionError:
            yield fail(check, f"{path}: this user may not look there", "run as the daemon's user, or as a member of its group")
            continue
        mode = stat.S_IMODE(about.st_mode)
        owner = settings.daemon_uid if settings.foreign and runtime else os.geteuid()
        allowed = 0o050 if runtime and (shared or settings.foreign) else 0o055 if not runtime else 0
        if not stat.S_ISDIR(about.st_mode):
            yield fail(check, f"{path}: is no directory", f"set WCACHE_{check.split()[0].upper()}_DIR to a directory of yours")
        elif about.st_uid != owner:
            yield fail(check, f"{path}: belongs to uid {about.st_uid}, not {owner}", "run as that user, or set another place")
        elif mode & 0o077 & ~allowed:
            remedy = f"chmod 700 {path}" + (" (or start the daemon with --shared)" if runtime and mode & 0o027 == 0 else "")
            yield fail(check, f"{path}: mode {mode:04o} lets others in", remedy)
        else:
            yield ok(check, f"{path}, mode {mode:04o}")


def private_files(subject: Subject) -> Iterator[Finding]:
    """What must be 0600: whoever reads a seed knows where samples are taken, whoever writes the ledger can say what he likes."""
    settings = subject.settings
    if settings.foreign:
        return
    seeds = sorted((settings.state_dir / "seeds").glob("seed-*.key")) if os.access(settings.state_dir, os.X_OK) else []
    for check, path, bits, why in (
        ("ledger's permissions", settings.ledger, 0o022, "lets others write it"),
        *(("seed's permissions", seed, 0o077, "lets others read where samples are taken, so it is not used") for seed in seeds),
    ):
        try:
            about = path.stat()
        except OSError:
            continue
        mode = stat.S_IMODE(about.st_mode)
        if not stat.S_ISREG(about.st_mode):  # never a remedy that changes a device
            remedy = "name a file by WCACHE_LEDGER, or unset it" if check.startswith("ledger") else f"move {path} away: a new one is made"
            yield fail(check, f"{path}: this is no regular file", remedy)
        elif mode & bits:
            remedy = f"chmod 600 {path}" if check.startswith("ledger") else f"delete {path}: a new one is made"
            yield fail(check, f"{path}: mode {mode:04o} {why}", remedy)
        else:
            yield ok(check, f"{path}, mode {mode:04o}")


def socket_path(subject: Subject) -> Iterator[Finding]:
    length = len(os.fsencode(subject.settings.socket_path))
    yield ok("socket path", f"{length} of {SUN_PATH_MAX} bytes")  # a longer one is refused with the settings


def file_systems(subject: Subject) -> Iterator[Finding]:
    from wcache.core.checkpoint.identity import filesystem_kind
    from wcache.ledger.database import refuse_network_filesystem

    settings = subject.settings
    place = _existing(settings.state_dir)
    kind = filesystem_kind(place)
    if kind in _VANISHING:
        found = f"{kind} at {place}: it is empty after a boot, and counts as memory"
        yield warn("state's file system", found, "set WCACHE_STATE_DIR to a directory on a disk: the record of all decisions lies there")
    else:
        yield ok("state's file system", f"{kind} at {place}")
    if settings.foreign:
        return
    place = _existing(settings.ledger.parent)
    refuse_network_filesystem(place)
    yield ok("ledger's file system", f"{filesystem_kind(place)} at {place}")
    free = os.statvfs(place)
    free_bytes = free.f_bavail * free.f_frsize
    if os.statvfs(place).f_flag & os.ST_RDONLY:
        yield fail("ledger's disk", f"{place} is mounted read-only", "mount it for writing, or set WCACHE_LEDGER to another place")
    elif free_bytes < _FREE_WANTED_BYTES:
        yield warn("ledger's disk", f"{size(free_bytes)} free", f"free space at {place}: without a record there are no hits")
    else:
        yield ok("ledger's disk", f"{size(free_bytes)} free")


def ledger(subject: Subject) -> Iterator[Finding]:
    from wcache.core.model.errors import NotFound
    from wcache.ledger.moment import utc
    from wcache.ledger.store import Ledger

    settings = subject.settings
    if settings.foreign:
        yield ok("ledger", f"uid {settings.daemon_uid} keeps it: what this user does goes through its daemon")
        return
    try:
        with closing(Ledger.open(settings.ledger, create=False, read_only=True)) as opened:
            seq, _ = opened.head()
            newest = next(iter(opened.events(after_seq=seq - 1)), None) if seq else None
    except NotFound:
        yield ok("ledger", f"{settings.ledger}: will be made by the first daemon")
        return
    yield ok("ledger", f"{settings.ledger}: {seq} events, schema current")
    ahead_s = (newest.recorded_ns - time.time_ns()) / 1e9 if newest else 0.0
    if newest and ahead_s > 1:
        found = f"the newest event is {ahead_s:.0f} s in the future ({utc(newest.recorded_ns)}): the clock went back"
        yield warn("ledger's clock", found, "set the clock right: pins wait for files to be 2 s old, and order in the ledger is by seq")


def checkpoint(subject: Subject) -> Iterator[Finding]:
    """Only where one was named: can it be read, and do pins hold where it lies?"""
    from wcache.core.checkpoint.checkpoint import open_checkpoint
    from wcache.core.checkpoint.identity import pinnable

    if subject.checkpoint is None:
        return
    found = open_checkpoint(subject.checkpoint)
    yield ok("checkpoint", f"{len(found.shards)} shards, {found.tensor_count} tensors, {size(found.total_bytes)} at {found.location.root}")
    kind = found.location.fs_kind
    holds, why = pinnable(kind, subject.settings.policy.network_fs)
    if holds:
        yield ok("checkpoint's file system", f"{kind}: a hash holds until a file changes")
    elif kind in _VANISHING:
        yield warn("checkpoint's file system", why, "keep it on a disk: on memory every start reads and hashes everything")
    else:
        remedy = "each start reads everything; grant it as an immutable store (wcache trust grant --store) where nothing below it changes"
        yield warn("checkpoint's file system", why, remedy)


def _existing(path: Path) -> Path:
    return next(one for one in (path, *path.parents) if one.exists())


def environment(subject: Subject) -> Iterator[Finding]:
    """A mistyped variable means nothing, and cannot be an error: orchestrators set WCACHE_* of their own for a service of that name."""
    from difflib import get_close_matches

    known = [f"WCACHE_{name.upper()}" for name in (*VARIABLES, "config", "launch", "debug")]
    for name in sorted(os.environ):
        if name.startswith("WCACHE_") and name not in known:
            near = get_close_matches(name, known, n=1)
            remedy = f"did you mean {near[0]}?" if near else "unset it, if it was meant for wcache"
            yield warn("environment", f"{name} is set, and no setting has that name", remedy)


CHECKS: tuple[Check, ...] = (environment, group, directories, private_files, socket_path, file_systems, ledger, checkpoint)
