"""The keys of an engine's `--model-loader-extra-config` for the load format `wcache`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from wcache.core.model.errors import UsageError
from wcache.core.model.policy import Policy
from wcache.core.settings import Settings, load_settings

_OWN = ("tensors", "fallback", "mode", "socket_dir")
_MODES = {"raw": "copy", "processed": "zero_copy"}
"""Raw tensors are copied into the engine's own layout; processed ones are used where they lie."""
DISK_KEYS = ("enable_multithread_load", "num_threads", "enable_weights_track")
"""Keys of vLLM's own loader, handed on to it: it reads the shards, from memory or from disk."""
_SETTINGS = ("runtime_dir", "state_dir", "ledger", "daemon_uid", *Policy.__struct_fields__)


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """`disk` is what the engine's own loader is given."""

    settings: Settings
    tensors: Literal["raw", "processed"] = "raw"
    disk: dict[str, Any] = {}


def parse_options(extra: object, disk_keys: tuple[str, ...] = DISK_KEYS) -> Options:
    """Raises UsageError naming the first key that is unknown, contradicts another, or has a value that cannot be meant.

    `fallback` and `socket_dir` are what operators of other weight caches write for `on_miss` and `runtime_dir`.
    """
    if not isinstance(extra, Mapping):
        raise UsageError(f"the extra config is {type(extra).__name__}, not a JSON object", where="model_loader_extra_config")
    for key in extra:
        if key not in (known := (*_OWN, *_SETTINGS, *disk_keys)):
            raise _refused(str(key), "is no key of the load format wcache", f"known: {', '.join(known)}")
    tensors = extra.get("tensors", "raw")
    if tensors not in ("raw", "processed"):
        raise _refused("tensors", f"is {tensors!r}", "it must be raw or processed")
    mode = extra.get("mode", _MODES[tensors])
    if mode != _MODES[tensors]:
        raise _refused("mode", f"is {mode!r}", f"with tensors = {tensors} it must be {_MODES[tensors]}")
    words = {name: extra[name] for name in _SETTINGS if name in extra}
    if "fallback" in extra:
        if not isinstance(extra["fallback"], bool):
            raise _refused("fallback", f"is {extra['fallback']!r}", "it must be true or false")
        _add(words, "on_miss", "fallback" if extra["fallback"] else "strict", "fallback")
    if "socket_dir" in extra:
        _add(words, "runtime_dir", extra["socket_dir"], "socket_dir")
    disk = {key: extra[key] for key in disk_keys if key in extra}
    return Options(settings=load_settings(**words), tensors=tensors, disk=disk)


def _add(words: dict[str, Any], name: str, value: object, key: str) -> None:
    if words.setdefault(name, value) != value:
        raise _refused(key, f"says {name} = {value!r}, and {name} is {words[name]!r}", f"give one of {key} and {name}")


def _refused(key: str, what: str, remedy: str) -> UsageError:
    return UsageError(f"{key} {what}", where="model_loader_extra_config", remedy=remedy)
