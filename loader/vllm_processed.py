"""What vLLM made of the weights, shared: mapped into a model that is built without memory, and published by the engine that had to make it.

vLLM from 0.30 on knows tensors that are processed already, and says which kinds of layer it takes so. An earlier one does not, and gets the
kinds whose processing changes no weight. On a CPU every vLLM would pack linear layers into copies of its own, so that is held off here on
both sides, and both compute with the same plain kernel.
"""

from __future__ import annotations

import platform
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import msgspec

from wcache.core.model.errors import MappingFailed, MissingTensor, Unsupported, WcacheError
from wcache.core.model.vocabulary import Kind
from wcache.core.settings import Settings
from wcache.loader import log
from wcache.loader.attach import Attachment, attach
from wcache.loader.publish import publish
from wcache.loader.storages import BUFFER, PARAMETER
from wcache.loader.vllm_key import key_of
from wcache.loader.vllm_place import engine_of, launch_of, ranks_of

UNCHANGED = frozenset({"UnquantizedLinearMethod", "UnquantizedEmbeddingMethod"})
"""What leaves weights as they were read, on NVIDIA GPUs and, with `plain_layout`, on CPUs: read in vLLM 0.20, 0.26 and 0.29."""

_ATTRIBUTE = ""

_decided_early: list[Processed] = []
"""At most one: the model of this rank, decided when vLLM asked for its memory, until vLLM loads it."""


def external_memory(settings: Settings, vllm_config: Any) -> int:
    """Bytes of the device that the model's weights take outside of this process. vLLM asks before it sizes anything, and before it loads:
    only a hit takes any, so the attach is decided now, and `processed_of` hands the same to the load."""
    processed = Processed(settings, vllm_config, vllm_config.model_config, "")
    _decided_early[:] = [processed]
    attachment = processed.decided()
    return attachment.packed.memory_bytes if attachment.hit and attachment.packed is not None else 0


def processed_of(settings: Settings, vllm_config: Any, model_config: Any, prefix: str) -> Processed:
    """What was decided for this model already, or an attach that is still to come. Raises as Processed does."""
    processed = Processed(settings, vllm_config, model_config, prefix)
    for early in list(_decided_early):
        _decided_early.clear()
        if early.asks_as(processed):
            return early
        early.close()
        log.logger.warning("What vLLM loads is not what it asked the memory of, so that is decided anew")
    return processed


class Processed:
    """One model of one rank. Where `attached()` has none, the engine loads as ever and hands what it made to `publish()`."""

    def __init__(self, settings: Settings, vllm_config: Any, model_config: Any, prefix: str) -> None:
        """Raises EvidenceUnavailable where there is no key."""
        import torch
        import vllm

        self._settings = msgspec.structs.replace(settings, policy=msgspec.structs.replace(settings.policy, on_miss="fallback"))
        self._vllm_config = vllm_config
        self._model_config = model_config
        self._prefix = prefix
        self._engine = engine_of(model_config, vllm.__version__)
        self._ranks = ranks_of(vllm_config)
        self.device = torch.device(vllm_config.load_config.device or vllm_config.device_config.device)
        versions = {"vllm": vllm.__version__, "torch": torch.__version__}
        self._key = key_of(vllm_config, model_config, hardware(self.device), versions)
        self._attachment: Attachment | None = None
        self._began_s = time.monotonic()

    def asks_as(self, other: Processed) -> bool:
        return (self._model_config.model, self._prefix, self._key) == (other._model_config.model, other._prefix, other._key)

    def close(self) -> None:
        if self._attachment is not None:
            self._attachment.close()

    def attached(self) -> Any | None:
        """The model over mapped tensors, or None after a miss, which is no error under any policy: raw tensors come next."""
        attachment = self.decided()
        return self._built(attachment) if attachment.hit else None

    def decided(self) -> Attachment:
        """Decided once, whoever asks first."""
        if self._attachment is not None:
            return self._attachment
        with log.falling_back_to("raw tensors"):
            self._attachment = attach(
                self._model_config.model,
                revision=self._model_config.revision,
                settings=self._settings,
                kind=Kind.PROCESSED,
                config=self._key,
                device=device_name(self.device),
                engine=self._engine,
                ranks=self._ranks,
                launch=launch_of(self._vllm_config),
            )
        return self._attachment

    def _built(self, attachment: Attachment) -> Any | None:
        layers = self._vllm_config.compilation_config.static_forward_context
        before = set(layers)
        try:
            return self._build(attachment)
        except Exception as error:  # vLLM's own code runs in there; it can still load as ever
            if attachment.hit:
                attachment.map_failed(error if isinstance(error, WcacheError) else MappingFailed(f"{type(error).__name__}: {error}"))
            for name in set(layers) - before:
                del layers[name]
            return None

    def publish(self, model: Any, raw: Attachment | None, read_bytes: int, set_by_loading: Sequence[str]) -> None:
        """After the engine loaded by itself, by the raw hit or from disk. `set_by_loading`: what that set of the model beside tensors. What
        cannot be published is said and changes nothing."""
        source = self._attachment
        if source is not None:
            source.fell_back(read_bytes, time.monotonic() - self._began_s)
        if raw is not None and raw.hit:
            source = raw
        try:
            _require_shareable(model, set_by_loading)
            tensors, roles = _of_model(model, self.device)
            info = publish(tensors, attachment=source, config=self._key, roles=roles, engine=self._engine, ranks=self._ranks)
        except WcacheError as error:
            log.logger.warning("Nothing was published for the next start: %s", error.diagnostics())
            return
        lineage = f"{info.lineage.value} lineage" + (f" ({info.unproven_why})" if info.unproven_why else "")
        verb = "Found" if info.reused else "Published"
        log.logger.info("%s %d processed tensors as %s for the next start, %s", verb, info.tensors, info.residency, lineage)

    def _build(self, attachment: Attachment) -> Any:
        import torch
        from vllm.model_executor.model_loader.utils import initialize_model, process_weights_after_loading
        from vllm.utils.torch_utils import set_default_torch_dtype

        with set_default_torch_dtype(self._model_config.dtype):
            with torch.device("meta"):
                model = initialize_model(vllm_config=self._vllm_config, model_config=self._model_config, prefix=self._prefix)
            homes = _homes(model)
            attributes = _reconcile(model, attachment)
            attachment.into(model)
            _follow(model, homes)
            for part, name in attributes:
                part.__dict__[name] = part._buffers.pop(name)
            _materialise_empty(model, self.device)
            with _already_processed(), plain_layout(self.device):
                process_weights_after_loading(model, self._model_config, self.device)
        left = [
            f"{path}.{name}"
            for path, part in model.named_modules()
            for held in (part._parameters, part._buffers, part.__dict__, *_beside(part))
            for name, tensor in _tensors(held)
            if tensor.is_meta
        ]
        if left:
            raise MissingTensor(
                f"the model needs tensors that were not published: {', '.join(left[:4])}", where=attachment.question.spelling
            )
        return model.eval()


def _already_processed() -> AbstractContextManager[None]:
    """Within it vLLM transforms no tensor that is there; an earlier one has only layers that would not anyway."""
    try:
        from vllm.model_executor.utils import weights_already_processed
    except ImportError:
        return nullcontext()
    return weights_already_processed()  # type: ignore[no-any-return, unused-ignore]


@contextmanager
def plain_layout(device: Any) -> Iterator[None]:
    """On a CPU linear layers keep their weights as they are, instead of private copies that are packed for one kernel."""
    if device.type != "cpu":
        yield
        return
    import torch
    from vllm.model_executor.layers import utils

    def keep(layer: Any, remove_weight: bool) -> None:
        layer.cpu_linear = torch.nn.functional.linear

    packing = utils.dispatch_cpu_unquantized_gemm
    utils.dispatch_cpu_unquantized_gemm = keep
    try:
        yield
    finally:
        utils.dispatch_cpu_unquantized_gemm = packing


def hardware(device: Any) -> str:
    """What vLLM chooses kernels by, beside its configuration."""
    import torch

    if device.type == "cuda":
        properties = torch.cuda.get_device_properties(device)
        return f"{properties.name}, compute capability {properties.major}.{properties.minor}"
    return f"{platform.machine()}, {torch.backends.cpu.get_cpu_capability()}"


def device_name(device: Any) -> str:
    """As residencies are named: `cpu`, or the UUID of a GPU."""
    if device.type != "cuda":
        return str(device.type)
    import torch

    from wcache.core.memory.cuda import find
    from wcache.core.memory.device import DeviceName

    return find(DeviceName(index=torch.cuda.current_device() if device.index is None else device.index)).uuid


def _of_model(model: Any, device: Any) -> tuple[dict[str, Any], dict[str, str]]:
    """Every tensor of the model on its device, by name, and its role: none for what is only an attribute of a layer."""
    found = {}
    roles = {}
    for path, part in model.named_modules(remove_duplicate=False):
        for held, role in ((part._parameters, PARAMETER), (part._buffers, BUFFER), (part.__dict__, _ATTRIBUTE)):
            for name, tensor in _tensors(held):
                if tensor.device.type == device.type and (role or tensor.numel()):
                    full_name = f"{path}.{name}" if path else name
                    found[full_name], roles[full_name] = tensor, role
    return found, roles


def _reconcile(model: Any, attachment: Attachment) -> list[tuple[Any, str]]:
    """Give the empty model the parameters and buffers that processing left in the one that was published, and no others. The attributes
    among them, by layer and name, are buffers until they are filled."""
    import torch

    parts = dict(model.named_modules(remove_duplicate=False))
    memory = attachment.memory()
    found = memory.tensors()
    attributes = []
    for path, part in parts.items():
        for held in (part._parameters, part._buffers):
            for name, _ in list(_tensors(held)):
                if (f"{path}.{name}" if path else name) not in found:
                    del held[name]
    for place in memory.table.tensors:
        path, _, name = place.name.rpartition(".")
        part = parts.get(path)
        if part is None:
            raise MappingFailed("the model has no such part", where=place.name)
        held = part._parameters if place.role == PARAMETER else part._buffers
        tensor, old = found[place.name], held.get(name)
        if old is not None and (old.shape, old.dtype) == (tensor.shape, tensor.dtype):
            continue
        for others in (part._parameters, part._buffers, part.__dict__):
            others.pop(name, None)
        empty = torch.empty(tensor.shape, dtype=tensor.dtype, device="meta")
        if place.role == PARAMETER:
            part.register_parameter(name, torch.nn.Parameter(empty, requires_grad=False))
        else:
            part.register_buffer(name, empty, persistent=False)
            if place.role == _ATTRIBUTE:
                attributes.append((part, name))
    return attributes


def _homes(model: Any) -> dict[int, tuple[Any, Any, str]]:
    """Of every parameter and buffer, by its identity: itself, which keeps that its own, its layer and its name."""
    return {
        id(tensor): (tensor, part, name)
        for part in model.modules()
        for held in (part._parameters, part._buffers)
        for name, tensor in _tensors(held)
    }


def _follow(model: Any, homes: Mapping[int, tuple[Any, Any, str]]) -> None:
    """Plain objects of a layer that hold a tensor of the model, as an attention backend holds the sinks, get the one that is there now."""
    for part in model.modules():
        for held in _beside(part):
            for name, tensor in list(_tensors(held)):
                if id(tensor) in homes:
                    _, owner, own_name = homes[id(tensor)]
                    held[name] = owner._parameters.get(own_name, owner._buffers.get(own_name, tensor))


def _beside(part: Any) -> Iterator[dict[str, Any]]:
    """The attributes of the plain objects that a layer has."""
    import torch

    for value in part.__dict__.values():
        if not isinstance(value, (torch.nn.Module, torch.Tensor, type)) and isinstance(getattr(value, "__dict__", None), dict):
            yield value.__dict__


def _materialise_empty(model: Any, device: Any) -> None:
    """Attributes without a byte, which vLLM makes as placeholders, are nothing to publish."""
    import torch

    for part in model.modules():
        for held in (part.__dict__, *_beside(part)):
            for name, tensor in list(_tensors(held)):
                if tensor.is_meta and not tensor.numel():
                    held[name] = torch.empty_like(tensor, device=device)


def plain_values(model: Any) -> dict[str, bool | int | float | str | None]:
    """The attributes of the model's layers that are no objects, by their full names."""
    return {
        f"{path}.{name}" if path else name: value
        for path, part in model.named_modules()
        for name, value in part.__dict__.items()
        if value is None or isinstance(value, (bool, int, float, str))
    }


def set_since(before: Mapping[str, object], model: Any) -> list[str]:
    """The names of what `plain_values` finds now and did not find, or found otherwise, before."""
    return [name for name, value in plain_values(model).items() if name not in before or before[name] != value]


def _require_shareable(model: Any, set_by_loading: Sequence[str] = ()) -> None:
    """Raises Unsupported naming a layer that vLLM cannot take processed, or an attribute that a model without loading would not have."""
    for name in set_by_loading:
        raise Unsupported("loading sets it, and only tensors are shared", where=name, remedy="use tensors=raw")
    for name, part in model.named_modules():
        method = getattr(part, "quant_method", None)
        takes = getattr(method, "supports_pre_processed_weights", type(method).__name__ in UNCHANGED)
        if method is not None and not takes:
            raise Unsupported(f"vLLM cannot take processed tensors of {type(method).__name__}", where=name, remedy="use tensors=raw")


def _tensors(held: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    import torch

    for name, value in held.items():
        if isinstance(value, torch.Tensor):
            yield name, value
