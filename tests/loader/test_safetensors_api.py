"""`load_file` and `safe_open` against the reference, mapped and from disk."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors
import safetensors.torch
import torch
from safetensors import safe_open as reference_open
from support.corpus import encode_safetensors, make_checkpoint, make_tensors, read_tensors
from support.daemon import wait_until

from wcache.core.model.errors import MissingTensor, StrictMiss, UsageError
from wcache.core.model.events import AttachDecided, MapCompleted
from wcache.loader import load_file, safe_open

FIRST, SECOND = "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"


@pytest.fixture(scope="module")
def base(shared_disk: Path) -> Path:
    return make_checkpoint(shared_disk / "api", shards=2, metadata={"format": "pt", "note": "é"})


def bits(tensor: torch.Tensor) -> bytes:
    return bytes(tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())


@pytest.fixture(params=["mapped", "disk"])
def opener(request: pytest.FixtureRequest, host: Any, base: Path) -> Callable[..., Any]:
    """Our `safe_open` on a hit, and on a fallback: nobody may be able to tell them from the reference."""
    if request.param == "mapped":
        host.daemon.load(base)
        return lambda *arguments, **words: safe_open(*arguments, settings=host.settings, **words)
    return lambda *arguments, **words: safe_open(*arguments, settings=host.settings, on_miss="fallback", **words)


def test_names_order_metadata_and_bytes_are_those_of_the_asked_file(opener: Callable[..., Any], base: Path) -> None:
    for name in (FIRST, SECOND):
        with opener(base / name, "pt") as ours, reference_open(base / name, "pt") as theirs:
            assert ours.keys() == theirs.keys() and ours.offset_keys() == theirs.offset_keys()
            assert ours.metadata() == theirs.metadata() == {"format": "pt", "note": "é"}
            mine, reference = ours.get_tensors(), theirs.get_tensors()
            assert list(mine) == list(reference)
            for key, tensor in reference.items():
                assert mine[key].dtype == tensor.dtype and mine[key].shape == tensor.shape and bits(mine[key]) == bits(tensor)
                assert bits(ours.get_tensor(key)) == bits(tensor)


SLICES = [
    slice(None), slice(1, 3), (slice(None), slice(2, 4)), (1,), 1, -1, (..., 1), ..., (slice(0, 4, 2),), (None,), (slice(-2, None),),
    slice(0, 999), slice(3, 1), (1, slice(1, 3)), (0, 0), (), [0, 1],
]  # fmt: skip


@pytest.mark.filterwarnings("ignore:Using a non-tuple sequence")
def test_slices_are_those_of_the_reference(opener: Callable[..., Any], base: Path) -> None:
    name = "model.rope.freqs"
    file = next(path for path in (base / FIRST, base / SECOND) if name in reference_open(path, "pt").keys())  # noqa: SIM118
    with opener(file, "pt") as ours, reference_open(file, "pt") as theirs:
        mine, reference = ours.get_slice(name), theirs.get_slice(name)
        assert mine.get_shape() == reference.get_shape() and mine.get_dtype() == reference.get_dtype()
        for index in SLICES:
            assert mine[index].shape == reference[index].shape and bits(mine[index]) == bits(reference[index]), index
        for index in (99, (0, 0, 0), "x", (slice(None, None, -1),)):
            with pytest.raises(Exception) as expected:
                reference[index]
            with pytest.raises(expected.type):
                mine[index]


def test_numpy_is_served_as_the_reference_serves_it(opener: Callable[..., Any], base: Path) -> None:
    for name in (FIRST, SECOND):
        with opener(base / name, "np") as ours, reference_open(base / name, "np") as theirs:
            for key in ours.keys():  # noqa: SIM118
                if ours.get_slice(key).get_dtype() in ("BF16", "F8_E4M3"):
                    with pytest.raises((TypeError, AttributeError)):  # numpy has none of them, and that is how the reference tells it
                        ours.get_tensor(key)
                    continue
                mine, reference = ours.get_tensor(key), theirs.get_tensor(key)
                assert mine.dtype == reference.dtype and np.array_equal(mine, reference, equal_nan=mine.dtype.kind == "f")
                assert mine.flags.writeable == reference.flags.writeable


def test_a_part_of_a_numpy_tensor_is_the_references(opener: Callable[..., Any], base: Path) -> None:
    """Also of a single value, and of True, which numpy itself takes for a mask."""
    indexes = (0, -1, True, (0,), (True,), np.int64(1), slice(1, 3), slice(None, None, 2), ..., (..., 0), (slice(None), 0), ())
    with opener(base / FIRST, "np") as ours, reference_open(base / FIRST, "np") as theirs:
        compared = 0
        for key in ours.keys():  # noqa: SIM118
            for index in indexes:
                try:
                    expected = theirs.get_slice(key)[index]
                except (safetensors.SafetensorError, TypeError, AttributeError):
                    continue
                found = ours.get_slice(key)[index]
                assert type(found) is type(expected) and (found.dtype, found.shape) == (expected.dtype, expected.shape), (key, index)
                assert np.array_equal(found, expected, equal_nan=found.dtype.kind == "f")
                compared += 1
        assert compared > len(indexes)


def test_what_is_wrong_is_told_as_the_reference_tells_it(opener: Callable[..., Any], base: Path) -> None:
    with opener(base / FIRST, "pt") as file:
        for ask in (file.get_tensor, file.get_slice):
            with pytest.raises(safetensors.SafetensorError, match="does not contain tensor nope"):
                ask("nope")
    with pytest.raises(safetensors.SafetensorError, match="closed"):
        file.keys()
    with pytest.raises(UsageError, match="zz"):
        opener(base / FIRST, "zz")
    with pytest.raises(UsageError, match="zz"):
        opener(base / FIRST, "pt", backend="zz")
    with pytest.raises(TypeError):
        opener(base / FIRST)


def _memfd_holds(address: int) -> bool:
    for line in Path("/proc/self/maps").read_text().splitlines():
        low, high = (int(part, 16) for part in line.split()[0].split("-"))
        if low <= address < high:
            return "memfd:" in line
    return False


def test_tensors_alias_the_sealed_memory(host: Any, base: Path) -> None:
    """By the kernel's own account of the address space."""
    host.daemon.load(base)
    found = load_file(base / FIRST, settings=host.settings)
    assert all(_memfd_holds(tensor.data_ptr()) for tensor in found.values() if tensor.numel())


def test_a_second_load_does_not_see_the_writes_of_the_first(host: Any, base: Path) -> None:
    """A5, also inside one process: each call gives what is on disk."""
    host.daemon.load(base)
    first = load_file(base / FIRST, settings=host.settings)
    name = next(key for key, tensor in first.items() if tensor.dtype == torch.float32 and tensor.numel())
    first[name].add_(1)
    second = load_file(base / FIRST, settings=host.settings)
    expected = safetensors.torch.load_file(base / FIRST)
    assert bits(second[name]) == bits(expected[name]) != bits(first[name])
    with safe_open(base / FIRST, "pt", settings=host.settings) as file:
        assert bits(file.get_tensor(name)) == bits(expected[name])


def test_all_shards_of_a_checkpoint_are_one_attach(host: Any, base: Path) -> None:
    host.daemon.load(base)
    shards = [load_file(base / name, settings=host.settings) for name in (FIRST, SECOND)]
    assert sum(map(len, shards)) == len(read_tensors(base))
    assert len(host.record.of(AttachDecided)) == len(host.record.of(MapCompleted)) == 1
    assert host.record.last(MapCompleted).tensors == len(read_tensors(base))
    assert host.record.last(AttachDecided).asked.spelling == str(base)
    shards.clear()
    wait_until(lambda: host.leases() == 0)


def test_threads_may_load_shards_at_the_same_time(host: Any, base: Path) -> None:
    host.daemon.load(base)
    expected = {name: safetensors.torch.load_file(base / name) for name in (FIRST, SECOND)}
    with ThreadPoolExecutor(8) as pool:
        loaded = list(pool.map(lambda name: (name, load_file(base / name, settings=host.settings)), [FIRST, SECOND] * 12))
    for name, found in loaded:
        assert {key: bits(tensor) for key, tensor in found.items()} == {key: bits(tensor) for key, tensor in expected[name].items()}
    assert len(host.record.of(MapCompleted)) == len(host.record.of(AttachDecided))


def test_threads_that_copy_the_shards_of_one_checkpoint_are_one_attach_and_its_lease_ends(host: Any, disk_path: Path) -> None:
    place = make_checkpoint(disk_path / "m", shards=6)
    host.daemon.load(place)
    names = sorted(path.name for path in place.glob("model-*.safetensors"))
    with ThreadPoolExecutor(len(names)) as pool:
        loaded = list(pool.map(lambda name: load_file(place / name, settings=host.settings, mode="copy", release=False), names))
    assert sum(map(len, loaded)) == len(read_tensors(place))
    assert (len(names), len(host.record.of(AttachDecided)), host.record.last(MapCompleted).copied_tensors) == (
        6,
        1,
        len(read_tensors(place)),
    )
    wait_until(lambda: host.leases() == 0)


@pytest.mark.parametrize("mode", [None, "copy"])
def test_threads_that_drop_what_they_load_get_no_attach_that_is_ending(host: Any, disk_path: Path, mode: str | None) -> None:
    """Whoever asks while the last tensor of another thread goes, or while that thread closes the last file of a copy, attaches anew."""
    place = make_checkpoint(disk_path / "m", shards=3)
    host.daemon.load(place)
    expected = {path.name: len(safetensors.torch.load_file(path)) for path in place.glob("model-*.safetensors")}
    words = {"settings": host.settings} if mode is None else {"settings": host.settings, "mode": mode, "release": False}
    with ThreadPoolExecutor(12) as pool:
        counts = list(pool.map(lambda name: (name, len(load_file(place / name, **words))), sorted(expected) * 60))
    assert all(expected[name] == count for name, count in counts)
    assert {decided.outcome for decided in host.record.of(AttachDecided)} == {"hit"}


def test_a_shard_that_was_overwritten_since_is_decided_anew(host: Any, disk_path: Path) -> None:
    """I4 between two shards of one start."""
    place = make_checkpoint(disk_path / "m", shards=2)
    host.daemon.load(place)
    first = load_file(place / FIRST, settings=host.settings)
    make_checkpoint(place, make_tensors(1), shards=2)
    with pytest.raises(StrictMiss) as caught:
        load_file(place / SECOND, settings=host.settings)
    assert caught.value.reason == "content_mismatch" and first


def test_a_single_file_is_a_checkpoint_and_so_is_its_directory(host: Any, disk_path: Path) -> None:
    place = make_checkpoint(disk_path / "m")
    host.daemon.load(place)
    found = load_file(place / "model.safetensors", settings=host.settings)
    assert len(found) == len(read_tensors(place))
    assert host.record.last(AttachDecided).tier == "pinned"


def test_a_file_that_is_named_by_the_index_alone_is_a_shard(host: Any, disk_path: Path) -> None:
    tensors = make_tensors()
    place = make_checkpoint(disk_path / "m", tensors, shards=2)
    for number, name in enumerate((FIRST, SECOND)):
        (place / name).rename(place / f"part{number}.safetensors")
    index = place / "model.safetensors.index.json"
    index.write_text(index.read_text().replace(FIRST, "part0.safetensors").replace(SECOND, "part1.safetensors"))
    host.daemon.load(place)
    found = load_file(place / "part1.safetensors", settings=host.settings)
    assert 0 < len(found) < len(tensors) and host.record.last(AttachDecided).asked.spelling == str(place)


def test_a_tensor_that_only_the_asked_file_names_is_missing_never_made_up(host: Any, disk_path: Path) -> None:
    """A3: an operator's grant vouches for other weights than the file has."""
    from wcache.core.model.events import TrustGranted
    from wcache.core.model.evidence import Grant
    from wcache.core.model.vocabulary import TrustScope
    from wcache.ledger.store import Ledger, NewEvent

    place = make_checkpoint(disk_path / "m")
    digest = host.daemon.load(place).residency.weights_digest
    more = disk_path / "more.safetensors"
    more.write_bytes(encode_safetensors({**make_tensors(), "model.extra": ("F32", (1,), b"abcd")}))
    made = Grant(
        grant="g-1", scope=TrustScope.CHECKPOINT, reason="a mistake", operator_uid=os.geteuid(), granted_ns=1, spellings=(str(more),),
        weights_digest=digest,
    )  # fmt: skip
    with Ledger.open(host.settings.ledger) as ledger:
        ledger.append_batch([(NewEvent(event=TrustGranted(grant=made)),)])
    with pytest.raises(MissingTensor, match=r"model\.extra"):
        load_file(more, settings=host.settings, trusted="honour", on_miss="fallback")


def test_misaligned_tensors_are_copied_and_counted(host: Any, disk_path: Path) -> None:
    """C8."""
    place = make_checkpoint(disk_path / "m", {"odd": ("U8", (3,), b"abc"), "wide": ("F64", (2,), os.urandom(16))})
    host.daemon.load(place)
    found = load_file(place / "model.safetensors", settings=host.settings)
    assert bits(found["wide"]) == read_tensors(place)["wide"][2]
    mapped = host.record.last(MapCompleted)
    assert (mapped.mode, mapped.copied_tensors, mapped.copied_bytes) == ("zero_copy", 1, 16)


def test_another_device_is_a_copy(host: Any, base: Path) -> None:
    """`meta` stands for any device that is not where the memory is."""
    host.daemon.load(base)
    found = load_file(base / FIRST, "meta", settings=host.settings)
    assert all(tensor.device.type == "meta" for tensor in found.values())
    mapped = host.record.last(MapCompleted)
    assert mapped.mode == "copy" and mapped.copied_bytes == mapped.bytes
    wait_until(lambda: host.leases() == 0)
