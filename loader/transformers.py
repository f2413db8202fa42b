"""transformers models on mapped weights: the library builds the model, the parameters alias the daemon's memory."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from wcache.core.checkpoint.checkpoint import open_checkpoint
from wcache.core.model.errors import MappingFailed, MissingTensor, Unsupported, WcacheError
from wcache.core.model.events import Engine
from wcache.core.model.vocabulary import Mode
from wcache.loader.attach import SETTING_NAMES, Attachment, attach, resolve_settings
from wcache.loader.libraries import library
from wcache.loader.mapping import ShardMap, safetensors_dtype
from wcache.loader.standin import reference_only

if TYPE_CHECKING:
    import torch

_ATTACH_WORDS = ("ranks", "launch", "on_progress")
_HUB_WORDS = ("cache_dir", "local_files_only", "token", "trust_remote_code")
_OTHER_FORMATS = ("gguf_file", "variant", "subfolder", "adapter_kwargs", "from_tf", "from_flax")


def from_pretrained(
    model_class: Any,
    checkpoint: str | os.PathLike[str],
    *,
    dtype: torch.dtype | str | None = None,
    config: Any = None,
    revision: str | None = None,
    **kwargs: Any,
) -> Any:
    """As `model_class.from_pretrained(checkpoint, ...)`, with the weights mapped where a hit is decided.

    `model_class` is a model class, an Auto class, or None for the architecture that the configuration names. Beside what transformers
    takes, `kwargs` takes what `attach` takes (`accept`, `on_miss`, `ranks`, ...). The mode in the record is the one achieved: every
    parameter's address is looked up. Another dtype than the resident one makes transformers copy.

    Raises MissingTensor where transformers would initialise a parameter at random, mapped or from disk; StrictMiss; Unsupported.
    """
    for name in ("torch", "transformers"):
        library(name, checkpoint, {"revision": revision, "engine": "transformers", **kwargs})
    import transformers

    wrong = next((word for word in _OTHER_FORMATS if kwargs.get(word)), None)
    if wrong is not None:
        raise Unsupported(
            f"{wrong} is not supported: only safetensors checkpoints are mapped", remedy="use transformers' own from_pretrained"
        )
    dtype = kwargs.pop("torch_dtype", None) if dtype is None else dtype
    settings = resolve_settings(kwargs.pop("settings", None), {name: kwargs.pop(name) for name in SETTING_NAMES & kwargs.keys()})
    attach_words = {name: kwargs.pop(name) for name in _ATTACH_WORDS if name in kwargs}
    with_info = kwargs.pop("output_loading_info", False)
    hub_words = {name: kwargs[name] for name in _HUB_WORDS if name in kwargs}
    if revision is not None:
        hub_words["revision"] = revision
    given_config = config
    if config is None:
        config = transformers.AutoConfig.from_pretrained(os.fspath(checkpoint), **hub_words)
        for name in [name for name in kwargs if name not in _HUB_WORDS and name in config.to_dict()]:
            setattr(config, name, kwargs.pop(name))
    attachment = attach(
        checkpoint,
        revision=revision,
        settings=settings,
        dtype=_asked_dtype(dtype, config),
        engine=Engine(name="transformers", version=transformers.__version__, pid=os.getpid()),
        **attach_words,
    )
    if attachment.hit:
        try:
            model, info = _build(_concrete(model_class, config), attachment, config, dtype, kwargs)
        except MissingTensor as error:
            attachment.incomplete(error)
            raise
        except Exception as error:  # whatever the library raises: the disk is the way it was made for
            attachment.map_failed(error if isinstance(error, WcacheError) else MappingFailed(f"{type(error).__name__}: {error}"))
        else:
            _finish(model, checkpoint, hub_words)
            return (model, info) if with_info else model
    if given_config is not None:
        kwargs["config"] = given_config
    else:
        kwargs["config"] = config
    model, info = _from_disk(_concrete(model_class, config, from_path=True), attachment, checkpoint, dtype, {**hub_words, **kwargs})
    return (model, info) if with_info else model


def _concrete(model_class: Any, config: Any, *, from_path: bool = False) -> Any:
    """The class to build. Auto classes choose one by a path, which there is none for mapped weights, so it is chosen here."""
    import transformers

    if model_class is None:
        named = (getattr(config, "architectures", None) or [""])[0]
        model_class = getattr(transformers, named, None) or transformers.AutoModel
    mapping = getattr(model_class, "_model_mapping", None)
    if mapping is None or from_path:
        return model_class
    from transformers.models.auto.auto_factory import _get_model_class

    try:
        return _get_model_class(config, mapping)  # type: ignore[no-untyped-call, unused-ignore]
    except KeyError:
        raise Unsupported(f"{model_class.__name__} has no class for {type(config).__name__}", remedy="pass the model's class") from None


def _asked_dtype(dtype: Any, config: Any) -> str | None:
    """The dtype that the engine will have, as safetensors names it; None where only the weights tell."""
    import torch

    if dtype in (None, "auto"):
        dtype = getattr(config, "dtype", None) or getattr(config, "torch_dtype", None)
    if isinstance(dtype, str):
        dtype = getattr(torch, dtype.removeprefix("torch."), None)
    return safetensors_dtype(dtype) if isinstance(dtype, torch.dtype) else None


def _build(model_class: Any, attachment: Attachment, config: Any, dtype: Any, kwargs: Mapping[str, Any]) -> tuple[Any, Any]:
    """The model over new mappings of the resident shards, reported with the mode that its addresses prove."""
    began = time.monotonic()
    shards = [attachment.shard(name) for name in attachment.segments]
    weights = {name: shard.tensor(name) for shard in shards for name in shard.entries}
    ms = (time.monotonic() - began) * 1000
    words = {name: value for name, value in kwargs.items() if name not in _HUB_WORDS}
    model, info = model_class.from_pretrained(None, config=config, state_dict=weights, dtype=dtype, output_loading_info=True, **words)
    _require_complete(info, words, str(attachment.question.spelling))
    tensors = _distinct_tensors(model)
    copied = [tensor for tensor in tensors if not _lies_in(tensor, shards)]
    misaligned = sum(shard.copies(name) for shard in shards for name in shard.entries)
    attachment.mapped(
        Mode.ZERO_COPY if len(copied) <= misaligned else Mode.COPY,
        tensors=len(tensors),
        size_bytes=sum(tensor.nbytes for tensor in tensors),
        copied_tensors=len(copied),
        copied_bytes=sum(tensor.nbytes for tensor in copied),
        ms=ms,
    )
    if len(copied) == len(tensors):
        attachment.close()  # the copies are the engine's own: nothing is left to lease
    return model, info


def _distinct_tensors(model: Any) -> list[torch.Tensor]:
    """Parameters and persistent buffers, tied ones once. Other buffers are made by the model and come from no checkpoint."""
    found = {(tensor.device, tensor.data_ptr(), tensor.numel()): tensor for tensor in model.state_dict().values() if tensor.numel()}
    return list(found.values())


def _lies_in(tensor: torch.Tensor, shards: list[ShardMap]) -> bool:
    return tensor.device.type == "cpu" and any(shard.holds(tensor.data_ptr()) for shard in shards)


def _require_complete(info: Mapping[str, Any], words: Mapping[str, Any], where: str) -> None:
    missing = sorted(map(str, info["missing_keys"]))
    if not words.get("ignore_mismatched_sizes"):
        missing += sorted(str(item[0] if isinstance(item, tuple) else item) for item in info["mismatched_keys"])
    if missing:
        shown = ", ".join(missing[:4]) + (f" and {len(missing) - 4} more" if len(missing) > 4 else "")
        raise MissingTensor(
            f"the model needs {len(missing)} tensors that the checkpoint does not have: {shown}",
            where=where,
            remedy="use the model class that the checkpoint was made with",
        )


def _finish(model: Any, checkpoint: str | os.PathLike[str], hub_words: Mapping[str, Any]) -> None:
    """What transformers takes from the directory beside the weights."""
    import transformers

    model.config.name_or_path = os.fspath(checkpoint)
    if model.can_generate():
        with suppress(OSError):  # no generation_config.json: the model's own defaults stand, as they do after a disk load
            model.generation_config = transformers.GenerationConfig.from_pretrained(os.fspath(checkpoint), **hub_words)


def _from_disk(
    model_class: Any, attachment: Attachment, checkpoint: str | os.PathLike[str], dtype: Any, words: Mapping[str, Any]
) -> tuple[Any, Any]:
    began = time.monotonic()
    try:
        with reference_only():
            model, info = model_class.from_pretrained(os.fspath(checkpoint), dtype=dtype, output_loading_info=True, **words)
        _require_complete(info, words, os.fspath(checkpoint))
    except BaseException as error:
        attachment.fallback_failed(error)
        raise
    seconds = time.monotonic() - began
    read_bytes = 0
    with suppress(WcacheError):
        read_bytes = open_checkpoint(checkpoint, revision=words.get("revision")).total_bytes
    attachment.fell_back(read_bytes, seconds)
    return model, info
