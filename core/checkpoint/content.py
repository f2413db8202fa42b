"""Hashing a checkpoint's files in one pass, so that what was hashed is one state of the files and the caller knows which."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

import msgspec
from msgspec import UNSET

from wcache.core.checkpoint.checkpoint import OpenCheckpoint, Shard
from wcache.core.checkpoint.digest import WEIGHTS_ALGORITHM, ShardDigests, ShardHasher, weights_digest_of
from wcache.core.checkpoint.identity import pinnable
from wcache.core.checkpoint.layout import MODEL_INDEX
from wcache.core.checkpoint.read_ahead import PIECE_BYTES, Into, ReadAhead
from wcache.core.checkpoint.reader import Mark, Reader
from wcache.core.checkpoint.verity import measured
from wcache.core.model.errors import CheckpointChanged
from wcache.core.model.evidence import Coverage, FileIdentity, Fingerprint, Location, Verity
from wcache.core.model.vocabulary import Tier

SETTLE_NS = 2_000_000_000  # time stamps are coarse (a kernel tick, a server's clock): a younger file may change without showing it
CHUNK_BYTES = PIECE_BYTES

Progress = Callable[[int], None]  # called with the number of bytes done since the last call


def seconds_until_settled(location: Location, now_ns: int) -> float:
    """How long to wait until every file of `location` is 2 s old (newest of mtime and ctime); 0 when they are. A file from the future
    makes it long: cap it."""
    return max(0.0, (_newest_ns(location.files, location.index) + SETTLE_NS - now_ns) / 1e9)


def seconds_until_listed_safely(location: Location, now_ns: int) -> float:
    """How long until a listing of the directory says all that its times stand for; 0 where no later check rests on them (an index names
    the files, a single file, a kind of file system without pins)."""
    directory_ns = _listed_ns(location)
    if not directory_ns or not pinnable(location.fs_kind, "coherent", store_granted=True)[0]:
        return 0.0
    return max(0.0, (directory_ns + SETTLE_NS - now_ns) / 1e9)


def _listed_ns(location: Location) -> int:
    """When the directory last changed, where its listing decides which files count; else 0."""
    if location.directory is None or (location.index is not None and location.index.name == MODEL_INDEX):
        return 0
    return max(location.directory.mtime_ns, location.directory.ctime_ns)


def _newest_ns(files: tuple[FileIdentity, ...], index: FileIdentity | None) -> int:
    return max((max(one.mtime_ns, one.ctime_ns) for one in (*files, *((index,) if index else ()))), default=0)


def hash_shards(
    held: OpenCheckpoint, *, into: Into | None = None, progress: Progress | None = None, cached: bool = False
) -> dict[str, ShardDigests]:
    """Read every shard once, in order, from start to end, and hash it, while what follows is read, across the ends of shards too (see
    ReadAhead). The digests, by name.

    With `into` (shard number to writable memory of its size: the mapping of a new memfd) the bytes are read straight to where they will
    stay, and are hashed there. Never maps a file. Raises CheckpointChanged when a file shrinks or its header is no longer the one that was
    checked, CheckpointUnreadable, and what `into` raises.
    """
    shards = held.checkpoint.shards
    files = [held.files[shard.name] for shard in shards]
    digests: dict[str, ShardDigests] = {}
    hasher: ShardHasher | None = None
    with ReadAhead(files, [shard.size_bytes for shard in shards], held.checkpoint.location.fs_kind, into=into, cached=cached) as pieces:
        for number, offset, data in pieces:
            shard, where = shards[number], files[number].where
            if hasher is None:
                hasher = ShardHasher(shard.header, where=where)
            require_header(shard, data, offset, where=where)
            hasher.update(data)
            if progress is not None:
                progress(len(data))
            if offset + len(data) == shard.size_bytes:
                digests[shard.name], hasher = hasher.finish(), None
    return digests


def require_header(shard: Shard, chunk: memoryview, offset: int, *, where: str) -> None:
    """The header that was checked is the one that is hashed: its offsets say which bytes belong to which tensor. Else CheckpointChanged."""
    expected = shard.header.raw[offset : offset + len(chunk)]
    if chunk[: len(expected)] != expected:
        raise CheckpointChanged("the header changed after it was checked", where=where)


class ContentCheck:
    """One pass over a held checkpoint: `begin()`, hash every shard (with `hash_shards`, or a ShardHasher of one's own), `finish()`.

    `begin` syncs the files and takes their identities, `finish` takes them again: any difference is CheckpointChanged naming the file.
    """

    def __init__(
        self,
        held: OpenCheckpoint,
        reader: Reader,
        *,
        network_fs: str = "refuse",
        store_granted: bool = False,
        since: Mark | None = None,
    ) -> None:
        self._held = held
        self._reader = reader
        self._kind_ok, self._kind_why = pinnable(held.checkpoint.location.fs_kind, network_fs, store_granted)
        self._since = since or reader.start
        self._before: tuple[tuple[FileIdentity, ...], FileIdentity | None] = ((), None)
        self._began_ns = 0
        self._verity: dict[str, str] = {}

    def begin(self, wait_fresh: Callable[[float], None] | None = None) -> None:
        """Sync and take identities. `wait_fresh(seconds)` is called once if a file is younger than 2 s and its file system keeps pins;
        it waits as long as it sees fit. A changed size or index ends the check: what was opened no longer counts."""
        self._take()
        if wait_fresh is not None and self._kind_ok:
            wait_s = max(0.0, (self._youngest_ns() + SETTLE_NS - time.time_ns()) / 1e9)
            if wait_s > 0:
                wait_fresh(wait_s)
                self._take()
        self._verity = measured(self._held)  # from here on the kernel lets nobody write to these
        self._began_ns = time.time_ns()

    def _youngest_ns(self) -> int:
        return max(_newest_ns(*self._before), _listed_ns(self._held.checkpoint.location))

    def _take(self) -> None:
        self._held.sync()
        self._before = self._held.identities()
        files, index = self._before
        opened = self._held.checkpoint.location
        for then, now in zip(opened.files, files, strict=True):
            if then.size_bytes != now.size_bytes:
                raise self._changed(then.name, f"its size went from {then.size_bytes} to {now.size_bytes} bytes")
        if index != opened.index:
            raise self._changed(opened.index.name if opened.index else "", "the index changed")

    def _changed(self, name: str, how: str) -> CheckpointChanged:
        return CheckpointChanged(f"the file changed while it was read: {how}", where=f"{self._held.checkpoint.location.root}/{name}")

    def finish(self, digests: Mapping[str, ShardDigests]) -> Fingerprint:
        """The `content` fingerprint. `digests` by shard name."""
        after = self._held.identities()
        (files_before, index_before), (files_after, index_after) = self._before, after
        for then, now in zip(files_before, files_after, strict=True):
            if then != now:
                raise self._changed(then.name, _difference(then, now))
        if index_before != index_after:
            raise self._changed(index_before.name if index_before else "", "the index changed")
        checkpoint = self._held.checkpoint
        weights_digest = weights_digest_of(checkpoint.shards, digests)
        age_ns = self._began_ns - self._youngest_ns()
        settled = age_ns >= SETTLE_NS
        why = self._kind_why or ("" if settled else f"hashing began {age_ns / 1e9:.2f} s after the last change, 2 s are needed")
        return Fingerprint(
            tier=Tier.CONTENT,
            algorithm=WEIGHTS_ALGORITHM,
            digest=weights_digest,
            coverage=coverage_of(self._reader, self._since, checkpoint.total_bytes, checkpoint.total_bytes, chance_4k=1.0),
            location=msgspec.structs.replace(checkpoint.location, files=files_before, index=index_before),
            table_digest=checkpoint.table_digest,
            weights_digest=weights_digest,
            file_digests={name: digests[name].file for name in sorted(digests) if digests[name].file},
            pinnable=self._kind_ok and settled,
            not_pinnable=why,
            verity=Verity(files=self._verity) if self._verity else UNSET,
        )


def _difference(then: FileIdentity, now: FileIdentity) -> str:
    if then.size_bytes != now.size_bytes:
        return f"its size went from {then.size_bytes} to {now.size_bytes} bytes"
    return (
        "its "
        + ", ".join(field for field in ("mtime_ns", "ctime_ns", "ino", "dev") if getattr(then, field) != getattr(now, field))
        + " changed"
    )


def coverage_of(
    reader: Reader, since: Mark | None, covered_bytes: int, total_bytes: int, *, samples: int = 0, chance_4k: float = 0.0
) -> Coverage:
    """Coverage with the cost that `reader` had since that mark (default: since it was made)."""
    start = since or reader.start
    now = reader.mark()
    cost = now.cost.since(start.cost)
    return Coverage(
        covered_bytes=covered_bytes,
        total_bytes=total_bytes,
        samples=samples,
        chance_4k=chance_4k,
        files_opened=cost.files_opened,
        reads=cost.reads,
        stats=cost.stats + cost.lists,
        read_bytes=cost.read_bytes,
        seconds=now.monotonic_s - start.monotonic_s,
    )
