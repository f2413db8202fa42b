"""`wcache doctor`: the interpreter, SQLite, the kernel, its limits, memory, the clock."""

from __future__ import annotations

import datetime
import fcntl
import os
import platform
import resource
import socket
import sqlite3
import sys
import time
from collections.abc import Iterator

from wcache.cli.checks import Check, Finding, Subject, fail, ok, warn
from wcache.cli.text import size

WAL_RESET_FIXED = (3, 51, 3)
DESCRIPTORS_WANTED = 4096
ROOM_WANTED_BYTES = 1 << 30
_SO_PEERPIDFD = 77  # asm-generic/socket.h, since Linux 6.5; Python has no name for it
_RELEASED_NS = 1_735_689_600 * 1_000_000_000  # 2025-01-01: no clock that is right says less


def python(subject: Subject) -> Iterator[Finding]:
    version = platform.python_version()
    yield ok("python", version) if sys.version_info >= (3, 10) else fail("python", version, "install Python 3.10 or newer")
    system = f"{platform.system()} {platform.release()}, {platform.machine()}"
    if sys.platform == "linux":
        yield ok("platform", system)
    else:
        yield fail("platform", f"{system}: weights cannot be mapped here", "attach on Linux; audit and reports run anywhere")


def sqlite(subject: Subject) -> Iterator[Finding]:
    from wcache.ledger.database import SQLITE_MINIMUM

    version, found = sqlite3.sqlite_version_info, sqlite3.sqlite_version
    if version < SQLITE_MINIMUM:
        minimum = ".".join(map(str, SQLITE_MINIMUM))
        yield fail("sqlite", f"{found} has no STRICT tables", f"use a Python that is built with SQLite {minimum} or newer")
    elif version < WAL_RESET_FIXED:
        note = f"{found}: has the WAL-reset race of releases before 3.51.3; wcache checkpoints only under its own lock, which avoids it"
        yield ok("sqlite", note)
    else:
        yield ok("sqlite", found)


def kernel(subject: Subject) -> Iterator[Finding]:
    from wcache.core.checkpoint.identity import device_without_asking
    from wcache.core.wire.peer import peer_groups

    try:
        descriptor = os.memfd_create("wcache-doctor", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        try:
            fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, fcntl.F_SEAL_WRITE | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
        finally:
            os.close(descriptor)
        yield ok("sealed memfd", "memory can be shared and sealed")
    except (OSError, AttributeError) as error:
        remedy = "Linux 3.17 or newer is needed, and a sandbox (seccomp) that lets memfd_create through"
        yield fail("sealed memfd", f"memfd_create or sealing failed: {error}", remedy)
    one, two = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    with one, two:
        try:
            os.close(one.getsockopt(socket.SOL_SOCKET, _SO_PEERPIDFD))
            yield ok("peer pidfd", "SO_PEERPIDFD is there")
        except OSError:
            found = "no SO_PEERPIDFD (Linux 6.5): leases end with their connection, but a forked engine's are not told as orphaned"
            yield warn("peer pidfd", found, "nothing has to be done; a newer kernel would show orphaned leases")
        try:
            peer_groups(one)
            yield ok("peer groups", "SO_PEERGROUPS is there")
        except OSError as error:
            yield warn("peer groups", f"no SO_PEERGROUPS: {error.strerror}", "shared mode needs Linux 4.13 or newer; run without --shared")
    here = os.open("/", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        if device_without_asking(here) is None:
            found = "the C library has no statx(2): network file systems cannot be asked for current attributes"
            yield warn("statx", found, "use glibc 2.28 or musl 1.2.3, or newer; until then leave network_fs = refuse, and do not share")
        else:
            yield ok("statx", "AT_STATX_FORCE_SYNC and AT_STATX_DONT_SYNC are there")
    finally:
        os.close(here)


def open_files(subject: Subject) -> Iterator[Finding]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    unlimited = hard == resource.RLIM_INFINITY
    most = "no limit" if unlimited else str(hard)
    if unlimited or hard >= DESCRIPTORS_WANTED:
        yield ok("open files", f"soft {soft}, hard {most}")
        yield ok("descriptors in flight", f"the kernel lets one user have as many on their way as it may open: {most}")
        return
    remedy = f"raise the hard limit to {DESCRIPTORS_WANTED} (ulimit -Hn, LimitNOFILE=): every shard and lease takes one"
    yield warn("open files", f"soft {soft}, hard {most}", remedy)
    found = f"{most} for all processes of one user (unix(7), ETOOMANYREFS): many engines that start at once wait for each other"
    yield warn("descriptors in flight", found, remedy)


def memory(subject: Subject) -> Iterator[Finding]:
    from wcache.daemon.budget import room

    free = room(subject.root)
    found = f"room for {size(free.bytes)} of weights, by {free.by}"
    if free.bytes >= ROOM_WANTED_BYTES:
        yield ok("memory", found)
    elif free.by == "MemAvailable":
        yield warn("memory", found, "free memory, or release weights: `wcache ls`")
    else:
        remedy = "raise the limit of this control group (MemoryMax=, resources.limits.memory): weights count against it"
        yield warn("memory", found, remedy)


def gpus(subject: Subject) -> Iterator[Finding]:
    """Without a CUDA context, which would take memory of every GPU."""
    from wcache.core.memory import cuda, nvml, vmm
    from wcache.core.model.errors import Unsupported

    try:
        known = nvml.gpus()
        version = nvml.driver_version()
    except Unsupported as error:
        yield ok("gpu", f"{error.what}: weights are kept in host memory")
        return
    for gpu in known:
        figures = nvml.memory(gpu.uuid)
        instances = f", MIG: {', '.join(gpu.mig_uuids)}" if gpu.mig_uuids else ""
        free = f"{size(figures.free_bytes)} of {size(figures.total_bytes)} free"
        yield ok("gpu", f"{gpu.uuid}, {gpu.name}, {free}, driver {version}{instances}")
    try:
        for device in cuda.devices():
            vmm.check_supported(device)
        version = ".".join(map(str, cuda.binding("nvrtc").nvrtcVersion()[1:]))
        yield ok("gpu weights", f"memory can be shared by descriptor, and hashed there: NVRTC {version}")
    except Unsupported as error:
        yield warn("gpu weights", error.what, error.remedy)
    except (RuntimeError, OSError) as error:
        yield warn("gpu weights", f"hashing on the GPU needs NVRTC: {error}", "pip install nvidia-cuda-nvrtc")


def clock(subject: Subject) -> Iterator[Finding]:
    now_ns = time.time_ns()
    shown = datetime.datetime.fromtimestamp(now_ns / 1e9, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    if now_ns < _RELEASED_NS:
        yield fail("clock", f"it says {shown}", "set the clock right (chrony, systemd-timesyncd): files seem to come from the future")
    else:
        yield ok("clock", f"now {shown}")


CHECKS: tuple[Check, ...] = (python, sqlite, kernel, open_files, memory, gpus, clock)
