"""The safetensors header, parsed strictly: nothing is accepted that the `safetensors` package refuses, and less than it accepts.

Format: https://github.com/huggingface/safetensors#format. A file is an 8-byte little-endian length, that many bytes of JSON, then the
tensors' bytes without holes. The package lets through what two readers may understand differently (duplicate keys: the last one wins);
every such thing is a named rule here, because a header decides what the bytes mean.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Any

import msgspec

from wcache.core.checkpoint.strict_json import DEPTH_LIMIT, deeper_than, parse_strict, shown
from wcache.core.model.errors import CheckpointInvalid

HEADER_CAP_BYTES = 100_000_000  # the package's own MAX_HEADER_SIZE
FIRST_READ_BYTES = 64 << 10  # holds the header of nearly every shard, so that one read a shard is enough
_U64_MAX = (1 << 64) - 1

DTYPE_BITS: dict[str, int] = {
    "BOOL": 8, "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6, "U8": 8, "I8": 8,
    "F8_E5M2": 8, "F8_E4M3": 8, "F8_E8M0": 8, "F8_E4M3FNUZ": 8, "F8_E5M2FNUZ": 8,
    "I16": 16, "U16": 16, "F16": 16, "BF16": 16, "I32": 32, "U32": 32, "F32": 32,
    "C64": 64, "F64": 64, "I64": 64, "U64": 64,
}  # fmt: skip

_ALIGNMENT_BYTES = {dtype: max(1, bits // 8) for dtype, bits in DTYPE_BITS.items()}


class TensorEntry(msgspec.Struct, frozen=True, gc=False):
    """One tensor of a shard; `begin` and `end` are byte offsets from the start of the data, which follows the header."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    begin: int
    end: int

    @property
    def size_bytes(self) -> int:
        return self.end - self.begin

    @property
    def alignment_bytes(self) -> int:
        """What the address of the tensor must divide by to be used in place: its item size, 1 below a byte."""
        return _ALIGNMENT_BYTES[self.dtype]


class Header(msgspec.Struct, frozen=True):
    """A parsed header. `tensors` are in file order, `header_bytes` counts length prefix and JSON, `raw` holds exactly those bytes."""

    tensors: tuple[TensorEntry, ...]
    metadata: dict[str, str] | None
    header_bytes: int
    data_bytes: int
    raw: bytes

    def misaligned(self, base: int = 0) -> tuple[TensorEntry, ...]:
        """The tensors that cannot be used in place when the file starts at address `base` (page-aligned: 0): they must be copied.

        Information, not an error: the format allows it, and a header that is no multiple of 8 misaligns every wide tensor.
        """
        start = base + self.header_bytes
        # Twice an attach, for every tensor: the properties would be a call each.
        return tuple(entry for entry in self.tensors if (start + entry.begin) % _ALIGNMENT_BYTES[entry.dtype] and entry.end != entry.begin)


def read_header(read_at: Callable[[int, int], bytes], size_bytes: int, *, where: str) -> Header:
    """Read and parse the header of a file of `size_bytes`, with one call of `read_at(offset, length)` where 64 KiB hold it, else two.

    Never asks for more than the file has, nor for more than the cap.
    """
    prefix = read_at(0, min(size_bytes, FIRST_READ_BYTES)) if size_bytes else b""
    length = _header_length(prefix, size_bytes, where=where)
    if length + 8 > len(prefix):
        prefix += read_at(len(prefix), length + 8 - len(prefix))
    return parse_header(prefix, size_bytes, where=where)


def parse_header(prefix: bytes, size_bytes: int, *, where: str) -> Header:
    """Parse the header at the start of `prefix`, of a file that is `size_bytes` long. Raises CheckpointInvalid with the broken rule."""
    length = _header_length(prefix, size_bytes, where=where)
    raw = bytes(prefix[: 8 + length])
    if len(raw) < 8 + length:
        raise CheckpointInvalid("header_truncated", f"the header has {length} bytes, only {len(raw) - 8} could be read", where=where)
    text = raw[8:]
    if not text.startswith(b"{") and not text.startswith(b"\xef\xbb\xbf"):
        _refuse_look_alike(raw, where=where)
        raise CheckpointInvalid("header_start", f"the header starts with {text[:8]!r}, not with an opening brace", where=where)
    fields = parse_strict(text, where=where, what="the header")
    metadata = _metadata(fields.pop("__metadata__", None), where=where)
    entries = [_entry(name, value, where) for name, value in fields.items()]
    entries.sort(key=attrgetter("begin", "end"))
    data_bytes = size_bytes - len(raw)
    _check_coverage(entries, data_bytes, where=where)
    return Header(tensors=tuple(entries), metadata=metadata, header_bytes=len(raw), data_bytes=data_bytes, raw=raw)


def _header_length(prefix: bytes, size_bytes: int, *, where: str) -> int:
    if size_bytes == 0:
        raise CheckpointInvalid("empty_file", "the file has 0 bytes", where=where, remedy="download it again")
    _refuse_look_alike(prefix, where=where)
    if size_bytes < 8 or len(prefix) < 8:
        raise CheckpointInvalid("too_short", f"the file has {size_bytes} bytes, a safetensors file at least 8", where=where)
    length = int.from_bytes(prefix[:8], "little")
    if length > HEADER_CAP_BYTES:
        raise CheckpointInvalid(
            "header_too_large",
            f"the header would have {length} bytes, the cap is {HEADER_CAP_BYTES} bytes",
            where=where,
            remedy="this is probably no safetensors file" if length > size_bytes else "",
        )
    if 8 + length > size_bytes:
        raise CheckpointInvalid("header_truncated", f"the header would have {length} bytes, the whole file has {size_bytes}", where=where)
    return length


_LOOK_ALIKES: tuple[tuple[str, bytes, str, str], ...] = (
    ("git_lfs_pointer", b"version https://git-lfs", "a Git LFS pointer, not the file it points to", "run `git lfs pull`"),
    ("torch_zip", b"PK\x03\x04", "a zip archive (torch.save), not safetensors", "convert it with safetensors.torch.save_file"),
    ("torch_pickle", b"\x80\x02\x8a", "a torch pickle, not safetensors", "convert it with safetensors.torch.save_file"),
    ("torch_pickle", b"\x80\x04\x95", "a pickle, not safetensors", "convert it with safetensors.torch.save_file"),
    ("gguf", b"GGUF", "a GGUF file, not safetensors", "convert it to safetensors"),
    ("hdf5", b"\x89HDF\r\n", "an HDF5 file, not safetensors", "convert it to safetensors"),
    ("gzip", b"\x1f\x8b\x08", "a gzip archive, not safetensors", "unpack it"),
    ("json", b"{\"", "a JSON text, not safetensors (for an index, name its directory)", "name the directory"),
    ("json", b"{\n", "a JSON text, not safetensors (for an index, name its directory)", "name the directory"),
)  # fmt: skip


def _refuse_look_alike(prefix: bytes, *, where: str) -> None:
    # A length below 2^24 has zeros in bytes 3 to 7, so none of these can be the start of a real file of a sane header; the bytes that
    # could (PK\3\4 as a length of 67 MB) are let through when the header behind them starts like one.
    if prefix[8:9] == b"{" and int.from_bytes(prefix[:8], "little") <= HEADER_CAP_BYTES:
        return
    start = prefix[:512].lstrip().lower()
    if start.startswith((b"<!doctype html", b"<html", b"<?xml", b"<head")):
        raise CheckpointInvalid(
            "html_page", "an HTML or XML page (a download error?), not safetensors", where=where, remedy="download it again"
        )
    for rule, magic, what, remedy in _LOOK_ALIKES:
        if prefix.startswith(magic):
            raise CheckpointInvalid(rule, f"this is {what}", where=where, remedy=remedy)


def _metadata(value: Any, *, where: str) -> dict[str, str] | None:
    if value is None:
        return None
    if not isinstance(value, dict):
        raise CheckpointInvalid("metadata_type", f"__metadata__ is a {type(value).__name__}, not an object", where=where)
    for key, text in value.items():
        if not isinstance(text, str):
            raise CheckpointInvalid(
                "metadata_type", f"__metadata__ holds a {type(text).__name__} at {shown(key)}, not a string", where=where
            )
    return value


def _entry(name: str, value: Any, where: str) -> TensorEntry:
    def refuse(rule: str, what: str) -> CheckpointInvalid:
        return CheckpointInvalid(rule, f"tensor {shown(name)} {what}", where=where)

    if type(value) is not dict:
        raise refuse("entry_type", f"is described by a {type(value).__name__}, not an object")
    try:
        dtype, shape, offsets = value["dtype"], value["shape"], value["data_offsets"]
    except KeyError as missing:
        raise refuse("entry_fields", f"has no field {missing}") from None
    if len(value) > 3 and deeper_than(value, DEPTH_LIMIT):
        raise refuse("too_deep", f"nests deeper than {DEPTH_LIMIT} levels")
    bits = DTYPE_BITS.get(dtype) if type(dtype) is str else None
    if bits is None:
        raise refuse("dtype_unknown", f"has the dtype {shown(dtype)}, which safetensors does not know")
    if type(shape) is not list:
        raise refuse("shape_type", "has no list as its shape")
    count = 1
    for size in shape:
        if type(size) is not int or not 0 <= size <= _U64_MAX:
            raise refuse("shape_type", f"has {shown(size)} in its shape, which is no size")
        count *= size
        if count > _U64_MAX:  # checked at each step, as the package does: a later zero does not make it right
            raise refuse("shape_overflow", "has a shape whose product does not fit 64 bits")
    if count * bits > _U64_MAX:
        raise refuse("shape_overflow", "has a shape whose bits do not fit 64 bits")
    if count * bits % 8:
        raise refuse("subbyte_size", f"has {count} items of {bits} bits, which end inside a byte")
    if type(offsets) is not list or len(offsets) != 2:
        raise refuse("offsets_type", "has no pair of offsets")
    begin, end = offsets
    if type(begin) is not int or type(end) is not int or not 0 <= begin <= _U64_MAX or not 0 <= end <= _U64_MAX:
        raise refuse("offsets_type", f"has the offsets {shown(begin)}, {shown(end)}, which are no whole 64-bit numbers")
    if end < begin:
        raise refuse("offsets_reversed", f"ends at {end}, before its begin at {begin}")
    if end - begin != count * bits // 8:
        raise refuse("size_mismatch", f"spans {end - begin} bytes, its dtype and shape need {count * bits // 8}")
    return TensorEntry(name, dtype, tuple(shape), begin, end)


def _check_coverage(entries: list[TensorEntry], data_bytes: int, *, where: str) -> None:
    """The tensors tile the data exactly; `entries` come sorted by offset."""
    position = 0
    previous: TensorEntry | None = None
    for entry in entries:
        if entry.begin != position:
            if entry.begin > position:
                raise CheckpointInvalid(
                    "hole", f"bytes {position} to {entry.begin} before tensor {shown(entry.name)} belong to no tensor", where=where
                )
            other = previous.name if previous else ""
            if previous and (entry.begin, entry.end) == (previous.begin, previous.end):
                raise CheckpointInvalid("alias", f"tensors {shown(other)} and {shown(entry.name)} share the same bytes", where=where)
            raise CheckpointInvalid("overlap", f"tensor {shown(entry.name)} begins inside tensor {shown(other)}", where=where)
        position = entry.end
        previous = entry
    if position > data_bytes:
        raise CheckpointInvalid(
            "truncated",
            f"the file is truncated: its tensors need {position} bytes, {data_bytes} are there",
            where=where,
            remedy="download it again",
        )
    if position < data_bytes:
        raise CheckpointInvalid("trailing_bytes", f"{data_bytes - position} bytes after the last tensor belong to no tensor", where=where)
