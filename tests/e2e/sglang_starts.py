"""A program of the tests, run by the Python of the SGLang environment.

    sglang_starts.py loads PLAN OUTPUT      SGLang's own loading of several models, one after the other, in one process
    sglang_starts.py engine PLAN OUTPUT     a whole engine on two ranks: two processes that compute, and what speaks to them
    sglang_starts.py serve …                `sglang serve …`

The PLAN of `loads` is a JSON list of steps: {"name": …, "model": …, "dtype": …, "format": …, "extra": {…}} and, where a step needs them,
"hide" (modules that cannot be imported meanwhile) and "update" (a checkpoint, or the same one, to give the live model afterwards).
OUTPUT is name -> {"digest": of the model's tensors, "tied": …, "updated": …, "digest_after": …} or {"error": …}.
The PLAN of `engine` is {"model": …, "extra": {…}, "kill": [pids]}; its OUTPUT {"before", "after" (the pids got SIGKILL), "update"}.

There is no SGLang for CPUs without its own kernels, but its code for other platforms without any runs on one, torch's attention below it.
"""

from __future__ import annotations

import gc
import hashlib
import json
import os
import select
import signal
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch

for _name in ("nms", "qnms"):  # torchvision is built for CUDA, and what it registers for these wants them to be there
    torch.library.define(f"torchvision::{_name}", "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")

PROMPT = [1, 5, 9, 33, 2]


def arguments(model: str, **more: Any) -> dict[str, Any]:
    return {
        "model_path": model, "device": "cpu", "dtype": "float32", "load_format": "wcache", "skip_tokenizer_init": True,
        "attention_backend": "torch_native", "sampling_backend": "pytorch", "grammar_backend": "none", "disable_cuda_graph": True,
        "disable_overlap_schedule": True, "max_total_tokens": 512, "context_length": 128, **more,
    }  # fmt: skip


# --- loads ----------------------------------------------------------------------------------------------------------------------


def prepare(model: str) -> None:
    """One rank, alone, as SGLang's scheduler sets itself up before it loads."""
    from sglang.srt.configs.model_config import ModelConfig
    from sglang.srt.distributed import init_distributed_environment, initialize_model_parallel
    from sglang.srt.layers.dp_attention import initialize_dp_attention
    from sglang.srt.layers.moe import initialize_moe_config
    from sglang.srt.plugins import load_plugins
    from sglang.srt.runtime_context import SpawnRanks, publish
    from sglang.srt.server_args import ServerArgs

    load_plugins()
    server_args = ServerArgs(**arguments(model))
    publish(server_args, role="scheduler", ranks=SpawnRanks(world_rank=0))
    initialize_moe_config()
    ModelConfig(model_path=model)
    store = f"file://{tempfile.mkdtemp()}/store"
    init_distributed_environment(backend="gloo", world_size=1, rank=0, local_rank=0, distributed_init_method=store)
    initialize_model_parallel()
    initialize_dp_attention(server_args)


def digest(model: Any) -> str:
    found = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        found.update(name.encode() + bytes(tensor.detach().contiguous().flatten().view(torch.uint8).numpy()))
    return found.hexdigest()


def load(step: dict[str, Any]) -> dict[str, Any]:
    from sglang.srt.configs.device_config import DeviceConfig
    from sglang.srt.configs.load_config import LoadConfig
    from sglang.srt.configs.model_config import ModelConfig
    from sglang.srt.model_executor.model_runner_components.weight_updater import WeightUpdater
    from sglang.srt.model_loader import get_model

    for name in step.get("hide", ()):
        sys.modules[name] = None  # type: ignore[assignment]
    try:
        model_config = ModelConfig(model_path=step["model"], dtype=step.get("dtype", "float32"))
        load_config = LoadConfig(
            load_format=step.get("format", "wcache"), model_loader_extra_config=json.dumps(step.get("extra", {})), tp_rank=0
        )
        model = get_model(model_config=model_config, load_config=load_config, device_config=DeviceConfig("cpu", 0))
        found: dict[str, Any] = {"digest": digest(model)}
        if step.get("update"):
            updater = WeightUpdater(
                tp_rank=0, device="cpu", gpu_id=0, model_config=model_config, custom_weight_loaders={}, get_model=lambda: model,
                update_model_fields=lambda *_, **__: None, recapture_cuda_graph=lambda: None, get_model_runner=lambda: None,
            )  # fmt: skip
            found["updated"] = updater.update_weights_from_disk(step["update"], "wcache")
            found["digest_after"] = digest(model)
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"}
    finally:
        for name in step.get("hide", ()):
            del sys.modules[name]
    return found


def loads(plan: list[dict[str, Any]]) -> dict[str, Any]:
    prepare(plan[0]["model"])
    results = {}
    for step in plan:
        print(f"--- {step['name']}", flush=True)
        if step.get("kill"):
            kill(step["kill"])
        results[step["name"]] = load(step)
        gc.collect()
    return results


def kill(pids: list[int]) -> None:
    ends = [os.pidfd_open(pid) for pid in pids]
    for word in (signal.SIGSTOP, signal.SIGKILL):  # all at once: each of them would have the other replaced
        for pid in pids:
            os.kill(pid, word)
    for end in ends:  # readable once the process is gone, and with it its sockets
        assert select.select([end], [], [], 60)[0]
        os.close(end)


# --- an engine --------------------------------------------------------------------------------------------------------------------


def engine(plan: dict[str, Any]) -> dict[str, Any]:
    import sglang

    extra = json.dumps(plan["extra"])
    running = sglang.Engine(**arguments(plan["model"], model_loader_extra_config=extra, tp_size=2, log_level="info"))

    def answer() -> list[int]:
        greedy = {"temperature": 0, "max_new_tokens": 8, "ignore_eos": True}
        return list(running.generate(input_ids=PROMPT, sampling_params=greedy)["output_ids"])

    try:
        found: dict[str, Any] = {"before": answer()}
        kill(plan["kill"])
        found["update"] = running.update_weights_from_disk(plan["model"])
        found["after"] = answer()
        return found
    finally:
        running.shutdown()


def main() -> None:
    if sys.argv[1] == "serve":
        from sglang.cli.main import main as sglang

        sglang()
        return
    what, plan, output = sys.argv[1:]
    results = {"loads": loads, "engine": engine}[what](json.loads(Path(plan).read_text(encoding="utf-8")))
    Path(output).write_text(json.dumps(results), encoding="utf-8")


if __name__ == "__main__":
    import logging

    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(message)s")
    main()
