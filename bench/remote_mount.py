"""A file system as far away as one likes: a directory, mounted read-only once more, where every operation takes a latency and all bytes
share one line; every operation is counted by the name that the kernel gives it.

    python bench/remote_mount.py SOURCE MOUNTPOINT        (Linux, /dev/fuse, fusermount3 of the package fuse3)

Each line of JSON on stdin sets the distance (`{"latency_ms": 20, "bandwidth_mb_s": 100}`, 0: none) and is answered by one line: what was
asked since the line before. `operations` counts by name, `round_trips` is the longest chain of operations that waited for each other,
`read_bytes` what was read. The next `failing_reads` reads fail with EIO (-1: all of them); `stale` lets every read through a file that is
open then fail with ESTALE. The end of stdin unmounts it.

It stands for the client of a remote file system that has just started: the kernel believes no name and no attribute for any time
(entry_timeout and attr_timeout 0) and drops a file's pages when it is opened (no keep_cache); it may look up names of one directory at
once, read ahead 128 KiB as everywhere, and ask for up to 1 MiB in one read. Opens ask the server; nobody waits for a release.

This speaks the kernel's protocol (linux/fuse.h, 7.31) rather than using libfuse: before 3.17 libfuse never allows two lookups in one
directory at once, and its interface of paths cannot tell a lookup from a getattr.
"""

from __future__ import annotations

import errno
import heapq
import json
import os
import select
import shutil
import signal
import socket
import stat
import struct
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

READY_S = 30
_MINOR = 31
_REQUEST_BYTES = 64 << 10
_MAX_PAGES = 256
_ROOT = 1
_FLAGS = 1 << 0 | 1 << 15 | 1 << 18 | 1 << 22  # FUSE_ASYNC_READ, ASYNC_DIO, PARALLEL_DIROPS, MAX_PAGES
_NAMES = {
    1: "lookup", 2: "forget", 3: "getattr", 5: "readlink", 14: "open", 15: "read", 17: "statfs", 18: "release", 20: "fsync",
    22: "getxattr", 25: "flush", 26: "init", 27: "opendir", 28: "readdir", 29: "releasedir", 34: "access", 36: "interrupt",
    38: "destroy", 39: "ioctl", 42: "batch_forget", 46: "lseek", 52: "statx",
}  # fmt: skip
_UNANSWERED = ("forget", "batch_forget", "interrupt")
_HEADER_IN = struct.Struct("<IIQQIIII")
_ATTR = struct.Struct("<6Q10I")
_READ = struct.Struct("<QQI")


class Remote:
    """The server: one loop that takes requests as they come and answers each when its time has come."""

    def __init__(self, source: str, device: int) -> None:
        self._device = device
        self._paths = {_ROOT: source}
        self._listings: dict[int, bytes] = {}
        self._due: list[tuple[float, int, float, str, int, bytes]] = []  # when, unique, arrived, name, node, body
        self._seen: list[tuple[float, float, str, int]] = []  # arrived, answered, name, bytes
        self._latency_s = self._bytes_per_s = self._free_s = 0.0
        self._open: set[int] = set()
        self._stale: set[int] = set()
        self._failing_reads = 0

    def run(self, control: int) -> None:
        os.set_blocking(self._device, False)
        poll = select.poll()
        poll.register(self._device, select.POLLIN)
        poll.register(control, select.POLLIN)
        while True:
            wait_ms = max(0.0, (self._due[0][0] - time.monotonic()) * 1e3) if self._due else None
            for ready, _ in poll.poll(wait_ms):
                if ready == control:
                    if not (text := os.read(control, 4096)):
                        return
                    os.write(1, json.dumps(self.turn(**json.loads(text))).encode() + b"\n")
                elif not self._take():
                    return
            while self._due and self._due[0][0] <= time.monotonic():
                self._answer()

    def turn(self, latency_ms: float = 0, bandwidth_mb_s: float = 0, failing_reads: int = 0, stale: bool = False) -> dict[str, Any]:
        seen, self._seen = self._seen, []
        self._latency_s, self._bytes_per_s, self._free_s = latency_ms / 1e3, bandwidth_mb_s * 1e6, 0.0
        self._failing_reads = failing_reads
        self._stale |= self._open if stale else set()
        return {
            "operations": dict(sorted(Counter(name for _, _, name, _ in seen).items())),
            "round_trips": _longest_chain([(arrived, done) for arrived, done, name, _ in seen if not name.startswith("release")]),
            "read_bytes": sum(size_bytes for _, _, _, size_bytes in seen),
        }

    def _take(self) -> bool:
        """Takes every request that is there; False when it was unmounted."""
        while True:
            try:
                request = os.read(self._device, _REQUEST_BYTES)
            except BlockingIOError:
                return True
            except OSError as error:
                if error.errno == errno.ENODEV:
                    return False
                if error.errno in (errno.EINTR, errno.ENOENT):  # the caller gave up
                    continue
                raise
            now_s = time.monotonic()
            _, opcode, unique, node, *_ = _HEADER_IN.unpack_from(request)
            name = _NAMES.get(opcode, f"opcode {opcode}")
            if name in _UNANSWERED:
                continue
            free_s = now_s
            if name == "read" and self._bytes_per_s:
                fd, offset, size_bytes = _READ.unpack_from(request, _HEADER_IN.size)
                carried_bytes = max(0, min(size_bytes, os.fstat(fd).st_size - offset))
                free_s = self._free_s = max(self._free_s, now_s) + carried_bytes / self._bytes_per_s
            due_s = now_s if name == "init" else free_s + self._latency_s
            heapq.heappush(self._due, (due_s, unique, now_s, name, node, request[_HEADER_IN.size :]))

    def _answer(self) -> None:
        _, unique, arrived_s, name, node, body = heapq.heappop(self._due)
        try:
            answer, code = self._do(name, node, body), 0
        except OSError as error:
            answer, code = b"", -(error.errno or errno.EIO)
        if name != "init":
            self._seen.append((arrived_s, time.monotonic(), name, len(answer) if name == "read" else 0))
        try:
            os.writev(self._device, [struct.pack("<IiQ", 16 + len(answer), code, unique), answer])
        except OSError as error:
            if error.errno != errno.ENOENT:  # the caller gave up
                raise

    def _do(self, name: str, node: int, body: bytes) -> bytes:
        if name == "lookup":
            path = f"{self._paths[node]}/{os.fsdecode(body[:-1])}"
            found = os.lstat(path)
            self._paths[found.st_ino] = path
            return struct.pack("<4Q2I", found.st_ino, 0, 0, 0, 0, 0) + _attributes(found)
        if name == "getattr":
            return struct.pack("<QII", 0, 0, 0) + _attributes(os.lstat(self._paths[node]))
        if name == "readlink":
            return os.fsencode(Path(self._paths[node]).readlink())
        if name == "open":
            fd = os.open(self._paths[node], os.O_RDONLY | os.O_CLOEXEC)
            self._open.add(fd)
            return struct.pack("<QII", fd, 0, 0)
        if name == "read":
            fd, offset, size_bytes = _READ.unpack_from(body)
            if fd in self._stale:
                raise OSError(errno.ESTALE, name)
            if self._failing_reads:
                self._failing_reads -= 1
                raise OSError(errno.EIO, name)
            return os.pread(fd, size_bytes, offset)
        if name == "release":
            (fd,) = struct.unpack_from("<Q", body)
            self._open.discard(fd)
            self._stale.discard(fd)
            os.close(fd)
            return b""
        if name == "opendir":
            self._listings[node] = _listing(self._paths[node])
            return struct.pack("<QII", node, 0, 0)
        if name == "readdir":
            _, offset, size_bytes = _READ.unpack_from(body)
            return _whole_entries(self._listings[node], offset, size_bytes)
        if name == "releasedir":
            return b""
        if name == "statfs":
            return bytes(80)
        if name == "init":
            return struct.pack("<4I2H2I2HI28x", 7, _MINOR, 128 << 10, _FLAGS, 64, 64, 4096, 1, _MAX_PAGES, 0, 0)
        raise OSError(errno.ENOSYS, name)  # the kernel does not ask for it again


def _attributes(found: os.stat_result) -> bytes:
    times = (found.st_atime_ns, found.st_mtime_ns, found.st_ctime_ns)
    return _ATTR.pack(
        found.st_ino, found.st_size, found.st_blocks, *(one // 10**9 for one in times), *(one % 10**9 for one in times),
        found.st_mode, found.st_nlink, found.st_uid, found.st_gid, 0, 4096, 0,
    )  # fmt: skip


def _listing(path: str) -> bytes:
    """struct fuse_dirent of every entry; `off` is where the next one begins."""
    entries = b""
    for name, kind in ((".", stat.S_IFDIR), ("..", stat.S_IFDIR), *((one.name, one.lstat().st_mode) for one in Path(path).iterdir())):
        raw = os.fsencode(name)
        size_bytes = 24 + -(-len(raw) // 8) * 8
        entries += struct.pack("<QQII", 1, len(entries) + size_bytes, len(raw), stat.S_IFMT(kind) >> 12) + raw.ljust(size_bytes - 24, b"\0")
    return entries


def _whole_entries(listing: bytes, offset: int, size_bytes: int) -> bytes:
    end = offset
    while end < len(listing) and (following := int.from_bytes(listing[end + 8 : end + 16], "little")) <= offset + size_bytes:
        end = following
    return listing[offset:end]


def _longest_chain(spans: list[tuple[float, float]]) -> int:
    """How many followed one another at most: each arrived after the one before was answered."""
    length, free_s = 0, float("-inf")
    for arrived_s, answered_s in sorted(spans, key=lambda span: span[1]):
        if arrived_s >= free_s:
            length, free_s = length + 1, answered_s
    return length


def mounted(mountpoint: str) -> int:
    """The descriptor of a new FUSE mount: fusermount3 opens and mounts it, for everybody who may, and passes it on (mount.fuse3(8))."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        command = ["fusermount3", "-o", "ro,fsname=remote,subtype=remote", "--", mountpoint]
        subprocess.run(command, env={**os.environ, "_FUSE_COMMFD": str(theirs.fileno())}, pass_fds=[theirs.fileno()], check=True)
        return socket.recv_fds(ours, 1, 1)[1][0]


class RemoteMount:
    """The mount of a directory while the context lasts, served by a process of its own."""

    def __init__(self, source: Path, mountpoint: Path) -> None:
        self.path = mountpoint
        self._source = source
        self._process: subprocess.Popen[str]

    def __enter__(self) -> RemoteMount:
        self.path.mkdir(exist_ok=True)
        command = [sys.executable, str(Path(__file__).resolve()), str(self._source), str(self.path)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.turn()
        if not self.path.is_mount():
            raise RuntimeError("the file system could not be mounted")
        return self

    def __exit__(self, *exc: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(timeout=READY_S)

    def turn(self, latency_ms: float = 0, bandwidth_mb_s: float = 0, failing_reads: int = 0, stale: bool = False) -> dict[str, Any]:
        """From now on so far away, and so unwell; returns what was asked since the last turn."""
        assert self._process.stdin is not None and self._process.stdout is not None
        wanted = {"latency_ms": latency_ms, "bandwidth_mb_s": bandwidth_mb_s, "failing_reads": failing_reads, "stale": stale}
        self._process.stdin.write(json.dumps(wanted) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            raise RuntimeError("the file system could not be mounted, or has ended")
        return dict(json.loads(answer))


def missing() -> str:
    """Why nothing can be mounted here; empty where it can."""
    if not os.access("/dev/fuse", os.R_OK | os.W_OK):
        return "there is no /dev/fuse that this user may open"
    if shutil.which("fusermount3") is None:
        return "there is no fusermount3 (package fuse3)"
    return ""


def main(source: str, mountpoint: str) -> int:
    for word in (signal.SIGINT, signal.SIGTERM):  # meant for the group: the end of stdin is what unmounts, after whoever reads there
        signal.signal(word, signal.SIG_IGN)
    device = mounted(mountpoint)
    try:
        Remote(source, device).run(control=0)
    finally:
        # Lazily: whoever still has a file open there loses it, as if the network had gone.
        subprocess.run(["fusermount3", "-u", "-z", "-q", "--", mountpoint], check=False)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2]))
