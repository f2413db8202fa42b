"""A hit is the model that transformers builds from the disk; where that is another one than the cache has, nothing is mapped."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
import transformers

from wcache.core.model.errors import StrictMiss, Unsupported
from wcache.core.model.events import AttachDecided, FallbackCompleted
from wcache.loader import from_pretrained


@pytest.fixture(scope="module")
def sharded(shared_disk: Path) -> Path:
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        hidden_size=16, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2, num_key_value_heads=1, vocab_size=32
    )
    place = shared_disk / "sharded"
    transformers.LlamaForCausalLM(config).save_pretrained(place, max_shard_size="4KB")
    assert len(list(place.glob("model-*.safetensors"))) > 1
    return place


def weights(place: Path, factor: float = 1.0) -> dict[str, torch.Tensor]:
    found: dict[str, torch.Tensor] = {}
    for shard in sorted(place.glob("model-*.safetensors")):
        found.update(safetensors.torch.load_file(shard))
    return {name: tensor * factor for name, tensor in found.items()}


def whole_beside_the_index(place: Path) -> str:
    safetensors.torch.save_file(weights(place, 3), place / "model.safetensors", {"format": "pt"})
    return "model.safetensors"


def named_by_the_configuration(place: Path) -> str:
    safetensors.torch.save_file(weights(place, 3), place / "alt.safetensors", {"format": "pt"})
    config = json.loads((place / "config.json").read_text())
    (place / "config.json").write_text(json.dumps({**config, "transformers_weights": "alt.safetensors"}))
    return "alt.safetensors"


def pickled_beside_another_name(place: Path) -> str:
    torch.save(weights(place, 3), place / "pytorch_model.bin")
    safetensors.torch.save_file(weights(place), place / "consolidated.safetensors", {"format": "pt"})
    for file in (*place.glob("model-*.safetensors"), place / "model.safetensors.index.json"):
        file.unlink()
    return "pytorch_model.bin"


@pytest.mark.parametrize("change", [whole_beside_the_index, named_by_the_configuration, pickled_beside_another_name])
def test_a_file_that_transformers_prefers_is_not_hit_past(
    shared_host: Any, sharded: Path, disk_path: Path, change: Callable[[Path], str]
) -> None:
    place = shutil.copytree(sharded, disk_path / "m")
    preferred = change(place)
    shared_host.daemon.load(place)
    with pytest.raises(StrictMiss, match=f"unsupported: .*transformers begins with {preferred}"):
        from_pretrained(None, place, settings=shared_host.settings)
    model = from_pretrained(None, place, settings=shared_host.settings, on_miss="fallback")
    reference = transformers.AutoModelForCausalLM.from_pretrained(place)
    assert torch.equal(model.lm_head.weight, reference.lm_head.weight)
    assert torch.equal(model.lm_head.weight, weights(sharded, 3)["lm_head.weight"])
    decided, completed = shared_host.record.last(AttachDecided), shared_host.record.last(FallbackCompleted)
    assert (decided.outcome, decided.reason, decided.attach) == ("fallback", "unsupported", completed.attach)
    assert completed.bytes == (place / preferred).stat().st_size


def test_an_index_that_leads_to_the_preferred_file_is_hit(shared_host: Any, sharded: Path, disk_path: Path) -> None:
    place = shutil.copytree(sharded, disk_path / "m")
    whole_beside_the_index(place)
    index = {"metadata": {}, "weight_map": dict.fromkeys(weights(place), "model.safetensors")}
    (place / "model.safetensors.index.json").write_text(json.dumps(index))
    shared_host.daemon.load(place)
    model = from_pretrained(None, place, settings=shared_host.settings)
    assert torch.equal(model.lm_head.weight, weights(sharded, 3)["lm_head.weight"])


def test_pickled_weights_that_were_asked_for_are_refused(shared_host: Any, sharded: Path) -> None:
    with pytest.raises(Unsupported, match="use_safetensors=False"):
        from_pretrained(None, sharded, use_safetensors=False, settings=shared_host.settings)


@pytest.mark.parametrize("installed", [True, False])
def test_an_adapter_beside_the_weights_is_not_dropped(
    shared_host: Any, sharded: Path, disk_path: Path, monkeypatch: pytest.MonkeyPatch, installed: bool
) -> None:
    """Without peft transformers does not look at it."""
    place = shutil.copytree(sharded, disk_path / "m")
    (place / "adapter_config.json").write_text(json.dumps({"peft_type": "LORA", "base_model_name_or_path": "m"}))
    shared_host.daemon.load(place)
    if not installed:
        assert from_pretrained(None, place, settings=shared_host.settings) is not None
        return
    (disk_path / "lib" / "peft").mkdir(parents=True)
    (disk_path / "lib" / "peft" / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(disk_path / "lib")
    with pytest.raises(StrictMiss, match=r"unsupported: .*adapter_config\.json"):
        from_pretrained(None, place, settings=shared_host.settings)


_CODE = """
from transformers import LlamaForCausalLM


class Doubled(LlamaForCausalLM):
    def forward(self, *words, **named):
        found = super().forward(*words, **named)
        found.logits = found.logits * 2
        return found
"""


def test_code_of_the_checkpoints_own_is_run_where_it_is_trusted(
    shared_host: Any, sharded: Path, disk_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr("transformers.dynamic_module_utils.HF_MODULES_CACHE", str(disk_path / "modules"))
    place = shutil.copytree(sharded, disk_path / "m")
    (place / "modeling_doubled.py").write_text(_CODE)
    config = json.loads((place / "config.json").read_text())
    (place / "config.json").write_text(json.dumps({**config, "auto_map": {"AutoModelForCausalLM": "modeling_doubled.Doubled"}}))
    shared_host.daemon.load(place)
    auto = transformers.AutoModelForCausalLM
    assert type(from_pretrained(auto, place, settings=shared_host.settings)).__name__ == "LlamaForCausalLM"
    with pytest.raises(StrictMiss, match=r"unsupported: .*trust_remote_code"):
        from_pretrained(auto, place, trust_remote_code=True, settings=shared_host.settings)
    model = from_pretrained(auto, place, trust_remote_code=True, settings=shared_host.settings, on_miss="fallback")
    assert type(model).__name__ == "Doubled"
    named = from_pretrained(transformers.LlamaForCausalLM, place, trust_remote_code=True, settings=shared_host.settings)
    assert type(named).__name__ == "LlamaForCausalLM", "a class that was named is that class"


def test_another_cache_than_the_one_that_was_looked_into_is_not_hit_past(
    shared_host: Any, sharded: Path, disk_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    caches = [disk_path / "mine", disk_path / "other"]
    for cache in caches:
        shutil.copytree(sharded, cache / "models--a--b" / "snapshots" / "0123abc")
        (cache / "models--a--b" / "refs").mkdir()
        (cache / "models--a--b" / "refs" / "main").write_text("0123abc")
    monkeypatch.setenv("HF_HUB_CACHE", str(caches[0]))
    shared_host.daemon.load(caches[0] / "models--a--b" / "snapshots" / "0123abc")
    words = {"config": transformers.AutoConfig.from_pretrained(sharded), "local_files_only": True, "settings": shared_host.settings}
    assert from_pretrained(None, "a/b", cache_dir=caches[0], **words) is not None
    with pytest.raises(StrictMiss, match=r"unsupported: .*cache in .*other"):
        from_pretrained(None, "a/b", cache_dir=caches[1], **words)
