"""The header parser: named refusals, the right verdict on the odd but legal, and never more than the `safetensors` package accepts."""

from __future__ import annotations

import json
import random
import resource
import time
from collections.abc import Callable

import pytest
import safetensors
from hypothesis import given, settings
from hypothesis import strategies as st
from support.corpus import encode_safetensors, flip, frame, make_tensors

from wcache.core.checkpoint.header import DTYPE_BITS, HEADER_CAP_BYTES, Header, parse_header, read_header
from wcache.core.model.errors import CheckpointInvalid

ENTRY = '"dtype":"U8","shape":[1],"data_offsets":[0,1]'


def parse(data: bytes) -> Header:
    return parse_header(data, len(data), where="x.safetensors")


def rule_of(data: bytes) -> str | None:
    try:
        parse(data)
    except CheckpointInvalid as error:
        assert error.where == "x.safetensors"
        return error.rule
    return None


def reference_accepts(data: bytes) -> bool:
    try:
        safetensors.deserialize(data)
    except safetensors.SafetensorError:
        return False
    return True


def test_entries_come_in_file_order_with_offsets_and_metadata() -> None:
    data = encode_safetensors({"b": ("F32", (2,), b"x" * 8), "a": ("U8", (), b"y")}, {"format": "pt"}, header_first=["a"])
    header = parse(data)
    assert [(entry.name, entry.dtype, entry.shape, entry.begin, entry.end) for entry in header.tensors] == [
        ("b", "F32", (2,), 0, 8),
        ("a", "U8", (), 8, 9),
    ]
    assert header.metadata == {"format": "pt"}
    assert header.raw == data[: header.header_bytes]
    assert header.header_bytes + header.data_bytes == len(data)


@pytest.mark.parametrize("dtype", sorted(DTYPE_BITS))
def test_every_dtype_of_the_reference_is_known_with_its_size(dtype: str) -> None:
    """C7: F8_E8M0, C64, F4, F6 and the rest."""
    data = encode_safetensors({"a": (dtype, (8,), bytes(DTYPE_BITS[dtype]))})
    assert reference_accepts(data)
    assert parse(data).tensors[0].size_bytes == DTYPE_BITS[dtype]
    assert rule_of(encode_safetensors({"a": (dtype, (8,), bytes(DTYPE_BITS[dtype] + 1))})) == "size_mismatch"


def test_the_reference_knows_no_other_dtype() -> None:
    with pytest.raises(safetensors.SafetensorError) as caught:
        safetensors.deserialize(frame(b'{"a":{"dtype":"NO","shape":[1],"data_offsets":[0,1]}}', b"x"))
    listed = str(caught.value).split("expected one of", 1)[1]
    assert {f"`{dtype}`" for dtype in DTYPE_BITS} == {word.strip(", ") for word in listed.split(" at line")[0].split()}


@pytest.mark.parametrize(
    ("rule", "header", "data"),
    [
        ("duplicate_key", f'{{"a":{{{ENTRY}}},"a":{{{ENTRY}}}}}', b"x"),
        ("duplicate_key", f'{{"__metadata__":{{"k":"1","k":"2"}},"a":{{{ENTRY}}}}}', b"x"),
        ("duplicate_key", f'{{"a":{{{ENTRY},"dtype":"U8"}}}}', b"x"),
        ("duplicate_key", f'{{"a":{{{ENTRY}}},"\\u0061":{{{ENTRY}}}}}', b"x"),
        ("byte_order_mark", f'\ufeff{{"a":{{{ENTRY}}}}}', b"x"),
        ("nan_literal", f'{{"a":{{{ENTRY},"n":NaN}}}}', b"x"),
        ("nan_literal", f'{{"a":{{{ENTRY},"n":-Infinity}}}}', b"x"),
        ("trailing_nul", f'{{"a":{{{ENTRY}}}}}\0\0', b"x"),
        ("offsets_type", '{"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2e0]}}', b"xx"),
        ("offsets_type", '{"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2.0]}}', b"xx"),
        ("offsets_type", '{"a":{"dtype":"U8","shape":[1],"data_offsets":[-0,1]}}', b"x"),
        ("offsets_type", '{"a":{"dtype":"U8","shape":[1],"data_offsets":[false,1]}}', b"x"),
        ("offsets_type", '{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1,1]}}', b"x"),
        ("shape_type", '{"a":{"dtype":"U8","shape":[true],"data_offsets":[0,1]}}', b"x"),
        ("shape_type", '{"a":{"dtype":"F32","shape":[18446744073709551616,0],"data_offsets":[0,0]}}', b""),
        ("entry_type", '{"a":["U8",[1],[0,1]]}', b"x"),
        ("dtype_unknown", '{"a":{"dtype":{"U8":null},"shape":[1],"data_offsets":[0,1]}}', b"x"),
        ("entry_fields", '{"a":{"dtype":"U8","data_offsets":[0,1]}}', b"x"),
        ("header_start", f'  {{"a":{{{ENTRY}}}}}', b"x"),
        ("not_json", f'{{"a":{{{ENTRY}}}}}x', b"x"),
        ("lone_surrogate", f'{{"\\ud800":{{{ENTRY}}}}}', b"x"),
        ("number_range", f'{{"a":{{{ENTRY},"n":1e999}}}}', b"x"),
        ("number_range", f'{{"a":{{{ENTRY},"n":{"9" * 5000}}}}}', b"x"),
        ("too_deep", f'{{"a":{{{ENTRY},"n":{"[" * 200}{"]" * 200}}}}}', b"x"),
        ("metadata_type", f'{{"__metadata__":[],"a":{{{ENTRY}}}}}', b"x"),
        ("metadata_type", f'{{"__metadata__":{{"k":null}},"a":{{{ENTRY}}}}}', b"x"),
    ],
)
def test_what_two_readers_may_understand_differently_is_refused_by_name(rule: str, header: str, data: bytes) -> None:
    """C5."""
    assert rule_of(frame(header.encode("utf-8"), data)) == rule


@pytest.mark.parametrize(
    ("rule", "header", "data"),
    [
        ("hole", f'{{"a":{{{ENTRY}}},"b":{{"dtype":"U8","shape":[1],"data_offsets":[2,3]}}}}', b"xxx"),
        ("hole", '{"b":{"dtype":"U8","shape":[1],"data_offsets":[2,3]}}', b"xxx"),
        ("overlap", '{"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}}', b"xxx"),
        ("alias", f'{{"a":{{{ENTRY}}},"b":{{{ENTRY}}}}}', b"x"),
        ("offsets_reversed", '{"a":{"dtype":"U8","shape":[1],"data_offsets":[1,0]}}', b"x"),
        ("trailing_bytes", f'{{"a":{{{ENTRY}}}}}', b"xyz"),
        ("trailing_bytes", "{}", b"x"),
        ("truncated", f'{{"a":{{{ENTRY}}}}}', b""),
        ("shape_overflow", '{"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]}}', b""),
        ("shape_overflow", '{"a":{"dtype":"F32","shape":[18446744073709551615,2,0],"data_offsets":[0,0]}}', b""),
        ("shape_overflow", '{"a":{"dtype":"F32","shape":[576460752303423488],"data_offsets":[0,0]}}', b""),
        ("too_deep", '{"a":' * 2000 + "1" + "}" * 2000, b""),
        ("header_start", "[" * 2000 + "]" * 2000, b""),
    ],
)
def test_tensors_tile_the_data_exactly(rule: str, header: str, data: bytes) -> None:
    """C6."""
    framed = frame(header.encode(), data)
    assert rule_of(framed) == rule
    assert not reference_accepts(framed)


@pytest.mark.parametrize("length", [2**64 - 1, 2**63, 2**40, HEADER_CAP_BYTES + 1])
def test_a_monstrous_header_length_is_refused_from_the_first_bytes(length: int) -> None:
    """C6, C11: no allocation of that size, and cap and size are named."""
    asked: list[int] = []

    def read_at(offset: int, size: int) -> bytes:
        asked.append(size)
        return (frame(b"{}", length=length) + bytes(size))[:size]

    with pytest.raises(CheckpointInvalid) as caught:
        read_header(read_at, 2**62, where="x.safetensors")
    assert caught.value.rule == "header_too_large"
    assert str(HEADER_CAP_BYTES) in str(caught.value) and str(length) in str(caught.value)
    assert sum(asked) <= 64 << 10


def test_refusing_broken_headers_allocates_little() -> None:
    """C6."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for header in (b'{"a":' * 2000, b"[" * 100_000, b'{"a":{"dtype":"F32","shape":[%s],"data_offsets":[0,0]}}' % (b"9" * 4000)):
        assert rule_of(frame(header)) is not None
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 64 << 10


@pytest.mark.parametrize(
    ("tensors", "names"),
    [
        ({"z": ("F32", (0, 3), b"")}, ["z"]),
        ({"a": ("F32", (1,), b"1234"), "z": ("F32", (0,), b""), "b": ("F32", (1,), b"1234")}, ["a", "z", "b"]),
        ({"s": ("F32", (), b"1234")}, ["s"]),
        ({"": ("U8", (1,), b"x")}, [""]),
        ({"a\0b": ("U8", (1,), b"x")}, ["a\0b"]),
        ({"../../etc/passwd": ("U8", (1,), b"x")}, ["../../etc/passwd"]),
        ({"/abs": ("U8", (1,), b"x")}, ["/abs"]),
        ({"😀": ("C64", (1,), b"12345678")}, ["😀"]),
        ({"e": ("F8_E8M0", (3,), b"123"), "n": ("F4", (4,), b"12"), "s": ("F6_E2M3", (4,), b"123")}, ["e", "n", "s"]),
        ({}, []),
    ],
)
def test_odd_but_legal_tensors_are_accepted_as_the_reference_does(
    tensors: dict[str, tuple[str, tuple[int, ...], bytes]], names: list[str]
) -> None:
    """C7: zero size, rank 0, empty name, NUL in a name, a name like a path."""
    data = encode_safetensors(tensors)
    assert reference_accepts(data)
    assert [entry.name for entry in parse(data).tensors] == names


@pytest.mark.parametrize(("shape", "size"), [((3,), 1), ((3,), 2), ((1,), 1)])
def test_nibbles_that_end_inside_a_byte_are_refused(shape: tuple[int, ...], size: int) -> None:
    """C7: F4 with an odd count."""
    data = encode_safetensors({"a": ("F4", shape, bytes(size))})
    assert rule_of(data) == "subbyte_size"
    assert not reference_accepts(data)


def test_a_zero_size_tensor_lies_on_a_boundary() -> None:
    """C7."""
    fields = {
        "a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]},
        "z": {"dtype": "F32", "shape": [0], "data_offsets": [4, 4]},
    }
    data = frame(json.dumps(fields).encode(), bytes(8))
    assert rule_of(data) == "overlap"
    assert not reference_accepts(data)


def test_misaligned_tensors_are_named_and_not_refused() -> None:
    """C8: an odd U8 before an F64, and a header that is no multiple of 8."""
    tensors = {"u": ("U8", (3,), b"abc"), "d": ("F64", (1,), b"12345678"), "v": ("U8", (1,), b"x"), "none": ("F64", (0,), b"")}
    header = parse(encode_safetensors(tensors))
    assert [entry.name for entry in header.misaligned()] == ["d"]
    unaligned = parse(frame(b'{"f":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}} ', b"1234"))
    assert unaligned.header_bytes % 8
    assert [entry.name for entry in unaligned.misaligned()] == ["f"]
    assert unaligned.misaligned(8 - unaligned.header_bytes % 8) == ()


@pytest.mark.parametrize(
    ("metadata", "expected"),
    [("", None), ('"__metadata__":null,', None), ('"__metadata__":{},', {}), ('"__metadata__":{"format":"pt"},', {"format": "pt"})],
)
def test_metadata_may_be_absent_null_or_empty_and_is_handed_on(metadata: str, expected: dict[str, str] | None) -> None:
    """C10."""
    data = frame(f'{{{metadata}"a":{{{ENTRY}}}}}'.encode(), b"x")
    assert reference_accepts(data)
    assert parse(data).metadata == expected


@pytest.mark.parametrize(
    ("rule", "word", "data"),
    [
        ("empty_file", "0 bytes", b""),
        ("too_short", "7 bytes", b"1234567"),
        ("git_lfs_pointer", "Git LFS pointer", b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n"),
        ("html_page", "HTML", b"\n <!DOCTYPE html><html></html>"),
        ("html_page", "HTML", b"<html>"),
        ("torch_zip", "zip", b"PK\x03\x04\x00\x00\x08\x08" + bytes(64)),
        ("torch_pickle", "pickle", b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19." + bytes(64)),
        ("gguf", "GGUF", b"GGUF\x03\x00\x00\x00" + bytes(64)),
        ("gzip", "gzip", b"\x1f\x8b\x08\x00\x00\x00\x00\x00" + bytes(64)),
        ("json", "JSON", b'{"weight_map": {}}'),
    ],
)
def test_look_alikes_are_called_by_their_name(rule: str, word: str, data: bytes) -> None:
    """C1."""
    with pytest.raises(CheckpointInvalid) as caught:
        parse(data)
    assert caught.value.rule == rule
    assert word in caught.value.what


def test_one_small_read_is_enough_for_an_ordinary_header() -> None:
    data = encode_safetensors(make_tensors())
    asked: list[tuple[int, int]] = []

    def read_at(offset: int, size: int) -> bytes:
        asked.append((offset, size))
        return data[offset : offset + size]

    assert read_header(read_at, len(data), where="x") == parse(data)
    assert len(asked) == 1
    wide = encode_safetensors({f"tensor.{number}": ("U8", (), b"x") for number in range(2000)})
    asked.clear()
    data = wide
    assert len(read_header(read_at, len(wide), where="x").tensors) == 2000
    assert len(asked) == 2 and asked[1][0] + asked[1][1] == read_header(read_at, len(wide), where="x").header_bytes


def test_five_thousand_tensors_parse_quickly() -> None:
    data = encode_safetensors({f"model.layers.{number}.mlp.weight": ("BF16", (4, 2), bytes(16)) for number in range(5000)})
    began = time.process_time()
    assert len(parse(data).tensors) == 5000
    assert time.process_time() - began < 3.0  # about 30 ms: the limit only catches quadratic behaviour


# ---- against the reference ----

NAMES = st.text(alphabet=st.sampled_from('ab.é\0/\\"\ud7ff\U0001f600'), max_size=4)
DTYPES = st.sampled_from([*sorted(DTYPE_BITS), "F7", "f32", ""])
NUMBERS = st.one_of(st.integers(-2, 9), st.sampled_from([2**32, 2**63, 2**64 - 1, 2**64, 2.0, 1e3, True, None, "1"]))


@st.composite
def headers(draw: Callable[..., object]) -> bytes:
    """Headers that are nearly right: each field is usually what it should be."""
    fields: list[str] = []
    offset = 0
    for _ in range(draw(st.integers(0, 3))):  # type: ignore[call-overload]
        name, dtype = draw(NAMES), draw(DTYPES)
        shape = draw(st.one_of(st.lists(st.integers(0, 4), max_size=3), st.lists(NUMBERS, max_size=3)))
        size = DTYPE_BITS.get(dtype, 8)  # type: ignore[call-overload]
        for one in shape:  # type: ignore[attr-defined]
            size *= one if type(one) is int else 1
        end = offset + max(0, min(size // 8, 1 << 20))
        offsets = draw(st.one_of(st.just([offset, end]), st.just([offset, end]), st.just([offset, end]), st.lists(NUMBERS, max_size=3)))
        offset = end
        entry = {"dtype": dtype, "shape": shape, "data_offsets": offsets}
        if draw(st.integers(0, 9)) == 0:
            entry[str(draw(st.sampled_from(["x", "dtype"])))] = draw(st.sampled_from([1, [[[]]], {"a": 1}, None, "U8"]))
        fields.append(f"{json.dumps(name)}:{json.dumps(entry)}")
    if draw(st.booleans()):
        fields.insert(0, '"__metadata__":' + json.dumps(draw(st.sampled_from([None, {}, {"a": "b"}, {"a": 1}, [], "x"]))))
    text = "{" + ",".join(fields) + "}" + " " * draw(st.integers(0, 2))  # type: ignore[operator]
    data = bytes(min(offset, 1 << 20) + draw(st.sampled_from([0, 0, 0, 0, 1])))  # type: ignore[operator]
    return frame(text.encode("utf-8"), data)


@settings(max_examples=400, deadline=None)
@given(headers())
def test_nothing_is_accepted_that_the_reference_refuses(data: bytes) -> None:
    """C5. And where it refuses more, the rule is one of the known."""
    rule = rule_of(data)
    if rule is None:
        assert reference_accepts(data)
        theirs = dict(safetensors.deserialize(data))
        header = parse(data)
        assert {entry.name for entry in header.tensors} == set(theirs)
        for entry in header.tensors:
            begin = header.header_bytes + entry.begin
            assert (entry.dtype, list(entry.shape)) == (theirs[entry.name]["dtype"], theirs[entry.name]["shape"])
            assert data[begin : begin + entry.size_bytes] == bytes(theirs[entry.name]["data"])
    elif reference_accepts(data):
        assert rule in {"duplicate_key", "entry_type", "dtype_unknown", "too_deep"}


BASE = encode_safetensors({name: tensor for name, tensor in make_tensors().items() if len(tensor[2]) < 600}, {"format": "pt"})
HEADER_END = 8 + int.from_bytes(BASE[:8], "little")
TOKENS = [
    b"{",
    b"}",
    b"[",
    b"]",
    b",",
    b":",
    b'"',
    b"\\",
    b"0",
    b"-",
    b"e",
    b".",
    b" ",
    b"\n",
    b"\0",
    b"\xef\xbb\xbf",
    b"\xff",
    b"\\u0061",
    b"\\ud800",
    b"NaN",
    b"null",
]


@settings(max_examples=600, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, HEADER_END - 1), st.sampled_from(TOKENS), st.integers(0, 3)), min_size=1, max_size=3), st.booleans()
)
def test_edited_headers_never_crash_and_never_beat_the_reference(edits: list[tuple[int, bytes, int]], fix_length: bool) -> None:
    text = BASE[8:HEADER_END]
    for position, token, removed in edits:
        text = text[:position] + token + text[position + removed :]
    data = frame(text, BASE[HEADER_END:]) if fix_length else BASE[:8] + text + BASE[HEADER_END:]
    if rule_of(data) is None:
        assert reference_accepts(data)


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=64), st.binary(max_size=8))
def test_arbitrary_bytes_are_refused_or_right(header: bytes, data: bytes) -> None:
    for candidate in (header + data, frame(header, data), frame(b"{" + header, data)):
        if rule_of(candidate) is None:
            assert reference_accepts(candidate)


def test_ten_thousand_flipped_bits_never_beat_the_reference() -> None:
    source = random.Random(7)
    for _ in range(10_000):
        position = source.randrange(HEADER_END)
        data = flip(BASE, position) if source.random() < 0.5 else BASE[:position] + bytes([source.randrange(256)]) + BASE[position + 1 :]
        if rule_of(data) is None:
            assert reference_accepts(data)
