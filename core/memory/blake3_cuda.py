"""BLAKE3 of GPU memory, on the GPU: digests equal to the `blake3` package's, at the speed of the integer units (blake3.cu says how)."""

from __future__ import annotations

import ctypes
import functools
from array import array
from collections.abc import Sequence
from importlib import resources
from itertools import accumulate
from typing import Any

from wcache.core.memory.cuda import Device, attribute, binding, call, current
from wcache.core.model.errors import MappingFailed, NoRoom, Unsupported

DIGEST_BYTES = 32
CHUNK_BYTES = 1024
# The same numbers as in blake3.cu.
CHUNKS = 4
THREADS = 128
FAN = 256


def levels(sizes_bytes: Sequence[int]) -> list[list[int]]:
    """How many nodes each region has: first what `leaves` leaves of it, then after each `merge`, until each has one."""
    counts = [max(1, -(-size // (CHUNKS * CHUNK_BYTES))) for size in sizes_bytes]
    found = [counts]
    while max(counts) > 1:
        counts = [-(-count // FAN) for count in counts]
        found.append(counts)
    return found


class Blake3:
    """The kernels for one GPU, compiled once a process, and their scratch memory (about a 125th of what is hashed), kept for the next call.

    Not for several threads at once. `close()` gives the scratch memory back.
    """

    def __init__(self, device: Device) -> None:
        """Raises Unsupported without cuda-bindings, NVRTC or a driver."""
        self.device = device
        self._scratch: dict[str, tuple[int, int]] = {}
        with current(device):
            module = call(
                "cuModuleLoadData", _compiled(attribute(device, "COMPUTE_CAPABILITY_MAJOR"), attribute(device, "COMPUTE_CAPABILITY_MINOR"))
            )
            self._leaves = call("cuModuleGetFunction", module, b"leaves")
            self._merge = call("cuModuleGetFunction", module, b"merge")

    def digests(self, regions: Sequence[tuple[int, int]]) -> list[bytes]:
        """The 32-byte digest of each (device address, size in bytes), in order; any start, any size from 0.

        Everything is hashed in a handful of launches on the default stream, after what was started there; what other streams write must be
        finished. Raises NoRoom where the scratch memory is not to be had, MappingFailed for an address that is not mapped: the context of
        this process is lost then.
        """
        if not regions:
            return []
        sizes = [size for _, size in regions]
        counts = levels(sizes)
        firsts = [array("Q", [0, *accumulate(level)]) for level in counts]
        table = array("Q", [*(address for address, _ in regions), *sizes])
        for first in firsts:
            table.extend(first)
        regions_count = len(regions)
        try:
            with current(self.device):
                tables = self._memory("tables", len(table) * 8)
                call("cuMemcpyHtoD", tables, memoryview(table), len(table) * 8)
                where = [tables + (2 * regions_count + level * (regions_count + 1)) * 8 for level in range(len(firsts))]
                nodes = self._memory("even", firsts[0][-1] * DIGEST_BYTES)
                grid = -(-firsts[0][-1] // THREADS)
                self._launch(
                    self._leaves, grid, (tables, tables + regions_count * 8, where[0], regions_count, firsts[0][-1], nodes, 1),
                    (_POINTER, _POINTER, _POINTER, ctypes.c_uint, ctypes.c_ulonglong, _POINTER, ctypes.c_uint),
                )  # fmt: skip
                for level in range(1, len(firsts)):
                    merged = self._memory("even" if level % 2 == 0 else "odd", firsts[level][-1] * DIGEST_BYTES)
                    self._launch(
                        self._merge, firsts[level][-1], (where[level - 1], where[level], regions_count, nodes, merged, 1),
                        (_POINTER, _POINTER, ctypes.c_uint, _POINTER, _POINTER, ctypes.c_uint),
                    )  # fmt: skip
                    nodes = merged
                found = bytearray(regions_count * DIGEST_BYTES)
                call("cuMemcpyDtoH", found, nodes, len(found))
        except MappingFailed as error:
            if error.detail == "CUDA_ERROR_OUT_OF_MEMORY":
                raise NoRoom(
                    f"{counts and sum(counts[0]) * DIGEST_BYTES >> 20} MiB of GPU memory to hash in are not free", where=str(self.device)
                ) from None
            raise MappingFailed(f"the memory cannot be hashed: {error.what}", where=str(self.device), detail=error.detail) from error
        return [bytes(found[at : at + DIGEST_BYTES]) for at in range(0, len(found), DIGEST_BYTES)]

    def close(self) -> None:
        """Gives the scratch memory back; the next call takes it again."""
        with current(self.device):
            for address, _ in self._scratch.values():
                call("cuMemFree", address)
        self._scratch.clear()

    def scratch_bytes(self) -> int:
        """GPU memory that this object holds now."""
        return sum(size_bytes for _, size_bytes in self._scratch.values())

    def _memory(self, name: str, size_bytes: int) -> int:
        address, held_bytes = self._scratch.get(name, (0, 0))
        if held_bytes < size_bytes:
            if address:
                del self._scratch[name]
                call("cuMemFree", address)
            address = int(call("cuMemAlloc", size_bytes))
            self._scratch[name] = (address, size_bytes)
        return address

    @staticmethod
    def _launch(function: Any, grid: int, values: tuple[int, ...], types: tuple[Any, ...]) -> None:
        call("cuLaunchKernel", function, grid, 1, 1, THREADS, 1, 1, 0, 0, (values, types), 0)


_POINTER = ctypes.c_void_p


@functools.cache
def _compiled(major: int, minor: int) -> bytes:
    """Machine code for that compute capability, through NVRTC: no compiler need be installed. Machine code, not PTX, since a driver takes
    that from every NVRTC of its own major version."""
    source = resources.files("wcache.core.memory").joinpath("blake3.cu").read_bytes()
    options = [f"--gpu-architecture=sm_{major}{minor}".encode(), f"-DCHUNKS={CHUNKS}".encode()]
    nvrtc = binding("nvrtc")
    try:
        code, program = nvrtc.nvrtcCreateProgram(source, b"blake3.cu", 0, [], [])
        if not code:
            code = nvrtc.nvrtcCompileProgram(program, len(options), options)[0]
        if code:
            raise Unsupported(f"NVRTC cannot compile for compute capability {major}.{minor}: {code.name}\n{_log(nvrtc, program)}".rstrip())
        compiled = bytearray(nvrtc.nvrtcGetCUBINSize(program)[1])
        nvrtc.nvrtcGetCUBIN(program, compiled)
        nvrtc.nvrtcDestroyProgram(program)
    except (RuntimeError, OSError) as error:
        raise Unsupported(f"hashing on the GPU needs NVRTC: {error}", remedy="pip install nvidia-cuda-nvrtc") from None
    return bytes(compiled)


def _log(nvrtc: Any, program: Any) -> str:
    text = bytearray(nvrtc.nvrtcGetProgramLogSize(program)[1])
    nvrtc.nvrtcGetProgramLog(program, text)
    return text.decode(errors="replace").strip("\0\n ")
