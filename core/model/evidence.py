"""Recorded evidence about a checkpoint's content: file identities, coverage, fingerprints, grants, contradictions.

Digests are lower-case hex strings; which algorithm made one is said in `Fingerprint.algorithm`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Annotated

import msgspec
from msgspec import UNSET, UnsetType

from wcache.core.model.vocabulary import Tier, TrustScope

LOCKED_MAX = 64
"""Checkpoints of one lock."""


class FileIdentity(msgspec.Struct, frozen=True):
    """What the kernel says of one file (statx(2)); equal identities on a kind of file system that keeps ctime mean unchanged bytes.

    `name` is the path relative to the checkpoint's root ("" for the root directory itself); times are nanoseconds since the epoch.
    """

    name: str
    dev: int
    ino: int
    size_bytes: int
    mtime_ns: int
    ctime_ns: int


class Location(msgspec.Struct, frozen=True):
    """Where a checkpoint was found: what a later attach must compare, one statx per file, to know that nothing changed.

    `root` is the resolved directory (or the directory of a single file). `files` are the shards in name order, `index` the index
    file if one decided which shards count, `directory` the root directory itself (an entry added or removed changes it, so a new
    index cannot go unseen); it is None for a single-file checkpoint. `fs_kind` is the file system's name ("ext4", "nfs", ...).
    """

    root: str
    files: tuple[FileIdentity, ...]
    index: FileIdentity | None
    directory: FileIdentity | None
    fs_kind: str
    repo: str | None = None
    commit: str | None = None

    def key(self) -> str:
        """Digest of the identities that fix the content: shards and index, wherever the root is reached from."""
        digest = hashlib.sha256(b"wcache/identity/1")
        for identity in (*self.files, *((self.index,) if self.index else ())):
            name = identity.name.encode("utf-8", "surrogatepass")
            digest.update(len(name).to_bytes(8, "big") + name)
            for number in (identity.dev, identity.ino, identity.size_bytes, identity.mtime_ns, identity.ctime_ns):
                digest.update(number.to_bytes(16, "big", signed=True))
        return digest.hexdigest()


class Coverage(msgspec.Struct, frozen=True):
    """How much was looked at, and what it cost. `chance_4k` is the probability that one changed 4 KiB page anywhere would be seen."""

    covered_bytes: int
    total_bytes: int
    samples: int = 0
    chance_4k: float = 0.0
    files_opened: int = 0
    reads: int = 0
    stats: int = 0
    read_bytes: int = 0
    seconds: float = 0.0


class Signed(msgspec.Struct, frozen=True, kw_only=True):
    """An OMS signature that verified over the very files that were hashed. `key` is the SHA-256 of the signer's public key (PEM,
    SubjectPublicKeyInfo), `signature` that of the signature file, `name` what the signer called the model."""

    key: str
    signature: str
    name: str


class Verity(msgspec.Struct, frozen=True, kw_only=True):
    """fs-verity digests of every file (name to `algorithm:hex`), as the kernel measured them when the content was hashed. With `same_as`
    nothing was hashed: the kernel measured what it had measured when that fingerprint was taken."""

    files: dict[str, str]
    same_as: str | None = None


class Fingerprint(msgspec.Struct, frozen=True, kw_only=True):
    """One piece of evidence about one checkpoint, as it is stored in `fingerprint.recorded`.

    `digest` is what this tier compares: a digest of headers (`header`), of headers and samples (`sampled`), of attested names
    (`attested`), the weights digest (`pinned`, `content`, `trusted`). `table_digest` covers names, dtypes and shapes in name order,
    independent of sharding. `weights_digest` is set where this fingerprint stands for known content. `pinnable` says that a later
    attach may rest on it while `location` stays the same, `not_pinnable` why not. `reuses` names an earlier fingerprint. `signed` and
    `verity` are left out of what is stored where there is nothing of the kind.
    """

    tier: Tier
    algorithm: str
    digest: str
    coverage: Coverage
    location: Location | None = None
    table_digest: str | None = None
    weights_digest: str | None = None
    seed_id: str | None = None
    file_digests: dict[str, str] = {}
    pinnable: bool = False
    not_pinnable: str = ""
    reuses: str | None = None
    grant: str | None = None
    age_s: float | None = None
    attested_names: dict[str, str] = {}
    nonce: str = ""
    signed: Signed | UnsetType = UNSET
    verity: Verity | UnsetType = UNSET

    def id(self) -> str:
        """Stable id: equal evidence about equal identities is stored once and referenced after. Cost and time do not count."""
        parts = [
            self.tier.value, self.algorithm, self.digest, self.table_digest or "", self.weights_digest or "", self.seed_id or "",
            self.location.key() if self.location else "", self.location.root if self.location else "",
            str(self.pinnable), self.reuses or "", self.grant or "", self.nonce,
        ]  # fmt: skip
        if isinstance(self.signed, Signed):
            parts += [self.signed.key, self.signed.signature]
        if isinstance(self.verity, Verity):
            parts += ["verity", self.verity.same_as or "", *(f"{name}={digest}" for name, digest in sorted(self.verity.files.items()))]
        digest = hashlib.sha256(b"wcache/fingerprint/1")
        for part in parts:
            raw = part.encode("utf-8", "surrogatepass")
            digest.update(len(raw).to_bytes(8, "big") + raw)
        return digest.hexdigest()[:32]


def known_of(evidence: Iterable[Fingerprint]) -> dict[str, str]:
    """What a residency says of the checkpoint that it holds, or was made from, as `decide()` compares it with weaker evidence."""
    known = {}
    for item in evidence:
        if item.tier is Tier.SAMPLED:
            known[f"sampled:{item.seed_id}"] = item.digest
        elif item.tier in (Tier.HEADER, Tier.ATTESTED):
            known[item.tier.value] = item.digest
    return known


class Grant(msgspec.Struct, frozen=True, kw_only=True):
    """An operator's word. `expires_ns` None means until revoked.

    checkpoint: `spellings` as typed and resolved, with the weights digest of that moment. residency: `residency`. instance: the first
    fingerprint that this daemon instance records of a checkpoint holds while the instance lives. store: `prefix`, under which pins
    hold on a network file system.
    """

    grant: str
    scope: TrustScope
    reason: str
    operator_uid: int
    granted_ns: int
    expires_ns: int | None = None
    spellings: tuple[str, ...] = ()
    weights_digest: str | None = None
    residency: str | None = None
    instance: str | None = None
    prefix: str | None = None
    fingerprint: str | None = None

    def expired(self, now_ns: int) -> bool:
        return self.expires_ns is not None and now_ns >= self.expires_ns


class Lock(msgspec.Struct, frozen=True, kw_only=True):
    """Which weights may be served at all, by a file that somebody reviewed (`wcache.lock`). It forbids and never allows: evidence has to
    agree as without it. `weights` are weights digests, `digest` is the BLAKE3 of the file's bytes, so that a record says which state of
    it was in force."""

    path: Annotated[str, msgspec.Meta(max_length=4096)]
    digest: Annotated[str, msgspec.Meta(max_length=64)]
    weights: Annotated[tuple[Annotated[str, msgspec.Meta(max_length=64)], ...], msgspec.Meta(max_length=LOCKED_MAX)]


class Contradiction(msgspec.Struct, frozen=True):
    """A refuted hit: what was asked is not what has `weights_digest`. Denies that pair at every tier from then on."""

    asked_key: str
    weights_digest: str
    spellings: tuple[str, ...]
    seq: int
