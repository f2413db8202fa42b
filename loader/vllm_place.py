"""Where in a vLLM start this process stands: its launch, its ranks, and whether it loads the draft of speculative decoding.

The arguments are vLLM's configuration objects, of which only attributes are read that are there from vLLM 0.20 on.
"""

from __future__ import annotations

import os
import re
import secrets
from typing import Any

from wcache.core.model.events import Engine, Ranks
from wcache.loader.vllm import START_VARIABLE

_REPLICA = re.compile(r"_dp\d+$")  # vLLM tells the instances of data-parallel replicas under Ray apart so


def launch_of(vllm_config: Any) -> str:
    """The same for all ranks of one engine, another for the next engine of the same process. WCACHE_LAUNCH, where set, is the launch."""
    given = os.environ.get("WCACHE_LAUNCH")
    if given:
        return given
    start = os.environ.setdefault(START_VARIABLE, "l-" + secrets.token_hex(6))
    return f"{start}-{_REPLICA.sub('', vllm_config.instance_id)}"


def ranks_of(vllm_config: Any) -> Ranks:
    """`rank` counts over all replicas.

    A replica of a dense model is told by vLLM that it is alone, and keeps only its own number: what it says of `dp` and `world`
    is then the least that there must be.
    """
    parallel = vllm_config.parallel_config
    replica = parallel.data_parallel_index
    dp = max(parallel.data_parallel_size, replica + 1)
    return Ranks(
        rank=replica * parallel.world_size + parallel.rank,
        world=dp * parallel.world_size,
        tp=parallel.tensor_parallel_size,
        pp=parallel.pipeline_parallel_size,
        dp=dp,
        ep=dp * parallel.tensor_parallel_size if parallel.enable_expert_parallel else 1,
    )


def engine_of(model_config: Any, version: str) -> Engine:
    """`vllm`, and `vllm-draft` for the draft model of speculative decoding, which attaches beside its target."""
    name = "vllm-draft" if model_config.runner_type == "draft" else "vllm"
    return Engine(name=name, version=version, pid=os.getpid())
