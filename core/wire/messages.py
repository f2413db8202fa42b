"""Every message on the socket, as tagged msgpack structs. Requests go from client to server, replies back; all are versioned together.

One exchange is one request and one or more replies; only `Progress` is followed by more. Descriptors travel beside `HashRequest`,
`VerifyBehind`, `Prove` and `Publish` (client to server) and `Segments` (server to client), at most `MAX_FDS` a message; the next batch
follows after `Ack`.
"""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from wcache.core.model.decide import Decision, Request, ResidencyView
from wcache.core.model.events import Engine, Identity, Ranks
from wcache.core.model.evidence import Contradiction, Fingerprint, Grant, Location
from wcache.core.model.policy import Policy
from wcache.core.wire.message import Message as Message
from wcache.core.wire.status import LeaseStatus as LeaseStatus
from wcache.core.wire.status import ResidencyStatus as ResidencyStatus
from wcache.core.wire.status import Status as Status

PROTOCOL_VERSION = 1
RESTARTED = "restarted"
SHARD, TABLE, MEMORY = "shard", "table", "memory"
MAX_FDS = 32
MAX_REQUEST_BYTES = 1 << 20
MAX_REPLY_BYTES = 64 << 20
MAX_HELLO_BYTES = 4096  # before the handshake nobody is owed more


# --- requests -------------------------------------------------------------------------------------------------------------


class Hello(Message, frozen=True, kw_only=True, tag=True):
    """First on every connection. `protocol` must equal the server's."""

    protocol: int
    version: str


class AttachBegin(Message, frozen=True, kw_only=True, tag=True):
    """Asks for an attach id, the present knowledge, and a reservation of everything resident until the decision (30 s at most).

    `request.asked.root` is the resolved place where it is known without touching the checkpoint, else None.
    """

    request: Request
    policy: Policy
    launch: str
    host: str
    engine: Engine
    ranks: Ranks


class Lookup(Message, frozen=True, kw_only=True, tag=True):
    """Which content was hashed earlier at this place, or under these identities?"""

    root: str | None = None
    key: str | None = None


class HashRequest(Message, frozen=True, kw_only=True, tag=True):
    """Hash a checkpoint's bytes now, in a worker, through the descriptors that come along: the shards in `location.files` order, then
    the index file where `location.index` is set (an index may be larger than a request).

    `more` says that further descriptors of the same request follow in another HashRequest, which comes without waiting for a reply.
    Single flight per `location.root` and `location.key()`.
    """

    spelling: str
    location: Location
    more: bool = False


class VerifyBehind(Message, frozen=True, kw_only=True, tag=True):
    """After a hit below `pinned`: the open files that its evidence was about, as with HashRequest, so that the server can find out in the
    background whether they are what it served. `more` as there. Has no reply: an engine waits for nothing that comes after its weights.
    """

    attach: str
    location: Location
    more: bool = False


class Prove(Message, frozen=True, kw_only=True, tag=True):
    """Another user's loader, of a shared daemon, shows that it may read what it will ask for: the open files of the whole checkpoint
    come along as with HashRequest, each opened O_RDONLY. A worker of the server takes their identities and headers. Until then that
    client is offered nothing.
    """

    spelling: str
    location: Location
    more: bool = False


class Decide(Message, frozen=True, kw_only=True, tag=True):
    """The loader's decision with all that it stands on. The server runs decide() itself and records its own result."""

    attach: str
    request: Request
    decision: Decision
    evidence: tuple[Fingerprint, ...]


class Observe(Message, frozen=True, kw_only=True, tag=True):
    """An event that happened in the client (`map.*`, `fallback.*`, `attach.redecided`), to be appended once. `payload` is its JSON."""

    event_id: str
    type: str
    payload: str
    occurred_ns: int


class Ack(Message, frozen=True, kw_only=True, tag=True):
    """The client has the descriptors of the last `Segments`."""


class LoadRequest(Message, frozen=True, kw_only=True, tag=True):
    """Make a checkpoint resident. The spelling is already absolute or a Hugging Face id. An equal one that is resident is reused.

    `device` is `cpu` or the UUID of a GPU or MIG instance. `pin`: what is pinned is never evicted; None leaves it as it is. `place` is
    where the client found it (a directory or file): the daemon's own Hugging Face cache may be another one. `again`: the client will ask
    for the same on another device next."""

    spelling: str
    revision: str | None = None
    device: str = "cpu"
    pin: bool | None = None
    place: str | None = None
    again: bool = False


class PublishBegin(Message, frozen=True, kw_only=True, tag=True):
    """An engine offers its post-load tensors: is there room? `asked` is the checkpoint that they were made from, `evidence` what is known
    of it since they were read, `config` the whole normalised configuration. `source` names the attach that the bytes came by: a hit on raw
    weights; or one that fell back, after which they were read from the files that `evidence` is about. `size_bytes` is the memory's.
    The answer is Publishing, or Loaded where an equal one is there; Progress, while another publishes the same."""

    asked: Identity
    device: str
    config: dict[str, str]
    size_bytes: int
    tensors: int
    engine: Engine
    ranks: Ranks
    evidence: tuple[Fingerprint, ...] = ()
    source: str | None = None
    pin: bool | None = None


class Publish(Message, frozen=True, kw_only=True, tag=True):
    """The published memory, on the connection that began: two descriptors come along, the sealed table and the memory that it describes,
    which the sender has given up. A worker hashes it; Progress and Loaded follow. From here on the sender is not
    needed any more."""

    residency: str
    table_bytes: int
    memory_bytes: int


class ReleaseRequest(Message, frozen=True, kw_only=True, tag=True):
    """Give resident weights back. `residency` may be a unique prefix of an id.

    While they are mapped that is refused, unless it is to be forced, or deferred (`when_free`): then no new attach gets them, the memory
    goes when the last lease has ended, and `Progress` tells of the wait. `verify`: read and hash the memory a last time before it goes.
    """

    residency: str
    force: bool = False
    why: str = ""
    when_free: bool = False
    verify: bool = False


class VerifyRequest(Message, frozen=True, kw_only=True, tag=True):
    """Is the memory of a residency still what was loaded? Seals, sizes and inodes always; every byte with `read`."""

    residency: str
    read: bool = True


class StatusRequest(Message, frozen=True, kw_only=True, tag=True):
    """What the server is and holds."""


class ShutdownRequest(Message, frozen=True, kw_only=True, tag=True):
    """End the daemon. Refused while there are leases, unless `force`."""

    force: bool = False


class ReplaceRequest(Message, frozen=True, kw_only=True, tag=True):
    """Let a new server, of the code that is installed now, go on with everything. Done is the old one's last word."""


AnyRequest = (
    Hello
    | AttachBegin
    | Lookup
    | HashRequest
    | VerifyBehind
    | Prove
    | Decide
    | Observe
    | Ack
    | LoadRequest
    | PublishBegin
    | Publish
    | ReleaseRequest
    | VerifyRequest
    | StatusRequest
    | ShutdownRequest
    | ReplaceRequest
)


# --- replies --------------------------------------------------------------------------------------------------------------


class Welcome(Message, frozen=True, kw_only=True, tag=True):
    protocol: int
    version: str
    instance: str
    server_pid: int
    ledger: str
    vault_pid: int = 0


class Failure(Message, frozen=True, kw_only=True, tag=True):
    """A refusal or an error, as `WcacheError.to_json()` gives it. `code` names the class of error, `detail` a finer word."""

    code: str
    what: str
    where: str = ""
    remedy: str = ""
    detail: str = ""


class AttachOffer(Message, frozen=True, kw_only=True, tag=True):
    """The attach id and what the server knows now. `known` is content hashed earlier at `request.asked.root` or of the asked spelling,
    newest first; `first` is the first fingerprint of this daemon instance for the asked spelling (instance trust)."""

    attach: str
    residencies: tuple[ResidencyView, ...]
    grants: tuple[Grant, ...]
    contradictions: tuple[Contradiction, ...]
    known: tuple[Fingerprint, ...]
    first: Fingerprint | None = None
    idle_bytes: int = 0


class Known(Message, frozen=True, kw_only=True, tag=True):
    fingerprints: tuple[Fingerprint, ...]


class Progress(Message, frozen=True, kw_only=True, tag=True):
    """Of a load or a hash. `phase` is settle, prepare, read, seal or wait; more replies follow.

    RESTARTED is the phase of one that nobody asked for: a new server has the connection, and what the old one had read is lost.
    """

    phase: str
    done_bytes: int
    total_bytes: int
    residency: str | None = None


class Hashed(Message, frozen=True, kw_only=True, tag=True):
    fingerprint: Fingerprint


class SegmentManifest(msgspec.Struct, frozen=True):
    """One descriptor of a residency. `form` is `shard` (a sealed memfd that is byte for byte one shard file), or a pair: `table` (a sealed
    memfd, `core.memory.table`), then `memory` (what the table describes: a sealed memfd, or GPU memory, which has no `file_digest`)."""

    name: str
    size_bytes: int
    file_digest: str
    form: str = SHARD


class Proved(Message, frozen=True, kw_only=True, tag=True):
    """What the server's worker found behind the descriptors of `Prove`: evidence that the server took itself."""

    header: Fingerprint


class Decided(Message, frozen=True, kw_only=True, tag=True):
    """The recorded decision: the server's own. On a hit `segments` follow in `Segments` messages;
    `seq` is None where the ledger could not take the record (it is in the journal then)."""

    seq: int | None
    decision: Decision
    segments: tuple[SegmentManifest, ...] = ()
    idle_bytes: int = 0


class Segments(Message, frozen=True, kw_only=True, tag=True):
    """Descriptors of `names`, in that order, come with this message."""

    names: tuple[str, ...]
    last: bool


class Done(Message, frozen=True, kw_only=True, tag=True):
    """The request was carried out; `seq` of the event that says so, and the whole id of a residency that was asked for by its beginning."""

    seq: int | None = None
    residency: str = ""


class Publishing(Message, frozen=True, kw_only=True, tag=True):
    """There is room, and it is reserved: fill memory, seal it, and send it with Publish."""

    residency: str


class Loaded(Message, frozen=True, kw_only=True, tag=True):
    """`unproven_why`: of published weights whose lineage is unproven, what is missing. `retried`: operations on the files that failed at
    first."""

    residency: ResidencyView
    reused: bool
    seconds: dict[str, float]
    pinned: bool = False
    unproven_why: str = ""
    retried: int = 0


class Verified(Message, frozen=True, kw_only=True, tag=True):
    """The answer to VerifyRequest. Not `intact`: `tensors` that differ, and `why` beside or instead of them. `by`: digests or seals.

    `found` is the weights digest of what is there (empty where it has none any more), `state` that of the residency from now on."""

    residency: str
    intact: bool
    by: str
    tensors: tuple[str, ...]
    why: str
    expected: str
    found: str
    bytes: int
    seconds: float
    state: str
    seq: int | None = None


AnyReply = (
    Welcome
    | Failure
    | AttachOffer
    | Known
    | Progress
    | Hashed
    | Proved
    | Decided
    | Segments
    | Done
    | Publishing
    | Loaded
    | Verified
    | Status
)

_T = TypeVar("_T")
_encoder = msgspec.msgpack.Encoder()
_plain: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder()
_requests: msgspec.msgpack.Decoder[AnyRequest] = msgspec.msgpack.Decoder(AnyRequest)
_replies: msgspec.msgpack.Decoder[AnyReply] = msgspec.msgpack.Decoder(AnyReply)


def encode(message: Message) -> bytes:
    return _encoder.encode(message)


def decode_request(body: bytes | bytearray | memoryview) -> AnyRequest:
    """Raises msgspec.MsgspecError for anything that is no request of this version."""
    return _decoded(_requests, body)


def decode_reply(body: bytes | bytearray | memoryview) -> AnyReply:
    """Raises msgspec.MsgspecError for anything that is no reply of this version."""
    return _decoded(_replies, body)


def decode_plain(body: bytes | bytearray | memoryview) -> dict[str, Any]:
    """A message of any version, as builtins; empty for what is none. Those of the handshake are looked at before they are decoded,
    because another version's may have other fields."""
    try:
        plain = _decoded(_plain, body)
    except msgspec.MsgspecError:
        return {}
    return plain if isinstance(plain, dict) else {}


def _decoded(decoder: msgspec.msgpack.Decoder[_T], body: bytes | bytearray | memoryview) -> _T:
    try:
        return decoder.decode(body)
    except RecursionError:  # the decoder recurses into what it skips as well
        raise msgspec.DecodeError("it nests too deeply") from None


def identity_of(location: Location | None, spelling: str, *, table_digest: str | None = None, digest: str | None = None) -> Identity:
    """The asked or served identity as events carry it."""
    if location is None:
        return Identity(spelling, table_digest=table_digest, digest=digest)
    return Identity(spelling, location.root, location.repo, location.commit, location.key(), table_digest, digest)


def as_json(message: Message) -> dict[str, Any]:
    """Plain builtins of a message, for `--json`."""
    plain: dict[str, Any] = msgspec.to_builtins(message)
    plain.pop("m", None)
    return plain
