"""The plugin in a real vLLM of tensor-parallel size 2 on the CPU: each rank has tensors, decisions and records of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.daemon import DaemonProcess
from support.vllm import NEEDS_VLLM, Starts, engine, preload, random_llama, run, wcache

from wcache.core.model.events import AttachDecided, MapCompleted
from wcache.core.model.vocabulary import Kind, Mode, Outcome

pytestmark = NEEDS_VLLM


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return random_llama(tmp_path_factory.mktemp("vllm-ranks") / "llama")


@pytest.fixture(scope="module")
def pairs(llama: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[DaemonProcess, Starts]]:
    """Two starts of tensor-parallel size 2: one maps what was prepared for it, in the other one worker does not find the daemon."""
    daemon = DaemonProcess(tmp_path_factory.mktemp("vllm-pair-state"))
    try:
        daemon.start()
        daemon.load(llama)
        spawned = {"VLLM_WORKER_MULTIPROC_METHOD": "spawn"}
        options = ("--dtype", "float32", "--enforce-eager", "--max-model-len", "128", "--skip-tokenizer-init")
        prepared = preload(daemon, llama, "--tensor-parallel-size", "2", *options, **spawned)
        processed = {"fallback": False, "tensors": "processed"}
        plan = [
            {"name": "both", "engine": engine(llama, extra=processed, tensor_parallel_size=2)},
            {"name": "one", "engine": engine(llama, tensor_parallel_size=2), "lose": "VllmWorker-1"},
        ]
        found = run(daemon, tmp_path_factory.mktemp("vllm-pair"), plan, VLLM_ENABLE_V1_MULTIPROCESSING="0", **spawned)
        yield daemon, found._replace(prepared=prepared)
    finally:
        daemon.cleanup()


def _places(events: list[AttachDecided], kind: Kind) -> list[tuple[int, int, int]]:
    return sorted((event.ranks.rank, event.ranks.world, event.ranks.tp) for event in events if event.kind is kind)


def test_each_of_two_ranks_is_prepared_and_maps_its_own_tensors(pairs: tuple[DaemonProcess, Starts], llama: Path) -> None:
    """`wcache preload` of tensor-parallel size 2: each rank takes its part of the raw tensors, and publishes what it made of it."""
    daemon, found = pairs
    said = found.prepared
    assert (said["complete"], said["ranks"], len(set(said["published"]))) == (True, 2, 2)
    events = found.record.of(AttachDecided)
    preparing, mapping, _ = dict.fromkeys(event.launch for event in events)
    assert preparing == said["launch"]
    prepared, mapped = ([event for event in events if event.launch == launch] for launch in (preparing, mapping))
    assert _places(prepared, Kind.PROCESSED) == _places(prepared, Kind.RAW) == _places(mapped, Kind.PROCESSED) == [(0, 2, 2), (1, 2, 2)]
    taken = {event.copied_bytes for event in found.record.of(MapCompleted) if event.mode is Mode.COPY}
    assert len(taken) == 1 and max(taken) < sum(file.stat().st_size for file in llama.glob("*.safetensors"))
    assert [event.outcome for event in mapped] == [Outcome.HIT] * 2
    assert {event.residency for event in mapped} == set(said["published"])
    assert "2 of 2 ranks mapped" in wcache(daemon, "audit", "launch", mapping)


def test_each_of_two_ranks_decides_and_a_launch_says_which_was_mapped(pairs: tuple[DaemonProcess, Starts]) -> None:
    daemon, found = pairs
    assert len(found.results["one"]["tokens"]) == 8
    assert found.results["one"]["tokens"] == found.results["both"]["tokens"]
    decided = found.record.of(AttachDecided)
    started = [event for event in decided if event.launch == decided[-1].launch]
    assert _places(started, Kind.RAW) == [(0, 2, 2), (1, 2, 2)]
    told = wcache(daemon, "audit", "launch", started[0].launch, code=1)
    assert "1 of 2 ranks mapped, rank 1 fell back because daemon_absent" in told
