"""Where in an SGLang start this process stands: its launch, its ranks, and whether it loads the draft of speculative decoding."""

from __future__ import annotations

import os
import secrets
from typing import Any

from wcache.core.model.events import Engine, Ranks
from wcache.loader.sglang import START_VARIABLE


def launch_of() -> str:
    """The same for all processes that an SGLang start spawned. WCACHE_LAUNCH, where set, is the launch."""
    return os.environ.get("WCACHE_LAUNCH") or os.environ.setdefault(START_VARIABLE, "l-" + secrets.token_hex(8))


def ranks_of() -> Ranks:
    """`rank` counts over all replicas. Under attention data parallelism the replicas share one world, and are its tensor-parallel ranks."""
    import torch.distributed
    from sglang.srt.runtime_context import get_parallel, get_server_args

    parallel, arguments = get_parallel(), get_server_args()
    distributed = torch.distributed.is_available() and torch.distributed.is_initialized()
    rank, world = (torch.distributed.get_rank(), torch.distributed.get_world_size()) if distributed else (0, 1)
    replicas = 1 if arguments.enable_dp_attention else arguments.dp_size
    replica = (_replica(parallel) or 0) if replicas > 1 else 0
    return Ranks(
        rank=replica * world + rank,
        world=replicas * world,
        tp=parallel.tp_size,
        pp=parallel.pp_size,
        dp=arguments.dp_size,
        ep=arguments.ep_size,
    )


def _replica(parallel: Any) -> int | None:
    """SGLang's word, where this version has one. It reads None without a controller of replicas, and raises where nobody wrote it."""
    try:
        return parallel.dp_rank  # type: ignore[no-any-return, unused-ignore]
    except (AttributeError, RuntimeError, ValueError):
        return None


def engine_of(model_config: Any, version: str) -> Engine:
    """`sglang`, and `sglang-draft` for the draft model of speculative decoding, which attaches beside its target."""
    return Engine(name="sglang-draft" if model_config.is_draft_model else "sglang", version=version, pid=os.getpid())
