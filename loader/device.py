"""The device that an engine wants its weights on: host memory, or one of the GPUs that this process sees."""

from __future__ import annotations

import sys
import threading
from contextlib import suppress
from typing import Any

from wcache.core.memory import cuda, views
from wcache.core.memory.cuda import Device
from wcache.core.memory.device import parse_device
from wcache.core.model.decide import HOST
from wcache.core.model.errors import NotFound, Unsupported

_NOWHERE = "meta"  # torch's device without memory: whatever is moved there was looked at on the host


def named_device(device: object) -> str:
    """What a person, or torch, calls a device, as one word: `cpu`, `cuda:1`, a UUID. None is the host, a number is that GPU's."""
    text = str(device if device is not None else HOST).strip()
    if text.isdecimal():
        return f"cuda:{text}"
    return HOST if text.split(":", 1)[0] in (HOST, _NOWHERE) else text


def warm_up(gpu: Device) -> threading.Thread | None:
    """Has torch use its operations on that GPU for the first time, beside whatever the caller does until it joins the thread; None where
    torch is not here."""
    torch: Any = sys.modules.get("torch")
    if torch is None:
        return None

    def use() -> None:
        with suppress(Exception):  # what is wrong with the GPU is told where it is needed
            views.warm_up(torch.device("cuda", gpu.ordinal))

    thread = threading.Thread(target=use, name="wcache-warm-up", daemon=True)
    thread.start()
    return thread


def visible_gpu(name: str) -> Device | None:
    """The GPU of that name; None for the host. `cuda` without a number is torch's current one.

    Raises Unsupported naming the platform (ROCm, XPU, macOS, a torch without CUDA, no driver, no such GPU), UsageError for what names
    no device.
    """
    if name == HOST:
        return None
    wanted = parse_device(name)
    torch: Any = sys.modules.get("torch")
    if torch is not None:
        views.check_torch()
        if name == "cuda" and torch.cuda.is_initialized():
            wanted = parse_device(f"cuda:{torch.cuda.current_device()}")
    try:
        return cuda.find(wanted)
    except NotFound as error:
        raise Unsupported(error.what, where=error.where, remedy=error.remedy) from None
