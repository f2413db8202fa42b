"""Naming what changed in memory: the digests of the load against a buffer with one byte, one length or one header turned."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.corpus import make_checkpoint

from wcache.core.checkpoint.checkpoint import open_checkpoint
from wcache.core.checkpoint.digest import hash_resident
from wcache.core.checkpoint.fingerprint import content_fingerprint
from wcache.core.checkpoint.header import Header, read_header
from wcache.core.checkpoint.reader import Reader
from wcache.core.checkpoint.resident import ReadAt, ResidentShard, compare_shard, weights_digest_found

TENSORS = {
    "first": ("U8", (64,), bytes(range(64))),
    "second": ("F32", (4, 4), b"\1\2\3\4" * 16),
    "nothing": ("F32", (0, 3), b""),
    "third": ("I64", (5,), b"\7" * 40),
}


def reading(data: bytes | bytearray) -> ReadAt:
    return lambda offset, length: bytes(data[offset : offset + length])


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_checkpoint(tmp_path_factory.mktemp("resident") / "model", TENSORS, shards=1)


@pytest.fixture(scope="module")
def data(path: Path) -> bytes:
    return next(path.glob("*.safetensors")).read_bytes()


@pytest.fixture(scope="module")
def header(data: bytes) -> Header:
    return read_header(reading(data), len(data), where="model")


@pytest.fixture(scope="module")
def shard(data: bytes, header: Header) -> ResidentShard:
    digests = hash_resident(header, data)
    return ResidentShard("model.safetensors", len(data), digests.file, b"".join(digests.tensors[one.name] for one in header.tensors))


def test_the_bytes_of_the_load_are_intact(shard: ResidentShard, data: bytes, path: Path) -> None:
    done: list[int] = []
    verdict = compare_shard(shard, reading(data), done.append)
    assert verdict.intact
    assert verdict.tensors == ()
    assert sum(done) == len(data)
    assert weights_digest_found([shard], [reading(data)], [verdict]) == content_fingerprint(open_checkpoint(path), Reader()).digest


@given(place=st.floats(0, 1, exclude_max=True), bit=st.integers(0, 7))
def test_any_single_bit_is_found_and_its_tensor_named(shard: ResidentShard, data: bytes, header: Header, place: float, bit: int) -> None:
    position = int(place * len(data))
    changed = bytearray(data)
    changed[position] ^= 1 << bit
    verdict = compare_shard(shard, reading(changed))
    assert not verdict.intact
    if position >= header.header_bytes:
        at = position - header.header_bytes
        assert verdict.tensors == tuple(one.name for one in header.tensors if one.begin <= at < one.end)
        assert verdict.why == ""
    else:
        assert verdict.tensors or "header" in verdict.why


def turn_first(data: bytearray, header: Header) -> None:
    data[header.header_bytes] ^= 1


def turn_name(data: bytearray, header: Header) -> None:
    start = data.index(b'"first"')
    data[start + 1 : start + 6] = b"fiRst"


def break_header(data: bytearray, header: Header) -> None:
    data[8:12] = b"    "


def cut(data: bytearray, header: Header) -> None:
    del data[-10:]


@pytest.mark.parametrize(
    ("change", "tensors", "why"),
    [
        (turn_first, 1, ""),
        (turn_name, 0, "the header of model.safetensors changed"),
        (break_header, 0, "the header of model.safetensors changed: "),
        (cut, 0, r"model.safetensors ends after \d+ of \d+ bytes"),
    ],
)
def test_what_is_no_tensor_is_named_too(
    shard: ResidentShard, data: bytes, header: Header, change: Callable[[bytearray, Header], None], tensors: int, why: str
) -> None:
    changed = bytearray(data)
    change(changed, header)
    verdict = compare_shard(shard, reading(changed))
    assert not verdict.intact
    assert len(verdict.tensors) == tensors
    assert re.search(why, verdict.why)


def test_the_digest_of_what_is_there_now_is_that_of_those_bytes(shard: ResidentShard, data: bytes, header: Header, tmp_path: Path) -> None:
    changed = bytearray(data)
    turn_first(changed, header)
    (tmp_path / "model.safetensors").write_bytes(changed)
    verdict = compare_shard(shard, reading(changed))
    found = weights_digest_found([shard], [reading(changed)], [verdict])
    assert found == content_fingerprint(open_checkpoint(tmp_path / "model.safetensors"), Reader()).digest
    turned = bytearray(data)
    break_header(turned, header)
    assert weights_digest_found([shard], [reading(turned)], [compare_shard(shard, reading(turned))]) is None
