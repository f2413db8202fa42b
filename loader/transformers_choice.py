"""What transformers chooses to load from a directory: where that is not what the cache has of it, a hit would be another model."""

from __future__ import annotations

import importlib.util
import json
import os
import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from wcache.core.checkpoint.header import read_header
from wcache.core.checkpoint.layout import Layout, list_layout, parse_index
from wcache.core.checkpoint.reader import Reader
from wcache.core.checkpoint.spelling import ResolvedRoot, resolve_root
from wcache.core.memory.dtypes import torch_dtype
from wcache.core.model.errors import WcacheError

_SAFE = ("model.safetensors", "model.safetensors.index.json")
_PICKLED = ("pytorch_model.bin", "pytorch_model.bin.index.json")
_DISTRIBUTED = re.compile(r"shard-[0-9]{5}-model-[0-9]{5}-of-[0-9]{5}\.safetensors")
_FLOATS = ("F64", "F32", "F16", "BF16")


def other_model(model_class: Any, checkpoint: str | os.PathLike[str], revision: str | None, config: Any, words: Mapping[str, Any]) -> str:
    """Why transformers would not build `model_class` from those tensors that the cache has of the checkpoint; empty where it would, and
    where the checkpoint is none, which the attach says.

    The order is that of transformers (`_get_resolved_checkpoint_files`, `maybe_load_adapters` and the Auto classes of 5.24).
    """
    auto_map = getattr(config, "auto_map", None) or {}
    if words.get("trust_remote_code") and hasattr(model_class, "_model_mapping") and model_class.__name__ in auto_map:
        return f"its configuration has code of its own for {model_class.__name__}, and trust_remote_code was given"
    try:
        resolved = resolve_root(checkpoint, revision)
        if resolved.single_file is not None:
            return ""
        cache = words.get("cache_dir")
        if cache is not None and not Path(checkpoint).is_dir() and Path(cache).resolve() not in Path(resolved.root).parents:
            return f"transformers takes it from the cache in {os.fspath(cache)}, it was found in {resolved.root}"
        if (Path(resolved.root) / "adapter_config.json").is_file() and importlib.util.find_spec("peft") is not None:
            return "transformers applies the adapter that lies beside the weights (adapter_config.json, and peft is installed)"
        if extra := getattr(type(config), "extra_files", ()):
            return f"transformers also looks for {', '.join(extra)} there, which are no part of the checkpoint"
        layout = list_layout(resolved, Reader())
        if any(_DISTRIBUTED.fullmatch(name) for name in (*layout.shards, *layout.strays)):
            return "transformers puts its shard-…-model-… files together as a distributed checkpoint"
        chosen = _entry(resolved, config, words)
        if chosen is None or not (other := _other_entry(resolved, layout, chosen)):
            return ""
        named = " (transformers_weights of its configuration)" if getattr(config, "transformers_weights", None) else ""
        return f"transformers begins with {chosen}{named} there, the cache with {other}"
    except (WcacheError, OSError):
        return ""


def read_bytes(checkpoint: str | os.PathLike[str], config: Any, words: Mapping[str, Any]) -> int:
    """The size of the weight files that transformers reads; 0 where that cannot be told."""
    with suppress(WcacheError, OSError, ValueError, AttributeError):
        resolved = resolve_root(checkpoint, words.get("revision"))
        root, chosen = Path(resolved.root), resolved.single_file or _entry(resolved, config, words)
        if chosen is not None:
            files = {chosen}
            if chosen.endswith(".json"):
                files = set(json.loads((root / chosen).read_text(encoding="utf-8"))["weight_map"].values())
            return sum((root / name).stat().st_size for name in files)
    return 0


def weights_dtype(checkpoint: str | os.PathLike[str], config: Any, dtype: Any, words: Mapping[str, Any]) -> Any:
    """`dtype` as it was asked for. Where that and the configuration leave it to the weights, the one that transformers would find on disk:
    what the index says, else that of the first floating-point tensor by name in the first file."""
    import torch
    import transformers

    left_to_weights = dtype == "auto" or (dtype is None and int(transformers.__version__.split(".", 1)[0]) >= 5)
    if not left_to_weights or getattr(config, "dtype", None) is not None or getattr(config, "torch_dtype", None) is not None:
        return dtype
    with suppress(WcacheError, OSError, ValueError, AttributeError, LookupError):
        resolved = resolve_root(checkpoint, words.get("revision"))
        root, chosen = Path(resolved.root), resolved.single_file or _entry(resolved, config, words)
        if chosen is not None and chosen.endswith(".json"):
            index = json.loads((root / chosen).read_text(encoding="utf-8"))
            if named := index.get("metadata", {}).get("dtype"):
                return getattr(torch, named)
            chosen = min(index["weight_map"].values())
        if chosen is not None and chosen.endswith(".safetensors"):
            with Reader().open(str(root / chosen)) as file:
                header = read_header(file.read_at, file.identity("").size_bytes, where=chosen)
            return torch_dtype(next(one.dtype for one in sorted(header.tensors, key=lambda one: one.name) if one.dtype in _FLOATS))
    return dtype


def _entry(resolved: ResolvedRoot, config: Any, words: Mapping[str, Any]) -> str | None:
    """The file that transformers begins with: the weights or their index. None: it finds none."""
    if named := getattr(config, "transformers_weights", None):
        return str(named)
    names = _SAFE if words.get("use_safetensors") else _SAFE + _PICKLED
    return next((name for name in names if (Path(resolved.root) / name).is_file()), None)


def _other_entry(resolved: ResolvedRoot, layout: Layout, chosen: str) -> str:
    """The file that the cache begins with instead; empty where it is the same, also where its index leads to that very file."""
    if layout.index is None:
        return "" if layout.shards == (chosen,) else layout.shards[0]
    if layout.index == chosen:
        return ""
    with Reader().open(f"{resolved.root}/{layout.index}") as file:
        return "" if parse_index(file, layout.index).shards == (chosen,) else layout.index
