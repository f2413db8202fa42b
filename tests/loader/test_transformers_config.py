"""A hit has the configuration, the dtype and the way of generating that a load from disk would have."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import safetensors.torch
import torch
import transformers
from transformers import AutoModel, AutoModelForCausalLM, GenerationConfig, LlamaForCausalLM, MistralForCausalLM

from wcache.core.model.errors import StrictMiss
from wcache.core.model.events import MapCompleted
from wcache.loader import from_pretrained

SIZES = {"hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "vocab_size": 64}


class Asked(NamedTuple):
    """What is saved, what becomes of the directory, and how it is asked for."""

    saved: Callable[[], Any]
    change: Callable[[Path], None]
    model_class: Any
    words: dict[str, Any]


def llama(**words: Any) -> Any:
    return LlamaForCausalLM(transformers.LlamaConfig(**SIZES, num_key_value_heads=2, **words))


def gpt2() -> Any:
    config = transformers.GPT2Config(vocab_size=64, n_embd=32, n_layer=2, n_head=2, bos_token_id=1, eos_token_id=2)
    return transformers.GPT2LMHeadModel(config)


def clip() -> Any:
    text, vision = {**SIZES, "eos_token_id": 2, "bos_token_id": 1}, {**SIZES, "image_size": 16, "patch_size": 8}
    del vision["vocab_size"]
    return transformers.CLIPModel(transformers.CLIPConfig(text_config=text, vision_config=vision, projection_dim=16))


def llama4() -> Any:
    text = {**SIZES, "num_key_value_heads": 2, "head_dim": 16, "num_local_experts": 2, "intermediate_size_mlp": 32, "pad_token_id": 0}
    vision = {
        "hidden_size": 32,
        "intermediate_size": 128,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "image_size": 16,
        "patch_size": 8,
    }
    vision |= {"projector_input_dim": 32, "projector_output_dim": 32, "vision_output_dim": 32}
    return transformers.Llama4ForConditionalGeneration(transformers.Llama4Config(text_config=text, vision_config=vision))


def unchanged(place: Path) -> None:
    pass


def configured(place: Path, **words: Any) -> None:
    config = json.loads((place / "config.json").read_text())
    found = {name: value for name, value in {**config, **words}.items() if value is not None}
    (place / "config.json").write_text(json.dumps(found))


def generation_in_the_configuration(place: Path) -> None:
    (place / "generation_config.json").unlink()
    configured(place, num_beams=4, max_length=33)


def code_for_generation(place: Path) -> None:
    (place / "custom_generate").mkdir()
    (place / "custom_generate" / "generate.py").write_text("def generate(model, **words):\n    return 'mine'\n")


def no_dtype(place: Path) -> None:
    configured(place, dtype=None)


def no_dtype_and_one_wider_tensor(place: Path) -> None:
    """In the file the wider one comes first, by name another does."""
    no_dtype(place)
    weights = safetensors.torch.load_file(place / "model.safetensors")
    weights["model.norm.weight"] = weights["model.norm.weight"].float()
    safetensors.torch.save_file(weights, place / "model.safetensors", {"format": "pt"})


def dtype_in_the_index(place: Path) -> None:
    no_dtype(place)
    (place / "model.safetensors").rename(place / "model-00001-of-00001.safetensors")
    names = safetensors.torch.load_file(place / "model-00001-of-00001.safetensors")
    index = {"metadata": {"dtype": "float16"}, "weight_map": dict.fromkeys(names, "model-00001-of-00001.safetensors")}
    (place / "model.safetensors.index.json").write_text(json.dumps(index))


ASKED = {
    "its configuration says how to generate": Asked(llama, generation_in_the_configuration, AutoModelForCausalLM, {}),
    "the caller says how": Asked(llama, unchanged, AutoModelForCausalLM, {"generation_config": GenerationConfig(num_beams=7)}),
    "a keyword says how": Asked(llama, unchanged, LlamaForCausalLM, {"use_cache": False}),
    "its code generates": Asked(llama, code_for_generation, AutoModelForCausalLM, {"trust_remote_code": True}),
    "a keyword by another name": Asked(gpt2, unchanged, AutoModelForCausalLM, {"num_hidden_layers": 1}),
    "a configuration by its path": Asked(llama, unchanged, LlamaForCausalLM, {"config": "."}),
    "one half of two": Asked(clip, unchanged, transformers.CLIPVisionModel, {}),
    "another class": Asked(llama, unchanged, MistralForCausalLM, {}),
    "the text of more": Asked(llama4, unchanged, AutoModelForCausalLM, {}),
    "the dtype of the first name": Asked(lambda: llama().bfloat16(), no_dtype_and_one_wider_tensor, AutoModelForCausalLM, {}),
    "the dtype of the index": Asked(llama, dtype_in_the_index, AutoModelForCausalLM, {}),
    "the weights nowhere": Asked(llama, unchanged, AutoModel, {"device_map": "meta"}),
}


@pytest.fixture(scope="module")
def places(shared_disk: Path) -> dict[str, Path]:
    """All at once: a daemon waits with a load until the files are two seconds old."""
    torch.manual_seed(0)
    made = {}
    for number, (name, asked) in enumerate(ASKED.items()):
        made[name] = shared_disk / f"as-on-disk-{number}"
        asked.saved().save_pretrained(made[name])
        asked.change(made[name])
    return made


def generation(model: Any) -> Any:
    return model.generation_config.to_dict() if model.can_generate() else None


@pytest.mark.parametrize("name", ASKED)
def test_a_hit_is_the_model_that_a_load_from_disk_gives(
    shared_host: Any, places: dict[str, Path], disk_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr("transformers.dynamic_module_utils.HF_MODULES_CACHE", str(disk_path))
    monkeypatch.syspath_prepend(disk_path)
    place, asked = places[name], ASKED[name]
    shared_host.daemon.load(place)
    words = {**asked.words, **({"config": str(place)} if "config" in asked.words else {})}
    model = from_pretrained(asked.model_class, place, settings=shared_host.settings, **words)
    reference = asked.model_class.from_pretrained(place, **words)
    assert shared_host.record.last(MapCompleted).tensors > 0
    assert (type(model), model.dtype, model.config.to_dict()) == (type(reference), reference.dtype, reference.config.to_dict())
    assert generation(model) == generation(reference)
    assert ("generate" in vars(model)) == ("generate" in vars(reference)) == (asked.change is code_for_generation)
    found, expected = model.state_dict(), reference.state_dict()
    assert {key: (one.dtype, one.device) for key, one in found.items()} == {name: (one.dtype, one.device) for name, one in expected.items()}
    assert all(tensor.is_meta or torch.equal(tensor, expected[key]) for key, tensor in found.items())


def test_weights_beside_the_checkpoint_that_transformers_reads_too_are_not_left_out(
    shared_host: Any, disk_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A head in a file of its own, as some configurations have it; parts of a distributed checkpoint."""
    place = disk_path / "m"
    llama().save_pretrained(place)
    shared_host.daemon.load(place)
    safetensors.torch.save_file({"x": torch.zeros(1)}, place / "head.safetensors")
    with monkeypatch.context() as patch:
        patch.setattr(transformers.LlamaConfig, "extra_files", ("head.safetensors",), raising=False)
        with pytest.raises(StrictMiss, match=r"unsupported: .*head\.safetensors"):
            from_pretrained(None, place, settings=shared_host.settings)
    assert from_pretrained(None, place, settings=shared_host.settings) is not None
    (place / "head.safetensors").rename(place / "shard-00000-model-00001-of-00001.safetensors")
    with pytest.raises(StrictMiss, match=r"unsupported: .*distributed checkpoint"):
        from_pretrained(None, place, settings=shared_host.settings)
