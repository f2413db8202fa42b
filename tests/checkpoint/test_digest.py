"""The digests: golden vectors that must hold for ever, and hashing in any chunks."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import pytest
from blake3 import blake3
from hypothesis import given, settings
from hypothesis import strategies as st
from support.corpus import encode_safetensors, make_checkpoint, make_tensors, read_tensors

from wcache.core.checkpoint.checkpoint import open_checkpoint
from wcache.core.checkpoint.digest import ShardHasher, digest_of_headers, digest_of_weights, hash_resident
from wcache.core.checkpoint.fingerprint import content_fingerprint
from wcache.core.checkpoint.header import parse_header
from wcache.core.checkpoint.reader import Reader
from wcache.core.model.errors import CheckpointChanged

GOLDEN = Path(__file__).parent.parent / "data" / "golden"
EXPECTED = json.loads((GOLDEN / "expected.json").read_text())


def by_the_book(directory: Path) -> str:
    """The weights digest written down a second time, from its description, with the `safetensors` package as the reader."""

    def frame(field: bytes) -> bytes:
        return len(field).to_bytes(8, "big") + field

    tensors = read_tensors(directory)
    text = frame(b"wcache/weights/1") + len(tensors).to_bytes(8, "big")
    for name in sorted(tensors, key=lambda name: name.encode()):
        dtype, shape, data = tensors[name]
        text += (
            frame(name.encode())
            + frame(dtype.encode())
            + frame(b"".join(size.to_bytes(8, "big") for size in shape))
            + blake3(data).digest()
        )
    return blake3(text).hexdigest()


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_golden_digests_never_change(name: str) -> None:
    """A change here makes every recorded digest worthless: it needs a new algorithm name, not a new vector."""
    reader = Reader()
    checkpoint = open_checkpoint(GOLDEN / name, reader=reader)
    content = content_fingerprint(checkpoint, reader)
    assert {
        "weights": content.digest,
        "table": checkpoint.table_digest,
        "headers": digest_of_headers(checkpoint.shards),
        "files": content.file_digests,
    } == EXPECTED[name]
    assert content.digest == by_the_book(GOLDEN / name)
    for file, digest in content.file_digests.items():
        assert digest == blake3((GOLDEN / name / file).read_bytes()).hexdigest()


def test_golden_checkpoints_cover_what_they_should() -> None:
    """I13: two of them are one set of weights, sharded otherwise, with other metadata."""
    assert EXPECTED["whole"]["weights"] == EXPECTED["sharded"]["weights"]
    assert EXPECTED["whole"]["table"] == EXPECTED["sharded"]["table"]
    assert set(EXPECTED["whole"]["files"].values()).isdisjoint(EXPECTED["sharded"]["files"].values())
    assert EXPECTED["odd"]["weights"] != EXPECTED["whole"]["weights"]


def test_no_two_tables_run_together() -> None:
    """Length framing: names and dtypes cannot be shifted into each other."""
    digests = set()
    for name, dtype, shape in (("a", "F32", (1, 2)), ("aF", "F32", (1, 2)), ("a", "F32", (2, 1)), ("a", "F32", (2,)), ("a", "I32", (1, 2))):
        data = encode_safetensors({name: (dtype, shape, bytes(8))})
        header = parse_header(data, len(data), where="x")
        digests.add(digest_of_weights((entry, b"\0" * 32) for entry in header.tensors))
    assert len(digests) == 5


DATA = encode_safetensors(make_tensors(), {"format": "pt"})
HEADER = parse_header(DATA, len(DATA), where="x")
EACH = {entry.name: blake3(DATA[HEADER.header_bytes + entry.begin : HEADER.header_bytes + entry.end]).digest() for entry in HEADER.tensors}


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, len(DATA)), max_size=12))
def test_chunks_of_any_size_give_the_same_digests(cuts: list[int]) -> None:
    hasher = ShardHasher(HEADER)
    places = sorted({0, *cuts, len(DATA)})
    for begin, end in itertools.pairwise(places):
        hasher.update(memoryview(DATA)[begin:end])
    digests = hasher.finish()
    assert digests.file == blake3(DATA).hexdigest()
    assert digests.tensors == EACH


def test_byte_by_byte_and_resident_agree() -> None:
    data = encode_safetensors({"a": ("U8", (3,), b"abc"), "z": ("U8", (0,), b""), "b": ("U8", (2,), b"de"), "y": ("F32", (0, 2), b"")})
    header = parse_header(data, len(data), where="x")
    hasher = ShardHasher(header)
    for position in range(len(data)):
        hasher.update(data[position : position + 1])
    digests = hasher.finish()
    assert digests == hash_resident(header, bytearray(data)) == hash_resident(header, data, chunk_bytes=7)
    assert digests.tensors == {"a": blake3(b"abc").digest(), "z": blake3().digest(), "b": blake3(b"de").digest(), "y": blake3().digest()}


def test_a_file_of_another_length_has_no_digest() -> None:
    """C9."""
    hasher = ShardHasher(HEADER, where="shard")
    hasher.update(DATA[:-1])
    with pytest.raises(CheckpointChanged, match="shard"):
        hasher.finish()
    with pytest.raises(CheckpointChanged, match="grown"):
        hasher.update(b"12")


def test_the_hash_of_numpy_made_checkpoints_follows_the_values(tmp_path: Path) -> None:
    import numpy

    values = {"w": numpy.arange(6, dtype=numpy.float32).reshape(2, 3), "n": numpy.array(3, dtype=numpy.int64)}
    first = make_checkpoint(tmp_path / "a", values)
    values["w"] = values["w"] + 1
    second = make_checkpoint(tmp_path / "b", values)
    assert by_the_book(first) != by_the_book(second)
    assert content_fingerprint(open_checkpoint(first), Reader()).digest == by_the_book(first)
