"""A file system that fails for a moment costs a load that moment, and nothing else; one that fails for good ends it."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.corpus import make_checkpoint
from support.daemon import DaemonProcess
from support.probes import metrics_of

from wcache.core.checkpoint import retries
from wcache.core.checkpoint.checkpoint import OpenCheckpoint, adopt_checkpoint, hold_checkpoint
from wcache.core.checkpoint.content import ContentCheck, hash_shards
from wcache.core.checkpoint.fingerprint import content_fingerprint
from wcache.core.checkpoint.reader import Reader
from wcache.core.checkpoint.retries import Retries
from wcache.core.model.errors import CheckpointChanged, CheckpointUnreadable
from wcache.core.model.events import LoadCompleted
from wcache.core.wire.messages import Loaded, LoadRequest, Progress

_BENCH = Path(__file__).resolve().parents[2] / "bench"
sys.path.insert(0, str(_BENCH))

from remote_mount import RemoteMount, missing  # noqa: E402

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing() or "-")
TENSOR_BYTES = 3 << 20


@pytest.fixture
def mount(short_path: Path) -> Iterator[RemoteMount]:
    """With a checkpoint `m` of two shards of several pieces each."""
    source = short_path / "source"
    source.mkdir()
    with RemoteMount(source, short_path / "mount") as found:
        make_checkpoint(source / "m", {name: ("U8", (TENSOR_BYTES,), os.urandom(TENSOR_BYTES)) for name in "abcd"}, shards=2)
        yield found


@pytest.fixture
def held(mount: RemoteMount) -> Iterator[OpenCheckpoint]:
    """`m`, open and with its identities taken, by a reader that tries again."""
    with hold_checkpoint(mount.path / "m", reader=Reader(Retries())) as found:
        mount.turn()
        yield found


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retries, "WAITS_S", (0.01, 0.02))


def reader_of(held: OpenCheckpoint) -> Reader:
    return next(iter(held.files.values())).reader


def retries_of(held: OpenCheckpoint) -> Retries:
    found = reader_of(held).retries
    assert found is not None
    return found


def digest_of(mount: RemoteMount) -> str | None:
    return content_fingerprint(hold_checkpoint(mount.path.parent / "source" / "m"), Reader()).weights_digest


def test_a_load_outlives_reads_that_fail_for_a_moment_and_says_how_many(mount: RemoteMount, watched: DaemonProcess) -> None:
    channel, failed = watched.connect(), False

    def fail(progress: Progress) -> None:
        nonlocal failed
        if progress.phase == "read" and not failed:
            failed = True
            mount.turn(bandwidth_mb_s=20, failing_reads=3)

    mount.turn(bandwidth_mb_s=20)
    loaded = channel.call(LoadRequest(spelling=str(mount.path / "m")), timeout_s=60, on_progress=fail)
    channel.close()
    assert isinstance(loaded, Loaded) and loaded.residency.weights_digest == digest_of(mount)
    (completed,) = watched.events("load.completed")
    assert isinstance(completed, LoadCompleted) and completed.retried == loaded.retried >= 1
    assert metrics_of(watched)["wcache_file_retries_total"] == loaded.retried
    assert "Input/output error" in watched.log() and f"{mount.path}/m/model-0000" in watched.log()


def test_what_failed_is_read_again_from_where_it_stopped(mount: RemoteMount, held: OpenCheckpoint) -> None:
    mount.turn(failing_reads=8)  # the kernel tries some of them again itself
    before = reader_of(held).cost
    digests = hash_shards(held)
    assert retries_of(held).count >= 1
    assert reader_of(held).cost.since(before).read_bytes == held.checkpoint.total_bytes
    assert digests == hash_shards(hold_checkpoint(mount.path.parent / "source" / "m"))


def test_an_error_that_lasts_ends_in_one_line_that_says_how_long_it_was_tried(
    mount: RemoteMount, held: OpenCheckpoint, hasty: None
) -> None:
    mount.turn(failing_reads=-1)
    told = r"m/model-00001-of-00002\.safetensors: Input/output error \(tried again for \d+\.\d s\)$"
    with pytest.raises(CheckpointUnreadable, match=told) as caught:
        hash_shards(held)
    assert caught.value.detail == "eio"


def test_without_patience_the_first_failure_ends_it(mount: RemoteMount) -> None:
    """An engine that starts waits for no file system."""
    with hold_checkpoint(mount.path / "m") as held:
        mount.turn(failing_reads=-1)
        with pytest.raises(CheckpointUnreadable, match=r"Input/output error$"):
            hash_shards(held)


@pytest.mark.parametrize("begun", [False, True])
def test_a_file_that_the_server_forgot_is_opened_again_once(mount: RemoteMount, held: OpenCheckpoint, begun: bool) -> None:
    """ESTALE, for all reads that are on their way; through the page cache, or as far as they had come past it."""
    check = ContentCheck(held, reader_of(held))
    check.begin()
    before = reader_of(held).cost
    mount.turn(bandwidth_mb_s=20 if begun else 0, stale=not begun)
    pieces: list[int] = []

    def progress(size_bytes: int) -> None:
        pieces.append(size_bytes)
        if begun and len(pieces) == 1:
            mount.turn(stale=True)

    digests = hash_shards(held, progress=progress, cached=not begun)
    assert check.finish(digests).weights_digest == digest_of(mount)
    if not begun:
        assert reader_of(held).cost.since(before).files_opened == 2 and retries_of(held).last.endswith("Stale file handle")


def test_another_file_in_its_place_ends_the_load(mount: RemoteMount, held: OpenCheckpoint) -> None:
    """C9: equal in name, size and bytes."""
    shard = mount.path.parent / "source" / "m" / "model-00002-of-00002.safetensors"
    other = shard.with_name("other")
    other.write_bytes(shard.read_bytes())
    other.rename(shard)
    mount.turn(stale=True)
    with pytest.raises(CheckpointChanged, match=r"model-00002-of-00002\.safetensors: another file took its place"):
        hash_shards(held, cached=True)


def test_what_was_sent_as_a_descriptor_is_never_opened_by_its_path(mount: RemoteMount, held: OpenCheckpoint, hasty: None) -> None:
    shards = {name: file.descriptor for name, file in held.files.items()}
    assert held.index is not None
    location = held.checkpoint.location
    with adopt_checkpoint("m", location, shards, held.index.descriptor, reader=Reader(Retries())) as adopted:
        mount.turn(stale=True)
        with pytest.raises(CheckpointUnreadable, match="Stale file handle") as caught:
            hash_shards(adopted, cached=True)
        assert caught.value.detail == "estale" and "lookup" not in mount.turn()["operations"]
