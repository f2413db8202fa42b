"""transformers models on mapped weights: the library builds the model, the parameters alias the daemon's memory."""

from __future__ import annotations

import functools
import importlib.util
import os
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import msgspec

from wcache.core.model.decide import HOST
from wcache.core.model.errors import MappingFailed, MissingTensor, Unsupported, UsageError, WcacheError
from wcache.core.model.events import Engine
from wcache.core.settings import Settings
from wcache.loader.attach import SETTING_NAMES, Attachment, attach, decide_alone, resolve_settings
from wcache.loader.device import named_device, visible_gpu
from wcache.loader.libraries import library
from wcache.loader.mapping import safetensors_dtype
from wcache.loader.question import make_question
from wcache.loader.standin import reference_only
from wcache.loader.taken import report_taken, take
from wcache.loader.transformers_choice import other_model, read_bytes, weights_dtype
from wcache.loader.transformers_config import Configured, concrete, configure, named_class

if TYPE_CHECKING:
    import torch

    from wcache.core.memory.cuda import Device

_ATTACH_WORDS = ("ranks", "launch", "on_progress", "mode", "release")
_HUB_WORDS = ("cache_dir", "local_files_only", "token", "trust_remote_code")
_SPREADING = ("auto", "balanced", "balanced_low_0", "sequential", "meta")  # the last one nowhere
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
    takes, `kwargs` takes what `attach` takes (`accept`, `on_miss`, `mode`, `ranks`, ...). `device`, or a `device_map` that names one
    device, is where the whole model goes; other maps spread it from host memory, as transformers does. The mode in the record is the
    one achieved: every parameter's address is looked up. Another dtype than the resident one makes transformers copy.

    Where transformers would not build that model from those tensors (an adapter beside the weights, another file that it prefers, code of
    the checkpoint's own), the attach is decided as `unsupported`, and says why. Nothing is mapped then.

    Raises MissingTensor where transformers would initialise a parameter at random, mapped or from disk; StrictMiss; Unsupported.
    """
    for name in ("torch", "transformers"):
        library(name, checkpoint, {"revision": revision, "engine": "transformers", **kwargs})
    import transformers

    wrong = next((word for word in _OTHER_FORMATS if kwargs.get(word)), None)
    if wrong is None and kwargs.get("use_safetensors") is False:
        wrong = "use_safetensors=False"
    if wrong is not None:
        raise Unsupported(
            f"{wrong} is not supported: only safetensors checkpoints are mapped", remedy="use transformers' own from_pretrained"
        )
    dtype = kwargs.pop("torch_dtype", None) if dtype is None else dtype
    settings = resolve_settings(kwargs.pop("settings", None), {name: kwargs.pop(name) for name in SETTING_NAMES & kwargs.keys()})
    attach_words = {name: kwargs.pop(name) for name in _ATTACH_WORDS if name in kwargs}
    device = _one_device(kwargs)
    with_info = kwargs.pop("output_loading_info", False)
    hub_words = {name: kwargs[name] for name in _HUB_WORDS if name in kwargs}
    if revision is not None:
        hub_words["revision"] = revision
    configured = configure(model_class, checkpoint, config, hub_words, kwargs)
    asked_dtype = weights_dtype(checkpoint, configured.config, dtype, {**hub_words, **kwargs})
    attach_words |= {"revision": revision, "device": device, "dtype": _asked_dtype(asked_dtype, configured.config)}
    attach_words["engine"] = Engine(name="transformers", version=transformers.__version__, pid=os.getpid())
    named = named_class(model_class, configured.config)
    obstacle = other_model(named, checkpoint, revision, configured.config, kwargs)
    if obstacle:
        attachment = _refused(checkpoint, settings, obstacle, attach_words)
    else:
        attachment = attach(checkpoint, settings=settings, **attach_words)
    if attachment.hit:
        try:
            model, info = _build(model_class, attachment, configured, asked_dtype)
        except MissingTensor as error:
            attachment.incomplete(error)
            raise
        except Exception as error:  # whatever the library raises: the disk is the way it was made for
            attachment.map_failed(error if isinstance(error, WcacheError) else MappingFailed(f"{type(error).__name__}: {error}"))
        else:
            _finish(model, checkpoint, hub_words, kwargs.get("generation_config"), configured.generation)
            return (model, info) if with_info else model
    words = {name: value for name, value in (("config", config), ("dtype", dtype)) if value is not None}
    model, info = _from_disk(named, attachment, checkpoint, configured.config, device, {**hub_words, **kwargs, **words})
    return (model, info) if with_info else model


def _refused(checkpoint: str | os.PathLike[str], settings: Settings, obstacle: str, words: dict[str, Any]) -> Attachment:
    """The attach that is decided without a look at the cache. Raises StrictMiss where that is the policy."""
    asked = {name: value for name, value in words.items() if name not in ("on_progress", "release")}
    question = make_question(checkpoint, lock=settings.policy.lock, **asked)
    gpu: Device | None = None
    with suppress(Unsupported):  # the obstacle is what is told; without that device the fallback fails, too
        gpu = visible_gpu(question.device)
    if gpu is not None:
        question = msgspec.structs.replace(question, device=gpu.uuid)
    return decide_alone(question, settings, None, Unsupported(obstacle), gpu)


def _one_device(words: dict[str, Any]) -> Any:
    """Takes `device` out of the words, and a `device_map` that puts everything on one device; the host where neither is there. What torch
    calls plain `cuda` is the rank's own GPU, as transformers has it (LOCAL_RANK)."""
    device, given = words.pop("device", None), words.get("device_map")
    if device is not None and given is not None:
        raise UsageError("device and device_map were both given", remedy="give one of them")
    if isinstance(given, Mapping):
        places = {str(place) for place in given.values()}
        given = next(iter(given.values())) if len(places) == 1 and "disk" not in places else None
    if given is not None and str(given) not in _SPREADING:
        words.pop("device_map")
        device = given
    if str(device) == "cuda":
        return f"cuda:{os.environ.get('LOCAL_RANK', '0')}"
    return HOST if device is None else device


def _asked_dtype(dtype: Any, config: Any) -> str | None:
    """The dtype that the engine will have, as safetensors names it; None where only the weights tell."""
    import torch

    if dtype in (None, "auto"):
        dtype = getattr(config, "dtype", None) or getattr(config, "torch_dtype", None)
    if isinstance(dtype, str):
        dtype = getattr(torch, dtype.removeprefix("torch."), None)
    return safetensors_dtype(dtype) if isinstance(dtype, torch.dtype) else None


def _build(model_class: Any, attachment: Attachment, configured: Configured, dtype: Any) -> tuple[Any, Any]:
    """The model over the resident weights, reported with the mode that its addresses prove."""
    chosen, config = configured.model_class or concrete(model_class, configured.config), configured.config
    taken = take(attachment)
    weights = taken.tensors
    if attachment.gpu is not None:
        weights = {name: _staying(tensor) for name, tensor in weights.items()}
    words = {name: value for name, value in configured.words.items() if name not in _HUB_WORDS}
    model, info = chosen.from_pretrained(None, config=config, state_dict=weights, dtype=dtype, output_loading_info=True, **words)
    _require_complete(info, words, str(attachment.question.spelling))
    if attachment.gpu is not None:
        model.to(f"cuda:{attachment.gpu.ordinal}")  # what is no weight, such as rotary buffers; tensors that are there already stay
    report_taken(attachment, taken, _distinct_tensors(model))
    return model, info


def _staying(tensor: torch.Tensor) -> torch.Tensor:
    """The same tensor, which stays on its device when it is told to go to another one.

    Without a device map transformers sends every weight to the host before it puts it into the model. With one it first allocates as much
    GPU memory again as the model has, only to fill its allocator's pool: mapped weights need none.
    """
    return tensor.as_subclass(_staying_class())


@functools.cache
def _staying_class() -> type[torch.Tensor]:
    import torch

    class Staying(torch.Tensor):
        def to(self, *words: Any, **named: Any) -> torch.Tensor:
            dtype = named.get("dtype") or next((word for word in words if isinstance(word, torch.dtype)), None)
            plain = self.as_subclass(torch.Tensor)
            found = plain if dtype is None else plain.to(dtype)
            told = named.get("device") is not None or any(isinstance(word, (str, int, torch.device)) for word in words)
            return found if told else found.as_subclass(Staying)

    return Staying


def _distinct_tensors(model: Any) -> list[torch.Tensor]:
    """Parameters and persistent buffers, tied ones once. Other buffers are made by the model and come from no checkpoint."""
    found = {(tensor.device, tensor.data_ptr(), tensor.numel()): tensor for tensor in model.state_dict().values() if tensor.numel()}
    return list(found.values())


def _require_complete(info: Mapping[str, Any], words: Mapping[str, Any], where: str) -> None:
    missing = sorted(map(str, info["missing_keys"]))
    if not words.get("ignore_mismatched_sizes"):
        missing += sorted(str(item[0] if isinstance(item, tuple) else item) for item in info["mismatched_keys"])
    if missing:
        shown = ", ".join(missing[:4]) + (f" and {len(missing) - 4} more" if len(missing) > 4 else "")
        raise MissingTensor(
            f"the model needs {len(missing)} tensor{'' if len(missing) == 1 else 's'} that the checkpoint does not have: {shown}",
            where=where,
            remedy="use the model class that the checkpoint was made with",
        )


def _finish(model: Any, checkpoint: str | os.PathLike[str], hub_words: Mapping[str, Any], given: Any, overrides: Mapping[str, Any]) -> None:
    """What transformers takes from the directory beside the weights: how to generate, and with `trust_remote_code` by which code.

    `given` is the caller's generation configuration, which stands; `overrides` are single words of one.
    """
    import transformers

    model.config.name_or_path = os.fspath(checkpoint)
    if not model.can_generate():
        return
    adjust = getattr(model, "adjust_generation_fn", None)
    if adjust is not None:
        words = {"cache_dir": None, "local_files_only": False, "token": None, "revision": "main", "trust_remote_code": None, **hub_words}
        words |= {"force_download": False, "proxies": None, "subfolder": "", **overrides}
        adjust(given, False, None, os.fspath(checkpoint), **words)
    elif given is None:  # until 4.56 that was a part of from_pretrained
        with suppress(OSError):  # no generation_config.json: what the model has made of its configuration stands, as after a disk load
            model.generation_config = transformers.GenerationConfig.from_pretrained(os.fspath(checkpoint), **hub_words)


def _from_disk(
    model_class: Any, attachment: Attachment, checkpoint: str | os.PathLike[str], config: Any, device: Any, words: Mapping[str, Any]
) -> tuple[Any, Any]:
    """The library's own load, with the words that it was given; `config` only tells which files it reads."""
    began = time.monotonic()
    try:
        place = f"cuda:{attachment.gpu.ordinal}" if attachment.gpu is not None else device
        if named_device(place) != HOST and importlib.util.find_spec("accelerate") is not None:
            words = {**words, "device_map": {"": place}}
        with reference_only():
            model, info = model_class.from_pretrained(os.fspath(checkpoint), output_loading_info=True, **words)
        if named_device(place) != HOST:
            model.to(place)
        _require_complete(info, words, os.fspath(checkpoint))
    except BaseException as error:
        attachment.fallback_failed(error)
        raise
    attachment.fell_back(read_bytes(checkpoint, config, words), time.monotonic() - began)
    return model, info
