"""A program of the tests, run by the Python of the vLLM environment: several engine starts, one after the other, in one process.

    vllm_starts.py PLAN OUTPUT

PLAN is a JSON list of steps: {"name": …, "engine": {arguments of vllm.LLM}} and, where a step needs them, "lose" (the name of a worker
process that looks for the daemon where there is none), "hide" (modules that cannot be imported meanwhile), "external" (ask how much memory
the weights take outside of the process, where and as vLLM does on a GPU), "write" (change a parameter in place, answer with it, and change
it back at the end), "run" (a command to run while the engine is up), "kill" (pids that get SIGKILL, then answer again) and "reload" (load
the weights anew and answer again).
OUTPUT is a JSON object: name -> {"tokens", "logprobs"} of a greedy answer, perhaps with "external", "written", "again", "run" and "refused"
(why it could not be loaded anew), or {"error"}.
"""

from __future__ import annotations

import gc
import json
import multiprocessing
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

PROMPT = [1, 5, 9, 33, 2]
LOST = "WCACHE_TEST_LOST_WORKER"
if multiprocessing.current_process().name == os.environ.get(LOST):  # spawned processes run this module's top
    os.environ["WCACHE_RUNTIME_DIR"] += "/nowhere"


def answer(engine: Any) -> dict[str, Any]:
    from vllm import SamplingParams

    greedy = SamplingParams(max_tokens=8, temperature=0, logprobs=5, detokenize=False)
    (found,) = engine.generate([{"prompt_token_ids": PROMPT}], greedy, use_tqdm=False)[0].outputs
    return {"tokens": list(found.token_ids), "logprobs": {str(token): entry.logprob for token, entry in found.logprobs[0].items()}}


def negate(model: Any) -> None:
    """In place, and its own inverse."""
    model.model.norm.weight.data.neg_()


@contextmanager
def asked_as_on_a_gpu() -> Iterator[list[int]]:
    """vLLM's worker of a GPU asks a loader of its own at the end of `init_device`; its worker of a CPU does not ask."""
    from vllm.model_executor.model_loader import get_model_loader
    from vllm.v1.worker.cpu_worker import CPUWorker

    answers = []
    init_device = CPUWorker.init_device

    def asking(worker: Any) -> None:
        init_device(worker)
        answers.append(get_model_loader(worker.load_config).get_external_weight_memory(worker.vllm_config))

    CPUWorker.init_device = asking
    try:
        yield answers
    finally:
        CPUWorker.init_device = init_device


def start(step: dict[str, Any]) -> dict[str, Any]:
    from vllm import LLM

    for name in step.get("hide", ()):
        sys.modules[name] = None  # type: ignore[assignment]
    os.environ[LOST] = step.get("lose", "")
    try:
        with asked_as_on_a_gpu() if step.get("external") else nullcontext() as external:
            engine = LLM(
                **{"skip_tokenizer_init": True, "enforce_eager": True, "max_model_len": 128, "max_num_seqs": 4, "seed": 0, **step["engine"]}
            )
        found = answer(engine)
        if external is not None:
            found["external"] = external
        if step.get("write"):
            engine.apply_model(negate)
            found["written"] = answer(engine)
        if step.get("run"):
            done = subprocess.run(step["run"], capture_output=True, text=True, check=False)
            found["run"] = {"code": done.returncode, "output": done.stdout + done.stderr}
        if step.get("write"):
            engine.apply_model(negate)
        if step.get("kill"):
            for word in (signal.SIGSTOP, signal.SIGKILL):  # all at once: each of them would have the other replaced
                for pid in step["kill"]:
                    os.kill(pid, word)
            found["again"] = answer(engine)
        if step.get("reload"):
            try:
                engine.collective_rpc("reload_weights")
            except Exception as error:
                found["refused"] = f"{type(error).__name__}: {error}"
            found["again"] = answer(engine)
        engine.llm_engine.engine_core.shutdown()
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"}
    finally:
        for name in step.get("hide", ()):
            del sys.modules[name]
    return found


def main() -> None:
    plan, output = sys.argv[1:]
    results = {}
    # An engine walks all objects five times on its way in and out, and what is imported is 600,000 of them: seconds each time. They are
    # left out here, and vLLM does not take them in again.
    freeze = gc.freeze
    gc.freeze = gc.unfreeze = lambda: None  # type: ignore[assignment]
    for step in json.loads(Path(plan).read_text(encoding="utf-8")):
        print(f"--- {step['name']}", flush=True)
        results[step["name"]] = start(step)
        gc.collect()  # an engine that is collected later would take the next one's process groups along
        freeze()
    Path(output).write_text(json.dumps(results), encoding="utf-8")


if __name__ == "__main__":
    main()
