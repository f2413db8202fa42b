"""A real vLLM on the CPU, for the tests of its plugin.

`.venv-vllm` is built by `make test`, which says so to these tests by WCACHE_TEST_VLLM; without that word they are skipped.
"""

from __future__ import annotations

import faulthandler
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from support.daemon import DaemonProcess
from support.ledgers import Record

from wcache.core.model.events import AttachDecided

TESTS = Path(__file__).resolve().parent.parent
WORD = os.environ.get("WCACHE_TEST_VLLM", "")
VLLM = (TESTS.parent / WORD).absolute()
PROGRAM = TESTS / "e2e" / "vllm_starts.py"
START_S = 900.0
"""What all starts of one process may take together."""

NEEDS_VLLM = [
    pytest.mark.slow,
    pytest.mark.skipif(not WORD, reason="needs a vLLM: `make test` builds one and sets WCACHE_TEST_VLLM to its environment"),
]

SERVED = ("--enforce-eager", "--max-model-len", "256", "--max-num-seqs", "4")
"""What lets `vllm serve` start sooner."""

SIZES: dict[str, Any] = {
    "hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
    "head_dim": 64, "vocab_size": 512, "max_position_embeddings": 512, "initializer_range": 0.3,
}  # fmt: skip
"""Of small models, with a spread that makes their answers differ."""


def random_llama(target: Path, seed: int = 0) -> Path:
    """A checkpoint in several shards."""
    import torch
    import transformers

    torch.manual_seed(seed)
    transformers.LlamaForCausalLM(transformers.LlamaConfig(**SIZES)).save_pretrained(target, max_shard_size="2MB")
    return target


def patiently() -> None:
    """What runs next has a time limit of its own, beyond the one of each test."""
    faulthandler.cancel_dump_traceback_later()


def environ_of(daemon: DaemonProcess | None = None) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("WCACHE_", "VLLM_"))}
    return {
        **kept,
        **(daemon.env if daemon is not None else {}),
        "WCACHE_CONFIG": os.devnull,
        "HF_HUB_OFFLINE": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",
        "OMP_NUM_THREADS": "1",  # other tests run beside this one, and threads that wait for each other take their time
        "VLLM_CACHE_ROOT": str(VLLM / "cache"),
    }


class Starts(NamedTuple):
    """What the engines answered, what they logged, and the ledger."""

    results: dict[str, Any]
    log: str
    record: Record
    prepared: Any = None  # what `preload` said before them

    def log_of(self, name: str) -> str:
        return self.log.partition(f"--- {name}\n")[2].partition("\n--- ")[0]

    def decided(self, checkpoint: Path) -> list[AttachDecided]:
        return [event for event in self.record.of(AttachDecided) if event.asked.spelling == str(checkpoint)]


def run(daemon: DaemonProcess, scratch: Path, plan: list[dict[str, Any]], **environ: str) -> Starts:
    (scratch / "plan.json").write_text(json.dumps(plan))
    patiently()
    command = [VLLM / "bin" / "python", PROGRAM, scratch / "plan.json", scratch / "results.json"]
    done = subprocess.run(
        command,
        env={**environ_of(daemon), **environ},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=START_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:]
    return Starts(json.loads((scratch / "results.json").read_text()), done.stdout, Record(daemon.settings))


def engine(checkpoint: Path, dtype: str = "float32", extra: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    return {"model": str(checkpoint), "dtype": dtype, "load_format": "wcache", "model_loader_extra_config": extra or {}, **more}


def preload(daemon: DaemonProcess, *words: str | Path, **environ: str) -> dict[str, Any]:
    """What `wcache preload --json -- vllm serve …` said, which ended well."""
    patiently()
    command = [VLLM / "bin" / "wcache", "preload", "--json", "--", "vllm", "serve", *words]
    done = subprocess.run(command, env={**environ_of(daemon), **environ}, capture_output=True, text=True, timeout=START_S, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    said: dict[str, Any] = json.loads(done.stdout)
    return said


def wcache(daemon: DaemonProcess, *arguments: str, code: int = 0) -> str:
    command = [sys.executable, "-m", "wcache.cli", *arguments]
    done = subprocess.run(command, env=environ_of(daemon), capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout
