"""Residencies on a GPU: loaded, proved, kept through every death, and given back to the MiB. Real daemons, real kills."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from blake3 import blake3
from support.attaching import Attached, attach
from support.corpus import make_checkpoint, make_tensors, read_tensors
from support.daemon import DaemonProcess, wait_until, zeros_shard
from support.faults import go_on

from wcache.core.checkpoint.identity import filesystem_kind, pinnable
from wcache.core.memory import cuda, nvml, table, vmm
from wcache.core.memory.blake3_cuda import Blake3
from wcache.core.model.errors import (
    CheckpointChanged,
    DaemonUnreachable,
    NoRoom,
    NotFound,
    RequestRefused,
    UsageError,
    WcacheError,
    WorkerDied,
)
from wcache.core.model.events import FingerprintRecorded, LeaseEnded, LoadCompleted, LoadFailed, MutationDetected, ReleaseCompleted
from wcache.core.model.vocabulary import Outcome, Reason, ResidencyState
from wcache.core.wire.messages import Loaded, LoadRequest, Progress, ReleaseRequest, Verified, VerifyRequest

pytestmark = pytest.mark.gpu

MIB = 1 << 20
PATIENCE_S = 60.0
DATA_BYTES = 300 * MIB + 12345  # several chunks, and no whole number of anything

# An engine: attaches by the wire, maps read-only, says the digest of what it has for each line that it gets.
ENGINE = """
import sys
sys.path.insert(0, sys.argv[1])
from pathlib import Path
from blake3 import blake3
from support.attaching import attach
from wcache.core.memory import cuda, vmm
from wcache.core.memory.blake3_cuda import Blake3
attached = attach(Path(sys.argv[2]), sys.argv[3], device=sys.argv[4])
assert attached.decided.segments, attached.decided
device = cuda.find(sys.argv[4])
mapping = vmm.map_descriptor(attached.fds["memory"], attached.decided.segments[1].size_bytes, device)
hasher = Blake3(device)
print("ready", flush=True)
for line in sys.stdin:
    print(hasher.digests([(mapping.address, mapping.size_bytes)])[0].hex(), flush=True)
"""


class Engine:
    def __init__(self, daemon: DaemonProcess, path: Path, uuid: str) -> None:
        tests = str(Path(__file__).parents[1])
        self.process = subprocess.Popen(
            [sys.executable, "-c", ENGINE, tests, str(daemon.settings.socket_path), str(path), uuid],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert self._line() == "ready"

    def _line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def digest(self) -> str:
        assert self.process.stdin is not None
        self.process.stdin.write("hash\n")
        self.process.stdin.flush()
        found = self._line()
        assert len(found) == 64
        return found

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()


@pytest.fixture
def daemon() -> Iterator[DaemonProcess]:
    process = DaemonProcess()
    try:
        yield process.start()
    finally:
        process.cleanup()


@pytest.fixture
def used_mib(gpu: cuda.Device, hasher: Blake3) -> Iterator[Meter]:
    """What is in use beyond what was before the test."""
    hasher.close()
    meter = Meter(gpu.uuid)
    yield meter


class Meter:
    def __init__(self, uuid: str) -> None:
        self.uuid = uuid
        self.before_mib = nvml.memory(uuid).used_bytes // MIB

    def __call__(self) -> int:
        return nvml.memory(self.uuid).used_bytes // MIB - self.before_mib

    def becomes(self, wanted_mib: int) -> None:
        wait_until(lambda: self() == wanted_mib, PATIENCE_S, f"{self()} MiB in use instead of {wanted_mib}")


class Made(NamedTuple):
    """A checkpoint of three shards, one of them large, and its tensors as the safetensors package reads them."""

    path: Path
    tensors: dict[str, tuple[str, tuple[int, ...], bytes]]


@pytest.fixture(scope="session")
def disk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A directory on a file system whose pins hold, and that can be read past the page cache."""
    path = tmp_path_factory.mktemp("gpu")
    if pinnable(filesystem_kind(path))[0]:
        yield path
        return
    scratch = Path(tempfile.mkdtemp(prefix=".scratch-", dir=Path(__file__).parent))
    try:
        yield scratch
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


@pytest.fixture(scope="session")
def made(disk: Path) -> Made:
    tensors = make_tensors(5)
    block = blake3(b"large").digest(length=MIB)
    tensors["model.large"] = ("U8", (DATA_BYTES,), (block * (DATA_BYTES // MIB + 1))[:DATA_BYTES])
    tensors["model.last.odd"] = ("U8", (3,), b"odd")
    path = make_checkpoint(disk / "model", tensors, shards=3)
    return Made(path, read_tensors(path))


def load(daemon: DaemonProcess, path: Path, device: str) -> Loaded:
    channel = daemon.connect()
    try:
        reply = channel.call(LoadRequest(spelling=str(path), device=device), timeout_s=PATIENCE_S)
    finally:
        channel.close()
    assert isinstance(reply, Loaded)
    wait_until(lambda: not daemon.workers(), PATIENCE_S)  # its context is gone with it
    return reply


def verify(daemon: DaemonProcess, residency: str, *, read: bool = True) -> Verified:
    channel = daemon.connect()
    try:
        reply = channel.call(VerifyRequest(residency=residency, read=read), timeout_s=PATIENCE_S)
    finally:
        channel.close()
    assert isinstance(reply, Verified)
    wait_until(lambda: not daemon.workers(), PATIENCE_S)
    return reply


def release(daemon: DaemonProcess, residency: str, *, check: bool = False) -> None:
    channel = daemon.connect()
    try:
        channel.call(ReleaseRequest(residency=residency, verify=check), timeout_s=PATIENCE_S)
    finally:
        channel.close()
    wait_until(lambda: not daemon.workers(), PATIENCE_S)


def attached_to(daemon: DaemonProcess, made: Made, gpu: cuda.Device) -> Attached:
    attached = attach(daemon.settings.socket_path, made.path, device=gpu.uuid)
    assert attached.decided.decision.outcome is Outcome.HIT, attached.decided
    return attached


def table_of(attached: Attached) -> table.Table:
    described, memory = attached.decided.segments
    assert (described.form, memory.form) == ("table", "memory")
    return table.read(attached.fds[described.name], described.size_bytes, memory_bytes=memory.size_bytes)


def test_a_load_has_every_byte_and_the_digest_of_a_load_into_host_memory(
    daemon: DaemonProcess, gpu: cuda.Device, made: Made, used_mib: Meter
) -> None:
    """Bytes, weights digest, and the cheaper fingerprints are the same; in use is exactly what the GPU gives for the weights."""
    on_gpu = load(daemon, made.path, gpu.uuid)
    view = on_gpu.residency
    assert view.device == gpu.uuid
    used_mib.becomes(view.bytes // MIB)
    assert view.bytes % vmm.granularity(gpu) == 0
    on_host = daemon.load(made.path).residency
    assert view.residency != on_host.residency
    assert (view.weights_digest, view.table_digest, view.tensors) == (on_host.weights_digest, on_host.table_digest, on_host.tensors)
    assert view.known == on_host.known
    completed = [event for event in daemon.events("load.completed") if isinstance(event, LoadCompleted)]
    assert set(completed[0].seconds) == {"settle", "read", "seal", "prepare", "disk", "copy", "hash"}
    assert (completed[0].device, completed[0].bytes, completed[0].shards) == (gpu.uuid, view.bytes, 3)
    recorded = [event.evidence for event in daemon.events("fingerprint.recorded") if isinstance(event, FingerprintRecorded)]
    content = [item for item in recorded if item is not None and item.tier == "content"]
    assert content[0].pinnable and content[0].digest == view.weights_digest
    attached = attached_to(daemon, made, gpu)
    found = table_of(attached)
    assert [shard.size_bytes for shard in found.shards] == [file.stat().st_size for file in sorted(made.path.glob("*.safetensors"))]
    for shard in found.shards:
        assert (made.path / shard.name).read_bytes().startswith(shard.header)
    with vmm.map_descriptor(attached.fds["memory"], attached.decided.segments[1].size_bytes, gpu) as mapping:
        places = {place.name: place for place in found.tensors}
        assert places.keys() == made.tensors.keys()
        for name, (dtype, shape, data) in made.tensors.items():
            place = places[name]
            assert (place.dtype, place.shape) == (dtype, shape)
            assert place.offset_bytes % 256 == 0
            assert mapping.read(place.offset_bytes, place.size_bytes) == data
    attached.close()
    again = load(daemon, made.path, gpu.uuid)
    assert (again.reused, again.residency.residency) == (True, view.residency)


def test_what_is_resident_is_proved_and_a_changed_tensor_is_named(
    daemon: DaemonProcess, gpu: cuda.Device, made: Made, used_mib: Meter
) -> None:
    loaded = load(daemon, made.path, gpu.uuid).residency
    verified = verify(daemon, loaded.residency)
    assert (verified.intact, verified.by, verified.found) == (True, "digests", loaded.weights_digest)
    with pytest.raises(RequestRefused, match="no seals"):
        verify(daemon, loaded.residency, read=False)
    attached = attached_to(daemon, made, gpu)
    place = next(place for place in table_of(attached).tensors if place.name == "model.norm.weight")
    with vmm.map_descriptor(attached.fds["memory"], loaded.bytes, gpu, writable=True) as mapping:
        mapping.write(place.offset_bytes, bytes(place.size_bytes))
    verified = verify(daemon, loaded.residency)
    assert (verified.intact, verified.tensors, verified.state) == (False, ("model.norm.weight",), ResidencyState.SUSPECT)
    assert verified.found not in ("", loaded.weights_digest)
    (detected,) = daemon.events("mutation.detected")
    assert detected == MutationDetected(residency=loaded.residency, tensors=("model.norm.weight",), why="")
    other = attach(daemon.settings.socket_path, made.path, device=gpu.uuid)
    assert other.decided.decision.reason is Reason.SUSPECT
    other.close()
    attached.close()
    wait_until(lambda: not daemon.status().leases)
    release(daemon, loaded.residency)
    used_mib.becomes(0)


def test_the_end_of_a_lease_claims_no_check_that_was_not_made(daemon: DaemonProcess, gpu: cuda.Device, made: Made) -> None:
    loaded = load(daemon, made.path, gpu.uuid).residency
    attached_to(daemon, made, gpu).close()
    wait_until(lambda: daemon.events("lease.ended"))
    release(daemon, loaded.residency, check=True)
    (ended,) = daemon.events("lease.ended")
    (completed,) = daemon.events("release.completed")
    assert isinstance(ended, LeaseEnded) and isinstance(completed, ReleaseCompleted)
    assert (ended.checked, completed.checked, completed.bytes) == ("", "digests", loaded.bytes)


def test_no_death_costs_a_byte_and_a_release_gives_everything_back(
    daemon: DaemonProcess, gpu: cuda.Device, made: Made, used_mib: Meter
) -> None:
    """D1 on a GPU: SIGKILL of the worker after its hand-over, of server, vault, engines: equal digests, exact memory, nothing left."""
    channel = daemon.connect()
    reply = channel.call(LoadRequest(spelling=str(made.path), device=gpu.uuid), timeout_s=PATIENCE_S)
    for worker in daemon.workers():  # its hand-over is complete, whatever it is still doing
        os.kill(worker, signal.SIGKILL)
    channel.close()
    assert isinstance(reply, Loaded)
    residency, size_mib = reply.residency.residency, reply.residency.bytes // MIB
    wait_until(lambda: not daemon.workers(), PATIENCE_S)
    used_mib.becomes(size_mib)
    one, two = Engine(daemon, made.path, gpu.uuid), Engine(daemon, made.path, gpu.uuid)
    digest = one.digest()
    assert two.digest() == digest
    # The driver's own word: NVML opens the devices and libcuda in the server, which is no context.
    computing = nvml.compute_pids(gpu.uuid)
    assert {one.process.pid, two.process.pid} <= set(computing)
    assert not {daemon.pid, daemon.vault_pid} & set(computing)
    one.kill()
    wait_until(lambda: len(daemon.status().leases) == 1, PATIENCE_S)
    assert verify(daemon, residency).intact

    server = daemon.pid
    os.kill(server, signal.SIGKILL)
    wait_until(lambda: daemon.pid not in (0, server) and _answers(daemon), PATIENCE_S)
    assert two.digest() == digest
    assert verify(daemon, residency).intact

    status = daemon.status()
    os.kill(status.vault_pid, signal.SIGKILL)
    wait_until(lambda: _answers(daemon) and daemon.status().vault_pid not in (0, status.vault_pid), PATIENCE_S)
    three = Engine(daemon, made.path, gpu.uuid)
    assert three.digest() == two.digest() == digest
    assert {lease.residency for lease in daemon.status().leases} == {residency}
    two.kill()
    three.kill()
    wait_until(lambda: not daemon.status().leases, PATIENCE_S)
    used_mib.becomes(size_mib)
    channel = daemon.connect()
    assert channel.call(VerifyRequest(residency=residency), timeout_s=PATIENCE_S).intact  # type: ignore[attr-defined]
    channel.call(ReleaseRequest(residency=residency), timeout_s=PATIENCE_S)
    channel.close()
    used_mib.becomes(0)


def _answers(daemon: DaemonProcess) -> bool:
    try:
        daemon.status()
    except DaemonUnreachable:
        return False
    return True


def test_an_engine_keeps_what_was_released_by_force_until_it_ends(
    daemon: DaemonProcess, gpu: cuda.Device, made: Made, used_mib: Meter
) -> None:
    loaded = load(daemon, made.path, gpu.uuid).residency
    engine = Engine(daemon, made.path, gpu.uuid)
    digest = engine.digest()
    channel = daemon.connect()
    with pytest.raises(RequestRefused, match="mapped by"):
        channel.call(ReleaseRequest(residency=loaded.residency))
    channel.call(ReleaseRequest(residency=loaded.residency, force=True), timeout_s=PATIENCE_S)
    channel.close()
    assert engine.digest() == digest
    engine.kill()
    used_mib.becomes(0)


def test_a_worker_that_dies_in_the_middle_leaves_nothing_on_the_gpu(
    daemon: DaemonProcess, gpu: cuda.Device, disk: Path, used_mib: Meter
) -> None:
    shard = zeros_shard(disk / "killed" / "model.safetensors", _slow_bytes(gpu))
    error = _in_phase(daemon, shard.parent, gpu.uuid, lambda worker: os.kill(worker, signal.SIGKILL))
    assert isinstance(error, WorkerDied)
    assert daemon.status().residencies == ()
    used_mib.becomes(0)
    used_mib.becomes(load(daemon, shard.parent, gpu.uuid).residency.bytes // MIB)


@pytest.mark.parametrize("change", ["bytes", "shorter", "longer"])
def test_a_checkpoint_that_changes_during_the_load_is_named_and_not_kept(
    daemon: DaemonProcess, gpu: cuda.Device, disk: Path, used_mib: Meter, change: str
) -> None:
    """C9, D8."""
    shard = zeros_shard(disk / change / "model.safetensors", _slow_bytes(gpu))
    size_bytes = shard.stat().st_size

    def act(_worker: int) -> None:
        if change == "bytes":
            with shard.open("r+b") as file:
                file.seek(100 << 20)
                file.write(b"other")
        else:
            os.truncate(shard, size_bytes // 2 if change == "shorter" else size_bytes + 4096)

    error = _in_phase(daemon, shard.parent, gpu.uuid, act)
    shard.unlink()
    assert isinstance(error, CheckpointChanged), error
    (failed,) = daemon.events("load.failed")
    assert isinstance(failed, LoadFailed)
    assert failed.code == "checkpoint_changed"
    used_mib.becomes(0)


def _slow_bytes(gpu: cuda.Device) -> int:
    """Enough that a load can be stopped in its middle, of a file without any blocks."""
    return min(32 << 30, gpu.total_bytes // 4)


def _in_phase(daemon: DaemonProcess, path: Path, device: str, act: object, phase: str = "read") -> WcacheError | None:
    """The error that a load ended with whose worker was stopped in that phase, once, for `act(worker)`."""
    channel = daemon.connect()
    done = False

    def on_progress(progress: Progress) -> None:
        nonlocal done
        if progress.phase == phase and not done and (workers := daemon.workers()):
            done = True
            os.kill(workers[0], signal.SIGSTOP)
            act(workers[0])  # type: ignore[operator]
            go_on(workers[0])

    try:
        channel.call(LoadRequest(spelling=str(path), device=device), timeout_s=PATIENCE_S, on_progress=on_progress)
    except WcacheError as error:
        wait_until(lambda: not daemon.workers(), PATIENCE_S)
        return error
    finally:
        channel.close()
        assert done, f"phase {phase} was never told"
    return None


def test_two_daemons_hold_their_own_on_one_gpu(daemon: DaemonProcess, gpu: cuda.Device, made: Made, used_mib: Meter) -> None:
    other = DaemonProcess()
    try:
        other.start()
        sizes_mib = [load(one, made.path, gpu.uuid).residency.bytes // MIB for one in (daemon, other)]
        used_mib.becomes(sum(sizes_mib))
        other.kill()
        used_mib.becomes(sizes_mib[0])
        assert all(verify(daemon, one.view.residency).intact for one in daemon.status().residencies)
    finally:
        other.cleanup()


def test_a_budget_counts_for_each_device_and_evicts_from_that_one_only(gpu: cuda.Device, made: Made, disk: Path, used_mib: Meter) -> None:
    """D9 on a GPU: what is in host memory does not make room there."""
    other = zeros_shard(disk / "other" / "model.safetensors", 200 * MIB).parent
    daemon = DaemonProcess(environ={"WCACHE_BUDGET_BYTES": str(400 * MIB)})
    try:
        daemon.start()
        host = daemon.load(other).residency.residency
        first = load(daemon, made.path, gpu.uuid).residency
        used_mib.becomes(first.bytes // MIB)
        second = load(daemon, other, gpu.uuid).residency
        held = {one.view.residency for one in daemon.status().residencies}
        assert held == {host, second.residency}
        used_mib.becomes(second.bytes // MIB)
        too_large = zeros_shard(disk / "large" / "model.safetensors", 500 * MIB).parent
        with pytest.raises(NoRoom, match=rf"bytes of {gpu.uuid} are needed, \d+ may be taken \(by the budget"):
            load(daemon, too_large, gpu.uuid)
    finally:
        daemon.cleanup()


def test_what_cannot_fit_or_is_not_there_is_refused_before_anything_is_read(daemon: DaemonProcess, gpu: cuda.Device, disk: Path) -> None:
    """D7 on a GPU."""
    huge = zeros_shard(disk / "huge" / "model.safetensors", gpu.total_bytes + (1 << 30)).parent
    with pytest.raises(NoRoom, match=r"\d+ may be taken \(by the memory that is free on that GPU\)"):
        load(daemon, huge, gpu.uuid)
    with pytest.raises(NotFound, match="no such GPU"):
        load(daemon, huge, "GPU-00000000-0000-0000-0000-000000000000")
    with pytest.raises(UsageError, match="UUID"):
        load(daemon, huge, "cuda:0")


def test_the_command_line_loads_by_every_name_of_a_gpu(daemon: DaemonProcess, gpu: cuda.Device, made: Made) -> None:
    def wcache(*words: str, **environ: str) -> subprocess.CompletedProcess[str]:
        found = {**os.environ, **daemon.env, **environ}
        return subprocess.run([sys.executable, "-m", "wcache.cli", *words], capture_output=True, text=True, timeout=120, env=found)

    done = wcache("load", str(made.path), "--device", "cuda:0", "--json", CUDA_VISIBLE_DEVICES=gpu.uuid)
    assert done.returncode == 0, done.stderr
    first = json.loads(done.stdout)
    assert (first["device"], first["reused"]) == (gpu.uuid, False)
    for device in ("cuda", "0", gpu.uuid, gpu.uuid[:12], "all"):
        done = wcache("load", str(made.path), "--device", device, "--json", CUDA_VISIBLE_DEVICES=gpu.uuid)
        assert json.loads(done.stdout)["residency"] == first["residency"], (device, done.stderr)
    done = wcache("load", str(made.path), "--device", f"cpu,{gpu.uuid}", "--json")
    assert [one["device"] for one in json.loads(done.stdout)] == ["cpu", gpu.uuid]
    assert gpu.uuid[:12] in wcache("status").stdout
    done = wcache("load", str(made.path), "--device", "cuda:1", CUDA_VISIBLE_DEVICES=gpu.uuid)
    assert done.returncode == 4 and "no such GPU" in done.stderr
    done = wcache("verify", first["residency"])
    assert done.returncode == 0 and "intact" in done.stdout
