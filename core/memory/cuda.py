"""The CUDA driver through `cuda-bindings`: imported on first use, each failure in words, each GPU by its UUID."""

from __future__ import annotations

import functools
import importlib
import os
import sys
import uuid as uuids
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from wcache.core.memory.device import DeviceName, parse_device
from wcache.core.model.errors import MappingFailed, NoRoom, NotFound, Unsupported, WcacheError

# cuda-bindings has no complete types, and its functions return tuples that start with an error code: `Any` stays inside `call`'s callers.


@dataclass(frozen=True)
class Device:
    """One GPU that this process sees; `ordinal` is the number that CUDA and torch give it here, `uuid` is the same in every process."""

    ordinal: int
    uuid: str
    name: str
    total_bytes: int

    def __str__(self) -> str:
        return f"cuda:{self.ordinal} ({self.uuid}, {self.name})"


def binding(name: str) -> Any:
    """A module of cuda-bindings. Raises Unsupported where it is not installed, naming it."""
    if sys.platform == "darwin":
        raise Unsupported("there is no CUDA on macOS", remedy="use --device cpu")
    try:
        return importlib.import_module(f"cuda.bindings.{name}")
    except ImportError as error:
        raise Unsupported(f"weights on a GPU need cuda-bindings: {error}", remedy="pip install 'wcache-ledger[cuda]'") from None


def see_only(uuid: str) -> None:
    """Makes this process see that GPU alone, which is also the quickest start: for processes of our own, before they touch CUDA. Raises
    Unsupported where cuda-bindings are not installed."""
    os.environ["CUDA_VISIBLE_DEVICES"] = uuid
    binding("driver")
    binding("nvrtc")


@functools.cache
def driver() -> Any:
    """The driver's functions, initialised. Raises Unsupported without cuda-bindings, a driver or a GPU, naming which."""
    found = binding("driver")
    try:
        code = found.cuInit(0)[0]
    except (RuntimeError, OSError) as error:
        raise Unsupported(f"there is no NVIDIA driver here: {error}", remedy="install the driver, or use --device cpu") from None
    if code == found.CUresult.CUDA_ERROR_NO_DEVICE:
        setting = os.environ.get("CUDA_VISIBLE_DEVICES")
        hidden = "" if setting is None else f" (CUDA_VISIBLE_DEVICES is {setting!r})"
        raise Unsupported(f"the NVIDIA driver shows no GPU{hidden}", remedy="see `nvidia-smi -L`, or use --device cpu")
    if code != found.CUresult.CUDA_SUCCESS:
        raise Unsupported(f"the NVIDIA driver does not start: {code.name}", remedy="see what `nvidia-smi` says")
    return found


def call(function: str, *arguments: Any, where: str = "") -> Any:
    """What that function of the driver returns after its error code: nothing, one value, or a tuple. Raises
    MappingFailed, whose `detail` is CUDA's own name of the error, such as CUDA_ERROR_OUT_OF_MEMORY."""
    cu = driver()
    code, *values = getattr(cu, function)(*arguments)
    if code != cu.CUresult.CUDA_SUCCESS:
        words = cu.cuGetErrorString(code)[1]
        text = words.decode() if isinstance(words, bytes) else str(words)
        raise MappingFailed(f"{function}: {text}", where=where, detail=code.name)
    return None if not values else values[0] if len(values) == 1 else tuple(values)


@functools.cache
def devices() -> tuple[Device, ...]:
    """The GPUs that this process sees (CUDA_VISIBLE_DEVICES as it was at the first call), in CUDA's order. Raises Unsupported,
    MappingFailed."""
    found = []
    for ordinal in range(call("cuDeviceGetCount")):
        handle = call("cuDeviceGet", ordinal)
        raw = uuids.UUID(
            bytes=bytes(call("cuDeviceGetUuid_v2" if hasattr(driver(), "cuDeviceGetUuid_v2") else "cuDeviceGetUuid", handle).bytes)
        )
        name = call("cuDeviceGetName", _TEXT_BYTES, handle).split(b"\0", 1)[0].decode()
        prefix = "MIG" if " MIG " in name else "GPU"
        found.append(Device(ordinal, f"{prefix}-{raw}", name, int(call("cuDeviceTotalMem", handle))))
    return tuple(found)


_TEXT_BYTES = 96


def find(name: DeviceName | str) -> Device:
    """The one GPU of that name. Raises NotFound listing what there is, UsageError, Unsupported."""
    wanted = parse_device(name) if isinstance(name, str) else name
    seen = devices()
    if wanted.index is not None:
        fitting = seen[wanted.index : wanted.index + 1]
    else:
        fitting = tuple(device for device in seen if device.uuid.lower().startswith(wanted.uuid.lower()))
    if len(fitting) != 1:
        what = "more than one GPU has a name that starts so" if fitting else "this process sees no such GPU"
        raise NotFound(what, where=str(wanted), remedy=f"it sees {', '.join(map(str, seen))}")
    return fitting[0]


def attribute(device: Device, name: str) -> int:
    """A CU_DEVICE_ATTRIBUTE_… of the GPU, named without that prefix."""
    member = getattr(driver().CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_{name}")
    return int(call("cuDeviceGetAttribute", member, call("cuDeviceGet", device.ordinal)))


@functools.cache
def _primary_context(ordinal: int) -> Any:
    try:
        return call("cuDevicePrimaryCtxRetain", call("cuDeviceGet", ordinal))
    except MappingFailed as error:
        if error.detail != "CUDA_ERROR_OUT_OF_MEMORY":
            raise
        raise NoRoom("the GPU has no memory left for a CUDA context", where=f"cuda:{ordinal}", remedy="free memory of it") from None


@contextmanager
def current(device: Device) -> Iterator[None]:
    """Makes the GPU's primary context, the one that torch uses too, current in this thread. It stays until the process ends: a context
    costs hundreds of MiB, so neither the server nor the vault may ever come here."""
    call("cuCtxPushCurrent", _primary_context(device.ordinal), where=str(device))
    try:
        yield
    finally:
        call("cuCtxPopCurrent")


def why_unusable() -> str:
    """Why no GPU can be used in this process, in one line; "" where one can."""
    try:
        return "" if devices() else "the NVIDIA driver shows no GPU"
    except WcacheError as error:
        return str(error)
