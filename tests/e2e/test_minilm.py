"""A second architecture through the cache: an encoder in float32, in one safetensors file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file


def test_mapped_weights_give_the_disks_embeddings(host: Any, minilm: Path, tmp_path: Path) -> None:
    """all-MiniLM-L6-v2 through `from_pretrained(AutoModel, …)` in a new process: bit-equal, and every parameter in sealed memory."""
    host.engine("embeddings", minilm, "disk", "float32", tmp_path / "disk")
    report = host.engine("embeddings", minilm, "wcache", "float32", tmp_path / "mapped", on_miss="strict")
    disk, mapped = load_file(tmp_path / "disk")["result"], load_file(tmp_path / "mapped")["result"]
    assert torch.equal(disk.view(torch.uint8), mapped.view(torch.uint8))
    assert report["mapped"] == report["parameters"] > 0
    last = host.attaches()[-1]
    assert (last["decision"], last["mode"]) == ("hit", "zero_copy")
    assert Path(last["checkpoint"]).name == minilm.name
