"""Wire messages and safetensors headers that are nearly right: one valid sample of each, and edits that keep most of it.

Used by the tests of tests/wire and tests/daemon, and by the programs of fuzz/, which find more with a mutator that knows the structure.
"""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Sequence
from typing import Any

import msgspec

from wcache.core import __version__
from wcache.core.model.decide import Decision, Request, ResidencyView
from wcache.core.model.events import Engine, EvidenceRef, Identity, MapCompleted, Ranks, encode_payload
from wcache.core.model.evidence import Contradiction, Coverage, FileIdentity, Fingerprint, Grant, Location
from wcache.core.model.policy import Policy
from wcache.core.model.vocabulary import Kind, Mode, Outcome, Reason, ResidencyState, Tier, TrustScope
from wcache.core.wire import messages as wire

_DIGEST = "a" * 64
_LOCATION = Location(
    "/models/x",
    (FileIdentity("model.safetensors", 1, 7, 1000, 5, 6),),
    FileIdentity("model.safetensors.index.json", 1, 8, 100, 5, 6),
    FileIdentity("", 1, 2, 4096, 5, 6),
    "ext4",
    repo="acme/tiny",
    commit="c0ffee",
)
_CONTENT = Fingerprint(
    tier=Tier.CONTENT,
    algorithm="wcache/weights/1",
    digest=_DIGEST,
    coverage=Coverage(1000, 1000),
    location=_LOCATION,
    table_digest="c" * 64,
    weights_digest=_DIGEST,
    file_digests={"model.safetensors": _DIGEST},
    pinnable=True,
)
_ASKED = Identity("/models/x", "/models/x", "acme/tiny", "c0ffee", _LOCATION.key(), "c" * 64, _DIGEST)
_REQUEST = Request(asked=_ASKED, dtype="bfloat16", config={"dtype": "bfloat16"})
_VIEW = ResidencyView(
    residency="r-1", state=ResidencyState.RESIDENT, kind=Kind.RAW, device="cpu", served=_ASKED, spellings=("/models/x",),
    weights_digest=_DIGEST, table_digest="c" * 64, known={"header": "d" * 64}, dtypes=("BF16",), bytes=1000, tensors=3,
)  # fmt: skip
_HIT = Decision(
    outcome=Outcome.HIT, reason=None, detail="", residency="r-1", served=_ASKED, tier=Tier.CONTENT, mode=Mode.ZERO_COPY,
    evidence=(EvidenceRef(Tier.CONTENT, _CONTENT.id(), _DIGEST, True),),
)  # fmt: skip
_ENGINE = Engine("test", "1", 1)
_GRANT = Grant(grant="g-1", scope=TrustScope.CHECKPOINT, reason="mirror", operator_uid=0, granted_ns=1, spellings=("/models/x",))
_MAPPED = MapCompleted(attach="a-1", mode=Mode.ZERO_COPY, tensors=3, bytes=1000, copied_tensors=0, copied_bytes=0, ms=0.5)
_STATUS = wire.Status(
    version=__version__, instance="d-1", server_pid=1, state="ready", started_ns=1, runtime_dir="/r", ledger="/l", ledger_seq=3,
    resident_bytes=1000, budget_bytes=2000, budget_by="memory", memory_bytes=1,
    residencies=(wire.ResidencyStatus(view=_VIEW, leases=1, loaded_ns=5),),
    leases=(wire.LeaseStatus(attach="a-1", residency="r-1", launch="l-1", engine=_ENGINE, rank=0, since_ns=1, tier=Tier.PINNED),),
)  # fmt: skip

REQUESTS: tuple[wire.Message, ...] = (
    wire.Hello(protocol=wire.PROTOCOL_VERSION, version=__version__),
    wire.AttachBegin(request=_REQUEST, policy=Policy(), launch="l-1", host="here", engine=_ENGINE, ranks=Ranks()),
    wire.Lookup(root="/models/x"),
    wire.HashRequest(spelling="/models/x", location=_LOCATION),
    wire.VerifyBehind(attach="a-1", location=_LOCATION),
    wire.Prove(spelling="/models/x", location=_LOCATION),
    wire.Decide(attach="a-1", request=_REQUEST, decision=_HIT, evidence=(_CONTENT,)),
    wire.Observe(event_id="0" * 32, type=_MAPPED.type, payload=encode_payload(_MAPPED).decode(), occurred_ns=1),
    wire.Ack(),
    wire.LoadRequest(spelling="/models/none", pin=True),
    wire.PublishBegin(
        asked=_REQUEST.asked,
        device="cpu",
        config={"dtype": '"bfloat16"'},
        size_bytes=1000,
        tensors=3,
        engine=_ENGINE,
        ranks=Ranks(),
        evidence=(_CONTENT,),
        source="a-1",
    ),
    wire.Publish(residency="r-1", table_bytes=100, memory_bytes=1000),
    wire.ReleaseRequest(residency="r-1", why="test"),
    wire.VerifyRequest(residency="r-1"),
    wire.StatusRequest(),
    wire.ShutdownRequest(),
    wire.ReplaceRequest(),
)
REPLIES: tuple[wire.Message, ...] = (
    wire.Welcome(protocol=wire.PROTOCOL_VERSION, version=__version__, instance="d-1", server_pid=1, ledger="/l"),
    wire.Failure(code="no_room", what="9 bytes are needed", where="x"),
    wire.AttachOffer(
        attach="a-1", residencies=(_VIEW,), grants=(_GRANT,), contradictions=(Contradiction("k", _DIGEST, ("x",), 4),), known=(_CONTENT,)
    ),
    wire.Known(fingerprints=(_CONTENT,)),
    wire.Progress(phase="read", done_bytes=1, total_bytes=2),
    wire.Hashed(fingerprint=_CONTENT),
    wire.Proved(header=_CONTENT),
    wire.Decided(seq=7, decision=_HIT, segments=(wire.SegmentManifest("model.safetensors", 1000, _DIGEST),)),
    wire.Decided(seq=None, decision=Decision(outcome=Outcome.FALLBACK, reason=Reason.NOT_RESIDENT, detail="")),
    wire.Segments(names=("model.safetensors",), last=True),
    wire.Done(seq=1),
    wire.Publishing(residency="r-1"),
    wire.Loaded(residency=_VIEW, reused=False, seconds={"read": 0.1}),
    wire.Verified(
        residency="r-1",
        intact=True,
        by="digests",
        tensors=(),
        why="",
        expected=_DIGEST,
        found=_DIGEST,
        bytes=1,
        seconds=0.1,
        state="resident",
    ),
    _STATUS,
)

_ODD: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 31, 33, 2**31, 2**32, 2**53 + 1, 2**63 - 1, 2**63, 2**64 - 1, -(2**63), 0.0, -0.0, 1.5, float("inf"),
    float("-inf"), float("nan"), "", "\0", "a\0b", "../../etc/passwd", "/", ".", "é", "\U0001f600", "\n", "=1+1", "<b>", "r-", "x" * 300,
    b"", b"\xff", [], {}, [[]], {"": None}, [None] * 40, "hit", "content", "pinned", "resident", "cuda:0",
)  # fmt: skip
_BYTES = (
    b"",
    b"\0",
    b"\xc1",
    b"\xff",
    b"\x80",
    b"\x90",
    b"\x91",
    b"\x81",
    b"\xdd\xff\xff\xff\xff",
    b"\xdf\xff\xff\xff\xff",
    b"\xdb\xff\xff\xff\xff",
)
_DEEP = 2000


def _odd(source: random.Random) -> Any:
    return copy.deepcopy(source.choice(_ODD))  # what is put into a tree may be edited there


def plain_of(message: wire.Message) -> dict[str, Any]:
    """A message as what it is on the wire: builtins that may be edited."""
    plain: dict[str, Any] = msgspec.msgpack.decode(wire.encode(message))
    return plain


def edit(source: random.Random, value: Any) -> Any:
    """One change somewhere in a tree of builtins; the tree itself may be changed."""
    holders = [node for node in _nodes(value) if isinstance(node, (dict, list)) and node]
    if not holders:
        return _odd(source)
    holder = source.choice(holders)
    if isinstance(holder, dict):
        key = source.choice(list(holder))
        what = source.randrange(6)
        if what == 0:
            del holder[key]
        elif what == 1:
            holder[source.choice(("x", "", "m", "é", key + "_"))] = _odd(source)
        elif what == 2:
            other = source.choice(list(holder))
            holder[key], holder[other] = holder[other], holder[key]
        else:
            holder[key] = _changed(source, holder[key])
    else:
        position = source.randrange(len(holder))
        what = source.randrange(5)
        if what == 0:
            del holder[position]
        elif what == 1:
            holder *= source.choice((2, 3, 40)) if len(holder) < 40 else 1
        else:
            holder[position] = _changed(source, holder[position])
    return value


def _changed(source: random.Random, value: Any) -> Any:
    if isinstance(value, str) and source.random() < 0.4:
        position = source.randrange(len(value) + 1)
        return value[:position] + source.choice(("", "\0", "/", "z", "é", "x" * 50)) + value[position + source.randrange(3) :]
    if isinstance(value, int) and not isinstance(value, bool) and source.random() < 0.4:
        return max(-(2**63), min(2**64 - 1, value + source.choice((-1, 1, 8, -(2**31), 2**32))))
    if source.random() < 0.05:
        return [value, value]
    return _odd(source)


def _nodes(value: Any) -> list[Any]:
    found, todo = [], [value]
    while todo:
        item = todo.pop()
        found.append(item)
        if isinstance(item, dict):
            todo.extend(item.values())
        elif isinstance(item, list):
            todo.extend(item)
    return found


def edited_body(source: random.Random, message: wire.Message) -> bytes:
    """A message's msgpack with a few changes: in its fields mostly, in its bytes sometimes, very deep or very long rarely."""
    plain: Any = plain_of(message)
    for _ in range(source.choice((0, 1, 1, 1, 2, 4))):
        plain = edit(source, plain)
    return encode_roughly(source, plain)


def encode_roughly(source: random.Random, plain: Any) -> bytes:
    body = msgspec.msgpack.encode(plain)
    if source.random() < 0.2:
        body = edited_bytes(source, body)
    if source.random() < 0.02 and isinstance(plain, dict) and len(plain) < 15:
        head = bytes([0x80 + len(plain) + 1])
        body = head + body[1:] + b"\xa1y" + source.choice((b"\x91", b"\x81\xa1z")) * _DEEP + b"\xc0"
    return body


def edited_bytes(source: random.Random, data: bytes) -> bytes:
    for _ in range(source.randint(1, 3)):
        position = source.randrange(len(data) + 1)
        removed = source.choice((0, 0, 1, 1, 2, 4, len(data)))
        data = data[:position] + source.choice((*_BYTES, source.randbytes(1), source.randbytes(4))) + data[position + removed :]
    return data


def framed(source: random.Random, body: bytes) -> bytes:
    """With the right length, or rarely with a wrong one."""
    length = len(body)
    if source.random() < 0.05:
        length = source.choice((0, max(0, length - 1), length + 1, length + 100, 1 << 20, (1 << 20) + 1, (1 << 32) - 1))
    return length.to_bytes(4, "big") + body


def edited_stream(source: random.Random, messages: Sequence[wire.Message] = REQUESTS) -> bytes:
    """Several frames, one after another."""
    frames = [framed(source, edited_body(source, source.choice(messages))) for _ in range(source.randint(1, 5))]
    return b"".join(frames)


# --- headers --------------------------------------------------------------------------------------------------------------

_TOKENS = (
    b"{", b"}", b"[", b"]", b",", b":", b'"', b"\\", b"0", b"-", b"-0", b"2e0", b"1.0", b" ", b"\n", b"\0", b"\xef\xbb\xbf", b"\xff",
    b"\\u0061", b"\\ud800", b"NaN", b"null", b"true", b"18446744073709551616", b'"__metadata__":', b'"dtype":"F4"', b'"shape":[]',
    b'"data_offsets":[0,0]',
)  # fmt: skip


def edited_header(source: random.Random, text: bytes) -> bytes:
    """A header's JSON with a few changes, in its values where it is JSON and in its bytes."""
    if source.random() < 0.5:
        try:
            plain = json.loads(text)
        except (ValueError, RecursionError):
            plain = None
        if isinstance(plain, dict):
            for _ in range(source.choice((1, 1, 2))):
                plain = edit(source, plain)
            try:
                return json.dumps(plain, separators=(",", ":"), ensure_ascii=source.random() < 0.5).encode("utf-8", "surrogatepass")
            except (TypeError, ValueError):
                pass
    for _ in range(source.choice((1, 1, 2, 3))):
        position = source.randrange(len(text) + 1)
        text = text[:position] + source.choice(_TOKENS) + text[position + source.randrange(4) :]
    return text
