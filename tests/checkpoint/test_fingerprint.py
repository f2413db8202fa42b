"""What each tier sees and does not see, what it costs, and that nothing torn is ever called a digest."""

from __future__ import annotations

import mmap
import os
import shutil
import time
from pathlib import Path

import pytest
from support.corpus import (
    COMMIT,
    OTHER_COMMIT,
    equal_checkpoints,
    flip,
    make_checkpoint,
    make_hub_cache,
    make_local_dir,
    make_tensors,
    mutated_checkpoints,
    read_tensors,
    write_safetensors,
)

from wcache.core.checkpoint.checkpoint import Checkpoint, current_location, hold_checkpoint, open_checkpoint
from wcache.core.checkpoint.content import ContentCheck, hash_shards
from wcache.core.checkpoint.digest import HashedShard
from wcache.core.checkpoint.fingerprint import (
    attested_fingerprint,
    content_fingerprint,
    header_fingerprint,
    pinned_fingerprint,
    sampled_fingerprint,
    seconds_until_settled,
)
from wcache.core.checkpoint.reader import Reader
from wcache.core.checkpoint.sampling import BLOCK_BYTES, BLOCKS_MAX, Span, plan_samples
from wcache.core.checkpoint.seed import Seed
from wcache.core.model.errors import CheckpointChanged, EvidenceUnavailable
from wcache.core.model.evidence import Fingerprint, Location
from wcache.core.model.vocabulary import Tier

SEED = Seed("0" * 16, b"k" * 32)


def content_of(path: Path | Checkpoint) -> Fingerprint:
    reader = Reader()
    return content_fingerprint(path if isinstance(path, Checkpoint) else open_checkpoint(path, reader=reader), reader)


def header_of(path: Path) -> Fingerprint:
    reader = Reader()
    return header_fingerprint(open_checkpoint(path, reader=reader), reader)


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch) -> None:
    """An hour has passed since the test wrote its files."""
    real = time.time_ns
    monkeypatch.setattr(time, "time_ns", lambda: real() + 3_600_000_000_000)


def pinned_base(path: Path, **options: int) -> tuple[Path, Fingerprint]:
    base = make_checkpoint(path, **options)
    earlier = content_of(base)
    assert earlier.pinnable, earlier.not_pinnable
    return base, earlier


def test_the_corpus_of_mutations_never_has_the_base_digest(tmp_path: Path) -> None:
    """I1, I2, I7: and the table digest tells whether a hit could be had at all."""
    base = make_checkpoint(tmp_path / "base", shards=3)
    expected = content_of(base)
    cases = [case for case in mutated_checkpoints(base, tmp_path / "mutated") if case.expectation == "differs"]
    assert len(cases) >= 40
    for case in cases:
        found = content_of(case.path)
        assert found.weights_digest != expected.weights_digest, case.name
        same_table = {n: t[:2] for n, t in read_tensors(case.path).items()} == {n: t[:2] for n, t in read_tensors(base).items()}
        assert (found.table_digest == expected.table_digest) == same_table, case.name


def test_the_corpus_of_equals_always_has_the_base_digest(tmp_path: Path) -> None:
    """I5, I8, I13."""
    base = make_checkpoint(tmp_path / "base", shards=3)
    expected = content_of(base)
    cases = list(equal_checkpoints(base, tmp_path / "equal"))
    assert len(cases) >= 25
    for case in cases:
        found = content_of(case.path)
        assert (found.weights_digest, found.table_digest) == (expected.weights_digest, expected.table_digest), case.name


def test_other_bytes_of_equal_headers_are_seen_by_all_but_the_header_tier(tmp_path: Path) -> None:
    """I1: the wrong hit of header hashes."""
    one, two = (make_checkpoint(tmp_path / str(seed), seed=seed, shards=2) for seed in (1, 2))
    assert header_of(one).digest == header_of(two).digest
    assert header_of(one).table_digest == header_of(two).table_digest
    assert content_of(one).digest != content_of(two).digest
    samples = [sampled_fingerprint(open_checkpoint(path), SEED, Reader()).digest for path in (one, two)]
    assert samples[0] != samples[1]


def test_changes_after_the_first_kib_of_every_tensor_are_seen_by_content(tmp_path: Path) -> None:
    """I2."""
    tensors = {"big": ("U8", (40 << 20,), bytes(40 << 20)), "norm": ("F32", (8,), bytes(32))}
    base = make_checkpoint(tmp_path / "base", tensors)
    checkpoint = open_checkpoint(base)
    before = sampled_fingerprint(checkpoint, SEED, Reader())
    expected = content_of(checkpoint)
    looked = {(span.offset, span.offset + span.length) for span in plan_samples(checkpoint.shards, SEED)}
    path = base / "model.safetensors"
    unseen = next(at for at in range(2048, path.stat().st_size, 4096) if not any(begin <= at < end for begin, end in looked))
    seen = sorted(looked)[len(looked) // 2][0] + 100
    for at, found_by_samples in ((unseen, False), (seen, True)):
        with path.open("r+b") as file:
            original = os.pread(file.fileno(), 1, at)
            os.pwrite(file.fileno(), b"\xff", at)
        now = open_checkpoint(base)
        assert (sampled_fingerprint(now, SEED, Reader()).digest != before.digest) is found_by_samples
        assert content_of(now).digest != expected.digest
        with path.open("r+b") as file:
            os.pwrite(file.fileno(), original, at)
    # 256 of 640 blocks and two tensor starts: the recorded chance is the covered part.
    assert before.coverage.chance_4k == pytest.approx(BLOCKS_MAX * BLOCK_BYTES / path.stat().st_size, rel=0.01)
    assert before.coverage.covered_bytes / before.coverage.total_bytes == before.coverage.chance_4k


def test_overwriting_in_place_changes_the_content(disk_path: Path, later: None) -> None:
    """I4."""
    base, earlier = pinned_base(disk_path / "base")
    path = base / "model.safetensors"
    data = path.read_bytes()
    with path.open("r+b") as file:
        file.write(flip(data, len(data) - 5))
    assert earlier.location is not None
    now = current_location(earlier.location)
    assert now is not None and pinned_fingerprint(earlier, now) is None
    assert content_of(base).digest != earlier.digest


@pytest.mark.parametrize("how", ["utime", "copy_stat", "replace"])
def test_equal_size_and_restored_mtime_do_not_pin(disk_path: Path, later: None, how: str) -> None:
    """I7: `touch -r`, `cp -p`, `rsync -t`."""
    base, earlier = pinned_base(disk_path / "base")
    path = base / "model.safetensors"
    before, data = path.stat(), path.read_bytes()
    changed = flip(data, len(data) - 1)
    if how == "replace":
        (base / "new").write_bytes(changed)
        shutil.copystat(path, base / "new")
        (base / "new").rename(path)
    else:
        shutil.copy2(path, disk_path / "keep")
        path.write_bytes(changed)
        if how == "utime":
            os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
        else:
            shutil.copystat(disk_path / "keep", path)
    after = path.stat()
    assert (after.st_size, after.st_mtime_ns) == (before.st_size, before.st_mtime_ns)
    checkpoint = open_checkpoint(base)
    assert pinned_fingerprint(earlier, checkpoint.location) is None
    assert content_of(checkpoint).digest != earlier.digest


def test_a_store_through_an_old_mapping_breaks_the_pin(disk_path: Path, later: None) -> None:
    """I4: the page was dirty and writable before; hashing syncs first, so the next store must show in ctime."""
    base = make_checkpoint(disk_path / "base")
    path = base / "model.safetensors"
    with path.open("r+b") as file, mmap.mmap(file.fileno(), 0) as mapped:
        mapped[-1] ^= 1
        earlier = content_of(base)
        assert earlier.pinnable and earlier.location is not None
        now = current_location(earlier.location)
        assert now is not None and pinned_fingerprint(earlier, now) is not None
        mapped[-1] ^= 1
        now = current_location(earlier.location)
        assert now is not None and pinned_fingerprint(earlier, now) is None
    assert content_of(base).digest != earlier.digest


@pytest.mark.parametrize("how", ["chmod", "link"])
def test_chmod_and_hard_links_cost_one_more_hash(disk_path: Path, later: None, how: str) -> None:
    """I8: no permanent miss."""
    base, earlier = pinned_base(disk_path / "base", shards=2)
    shard = base / "model-00001-of-00002.safetensors"
    if how == "chmod":
        shard.chmod(0o640)
    else:
        os.link(shard, disk_path / "elsewhere.safetensors")
    checkpoint = open_checkpoint(base)
    assert pinned_fingerprint(earlier, checkpoint.location) is None
    again = content_of(checkpoint)
    assert again.digest == earlier.digest and again.pinnable
    pinned = pinned_fingerprint(again, checkpoint.location)
    assert pinned is not None and pinned.digest == earlier.digest


def test_fresh_files_are_not_pinned_until_a_later_check(disk_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """I9."""
    base = make_checkpoint(disk_path / "base")
    fresh = content_of(base)
    assert not fresh.pinnable and "2 s" in fresh.not_pinnable
    assert fresh.location is not None and pinned_fingerprint(fresh, fresh.location) is None
    assert 0 < seconds_until_settled(fresh.location, time.time_ns()) <= 2
    real = time.time_ns
    monkeypatch.setattr(time, "time_ns", lambda: real() + 3_000_000_000)
    assert seconds_until_settled(fresh.location, time.time_ns()) == 0
    assert content_of(base).pinnable


def test_a_worker_waits_once_for_fresh_files(disk_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """I9: the wait is asked for with its length, and what was waited for is pinned."""
    base = make_checkpoint(disk_path / "base")
    real, passed = time.time_ns, [0]
    monkeypatch.setattr(time, "time_ns", lambda: real() + passed[0])
    waits: list[float] = []

    def wait(seconds: float) -> None:
        waits.append(seconds)
        passed[0] += int(seconds * 1e9) + 1

    reader = Reader()
    found = content_fingerprint(open_checkpoint(base), reader, wait_fresh=wait)
    assert len(waits) == 1 and 0 < waits[0] <= 2
    assert found.pinnable, found.not_pinnable


def test_a_pin_is_one_stat_a_file(disk_path: Path, later: None) -> None:
    base, earlier = pinned_base(disk_path / "base", shards=12)
    assert earlier.location is not None
    reader = Reader()
    now = current_location(earlier.location, reader=reader)
    assert now is not None
    pinned = pinned_fingerprint(earlier, now, reader=reader)
    assert pinned is not None
    assert (pinned.tier, pinned.digest, pinned.weights_digest) == (Tier.PINNED, earlier.digest, earlier.digest)
    assert pinned.reuses == earlier.id()
    cost = pinned.coverage
    assert (cost.files_opened, cost.reads, cost.stats, cost.read_bytes) == (0, 0, 14, 0)
    assert base.is_dir()
    again = pinned_fingerprint(pinned, now)
    assert again is not None and again.reuses == earlier.id(), "a pin of a pin leads back to the hash"


def test_a_pin_holds_on_its_file_system_kind_only(disk_path: Path, later: None) -> None:
    _, earlier = pinned_base(disk_path / "base")
    location = earlier.location
    assert location is not None

    def on(kind: str) -> Location:
        return Location(location.root, location.files, location.index, location.directory, kind)

    assert pinned_fingerprint(earlier, on("nfs")) is None
    from msgspec.structs import replace

    on_nfs = replace(earlier, location=on("nfs"))
    assert pinned_fingerprint(on_nfs, on("nfs")) is None
    assert pinned_fingerprint(on_nfs, on("nfs"), network_fs="coherent") is not None
    assert pinned_fingerprint(on_nfs, on("nfs"), store_granted=True) is not None
    for tier in (Tier.HEADER, Tier.SAMPLED, Tier.ATTESTED):
        assert pinned_fingerprint(replace(earlier, tier=tier), location) is None


def test_content_on_tmpfs_is_never_pinned(later: None) -> None:
    import tempfile

    if not os.path.isdir("/dev/shm"):
        pytest.skip("no tmpfs here")
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        found = content_of(make_checkpoint(Path(folder) / "base"))
        assert found.location is not None and found.location.fs_kind == "tmpfs"
        assert not found.pinnable and "tmpfs" in found.not_pinnable


class _Meddling:
    """A progress callback that changes a file once, in the middle of hashing."""

    def __init__(self, path: Path, how: str) -> None:
        self.path, self.how, self.done = path, how, False

    def __call__(self, _bytes: int) -> None:
        if self.done:
            return
        self.done = True
        size = self.path.stat().st_size
        with self.path.open("r+b") as file:
            if self.how == "shrink":
                file.truncate(size - 4096)
            elif self.how == "grow":
                file.seek(0, os.SEEK_END)
                file.write(b"more")
            elif self.how == "overwrite":
                file.seek(size - 10)
                file.write(b"x")


@pytest.mark.parametrize("how", ["shrink", "grow", "overwrite"])
@pytest.mark.parametrize("held", [False, True])
def test_a_file_that_changes_while_it_is_hashed_is_an_error_that_names_it(tmp_path: Path, how: str, held: bool) -> None:
    """C9: never a torn digest, never SIGBUS."""
    base = make_checkpoint(tmp_path / "base", {"a": ("U8", (40 << 20,), bytes(40 << 20)), "b": ("U8", (9,), b"123456789")}, shards=2)
    victim = base / "model-00001-of-00002.safetensors"
    with hold_checkpoint(base) as opened, pytest.raises(CheckpointChanged, match="model-00001-of-00002"):
        content_fingerprint(opened if held else opened.checkpoint, Reader(), progress=_Meddling(victim, how))


def test_a_file_replaced_before_hashing_is_noticed(tmp_path: Path) -> None:
    base = make_checkpoint(tmp_path / "base")
    checkpoint = open_checkpoint(base)
    write_safetensors(base / "new", make_tensors(3), {"format": "pt"})
    (base / "new").rename(base / "model.safetensors")
    for check in (lambda: content_of(checkpoint), lambda: sampled_fingerprint(checkpoint, SEED, Reader())):
        with pytest.raises(CheckpointChanged, match=r"model\.safetensors"):
            check()


def test_a_header_rewritten_in_place_is_noticed_even_at_equal_size(tmp_path: Path) -> None:
    base = make_checkpoint(tmp_path / "base")
    path = base / "model.safetensors"
    with hold_checkpoint(base) as held:
        data = path.read_bytes()
        with path.open("r+b") as file:
            file.write(data.replace(b"model.norm.weight", b"model.morn.weight"))
        with pytest.raises(CheckpointChanged, match="header"):
            content_fingerprint(held, Reader())


def test_content_reads_every_byte_once(tmp_path: Path) -> None:
    base = make_checkpoint(tmp_path / "base", shards=3)
    seen: list[int] = []
    reader = Reader()
    with hold_checkpoint(base, reader=reader) as held:
        mark = reader.mark()
        found = content_fingerprint(held, reader, since=mark, progress=seen.append)
        assert found.coverage.read_bytes == found.coverage.total_bytes == held.checkpoint.total_bytes == sum(seen)
        assert (found.coverage.files_opened, found.coverage.reads) == (0, 3)
        assert found.coverage.chance_4k == 1.0


def test_hashing_into_memory_keeps_the_bytes_and_the_digests(tmp_path: Path) -> None:
    base = make_checkpoint(tmp_path / "base", {"a": ("U8", (20 << 20,), os.urandom(20 << 20)), "b": ("U8", (3,), b"abc")})
    with hold_checkpoint(base) as held:
        shard = held.checkpoint.shards[0]
        memory = bytearray(shard.size_bytes)
        check = ContentCheck(held, Reader())
        check.begin()
        digests = hash_shards(held, into=lambda _: memoryview(memory))
        assert check.finish(digests).digest == content_of(base).digest
        assert bytes(memory) == (base / "model.safetensors").read_bytes()


@pytest.mark.parametrize("size", [5_000_000, 30_000_000])
def test_memory_can_be_given_back_after_a_failed_hash(tmp_path: Path, size: int) -> None:
    """C9: the mapping that bytes were read into holds no view of a load that failed."""
    base = make_checkpoint(tmp_path / "base", {"a": ("U8", (40_000_000,), bytes(40_000_000))})
    with hold_checkpoint(base) as held:
        shard = held.checkpoint.shards[0]
        os.truncate(shard.path, size)
        memory = mmap.mmap(-1, shard.size_bytes)
        with pytest.raises(CheckpointChanged) as caught:
            hash_shards(held, into=lambda _: memoryview(memory))
        assert caught.value.where == shard.path
        memory.close()


def test_samples_of_resident_memory_equal_those_of_the_files(tmp_path: Path) -> None:
    base = make_checkpoint(tmp_path / "base", shards=3)
    checkpoint = open_checkpoint(base)
    resident = [Path(shard.path).read_bytes() for shard in checkpoint.shards]
    reader = Reader()
    found = sampled_fingerprint(checkpoint, SEED, reader, read_at=lambda shard, offset, length: resident[shard][offset : offset + length])
    assert found.digest == sampled_fingerprint(checkpoint, SEED, Reader()).digest
    assert reader.cost.reads == 0
    assert found.coverage.chance_4k == 1.0, "a checkpoint below 256 blocks is read whole"


def test_samples_cover_every_tensor_start_and_depend_on_the_seed(tmp_path: Path) -> None:
    tensors = {f"t{number}": ("U8", (3 << 20,), bytes(3 << 20)) for number in range(10)}
    shards: list[HashedShard] = list(open_checkpoint(make_checkpoint(tmp_path / "base", tensors, shards=2)).shards)
    spans = plan_samples(shards, SEED)
    assert spans == sorted(spans) == plan_samples(shards, SEED)
    for before, after in zip(spans, spans[1:]):  # noqa: B905, RUF007
        assert before.shard < after.shard or before.offset + before.length < after.offset
    for number, shard in enumerate(shards):
        for entry in shard.header.tensors:
            begin = shard.header.header_bytes + entry.begin
            assert any(span.shard == number and span.offset <= begin and begin + 1024 <= span.offset + span.length for span in spans)
        assert all(span.offset + span.length <= shard.size_bytes for span in spans if span.shard == number)
    assert sum(span.length for span in spans) >= (BLOCKS_MAX - 2) * BLOCK_BYTES, "only the last block of each file is shorter"
    assert plan_samples(shards, Seed("1" * 16, b"j" * 32)) != spans
    assert isinstance(spans[0], Span)


def test_sampling_a_large_sparse_file_reads_little(tmp_path: Path) -> None:
    base = make_checkpoint(tmp_path / "base", {"a": ("U8", (16,), bytes(16))})
    path = base / "model.safetensors"
    size = 8 << 30
    text = b'{"a":{"dtype":"U8","shape":[%d],"data_offsets":[0,%d]}}' % (size, size)
    path.write_bytes(len(text).to_bytes(8, "little") + text)
    os.truncate(path, 8 + len(text) + size)
    reader = Reader()
    found = sampled_fingerprint(open_checkpoint(base, reader=reader), SEED, reader)
    assert found.coverage.reads <= BLOCKS_MAX + 3
    assert found.coverage.read_bytes <= (BLOCKS_MAX + 2) * BLOCK_BYTES
    assert 0.0019 < found.coverage.chance_4k < 0.0021


def test_blob_names_attest_a_snapshot_until_content_refutes_them(tmp_path: Path) -> None:
    """I10."""
    base = make_checkpoint(tmp_path / "base", shards=2)
    snapshot = make_hub_cache(tmp_path / "hub", base)
    attested = attested_fingerprint(open_checkpoint(snapshot), Reader())
    assert attested.tier is Tier.ATTESTED and attested.coverage.covered_bytes == 0
    assert attested.location is not None and attested.location.commit == COMMIT
    blob = snapshot.joinpath("model-00001-of-00002.safetensors").resolve()
    assert attested.attested_names["model-00001-of-00002.safetensors"] == blob.name
    true = content_of(snapshot).digest
    data = blob.read_bytes()
    blob.write_bytes(flip(data, len(data) - 1))
    assert attested_fingerprint(open_checkpoint(snapshot), Reader()).digest == attested.digest, "what this tier cannot see"
    assert content_of(snapshot).digest != true


def test_download_metadata_attest_a_local_dir_while_the_file_is_not_newer(tmp_path: Path) -> None:
    base = make_checkpoint(tmp_path / "base", shards=2)
    local = make_local_dir(tmp_path / "local", base)
    reader = Reader()
    attested = attested_fingerprint(open_checkpoint(local), reader)
    assert attested.location is not None and attested.location.commit == COMMIT
    assert attested.digest == attested_fingerprint(open_checkpoint(make_hub_cache(tmp_path / "hub", base)), Reader()).digest
    other = make_hub_cache(tmp_path / "hub", make_checkpoint(tmp_path / "two", seed=2, shards=2), commit=OTHER_COMMIT)
    assert attested.digest != attested_fingerprint(open_checkpoint(other), Reader()).digest
    shard = local / "model-00001-of-00002.safetensors"
    os.utime(shard, ns=(0, shard.stat().st_mtime_ns + 10_000_000_000))
    with pytest.raises(EvidenceUnavailable, match="newer"):
        attested_fingerprint(open_checkpoint(local), Reader())
    (local / ".cache/huggingface/download/model-00001-of-00002.safetensors.metadata").write_text("nonsense")
    with pytest.raises(EvidenceUnavailable, match="vouch"):
        attested_fingerprint(open_checkpoint(local), Reader())
    with pytest.raises(EvidenceUnavailable, match="vouch"):
        attested_fingerprint(open_checkpoint(base), Reader())


def test_a_plain_file_in_a_snapshot_attests_nothing(tmp_path: Path) -> None:
    snapshot = make_hub_cache(tmp_path / "hub", make_checkpoint(tmp_path / "base"))
    data = (snapshot / "model.safetensors").read_bytes()
    (snapshot / "model.safetensors").unlink()
    (snapshot / "model.safetensors").write_bytes(data)
    with pytest.raises(EvidenceUnavailable, match="plain file"):
        attested_fingerprint(open_checkpoint(snapshot), Reader())


def test_the_header_tier_reads_headers_only(tmp_path: Path) -> None:
    base = make_checkpoint(tmp_path / "base", {"a": ("U8", (1 << 20,), bytes(1 << 20)), "b": ("U8", (1 << 20,), bytes(1 << 20))}, shards=2)
    found = header_of(base)
    assert found.tier is Tier.HEADER
    assert found.coverage.reads == 3 and found.coverage.read_bytes < 200_000
    assert found.coverage.chance_4k == 0.0
    assert found.coverage.covered_bytes < 1000
