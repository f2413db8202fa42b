"""The vLLM plugin: `--load-format wcache`. vLLM calls `register()` in every process of a start.

Importing this needs the standard library only, since vLLM swallows what goes wrong then. What goes wrong later ends a start with one
line and a record, and only a start that uses the load format.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
import itertools
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wcache.loader.engine_start import log_as, refuse, told

if TYPE_CHECKING:
    from wcache.core.settings import Settings
    from wcache.loader.question import Question

START_VARIABLE = "WCACHE_VLLM_START"
"""What the processes of one start have in common: set by the first of them, inherited by those that it spawns."""

_reloads = itertools.count(1)
"""Of this process: every rank counts the same ones. Each is a launch of its own, or one that missed would look like a failed start."""

_loaded: list[tuple[Any, str]] = []
"""Of this process: the configuration and the launch of its model, drafts aside, for its reloads: before 0.29 vLLM tells those neither."""


@functools.cache
def register() -> None:
    """Make the load format known in this process, and the start known to its children."""
    from vllm.model_executor.model_loader import register_model_loader

    os.environ.setdefault(START_VARIABLE, "l-" + secrets.token_hex(6))
    register_model_loader("wcache")(loader_class())


@functools.cache
def loader_class() -> type:
    """vLLM's own loader, which reads links to sealed memory after a hit, and the disk after a miss."""
    import vllm
    from vllm.config import get_current_vllm_config
    from vllm.model_executor.model_loader.default_loader import DefaultModelLoader

    class WcacheModelLoader(DefaultModelLoader):  # type: ignore[misc, unused-ignore]
        """vLLM builds one for each model of a start, one for each reload, and on a GPU one more, first of all, that is asked how much
        memory of the device the weights take outside of the process."""

        def __init__(self, load_config: Any) -> None:
            self._asked_config = load_config
            self._vllm_config: Any = None
            self._options: Any = None
            self._weights: Any = None  # of the load that is under way
            self._settled: Any = None  # of the one before
            self._form: list[str] = []  # of the model, before it was loaded
            self._set_by_loading: list[str] = []
            self._broken: Exception | None = None
            try:
                options = importlib.import_module("wcache.loader.engine_options")
                importlib.import_module("wcache.loader.engine_weights")  # and all that it needs
            except Exception as error:  # a broken installation raises anything; which checkpoint it keeps from loading is not known yet
                self._broken = error
            else:
                log_as("vllm")
                with told():
                    self._options = options.parse_options(load_config.model_loader_extra_config)
            disk = self._options.disk if self._options else {}
            super().__init__(dataclasses.replace(load_config, load_format="auto", model_loader_extra_config=disk))
            if getattr(self, "enable_weights_track", False) is None:
                self.enable_weights_track = True  # vLLM looks for parameters without a tensor in models without quantization only

        def get_external_weight_memory(self, vllm_config: Any) -> int:
            """None where raw tensors are copied, and where a broken installation is about to end the start."""
            if self._broken is not None or self._options.tensors == "raw":
                return 0
            from wcache.loader.vllm_processed import external_memory

            with told():
                return external_memory(self._options.settings, vllm_config)

        def load_model(self, vllm_config: Any, model_config: Any, prefix: str = "") -> Any:
            if self._broken is not None:
                log_as("vllm")
                refuse(self._broken, lambda: _asked(vllm_config, model_config, self._asked_config, vllm.__version__))
            self._vllm_config = vllm_config
            if model_config.runner_type != "draft":
                _loaded[:] = [self._start()]
            with told():
                if self._options.tensors == "raw" or model_config.runner_type == "draft":
                    return super().load_model(vllm_config=vllm_config, model_config=model_config, prefix=prefix)
                return self._load_processed(vllm_config, model_config, prefix)

        def _load_processed(self, vllm_config: Any, model_config: Any, prefix: str) -> Any:
            from wcache.loader.vllm_processed import plain_layout, processed_of

            refuse_writers(vllm_config, model_config)
            processed = processed_of(self._options.settings, vllm_config, model_config, prefix)
            model = processed.attached()
            if model is None:
                with plain_layout(processed.device):
                    model = super().load_model(vllm_config=vllm_config, model_config=model_config, prefix=prefix)
                processed.publish(model, self._settled.source, self._settled.read_bytes, self._form, self._set_by_loading)
            return model

        def load_weights(self, model: Any, model_config: Any) -> None:
            with self._watching(model), self._attaching(model, model_config):
                super().load_weights(model, model_config)

        @contextmanager
        def _watching(self, model: Any) -> Iterator[None]:
            """What a publish has to know of the model, and of what loading does to it beside filling tensors."""
            if self._options.tensors == "raw":
                yield
                return
            from wcache.loader.vllm_form import form_of, plain_values, set_since

            self._form, before = form_of(model), plain_values(model)
            yield
            self._set_by_loading = set_since(before, model)

        def get_all_weights(self, model_config: Any, model: Any) -> Iterator[Any]:
            """Outside of a load this is a reload: vLLM asks a new loader for the tensors and for nothing else. It empties the model once it
            has their iterator, so what cannot be reloaded is refused before, and the first tensor is taken to know it."""
            if self._weights is not None:
                return super().get_all_weights(model_config, model)  # type: ignore[no-any-return, unused-ignore]
            with told("reload"):
                refuse_reload(self._options)
            tensors = self._reloaded(model_config, model)
            return itertools.chain(list(itertools.islice(tensors, 1)), tensors)

        def _reloaded(self, model_config: Any, model: Any) -> Iterator[Any]:
            with told("reload"), self._attaching(model, model_config, f"-u{next(_reloads)}"):
                yield from super().get_all_weights(model_config, model)

        def _prepare_weights(
            self, model_name_or_path: str, subfolder: Any, revision: Any, fall_back_to_pt: bool, allow_patterns_overrides: Any
        ) -> Any:
            if self._weights is None:
                return super()._prepare_weights(model_name_or_path, subfolder, revision, fall_back_to_pt, allow_patterns_overrides)
            parts = subfolder or allow_patterns_overrides
            obstacle = f"the model takes only {parts} of the checkpoint" if parts else other_choice(model_name_or_path)
            place = self._weights.place_of(model_name_or_path, revision, obstacle)
            if place != model_name_or_path:
                return super()._prepare_weights(place, None, None, fall_back_to_pt, None)
            found = super()._prepare_weights(model_name_or_path, subfolder, revision, fall_back_to_pt, allow_patterns_overrides)
            self._weights.read_from(model_name_or_path, found[1])
            return found

        def _start(self) -> tuple[Any, str]:
            from wcache.loader.vllm_place import launch_of

            current = get_current_vllm_config()  # a draft's own configuration is a copy that says it is another instance
            return self._vllm_config or current, launch_of(current)

        @contextmanager
        def _attaching(self, model: Any, model_config: Any, reload: str = "") -> Iterator[None]:
            from wcache.loader.engine_weights import Weights
            from wcache.loader.mapping import safetensors_dtype
            from wcache.loader.vllm_place import engine_of, ranks_of

            vllm_config, launch = self._start() if self._vllm_config or not _loaded else _loaded[0]
            self._weights = Weights(
                self._options.settings,
                dtype=safetensors_dtype(model_config.dtype),
                engine=engine_of(model_config, vllm.__version__),
                ranks=ranks_of(vllm_config),
                launch=launch + reload,
            )
            try:
                with self._weights.settled(model):
                    yield
            finally:
                self._weights, self._settled = None, self._weights

    return WcacheModelLoader


def other_choice(directory: str) -> str:
    """Why vLLM reads other files there than a checkpoint's own: those of Mistral's own format before an index, and without an index all.
    "" where it does not, and for what is no directory."""
    try:
        names = sorted(path.name for path in Path(directory).iterdir() if path.name.endswith((".safetensors", ".safetensors.index.json")))
    except OSError:
        return ""
    if any(name.startswith("consolidated") for name in names):
        return "vLLM begins with consolidated*.safetensors there"
    if "model.safetensors.index.json" not in names and "model.safetensors" in names and len(names) > 1:
        return f"vLLM reads each of {', '.join(names[:4])} there"
    return ""


def refuse_writers(vllm_config: Any, model_config: Any) -> None:
    """Of an engine that maps processed tensors: whatever of vLLM writes into weights while it serves. Raises Unsupported."""
    from wcache.core.model.errors import Unsupported

    parallel = vllm_config.parallel_config
    writers = {
        "sleep mode gives up memory that is vLLM's own": model_config.enable_sleep_mode,
        "balancing experts (enable_eplb) moves weights": parallel.enable_eplb,
        "elastic expert parallelism moves weights": getattr(parallel, "enable_elastic_ep", False),
        "weight transfer writes weights": vllm_config.weight_transfer_config is not None,
    }
    for what, asked in writers.items():
        if asked:
            raise Unsupported(f"{what}, and mapped tensors are shared and read-only", remedy="use tensors=raw")


def refuse_reload(options: Any) -> None:
    """As `refuse_writers`, of vLLM's reload_weights."""
    from wcache.core.model.errors import Unsupported

    if options.tensors != "raw":
        raise Unsupported("processed tensors are mapped and cannot be loaded anew", where="reload_weights", remedy="use tensors=raw")


def _asked(vllm_config: Any, model_config: Any, load_config: Any, version: str) -> tuple[Question, Settings]:
    """Who wants which weights, by what can be imported of a broken wcache."""
    from wcache.loader.engine_options import parse_options
    from wcache.loader.question import make_question
    from wcache.loader.vllm_place import engine_of, launch_of, ranks_of

    question = make_question(
        model_config.model,
        revision=model_config.revision,
        engine=engine_of(model_config, version),
        ranks=ranks_of(vllm_config),
        launch=launch_of(vllm_config),
    )
    return question, parse_options(load_config.model_loader_extra_config).settings
