"""Files that a program opens through the stand-in: those of one load share one decision, and how it went is told once, at its end."""

from __future__ import annotations

import atexit
import os
import sys
import threading
import weakref
from collections.abc import Mapping
from types import TracebackType
from typing import Any

from wcache.core.checkpoint.reader import Reader
from wcache.core.model.events import Engine
from wcache.core.model.vocabulary import Mode
from wcache.loader import safetensors_api as api
from wcache.loader.attach import Attachment
from wcache.loader.live import attached
from wcache.loader.question import whole_of

_QUIET_S = 2.0
_PAUSE_S = 30.0  # the same while shards are left to open: some programs work on each before they open the next
_ENGINES = ("vllm", "sglang", "diffusers", "sentence_transformers", "transformers")  # whoever builds on another stands before it


class Load:
    """One load of one checkpoint. It has ended when its files have been closed for `_QUIET_S`, or for `_PAUSE_S` while some of a hit's
    were not opened: programs open a checkpoint's files one after the other, and some look into one of them first. Until then it keeps
    the attachment.

    A Report of its files: it sums up, and tells the attachment at the end. What the program read and still points into the mapping by
    then was not copied, whatever the program is; the rest was copied, or dropped.
    """

    def __init__(self, attachment: Attachment, path: str) -> None:
        self.attachment = attachment
        self._path = path
        self._parent = _parent(path)
        self._lock = threading.RLock()
        self._files = 0
        self._opened: set[str] = set()
        self._ended = False
        self._mapped: list[api.Mapped] = []
        self._ms = 0.0
        self._read_bytes = 0
        self._seconds = 0.0
        self._timer: threading.Timer | None = None

    def covers(self, path: str) -> bool:
        """Whether a miss that was decided for this load's first file is one for this file too: a shard of the same whole."""
        return not self.attachment.hit and whole_of(self._path, Reader()) == whole_of(path, Reader())

    def join(self, path: str) -> bool:
        """Count a file in; False when the load has ended."""
        with self._lock:
            if self._ended:
                return False
            self._files += 1
            self._opened.add(os.path.basename(path))  # noqa: PTH119 (a string, as in _parent: once a file)
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
            return True

    def leave(self) -> None:
        """Count a file out."""
        with self._lock:
            self._files -= 1
            if not self._files and not self._ended:
                self._timer = threading.Timer(_QUIET_S if self._opened >= self._wanted() else _PAUSE_S, self._end_if_quiet)
                self._timer.daemon = True
                self._timer.start()

    def _wanted(self) -> set[str]:
        """The files that a hit was decided for; none where nobody looked at them."""
        location = self.attachment.location
        return {one.name for one in location.files} if self.attachment.hit and location is not None else set()

    def serves_from(self, source: api.Mapped) -> None:
        self._mapped.append(source)

    def report_mapped(self, ms: float, *, mode: Mode) -> None:
        self._ms += ms  # the mode is not known before the end

    def fell_back(self, read_bytes: int, seconds: float) -> None:
        self._read_bytes += read_bytes
        self._seconds += seconds

    def fallback_failed(self, error: BaseException) -> None:
        if self._take_end():
            self.attachment.fallback_failed(error)

    def end(self) -> None:
        """Say how it went; once."""
        if not self._take_end():
            return
        if not self.attachment.hit:
            self.attachment.fell_back(self._read_bytes, self._seconds)
            return
        sizes = {name: source.entry(name).size_bytes for source in self._mapped for name in source.read}
        copied = sizes.keys() - {name for source in self._mapped for name in source.read if source.in_place(name)}
        misaligned = {entry.name for segment in self.attachment.segments.values() for entry in segment.header.misaligned()}
        self.attachment.mapped(
            Mode.COPY if copied - misaligned else Mode.ZERO_COPY,
            tensors=len(sizes),
            size_bytes=sum(sizes.values()),
            copied_tensors=len(copied),
            copied_bytes=sum(sizes[name] for name in copied),
            ms=self._ms,
        )
        self.attachment.settle()
        self._mapped.clear()  # what still points into the mappings keeps them, and through them the lease

    def _end_if_quiet(self) -> None:
        with self._lock:
            if not self._files:
                self.end()

    def _take_end(self) -> bool:
        with self._lock:
            was, self._ended = self._ended, True
            self._timer = None  # it knows this load, and a circle would keep the lease until somebody collects garbage
        _running.discard(self)
        if _latest.get(self._parent) is self:
            del _latest[self._parent]
        return not was


_running: set[Load] = set()
_latest: dict[str, Load] = {}  # by directory
_locks: dict[str, threading.Lock] = {}  # by directory: threads that open shards at the same time are one load


def _forget() -> None:
    """A forked child says nothing about its parent's loads."""
    _running.clear()
    _latest.clear()
    _locks.clear()


def _end_all() -> None:
    for load in list(_running):
        load.end()


_at_exit: Any = None


def _end_in_worker() -> None:
    """Processes of multiprocessing that were forked end by os._exit: of what was registered to run at the end, only its own does."""
    global _at_exit
    util: Any = sys.modules.get("multiprocessing.util")  # there in each of them, and no import for all others
    if util is not None and (_at_exit is None or not _at_exit.still_active()):  # a new process has forgotten it
        _at_exit = util.Finalize(None, _end_all, exitpriority=0)


os.register_at_fork(after_in_child=_forget)
atexit.register(_end_all)


class TrackedFile(api.safe_open):
    """A file of a program that knows nothing of wcache."""

    def __init__(self, filename: Any, framework: str, device: Any = "cpu", *, backend: str = "mmap") -> None:
        super().__init__(filename, framework, device, backend=backend, engine=_engine())
        if isinstance(self._source, api.Mapped):
            self._load.serves_from(self._source)
        del self._load  # a closed file that the program keeps must not keep the lease

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        super().__exit__(kind, error, trace)
        self._leave()

    def _decide(self, policy: Mapping[str, Any]) -> tuple[Attachment, api.Report]:
        self._load = _joined(self._path, policy)
        self._leave = weakref.finalize(self, self._load.leave)  # once, by __exit__ or when the program drops it
        self._leave.atexit = False
        return self._load.attachment, self._load


def _joined(path: str, policy: Mapping[str, Any]) -> Load:
    """The load that this file belongs to, a new one where it begins one."""
    parent = _parent(path)
    with _locks.setdefault(parent, threading.Lock()):
        load = _latest.get(parent)
        if load is not None and load.covers(path) and load.join(path):
            return load
        attachment = attached(path, policy)
        if load is None or load.attachment is not attachment or not load.join(path):
            load = _latest[parent] = Load(attachment, path)
            _running.add(load)
            _end_in_worker()
            load.join(path)
        return load


def _parent(path: str) -> str:
    return os.path.dirname(os.path.abspath(path))  # noqa: PTH100, PTH120 (nothing on disk may be looked at yet)


def _engine() -> Engine:
    """Who loads, as far as its modules tell."""
    for name in _ENGINES:
        if name in sys.modules:
            return Engine(name=name, version=str(getattr(sys.modules[name], "__version__", "")), pid=os.getpid())
    return Engine(name="safetensors", pid=os.getpid())
