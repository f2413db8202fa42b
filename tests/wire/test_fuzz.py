"""The fuzz targets' promises on many edited inputs: no crash, no hang, no allocation above the cap; and every input of fuzz/corpus/."""

from __future__ import annotations

import importlib
import random
import sys
from pathlib import Path
from types import ModuleType

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.mutations import REPLIES, REQUESTS, edited_header, edited_stream

from wcache.core.model.errors import LedgerCorrupt
from wcache.core.model.events import decode_payload
from wcache.core.wire.messages import AnyReply, AnyRequest, decode_plain, decode_reply, decode_request, encode

FUZZ = Path(__file__).resolve().parents[2] / "fuzz"


@pytest.fixture(scope="module")
def targets() -> ModuleType:
    sys.path.insert(0, str(FUZZ))
    try:
        return importlib.import_module("targets")
    finally:
        sys.path.remove(str(FUZZ))


@pytest.mark.parametrize("name", ["header", "wire"])
def test_every_input_of_the_corpus_passes(targets: ModuleType, name: str) -> None:
    inputs = sorted((FUZZ / "corpus" / name).iterdir())
    assert len(inputs) >= 20
    for path in inputs:
        try:
            getattr(targets, name)(path.read_bytes())
        except Exception as error:
            raise AssertionError(f"{path.name}: {error}") from error


@settings(max_examples=300, deadline=None)
@given(st.randoms(use_true_random=False), st.integers(0, 255))
def test_edited_streams_break_no_promise(targets: ModuleType, source: random.Random, mode: int) -> None:
    targets.wire(bytes([mode]) + edited_stream(source, REQUESTS + REPLIES))


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=200), st.integers(0, 255))
def test_arbitrary_streams_break_no_promise(targets: ModuleType, stream: bytes, mode: int) -> None:
    targets.wire(bytes([mode]) + stream)


@settings(max_examples=300, deadline=None)
@given(st.randoms(use_true_random=False))
def test_edited_headers_break_no_promise(targets: ModuleType, source: random.Random) -> None:
    whole = (FUZZ / "corpus" / "header" / "small").read_bytes()
    end = 8 + int.from_bytes(whole[:8], "little")
    text = edited_header(source, whole[8:end])
    targets.header(len(text).to_bytes(8, "little") + text + whole[end:])


def test_every_message_has_a_sample_that_survives_the_wire() -> None:
    assert {type(message) for message in REQUESTS} == set(AnyRequest.__args__)
    assert {type(message) for message in REPLIES} == set(AnyReply.__args__)
    for message in REQUESTS:
        assert decode_request(encode(message)) == message
    for message in REPLIES:
        assert decode_reply(encode(message)) == message


@pytest.mark.parametrize("deep", [b"\x91" * 500_000, b"\x81\xa1x" * 200_000], ids=["lists", "maps"])
def test_a_message_that_nests_without_end_is_refused_like_any_other(deep: bytes) -> None:
    """The decoder recurses, also into fields that it skips; what it raises then is no MsgspecError of its own."""
    body = b"\x82\xa1m\xadStatusRequest\xa1y" + deep
    for decode in (decode_request, decode_reply):
        with pytest.raises(msgspec.MsgspecError):
            decode(body)
    assert decode_plain(body) == decode_plain(deep) == {}
    with pytest.raises(LedgerCorrupt):
        decode_payload("map.completed", 1, '{"x":' + "[" * 200_000)
