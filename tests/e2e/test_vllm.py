"""The plugin in a real vLLM on the CPU: the same answers as from disk, every rank's decision on record, and what ends a start.

`.venv-vllm` is built by `make test`, which says so to this module by WCACHE_TEST_VLLM; without that word the tests are skipped.
"""

from __future__ import annotations

import faulthandler
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from support.daemon import DaemonProcess, wait_until
from support.ledgers import Record

from wcache.core.model.events import (
    AttachDecided,
    FallbackCompleted,
    FallbackFailed,
    LoadCompleted,
    MapCompleted,
    MapFailed,
    ReleaseRefused,
)
from wcache.core.model.vocabulary import Kind, Mode, Outcome, Reason

WORD = os.environ.get("WCACHE_TEST_VLLM", "")
VLLM = (Path(__file__).resolve().parent.parent.parent / WORD).absolute()
PROGRAM = Path(__file__).resolve().parent / "vllm_starts.py"
START_S = 900.0
"""What all starts of one process may take together."""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not WORD, reason="needs a vLLM: `make test` builds one and sets WCACHE_TEST_VLLM to its environment"),
]


class Checkpoints(NamedTuple):
    llama: Path
    twin: Path
    qwen3: Path
    int8: Path
    incomplete: Path
    apertus: Path


def _int8(source: Path, target: Path) -> None:
    """The same model as compressed-tensors keeps it: int8 weights with a scale for each row, activations quantized as they come."""
    tensors = {name: tensor for shard in sorted(source.glob("*.safetensors")) for name, tensor in load_file(shard).items()}
    for name in [name for name in tensors if name.endswith("_proj.weight")]:
        scale = tensors[name].abs().amax(1, keepdim=True) / 127
        tensors[name] = torch.round(tensors[name] / scale).to(torch.int8)
        tensors[f"{name}_scale"] = scale
    target.mkdir()
    save_file(tensors, target / "model.safetensors", metadata={"format": "pt"})
    of_eight_bits = {"num_bits": 8, "type": "int", "symmetric": True}
    group = {
        "targets": ["Linear"],
        "weights": {**of_eight_bits, "strategy": "channel", "dynamic": False},
        "input_activations": {**of_eight_bits, "strategy": "token", "dynamic": True},
    }
    quantization = {
        "quant_method": "compressed-tensors",
        "format": "int-quantized",
        "quantization_status": "compressed",
        "ignore": ["lm_head"],
        "config_groups": {"group_0": group},
    }
    config = json.loads((source / "config.json").read_text())
    (target / "config.json").write_text(json.dumps({**config, "quantization_config": quantization}))


@pytest.fixture(scope="session")
def checkpoints(tmp_path_factory: pytest.TempPathFactory) -> Checkpoints:
    """Random models, small, with a spread that makes their answers differ."""
    place = tmp_path_factory.mktemp("vllm")
    found = Checkpoints(*(place / name for name in Checkpoints._fields))
    sizes: dict[str, Any] = {
        "hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
        "head_dim": 64, "vocab_size": 512, "max_position_embeddings": 512, "initializer_range": 0.3,
    }  # fmt: skip
    for seed, target in enumerate((found.llama, found.twin)):
        torch.manual_seed(seed)
        transformers.LlamaForCausalLM(transformers.LlamaConfig(**sizes)).save_pretrained(target, max_shard_size="2MB")
    transformers.Qwen3ForCausalLM(transformers.Qwen3Config(**sizes, tie_word_embeddings=True)).save_pretrained(found.qwen3)
    found_apertus = transformers.ApertusConfig(**{**sizes, "initializer_range": 0.1}, hidden_act="xielu")
    transformers.ApertusForCausalLM(found_apertus).save_pretrained(found.apertus)
    _int8(found.llama, found.int8)
    shutil.copytree(found.qwen3, found.incomplete)
    tensors = load_file(found.qwen3 / "model.safetensors")
    del tensors["model.layers.1.input_layernorm.weight"]
    save_file(tensors, found.incomplete / "model.safetensors", metadata={"format": "pt"})
    return found


def _patiently() -> None:
    """What runs next has a time limit of its own, beyond the one of each test."""
    faulthandler.cancel_dump_traceback_later()


def _environ(daemon: DaemonProcess) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("WCACHE_", "VLLM_"))}
    return {
        **kept,
        **daemon.env,
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
    prepared: subprocess.CompletedProcess[str] | None = None

    def log_of(self, name: str) -> str:
        return self.log.partition(f"--- {name}\n")[2].partition("\n--- ")[0]

    def decided(self, checkpoint: Path) -> list[AttachDecided]:
        return [event for event in self.record.of(AttachDecided) if event.asked.spelling == str(checkpoint)]


def _run(daemon: DaemonProcess, scratch: Path, plan: list[dict[str, Any]], **environ: str) -> Starts:
    (scratch / "plan.json").write_text(json.dumps(plan))
    _patiently()
    command = [VLLM / "bin" / "python", PROGRAM, scratch / "plan.json", scratch / "results.json"]
    done = subprocess.run(
        command,
        env={**_environ(daemon), **environ},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=START_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:]
    return Starts(json.loads((scratch / "results.json").read_text()), done.stdout, Record(daemon.settings))


def _engine(checkpoint: Path, dtype: str = "float32", extra: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    return {"model": str(checkpoint), "dtype": dtype, "load_format": "wcache", "model_loader_extra_config": extra or {}, **more}


RELEASE = """
import sys
from wcache.core.settings import load_settings
from wcache.core.wire.channel import Channel
from wcache.core.wire.messages import ReleaseRequest, StatusRequest
channel = Channel.connect(load_settings().socket_path)
for one in channel.call(StatusRequest()).residencies:
    if one.view.kind == "processed" and one.leases:
        channel.call(ReleaseRequest(residency=one.view.residency, why="the test wants it"))
"""

SHARES = """
import json, os
from pathlib import Path
from wcache.drill.memory import pss
second = os.getppid()
first = int(Path(f"/proc/{second}/stat").read_text().rpartition(")")[2].split()[1])
print(json.dumps([pss([pid]).weights_bytes for pid in (first, second)]))
"""
"""Run by an engine that was started by another one: what each of the two has of the mapped weights, their proportional shares."""

# --- one process, many starts -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def starts(checkpoints: Checkpoints, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Starts]:
    """All starts of one rank, in one process, since most of a start's time is spent before vLLM looks at a model."""
    daemon = DaemonProcess(tmp_path_factory.mktemp("vllm-state"))
    try:
        daemon.start()
        for checkpoint in (checkpoints.llama, checkpoints.qwen3, checkpoints.int8, checkpoints.incomplete, checkpoints.apertus):
            daemon.load(checkpoint)
        llama, strict = checkpoints.llama, {"fallback": False}
        disk, processed = {"load_format": "auto"}, {**strict, "tensors": "processed"}
        draft = {"method": "draft_model", "model": str(llama), "num_speculative_tokens": 2}
        arguments = tmp_path_factory.mktemp("vllm-arguments") / "serve.yaml"
        arguments.write_text("dtype: bfloat16\nport: 80\n")
        command = [VLLM / "bin" / "wcache", "preload", "--json", "--", "vllm", "serve", checkpoints.qwen3, "--config", arguments]
        beside = tmp_path_factory.mktemp("vllm-beside")
        second = {"name": "second", "engine": _engine(checkpoints.qwen3, extra=processed), "run": [sys.executable, "-c", SHARES]}
        (beside / "plan.json").write_text(json.dumps([second]))
        start_second = [str(word) for word in (VLLM / "bin" / "python", PROGRAM, beside / "plan.json", beside / "results.json")]
        _patiently()
        prepared = subprocess.run(command, env=_environ(daemon), capture_output=True, text=True, timeout=START_S, check=False)
        plan: list[dict[str, Any]] = [
            {"name": "broken", "engine": _engine(llama), "hide": ["blake3"]},
            {"name": "llama-disk", "engine": {**_engine(llama), **disk}},
            {"name": "llama", "engine": _engine(llama, extra=strict), "reload": True},
            {"name": "half-disk", "engine": {**_engine(llama, "bfloat16"), **disk}},
            {"name": "half", "engine": _engine(llama, "bfloat16", strict), "external": True},
            {"name": "qwen3-disk", "engine": {**_engine(checkpoints.qwen3), **disk}},
            {"name": "qwen3", "engine": _engine(checkpoints.qwen3, extra=strict)},
            {"name": "int8-disk", "engine": {**_engine(checkpoints.int8, "bfloat16"), **disk}},
            {"name": "int8", "engine": _engine(checkpoints.int8, "bfloat16", strict)},
            {"name": "processed-first", "engine": _engine(llama, extra=processed)},
            {"name": "processed", "engine": _engine(llama, extra=processed), "external": True, "run": [sys.executable, "-c", RELEASE]},
            {"name": "processed-half", "engine": _engine(llama, "bfloat16", processed), "external": True},
            {"name": "prepared", "engine": _engine(checkpoints.qwen3, "bfloat16", processed)},
            {"name": "tied-first", "engine": _engine(checkpoints.qwen3, extra=processed)},
            {"name": "tied", "engine": _engine(checkpoints.qwen3, extra=processed), "write": True, "run": start_second, "reload": True},
            {"name": "apertus-disk", "engine": {**_engine(checkpoints.apertus), **disk}},
            {"name": "apertus-first", "engine": _engine(checkpoints.apertus, extra=processed)},
            {"name": "apertus", "engine": _engine(checkpoints.apertus, extra=processed)},
            {"name": "processed-int8", "engine": _engine(checkpoints.int8, "bfloat16", processed)},
            {"name": "draft", "engine": _engine(llama, extra=strict, speculative_config=draft)},
            {"name": "incomplete", "engine": _engine(checkpoints.incomplete)},
            {"name": "twin-disk", "engine": {**_engine(checkpoints.twin), **disk}},
            {"name": "twin", "engine": _engine(checkpoints.twin)},
            {"name": "twin-strict", "engine": _engine(checkpoints.twin, extra=strict)},
            {"name": "wrong-key", "engine": _engine(llama, extra={"falback": False})},
            {"name": "killed", "engine": _engine(llama, extra=strict), "kill": [daemon.vault_pid, daemon.pid], "reload": True},
            {"name": "alone", "engine": _engine(llama)},
            {"name": "alone-strict", "engine": _engine(llama, extra=strict)},
        ]
        found = _run(daemon, tmp_path_factory.mktemp("vllm-starts"), plan, VLLM_ENABLE_V1_MULTIPROCESSING="0")
        found.results.update(json.loads((beside / "results.json").read_text()))
        yield found._replace(prepared=prepared)
    finally:
        daemon.cleanup()


@pytest.mark.parametrize("model", ["llama", "half", "qwen3", "int8"])
def test_the_answer_is_that_of_a_load_from_disk(starts: Starts, model: str) -> None:
    """A6, A7: greedy tokens and the first log-probabilities: Llama in shards, in float32 and bfloat16, a tied Qwen3, an int8 checkpoint."""
    mapped, disk = starts.results[model], starts.results[f"{model}-disk"]
    assert len(mapped["tokens"]) == 8, mapped
    assert [mapped[part] for part in ("tokens", "logprobs")] == [disk[part] for part in ("tokens", "logprobs")]
    assert re.search(r"Mapped \d+ tensors from the weight cache daemon \(copy mode\) rank=0 tier=pinned seq=\d+", starts.log_of(model))


def test_another_dtype_is_a_copy_of_the_same_weights(starts: Starts, checkpoints: Checkpoints) -> None:
    """A4, I12: the resident float32 serves an engine that computes in bfloat16; what it took is what its parameters hold."""
    hits = {event.asked_dtype: event.attach for event in starts.decided(checkpoints.llama) if event.outcome is Outcome.HIT}
    copied = {event.attach: event for event in starts.record.of(MapCompleted)}
    half, full = copied[hits["BF16"]], copied[hits["F32"]]
    assert {half.mode, full.mode} == {Mode.COPY}
    assert (half.copied_bytes * 2, half.tensors) == (full.copied_bytes, full.tensors)


def test_weights_are_loaded_anew_by_a_second_attach(starts: Starts, checkpoints: Checkpoints) -> None:
    """vLLM's reload_weights: the same answer, and a decision of its own."""
    assert "refused" not in starts.results["llama"]
    assert starts.results["llama"]["again"] == {name: starts.results["llama"][name] for name in ("tokens", "logprobs")}
    assert starts.log_of("llama").count("Mapped ") == 2


@pytest.mark.parametrize(("model", "disk"), [("processed", "llama-disk"), ("tied", "qwen3-disk")])
def test_what_one_engine_made_of_the_weights_the_next_one_maps(starts: Starts, model: str, disk: str) -> None:
    """A6, A7: both compute with one kernel, so their answers are equal; that of the disk, with another one, agrees in float32."""
    first, second = starts.results[f"{model}-first"], starts.results[model]
    assert first.get("tokens") == starts.results[disk]["tokens"], first
    assert [second[part] for part in ("tokens", "logprobs")] == [first[part] for part in ("tokens", "logprobs")]
    for token, value in starts.results[disk]["logprobs"].items():
        assert second["logprobs"][token] == pytest.approx(value, abs=1e-4)
    assert re.search(r"Published \d+ processed tensors as r-\w+ for the next start, proven lineage", starts.log_of(f"{model}-first"))
    assert re.search(r"Mapped \d+ tensors from the weight cache daemon \(zero_copy mode\) rank=0 tier=pinned", starts.log_of(model))


def test_what_was_prepared_is_mapped_by_the_first_start(starts: Starts, checkpoints: Checkpoints) -> None:
    """`wcache preload -- vllm serve …`: an answer about every rank, and a residency that a start with the same configuration hits. The
    dtype and the port are in a file of arguments."""
    assert starts.prepared is not None and starts.prepared.returncode == 0, starts.prepared
    said = json.loads(starts.prepared.stdout)
    assert (said["complete"], said["ranks"], len(said["published"]), said["mapped"]) == (True, 1, 1, 0)
    assert said["unused"] == ["--port", "80"]
    hit = next(event for event in starts.decided(checkpoints.qwen3) if event.residency == said["published"][0])
    assert (hit.kind, hit.outcome) == (Kind.PROCESSED, Outcome.HIT)
    assert [event.attach for event in starts.decided(checkpoints.qwen3) if event.launch == hit.launch] == [hit.attach]
    assert len(starts.results["prepared"]["tokens"]) == 8


def test_a_model_that_cannot_be_built_without_memory_is_read_as_ever(starts: Starts, checkpoints: Checkpoints) -> None:
    """Apertus asks for the value of a tensor while it is built. What vLLM kept of the attempt must not get into the next one."""
    answers = [starts.results[name] for name in ("apertus-disk", "apertus-first", "apertus")]
    assert len({tuple(answer.get("tokens", [])) for answer in answers}) == 1 and len(answers[0]["tokens"]) == 8, answers
    hit = next(event for event in starts.decided(checkpoints.apertus) if (event.kind, event.outcome) == (Kind.PROCESSED, Outcome.HIT))
    assert [event.code for event in starts.record.of(MapFailed) if event.attach == hit.attach] == ["mapping_failed"]
    assert "falling back to raw tensors" in starts.log_of("apertus")
    assert f"Nothing was published for the next start: {hit.residency}, which could not be mapped" in starts.log_of("apertus")


def test_mapped_parameters_are_not_copied_and_buffers_are(starts: Starts, checkpoints: Checkpoints) -> None:
    mapped = next(event for event in starts.record.of(MapCompleted) if event.mode is Mode.ZERO_COPY)
    parameters = sum(tensor.nbytes for shard in checkpoints.llama.glob("*.safetensors") for tensor in load_file(shard).values())
    assert mapped.bytes - mapped.copied_bytes == parameters


def test_two_engines_have_one_residency_between_them(starts: Starts, checkpoints: Checkpoints) -> None:
    """Both answer alike, and what they have of the weights, each its proportional share, is the residency once."""
    assert starts.results["second"].get("tokens") == starts.results["tied"]["tokens"], starts.results["second"]
    first_bytes, second_bytes = json.loads(starts.results["second"]["run"]["output"])
    hits = [event.residency for event in starts.decided(checkpoints.qwen3) if (event.kind, event.outcome) == (Kind.PROCESSED, Outcome.HIT)]
    shared = max(hits, key=hits.count)
    (whole_bytes,) = [event.bytes for event in starts.record.of(LoadCompleted) if event.residency == shared]
    assert 0.8 * whole_bytes < first_bytes + second_bytes < 1.05 * whole_bytes
    assert abs(first_bytes - second_bytes) < 0.2 * whole_bytes


def test_what_an_engine_writes_into_mapped_weights_stays_with_it(starts: Starts) -> None:
    """A5: the second engine maps the same memory while the first one has other weights in it."""
    assert starts.results["tied"]["written"]["tokens"] != starts.results["tied"]["tokens"]
    assert starts.results["second"]["tokens"] == starts.results["qwen3-disk"]["tokens"]


def test_only_a_hit_is_reported_as_memory_outside_of_the_engine_and_is_decided_once(starts: Starts, checkpoints: Checkpoints) -> None:
    """A11: vLLM takes what is reported from its budget, and mapped memory from nothing else. A mismatch, and raw tensors, are none."""
    hit = next(event for event in starts.record.of(MapCompleted) if event.mode is Mode.ZERO_COPY)
    (reported,) = starts.results["processed"]["external"]
    assert hit.bytes <= reported < hit.bytes + (4 << 20)  # what lies between tensors is held as well
    (decided,) = [event for event in starts.decided(checkpoints.llama) if event.attach == hit.attach]
    assert [event.attach for event in starts.decided(checkpoints.llama) if event.launch == decided.launch] == [hit.attach]
    assert starts.results["processed-half"]["external"] == starts.results["half"]["external"] == [0]


def test_what_an_engine_has_mapped_is_not_released(starts: Starts) -> None:
    """A10"""
    assert starts.results["processed"]["run"]["code"] != 0
    assert "ReleaseRefused" in starts.results["processed"]["run"]["output"] or "mapped" in starts.results["processed"]["run"]["output"]
    assert [event.why for event in starts.record.of(ReleaseRefused)] == ["the test wants it"]


def test_another_configuration_misses_naming_the_field_and_reads_the_raw_tensors(starts: Starts, checkpoints: Checkpoints) -> None:
    """I12"""
    assert starts.results["processed-half"]["tokens"] == starts.results["half-disk"]["tokens"]
    missed = next(event for event in starts.decided(checkpoints.llama) if event.reason is Reason.CONFIG_MISMATCH)
    assert "differs in model_config.dtype" in missed.detail
    then = [event for event in starts.decided(checkpoints.llama) if event.launch == missed.launch]
    assert [(event.kind, event.outcome) for event in then] == [(Kind.PROCESSED, Outcome.FALLBACK), (Kind.RAW, Outcome.HIT)]


def test_what_vllm_cannot_take_processed_is_not_published_and_the_layer_is_named(starts: Starts) -> None:
    assert len(starts.results["processed-int8"]["tokens"]) == 8
    line = r"Nothing was published for the next start: model\.layers\.0\.\S+: vLLM cannot take processed tensors of CompressedTensors"
    assert re.search(line, starts.log_of("processed-int8"))


def test_mapped_tensors_are_not_loaded_anew_and_the_engine_answers_on(starts: Starts) -> None:
    """vLLM's reload_weights is refused before it has touched the model."""
    assert "Unsupported: reload_weights: processed tensors are mapped" in starts.results["tied"]["refused"]
    assert starts.results["tied"]["again"] == {name: starts.results["tied"][name] for name in ("tokens", "logprobs")}


def test_a_draft_model_is_told_from_its_target(starts: Starts, checkpoints: Checkpoints) -> None:
    assert starts.results["draft"].get("tokens") == starts.results["llama-disk"]["tokens"], starts.results["draft"]
    drafts = [event for event in starts.decided(checkpoints.llama) if event.engine.name == "vllm-draft"]
    (draft,) = drafts
    beside = [event for event in starts.record.of(AttachDecided) if event.launch == draft.launch]
    assert [(event.engine.name, event.outcome) for event in beside] == [("vllm", Outcome.HIT), ("vllm-draft", Outcome.HIT)]


def test_a_missing_tensor_ends_the_start_and_is_named(starts: Starts, checkpoints: Checkpoints) -> None:
    """A3: never uninitialised memory."""
    assert "MissingTensor" in starts.results["incomplete"]["error"]
    assert "model.layers.1.input_layernorm.weight" in starts.results["incomplete"]["error"]
    (decided,) = starts.decided(checkpoints.incomplete)
    (failed,) = [event for event in starts.record.of(FallbackFailed) if event.attach == decided.attach]
    assert failed.code == "missing_tensor"


def test_what_is_not_resident_comes_from_disk_or_not_at_all_as_the_policy_says(starts: Starts, checkpoints: Checkpoints) -> None:
    """A11: equal headers, other bytes. The fallback is on record with its bytes; without one the start ends with the reason."""
    assert starts.results["twin"] == starts.results["twin-disk"] != starts.results["llama"]
    line = r"Weight cache unusable \(content_mismatch\); falling back to disk loading rank=0 tier=sampled seq=\d+"
    assert re.search(line, starts.log_of("twin"))
    assert "StrictMiss" in starts.results["twin-strict"]["error"] and "content_mismatch" in starts.results["twin-strict"]["error"]
    fell_back, missed = starts.decided(checkpoints.twin)
    assert [(event.outcome, event.reason) for event in (fell_back, missed)] == [
        (Outcome.FALLBACK, Reason.CONTENT_MISMATCH),
        (Outcome.STRICT_MISS, Reason.CONTENT_MISMATCH),
    ]
    (cost,) = [event for event in starts.record.of(FallbackCompleted) if event.attach == fell_back.attach]
    assert cost.bytes == sum(file.stat().st_size for file in checkpoints.twin.glob("*.safetensors"))
    assert cost.seconds > 0


def test_a_key_that_nobody_knows_ends_the_start_and_is_named(starts: Starts) -> None:
    assert "falback is no key of the load format wcache" in starts.results["wrong-key"]["error"]
    assert "known: tensors, fallback, mode, socket_dir" in starts.log_of("wrong-key")


def test_a_broken_installation_ends_the_start_in_one_line_and_is_on_record(starts: Starts, checkpoints: Checkpoints) -> None:
    """A12: a module that wcache needs cannot be imported inside the worker."""
    assert "Unsupported" in starts.results["broken"]["error"] and "blake3" in starts.results["broken"]["error"]
    lines = [line for line in starts.log_of("broken").splitlines() if "No weights from the weight cache" in line]
    assert len(lines) == 1 and "wcache cannot be imported in this environment" in lines[0]
    decided = starts.decided(checkpoints.llama)[0]
    assert (decided.outcome, decided.reason, decided.engine.name) == (Outcome.FALLBACK, Reason.UNSUPPORTED, "vllm")
    assert next(event.attach for event in starts.record.of(FallbackFailed)) == decided.attach


def test_an_engine_outlives_the_daemon_and_the_next_start_does_what_its_policy_says(starts: Starts, checkpoints: Checkpoints) -> None:
    """Vault and server get SIGKILL while the engine is up, which then is told to load its weights anew, and keeps those that it has."""
    assert starts.results["killed"]["again"] == {name: starts.results["llama"][name] for name in ("tokens", "logprobs")}
    assert starts.results["killed"]["refused"].startswith("StrictMiss: ")
    assert starts.results["alone"] == starts.results["llama-disk"]
    assert "daemon_refused" in starts.results["alone-strict"]["error"]
    fell_back, missed = starts.decided(checkpoints.llama)[-2:]
    assert [(event.outcome, event.reason) for event in (fell_back, missed)] == [
        (Outcome.FALLBACK, Reason.DAEMON_REFUSED),
        (Outcome.STRICT_MISS, Reason.DAEMON_REFUSED),
    ]


def test_each_start_is_a_launch_of_its_own(starts: Starts, checkpoints: Checkpoints) -> None:
    """Also those of one process, and a reload, which is named after its start."""
    hits = [event for event in starts.decided(checkpoints.llama) if event.outcome is Outcome.HIT and event.engine.name == "vllm"]
    launches = [event.launch for event in hits]
    assert launches[1] == f"{launches[0]}-u1"
    assert len(set(launches)) == len(launches)
    assert {(event.engine.version, event.ranks.world) for event in hits} == {(hits[0].engine.version, 1)}
    assert re.fullmatch(r"\d+\.\d+\.\d+.*", hits[0].engine.version)


# --- several ranks ------------------------------------------------------------------------------------------------------------


def _wcache(daemon: DaemonProcess, *arguments: str, code: int = 0) -> str:
    command = [sys.executable, "-m", "wcache.cli", *arguments]
    done = subprocess.run(command, env=_environ(daemon), capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def pairs(checkpoints: Checkpoints, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[DaemonProcess, Starts]]:
    """Two starts of tensor-parallel size 2: one maps what was prepared for it, in the other one worker does not find the daemon."""
    daemon = DaemonProcess(tmp_path_factory.mktemp("vllm-pair-state"))
    try:
        daemon.start()
        daemon.load(checkpoints.llama)
        spawned = {"VLLM_WORKER_MULTIPROC_METHOD": "spawn"}
        program = [VLLM / "bin" / "wcache", "preload", "--json", "--", "vllm", "serve", checkpoints.llama]
        options = [
            "--tensor-parallel-size",
            "2",
            "--dtype",
            "float32",
            "--enforce-eager",
            "--max-model-len",
            "128",
            "--skip-tokenizer-init",
        ]
        _patiently()
        prepared = subprocess.run(
            [*program, *options], env={**_environ(daemon), **spawned}, capture_output=True, text=True, timeout=START_S, check=False
        )
        processed = {"fallback": False, "tensors": "processed"}
        plan = [
            {"name": "both", "engine": _engine(checkpoints.llama, extra=processed, tensor_parallel_size=2)},
            {"name": "one", "engine": _engine(checkpoints.llama, tensor_parallel_size=2), "lose": "VllmWorker-1"},
        ]
        found = _run(daemon, tmp_path_factory.mktemp("vllm-pair"), plan, VLLM_ENABLE_V1_MULTIPROCESSING="0", **spawned)
        yield daemon, found._replace(prepared=prepared)
    finally:
        daemon.cleanup()


def _places(events: list[AttachDecided], kind: Kind) -> list[tuple[int, int, int]]:
    return sorted((event.ranks.rank, event.ranks.world, event.ranks.tp) for event in events if event.kind is kind)


def test_each_of_two_ranks_is_prepared_and_maps_its_own_tensors(pairs: tuple[DaemonProcess, Starts], checkpoints: Checkpoints) -> None:
    """`wcache preload` of tensor-parallel size 2: each rank takes its part of the raw tensors, and publishes what it made of it."""
    daemon, found = pairs
    assert found.prepared is not None and found.prepared.returncode == 0, found.prepared
    said = json.loads(found.prepared.stdout)
    assert (said["complete"], said["ranks"], len(set(said["published"]))) == (True, 2, 2)
    events = found.record.of(AttachDecided)
    preparing, mapping, _ = dict.fromkeys(event.launch for event in events)
    assert preparing == said["launch"]
    prepared, mapped = ([event for event in events if event.launch == launch] for launch in (preparing, mapping))
    assert _places(prepared, Kind.PROCESSED) == _places(prepared, Kind.RAW) == _places(mapped, Kind.PROCESSED) == [(0, 2, 2), (1, 2, 2)]
    taken = {event.copied_bytes for event in found.record.of(MapCompleted) if event.mode is Mode.COPY}
    assert len(taken) == 1 and max(taken) < sum(file.stat().st_size for file in checkpoints.llama.glob("*.safetensors"))
    assert [event.outcome for event in mapped] == [Outcome.HIT] * 2
    assert {event.residency for event in mapped} == set(said["published"])
    assert "2 of 2 ranks mapped" in _wcache(daemon, "audit", "launch", mapping)


def test_each_of_two_ranks_decides_and_a_launch_says_which_was_mapped(pairs: tuple[DaemonProcess, Starts]) -> None:
    daemon, found = pairs
    assert len(found.results["one"]["tokens"]) == 8
    assert found.results["one"]["tokens"] == found.results["both"]["tokens"]
    decided = found.record.of(AttachDecided)
    started = [event for event in decided if event.launch == decided[-1].launch]
    assert _places(started, Kind.RAW) == [(0, 2, 2), (1, 2, 2)]
    told = _wcache(daemon, "audit", "launch", started[0].launch, code=1)
    assert "1 of 2 ranks mapped, rank 1 fell back because daemon_absent" in told


# --- a server -----------------------------------------------------------------------------------------------------------------


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


SERVED = ("--enforce-eager", "--max-model-len", "256", "--max-num-seqs", "4")


class Server:
    """`vllm serve`, ready to answer."""

    def __init__(self, daemon: DaemonProcess, checkpoint: Path, log: Path, *arguments: str) -> None:
        _patiently()
        self.url = f"http://127.0.0.1:{(port := _free_port())}"
        self.log = log
        options = ("--host", "127.0.0.1", "--port", str(port), *SERVED)
        with log.open("wb") as sink:
            self.process = subprocess.Popen(
                [VLLM / "bin" / "vllm", "serve", checkpoint, *options, *arguments], env=_environ(daemon), stdout=sink, stderr=sink,
                start_new_session=True,
            )  # fmt: skip
        try:
            wait_until(self._ready, START_S, "vllm serve")
        except BaseException:
            self.stop()
            raise

    def _ready(self) -> bool:
        assert self.process.poll() is None, self.log.read_text()[-4000:]
        with suppress(OSError), urllib.request.urlopen(f"{self.url}/health", timeout=5) as answer:
            return bool(answer.status == 200)
        return False

    def complete(self, prompt: str) -> dict[str, Any]:
        body = json.dumps({"prompt": prompt, "max_tokens": 4, "temperature": 0, "logprobs": 1}).encode()
        request = urllib.request.Request(f"{self.url}/v1/completions", body, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=300) as answer:
            (choice,) = json.load(answer)["choices"]
        return {"text": choice["text"], "logprobs": choice["logprobs"]["token_logprobs"]}

    def stop(self) -> None:
        self.process.terminate()
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(timeout=60)
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


def test_both_replicas_of_a_served_model_hit_and_answer_on_when_the_daemon_is_gone(smollm2: Path, tmp_path: Path) -> None:
    """I11: data-parallel size 2 of a dense model, against weights that were prepared once. Each replica is a process of its own, which
    vLLM starts with a word in its environment that the preparing one does not have."""
    daemon = DaemonProcess(tmp_path / "state")
    try:
        daemon.start()
        daemon.load(smollm2)
        strict = json.dumps({"fallback": False, "tensors": "processed", "socket_dir": str(daemon.settings.runtime_dir)})
        options = ("--load-format", "wcache", "--model-loader-extra-config", strict, "--data-parallel-size", "2")
        command = [VLLM / "bin" / "wcache", "preload", "--json", "--", "vllm", "serve", smollm2, *SERVED, "--data-parallel-size", "2"]
        _patiently()
        done = subprocess.run(command, env=_environ(daemon), capture_output=True, text=True, timeout=START_S, check=False)
        assert done.returncode == 0, done.stderr[-4000:]
        (published,) = json.loads(done.stdout)["published"]
        server = Server(daemon, smollm2, tmp_path / "log", *options)
        try:
            before = [server.complete("The capital of France is") for _ in range(2)]
            daemon.kill()
            after = [server.complete("The capital of France is") for _ in range(2)]
        finally:
            server.stop()
        assert before == after and " Paris" in before[0]["text"]
        said = [line for line in (tmp_path / "log").read_text().splitlines() if re.search("Mapped|weight cache|falling back", line)]
        mapped = re.findall(r"Mapped \d+ tensors from the weight cache daemon \(zero_copy mode\) rank=(\d)", "\n".join(said))
        assert sorted(mapped) == ["0", "1"], said
        decided = Record(daemon.settings).of(AttachDecided)[-2:]
        assert [(event.outcome, event.residency, event.ranks.tp) for event in decided] == [(Outcome.HIT, published, 1)] * 2
        assert len({event.launch for event in decided}) == 1
        assert "2 of 2 ranks mapped" in _wcache(daemon, "audit", "launch", decided[0].launch)
    finally:
        daemon.cleanup()
