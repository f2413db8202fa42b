"""One function per tier: evidence about a checkpoint's content, with its coverage and its cost. DESIGN §7 says what each cannot see."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import msgspec
from blake3 import blake3

from wcache.core.checkpoint.checkpoint import Checkpoint, OpenCheckpoint
from wcache.core.checkpoint.content import ContentCheck, Progress, coverage_of, hash_shards, seconds_until_settled
from wcache.core.checkpoint.digest import HEADER_ALGORITHM, WEIGHTS_ALGORITHM, digest_of_headers, framed
from wcache.core.checkpoint.identity import pinnable
from wcache.core.checkpoint.reader import Mark, Reader, in_parallel, threads_for
from wcache.core.checkpoint.sampling import SAMPLED_ALGORITHM, ReadAt, take_samples
from wcache.core.checkpoint.seed import Seed
from wcache.core.checkpoint.verity import measured
from wcache.core.model.errors import CheckpointChanged, CheckpointUnreadable, EvidenceUnavailable
from wcache.core.model.evidence import Fingerprint, Location, Verity
from wcache.core.model.vocabulary import Tier

__all__ = [
    "attested_fingerprint", "content_fingerprint", "header_fingerprint", "pinned_fingerprint", "reopen", "sampled_fingerprint",
    "seconds_until_settled", "verity_fingerprint",
]  # fmt: skip

ATTESTED_ALGORITHM = "wcache-attested-1/hub-blob-names"
_BLOB_NAME = re.compile(r"[0-9a-f]{64}|[0-9a-f]{40}")  # sha256 of a large file, git's sha1 of a small one
_METADATA_SLACK_S = 1.0  # huggingface_hub allows the same: file systems round mtime


def header_fingerprint(checkpoint: Checkpoint, reader: Reader, *, since: Mark | None = None) -> Fingerprint:
    """Tier `header`: file names, sizes, headers. Cannot see any change of values."""
    covered = sum(shard.header.header_bytes for shard in checkpoint.shards)
    return Fingerprint(
        tier=Tier.HEADER,
        algorithm=HEADER_ALGORITHM,
        digest=digest_of_headers(checkpoint.shards),
        coverage=coverage_of(reader, since, covered, checkpoint.total_bytes),
        location=checkpoint.location,
        table_digest=checkpoint.table_digest,
    )


def sampled_fingerprint(
    target: Checkpoint | OpenCheckpoint, seed: Seed, reader: Reader, *, read_at: ReadAt | None = None, since: Mark | None = None
) -> Fingerprint:
    """Tier `sampled`. With `read_at(shard index, offset, length)` the bytes come from there (resident memory) and no file is touched.

    `coverage.chance_4k` is the covered part of all bytes: what one changed byte at a place unknown to the seed's owner risks to be seen.
    """
    checkpoint = target if isinstance(target, Checkpoint) else target.checkpoint
    if read_at is not None:
        samples = take_samples(checkpoint.shards, seed, read_at)
    else:
        with _opened(target, reader) as held:
            before = held.identities()
            files = list(held.files.values())
            samples = take_samples(checkpoint.shards, seed, lambda shard, offset, length: files[shard].read_at(offset, length))
            _require_unchanged(held, before)
    return Fingerprint(
        tier=Tier.SAMPLED,
        algorithm=SAMPLED_ALGORITHM,
        digest=samples.digest,
        coverage=coverage_of(
            reader,
            since,
            samples.covered_bytes,
            samples.total_bytes,
            samples=samples.spans,
            chance_4k=samples.covered_bytes / samples.total_bytes if samples.total_bytes else 1.0,
        ),
        location=checkpoint.location,
        table_digest=checkpoint.table_digest,
        seed_id=seed.id,
    )


def content_fingerprint(
    target: Checkpoint | OpenCheckpoint,
    reader: Reader,
    *,
    progress: Progress | None = None,
    wait_fresh: Callable[[float], None] | None = None,
    network_fs: str = "refuse",
    store_granted: bool = False,
    since: Mark | None = None,
) -> Fingerprint:
    """Tier `content`: every byte read and hashed now. A held checkpoint is hashed through its descriptors, a closed one is opened again.

    Raises CheckpointChanged, naming the file, when anything changes meanwhile. `pinnable` is set when the file system keeps pins and
    hashing began at least 2 s after the last change; `wait_fresh(seconds)` is called once to get there.
    """
    with _opened(target, reader) as held:
        check = ContentCheck(held, reader, network_fs=network_fs, store_granted=store_granted, since=since)
        check.begin(wait_fresh)
        return check.finish(hash_shards(held, progress=progress))


def verity_fingerprint(held: OpenCheckpoint, earlier: Sequence[Fingerprint], reader: Reader) -> Fingerprint | None:
    """Tier `content` without reading: the kernel measures every file (fs-verity) as it did when one of `earlier` was hashed. None where it
    does not, or measures nothing."""
    since = reader.mark()
    files = measured(held) if earlier else {}
    checkpoint = held.checkpoint
    same = next(
        (one for one in earlier if files and isinstance(one.verity, Verity) and one.verity.files == files and one.weights_digest), None
    )
    if same is None or same.table_digest != checkpoint.table_digest:
        return None
    locations, index = held.identities()
    return Fingerprint(
        tier=Tier.CONTENT,
        algorithm=same.algorithm,
        digest=same.digest,
        coverage=coverage_of(reader, since, checkpoint.total_bytes, checkpoint.total_bytes, chance_4k=1.0),
        location=msgspec.structs.replace(checkpoint.location, files=locations, index=index),
        table_digest=same.table_digest,
        weights_digest=same.weights_digest,
        file_digests=same.file_digests,
        pinnable=pinnable(checkpoint.location.fs_kind)[0],
        verity=Verity(files=files, same_as=same.verity.same_as or same.id() if isinstance(same.verity, Verity) else None),
    )


def pinned_fingerprint(
    earlier: Fingerprint,
    now: Location,
    *,
    reader: Reader | None = None,
    network_fs: str = "refuse",
    store_granted: bool = False,
    since: Mark | None = None,
) -> Fingerprint | None:
    """Tier `pinned`: `earlier` hashed the content and every file identity is still the same. None when it cannot be reused.

    `now` comes from `current_location` or a freshly opened checkpoint.
    """
    then = earlier.location
    if earlier.tier not in (Tier.CONTENT, Tier.PINNED) or not earlier.pinnable or earlier.weights_digest is None or then is None:
        return None
    if then.key() != now.key() or then.fs_kind != now.fs_kind or not pinnable(now.fs_kind, network_fs, store_granted)[0]:
        return None
    total = sum(one.size_bytes for one in now.files)
    return Fingerprint(
        tier=Tier.PINNED,
        algorithm=WEIGHTS_ALGORITHM,
        digest=earlier.weights_digest,
        coverage=coverage_of(reader or Reader(), since, total, total, chance_4k=1.0),
        location=now,
        table_digest=earlier.table_digest,
        weights_digest=earlier.weights_digest,
        pinnable=True,
        reuses=earlier.reuses or earlier.id(),
    )


def attested_fingerprint(checkpoint: Checkpoint, reader: Reader, *, since: Mark | None = None) -> Fingerprint:
    """Tier `attested`: the names under which the Hugging Face hub stores the shards (sha256), as the local cache or the metadata of a
    `--local-dir` download has them. No content is read, so a blob that is not its name goes unseen.

    Raises EvidenceUnavailable when nobody vouches for a shard, or the file is newer than what was vouched for.
    """
    location = checkpoint.location
    commits: set[str] = set()
    if location.commit is not None:
        names = {shard.name: _blob_name(shard.path, reader) for shard in checkpoint.shards}
        commits.add(location.commit)
    else:
        names = {}
        threads = threads_for(location.fs_kind)
        found = in_parallel(lambda shard: _local_metadata(location, shard.name, reader), checkpoint.shards, threads=threads)
        for shard, (commit, etag) in zip(checkpoint.shards, found, strict=True):
            names[shard.name] = etag
            commits.add(commit)
    fields = [field.encode("utf-8") for pair in sorted(names.items()) for field in pair]
    return Fingerprint(
        tier=Tier.ATTESTED,
        algorithm=ATTESTED_ALGORITHM,
        digest=blake3(framed(b"wcache/attested/1", *fields)).hexdigest(),
        coverage=coverage_of(reader, since, 0, checkpoint.total_bytes),
        location=msgspec.structs.replace(location, commit=commits.pop() if len(commits) == 1 else None),
        table_digest=checkpoint.table_digest,
        attested_names=names,
    )


def _blob_name(path: str, reader: Reader) -> str:
    reader.count(stats=1)
    try:
        blob = Path(path).readlink().name
    except OSError:
        raise EvidenceUnavailable("a plain file in a snapshot, so no blob name vouches for it", where=path) from None
    if not _BLOB_NAME.fullmatch(blob):
        raise EvidenceUnavailable(f"its blob is called {blob!r}, which is no digest", where=path)
    return blob


def _local_metadata(location: Location, name: str, reader: Reader) -> tuple[str, str]:
    """Commit and etag of a shard that `hf download --local-dir` wrote (huggingface_hub, _local_folder.py: three lines)."""
    where = f"{location.root}/{name}"
    path = f"{location.root}/.cache/huggingface/download/{name}.metadata"
    try:
        with reader.open(path) as file:
            lines = file.read_at(0, min(file.identity("").size_bytes, 4096)).decode("utf-8").split("\n")
        commit, etag, written_s = lines[0].strip(), lines[1].strip().strip('"'), float(lines[2])
    except (CheckpointUnreadable, CheckpointChanged, UnicodeDecodeError, IndexError, ValueError):
        raise EvidenceUnavailable("no Hugging Face cache and no download metadata vouch for it", where=where) from None
    if not _BLOB_NAME.fullmatch(etag) or not re.fullmatch(r"[0-9a-f]{40}", commit):
        raise EvidenceUnavailable("its download metadata hold no digest", where=where)
    mtime_ns = next(one.mtime_ns for one in location.files if one.name == name)
    if mtime_ns / 1e9 - _METADATA_SLACK_S > written_s:
        raise EvidenceUnavailable("the file is newer than its download metadata: somebody wrote it since", where=where)
    return commit, etag


@contextmanager
def _opened(target: Checkpoint | OpenCheckpoint, reader: Reader) -> Iterator[OpenCheckpoint]:
    if isinstance(target, OpenCheckpoint):
        yield target
        return
    with reopen(target, reader) as held:
        yield held


def reopen(checkpoint: Checkpoint, reader: Reader) -> OpenCheckpoint:
    """Open the files of a checkpoint again; CheckpointChanged when one is not the file that was checked."""
    location = checkpoint.location
    with ExitStack() as opened:
        files = {shard.name: opened.enter_context(reader.open(shard.path)) for shard in checkpoint.shards}
        index = opened.enter_context(reader.open(os.path.join(location.root, location.index.name))) if location.index else None  # noqa: PTH118
        held = OpenCheckpoint(checkpoint, files, index)
        _require_unchanged(held, (location.files, location.index))
        opened.pop_all()
        return held


def _require_unchanged(held: OpenCheckpoint, before: tuple[tuple[object, ...], object]) -> None:
    files, index = held.identities()
    for name, then, now in zip(held.files, before[0], files, strict=True):
        if then != now:
            raise CheckpointChanged("the file changed after it was checked", where=held.files[name].where)
    if index != before[1]:
        raise CheckpointChanged("the index changed after it was read", where=held.checkpoint.location.root)
