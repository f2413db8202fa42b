"""What vLLM made of the weights, shared: mapped into a model that is built without memory, and published by the engine that had to make it.

vLLM from 0.30 on knows tensors that are processed already, and says which kinds of layer it takes so. An earlier one does not, and gets the
kinds whose processing changes no weight. On a CPU every vLLM would pack linear layers into copies of its own, so that is held off here on
both sides, and both compute with the same plain kernel.
"""

from __future__ import annotations

import importlib.metadata
import platform
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from typing import Any

import msgspec

from wcache.core.model.errors import MappingFailed, MissingTensor, Unsupported, WcacheError
from wcache.core.model.vocabulary import Kind
from wcache.core.settings import Settings
from wcache.loader import log
from wcache.loader.attach import Attachment, attach
from wcache.loader.publish import publish
from wcache.loader.storages import BUFFER, PARAMETER
from wcache.loader.vllm_form import FORM, as_tensor, beside, contained, difference, form_of, from_tensor, tensors_of
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
        versions = {"vllm": vllm.__version__, "torch": torch.__version__, **installed_kernels()}
        self._key = key_of(vllm_config, model_config, hardware(self.device), versions)
        self._attachment: Attachment | None = None
        self._unfit = False  # what was granted could not be mapped
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
        compilation = self._vllm_config.compilation_config
        layers, experts = compilation.static_forward_context, getattr(compilation, "static_all_moe_layers", [])
        before, experts_before = set(layers), len(experts)
        try:
            with _rotary_tables_of_its_own():
                return self._build(attachment)
        except Exception as error:  # vLLM's own code runs in there; it can still load as ever
            if attachment.hit:
                self._unfit = True
                with log.falling_back_to("raw tensors"):
                    attachment.map_failed(error if isinstance(error, WcacheError) else MappingFailed(f"{type(error).__name__}: {error}"))
            for name in set(layers) - before:
                del layers[name]
            del experts[experts_before:]
            return None

    def publish(self, model: Any, raw: Attachment | None, read_bytes: int, form: list[str], set_by_loading: Sequence[str]) -> None:
        """After the engine loaded by itself, by the raw hit or from disk. `form`: of the model before that; `set_by_loading`: what loading
        set of it beside tensors. What cannot be published is said and changes nothing."""
        source = self._attachment
        if source is not None:
            source.fell_back(read_bytes, time.monotonic() - self._began_s)
        if raw is not None and raw.hit:
            source = raw
        try:
            _require_shareable(model, set_by_loading)
            tensors, roles = _of_model(model, self.device)
            tensors[FORM], roles[FORM] = as_tensor(form, self.device), _ATTRIBUTE
            info = publish(tensors, attachment=source, config=self._key, roles=roles, engine=self._engine, ranks=self._ranks)
        except WcacheError as error:
            log.logger.warning("Nothing was published for the next start: %s", error.diagnostics())
            return
        if info.reused and self._unfit:
            log.logger.warning(
                "Nothing was published for the next start: %s, which could not be mapped here, has the same configuration; "
                "`wcache release` it to have another published", info.residency,
            )  # fmt: skip
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
            published = attachment.memory().tensors().get(FORM)
            if problem := difference([] if published is None else from_tensor(published), form_of(model)):
                raise MappingFailed(f"vLLM builds another model here: {problem}", where=attachment.question.spelling)
            homes = _homes(model)
            attributes = _reconcile(model, attachment)
            attachment.into(model)
            _follow(model, homes)
            for part, name, own in attributes:
                filled = part._buffers.pop(name)
                part.__dict__[name] = filled if own is None else own
            del model.__dict__[FORM]
            _materialise_empty(model, self.device)
            with _already_processed(), plain_layout(self.device):
                process_weights_after_loading(model, self._model_config, self.device)
        left = [
            f"{path}.{name}"
            for path, part in model.named_modules()
            for held in (part._parameters, part._buffers, part.__dict__, *beside(part))
            for name, tensor in tensors_of(held)
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
def _rotary_tables_of_its_own() -> Iterator[None]:
    """vLLM keeps the tables of rotary embeddings for all models of a process. A model without memory must neither take those of another
    nor, when nothing came of it, leave its own to the next."""
    from vllm.model_executor.layers import rotary_embedding

    kept = getattr(rotary_embedding, "_ROPE_DICT", {})
    before = dict(kept)
    kept.clear()
    try:
        yield
    except BaseException:
        kept.clear()
        raise
    finally:
        kept.update(before)


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


def installed_kernels() -> dict[str, str]:
    """Versions of what vLLM takes kernels from where it is installed, and with them layouts."""
    found = {}
    for name in ("flashinfer-python", "flashinfer-cubin", "flashinfer-jit-cache", "deep-gemm", "triton", "triton-kernels"):
        with suppress(importlib.metadata.PackageNotFoundError):
            found[name] = importlib.metadata.version(name)
    return found


def device_name(device: Any) -> str:
    """As residencies are named: `cpu`, or the UUID of a GPU."""
    if device.type != "cuda":
        return str(device.type)
    import torch

    from wcache.core.memory.cuda import find
    from wcache.core.memory.device import DeviceName

    return find(DeviceName(index=torch.cuda.current_device() if device.index is None else device.index)).uuid


def _of_model(model: Any, device: Any) -> tuple[dict[str, Any], dict[str, str]]:
    """Every tensor of the model on its device, by name, and its role: none for what is only an attribute of a layer. Raises Unsupported for
    a parameter or buffer that is elsewhere."""
    found = {}
    roles = {}
    for path, part in model.named_modules(remove_duplicate=False):
        for held, role in ((part._parameters, PARAMETER), (part._buffers, BUFFER), (part.__dict__, _ATTRIBUTE)):
            for name, tensor in tensors_of(held):
                full_name = f"{path}.{name}" if path else name
                if tensor.device.type == device.type and (role or tensor.numel()):
                    found[full_name], roles[full_name] = tensor, role
                elif role and tensor.numel():
                    raise Unsupported(f"it is on {tensor.device}, and not on {device}", where=full_name, remedy="use tensors=raw")
    return found, roles


def _reconcile(model: Any, attachment: Attachment) -> list[tuple[Any, str, Any]]:
    """Give the empty model the parameters and buffers that processing left in the one that was published, and no others. The attributes
    among them, by layer and name, are buffers until they are filled; what the model itself has there with memory of that device (its
    scratch) comes along, or None."""
    import torch

    parts = dict(model.named_modules(remove_duplicate=False))
    memory = attachment.memory()
    found = memory.tensors()
    attributes = []
    for path, part in parts.items():
        for held in (part._parameters, part._buffers):
            for name, _ in list(tensors_of(held)):
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
        own = part.__dict__.get(name)
        if not isinstance(own, torch.Tensor) or own.device.type != tensor.device.type or not own.numel():
            own = None  # vLLM makes some on the host where the model is built without memory
        for others in (part._parameters, part._buffers, part.__dict__):
            others.pop(name, None)
        empty = torch.empty(tensor.shape, dtype=tensor.dtype, device="meta")
        if place.role == PARAMETER:
            part.register_parameter(name, torch.nn.Parameter(empty, requires_grad=False))
        else:
            part.register_buffer(name, empty, persistent=False)
            if place.role == _ATTRIBUTE:
                attributes.append((part, name, own))
    return attributes


def _homes(model: Any) -> dict[int, tuple[Any, Any, str]]:
    """Of every parameter and buffer, by its identity: itself, which keeps that its own, its layer and its name."""
    return {
        id(tensor): (tensor, part, name)
        for part in model.modules()
        for held in (part._parameters, part._buffers)
        for name, tensor in tensors_of(held)
    }


def _follow(model: Any, homes: Mapping[int, tuple[Any, Any, str]]) -> None:
    """Plain objects of a layer that hold a tensor of the model, as an attention backend holds the sinks, get the one that is there now."""
    for part in model.modules():
        for held in beside(part):
            for name, tensor in list(tensors_of(held)):
                if id(tensor) in homes:
                    _, owner, own_name = homes[id(tensor)]
                    held[name] = owner._parameters.get(own_name, owner._buffers.get(own_name, tensor))


def _materialise_empty(model: Any, device: Any) -> None:
    """Attributes without a byte, which vLLM makes as placeholders, are nothing to publish."""
    import torch

    for part in model.modules():
        for held in (part.__dict__, *beside(part)):
            for name, tensor in list(tensors_of(held)):
                if tensor.is_meta and not tensor.numel():
                    held[name] = torch.empty_like(tensor, device=device)


def _require_shareable(model: Any, set_by_loading: Sequence[str] = ()) -> None:
    """Raises Unsupported naming a layer that vLLM cannot take processed, or something that a model without loading would not have."""
    for name in set_by_loading:
        raise Unsupported("loading sets it, and only tensors are shared", where=name, remedy="use tensors=raw")
    for name, part in model.named_modules():
        method = getattr(part, "quant_method", None)
        takes = getattr(method, "supports_pre_processed_weights", type(method).__name__ in UNCHANGED)
        if method is not None and not takes:
            raise Unsupported(f"vLLM cannot take processed tensors of {type(method).__name__}", where=name, remedy="use tensors=raw")
        for attribute in contained(part):
            raise Unsupported("it has tensors in it, which are not shared", where=f"{name}.{attribute}", remedy="use tensors=raw")
