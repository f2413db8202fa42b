"""The key of what vLLM made of the weights: its whole configuration, minus what an explicit list says cannot change a tensor.

Fields that a later vLLM adds are part of the key until somebody has looked at them: such a start misses, it never maps the wrong thing.
"""

from __future__ import annotations

import dataclasses
import enum
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from blake3 import blake3

from wcache.core.model.config import normalise_config

LAYOUT = 2
"""Of the tensors beside what vLLM decides by itself: raised when this package changes it."""

_PARTS = frozenset({
    "compilation_config", "diffusion_config", "ec_manager_config", "ec_transfer_config", "instance_id", "kv_events_config",
    "kv_transfer_config", "load_config", "logging_config", "observability_config", "optimization_level", "profiler_config",
    "quant_config", "reasoning_config", "scheduler_config", "shutdown_timeout", "speculative_config", "structured_outputs_config",
    "watermark_config", "weight_transfer_config",
})  # fmt: skip
"""Parts that are about requests, graphs or transport. `quant_config` is made from the model's configuration, which counts."""

_FIELDS: dict[str, frozenset[str]] = {
    "model_config": frozenset({
        "allowed_local_media_path", "allowed_media_domains", "code_revision", "enable_prompt_embeds", "enable_sleep_mode",
        "enable_trace_replay", "enforce_eager", "generation_config", "hf_config_path", "hf_text_config", "hf_token",
        "io_processor_plugin", "logits_processors", "logprobs_mode", "max_logprobs", "max_model_len", "media_io_kwargs",
        "mm_processor_kwargs", "model", "model_weights", "override_generation_config", "renderer_num_workers", "return_sampling_mask",
        "revision", "seed", "served_model_name", "skip_tokenizer_init", "spec_target_max_model_len", "tokenizer", "tokenizer_mode",
        "tokenizer_revision", "trust_remote_code",
    }),
    "cache_config": frozenset({
        "block_size", "cache_hit_alignment_tokens", "effective_attention_block_size", "enable_prefix_caching", "gpu_memory_utilization",
        "hash_block_size", "kv_cache_max_concurrency", "kv_cache_memory_bytes", "kv_cache_size_tokens", "kv_offloading_backend",
        "kv_offloading_size", "num_cpu_blocks", "num_gpu_blocks", "num_gpu_blocks_override", "prefix_caching_hash_algo",
        "user_specified_block_size",
    }),
    "kernel_config": frozenset({"enable_cutedsl_warmup", "enable_jit_warmup"}),
    "parallel_config": frozenset({
        "assigned_physical_gpu_ids", "cpu_distributed_timeout_seconds", "data_parallel_backend", "data_parallel_external_lb",
        "data_parallel_hybrid_lb", "data_parallel_master_ip", "data_parallel_master_port", "data_parallel_rank_local",
        "data_parallel_rpc_port", "distributed_executor_backend", "distributed_timeout_seconds", "master_addr", "master_port",
        "max_parallel_loading_workers", "nnodes", "node_rank", "numa_bind", "numa_bind_cpus", "numa_bind_nodes", "placement_group",
        "ray_runtime_env", "ray_workers_use_nsight", "worker_cls", "worker_extension_cls",
    }),
}  # fmt: skip
"""Names, requests, sizes of caches, warm-ups, addresses."""

_REPLICA_FIELDS = frozenset({"data_parallel_index", "data_parallel_rank", "data_parallel_size", "data_parallel_size_local"})
"""Replicas of a dense model hold the same weights. Experts are spread over the replicas, whether whole ones (expert parallel) or a part
of each, so that these count for every model that has some."""

_VARIABLES = (
    "VLLM_API_KEY", "VLLM_CACHE_ROOT", "VLLM_CONFIGURE_LOGGING", "VLLM_CPU_KVCACHE_SPACE", "VLLM_CPU_OMP_THREADS_BIND", "VLLM_DIST_IDENT",
    "VLLM_DO_NOT_TRACK", "VLLM_DP_", "VLLM_ENABLE_V1_MULTIPROCESSING", "VLLM_HOST_IP", "VLLM_LOGGING_", "VLLM_NO_USAGE_STATS",
    "VLLM_OBJECT_STORAGE_SHM_BUFFER_NAME", "VLLM_OMP_NUM_THREADS_SET_BY_VLLM", "VLLM_PLUGINS", "VLLM_PORT", "VLLM_RPC_",
    "VLLM_SERVER_DEV_MODE", "VLLM_SERVICE_", "VLLM_USE_BREAKABLE_CUDAGRAPH", "VLLM_WORKER_MULTIPROC_METHOD",
)  # fmt: skip
"""Beginnings of environment variables that are about processes, logs, caches and graphs, some of them set by vLLM itself. Every other
VLLM_ variable may choose a kernel."""


def key_of(vllm_config: Any, model_config: Any, hardware: str, versions: Mapping[str, str]) -> dict[str, str]:
    """Field -> canonical JSON, fields named as vLLM names them. `hardware`: what kernels are chosen by.

    Raises EvidenceUnavailable naming the field that has no plain form: there is never a weaker key instead.
    """
    fields: dict[str, Any] = {"layout": LAYOUT, "hardware": hardware}
    fields.update({f"version.{name}": str(version) for name, version in versions.items()})
    for variable in sorted(os.environ):
        if variable.startswith("VLLM_") and not variable.startswith(_VARIABLES):
            fields[f"environment.{variable}"] = blake3(os.environ[variable].encode()).hexdigest()  # some are secrets
    spread = spreads_experts(vllm_config, model_config)
    for part in dataclasses.fields(vllm_config):
        if part.name in _PARTS:
            continue
        value = model_config if part.name == "model_config" else getattr(vllm_config, part.name)
        ignored = _FIELDS.get(part.name, frozenset())
        if part.name == "parallel_config" and not spread:
            ignored |= _REPLICA_FIELDS
        if not dataclasses.is_dataclass(value):
            fields[part.name] = _plain(value)
            continue
        for field in dataclasses.fields(value):
            if field.name not in ignored and not field.name.startswith("_"):
                fields[f"{part.name}.{field.name}"] = _plain(getattr(value, field.name))
    return normalise_config(fields)


def spreads_experts(vllm_config: Any, model_config: Any) -> bool:
    """Whether data-parallel replicas have different weights."""
    return bool(vllm_config.parallel_config.enable_expert_parallel or model_config.is_moe)


def _plain(value: Any) -> Any:
    """What normalise_config does not know of itself; whatever else is no plain value it refuses."""
    if isinstance(value, enum.Enum):
        return value.name
    if isinstance(value, (Path, str)):
        return str(value)  # plain, of whatever subclass
    if isinstance(value, type):
        return f"{value.__module__}.{value.__qualname__}"
    if type(value).__module__.partition(".")[0] == "torch" and type(value).__name__ in ("dtype", "device"):
        return str(value)
    if dataclasses.is_dataclass(value):
        return {field.name: _plain(getattr(value, field.name)) for field in dataclasses.fields(value) if not field.name.startswith("_")}
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_plain(item) for item in (sorted(value, key=str) if isinstance(value, (set, frozenset)) else value)]
    if hasattr(value, "to_dict"):
        return _WithoutPlace(value)
    return value


class _WithoutPlace:
    """A model's configuration without where it was read from and which library wrote it."""

    def __init__(self, config: Any) -> None:
        self._config = config

    def to_dict(self) -> dict[str, Any]:
        found = {key: _plain(item) for key, item in self._config.to_dict().items()}
        return {key: item for key, item in found.items() if key not in ("_name_or_path", "name_or_path", "transformers_version")}
