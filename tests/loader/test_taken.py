"""Raw weights in packed form, as a GPU holds them, read through `safe_open`: here in host memory, where any machine can look."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import safetensors
import torch
from support.corpus import make_checkpoint, read_tensors

from wcache.core.checkpoint.header import read_header
from wcache.core.memory import memfd
from wcache.core.memory.packing import Item, pack
from wcache.core.memory.table import Shard, Table
from wcache.core.model.decide import Decision
from wcache.core.model.errors import MappingFailed, MissingTensor, NoRoom
from wcache.core.model.vocabulary import Outcome, Tier
from wcache.core.settings import Settings
from wcache.loader.attach import Attachment
from wcache.loader.attachment import attachment_of
from wcache.loader.packed import Packed
from wcache.loader.question import make_question
from wcache.loader.room import check_room, named_failures
from wcache.loader.safetensors_api import Mapped, Slice
from wcache.loader.taken import take

FIRST, SECOND = "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"


def packed_of(place: Path) -> Packed:
    """What the daemon's worker makes of a checkpoint for a GPU, in a memory file."""
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
    memory_bytes = -(-plan.size_bytes // (2 << 20)) * (2 << 20)
    fd = memfd.create("packed", memory_bytes)
    for one in plan.placements:
        os.pwrite(fd, data[one.name], one.offset_bytes)
    memfd.seal(fd)
    return Packed(table, fd, memory_bytes, "cpu", "memory")


@pytest.fixture
def attached(settings: Settings, shared_disk: Path) -> Iterator[Callable[..., Attachment]]:
    made: list[Attachment] = []

    def make(*, mode: str | None = None) -> Attachment:
        question = make_question(str(shared_disk / "packed"), mode=mode)
        decision = Decision(outcome=Outcome.HIT, reason=None, detail="", tier=Tier.TRUSTED)
        made.append(
            Attachment(
                attach="a-1", question=question, settings=settings, request=question.request(), decision=decision, evidence=(), seq=None,
                idle_bytes=0, session=None, packed=packed_of(shared_disk / "packed"),
            )
        )  # fmt: skip
        return made[-1]

    yield make
    for attachment in made:
        attachment.close()


@pytest.fixture(autouse=True, scope="module")
def base(shared_disk: Path) -> Path:
    return make_checkpoint(shared_disk / "packed", shards=2, metadata={"format": "pt"})


def bits(tensor: torch.Tensor) -> bytes:
    return bytes(tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()) if tensor.numel() else b""


@pytest.mark.parametrize("mode", [None, "copy"])
def test_a_file_of_packed_weights_reads_as_the_file(attached: Callable[..., Attachment], base: Path, mode: str | None) -> None:
    attachment = attached(mode=mode)
    for name in (FIRST, SECOND):
        source = Mapped(attachment, str(base / name), attachment, True, "cpu")
        with safetensors.safe_open(base / name, "pt") as reference:  # type: ignore[no-untyped-call, unused-ignore]
            assert (source.metadata, list(source.names)) == (reference.metadata(), reference.offset_keys())
            for key in reference.offset_keys():
                wanted = reference.get_tensor(key)
                found = source.get(key)
                assert (found.dtype, found.shape, bits(found)) == (wanted.dtype, wanted.shape, bits(wanted))
                part = Slice(source, key)
                assert (part.get_shape(), part.get_dtype()) == (list(wanted.shape), reference.get_slice(key).get_dtype())
                if wanted.ndim:
                    assert bits(part[:1]) == bits(wanted[:1])
                assert (attachment_of(found) is attachment) == (mode is None and bool(found.numel()))


def test_a_file_that_is_sharded_otherwise_finds_its_tensors(attached: Callable[..., Attachment], base: Path, disk_path: Path) -> None:
    whole = make_checkpoint(disk_path / "whole", shards=1)
    attachment = attached()
    source = Mapped(attachment, str(next(whole.glob("*.safetensors"))), attachment, True, "cpu")
    assert {name: bits(source.get(name)) for name in source.names} == {name: data for name, (_, _, data) in read_tensors(base).items()}
    other = make_checkpoint(disk_path / "other", {"nobody.has.this": ("U8", (4,), b"abcd")}, shards=1)
    with pytest.raises(MissingTensor, match=r"nobody\.has\.this"):
        Mapped(attachment, str(next(other.glob("*.safetensors"))), attachment, True, "cpu")


def test_copies_are_the_engines_own_and_tensors_that_share_bytes_go_on_sharing(attached: Callable[..., Attachment], base: Path) -> None:
    mapped, copied = take(attached()), take(attached(mode="copy"))
    assert len(mapped.maps) == 1 and copied.maps == ()
    assert all(attachment_of(tensor) is None for tensor in copied.tensors.values())
    assert {name: bits(tensor) for name, tensor in copied.tensors.items()} == {
        name: data for name, (_, _, data) in read_tensors(base).items()
    }
    assert len({tensor.untyped_storage().data_ptr() for tensor in copied.tensors.values()}) == 1
    some = take(attached(mode="copy"), ["lm_head.weight"])
    assert list(some.tensors) == ["lm_head.weight"]
    assert some.tensors["lm_head.weight"].untyped_storage().nbytes() == some.tensors["lm_head.weight"].nbytes


def test_packed_host_memory_pauses_and_resumes(attached: Callable[..., Attachment], base: Path) -> None:
    attachment = attached()
    tensors = take(attachment).tensors
    addresses = [tensor.data_ptr() for tensor in tensors.values()]
    attachment.maps.pause()
    with pytest.raises(MappingFailed, match="paused"):
        attachment.memory()
    attachment.maps.resume()
    assert [tensor.data_ptr() for tensor in tensors.values()] == addresses
    assert {name: bits(tensor) for name, tensor in tensors.items()} == {name: data for name, (_, _, data) in read_tensors(base).items()}


def test_room_is_refused_with_the_numbers() -> None:
    check_room(1 << 20, None)
    with pytest.raises(NoRoom, match=r"a copy takes 1073741824 MiB, \d+ MiB are free \((MemAvailable|memory\.)") as error:
        check_room(1 << 50, None)
    assert "without mode copy" in error.value.remedy


@pytest.mark.parametrize(
    ("raised", "named"),
    [
        (torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB."), NoRoom),
        (RuntimeError("CUDA error: out of memory"), NoRoom),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 8 bytes"), NoRoom),
        (MemoryError(), NoRoom),
        (RuntimeError("CUDA error: an illegal memory access was encountered"), MappingFailed),
    ],
)
def test_memory_that_runs_out_is_told_from_what_else_torch_raises(raised: Exception, named: type[Exception]) -> None:
    with pytest.raises(named, match=type(raised).__name__), named_failures("here"):
        raise raised


def test_a_table_whose_header_is_none_is_refused(attached: Callable[..., Attachment]) -> None:
    attachment = attached()
    packed: Any = attachment.packed
    packed.table = Table(size_bytes=0, tensors=(), blocks=(), shards=(Shard(FIRST, 100, b"\x10" + bytes(20)),))
    with pytest.raises(MappingFailed, match="header"):
        _ = attachment.headers
