"""A program of the tests: one engine process that loads a model from disk or through wcache and writes what it computes.

    engine.py {logits|embeddings} CHECKPOINT {disk|wcache} DTYPE OUTPUT

OUTPUT is a safetensors file with the tensor `result`; stdout is JSON: how many parameters lie in a memfd, by the kernel's own account.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from transformers import AutoModel, AutoModelForCausalLM, AutoTokenizer

PROMPTS = ("The capital of France is", "Two plus two is", "def fibonacci(n):")


def load(model_class: Any, checkpoint: str, how: str, dtype: torch.dtype) -> Any:
    if how == "disk":
        return model_class.from_pretrained(checkpoint, dtype=dtype)
    from wcache.loader import from_pretrained

    return from_pretrained(model_class, checkpoint, dtype=dtype)


def memfd_ranges() -> list[tuple[int, int]]:
    """Address ranges that proc_pid_maps(5) says are backed by a memfd."""
    lines = Path("/proc/self/maps").read_text(encoding="utf-8").splitlines()
    ranges = [line.split()[0].split("-") for line in lines if "memfd:" in line]
    return [(int(low, 16), int(high, 16)) for low, high in ranges]


def main() -> None:
    task, checkpoint, how, dtype_name, output = sys.argv[1:]
    torch.set_num_threads(1)  # other tests run beside this one
    torch.manual_seed(0)
    model = load(AutoModelForCausalLM if task == "logits" else AutoModel, checkpoint, how, getattr(torch, dtype_name)).eval()
    tokenizer = AutoTokenizer.from_pretrained(checkpoint)
    results = []
    with torch.no_grad():
        for prompt in PROMPTS:
            answer = model(**tokenizer(prompt, return_tensors="pt"))
            results.append((answer.logits if task == "logits" else answer.last_hidden_state.mean(dim=1)).reshape(-1))
    save_file({"result": torch.cat(results)}, output)
    ranges = memfd_ranges()
    parameters = {parameter.data_ptr(): parameter for parameter in model.parameters()}
    mapped = sum(any(low <= pointer < high for low, high in ranges) for pointer in parameters)
    json.dump({"parameters": len(parameters), "mapped": mapped}, sys.stdout)


if __name__ == "__main__":
    main()
