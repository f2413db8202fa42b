"""What is fuzzed: one function an input format. Each returns for every input, or raises `Finding` (or whatever escaped).

The same functions run over fuzz/corpus/ in the test suite, without atheris.
"""

from __future__ import annotations

import os
import select
import sys
import tracemalloc
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

import msgspec
import safetensors

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))  # for support.mutations

from wcache.core.checkpoint.header import Header, parse_header, read_header
from wcache.core.model.errors import CheckpointInvalid, LedgerCorrupt, ProtocolError
from wcache.core.model.events import EVENT_TYPES, decode_payload
from wcache.core.wire.frames import FrameDecoder, encode_frame
from wcache.core.wire.messages import (
    MAX_FDS,
    MAX_REPLY_BYTES,
    MAX_REQUEST_BYTES,
    AttachBegin,
    Decide,
    HashRequest,
    Observe,
    decode_plain,
    decode_reply,
    decode_request,
    encode,
)

T = TypeVar("T")
CAP_BYTES = 2 << 20
CAP_PER_BYTE = 200  # an empty container of three bytes is an object of 64; a name of one byte one of 50, twice
STRICTER = frozenset({"duplicate_key", "entry_type", "dtype_unknown", "too_deep", "header_start"})
"""Rules that refuse what the safetensors package lets through, on purpose: docs/fuzzing.md says why each."""

TRACE_EVERY = 1
"""A fuzzer's run traces the allocations of some calls only: to trace all halves its speed, and each start and stop leaks some 3 KB
(CPython 3.11). Its limit on the address space holds for every input."""

_calls = 0


class Finding(Exception):
    """A promise that an input broke."""


def within_cap(size_bytes: int, call: Callable[[], T]) -> T:
    """`call()`, and a Finding if it took more memory than an input of this size may cost."""
    global _calls
    _calls += 1
    if _calls % TRACE_EVERY:
        return call()
    cap_bytes = CAP_BYTES + CAP_PER_BYTE * size_bytes
    tracemalloc.start()
    try:
        return call()
    finally:
        peak_bytes = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        if peak_bytes > cap_bytes:
            raise Finding(f"{peak_bytes} bytes were allocated for an input of {size_bytes}, the cap is {cap_bytes}")


def header(data: bytes) -> None:
    """The bytes as a whole file, and as the header of one; read in one piece and as a file is read."""
    within_cap(len(data), lambda: _file(data))
    end = data.rfind(b"}") + 1
    text, tensors = (data[:end], data[end:]) if end else (data, b"")
    within_cap(len(data), lambda: _file(len(text).to_bytes(8, "little") + text + tensors))


def _file(data: bytes) -> None:
    asked_bytes = 0

    def read_at(offset: int, length: int) -> bytes:
        nonlocal asked_bytes
        asked_bytes += length
        if offset + length > len(data):
            raise Finding(f"{length} bytes at {offset} of a file of {len(data)} were asked for")
        return data[offset : offset + length]

    whole = _rule_or_header(lambda: parse_header(data, len(data), where="x"))
    read = _rule_or_header(lambda: read_header(read_at, len(data), where="x"))
    # How deep the interpreter goes depends on its caller: then the rule is another one, and a refusal it is either way.
    if read != whole and {read, whole} != {"not_json", "too_deep"}:
        raise Finding(f"parsed as {whole}, read as {read}")
    if asked_bytes > len(data):
        raise Finding(f"{asked_bytes} bytes of {len(data)} were read")
    try:
        theirs = dict(safetensors.deserialize(data))
    except safetensors.SafetensorError:
        theirs = None
    except ValueError as error:  # its own error for a name that Python cannot hold
        theirs = None if "utf" in str(error).lower() else {}
    if isinstance(whole, str):
        if theirs is not None and whole not in STRICTER:
            raise Finding(f"{whole}: the safetensors package reads it")
        return
    if theirs is None:
        raise Finding("accepted what the safetensors package refuses")
    if {entry.name for entry in whole.tensors} != set(theirs):
        raise Finding("other names than the safetensors package reads")
    for entry in whole.tensors:
        view, begin = theirs[entry.name], whole.header_bytes + entry.begin
        if (entry.dtype, list(entry.shape)) != (view["dtype"], list(view["shape"])):
            raise Finding(f"another dtype or shape of {entry.name!r}")
        if data[begin : begin + entry.size_bytes] != bytes(view["data"]):
            raise Finding(f"other bytes of {entry.name!r}")


def _rule_or_header(call: Callable[[], Header]) -> Header | str:
    try:
        return call()
    except CheckpointInvalid as error:
        if "\n" in str(error) or len(str(error)) > 1000:
            raise Finding(f"no message of one line: {str(error)!r}") from None
        return error.rule


def wire(data: bytes) -> None:
    """The first byte says how the stream is cut and where descriptors come, the rest is the stream, of a client and of a server."""
    if not data:
        return
    mode, stream = data[0], data[1:]
    left, carried = os.pipe()
    try:
        within_cap(len(data), lambda: _stream(mode, stream, MAX_REPLY_BYTES if mode & 1 else MAX_REQUEST_BYTES, carried))
    finally:
        os.close(carried)
        # A pipe tells when the last copy of its other end is gone. Numbers of descriptors would count what other threads of the
        # process open meanwhile, and what its garbage collector closes. A child that another thread starts has a copy until it runs.
        ended = select.poll()
        ended.register(left, 0)
        kept = not ended.poll(1000)
        os.close(left)
    if kept:
        raise Finding("a descriptor stayed open")


def _stream(mode: int, stream: bytes, max_bytes: int, sent: int) -> None:
    decoder = FrameDecoder(max_bytes)
    step = (mode & 0x0F) * 7 + 1 if mode & 0x10 else len(stream) + 1
    carried = 0 if not mode & 0x20 else (1, 2, MAX_FDS, MAX_FDS + 1)[mode >> 6]
    bodies: list[bytes] = []
    try:
        for start in range(0, len(stream), step):
            fds = [os.dup(sent) for _ in range(carried)] if start < 8 * step else []
            for frame in decoder.feed(stream[start : start + step], fds):
                bodies.append(frame.body)
                frame.close()
    except ProtocolError:
        pass
    else:
        decoder.close()
    rest = b"".join(encode_frame(body) for body in bodies)
    if not stream.startswith(rest):
        raise Finding("frames that were not sent")
    for body in bodies:
        _message(body)


def _message(body: bytes) -> None:
    plain = decode_plain(body)
    plain.get("m"), plain.get("protocol")
    try:
        reply = decode_reply(body)
    except msgspec.MsgspecError:
        pass
    else:
        _stable(encode(reply), lambda again: encode(decode_reply(again)))
    try:
        request = decode_request(body)
    except msgspec.MsgspecError:
        return
    _stable(encode(request), lambda again: encode(decode_request(again)))
    if isinstance(request, AttachBegin):
        request.policy.digest()
        request.policy.for_another_user()
    elif isinstance(request, HashRequest):
        request.location.key()
    elif isinstance(request, Decide):
        for item in request.evidence:
            item.id()
    elif isinstance(request, Observe):
        cls = EVENT_TYPES.get(request.type)
        with suppress(LedgerCorrupt):
            decode_payload(request.type, cls.schema if cls else 1, request.payload)


def _stable(body: bytes, again: Callable[[bytes], bytes]) -> None:
    if again(body) != body:
        raise Finding("a message changes on its way")
