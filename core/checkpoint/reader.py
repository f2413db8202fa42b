"""Every stat, open and read of a checkpoint's files goes through a `Reader`, which counts: what a check cost is recorded, not guessed."""

# Each of these is one counted system call:
# ruff: noqa: PTH114, PTH115, PTH208

from __future__ import annotations

import _thread
import errno
import functools
import os
import stat
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from types import TracebackType
from typing import NamedTuple, TypeVar

from wcache.core.checkpoint.identity import MEMORY_KINDS, PINNABLE_KINDS, force_sync_kind, identity_of, mode_without_asking
from wcache.core.checkpoint.retries import Retries
from wcache.core.model.errors import CheckpointChanged, CheckpointUnreadable
from wcache.core.model.evidence import FileIdentity

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")

# O_NONBLOCK: opening a named pipe must not wait for a writer; for regular files it means nothing.
_OPEN_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
_PARALLEL_FROM = 8  # up to it, starting threads costs more than the calls, unless each of them is a round trip
_THREADS_REMOTE = 128
_THREADS_LOCAL_READS = 8


class Cost(NamedTuple):
    """What was asked of the file system so far. `lists` counts directory listings."""

    files_opened: int = 0
    reads: int = 0
    stats: int = 0
    lists: int = 0
    read_bytes: int = 0

    def since(self, earlier: Cost) -> Cost:
        return Cost(*(now - before for now, before in zip(self, earlier, strict=True)))


class Mark(NamedTuple):
    """A moment of a reader, to measure from."""

    cost: Cost
    monotonic_s: float


class Reader:
    """Counts operations on checkpoint files; safe to share between threads.

    OSErrors become CheckpointUnreadable with one sentence, whose `detail` is a stable word: `missing`, `dangling_symlink`,
    `not_permitted`, `not_a_file`, or the errno's name. With `retries` those that may pass are waited for first; tries that failed are
    counted there, not here.
    """

    def __init__(self, retries: Retries | None = None) -> None:
        self.retries = retries
        self._lock = threading.Lock()
        self._cost = Cost()
        self.start = self.mark()

    def mark(self) -> Mark:
        return Mark(self.cost, time.monotonic())

    @property
    def cost(self) -> Cost:
        with self._lock:
            return self._cost

    def count(self, *, files_opened: int = 0, reads: int = 0, stats: int = 0, lists: int = 0, read_bytes: int = 0) -> None:
        with self._lock:
            c = self._cost
            self._cost = Cost(c.files_opened + files_opened, c.reads + reads, c.stats + stats, c.lists + lists, c.read_bytes + read_bytes)

    def open(self, path: str, *, where: str = "") -> OpenFile:
        """Open a regular file for reading."""
        self.count(files_opened=1)
        descriptor = self.ask(lambda: os.open(path, _OPEN_FLAGS), path, where=where)
        return self._checked(descriptor, where or path, path=path)

    def adopt(self, descriptor: int, where: str) -> OpenFile:
        """Read through a descriptor that somebody else opened; closing the result leaves it open. `where` names it in messages."""
        return self._checked(descriptor, where, path=None)

    def ask(self, operation: Callable[[], _Result], path: str, *, where: str = "", renew: Callable[[], None] | None = None) -> _Result:
        """What `operation()` returns, a call on `path`: once, or as often as `retries` allow (`renew`: see there)."""
        try:
            return operation() if self.retries is None else self.retries.run(operation, where or path, renew=renew)
        except OSError as error:
            raise unreadable(error, path, where=where) from None

    def _checked(self, descriptor: int, where: str, *, path: str | None) -> OpenFile:
        try:
            mode = mode_without_asking(descriptor)  # the open has just asked, and a file never becomes another kind of file
        except OSError as error:
            raise unreadable(error, where) from None
        if not stat.S_ISREG(mode):
            if path is not None:
                os.close(descriptor)
            kind = "a directory" if stat.S_ISDIR(mode) else "no regular file"
            raise CheckpointUnreadable(f"this is {kind}, a safetensors file is needed", where=where, detail="not_a_file")
        return OpenFile(self, descriptor, where, path=path)

    def stat_at(self, name: str, path: str, *, directory_fd: int | None = None, fs_kind: str = "", cached: bool = False) -> FileIdentity:
        """Identity of `path` (relative to `directory_fd` if given) under the name `name`; symlinks are followed. `cached`: what the
        kernel learned from looking the name up will do, where the kind of file system needs no more."""
        self.count(stats=1)
        force_sync = force_sync_kind(fs_kind)
        return self.ask(lambda: identity_of(path, name, directory_fd=directory_fd, force_sync=force_sync, cached=cached), path)

    def list_directory(self, path: str) -> list[str]:
        """Names in a directory, sorted."""
        self.count(lists=1)
        return self.ask(lambda: sorted(os.listdir(path)), path)


class OpenFile:
    """One open file of a checkpoint. Reading is safe to call from several threads. Use it as a context manager, or `close()` it.

    With a `path` the file is this object's own. A server that no longer knows it (ESTALE) is then asked for the path again, and only the
    very file whose identity was last taken takes its place, under the same descriptor; else CheckpointChanged.
    """

    def __init__(self, reader: Reader, descriptor: int, where: str, *, path: str | None) -> None:
        self.reader = reader
        self._path = path
        self._open = path is not None
        self._identity: tuple[FileIdentity, bool] | None = None
        self._renewing = threading.Lock()
        self._renewals = 0
        self.descriptor = descriptor
        self.where = where

    def __enter__(self) -> OpenFile:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        if self._open:
            self._open = False
            os.close(self.descriptor)

    def identity(self, name: str, *, fs_kind: str = "") -> FileIdentity:
        self.reader.count(stats=1)
        force_sync = force_sync_kind(fs_kind)
        found = self._ask(lambda: identity_of("", name, directory_fd=self.descriptor, force_sync=force_sync))
        self._identity = found, force_sync
        return found

    def sync(self) -> None:
        """fdatasync: stores through a mapping that the kernel has not seen yet become part of mtime and ctime."""
        try:
            os.fdatasync(self.descriptor)
        except OSError as error:
            if error.errno not in (errno.EINVAL, errno.EROFS, errno.ENOSYS):  # read-only and synthetic file systems: nothing is dirty
                raise unreadable(error, self.where) from None

    def real_path(self) -> str:
        """Where the file really lies, after every symlink; without asking the file system where /proc is mounted."""
        try:
            return os.readlink(f"/proc/self/fd/{self.descriptor}")
        except OSError:
            return os.path.realpath(self.where)

    def read_at(self, offset: int, length: int) -> bytes:
        """Exactly `length` bytes from `offset`; a file that has become shorter is CheckpointChanged."""
        data = self._pread(offset, length)
        if len(data) == length:
            return data
        parts = [data]
        while data and (missing := length - sum(map(len, parts))):
            data = self._pread(offset + length - missing, missing)
            parts.append(data)
        whole = b"".join(parts)
        if len(whole) < length:
            raise self.shrunk(offset + len(whole))
        return whole

    def read_into(self, buffer: memoryview, offset: int) -> None:
        """Fill `buffer` from `offset`, never through a mapping: a file that shrinks is an error, not SIGBUS."""
        filled = 0
        while filled < len(buffer):
            with buffer[filled:] as rest:
                got = self._ask(functools.partial(os.preadv, self.descriptor, [rest], offset + filled))
            self.reader.count(reads=1, read_bytes=got)
            if not got:
                raise self.shrunk(offset + filled)
            filled += got

    def shrunk(self, at_bytes: int) -> CheckpointChanged:
        return CheckpointChanged(f"the file became shorter while it was read: it now ends at byte {at_bytes}", where=self.where)

    def _pread(self, offset: int, length: int) -> bytes:
        data = self._ask(lambda: os.pread(self.descriptor, length, offset))
        self.reader.count(reads=1, read_bytes=len(data))
        return data

    def _ask(self, operation: Callable[[], _Result]) -> _Result:
        seen = self._renewals

        def renew() -> None:
            nonlocal seen
            seen = self._renew(seen)

        return self.reader.ask(operation, self.where, renew=renew)

    def _renew(self, seen: int) -> int:
        """Open the file again, unless that was done since there were `seen` renewals; how many there are now. Raises OSError where the path
        cannot be opened now, CheckpointChanged where it leads to another file."""
        with self._renewing:
            if self._renewals == seen and self._open and self._path is not None and self._identity is not None:
                identity, force_sync = self._identity
                self.reader.count(files_opened=1, stats=1)
                descriptor = os.open(self._path, _OPEN_FLAGS)
                try:
                    if identity_of("", identity.name, directory_fd=descriptor, force_sync=force_sync) != identity:
                        raise CheckpointChanged("another file took its place while it was read", where=self.where)
                    os.dup2(descriptor, self.descriptor, inheritable=False)  # at once, for every thread that reads from it
                finally:
                    os.close(descriptor)
                self._renewals += 1
            return self._renewals


def threads_for(fs_kind: str, *, reads: bool = False) -> int:
    """How many calls to have in flight: all of them where each is a round trip; on local disks only reads are worth threads."""
    if fs_kind in PINNABLE_KINDS:
        return _THREADS_LOCAL_READS if reads else 1
    return _THREADS_REMOTE


def remote(fs_kind: str) -> bool:
    """Whether each read may be a round trip: neither a disk nor memory of this machine, as far as the kind of file system says."""
    return fs_kind not in PINNABLE_KINDS and fs_kind not in MEMORY_KINDS


def in_parallel(function: Callable[[_Item], _Result], items: Iterable[_Item], *, threads: int) -> list[_Result]:
    """`function` of every item, in order; on so many threads when there are more than eight items, or each is a round trip."""
    todo = list(items)
    if len(todo) <= (1 if threads > _THREADS_LOCAL_READS else _PARALLEL_FROM) or threads == 1:
        return [function(item) for item in todo]
    # Bare threads: a pool waits for each to run before it starts the next, which on a busy machine takes longer than a round trip.
    left = deque(enumerate(todo))
    results: dict[int, _Result] = {}
    errors: dict[int, BaseException] = {}
    ended = threading.Semaphore(0)

    def work() -> None:
        with suppress(IndexError):
            while True:
                number, item = left.popleft()
                try:
                    results[number] = function(item)
                except BaseException as error:
                    errors[number] = error
                    left.clear()

    def work_beside() -> None:
        try:
            work()
        finally:
            ended.release()

    started = 0
    try:
        with suppress(RuntimeError):  # no more threads for this user: those that run, and this one, do it all
            for _ in range(min(threads, len(todo)) - 1):
                _thread.start_new_thread(work_beside, ())
                started += 1
        work()
    finally:
        for _ in range(started):
            ended.acquire()
    if errors:
        raise errors[min(errors)]
    return [results[number] for number in range(len(todo))]


def unreadable(error: OSError, path: str, *, where: str = "") -> CheckpointUnreadable:
    """One sentence for an OSError about `path`."""
    where = where or path
    if error.errno in (errno.ENOENT, errno.ENOTDIR):
        if os.path.islink(path):
            target = os.readlink(path)
            return CheckpointUnreadable(f"the symlink points to {target}, which is not there", where=where, detail="dangling_symlink")
        return CheckpointUnreadable("no such file or directory", where=where, detail="missing")
    if error.errno in (errno.EACCES, errno.EPERM):
        return CheckpointUnreadable(
            "permission denied", where=where, detail="not_permitted", remedy=f"make it readable for uid {os.geteuid()}"
        )
    name = errno.errorcode.get(error.errno or 0, "oserror").lower()
    return CheckpointUnreadable(error.strerror or str(error), where=where, detail=name)
