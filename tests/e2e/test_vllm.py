"""The plugin in a real vLLM on the CPU: the same answers as from disk, every start's decision on record, and what ends a start."""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from support.daemon import DaemonProcess
from support.vllm import NEEDS_VLLM, PROGRAM, SIZES, VLLM, Starts, engine, preload, random_llama, run

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

pytestmark = NEEDS_VLLM


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


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory: pytest.TempPathFactory) -> Checkpoints:
    """Random models."""
    place = tmp_path_factory.mktemp("vllm")
    found = Checkpoints(*(place / name for name in Checkpoints._fields))
    random_llama(found.llama)
    random_llama(found.twin, seed=1)
    transformers.Qwen3ForCausalLM(transformers.Qwen3Config(**SIZES, tie_word_embeddings=True)).save_pretrained(found.qwen3)
    apertus = transformers.ApertusConfig(**{**SIZES, "initializer_range": 0.1}, hidden_act="xielu")
    transformers.ApertusForCausalLM(apertus).save_pretrained(found.apertus)
    _int8(found.llama, found.int8)
    shutil.copytree(found.qwen3, found.incomplete)
    tensors = load_file(found.qwen3 / "model.safetensors")
    del tensors["model.layers.1.input_layernorm.weight"]
    save_file(tensors, found.incomplete / "model.safetensors", metadata={"format": "pt"})
    return found


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
        beside = tmp_path_factory.mktemp("vllm-beside")
        second = {"name": "second", "engine": engine(checkpoints.qwen3, extra=processed), "run": [sys.executable, "-c", SHARES]}
        (beside / "plan.json").write_text(json.dumps([second]))
        start_second = [str(word) for word in (VLLM / "bin" / "python", PROGRAM, beside / "plan.json", beside / "results.json")]
        prepared = preload(daemon, checkpoints.qwen3, "--config", arguments)
        plan: list[dict[str, Any]] = [
            {"name": "broken", "engine": engine(llama), "hide": ["blake3"]},
            {"name": "llama-disk", "engine": {**engine(llama), **disk}},
            {"name": "llama", "engine": engine(llama, extra=strict), "reload": True},
            {"name": "half-disk", "engine": {**engine(llama, "bfloat16"), **disk}},
            {"name": "half", "engine": engine(llama, "bfloat16", strict), "external": True},
            {"name": "qwen3-disk", "engine": {**engine(checkpoints.qwen3), **disk}},
            {"name": "qwen3", "engine": engine(checkpoints.qwen3, extra=strict)},
            {"name": "int8-disk", "engine": {**engine(checkpoints.int8, "bfloat16"), **disk}},
            {"name": "int8", "engine": engine(checkpoints.int8, "bfloat16", strict)},
            {"name": "processed-first", "engine": engine(llama, extra=processed)},
            {"name": "processed", "engine": engine(llama, extra=processed), "external": True, "run": [sys.executable, "-c", RELEASE]},
            {"name": "processed-half", "engine": engine(llama, "bfloat16", processed), "external": True},
            {"name": "prepared", "engine": engine(checkpoints.qwen3, "bfloat16", processed)},
            {"name": "tied-first", "engine": engine(checkpoints.qwen3, extra=processed)},
            {"name": "tied", "engine": engine(checkpoints.qwen3, extra=processed), "write": True, "run": start_second, "reload": True},
            {"name": "apertus-disk", "engine": {**engine(checkpoints.apertus), **disk}},
            {"name": "apertus-first", "engine": engine(checkpoints.apertus, extra=processed)},
            {"name": "apertus", "engine": engine(checkpoints.apertus, extra=processed)},
            {"name": "processed-int8", "engine": engine(checkpoints.int8, "bfloat16", processed)},
            {"name": "draft", "engine": engine(llama, extra=strict, speculative_config=draft)},
            {"name": "incomplete", "engine": engine(checkpoints.incomplete)},
            {"name": "twin-disk", "engine": {**engine(checkpoints.twin), **disk}},
            {"name": "twin", "engine": engine(checkpoints.twin)},
            {"name": "twin-strict", "engine": engine(checkpoints.twin, extra=strict)},
            {"name": "wrong-key", "engine": engine(llama, extra={"falback": False})},
            {"name": "killed", "engine": engine(llama, extra=strict), "kill": [daemon.vault_pid, daemon.pid], "reload": True},
            {"name": "alone", "engine": engine(llama)},
            {"name": "alone-strict", "engine": engine(llama, extra=strict)},
        ]
        found = run(daemon, tmp_path_factory.mktemp("vllm-starts"), plan, VLLM_ENABLE_V1_MULTIPROCESSING="0")
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
    said = starts.prepared
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
