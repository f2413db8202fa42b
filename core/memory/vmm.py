"""Segments of GPU memory that outlive whoever made them: CUDA virtual memory management (CUDA driver API, "Virtual Memory Management").

The memory lives while anything refers to it: an `Allocation`, a `Mapping`, or a descriptor in any process. Holding a descriptor needs no
CUDA: a process that got it through a socket keeps the memory by keeping it open, and gives it back with close(2).
"""

from __future__ import annotations

import os
import sys
import threading
from typing import Any

from wcache.core.memory import nvml
from wcache.core.memory.cuda import Device, attribute, call, current, devices, driver
from wcache.core.model.errors import MappingFailed, NoRoom, Unsupported, UsageError, WcacheError

_MIB = 1 << 20


class Allocation:
    """Memory of one GPU, not mapped anywhere by itself. `size_bytes` is what the GPU gives: whole pages of its granularity.

    `close()` gives up this reference; mappings and descriptors keep the memory.
    """

    def __init__(self, device: Device, size_bytes: int, handle: Any) -> None:
        self.device = device
        self.size_bytes = size_bytes
        self._handle = handle

    def export(self) -> int:
        """A new descriptor, close-on-exec, to be sent over a socket; the caller closes it. Raises MappingFailed."""
        fd = int(call("cuMemExportToShareableHandle", self._open(), _descriptor_kind(), 0, where=str(self.device)))
        os.set_inheritable(fd, False)
        return fd

    def map(self, *, writable: bool = False) -> Mapping:
        """Maps the whole of it into this process. Not writable: a kernel that writes there ends this process' CUDA context, and nobody
        else notices. Raises MappingFailed."""
        return Mapping(self, writable=writable)

    def close(self) -> None:
        """Again is no error."""
        handle, self._handle = self._handle, None
        if handle is not None:
            call("cuMemRelease", handle, where=str(self.device))

    def __enter__(self) -> Allocation:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _open(self) -> Any:
        if self._handle is None:
            raise MappingFailed("the allocation was closed already", where=str(self.device))
        return self._handle


class Mapping:
    """An allocation at an address of this process: `address` to `address + size_bytes`, for kernels of `device`.

    Whatever points there must keep this object alive; when the last reference goes, or at `close()`, it is unmapped after the GPU has
    finished what it was given.
    """

    def __init__(self, allocation: Allocation, *, writable: bool = False) -> None:
        self.device = allocation.device
        self.size_bytes = allocation.size_bytes
        self.writable = writable
        self.mapped = False
        self.address = 0
        self._lock = threading.Lock()
        self.address = int(call("cuMemAddressReserve", self.size_bytes, 0, 0, 0, where=str(self.device)))
        try:
            self.resume(allocation)
        except WcacheError:
            self.close()
            raise

    def pause(self) -> None:
        """Gives the memory back and keeps the addresses, once the GPU has finished. A kernel that reads there until `resume` fails."""
        with self._lock:
            if self.mapped:
                with current(self.device):
                    call("cuCtxSynchronize", where=str(self.device))
                call("cuMemUnmap", self.address, self.size_bytes, where=str(self.device))
                self.mapped = False

    def resume(self, allocation: Allocation) -> None:
        """Maps an allocation of the same size at the same addresses. Raises MappingFailed, also where one is mapped."""
        with self._lock:
            if self.mapped or not self.address:
                raise MappingFailed("it is mapped already" if self.mapped else "the mapping was closed", where=str(self.device))
            if (allocation.device, allocation.size_bytes) != (self.device, self.size_bytes):
                raise MappingFailed(
                    f"{self.size_bytes} bytes of {self.device} were mapped here, not {allocation.size_bytes} of {allocation.device}"
                )
            cu = driver()
            try:
                call("cuMemMap", self.address, self.size_bytes, 0, allocation._open(), 0)
            except MappingFailed as error:
                raise MappingFailed(
                    f"{self.size_bytes} bytes cannot be mapped: {error.what}", where=str(self.device), detail=error.detail,
                    remedy="the segment's size must be the one it was created with",
                ) from error  # fmt: skip
            self.mapped = True
            access = cu.CUmemAccessDesc()
            access.location.type = cu.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
            access.location.id = self.device.ordinal
            flags = cu.CUmemAccess_flags
            access.flags = flags.CU_MEM_ACCESS_FLAGS_PROT_READWRITE if self.writable else flags.CU_MEM_ACCESS_FLAGS_PROT_READ
            call("cuMemSetAccess", self.address, self.size_bytes, [access], 1, where=str(self.device))

    def write(self, offset_bytes: int, data: Any) -> None:
        """Copies host bytes (anything with a buffer) there, and returns when they are there. Raises MappingFailed, also for memory that is
        mapped read-only."""
        if not self.writable:
            raise MappingFailed("these weights are mapped read-only, nothing was written", where=str(self.device), remedy=COPY_REMEDY)
        view = memoryview(data).cast("B")
        self._check(offset_bytes, view.nbytes)
        if view.nbytes:
            with current(self.device):
                call("cuMemcpyHtoD", self.address + offset_bytes, view, view.nbytes, where=str(self.device))

    def read(self, offset_bytes: int, size_bytes: int) -> bytes:
        """A copy of those bytes in host memory. Raises MappingFailed."""
        self._check(offset_bytes, size_bytes)
        found = bytearray(size_bytes)
        if size_bytes:
            with current(self.device):
                call("cuMemcpyDtoH", found, self.address + offset_bytes, size_bytes, where=str(self.device))
        return bytes(found)

    def close(self) -> None:
        """Unmaps and gives the addresses back. Again is no error. Tensors that still point here must not be used any more."""
        self.pause()
        with self._lock:
            address, self.address = self.address, 0
        if address:
            call("cuMemAddressFree", address, self.size_bytes, where=str(self.device))

    def __enter__(self) -> Mapping:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __del__(self) -> None:
        # At the end of the interpreter the modules that this needs are half gone, and the end of the process frees everything.
        if getattr(self, "address", 0) and not sys.is_finalizing():
            try:
                self.close()
            except WcacheError:
                return  # the context is broken, as after a write to read-only memory: only the end of the process frees it

    def _check(self, offset_bytes: int, size_bytes: int) -> None:
        if not self.mapped:
            raise MappingFailed("the mapping is paused or closed", where=str(self.device))
        if offset_bytes < 0 or size_bytes < 0 or offset_bytes + size_bytes > self.size_bytes:
            raise MappingFailed(f"{offset_bytes} + {size_bytes} is outside of {self.size_bytes} bytes", where=str(self.device))


COPY_REMEDY = "copy the tensor before changing it (`tensor.clone()`), or attach with mode `copy`"


def granularity(device: Device) -> int:
    """Bytes of which a segment has a whole number: 2 MiB on the GPUs known. Raises Unsupported."""
    cu = driver()
    return int(
        call(
            "cuMemGetAllocationGranularity",
            _properties(device),
            cu.CUmemAllocationGranularity_flags.CU_MEM_ALLOC_GRANULARITY_MINIMUM,
            where=str(device),
        )
    )


def allocated_bytes(size_bytes: int, device: Device) -> int:
    """What `create` takes for a segment of that size."""
    unit = granularity(device)
    return max(1, -(-size_bytes // unit)) * unit


def create(size_bytes: int, device: Device) -> Allocation:
    """New memory on that GPU, at least `size_bytes`, contents undefined.

    Raises UsageError for a size that cannot be meant, Unsupported where the GPU or driver cannot share memory by
    descriptor, NoRoom with the numbers where the memory is short.
    """
    if size_bytes <= 0:
        raise UsageError(f"a segment has at least one byte, not {size_bytes}", where=str(device))
    check_supported(device)
    rounded = allocated_bytes(size_bytes, device)
    try:
        return Allocation(device, rounded, call("cuMemCreate", rounded, _properties(device), 0))
    except MappingFailed as error:
        if error.detail == "CUDA_ERROR_OUT_OF_MEMORY":
            raise _no_room(rounded, device) from None
        if error.detail in ("CUDA_ERROR_NOT_SUPPORTED", "CUDA_ERROR_NOT_PERMITTED", "CUDA_ERROR_INVALID_DEVICE"):
            raise _not_shareable(device, error.what) from None
        raise


def import_descriptor(fd: int, size_bytes: int, device: Device) -> Allocation:
    """The memory behind a descriptor that another process exported; `fd` stays the caller's. `size_bytes` is the exported allocation's.

    Raises MappingFailed for a descriptor of anything else or of another GPU. A wrong size fails when it is mapped.
    """
    cu = driver()
    try:
        handle = call("cuMemImportFromShareableHandle", fd, _descriptor_kind())
    except MappingFailed as error:
        raise MappingFailed(
            f"the descriptor is no GPU memory that this process can use: {error.what}", where=str(device), detail=error.detail,
            remedy="the GPU that holds the weights must be visible to this process (CUDA_VISIBLE_DEVICES)",
        ) from error  # fmt: skip
    allocation = Allocation(device, size_bytes, handle)
    try:
        location = call("cuMemGetAllocationPropertiesFromHandle", handle).location
        if location.type == cu.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE and location.id != device.ordinal:
            holder = next((seen for seen in devices() if seen.ordinal == location.id), f"cuda:{location.id}")
            raise MappingFailed(f"the weights are on {holder}, not on {device}", remedy="attach on that GPU, or load them on this one too")
    except WcacheError:
        allocation.close()
        raise
    return allocation


def map_descriptor(fd: int, size_bytes: int, device: Device, *, writable: bool = False) -> Mapping:
    """Imports and maps at once; the mapping alone keeps the memory then. Raises as `import_descriptor` and `Allocation.map`."""
    with import_descriptor(fd, size_bytes, device) as allocation:
        return allocation.map(writable=writable)


def check_supported(device: Device) -> None:
    """Raises Unsupported where memory of this GPU cannot be shared by descriptor (Jetson, some virtual GPUs, Windows)."""
    for name in ("VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED", "HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED"):
        if not attribute(device, name):
            raise _not_shareable(device, f"{name} is 0")


def _not_shareable(device: Device, why: str) -> WcacheError:
    return Unsupported(
        f"this GPU or its driver cannot share memory by descriptor: {why}",
        where=str(device),
        remedy="use --device cpu: host memory feeds it",
    )


def _no_room(asked_bytes: int, device: Device) -> NoRoom:
    try:
        figures = nvml.memory(device.uuid)
        numbers = f"{figures.free_bytes // _MIB} of {figures.total_bytes // _MIB} MiB are free"
    except WcacheError:
        numbers = f"it has {device.total_bytes // _MIB} MiB in all"
    return NoRoom(
        f"{asked_bytes // _MIB} MiB of GPU memory are needed, {numbers}",
        where=str(device),
        remedy="release a residency, or use another GPU",
    )


def _properties(device: Device) -> Any:
    cu = driver()
    wanted = cu.CUmemAllocationProp()
    wanted.type = cu.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
    wanted.location.type = cu.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
    wanted.location.id = device.ordinal
    wanted.requestedHandleTypes = _descriptor_kind()
    return wanted


def _descriptor_kind() -> Any:
    return driver().CUmemAllocationHandleType.CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
