"""Sealed memory of the daemon, seen as tensors: mapped privately and writable, so that a write in place stays with the writer."""

from __future__ import annotations

import ctypes
import mmap
import os
import weakref
from collections.abc import Mapping as MappingOf
from typing import TYPE_CHECKING, Any

from wcache.core.checkpoint.header import Header, TensorEntry, read_header
from wcache.core.memory.dtypes import NAMES, torch_shape
from wcache.core.memory.dtypes import safetensors_dtype as safetensors_dtype
from wcache.core.memory.dtypes import torch_dtype as torch_dtype
from wcache.core.memory.memfd import check_sealed, map_private
from wcache.core.model.errors import MappingFailed, Unsupported, WcacheError

if TYPE_CHECKING:
    import numpy
    import torch


class Segment:
    """One sealed memfd that holds one shard, checked and with its header parsed; the descriptor is owned, `close()` gives it back."""

    def __init__(self, name: str, descriptor: int, size_bytes: int) -> None:
        """Takes the descriptor over, also when this raises. Raises MappingFailed for anything but that many sealed bytes of a shard:
        memory that somebody could still shrink would end the process with SIGBUS later."""
        self.name = name
        self.size_bytes = size_bytes
        self.descriptor = descriptor
        try:
            check_sealed(descriptor, size_bytes, name=name)
            self.header: Header = read_header(lambda offset, length: os.pread(descriptor, length, offset), size_bytes, where=name)
        except WcacheError as error:
            os.close(descriptor)
            if isinstance(error, MappingFailed):
                raise
            raise MappingFailed(f"the segment is no valid shard: {error.what}", where=name, detail=error.detail) from error

    def close(self) -> None:
        descriptor, self.descriptor = self.descriptor, -1  # first, so that no other thread takes the number for this file's
        if descriptor >= 0:
            os.close(descriptor)


class NoNumpyDtype(Unsupported, TypeError):
    """A dtype that numpy does not have; also what callers of the safetensors package catch."""


class Memory(mmap.mmap):
    """A private mapping that keeps something alive: the lease lasts as long as anything points into the mapping."""

    keeper: object = None


class ShardMap:
    """One shard mapped: tensors by name, in place where the file's alignment allows it.

    Every call of `tensor()` and `array()` gives views of the same private memory; another ShardMap of the same segment sees none of
    the writes.
    """

    def __init__(self, segment: Segment, keeper: object = None) -> None:
        self.name = segment.name
        self.header = segment.header
        self.size_bytes = segment.size_bytes
        descriptor = segment.descriptor
        if descriptor >= 0:  # mmap(-1) would be zeros, not an error
            self.memory = map_private(descriptor, segment.size_bytes, cls=Memory)
        if descriptor < 0 or segment.descriptor != descriptor:  # closed meanwhile: the number may have been another file's by then
            raise MappingFailed("the segment was given back already", where=segment.name)
        self.memory.keeper = keeper
        self.begin = ctypes.addressof(ctypes.c_char.from_buffer(self.memory))
        self.entries: MappingOf[str, TensorEntry] = {entry.name: entry for entry in segment.header.tensors}
        self._misaligned = frozenset(entry.name for entry in segment.header.misaligned())
        self._views: dict[str, list[weakref.ref[Any]]] = {}

    def holds(self, address: int) -> bool:
        """Whether an address lies inside this mapping: the proof that a tensor was not copied."""
        return self.begin <= address < self.begin + self.size_bytes

    def copies(self, name: str) -> bool:
        """Whether this tensor cannot be used in place, since the file puts it at an address that its dtype does not allow."""
        return name in self._misaligned

    def in_use(self, name: str) -> bool:
        """Whether anything still points at this tensor's bytes in the mapping: torch and numpy keep the view that they were given."""
        return any(view() is not None for view in self._views.get(name, ()))

    def _view(self, name: str) -> memoryview:
        """The bytes of one tensor that is not empty: in the mapping, or a copy where they lie misaligned."""
        entry = self.entries[name]
        offset = self.header.header_bytes + entry.begin
        if name in self._misaligned:
            return memoryview(bytearray(memoryview(self.memory)[offset : offset + entry.size_bytes]))
        found = memoryview(self.memory)[offset : offset + entry.size_bytes]
        self._views.setdefault(name, []).append(weakref.ref(found))
        return found

    def tensor(self, name: str) -> torch.Tensor:
        """The tensor of that name. Raises Unsupported for a dtype that torch does not have, KeyError for an unknown name."""
        import torch

        entry = self.entries[name]
        dtype = torch_dtype(entry.dtype)
        shape = torch_shape(name, entry.dtype, entry.shape)
        if not entry.size_bytes:
            return torch.empty(shape, dtype=dtype, device="cpu")  # not torch's default device, as the reference
        return torch.frombuffer(self._view(name), dtype=dtype, count=entry.size_bytes // dtype.itemsize).view(shape)

    def array(self, name: str) -> numpy.ndarray[Any, Any]:
        """As `tensor`, for numpy. Raises Unsupported for a dtype that numpy does not have."""
        import numpy

        entry = self.entries[name]
        dtype = numpy_dtype(entry.dtype)
        if not entry.size_bytes:
            return numpy.empty(entry.shape, dtype=dtype)
        found: numpy.ndarray[Any, Any] = numpy.frombuffer(self._view(name), dtype=dtype, count=entry.size_bytes // dtype.itemsize)
        if not self.copies(name):
            self._views[name].append(weakref.ref(found))  # numpy makes a view of its own
        return found.reshape(entry.shape)


def numpy_dtype(name: str) -> numpy.dtype[Any]:
    """The numpy dtype of a safetensors dtype. Raises Unsupported naming it; `ml_dtypes`, once imported, brings more of them."""
    import numpy

    try:
        return numpy.dtype(NAMES[name])
    except (KeyError, TypeError):
        raise NoNumpyDtype(f"numpy has no dtype for {name}", remedy="use framework='pt'") from None
