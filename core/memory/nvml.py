"""What the NVIDIA driver says about its GPUs without a CUDA context, which alone would take hundreds of MiB (NVML, libnvidia-ml.so.1)."""

from __future__ import annotations

import ctypes
import functools
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from wcache.core.memory.device import DeviceName, choose, visible
from wcache.core.model.errors import NotFound, Unsupported

_SUCCESS = 0
_INSUFFICIENT_SIZE = 7
_TEXT_BYTES = 96
_AMD = Path("/dev/kfd")  # the compute driver of AMD GPUs


@dataclass(frozen=True)
class Gpu:
    """One physical GPU; `index` counts in PCI bus order."""

    index: int
    uuid: str
    name: str
    mig_uuids: tuple[str, ...] = ()


@dataclass(frozen=True)
class DeviceMemory:
    """As `nvidia-smi` shows it: used is what allocations take, without what the driver reserves."""

    total_bytes: int
    used_bytes: int
    free_bytes: int


class _Memory(ctypes.Structure):
    """nvmlMemory_v2_t"""

    _fields_ = (
        ("version", ctypes.c_uint), ("total", ctypes.c_ulonglong), ("reserved", ctypes.c_ulonglong),
        ("free", ctypes.c_ulonglong), ("used", ctypes.c_ulonglong),
    )  # fmt: skip


class _Process(ctypes.Structure):
    """nvmlProcessInfo_t"""

    _fields_ = (("pid", ctypes.c_uint), ("used", ctypes.c_ulonglong), ("gpu_instance", ctypes.c_uint), ("compute_instance", ctypes.c_uint))


@functools.cache
def _library() -> ctypes.CDLL:
    if sys.platform == "darwin":
        raise Unsupported("there is no CUDA on macOS", remedy="use --device cpu")
    try:
        library = ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        other = "; its GPUs are AMD's (ROCm), whose memory cannot be shared yet" if _AMD.exists() else ""
        what = f"there is no NVIDIA driver here (libnvidia-ml.so.1){other}"
        raise Unsupported(what, remedy="install the driver, or use --device cpu") from None
    code = library.nvmlInit_v2()
    if code != _SUCCESS:
        raise Unsupported(f"the NVIDIA driver does not answer: {_words(library, code)}", remedy="see what `nvidia-smi` says")
    return library


def _words(library: ctypes.CDLL, code: int) -> str:
    library.nvmlErrorString.restype = ctypes.c_char_p
    found: bytes = library.nvmlErrorString(code)
    return found.decode()


def gpus() -> tuple[Gpu, ...]:
    """Every GPU of this machine, whatever CUDA_VISIBLE_DEVICES says. Raises Unsupported without a driver."""
    library = _library()
    count = ctypes.c_uint()
    _check(library, library.nvmlDeviceGetCount_v2(ctypes.byref(count)))
    found = []
    for index in range(count.value):
        handle = ctypes.c_void_p()
        _check(library, library.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(handle)))
        name = _text(library, "nvmlDeviceGetName", handle)
        found.append(Gpu(index, _text(library, "nvmlDeviceGetUUID", handle), name, _mig_uuids(library, handle)))
    return tuple(found)


def chosen(names: Sequence[DeviceName] | None, setting: str | None) -> tuple[str, ...]:
    """UUIDs of the GPUs named, as `device.choose`; indices count as in a process with that CUDA_VISIBLE_DEVICES. Raises NotFound, and
    Unsupported without a driver."""
    known = gpus()
    uuids, instances = [gpu.uuid for gpu in known], [name for gpu in known for name in gpu.mig_uuids]
    return choose(names, visible(setting, uuids, instances), (*uuids, *instances))


def memory(uuid: str) -> DeviceMemory:
    """Memory of the GPU or MIG instance of that UUID, now. Raises NotFound for an unknown one, Unsupported without a driver."""
    library = _library()
    handle = _handle(library, uuid)
    figures = _Memory(version=ctypes.sizeof(_Memory) | 2 << 24)
    _check(library, library.nvmlDeviceGetMemoryInfo_v2(handle, ctypes.byref(figures)))
    return DeviceMemory(figures.total, figures.used, figures.free)


def driver_version() -> str:
    """As `nvidia-smi` shows it. Raises Unsupported without a driver."""
    library = _library()
    text = ctypes.create_string_buffer(_TEXT_BYTES)
    _check(library, library.nvmlSystemGetDriverVersion(text, _TEXT_BYTES))
    return text.value.decode()


def compute_capability(uuid: str) -> tuple[int, int]:
    """Major and minor. Raises NotFound for an unknown GPU, Unsupported without a driver."""
    library = _library()
    major, minor = ctypes.c_int(), ctypes.c_int()
    _check(library, library.nvmlDeviceGetCudaComputeCapability(_handle(library, uuid), ctypes.byref(major), ctypes.byref(minor)))
    return major.value, minor.value


def compute_pids(uuid: str) -> tuple[int, ...]:
    """Processes with a CUDA context there, by the pids of the driver's own namespace. Raises as `compute_capability` does."""
    library = _library()
    handle = _handle(library, uuid)
    count = ctypes.c_uint(0)
    while True:
        found = (_Process * max(1, count.value))()
        code = library.nvmlDeviceGetComputeRunningProcesses_v3(handle, ctypes.byref(count), found)
        if code != _INSUFFICIENT_SIZE:
            _check(library, code)
            return tuple(one.pid for one in found[: count.value])


def _handle(library: ctypes.CDLL, uuid: str) -> ctypes.c_void_p:
    handle = ctypes.c_void_p()
    if library.nvmlDeviceGetHandleByUUID(uuid.encode(), ctypes.byref(handle)) != _SUCCESS:
        raise NotFound("the driver knows no such GPU", where=uuid, remedy="`nvidia-smi -L` lists them")
    return handle


def _mig_uuids(library: ctypes.CDLL, handle: ctypes.c_void_p) -> tuple[str, ...]:
    count = ctypes.c_uint()
    if library.nvmlDeviceGetMaxMigDeviceCount(handle, ctypes.byref(count)) != _SUCCESS:
        return ()
    found = []
    for index in range(count.value):
        instance = ctypes.c_void_p()
        if library.nvmlDeviceGetMigDeviceHandleByIndex(handle, index, ctypes.byref(instance)) == _SUCCESS:
            found.append(_text(library, "nvmlDeviceGetUUID", instance))
    return tuple(found)


def _text(library: ctypes.CDLL, function: str, handle: ctypes.c_void_p) -> str:
    text = ctypes.create_string_buffer(_TEXT_BYTES)
    _check(library, getattr(library, function)(handle, text, _TEXT_BYTES))
    return text.value.decode()


def _check(library: ctypes.CDLL, code: int) -> None:
    if code != _SUCCESS:
        raise Unsupported(f"the NVIDIA driver refuses: {_words(library, code)}", remedy="see what `nvidia-smi` says")
