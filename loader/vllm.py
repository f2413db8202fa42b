"""The vLLM plugin: `--load-format wcache`. vLLM calls `register()` in every process of a start.

Importing this needs the standard library only, since vLLM swallows what goes wrong then. What goes wrong later ends a start with one
line and a record, and only a start that uses the load format.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
import logging
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

START_VARIABLE = "WCACHE_VLLM_START"
"""What the processes of one start have in common: set by the first of them, inherited by those that it spawns."""


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
        """vLLM builds one for each model of a start, one for each reload, and on a GPU one more that is asked how much memory lies
        outside of the process: none, since raw tensors are copied."""

        def __init__(self, load_config: Any) -> None:
            self._asked_config = load_config
            self._vllm_config: Any = None
            self._options: Any = None
            self._weights: Any = None  # of the load that is under way
            self._settled: Any = None  # of the one before
            self._broken: Exception | None = None
            try:
                options = importlib.import_module("wcache.loader.vllm_options")
                importlib.import_module("wcache.loader.vllm_weights")  # and all that it needs
            except Exception as error:  # a broken installation raises anything; which checkpoint it keeps from loading is not known yet
                self._broken = error
            else:
                _log_as_vllm_does()
                with _told():
                    self._options = options.parse_options(load_config.model_loader_extra_config)
            disk = self._options.disk if self._options else {}
            super().__init__(dataclasses.replace(load_config, load_format="auto", model_loader_extra_config=disk))
            if getattr(self, "enable_weights_track", False) is None:
                self.enable_weights_track = True  # vLLM looks for parameters without a tensor in models without quantization only

        def load_model(self, vllm_config: Any, model_config: Any, prefix: str = "") -> Any:
            if self._broken is not None:
                _refuse(self._broken, vllm_config, model_config, load_config=self._asked_config, version=vllm.__version__)
            self._vllm_config = vllm_config
            with _told():
                if self._options.tensors == "raw" or model_config.runner_type == "draft":
                    return super().load_model(vllm_config=vllm_config, model_config=model_config, prefix=prefix)
                return self._load_processed(vllm_config, model_config, prefix)

        def _load_processed(self, vllm_config: Any, model_config: Any, prefix: str) -> Any:
            from wcache.loader.vllm_processed import Processed, plain_layout

            processed = Processed(self._options.settings, vllm_config, model_config, prefix)
            model = processed.attached()
            if model is None:
                with plain_layout(processed.device):
                    model = super().load_model(vllm_config=vllm_config, model_config=model_config, prefix=prefix)
                processed.publish(model, self._settled.source, self._settled.read_bytes)
            return model

        def load_weights(self, model: Any, model_config: Any) -> None:
            with self._attaching(model, model_config):
                super().load_weights(model, model_config)

        def get_all_weights(self, model_config: Any, model: Any) -> Iterator[Any]:
            if self._weights is not None:
                yield from super().get_all_weights(model_config, model)
                return
            with _told(), self._attaching(model, model_config):  # a reload: vLLM asks a new loader for the tensors and for nothing else
                yield from super().get_all_weights(model_config, model)

        def _prepare_weights(
            self, model_name_or_path: str, subfolder: Any, revision: Any, fall_back_to_pt: bool, allow_patterns_overrides: Any
        ) -> Any:
            if self._weights is None:
                return super()._prepare_weights(model_name_or_path, subfolder, revision, fall_back_to_pt, allow_patterns_overrides)
            parts = subfolder or allow_patterns_overrides
            obstacle = f"the model takes only {parts} of the checkpoint" if parts else ""
            place = self._weights.place_of(model_name_or_path, revision, obstacle)
            if place != model_name_or_path:
                return super()._prepare_weights(place, None, None, fall_back_to_pt, None)
            found = super()._prepare_weights(model_name_or_path, subfolder, revision, fall_back_to_pt, allow_patterns_overrides)
            self._weights.read_from(model_name_or_path, found[1])
            return found

        @contextmanager
        def _attaching(self, model: Any, model_config: Any) -> Iterator[None]:
            from wcache.loader.mapping import safetensors_dtype
            from wcache.loader.vllm_place import engine_of, launch_of, ranks_of
            from wcache.loader.vllm_weights import Weights

            vllm_config = self._vllm_config or get_current_vllm_config()
            self._weights = Weights(
                self._options.settings,
                dtype=safetensors_dtype(model_config.dtype),
                engine=engine_of(model_config, vllm.__version__),
                ranks=ranks_of(vllm_config),
                launch=launch_of(get_current_vllm_config()),  # a draft's own configuration is a copy that says it is another instance
            )
            try:
                with self._weights.settled(model):
                    yield
            finally:
                self._weights, self._settled = None, self._weights

    return WcacheModelLoader


def _log_as_vllm_does() -> None:
    """vLLM gives handlers and a level to its own logger only: without them, what is said of a hit would be lost."""
    ours, theirs = logging.getLogger("wcache"), logging.getLogger("vllm")
    if theirs.handlers and not ours.handlers:
        for handler in theirs.handlers:
            ours.addHandler(handler)
        ours.setLevel(theirs.level or logging.INFO)
        ours.propagate = theirs.propagate


@contextmanager
def _told() -> Iterator[None]:
    """Say an error of ours in one line before vLLM prints where it came from."""
    from wcache.core.model.errors import WcacheError

    try:
        yield
    except WcacheError as error:
        logging.getLogger("wcache").error("No weights from the weight cache, and no start without them: %s", error.diagnostics())
        raise


def _refuse(cause: Exception, vllm_config: Any, model_config: Any, *, load_config: Any, version: str) -> NoReturn:
    """Some of wcache cannot be imported here. What can be writes it down."""
    what = f"wcache cannot be imported in this environment ({type(cause).__name__}: {cause})"
    _log_as_vllm_does()
    logger = logging.getLogger("wcache")
    try:
        from wcache.core.model.errors import Unsupported
        from wcache.loader.question import make_question
        from wcache.loader.record import record_refusal
        from wcache.loader.vllm_options import parse_options
        from wcache.loader.vllm_place import engine_of, launch_of, ranks_of

        problem = Unsupported(what, where=model_config.model, remedy="install it together with what it needs, or use --load-format auto")
        question = make_question(
            model_config.model,
            revision=model_config.revision,
            engine=engine_of(model_config, version),
            ranks=ranks_of(vllm_config),
            launch=launch_of(vllm_config),
        )
        record_refusal(question, parse_options(load_config.model_loader_extra_config).settings, problem)
    except Exception as error:
        logger.error("This could not be recorded (%s: %s): %s", type(error).__name__, error, what)
        raise ImportError(what) from cause
    logger.error("No weights from the weight cache, and no start without them: %s", problem.diagnostics())
    raise problem from cause
