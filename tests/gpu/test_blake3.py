"""BLAKE3 on the GPU gives what the `blake3` package gives."""

from __future__ import annotations

import random

import pytest
from blake3 import blake3

from wcache.core.memory import vmm
from wcache.core.memory.blake3_cuda import Blake3
from wcache.core.memory.cuda import Device

pytestmark = pytest.mark.gpu

MIB = 1 << 20


def _check(device: Device, hasher: Blake3, data: bytes, places: list[tuple[int, int]]) -> None:
    with vmm.create(len(data), device) as allocation, allocation.map(writable=True) as mapping:
        mapping.write(0, data)
        found = hasher.digests([(mapping.address + begin, size) for begin, size in places])
        view = memoryview(data)
        wrong = [place for place, digest in zip(places, found, strict=True) if digest != _reference(view[place[0] : sum(place)])]
    assert not wrong, wrong[:5]


def _reference(data: memoryview) -> bytes:
    return blake3(data, max_threads=blake3.AUTO).digest()


def test_every_length_up_to_4200_at_every_alignment(gpu: Device, hasher: Blake3) -> None:
    data = random.Random(1).randbytes(4 * MIB)
    for shift in range(17):
        _check(gpu, hasher, data, [(shift + size % 5 * 64, size) for size in range(4201)])


def test_lengths_around_every_level_of_the_tree(gpu: Device, hasher: Blake3) -> None:
    """4 KiB a thread, 256 of them a block, 256 blocks: 1 MiB and 256 MiB are where another launch begins."""
    data = random.Random(2).randbytes(MIB) * 258
    sizes = [
        base + change for base in (4096, 8192, 65536, MIB, 2 * MIB, 256 * MIB) for change in (-1025, -1024, -1, 0, 1, 1023, 1024, 1025)
    ]
    _check(gpu, hasher, data, [(0, size) for size in sizes] + [(3, size) for size in sizes if size < 3 * MIB])


def test_random_regions_in_one_launch_set(gpu: Device, hasher: Blake3) -> None:
    rng = random.Random(3)
    data = rng.randbytes(MIB) * 64
    places = []
    for _ in range(2000):
        size = int(2 ** rng.uniform(0, 24))
        places.append((rng.randrange(len(data) - size), size))
    _check(gpu, hasher, data, places)


def test_the_end_of_the_segment_is_not_read_past(gpu: Device, hasher: Blake3) -> None:
    data = random.Random(4).randbytes(2 * MIB)
    _check(gpu, hasher, data, [(len(data) - size, size) for size in range(2050)])


def test_one_flipped_bit_is_seen(gpu: Device, hasher: Blake3) -> None:
    data = bytearray(random.Random(5).randbytes(3 * MIB + 7))
    with vmm.create(len(data), gpu) as allocation, allocation.map(writable=True) as mapping:
        mapping.write(0, data)
        before = hasher.digests([(mapping.address, len(data))])
        data[MIB + 1] ^= 16
        mapping.write(MIB + 1, data[MIB + 1 : MIB + 2])
        (after,) = hasher.digests([(mapping.address, len(data))])
    assert before != [after] and after == blake3(data).digest()


def test_nothing_to_hash_is_no_digest(hasher: Blake3) -> None:
    assert hasher.digests([]) == []
