"""`load_file` and `safe_open` of the safetensors package, with the bytes coming from the weight cache where a hit is decided.

Names, order and metadata are those of the file that was asked for; the tensors may lie in any resident shard.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol

import safetensors

from wcache.core.checkpoint.header import Header, TensorEntry, read_header
from wcache.core.checkpoint.reader import Reader
from wcache.core.model.errors import CheckpointUnreadable, MappingFailed, MissingTensor, UsageError, WcacheError
from wcache.core.model.vocabulary import Mode, Tier
from wcache.loader import copies
from wcache.loader.attach import Attachment
from wcache.loader.device import named_device
from wcache.loader.libraries import library
from wcache.loader.live import attached, disown
from wcache.loader.mapping import ShardMap
from wcache.loader.taken import take

if TYPE_CHECKING:
    import torch

_TORCH_NAMES = frozenset({"pt", "torch", "pytorch"})
_NUMPY_NAMES = frozenset({"np", "numpy"})
_BACKENDS = frozenset({"mmap", "pread"})


class Report(Protocol):
    """Who is told how a file was served: the attachment itself, or whoever sums several files up first."""

    def report_mapped(self, ms: float, *, mode: Mode) -> None: ...

    def fell_back(self, read_bytes: int, seconds: float) -> None: ...

    def fallback_failed(self, error: BaseException) -> None: ...


class NoSuchTensor(MissingTensor, safetensors.SafetensorError):  # type: ignore[misc, unused-ignore]
    """A name that the file does not have; also what callers of the safetensors package catch."""


def load_file(
    filename: str | os.PathLike[str], device: str | int | torch.device = "cpu", *, backend: str = "mmap", **policy: Any
) -> dict[str, torch.Tensor]:
    """As `safetensors.torch.load_file`: every tensor of the file by name.

    On a hit the tensors alias the daemon's memory: on the host privately, so that a write in place stays in this process; on a GPU
    read-only. A GPU without the weights is fed from host memory; plain `cuda` is `cuda:0`. `policy` takes what `attach` takes (`accept`,
    `on_miss`, `mode`, `engine`, ...). Raises StrictMiss, MissingTensor, Unsupported; on a fallback what the safetensors package raises.
    """
    with safe_open(filename, "pt", device, backend=backend, **policy) as file:
        return file.get_tensors()


class safe_open:
    """As `safetensors.safe_open`, for the frameworks `pt` and `np`."""

    def __init__(
        self,
        filename: str | os.PathLike[str],
        framework: str,
        device: str | int | torch.device = "cpu",
        *,
        backend: str = "mmap",
        **policy: Any,
    ) -> None:
        if framework not in _TORCH_NAMES | _NUMPY_NAMES:
            raise UsageError(f"framework {framework!r} is not supported", remedy="use 'pt' or 'np'")
        if backend not in _BACKENDS:
            raise UsageError(f"backend {backend!r} is invalid", remedy="use 'mmap' or 'pread'")
        self._path = os.fsdecode(filename)
        self._torch = framework in _TORCH_NAMES
        self._device = device if self._torch else "cpu"
        self._source: Mapped | _Disk | None = None
        library("torch" if self._torch else "numpy", filename, {"is_file": True, **policy})
        named = named_device(self._device)
        # The reference has no current GPU, and neither has the attach that the next files share.
        wanted = {"device": "cuda:0" if named == "cuda" else named, **policy}
        attachment, report = self._decide(wanted)
        source = self._mapped(attachment, report)
        while source is None and attachment.hit:  # the parent's, which is silent here, or one that is over: an attach of its own is next
            attachment, report = self._decide(wanted)
            source = self._mapped(attachment, report)
        place = self._device if attachment.gpu is None else f"cuda:{attachment.gpu.ordinal}"  # the reference knows no UUIDs
        disk = partial(_Disk, report, self._path, framework, place, backend)
        self._disk: Callable[[], _Disk] | None = disk
        self._source = source or disk()

    def _decide(self, policy: Mapping[str, Any]) -> tuple[Attachment, Report]:
        """The attach that covers this file, and who hears how it went."""
        attachment = attached(self._path, policy)
        return attachment, attachment

    def _mapped(self, attachment: Attachment, report: Report) -> Mapped | None:
        """None where it is no hit, or comes to nothing. One that a forked child inherited, or whose lease ends in another thread meanwhile,
        stays a hit and serves no more files here."""
        if not attachment.hit:
            return None
        if attachment.copies and not copies.enter(attachment):
            disown(attachment)
            return None
        try:
            found = Mapped(attachment, self._path, report, self._torch, self._device)
            if attachment.holds_weights:
                return found
            raise MappingFailed("the lease has ended", where=self._path)
        except BaseException as error:
            copies.leave(attachment)
            if isinstance(error, CheckpointUnreadable) or not isinstance(error, WcacheError):
                raise
            if attachment.inherited or (attachment.hit and not attachment.holds_weights):
                disown(attachment)
                return None
            if isinstance(error, MissingTensor):
                attachment.incomplete(error)
                raise
            attachment.map_failed(error)  # raises StrictMiss where that is the policy
            return None

    def __enter__(self) -> safe_open:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        source, self._source, self._disk = self._source, None, None  # a closed file that somebody keeps must not keep the lease
        if isinstance(source, _Disk) or (source is not None and kind is None):
            source.close()
        if isinstance(source, Mapped):
            source.leave()

    def __del__(self) -> None:
        with suppress(Exception):  # __init__ did not get far, or the interpreter is half gone
            self.__exit__(None, None, None)

    def keys(self) -> list[str]:
        """Names in the file, sorted."""
        return sorted(self._open().names)

    def offset_keys(self) -> list[str]:
        """Names in the file, in the order of their bytes."""
        return list(self._open().names)

    def metadata(self) -> dict[str, str] | None:
        """`__metadata__` of the file."""
        return self._open().metadata

    def get_tensor(self, name: str) -> Any:
        """The whole tensor."""
        return self._open().get(name)

    def get_tensors(self) -> dict[str, Any]:
        """Every tensor by name. A copy that fails (no room, no GPU) is a fallback like any other."""
        source, disk = self._open(), self._disk
        if isinstance(source, Mapped) and disk is not None:
            try:
                return source.get_all()
            except MissingTensor:
                raise
            except WcacheError as error:
                source.failed(error)  # raises StrictMiss where that is the policy
                source = self._source = disk()
        return {name: source.get(name) for name in source.names}

    def get_slice(self, name: str) -> Slice | DiskSlice:
        """A view that reads only what is indexed."""
        source = self._open()
        return source.slice(name) if isinstance(source, _Disk) else Slice(source, name)

    def _open(self) -> Mapped | _Disk:
        if self._source is None:
            raise NoSuchTensor("the file is closed", where=self._path)
        return self._source


class Slice:
    """What `get_slice` gives: shape and dtype at once, bytes when it is indexed."""

    def __init__(self, source: Mapped, name: str) -> None:
        self._entry = source.entry(name)
        self._source = source

    def get_shape(self) -> list[int]:
        return list(self._entry.shape)

    def get_dtype(self) -> str:
        return self._entry.dtype

    def __getitem__(self, index: Any) -> Any:
        return self._source.placed(self._source.part(self._entry.name, index))


class Mapped:
    """The asked file's names over resident weights: in place, or copied where the device or the mode wants it."""

    def __init__(self, attachment: Attachment, path: str, report: Report, in_torch: bool, device: Any) -> None:
        began = time.monotonic()
        self._attachment = attachment
        self._path = path
        self._report = report
        self.read: set[str] = set()
        self._torch = in_torch
        self._device = device if attachment.gpu is None else f"cuda:{attachment.gpu.ordinal}"  # torch knows no UUIDs
        self._copies = attachment.copies or str(device) == "meta"
        header = _resident_header(attachment, Path(path).name)
        self._home: dict[str, ShardMap] = {}
        self._views: dict[str, torch.Tensor] = {}
        if header is None:
            header = self._find_elsewhere(path)
        elif attachment.packed is None:
            shard = attachment.shard(Path(path).name)
            self._home = dict.fromkeys(shard.entries, shard)
        self.metadata = header.metadata
        self._entries = {entry.name: entry for entry in header.tensors}
        self.names = tuple(self._entries)
        if attachment.packed is not None:
            places = [place for place in attachment.packed.table.tensors if place.name in self._entries]
            self._views = attachment.memory().tensors(places)
        self._ms = (time.monotonic() - began) * 1000
        if not self._copies:
            report.report_mapped(self._ms, mode=Mode.ZERO_COPY)

    def close(self) -> None:
        """Of copies: this file's are complete."""
        if self._copies and not self._attachment.copies:
            self._report.report_mapped(self._ms, mode=Mode.COPY)
        elif self._copies:
            sizes = {name: self._entries[name].size_bytes for name in self.read}
            copies.note(self._attachment, Path(self._path).name, copies.FileCopy(sizes, len(self.names), self._ms))

    def leave(self) -> None:
        """No more is read of this file; after the last one of the checkpoint an attach that copied ends."""
        if self._attachment.copies:
            copies.leave(self._attachment)

    def failed(self, error: WcacheError) -> None:
        """The copies could not be made: this is a fallback now. Raises StrictMiss where that is the policy."""
        copies.forget(self._attachment)
        self._attachment.map_failed(error)

    def _find_elsewhere(self, path: str) -> Header:
        """The resident checkpoint is sharded otherwise: the asked file says which names it has, whoever holds them serves them."""
        with Reader().open(path) as file:
            header = read_header(file.read_at, file.identity("").size_bytes, where=path)
        holder = {entry.name: (name, entry) for name, header in self._attachment.headers.items() for entry in header.tensors}
        shards: dict[str, ShardMap] = {}
        for entry in header.tensors:
            shard_name, resident = holder.get(entry.name, ("", None))
            if resident is None or (resident.dtype, resident.shape) != (entry.dtype, entry.shape):
                raise MissingTensor(f"tensor {entry.name!r} is not among the resident weights", where=path)
            if self._attachment.packed is not None:
                continue
            if shard_name not in shards:
                shards[shard_name] = self._attachment.shard(shard_name)
            self._home[entry.name] = shards[shard_name]
        return header

    def entry(self, name: str) -> TensorEntry:
        if name not in self._entries:
            raise NoSuchTensor(f"File does not contain tensor {name}", where=self._path)
        return self._entries[name]

    def in_place(self, name: str) -> bool:
        """Whether something still points at the mapped bytes of this tensor (an empty one has none). Of a GPU's it is taken to be so."""
        if self._copies or name in self._views:
            return not self._copies
        return self._home[name].in_use(name) or not self._entries[name].size_bytes

    def get(self, name: str) -> Any:
        self.entry(name)
        return self.placed(self.resident(name))

    def get_all(self) -> dict[str, Any]:
        """Every tensor of the file; copies are made all at once, on a GPU as fast as its bus is."""
        if not self._torch or not self._attachment.copies:
            return {name: self.get(name) for name in self.names}
        taken = take(self._attachment, self._entries.keys())
        self._ms += taken.ms
        self.read.update(self.names)
        return {name: taken.tensors[name] for name in self.names}

    def resident(self, name: str) -> Any:
        """The resident tensor, where it lies."""
        self.read.add(name)
        if name in self._views:
            return self._views[name]
        shard = self._home[name]
        return shard.tensor(name) if self._torch else shard.array(name)

    def part(self, name: str, index: Any) -> Any:
        """What the index selects. In numpy's case that is an array, also for a single value, and True is 1, as the reference has both."""
        found = self.resident(name)
        if self._torch:
            return found[index]
        import numpy

        whole = index if isinstance(index, tuple) else (index,)
        return numpy.asarray(found[tuple(int(one) if isinstance(one, bool) else one for one in whole)])

    def placed(self, found: Any) -> Any:
        """A resident tensor, or a part of one, as it was asked for."""
        began = time.monotonic()
        if not self._copies:
            return found
        if self._torch:
            moved = found.to(self._device)
            found = moved.clone() if moved is found or moved.data_ptr() == found.data_ptr() else moved
        else:
            found = found.copy()
        self._ms += (time.monotonic() - began) * 1000
        return found


def _resident_header(attachment: Attachment, name: str) -> Header | None:
    """The header of the asked file as a resident shard has it, where that is known to be the same file."""
    header = attachment.headers.get(name)
    return header if attachment.same_files or attachment.decision.tier is Tier.TRUSTED else None


class _Disk:
    """The reference on the file itself: a fallback, recorded when the file is closed or dropped, with the bytes that were asked for."""

    def __init__(self, report: Report, path: str, framework: str, device: Any, backend: str) -> None:
        self._report = report
        self._read_bytes = 0
        self._seconds = 0.0
        self._open = True
        more = {} if backend == "mmap" else {"backend": backend}
        try:
            self._file: Any = self._timed(lambda: _reference()(path, framework=framework, device=device, **more))
        except BaseException as error:
            self._failed(error)
            raise
        self.metadata: dict[str, str] | None = self._file.metadata()
        self.names: tuple[str, ...] = tuple(self._file.offset_keys())

    def __del__(self) -> None:
        with suppress(Exception):  # the interpreter may be half gone
            self.close()

    def get(self, name: str) -> Any:
        return self._timed(lambda: self._file.get_tensor(name))

    def slice(self, name: str) -> DiskSlice:
        return DiskSlice(self._file.get_slice(name), self._timed)

    def close(self) -> None:
        if self._open:
            self._open = False
            self._report.fell_back(self._read_bytes, self._seconds)

    def _timed(self, read: Callable[[], Any]) -> Any:
        began = time.monotonic()
        try:
            found = read()
        except (OSError, RuntimeError, AssertionError, MemoryError) as error:  # torch's too: no CUDA, no room on the GPU
            self._failed(error)
            raise
        self._seconds += time.monotonic() - began
        self._read_bytes += getattr(found, "nbytes", 0)
        return found

    def _failed(self, error: BaseException) -> None:
        if self._open:
            self._open = False
            self._report.fallback_failed(error)


def _reference() -> Any:
    """`safetensors.safe_open` itself, also where a stand-in has taken its place."""
    return getattr(safetensors.safe_open, "__wrapped__", safetensors.safe_open)


class DiskSlice:
    """The reference's slice, with what it reads counted."""

    def __init__(self, slice_: Any, timed: Callable[[Callable[[], Any]], Any]) -> None:
        self._slice = slice_
        self._timed = timed

    def get_shape(self) -> list[int]:
        return list(self._slice.get_shape())

    def get_dtype(self) -> str:
        return str(self._slice.get_dtype())

    def __getitem__(self, index: Any) -> Any:
        return self._timed(lambda: self._slice[index])
