"""What a server computes on: the GPUs that it may see, else the processors; which dtypes that has; and who else is there."""

from __future__ import annotations

import os
import platform
from pathlib import Path
from typing import Any

from wcache.core.memory import nvml
from wcache.core.model.errors import RequestRefused
from wcache.drill.command import HALVED, ServerCommand
from wcache.drill.memory import meminfo

_BFLOAT16_SINCE = (8, 0)  # compute capability; CUDA C++ Programming Guide, "Feature Support per Compute Capability"


def require_unused(gpus: tuple[nvml.Gpu, ...]) -> None:
    """Raises RequestRefused naming who computes there: two engines on one device measure each other."""
    for gpu in gpus:
        pids = nvml.compute_pids(gpu.uuid)
        if pids:
            who = ", ".join(f"{pid} ({_name(pid)})" for pid in pids)
            raise RequestRefused(
                f"other processes compute on it: {who}", where=gpu.uuid, remedy="stop them, or name a free GPU in CUDA_VISIBLE_DEVICES"
            )


def other_dtype(server: ServerCommand, config: Path, gpus: tuple[nvml.Gpu, ...]) -> tuple[str | None, str]:
    """A dtype that the server can be asked for and does not compute in by itself; or None and why there is none."""
    if server.engine == "other":
        return None, "how this server is asked for another dtype is not known"
    asked = server.asked_dtype(config)
    if asked == HALVED:
        return "float32", ""
    if asked not in ("bfloat16", "float16", "float32"):
        return (
            None,
            "neither the command nor config.json says which dtype is computed in" if asked is None else f"there is no pair of {asked}",
        )
    if not gpus:
        return ("bfloat16" if asked == "float32" else "float32"), ""
    if asked != "float16":
        return "float16", ""
    lacking = [gpu.name for gpu in gpus if nvml.compute_capability(gpu.uuid) < _BFLOAT16_SINCE]
    return (None, f"{lacking[0]} has no bfloat16") if lacking else ("bfloat16", "")


def device_facts(gpus: tuple[nvml.Gpu, ...]) -> dict[str, Any]:
    """Model, and UUID and driver where there is a GPU."""
    memory_bytes = meminfo().get("MemTotal")
    cpu = {"model": _processor(), "cores": len(os.sched_getaffinity(0)), "memory_bytes": memory_bytes, "kernel": platform.release()}
    found = [{"uuid": gpu.uuid, "model": gpu.name, "memory_bytes": nvml.memory(gpu.uuid).total_bytes} for gpu in gpus]
    return {"kind": "cuda" if gpus else "cpu", "gpus": found, "driver": nvml.driver_version() if gpus else None, "cpu": cpu}


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text(errors="replace").splitlines():
        name, _, value = line.partition(":")
        if name.strip() == "model name":
            return value.strip()
    return platform.machine()


def _name(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text(errors="replace").strip()
    except OSError:
        return "of another pid namespace"
