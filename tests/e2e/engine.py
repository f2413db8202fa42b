"""A program of the tests: one engine process that loads a model from disk or through wcache and writes what it computes.

    engine.py {logits|embeddings} CHECKPOINT {disk|wcache} DTYPE OUTPUT
    engine.py

OUTPUT is a safetensors file with the tensor `result`; stdout is JSON: how many parameters lie in a memfd, by the kernel's own account.
Without arguments it imports torch and transformers once, which is most of an engine's time, and forks an engine for each line of stdin: a
JSON object with `arguments`, `environ` and the files `stdout` and `stderr`; the line that answers is the engine's exit code.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import traceback
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


def compute(task: str, checkpoint: str, how: str, dtype_name: str, output: str) -> dict[str, int]:
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
    return {"parameters": len(parameters), "mapped": mapped}


def forked(order: dict[str, Any]) -> int:
    """The exit code of one engine, a process of its own."""
    if child := os.fork():
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    code = 1
    try:
        for number, name in ((1, "stdout"), (2, "stderr")):
            os.dup2(os.open(order[name], os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
        os.environ.clear()
        os.environ.update(order["environ"])
        print(json.dumps(compute(*order["arguments"])), flush=True)
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def serve() -> None:
    import transformers.models.bert.modeling_bert
    import transformers.models.llama.modeling_llama  # noqa: F401

    gc.freeze()
    for line in sys.stdin:
        print(forked(json.loads(line)), flush=True)


if __name__ == "__main__":
    if len(sys.argv) == 1:
        serve()
    else:
        print(json.dumps(compute(*sys.argv[1:])))
