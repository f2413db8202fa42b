"""Engines on a GPU: fed from host memory, or on the daemon's own GPU memory; with real daemons, processes and models."""

from __future__ import annotations

import gc
import json
import os
import shutil
import subprocess
import sys
import tempfile
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec
import pytest
from support.corpus import make_checkpoint, read_tensors
from support.daemon import DaemonProcess, wait_until
from support.ledgers import Record

from wcache.core.checkpoint.header import read_header
from wcache.core.checkpoint.identity import filesystem_kind, pinnable
from wcache.core.memory import nvml, vmm
from wcache.core.memory.cuda import Device
from wcache.core.memory.packing import Item, pack
from wcache.core.memory.table import Shard, Table
from wcache.core.model.decide import Decision
from wcache.core.model.errors import MappingFailed, NoRoom, StrictMiss
from wcache.core.model.events import AttachDecided, MapCompleted, MapPaused, MapResumed, ReleaseCompleted, ReleaseRequested
from wcache.core.model.vocabulary import Outcome, Tier
from wcache.core.settings import load_settings
from wcache.core.wire.messages import Loaded, LoadRequest
from wcache.loader import attachment_of, load_file, safe_open
from wcache.loader.attach import Attachment, attach
from wcache.loader.packed import Packed
from wcache.loader.question import make_question
from wcache.loader.safetensors_api import Mapped
from wcache.loader.taken import take

pytestmark = pytest.mark.gpu
torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

FIRST, SECOND = "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"
MIB = 1 << 20
ENGINE = Path(__file__).resolve().parents[2] / "bench" / "gpu_engine.py"


def bits(tensor: Any) -> bytes:
    return bytes(tensor.contiguous().reshape(-1).view(torch.uint8).cpu().numpy().tobytes()) if tensor.numel() else b""


def assert_weights(found: dict[str, Any], base: Path) -> None:
    assert {name: bits(tensor) for name, tensor in found.items()} == {name: data for name, (_, _, data) in read_tensors(base).items()}
    assert all(tensor.is_cuda for tensor in found.values())


@pytest.fixture(scope="module")
def disk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    found = tmp_path_factory.mktemp("gpu")
    if not pinnable(filesystem_kind(found))[0]:
        found = Path(tempfile.mkdtemp(prefix=".scratch-", dir=Path(__file__).parent))
    yield found
    shutil.rmtree(found, ignore_errors=True)


@pytest.fixture(scope="module")
def base(disk: Path) -> Path:
    return make_checkpoint(disk / "tiny", shards=2, metadata={"format": "pt"})


@pytest.fixture(scope="module")
def model_place(disk: Path) -> Path:
    """Qwen3's layout: tied head, norms of queries and keys, bfloat16."""
    torch.manual_seed(0)
    config = transformers.Qwen3Config(
        hidden_size=256, intermediate_size=512, num_hidden_layers=4, num_attention_heads=8, num_key_value_heads=4, head_dim=32,
        vocab_size=4096, tie_word_embeddings=True,
    )  # fmt: skip
    transformers.Qwen3ForCausalLM(config).to(torch.bfloat16).save_pretrained(disk / "qwen3", max_shard_size="4MB")
    return disk / "qwen3"


@pytest.fixture(scope="module")
def twin_place(model_place: Path, disk: Path) -> Path:
    """The same but for one norm, which is zero: equal names, headers and sizes."""
    place = disk / "twin"
    shutil.copytree(model_place, place)
    for path in place.glob("*.safetensors"):
        content = bytearray(path.read_bytes())
        header = read_header(
            lambda offset, length, content=content: bytes(content[offset : offset + length]), len(content), where=path.name
        )
        for entry in header.tensors:
            if entry.name == "model.norm.weight":
                begin = header.header_bytes + entry.begin
                content[begin : begin + entry.size_bytes] = bytes(entry.size_bytes)
        path.write_bytes(content)
    return place


class Host:
    def __init__(self, daemon: DaemonProcess) -> None:
        self.daemon = daemon
        self.settings = msgspec.structs.replace(daemon.settings, policy=msgspec.structs.replace(daemon.settings.policy, on_miss="strict"))
        self.record = Record(daemon.settings)

    def load(self, place: Path, device: str = "cpu") -> Loaded:
        channel = self.daemon.connect()
        reply = channel.call(LoadRequest(spelling=str(place), device=device), timeout_s=120)
        channel.close()
        assert isinstance(reply, Loaded)
        wait_until(lambda: not self.daemon.workers(), 60)  # its context is gone with it
        return reply

    def leases(self) -> int:
        return sum(one.leases for one in self.daemon.status().residencies)

    def cli(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "wcache.cli", *arguments]
        return subprocess.run(command, env={**os.environ, **self.daemon.env}, capture_output=True, text=True, timeout=120, check=False)


@pytest.fixture
def host(disk: Path, tmp_path: Path) -> Iterator[Host]:
    daemon = DaemonProcess(Path(tempfile.mkdtemp(prefix="state-", dir=disk)))
    try:
        yield Host(daemon.start())
    finally:
        daemon.cleanup()


class Engine:
    """A process with a model, built at the first look at `first`: several begin at once, since importing takes longest. Closed, it ends."""

    def __init__(self, host: Host, place: Path, how: str = "wcache", **environ: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, str(ENGINE), str(place), how],
            env={**os.environ, **host.daemon.env, "WCACHE_ON_MISS": "strict", **environ},
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip

    @cached_property
    def first(self) -> dict[str, Any]:
        assert self.answer() == "ready"
        found: dict[str, Any] = self.do("go")
        return found

    def answer(self) -> Any:
        assert self.process.stdout is not None and self.process.stderr is not None
        line = self.process.stdout.readline()
        if not line:
            raise AssertionError(self.process.stderr.read()[-2000:])
        return json.loads(line)

    def do(self, what: str) -> Any:
        assert self.process.stdin is not None
        self.process.stdin.write(what + "\n")
        self.process.stdin.flush()
        return self.answer()

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, *exc: object) -> None:
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            if pipe is not None:
                with suppress(OSError):  # it has ended already
                    pipe.close()
        try:
            self.process.wait(60)
        finally:
            self.process.kill()


@contextmanager
def filled(gpu: Device, but_bytes: int) -> Iterator[None]:
    """All of the GPU's memory taken, but for so much. Given back also when the test fails: a traceback would keep it."""
    torch.cuda.empty_cache()
    held = [torch.empty(nvml.memory(gpu.uuid).free_bytes - but_bytes, dtype=torch.uint8, device="cuda")]
    try:
        yield
    finally:
        held.clear()
        torch.cuda.empty_cache()


def same(first: dict[str, Any], second: dict[str, Any]) -> bool:
    return (first["tokens"], first["logits"]) == (second["tokens"], second["logits"])


class TestHostTier:
    def test_files_of_host_memory_arrive_on_the_gpu_and_nothing_stays_leased(self, gpu: Device, host: Host, base: Path) -> None:
        host.load(base)
        first = load_file(base / FIRST, device=f"cuda:{gpu.ordinal}", settings=host.settings)
        with safe_open(base / SECOND, "pt", device=gpu.ordinal, settings=host.settings) as file:
            second = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            assert bits(file.get_slice("lm_head.weight" if "lm_head.weight" in second else next(iter(second)))[:1])
        assert_weights({**first, **second}, base)
        assert all(tensor.data_ptr() % 256 == 0 for tensor in first.values() if tensor.numel())
        decided, mapped = host.record.last(AttachDecided), host.record.last(MapCompleted)
        assert (decided.outcome, decided.mode, decided.device) == ("hit", "copy", gpu.uuid)
        assert (mapped.mode, mapped.copied_bytes, mapped.ms > 0) == ("copy", mapped.bytes, True)
        assert not host.record.of(ReleaseRequested), "nobody asked for mode copy: the weights stay in host memory"

    def test_a_whole_checkpoint_comes_in_one_call_by_any_name_of_the_gpu(self, gpu: Device, host: Host, base: Path) -> None:
        host.load(base)
        for device in ("cuda", f"cuda:{gpu.ordinal}", gpu.ordinal, gpu.uuid, gpu.uuid[:16], torch.device("cuda", gpu.ordinal)):
            found = attach(base, device=device, settings=host.settings).tensors()
            assert_weights(found, base)
        assert all(attachment_of(tensor) is None for tensor in found.values())
        wait_until(lambda: host.leases() == 0)

    def test_a_copy_that_does_not_fit_is_refused_before_the_grant_with_the_numbers(self, gpu: Device, host: Host, base: Path) -> None:
        """D7."""
        host.load(base)
        big = make_checkpoint(base.parent / "big", {f"t{n}": ("U8", (32 * MIB,), bytes(32 * MIB)) for n in range(4)})
        host.load(big)
        with filled(gpu, 64 * MIB), pytest.raises(StrictMiss, match=r"a copy takes 12\d MiB, \d+ MiB are free") as error:
            attach(big, device="cuda", settings=host.settings)
        assert error.value.reason == "no_room"
        assert host.record.last(AttachDecided).reason == "no_room"
        assert len(attach(big, device="cuda", settings=host.settings).tensors()) == 4

    def test_a_model_fed_from_host_memory_computes_what_the_disk_load_computes(self, gpu: Device, host: Host, model_place: Path) -> None:
        host.load(model_place)
        with Engine(host, model_place, "disk") as disk, Engine(host, model_place) as fed:
            assert same(disk.first, fed.first)
            assert (fed.first["mapped"], fed.first["on_gpu"]) == (0, True)
        mapped = host.record.last(MapCompleted)
        assert (mapped.mode, mapped.copied_tensors) == ("copy", mapped.tensors)


def packed_on(gpu: Device, place: Path) -> tuple[Packed, vmm.Mapping]:
    """A checkpoint in GPU memory as the daemon's worker leaves it, and a writable mapping of it to look at."""
    shards, items, data = [], [], {}
    for path in sorted(place.glob("*.safetensors")):
        content = path.read_bytes()
        header = read_header(lambda offset, length, content=content: content[offset : offset + length], len(content), where=path.name)
        shards.append(Shard(path.name, len(content), content[: header.header_bytes]))
        for entry in header.tensors:
            items.append(Item(entry.name, entry.dtype, entry.shape, entry.size_bytes))
            data[entry.name] = content[header.header_bytes + entry.begin :][: entry.size_bytes]
    plan = pack(items)
    blocks = tuple(sorted((one.offset_bytes, one.size_bytes) for one in plan.placed()))
    table = Table(size_bytes=plan.size_bytes, tensors=plan.placements, blocks=blocks, shards=tuple(shards))
    with vmm.create(plan.size_bytes, gpu) as allocation:
        mapping = allocation.map(writable=True)
        fd = allocation.export()
    for one in plan.placements:
        mapping.write(one.offset_bytes, data[one.name])
    return Packed(table, fd, mapping.size_bytes, gpu.uuid, "memory"), mapping


class TestPacked:
    """The loader alone on GPU memory that the test made."""

    def attachment(self, gpu: Device, place: Path, tmp_path: Path, mode: str | None = None) -> Attachment:
        question = msgspec.structs.replace(make_question(str(place), mode=mode), device=gpu.uuid)
        return Attachment(
            attach="a-1", question=question, settings=load_settings({}, runtime_dir=tmp_path, state_dir=tmp_path), seq=None,
            request=question.request(), decision=Decision(outcome=Outcome.HIT, reason=None, detail="", tier=Tier.TRUSTED), evidence=(),
            idle_bytes=0, session=None, packed=packed_on(gpu, place)[0], gpu=gpu,
        )  # fmt: skip

    def test_files_are_read_in_place(self, gpu: Device, base: Path, tmp_path: Path) -> None:
        attachment = self.attachment(gpu, base, tmp_path)
        found = {}
        for name in (FIRST, SECOND):
            source = Mapped(attachment, str(base / name), attachment, True, f"cuda:{gpu.ordinal}")
            found.update(source.get_all())
        assert_weights(found, base)
        assert all(attachment_of(tensor) is attachment for tensor in found.values() if tensor.numel())
        gone = weakref.ref(attachment)
        del attachment, source
        gc.collect()
        assert gone() is not None, "a tensor keeps the lease"
        del found
        gc.collect()
        assert gone() is None

    def test_a_copy_is_independent_memory_on_the_same_gpu(self, gpu: Device, base: Path, tmp_path: Path) -> None:
        attachment = self.attachment(gpu, base, tmp_path, "copy")
        found = take(attachment).tensors
        attachment.close()
        assert_weights(found, base)
        found["lm_head.weight"].zero_()
        torch.cuda.synchronize()
        assert all(attachment_of(tensor) is None for tensor in found.values())

    def test_pause_keeps_addresses_and_resume_the_bytes(self, gpu: Device, base: Path, tmp_path: Path) -> None:
        attachment = self.attachment(gpu, base, tmp_path)
        found = take(attachment).tensors
        addresses = {name: tensor.data_ptr() for name, tensor in found.items()}
        for _ in range(3):
            assert attachment.maps.pause() > 0
            with pytest.raises(MappingFailed, match="paused"):
                attachment.memory()
            assert attachment.maps.resume() > 0
        assert {name: tensor.data_ptr() for name, tensor in found.items()} == addresses
        assert_weights(found, base)


class TestResidency:
    """The daemon's own GPU residency."""

    def test_files_are_mapped_in_place_paused_resumed_and_released(self, gpu: Device, host: Host, base: Path) -> None:
        loaded = host.load(base, gpu.uuid).residency
        first = load_file(base / FIRST, device="cuda", settings=host.settings)
        second = load_file(base / SECOND, device="cuda", settings=host.settings)
        assert_weights({**first, **second}, base)
        decided, mapped = host.record.last(AttachDecided), host.record.last(MapCompleted)
        assert (decided.mode, decided.tier, mapped.mode, mapped.copied_tensors) == ("zero_copy", "pinned", "zero_copy", 0)
        assert len(host.record.of(AttachDecided)) == 1
        attachment = attachment_of(first["lm_head.weight"] if "lm_head.weight" in first else second["lm_head.weight"])
        assert attachment is not None
        attachment.pause()
        attachment.resume()
        assert_weights({**first, **second}, base)
        assert host.record.last(MapPaused).attach == host.record.last(MapResumed).attach == attachment.attach
        del first, second, attachment
        gc.collect()
        wait_until(lambda: host.leases() == 0)
        assert_weights(attach(base, device="cuda", mode="copy", settings=host.settings).tensors(), base)
        assert host.record.last(ReleaseCompleted).residency == loaded.residency
        with pytest.raises(StrictMiss, match="released"):
            attach(base, device="cuda", settings=host.settings)

    def test_two_engines_share_one_copy_and_a_write_ends_only_its_writer(self, gpu: Device, host: Host, model_place: Path) -> None:
        """A5 to A7 on a GPU."""
        host.load(model_place, gpu.uuid)
        with (
            Engine(host, model_place, "disk") as disk, Engine(host, model_place) as one, Engine(host, model_place) as two,
            Engine(host, model_place) as three,
        ):  # fmt: skip
            for engine in (one, two):
                assert same(engine.first, disk.first)
                assert engine.first["mapped"] == engine.first["parameters"] > 40 and engine.first["on_gpu"]
            answer = one.do("write")
            assert "read-only" in answer["error"] and "clone" in answer["error"]
            assert same(two.do("again"), disk.first)
            assert same(three.first, disk.first)

    def test_a_twin_is_refused_at_pinned_and_refuted_where_headers_were_enough(
        self, gpu: Device, host: Host, model_place: Path, twin_place: Path, disk: Path
    ) -> None:
        """I1, I16 on a GPU."""
        host.load(model_place, gpu.uuid)
        with pytest.raises(StrictMiss, match="content_mismatch"):
            attach(twin_place, device="cuda", settings=host.settings)
        fresh = disk / "fresh-twin"
        shutil.copytree(twin_place, fresh)
        with (
            Engine(host, fresh, WCACHE_ACCEPT="header", WCACHE_VERIFY_BEHIND="off") as wrong,
            Engine(host, model_place, "disk") as original,
        ):
            assert same(wrong.first, original.first), "another model's answer"
        proved = host.cli("audit", "prove")
        assert proved.returncode == 1 and "refuted" in proved.stdout, proved.stdout + proved.stderr
        with pytest.raises(StrictMiss, match="content_mismatch"):
            attach(fresh, device="cuda", accept="header", settings=host.settings)

    def test_a_copy_of_gpu_memory_that_does_not_fit_is_refused(self, gpu: Device, host: Host, disk: Path) -> None:
        place = make_checkpoint(disk / "half", {f"t{n}": ("U8", (64 * MIB,), bytes(64 * MIB)) for n in range(4)})
        host.load(place, gpu.uuid)
        with filled(gpu, 200 * MIB):
            with pytest.raises((StrictMiss, NoRoom), match="a copy takes 256 MiB"):
                attach(place, device="cuda", mode="copy", settings=host.settings)
            found = attach(place, device="cuda", settings=host.settings).tensors()
            assert int(found["t0"].sum()) == 0 and not host.record.of(ReleaseRequested)
