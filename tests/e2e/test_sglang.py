"""The plugin in a real SGLang on the CPU: its own plugin discovery, loaders and models, and with `make test-sglang` a whole engine.

`.venv-sglang` is built by `make test`, which says so to this module by WCACHE_TEST_SGLANG; without that word the tests are skipped.
"""

from __future__ import annotations

import faulthandler
import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from support.commands import clean_environ
from support.daemon import DaemonProcess
from support.ledgers import Record

from wcache.core.model.events import AttachDecided, FallbackCompleted, FallbackFailed, MapCompleted, Ranks
from wcache.core.model.vocabulary import Mode, Outcome, Reason

WORD = os.environ.get("WCACHE_TEST_SGLANG", "")
PYTHON = (Path(__file__).resolve().parent.parent.parent / WORD).absolute() / "bin" / "python"
PROGRAM = Path(__file__).resolve().parent / "sglang_starts.py"
START_S = 900

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not (WORD and PYTHON.exists()), reason="needs an SGLang: `make test` builds one and sets WCACHE_TEST_SGLANG to it"),
]

SIZES: dict[str, Any] = {
    "hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
    "head_dim": 64, "vocab_size": 512, "max_position_embeddings": 512, "initializer_range": 0.3,
}  # fmt: skip


class Checkpoints(NamedTuple):
    llama: Path
    twin: Path
    qwen3: Path
    incomplete: Path


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory: pytest.TempPathFactory) -> Checkpoints:
    place = tmp_path_factory.mktemp("sglang")
    found = Checkpoints(*(place / name for name in Checkpoints._fields))
    for seed, target in enumerate((found.llama, found.twin)):
        torch.manual_seed(seed)
        transformers.LlamaForCausalLM(transformers.LlamaConfig(**SIZES)).save_pretrained(target, max_shard_size="2MB")
    transformers.Qwen3ForCausalLM(transformers.Qwen3Config(**SIZES, tie_word_embeddings=True)).save_pretrained(found.qwen3)
    found.incomplete.mkdir()
    (found.incomplete / "config.json").write_bytes((found.qwen3 / "config.json").read_bytes())
    tensors = load_file(found.qwen3 / "model.safetensors")
    del tensors["model.layers.1.self_attn.k_proj.weight"]
    save_file(tensors, found.incomplete / "model.safetensors", metadata={"format": "pt"})
    return found


def _run(daemon: DaemonProcess, scratch: Path, what: str, plan: Any, **environ: str) -> tuple[dict[str, Any], str]:
    (scratch / "plan.json").write_text(json.dumps(plan))
    faulthandler.cancel_dump_traceback_later()  # this has a time limit of its own, beyond the one of each test
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("WCACHE_", "SGLANG_"))}
    places = {**daemon.env, "WCACHE_CONFIG": os.devnull, "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(
        [PYTHON, PROGRAM, what, scratch / "plan.json", scratch / "results.json"], env={**kept, **places, **environ}, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True, timeout=START_S, check=False,
    )  # fmt: skip
    assert (scratch / "results.json").exists(), done.stdout[-4000:]
    return json.loads((scratch / "results.json").read_text()), done.stdout


class Loads(NamedTuple):
    """What SGLang's loads left in its models, what they logged, and the ledger."""

    results: dict[str, Any]
    log: str
    record: Record

    def log_of(self, name: str) -> str:
        return self.log.partition(f"--- {name}\n")[2].partition("\n--- ")[0]

    def decided(self, checkpoint: Path) -> list[AttachDecided]:
        return [event for event in self.record.of(AttachDecided) if event.asked.spelling == str(checkpoint)]


@pytest.fixture(scope="module")
def loads(checkpoints: Checkpoints, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Loads]:
    """All loads of one rank in one process, since most of a start's time goes by before SGLang looks at a model."""
    daemon = DaemonProcess(tmp_path_factory.mktemp("sglang-state"))
    try:
        daemon.start()
        for checkpoint in (checkpoints.llama, checkpoints.qwen3):
            daemon.load(checkpoint)
        strict, lax = {"fallback": False}, {"fallback": True}
        llama, twin, qwen3, incomplete = map(str, checkpoints)
        plan = [
            {"name": "broken", "model": llama, "extra": lax, "hide": ["blake3"]},
            {"name": "llama-disk", "model": llama, "format": "auto"},
            {"name": "llama", "model": llama, "extra": strict, "update": twin},
            {"name": "half-disk", "model": llama, "dtype": "bfloat16", "format": "auto"},
            {"name": "half", "model": llama, "dtype": "bfloat16", "extra": strict},
            {"name": "qwen3-disk", "model": qwen3, "format": "auto"},
            {"name": "qwen3", "model": qwen3, "extra": strict},
            {"name": "twin-disk", "model": twin, "format": "auto"},
            {"name": "twin", "model": twin, "extra": lax, "update": llama},
            {"name": "twin-strict", "model": twin, "extra": strict},
            {"name": "incomplete", "model": incomplete, "extra": lax},
            {"name": "untracked", "model": incomplete, "extra": {**lax, "enable_weights_track": False}},
            {"name": "processed", "model": llama, "extra": {"tensors": "processed"}},
            {"name": "wrong-key", "model": llama, "extra": {"falback": False}},
            {"name": "alone", "model": llama, "extra": lax, "kill": [daemon.vault_pid, daemon.pid]},
        ]
        results, log = _run(daemon, tmp_path_factory.mktemp("sglang-loads"), "loads", plan)
        yield Loads(results, log, Record(daemon.settings))
    finally:
        daemon.cleanup()


@pytest.mark.parametrize("model", ["llama", "half", "qwen3"])
def test_the_model_is_that_of_a_load_from_disk(loads: Loads, model: str) -> None:
    """A4, A6, I12: every parameter and buffer, of a Llama in shards in float32 and bfloat16, and of a tied Qwen3."""
    assert "digest" in loads.results[model], loads.results[model]
    assert loads.results[model]["digest"] == loads.results[f"{model}-disk"]["digest"]
    line = r"Mapped \d+ tensors from the weight cache daemon \(copy mode\) rank=0 tier=(pinned|content) seq=\d+"
    assert re.search(line, loads.log_of(model))


def test_what_was_copied_is_on_record(loads: Loads, checkpoints: Checkpoints) -> None:
    """A4, I12: the resident float32 serves a model in bfloat16; what was copied is what its parameters hold."""
    hits = {event.asked_dtype: event for event in loads.decided(checkpoints.llama) if event.outcome is Outcome.HIT}
    assert {(event.engine.name, event.ranks) for event in hits.values()} == {("sglang", Ranks())}
    assert len({event.launch.partition("-u")[0] for event in hits.values()}) == 1
    copied = {event.attach: event for event in loads.record.of(MapCompleted)}
    half, full = copied[hits["BF16"].attach], copied[hits["F32"].attach]
    assert {half.mode, full.mode} == {Mode.COPY}
    assert half.tensors == full.tensors and half.copied_bytes < full.copied_bytes


def test_what_is_not_resident_comes_from_disk_or_not_at_all_as_the_policy_says(loads: Loads, checkpoints: Checkpoints) -> None:
    """A11: equal headers, other bytes."""
    assert loads.results["twin"]["digest"] == loads.results["twin-disk"]["digest"] != loads.results["llama"]["digest"]
    line = r"Weight cache unusable \(content_mismatch\); falling back to disk loading rank=0 tier=sampled seq=\d+"
    assert re.search(line, loads.log_of("twin"))
    assert "StrictMiss" in loads.results["twin-strict"]["error"] and "content_mismatch" in loads.results["twin-strict"]["error"]
    fell_back = next(event for event in loads.decided(checkpoints.twin) if event.outcome is Outcome.FALLBACK)
    (cost,) = [event for event in loads.record.of(FallbackCompleted) if event.attach == fell_back.attach]
    assert cost.bytes == sum(file.stat().st_size for file in checkpoints.twin.glob("*.safetensors"))


def test_a_live_update_is_an_attach_of_its_own(loads: Loads) -> None:
    """SGLang's update_weights_from_disk: the whole of another checkpoint, or, where that is not resident and has to be, nothing."""
    done, _ = loads.results["twin"]["updated"]
    assert done and loads.results["twin"]["digest_after"] == loads.results["llama-disk"]["digest"]
    assert "Mapped " in loads.log_of("twin")
    updates = [event.launch.partition("-u")[2] for event in loads.record.of(AttachDecided) if "-u" in event.launch]
    assert updates == ["1", "2"]  # launches of their own: what they come to says nothing of the start
    done, why = loads.results["llama"]["updated"]
    assert not done and "content_mismatch" in why
    assert loads.results["llama"]["digest_after"] == loads.results["llama"]["digest"]


def test_a_missing_tensor_ends_the_load_and_is_named_unless_nobody_shall_look(loads: Loads, checkpoints: Checkpoints) -> None:
    """A3: a third of a fused parameter, which SGLang would serve as the allocator left it."""
    assert "MissingTensor" in loads.results["incomplete"]["error"]
    assert "model.layers.1.self_attn.qkv_proj.weight" in loads.results["incomplete"]["error"]
    decided = loads.decided(checkpoints.incomplete)[0]
    (failed,) = [event for event in loads.record.of(FallbackFailed) if event.attach == decided.attach]
    assert failed.code == "missing_tensor"
    assert "digest" in loads.results["untracked"]


def test_what_cannot_be_meant_ends_the_load_and_is_named(loads: Loads) -> None:
    assert "falback is no key of the load format wcache" in loads.results["wrong-key"]["error"]
    assert "known: tensors, fallback, mode, socket_dir" in loads.log_of("wrong-key")
    assert "Unsupported: --load-format wcache: SGLang's processed tensors are not shared" in loads.results["processed"]["error"]


def test_a_broken_installation_ends_the_load_in_one_line_and_is_on_record(loads: Loads, checkpoints: Checkpoints) -> None:
    """A12"""
    assert "Unsupported" in loads.results["broken"]["error"] and "blake3" in loads.results["broken"]["error"]
    lines = [line for line in loads.log_of("broken").splitlines() if "No weights from the weight cache" in line]
    assert len(lines) == 1 and "wcache cannot be imported in this environment" in lines[0]
    decided = loads.decided(checkpoints.llama)[0]
    assert (decided.outcome, decided.reason, decided.engine.name) == (Outcome.FALLBACK, Reason.UNSUPPORTED, "sglang")


def test_without_a_daemon_the_disk_is_read_and_that_is_on_record(loads: Loads, checkpoints: Checkpoints) -> None:
    assert loads.results["alone"]["digest"] == loads.results["llama-disk"]["digest"]
    assert loads.decided(checkpoints.llama)[-1].reason is Reason.DAEMON_REFUSED


# --- a whole engine ---------------------------------------------------------------------------------------------------------------

whole = pytest.mark.skipif(not os.environ.get("WCACHE_TEST_SGLANG_ENGINE"), reason="takes minutes: `make test-sglang`")


@whole
def test_both_ranks_of_an_engine_hit_and_answer_on_when_the_daemon_is_gone(checkpoints: Checkpoints, tmp_path: Path) -> None:
    """A7: greedy tokens as transformers computes them from the disk. One decision a rank, one launch; vault and server get SIGKILL."""
    daemon = DaemonProcess(tmp_path / "state")
    try:
        daemon.start()
        daemon.load(checkpoints.llama)
        plan = {"model": str(checkpoints.llama), "extra": {"fallback": False}, "kill": [daemon.vault_pid, daemon.pid]}
        results, log = _run(daemon, tmp_path, "engine", plan, SGLANG_CPU_OMP_THREADS_BIND="0|1")
        expected = transformers.LlamaForCausalLM.from_pretrained(checkpoints.llama).generate(
            torch.tensor([[1, 5, 9, 33, 2]]), max_new_tokens=8, do_sample=False, eos_token_id=None
        )
        assert results["before"] == results["after"] == expected[0, 5:].tolist()
        assert results["update"][0] is False and "daemon_refused" in results["update"][1]
        hits = [event for event in Record(daemon.settings).of(AttachDecided) if event.outcome is Outcome.HIT]
        assert sorted((event.ranks.rank, event.ranks.world, event.ranks.tp) for event in hits) == [(0, 2, 2), (1, 2, 2)], log[-4000:]
        (launch,) = {event.launch for event in hits}  # the update that was refused is another one
        command = [sys.executable, "-m", "wcache.cli", "audit", "launch", launch]
        told = subprocess.run(command, env={**os.environ, **daemon.env}, capture_output=True, text=True, timeout=120, check=False)
        assert "2 of 2 ranks mapped" in told.stdout, told
    finally:
        daemon.cleanup()


@whole
def test_every_expectation_of_a_drill_with_sglang_holds(smollm2: Path, disk_path: Path) -> None:
    """I1, I12, A4: seven starts of `sglang serve`; one that is refused ends, and nothing of any of them is left."""
    program = disk_path / "bin" / "sglang"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {PYTHON} {PROGRAM} "$@"\n')
    program.chmod(0o755)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = [program, "serve", "--model-path", smollm2, "--port", port, "--device", "cpu", "--dtype", "float32", "--attention-backend",
              "torch_native", "--sampling-backend", "pytorch", "--grammar-backend", "none", "--disable-cuda-graph",
              "--disable-overlap-schedule", "--max-total-tokens", 512, "--context-length", 128]  # fmt: skip
    drill = [sys.executable, "-m", "wcache.cli", "drill", "--json", "--wait", START_S, "--out", disk_path / "out", "--", *server]
    faulthandler.cancel_dump_traceback_later()
    environ = {**clean_environ(), "WCACHE_CONFIG": os.devnull, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(list(map(str, drill)), env=environ, capture_output=True, text=True, timeout=7 * START_S, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    receipt = json.loads(done.stdout)
    decided = {run["label"]: [(row["engine"], row["decision"], row["reason"]) for row in run["attaches"]] for run in receipt["runs"]}
    hit = [("sglang", "hit", None)]
    assert decided == {
        "disk": [],
        "absent-fallback": [("sglang", "fallback", "daemon_absent")],
        "absent-strict": [("sglang", "strict_miss", "daemon_absent")],
        "warm-1": hit,
        "warm-2": hit,
        "dtype": hit,
        "twin": [("sglang", "strict_miss", "content_mismatch")],
    }
    assert all(run["weights_s"] for run in receipt["runs"] if run["ready"])
