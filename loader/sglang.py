"""The SGLang plugin: `--load-format wcache`. SGLang calls `register()` in every process of a start.

Importing this needs the standard library only, since SGLang logs and swallows what goes wrong then, as it does inside `register()`. What
goes wrong later ends a start with one line and a record, and only a start that uses the load format.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
import itertools
import os
import secrets
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wcache.loader.engine_start import refuse, told

if TYPE_CHECKING:
    from wcache.core.settings import Settings
    from wcache.loader.question import Question

FORMAT = "wcache"
START_VARIABLE = "WCACHE_SGLANG_START"
"""What the processes of one start have in common: set by the first of them, inherited by those that it spawns."""

_TRACK = "enable_weights_track"
_DISK_KEYS = ("enable_multithread_load", "num_threads", _TRACK)
"""Keys of SGLang's own loader, handed on to it, and the one that vLLM has for not looking for parameters without a tensor."""

_DRAFT, _TAKES_STRAYS = "mtp.safetensors", "Glm4Moe"  # as its `maybe_add_mtp_safetensors` has them

_updates = itertools.count(1)
"""Live updates of this process: every rank counts the same ones."""

_ENGINE = "sglang.srt.entrypoints.engine"
_extra_of_start: dict[str, Any] = {}
"""The extra config that the start was given: a live update hands none to its loader, and is to follow the same policy."""


@functools.cache
def register() -> None:
    """Make the load format known in this process, and the start known to its children."""
    from sglang.srt.plugins.hook_registry import HookRegistry, HookType
    from sglang.srt.server_args import add_load_format_choices

    os.environ.setdefault(START_VARIABLE, _new_start())
    add_load_format_choices([FORMAT])
    HookRegistry.register("sglang.srt.configs.load_config.LoadConfig._verify_load_format", _accept, HookType.AROUND)
    if _ENGINE in sys.modules:  # an engine of this process: the next one is another start
        HookRegistry.register(f"{_ENGINE}.Engine._launch_subprocesses", _launching, HookType.BEFORE)


def _new_start() -> str:
    return "l-" + secrets.token_hex(8)


def _launching(*_arguments: Any, **_named: Any) -> None:
    os.environ[START_VARIABLE] = _new_start()


def _accept(verify: Any, load_config: Any) -> None:
    """Ours is no member of SGLang's enumeration, and stays a word. Loading is hooked by the process that will load, and by no other."""
    word = load_config.load_format
    if not isinstance(word, str) or word.lower() != FORMAT:
        verify(load_config)
        return
    load_config.load_format = FORMAT
    _hook_loading()


@functools.cache
def _hook_loading() -> None:
    from sglang.srt.plugins.hook_registry import HookRegistry, HookSource, HookType

    source = HookSource(FORMAT, "wcache-ledger")
    HookRegistry.register("sglang.srt.model_loader.loader.get_model_loader", _choose, HookType.AROUND, source=source)
    HookRegistry.register("sglang.srt.model_loader.loader.DefaultModelLoader.__init__", _from_disk, HookType.BEFORE, source=source)
    HookRegistry.apply_hooks()


def _from_disk(loader: Any, load_config: Any) -> Any:
    """Where SGLang builds its loader of files by itself, for a LoRA adapter, it is to read files, and that is no attach."""
    if load_config.load_format != FORMAT:
        return None
    extra = {key: value for key, value in load_config.model_loader_extra_config.items() if key in _DISK_KEYS and key != _TRACK}
    return (loader, dataclasses.replace(load_config, load_format="auto", model_loader_extra_config=extra)), {}


def _choose(original: Any, load_config: Any, model_config: Any = None) -> Any:
    """The loader that SGLang would take for a load from disk, which reads links to sealed memory after a hit."""
    if load_config.load_format != FORMAT:
        return original(load_config, model_config)
    from sglang.srt.model_loader.loader import DefaultModelLoader

    if load_config.model_loader_extra_config:
        _extra_of_start.clear()
        _extra_of_start.update(load_config.model_loader_extra_config)
    try:
        parse = importlib.import_module("wcache.loader.engine_options").parse_options
        importlib.import_module("wcache.loader.engine_weights")  # and all that it needs
    except Exception as error:  # a broken installation raises anything
        refuse(error, lambda: _asked(model_config))
    with told():
        options = parse(_extra_of_start, _DISK_KEYS)
        tracked = options.disk.pop(_TRACK, True)
        _require_raw(options.tensors, tracked)
        plain = dataclasses.replace(load_config, load_format="auto", model_loader_extra_config=options.disk)
        loader = original(plain, model_config)
        if not isinstance(loader, DefaultModelLoader):
            _unsupported(f"SGLang loads this model by {type(loader).__name__}, which reads no checkpoint", "use --load-format auto")
    kind: Any = type(loader)
    loader.__class__ = _reading_links(kind)  # it was chosen by SGLang, and is not to be built a second time
    loader.options, loader.tracked = options, tracked
    return loader


@functools.cache
def _reading_links(chosen: Any) -> type:
    """SGLang's loader of this kind, with another place to read from."""
    from wcache.loader.unwritten import marked

    class WcacheModelLoader(chosen):  # type: ignore[misc, unused-ignore]
        options: Any
        tracked: bool
        _weights: Any = None  # of the load that is under way
        _building: ExitStack
        _takes_strays: bool = False

        def load_model(self, *, model_config: Any, device_config: Any) -> Any:
            with told(), ExitStack() as self._building, self._attaching(model_config) as weights:
                if self.tracked:
                    self._building.enter_context(marked())
                model = super().load_model(model_config=model_config, device_config=device_config)
                if not weights.asked:
                    weights.place_of(model_config.model_path, model_config.revision, f"{chosen.__name__} read the model by itself")
                return model

        def _get_all_weights(self, model_config: Any, model: Any) -> Any:
            """SGLang has built the model, and hands what comes out of this to its `load_weights`."""
            if self._weights is not None:
                self._building.close()
                self._weights.model = model
                if self.tracked:
                    _check_once(model)
            return super()._get_all_weights(model_config, model)

        def _get_weights_iterator(self, source: Any, **more: Any) -> Any:
            """Outside of a load this is a live update, decided before SGLang touches the model: a miss that ends it changes nothing."""
            if self._weights is not None:
                return super()._get_weights_iterator(source, **more)
            with ExitStack() as until_attached:
                until_attached.enter_context(told("update"))
                until_attached.enter_context(self._attaching(source.model_config, f"-u{next(_updates)}"))
                tensors = super()._get_weights_iterator(source, **more)
                return _through(tensors, until_attached.pop_all())

        def _prepare_weights(self, model_name_or_path: str, revision: Any, *how: Any, **named: Any) -> Any:
            if self._weights is None:
                return super()._prepare_weights(model_name_or_path, revision, *how, **named)
            place = self._weights.place_of(model_name_or_path, revision, _obstacle(how, named) or self._stray(model_name_or_path, revision))
            if place != model_name_or_path:
                return super()._prepare_weights(place, None, *how, **named)
            found = super()._prepare_weights(model_name_or_path, revision, *how, **named)
            self._weights.read_from(model_name_or_path, found[1])
            return found

        def _stray(self, spelling: str, revision: Any) -> str:
            return _stray_draft(spelling, revision) if self._takes_strays else ""

        @contextmanager
        def _attaching(self, model_config: Any, update: str = "") -> Iterator[Any]:
            from sglang.version import __version__

            from wcache.loader.engine_weights import Weights
            from wcache.loader.mapping import safetensors_dtype
            from wcache.loader.sglang_place import engine_of, launch_of, ranks_of

            kinds = getattr(model_config.hf_config, "architectures", None) or ()
            self._takes_strays = any(kind.startswith(_TAKES_STRAYS) for kind in kinds)
            self._weights = weights = Weights(
                self.options.settings,
                dtype=safetensors_dtype(model_config.dtype),
                engine=engine_of(model_config, __version__),
                ranks=ranks_of(),
                launch=launch_of() + update,
            )
            try:
                with weights.settled():
                    yield weights
            finally:
                self._weights = None

    return WcacheModelLoader


def _through(tensors: Any, attached: ExitStack) -> Iterator[Any]:
    with attached:
        yield from tensors


def _check_once(model: Any) -> None:
    """After the model's next `load_weights`, and before its tensors are processed: none of them may be what the allocator left there."""
    load = model.load_weights

    def load_weights(*arguments: Any, **named: Any) -> Any:
        from wcache.core.model.errors import MissingTensor
        from wcache.loader.unwritten import unwritten

        del model.load_weights
        loaded = load(*arguments, **named)
        names = unwritten(model)
        if names:
            raise MissingTensor(
                f"the model needs tensors that the checkpoint does not have: {', '.join(names[:8])}"
                + (f" and {len(names) - 8} more" if len(names) > 8 else ""),
                remedy=f'use the model that the checkpoint was made for; "{_TRACK}": false starts with whatever memory held',
            )
        return loaded

    model.load_weights = load_weights


def _obstacle(how: tuple[Any, ...], named: dict[str, Any]) -> str:
    """Why this cannot come from a residency: `allow_patterns_overrides`, where SGLang has it, is the last argument."""
    from sglang.srt.runtime_context import get_server_args

    patterns = named.get("allow_patterns_overrides", how[1] if len(how) > 1 else None)
    if patterns:
        return f"the model takes only {patterns} of the checkpoint"
    return "--model-checksum is about files" if getattr(get_server_args(), "model_checksum", None) else ""


def _stray_draft(spelling: str, revision: str | None) -> str:
    """SGLang adds a draft's layers to the files of the index where they lie beside them. No residency of the checkpoint has those."""
    from wcache.core.checkpoint.checkpoint import open_checkpoint
    from wcache.core.checkpoint.spelling import resolve_root
    from wcache.core.model.errors import WcacheError

    with suppress(WcacheError):  # what is wrong with the checkpoint is told by its attach
        beside = (Path(resolve_root(spelling, revision).root) / _DRAFT).is_file()
        if beside and _DRAFT not in {file.name for file in open_checkpoint(spelling, revision=revision).location.files}:
            return f"{_DRAFT} is none of the checkpoint's shards, and SGLang reads it too"
    return ""


def _require_raw(tensors: str, tracked: object) -> None:
    from wcache.core.model.errors import UsageError

    if tensors != "raw":
        _unsupported("SGLang's processed tensors are not shared", "use tensors=raw, or leave it out")
    if not isinstance(tracked, bool):
        raise UsageError(f"{_TRACK} is {tracked!r}", where="model_loader_extra_config", remedy="it must be true or false")


def _unsupported(what: str, remedy: str) -> None:
    from wcache.core.model.errors import Unsupported

    raise Unsupported(what, where="--load-format wcache", remedy=remedy)


def _asked(model_config: Any) -> tuple[Question, Settings]:
    """Who wants which weights, by what can be imported of a broken wcache."""
    from sglang.version import __version__

    from wcache.loader.engine_options import parse_options
    from wcache.loader.question import make_question
    from wcache.loader.sglang_place import engine_of, launch_of, ranks_of

    engine = engine_of(model_config, __version__)
    question = make_question(
        model_config.model_path, revision=model_config.revision, engine=engine, ranks=ranks_of(), launch=launch_of()
    )  # fmt: skip
    return question, parse_options(_extra_of_start, _DISK_KEYS).settings
