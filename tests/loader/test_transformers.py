"""A tiny random Llama on mapped weights: bit-equal, aliased, tied, complete (CASES A3 to A7)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
import transformers
from support.daemon import wait_until

from wcache.core.model.errors import MissingTensor, StrictMiss, UsageError
from wcache.core.model.events import AttachDecided, FallbackCompleted, MapCompleted, MapFailed, MapResumed, ReleaseCompleted
from wcache.core.settings import Settings
from wcache.loader import attachment_of, from_pretrained
from wcache.loader.attach import attach
from wcache.loader.transformers import _one_device, _staying

DTYPES = {"bfloat16": torch.bfloat16, "float32": torch.float32}


@pytest.fixture(scope="module")
def models(shared_disk: Path) -> dict[str, Path]:
    made = {}
    torch.manual_seed(0)
    for tied in (True, False):
        for name, dtype in DTYPES.items():
            config = transformers.LlamaConfig(
                hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, vocab_size=128,
                tie_word_embeddings=tied, eos_token_id=7,
            )  # fmt: skip
            place = shared_disk / f"{'tied' if tied else 'untied'}-{name}"
            model = transformers.LlamaForCausalLM(config).to(dtype)
            model.generation_config.update(eos_token_id=[7, 9], do_sample=True)
            model.save_pretrained(place, max_shard_size="100KB")
            made[place.name] = place
    return made


def logits(model: Any) -> torch.Tensor:
    with torch.no_grad():
        found: torch.Tensor = model(torch.arange(24).reshape(2, 12)).logits
    return found


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("ties", ["tied", "untied"])
@pytest.mark.parametrize("chosen", [None, transformers.AutoModelForCausalLM, transformers.LlamaForCausalLM])
def test_a_mapped_model_computes_what_the_disk_load_computes(
    shared_host: Any, models: dict[str, Path], ties: str, dtype: str, chosen: Any
) -> None:
    """A6, A7: rotary buffers and ties come out right, and nothing was copied."""
    place = models[f"{ties}-{dtype}"]
    shared_host.daemon.load(place)
    model = from_pretrained(chosen, place, settings=shared_host.settings)
    reference = transformers.AutoModelForCausalLM.from_pretrained(place)
    assert type(model) is type(reference) and model.dtype == reference.dtype == DTYPES[dtype]
    assert torch.equal(logits(model), logits(reference))
    assert model.generation_config.to_dict() == reference.generation_config.to_dict()
    assert model.config.name_or_path == reference.config.name_or_path and not model.training
    tied = model.lm_head.weight.data_ptr() == model.model.embed_tokens.weight.data_ptr()
    assert tied == (ties == "tied")
    mapped = shared_host.record.last(MapCompleted)
    parameters = {parameter.data_ptr(): parameter.nbytes for parameter in model.parameters()}
    assert (mapped.mode, mapped.copied_tensors, mapped.tensors) == ("zero_copy", 0, len(parameters))
    assert mapped.bytes == sum(parameters.values()), "tied bytes are counted once"
    assert (shared_host.record.last(AttachDecided).engine.name, shared_host.leases()) == ("transformers", 1)
    del model
    wait_until(lambda: shared_host.leases() == 0)


def test_weights_that_stay_on_their_device_are_built_into_a_plain_model(models: dict[str, Path]) -> None:
    """What a GPU needs of transformers, which sends every weight to the host on its way into the model."""
    weights: dict[str, torch.Tensor] = {}
    for shard in models["untied-float32"].glob("*.safetensors"):
        weights.update(safetensors.torch.load_file(shard))
    staying = {name: _staying(tensor) for name, tensor in weights.items()}
    for moved in (staying["lm_head.weight"].to("meta"), staying["lm_head.weight"].to(device="meta", dtype=torch.float32)):
        assert moved.device.type == "cpu" and moved.data_ptr() == weights["lm_head.weight"].data_ptr()
    assert staying["lm_head.weight"].to("meta", torch.float16).dtype == torch.float16
    config = transformers.AutoConfig.from_pretrained(models["untied-float32"])
    model = transformers.LlamaForCausalLM.from_pretrained(None, config=config, state_dict=staying)
    for name, parameter in model.named_parameters():
        assert type(parameter) is torch.nn.Parameter and type(parameter.data) is torch.Tensor
        assert parameter.data_ptr() == weights[name].data_ptr(), name
    assert torch.equal(logits(model), logits(transformers.AutoModelForCausalLM.from_pretrained(models["untied-float32"])))


@pytest.mark.parametrize(
    ("words", "device", "left"),
    [
        ({}, "cpu", {}),
        ({"device": "cuda:1"}, "cuda:1", {}),
        ({"device_map": "cuda:1"}, "cuda:1", {}),
        ({"device_map": {"": 1}}, 1, {}),
        ({"device_map": {"model": "cuda:0", "lm_head": "cuda:0"}}, "cuda:0", {}),
        ({"device_map": "cuda"}, "cuda:3", {}),
        ({"device_map": torch.device("cpu")}, torch.device("cpu"), {}),
        ({"device_map": "auto"}, "cpu", {"device_map": "auto"}),
        ({"device_map": {"model": 0, "lm_head": 1}}, "cpu", {"device_map": {"model": 0, "lm_head": 1}}),
        ({"device_map": {"": "disk"}}, "cpu", {"device_map": {"": "disk"}}),
    ],
)
def test_a_map_that_names_one_device_is_that_device_and_others_are_left_to_transformers(
    monkeypatch: pytest.MonkeyPatch, words: dict[str, Any], device: Any, left: dict[str, Any]
) -> None:
    monkeypatch.setenv("LOCAL_RANK", "3")
    found = dict(words)
    assert (_one_device(found), found) == (device, left)


def test_a_device_and_a_map_are_one_too_many(settings: Settings, models: dict[str, Path]) -> None:
    with pytest.raises(UsageError, match="device_map"):
        from_pretrained(None, models["tied-float32"], device="cpu", device_map="auto", settings=settings)


def test_a_copied_model_is_its_own_and_the_weights_are_released(host: Any, models: dict[str, Path]) -> None:
    place = models["tied-bfloat16"]
    loaded = host.daemon.load(place).residency
    model = from_pretrained(None, place, settings=host.settings, mode="copy")
    reference = transformers.AutoModelForCausalLM.from_pretrained(place)
    assert torch.equal(logits(model), logits(reference)) and model.lm_head.weight is model.model.embed_tokens.weight
    mapped = host.record.last(MapCompleted)
    assert (mapped.mode, mapped.copied_tensors) == ("copy", mapped.tensors)
    assert host.record.last(ReleaseCompleted).residency == loaded.residency and attachment_of(model) is None
    with pytest.raises(StrictMiss, match="released"):
        from_pretrained(None, place, settings=host.settings)


def test_the_attachment_of_a_model_pauses_it(shared_host: Any, models: dict[str, Path]) -> None:
    place = models["untied-float32"]
    shared_host.daemon.load(place)
    model = from_pretrained(None, place, settings=shared_host.settings)
    attachment = attachment_of(model)
    assert attachment is not None and attachment_of(model.lm_head.weight) is attachment
    before = logits(model)
    attachment.pause()
    attachment.resume()
    with attachment.explained_writes():
        assert torch.equal(logits(model), before)
    assert shared_host.record.last(MapResumed).attach == attachment.attach


def test_another_dtype_is_a_copy_on_record_and_needs_no_lease(shared_host: Any, models: dict[str, Path]) -> None:
    """A4, I12."""
    place = models["untied-bfloat16"]
    shared_host.daemon.load(place)
    model = from_pretrained(None, place, dtype=torch.float32, settings=shared_host.settings)
    reference = transformers.AutoModelForCausalLM.from_pretrained(place, dtype=torch.float32)
    assert torch.equal(logits(model), logits(reference)) and model.dtype == torch.float32
    decided, mapped = shared_host.record.last(AttachDecided), shared_host.record.last(MapCompleted)
    assert (decided.outcome, decided.mode, decided.asked_dtype) == ("hit", "copy", "F32")
    assert (mapped.mode, mapped.copied_tensors, mapped.copied_bytes) == ("copy", mapped.tensors, mapped.bytes)
    wait_until(lambda: shared_host.leases() == 0)


def test_a_write_into_a_parameter_stays_private(shared_host: Any, models: dict[str, Path]) -> None:
    """A5."""
    place = models["tied-float32"]
    shared_host.daemon.load(place)
    first = from_pretrained(None, place, settings=shared_host.settings)
    with torch.no_grad():
        first.model.norm.weight.add_(1)
    second = from_pretrained(None, place, settings=shared_host.settings)
    assert not torch.equal(first.model.norm.weight, second.model.norm.weight)
    assert torch.equal(second.model.norm.weight, attach(place, settings=shared_host.settings).tensors()["model.norm.weight"])


def test_a_base_model_takes_its_part(shared_host: Any, models: dict[str, Path]) -> None:
    place = models["untied-float32"]
    shared_host.daemon.load(place)
    model = from_pretrained(transformers.AutoModel, place, settings=shared_host.settings)
    reference = transformers.AutoModel.from_pretrained(place)
    with torch.no_grad():
        ids = torch.arange(5)[None]
        assert torch.equal(model(ids).last_hidden_state, reference(ids).last_hidden_state)
    assert shared_host.record.last(MapCompleted).copied_tensors == 0


def _without(place: Path, target: Path, name: str) -> Path:
    """The checkpoint as one file, without one tensor."""
    target.mkdir()
    tensors: dict[str, torch.Tensor] = {}
    for shard in sorted(place.glob("*.safetensors")):
        tensors.update(safetensors.torch.load_file(shard))
    del tensors[name]
    safetensors.torch.save_file(tensors, target / "model.safetensors", {"format": "pt"})
    (target / "config.json").write_text((place / "config.json").read_text())
    return target


@pytest.mark.parametrize("resident", [True, False])
def test_a_missing_tensor_is_an_error_never_a_random_one(host: Any, models: dict[str, Path], disk_path: Path, resident: bool) -> None:
    """A3, mapped and from disk."""
    place = _without(models["untied-float32"], disk_path / "m", "model.layers.1.mlp.up_proj.weight")
    if resident:
        host.daemon.load(place)
    with pytest.raises(MissingTensor, match=r"layers\.1\.mlp\.up_proj"):
        from_pretrained(None, place, settings=host.settings, on_miss="fallback")
    assert bool(host.record.of(MapFailed)) == resident


def test_a_fallback_is_the_librarys_own_load_and_recorded_with_the_idle_bytes(host: Any, models: dict[str, Path]) -> None:
    place, other = models["tied-float32"], models["tied-bfloat16"]
    held = host.daemon.load(other).residency
    with pytest.raises(StrictMiss):
        from_pretrained(None, place, settings=host.settings)
    model, info = from_pretrained(None, place, settings=host.settings, on_miss="fallback", output_loading_info=True)
    assert not info["missing_keys"]
    assert torch.equal(logits(model), logits(transformers.AutoModelForCausalLM.from_pretrained(place)))
    completed = host.record.last(FallbackCompleted)
    assert completed.bytes == sum(path.stat().st_size for path in place.glob("*.safetensors"))
    assert completed.idle_bytes >= held.bytes > 0


def test_a_configuration_may_be_given_or_changed_by_keyword(shared_host: Any, models: dict[str, Path]) -> None:
    place = models["tied-float32"]
    shared_host.daemon.load(place)
    config = transformers.AutoConfig.from_pretrained(place)
    config.rope_theta = 5.0
    given = from_pretrained(None, place, config=config, settings=shared_host.settings)
    assert given.config.rope_theta == 5.0
    model = from_pretrained(None, place, use_cache=False, attn_implementation="eager", settings=shared_host.settings)
    assert model.config.use_cache is False and model.config._attn_implementation == "eager"
    assert json.loads((place / "config.json").read_text())["use_cache"] is True
