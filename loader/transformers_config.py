"""The configuration of a transformers model, and the words that are meant for it: both as the library itself takes them apart."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, NamedTuple

from wcache.core.model.errors import Unsupported

_NEVER_CONFIGURATION = ("quantization_config", "attn_implementation", "experts_implementation")


class Configured(NamedTuple):
    """`config` is for `model_class`, a class that can be built, or None where there is none for that configuration. `words` are left for
    its `from_pretrained`; `generation` are those that transformers also puts into the generation configuration."""

    config: Any
    model_class: Any
    words: dict[str, Any]
    generation: dict[str, Any]


def configure(
    model_class: Any, checkpoint: str | os.PathLike[str], given: Any, hub_words: Mapping[str, Any], words: Mapping[str, Any]
) -> Configured:
    """As `model_class.from_pretrained(checkpoint, config=given, **hub_words, **words)` does it (transformers 4.56 to 5.24): an Auto class
    goes by the checkpoint's model type, any other class reads its own kind of configuration out of the same file."""
    import transformers

    auto = model_class is None or hasattr(model_class, "_model_mapping")
    if isinstance(given, transformers.PretrainedConfig):
        config, left, generation = given, dict(words), {}
    else:
        kind = transformers.AutoConfig if auto else getattr(model_class, "config_class", None) or transformers.AutoConfig
        source = checkpoint if auto or given is None else given
        hub = {name: value for name, value in hub_words.items() if kind is transformers.AutoConfig or name != "trust_remote_code"}
        kept = {name: words[name] for name in _NEVER_CONFIGURATION if name in words}
        asked = {name: value for name, value in words.items() if name not in kept and name not in hub_words}
        config, unused = kind.from_pretrained(os.fspath(source), return_unused_kwargs=True, **hub, **asked)
        left = {name: value for name, value in words.items() if name in kept or name in unused}
        generation = {} if auto else {name: value for name, value in asked.items() if name not in unused and hasattr(config, name)}
    chosen = model_class
    try:
        chosen = concrete(model_class, config)
    except Unsupported:
        return Configured(config, None, left, generation)
    return Configured(_of_text(chosen, config) if auto else config, chosen, left, generation)


def named_class(model_class: Any, config: Any) -> Any:
    """The class that was asked for; for None the one that the configuration names."""
    import transformers

    if model_class is not None:
        return model_class
    named = (getattr(config, "architectures", None) or [""])[0]
    return getattr(transformers, named, None) or transformers.AutoModel


def concrete(model_class: Any, config: Any) -> Any:
    """The class to build. Auto classes choose one by a path, which there is none for mapped weights, so it is chosen here. Raises
    Unsupported where the Auto class has none."""
    model_class = named_class(model_class, config)
    mapping = getattr(model_class, "_model_mapping", None)
    if mapping is None:
        return model_class
    from transformers.models.auto.auto_factory import _get_model_class

    try:
        return _get_model_class(config, mapping)  # type: ignore[no-untyped-call, unused-ignore]
    except KeyError:
        raise Unsupported(f"{model_class.__name__} has no class for {type(config).__name__}", remedy="pass the model's class") from None


def _of_text(chosen: Any, config: Any) -> Any:
    """The part of a composite configuration that an Auto class hands to a class for text alone."""
    part = (getattr(config, "sub_configs", None) or {}).get("text_config")
    if part is None or getattr(chosen, "config_class", None) != part:
        return config
    found = config.get_text_config()
    if (quantization := getattr(config, "quantization_config", None)) is not None:
        found.quantization_config = quantization
    return found
