"""What the measurements of a GPU share: whether there is one, what it is called, and sizes as models have them."""

from __future__ import annotations

import time


def unusable() -> str:
    """Why nothing can be measured here, in one line; "" where it can."""
    from wcache.core.memory import cuda
    from wcache.core.memory.views import check_torch
    from wcache.core.model.errors import WcacheError

    try:
        check_torch()
    except (ImportError, WcacheError) as error:
        return str(error)
    return cuda.why_unusable()


def machine() -> str:
    import torch

    from wcache.core.memory import cuda, nvml

    device = cuda.devices()[0]
    return f"{device.name}, driver {nvml.driver_version()}, torch {torch.__version__}, {time.strftime('%Y-%m-%d', time.gmtime())}"


def settled_mib(uuid: str) -> int:
    """GPU memory in use once it stands still: processes that ended give their contexts back a moment later."""
    from wcache.core.memory import nvml

    used = nvml.memory(uuid).used_bytes >> 20
    for _ in range(20):
        time.sleep(0.5)
        before, used = used, nvml.memory(uuid).used_bytes >> 20
        if before == used:
            break
    return used


def sizes_like_a_model(size_bytes: int, count: int) -> list[int]:
    """`count` sizes that add up to about `size_bytes`: an embedding, then layers of four norms and seven matrices, in bfloat16 of a width
    that makes it fit."""
    kinds = [1.0, 0.25, 0.25, 1.0, 2.4, 2.4, 2.4, 0.0, 0.0, 0.0, 0.0]
    shares = [12.0, *(kinds[index % len(kinds)] for index in range(count - 1))]
    unit = size_bytes / sum(shares)
    return [max(5120, int(share * unit) // 512 * 512) for share in shares]
