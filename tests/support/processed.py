"""A small engine: it fuses, transposes, slices, strides and ties what it loaded, as real ones do after loading.

`python -m support.processed CHECKPOINT CONFIG [ACCEPT [GPU]]` is another process of it, which attaches its post-load tensors into a module
without memory and prints the digest of what it computes.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file

WIDTH, WORDS = 32, 96
DIALECT = {"dtype": "float32", "tensor_parallel_size": 1, "architectures": ["Tiny"]}


class Weight(torch.nn.Parameter):
    """As engines have them: a parameter of a class of its own, with attributes."""


class Tiny(torch.nn.Module):
    """Its parameters as they are after loading: `queries` is a slice of `fused`, `down` is transposed in memory, `norm` every other of a
    longer row, `head` is tied to `embed`; `scale` is a persistent buffer, `angles` one that it makes itself."""

    def __init__(self) -> None:
        super().__init__()

        def parameter(tensor: torch.Tensor) -> torch.nn.Parameter:
            return torch.nn.Parameter(tensor, requires_grad=False)

        self.embed = torch.nn.Embedding(WORDS, WIDTH)
        self.embed.weight.requires_grad_(False)
        self.head = torch.nn.Linear(WIDTH, WORDS, bias=False)
        self.head.weight = self.embed.weight
        self.fused = Weight(torch.empty(3 * WIDTH, WIDTH), requires_grad=False)
        self.fused.output_dim = 0  # type: ignore[attr-defined]
        self.queries = parameter(torch.empty(WIDTH, WIDTH))
        self.down = parameter(torch.empty(WIDTH, WIDTH).t())
        self.norm = parameter(torch.empty(2 * WIDTH)[::2])
        self.small = parameter(torch.empty(WIDTH, dtype=torch.bfloat16))
        self.none = parameter(torch.empty(0, WIDTH))
        self.register_buffer("scale", torch.ones(()))
        self.register_buffer("angles", torch.ones(WIDTH), persistent=False)

    def load(self, raw: Mapping[str, torch.Tensor]) -> None:
        """What an engine's post-processing does."""
        with torch.no_grad():
            self.embed.weight.copy_(raw["embed"])
            self.fused.copy_(torch.cat([raw["q"], raw["k"], raw["v"]]))
            self.queries = torch.nn.Parameter(self.fused.data[:WIDTH], requires_grad=False)
            self.down = torch.nn.Parameter(raw["down"].t().contiguous().t(), requires_grad=False)
            self.norm.copy_(raw["norm"])
            self.small.copy_(raw["norm"])
            self.scale.fill_(float(raw["scale"]))
            self.make_angles()

    def make_angles(self) -> None:
        self.angles = torch.arange(WIDTH, device=self.embed.weight.device) / WIDTH

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        hidden = self.embed(words) * self.norm + self.angles
        query, key, value = (hidden @ self.fused.t()).chunk(3, -1)
        mixed = (query * key + value + hidden @ self.queries) @ self.down
        found: torch.Tensor = self.head(mixed * self.scale * self.small.float())
        return found


def make_raw(seed: int = 0) -> dict[str, torch.Tensor]:
    """The checkpoint's tensors."""
    source = torch.Generator().manual_seed(seed)
    square = (WIDTH, WIDTH)
    shapes: dict[str, tuple[int, ...]] = {"embed": (WORDS, WIDTH), "q": square, "k": square, "v": square, "down": square, "norm": (WIDTH,)}
    made = {name: torch.randn(shape, generator=source) for name, shape in shapes.items()}
    return {**made, "scale": torch.tensor(0.5)}


def make_directory(path: Path, seed: int = 0) -> Path:
    path.mkdir(parents=True)
    save_file(make_raw(seed), path / "model.safetensors")
    return path


def from_disk(path: Path, device: str = "cpu") -> Tiny:
    return loaded(load_file(path / "model.safetensors"), device)


def loaded(raw: Mapping[str, torch.Tensor], device: str = "cpu") -> Tiny:
    with torch.device(device):  # moved afterwards, `norm` would lose its stride
        made = Tiny()
    made.load({name: tensor.to(device) for name, tensor in raw.items()})
    return made.eval()


def hollow(device: str = "cpu") -> Tiny:
    """Without memory, but for what the model makes itself."""
    with torch.device("meta"):
        made = Tiny().eval()
    made.angles = torch.arange(WIDTH, device=device) / WIDTH
    return made


def answer(model: Tiny) -> str:
    """A digest of every bit that it computes."""
    with torch.no_grad():
        return hashlib.sha256(model(torch.arange(WORDS, device=model.embed.weight.device)).cpu().numpy().tobytes()).hexdigest()


def main(arguments: list[str]) -> None:
    from wcache.core.model.config import normalise_config
    from wcache.loader.attach import attach

    words: dict[str, Any] = dict(zip(("accept", "device"), arguments[2:], strict=False))
    found = attach(arguments[0], kind="processed", config=normalise_config(json.loads(arguments[1])), on_miss="strict", **words)
    model = hollow("cuda" if "device" in words else "cpu")
    found.into(model)
    print(answer(model))


if __name__ == "__main__":
    main(sys.argv[1:])
