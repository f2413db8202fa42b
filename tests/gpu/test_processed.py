"""Post-load tensors on a GPU: published there by one process, mapped read-only by others, kept by a daemon without CUDA."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.commands import clean_environ, with_tests_on_path
from support.daemon import DaemonProcess, wait_until

from wcache.core.memory import cuda, nvml
from wcache.core.model.config import normalise_config
from wcache.core.model.vocabulary import Lineage, ResidencyState, Tier
from wcache.core.wire.messages import Done, ReleaseRequest

pytestmark = pytest.mark.gpu

MIB = 1 << 20
DIALECT = {"dtype": "float32", "tensor_parallel_size": 1, "architectures": ["Tiny"]}
CONFIG = normalise_config(DIALECT)

# Publishes what it loaded by a hit on raw weights in host memory: `step` says where it stops and waits to be killed.
ENGINE = """
import json, sys
from support.processed import answer, loaded
from wcache.core.model.config import normalise_config
from wcache.loader import publish as module
from wcache.loader.attach import attach
step, place, config = sys.argv[1:4]
found = attach(place, on_miss="strict")
model = loaded(found.tensors(), "cuda")
def stop():
    print("here", flush=True)
    sys.stdin.read()
if step == "fill":
    module._fill_gpu = lambda layout: stop()
elif step == "sent":
    def sent(self, request, fds, on_progress=None):
        self._channel.send(request, fds)
        self._channel.receive()
        stop()
    module.Session.publish = sent
info = module.publish_module(model, attachment=found, config=normalise_config(json.loads(config)))
print(json.dumps([info.residency, info.lineage, info.processed_digest, info.bytes, answer(model)]), flush=True)
sys.stdin.read()
"""
WRITER = """
import sys, torch
from support.processed import DIALECT, hollow
from wcache.core.memory.views import explained_writes
from wcache.core.model.config import normalise_config
from wcache.core.model.errors import MappingFailed
from wcache.loader.attach import attach
found = attach(sys.argv[1], kind="processed", config=normalise_config(DIALECT), device=sys.argv[2], on_miss="strict")
memory = found.memory()
try:
    with explained_writes(memory.mapping):
        memory.tensors()["fused"].add_(1)
except MappingFailed as error:
    print("refused", error)
"""


@pytest.fixture(scope="module")
def daemon() -> Iterator[DaemonProcess]:
    process = DaemonProcess()
    try:
        yield process.start()
    finally:
        process.cleanup()


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory, gpu: cuda.Device) -> Path:
    from support.processed import make_directory

    return make_directory(tmp_path_factory.mktemp("processed") / "tiny")


def engine(daemon: DaemonProcess, code: str, *arguments: object) -> subprocess.Popen[str]:
    env = with_tests_on_path({**clean_environ(), **daemon.env})
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.Popen(command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def publish(daemon: DaemonProcess, place: Path, config: dict[str, object]) -> list[str]:
    """[residency, lineage, processed digest, bytes, answer], by a process that has ended since."""
    daemon.load(place)
    process = engine(daemon, ENGINE, "whole", place, json.dumps(config))
    out, err = process.communicate("", timeout=120)
    assert process.returncode == 0, err
    found: list[str] = json.loads(out.splitlines()[-1])
    return found


def attach_elsewhere(daemon: DaemonProcess, place: Path, gpu: cuda.Device, accept: str) -> str:
    env = with_tests_on_path({**clean_environ(), **daemon.env})
    command = [sys.executable, "-m", "support.processed", str(place), json.dumps(DIALECT), accept, gpu.uuid]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def accepted(lineage: str) -> str:
    """What an attach has to accept here: on a file system that keeps no pins (a container's tmpfs) no lineage is proven."""
    return Tier.PINNED.value if lineage == Lineage.PROVEN.value else Tier.HEADER.value


def used_bytes(gpu: cuda.Device) -> int:
    return nvml.memory(gpu.uuid).used_bytes


def release(daemon: DaemonProcess, residency: str) -> None:
    channel = daemon.connect()
    try:
        assert isinstance(channel.call(ReleaseRequest(residency=residency), timeout_s=30), Done)
    finally:
        channel.close()


def settled(gpu: cuda.Device, expected_bytes: int) -> None:
    """Ended processes give their contexts back a moment later."""
    wait_until(lambda: abs(used_bytes(gpu) - expected_bytes) < MIB, timeout_s=30, what=f"{used_bytes(gpu)} used, {expected_bytes} expected")


def test_another_process_computes_the_same_bits_and_nothing_but_the_weights_takes_memory(
    daemon: DaemonProcess, place: Path, gpu: cuda.Device
) -> None:
    before = used_bytes(gpu)
    residency, lineage, _, size_bytes, answer = publish(daemon, place, DIALECT)
    settled(gpu, before + int(size_bytes))
    assert attach_elsewhere(daemon, place, gpu, accepted(lineage)) == answer
    settled(gpu, before + int(size_bytes))
    release(daemon, residency)
    settled(gpu, before)


def test_the_same_tensors_have_the_same_processed_digest_in_host_memory(daemon: DaemonProcess, place: Path, gpu: cuda.Device) -> None:
    from support.processed import loaded

    from wcache.loader.attach import attach
    from wcache.loader.publish import publish_module

    residency, _, digest, *_ = publish(daemon, place, DIALECT)
    source = attach(place, settings=daemon.settings, on_miss="strict")
    info = publish_module(loaded(source.tensors()), attachment=source, config=CONFIG)
    assert info.residency != residency
    assert info.processed_digest == digest
    source.close()
    release(daemon, residency)
    release(daemon, info.residency)


def test_a_write_into_a_mapped_parameter_ends_in_a_message_and_in_that_process_only(
    daemon: DaemonProcess, place: Path, gpu: cuda.Device
) -> None:
    """A5."""
    residency, lineage, _, _, answer = publish(daemon, place, DIALECT)
    if accepted(lineage) == "pinned":
        process = engine(daemon, WRITER, place, gpu.uuid)
        out, err = process.communicate("", timeout=120)
        assert "refused" in out and "read-only" in out, out + err
    assert attach_elsewhere(daemon, place, gpu, accepted(lineage)) == answer
    wait_until(lambda: not any(one.leases for one in daemon.status().residencies), timeout_s=30)
    release(daemon, residency)


@pytest.mark.parametrize(("step", "stays"), [("fill", False), ("sent", True)])
def test_a_killed_publisher_leaves_whole_weights_or_no_memory_at_all(
    daemon: DaemonProcess, place: Path, gpu: cuda.Device, step: str, stays: bool
) -> None:
    """D1."""
    daemon.load(place)
    before = used_bytes(gpu)
    process = engine(daemon, ENGINE, step, place, json.dumps(DIALECT))
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "here\n"
        process.send_signal(signal.SIGKILL)
    finally:
        process.kill()
        process.communicate(timeout=30)

    def processed() -> list[str]:
        return [
            one.view.residency
            for one in daemon.status().residencies
            if one.view.device == gpu.uuid and one.view.state is ResidencyState.RESIDENT
        ]

    wait_until(lambda: len(daemon.status().residencies) == 1 + stays and len(processed()) == stays, timeout_s=60)
    for residency in processed():
        release(daemon, residency)
    settled(gpu, before)
