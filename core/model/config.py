"""The key of processed weights: an engine's whole normalised configuration, minus an explicit list of fields that cannot change weights.

A list of relevant fields would fail open (a new engine field would be ignored); this one fails closed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from wcache.core.model.errors import EvidenceUnavailable

# fmt: off
IGNORABLE = frozenset({
    "model", "tokenizer", "served_model_name", "host", "port", "seed", "max_model_len", "max_num_seqs", "max_num_batched_tokens",
    "gpu_memory_utilization", "swap_space", "enforce_eager", "disable_log_stats", "load_format", "model_loader_extra_config",
    "download_dir", "hf_token", "otlp_traces_endpoint",
})
# fmt: on
"""Fields that never change the bytes of any tensor."""

IGNORABLE_WHEN_DENSE = frozenset({"data_parallel_size", "data_parallel_rank", "data_parallel_size_local", "data_parallel_address"})
"""Replicas of a dense model hold the same weights; with expert parallelism the experts are spread over them, so these count."""


def _plain(value: Any, field: str) -> Any:
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, Mapping):
        return {str(key): _plain(item, f"{field}.{key}") for key, item in sorted(value.items(), key=lambda pair: str(pair[0]))}
    if isinstance(value, (Sequence, set, frozenset)):
        items = sorted(value, key=str) if isinstance(value, (set, frozenset)) else value
        return [_plain(item, f"{field}[{index}]") for index, item in enumerate(items)]
    to_dict = getattr(value, "to_dict", None)
    if callable(to_dict):
        try:
            return _plain(to_dict(), field)
        except EvidenceUnavailable:
            raise
        except Exception as error:  # foreign code: whatever it raises, there is no key
            raise EvidenceUnavailable(
                f"cannot be normalised ({type(error).__name__}: {error})",
                where=field,
                remedy="load raw weights, or report the configuration class",
            ) from error
    raise EvidenceUnavailable(
        f"cannot be normalised: {type(value).__name__} is no plain value",
        where=field,
        remedy="pass plain values, or a class with to_dict()",
    )


def normalise_config(config: Mapping[str, Any]) -> dict[str, str]:
    """Field -> canonical JSON of its value, without ignorable fields.

    Raises EvidenceUnavailable where a value has no plain form: there is never a weaker key instead.
    """
    experts_spread = bool(config.get("enable_expert_parallel")) or int(config.get("expert_parallel_size") or 1) > 1
    skip = IGNORABLE if experts_spread else IGNORABLE | IGNORABLE_WHEN_DENSE
    plain = {field: _plain(value, field) for field, value in config.items() if field not in skip}
    return {field: msgspec.json.encode(plain[field], order="deterministic").decode() for field in sorted(plain)}


def config_digest(config: Mapping[str, str]) -> str:
    """SHA-256 of a normalised configuration's canonical JSON (RFC 8259, keys in name order), first 32 hex digits."""
    return hashlib.sha256(msgspec.json.encode(dict(config), order="deterministic")).hexdigest()[:32]


def config_difference(asked: Mapping[str, str], resident: Mapping[str, str]) -> tuple[str, ...]:
    """Names of the fields in which two normalised configurations differ, in name order."""
    return tuple(sorted(field for field in {*asked, *resident} if asked.get(field) != resident.get(field)))
