"""fs-verity: what the kernel measures of files that nobody can write to any more stands for reading them. Where kernel or file system have
no fs-verity, everything is as if there were no such thing; the other half needs root, mkfs.ext4 and a kernel that has it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from support import mounts
from support.corpus import flip, make_checkpoint

from wcache.core.checkpoint.checkpoint import hold_checkpoint
from wcache.core.checkpoint.fingerprint import content_fingerprint, verity_fingerprint
from wcache.core.checkpoint.reader import Reader
from wcache.core.checkpoint.verity import measure, measured
from wcache.core.model.evidence import Fingerprint, Verity
from wcache.core.model.vocabulary import Tier


def taken(path: Path) -> Fingerprint:
    reader = Reader()
    with hold_checkpoint(path, reader=reader) as held:
        return content_fingerprint(held, reader)


def again(path: Path, earlier: Fingerprint) -> Fingerprint | None:
    reader = Reader()
    with hold_checkpoint(path, reader=reader) as held:
        return verity_fingerprint(held, (earlier,), reader)


def test_files_without_verity_measure_nothing_and_are_hashed_as_ever(disk_path: Path) -> None:
    path = make_checkpoint(disk_path / "m", shards=2)
    found = taken(path)
    with hold_checkpoint(path) as held:
        assert measured(held) == {} and all(measure(file.descriptor) is None for file in held.files.values())
    assert found.verity is msgspec.UNSET and b'"verity"' not in msgspec.json.encode(found)
    assert again(path, found) is None


def test_a_record_of_measures_proves_nothing_where_nothing_is_measured(disk_path: Path) -> None:
    """Neither one that somebody made up, nor an empty one."""
    path = make_checkpoint(disk_path / "m", shards=1)
    found = taken(path)
    for files in ({"model.safetensors": "sha256:" + "00" * 32}, {}):
        assert again(path, msgspec.structs.replace(found, verity=Verity(files=files))) is None


def test_no_descriptor_and_no_regular_file_is_no_error() -> None:
    read, write = os.pipe()
    assert measure(read) is None and measure(999_999) is None
    os.close(read)
    os.close(write)


@pytest.fixture
def verity(disk_path: Path) -> Iterator[Path]:
    with mounts.verity(disk_path) as mounted:
        yield mounted


def test_other_files_that_measure_the_same_are_the_same_content_without_reading(verity: Path) -> None:
    first, second, twin = (make_checkpoint(verity / name, shards=1) for name in ("first", "second", "twin"))
    shard = twin / "model.safetensors"
    shard.write_bytes(flip(shard.read_bytes(), shard.stat().st_size - 1))
    for folder in (first, second, twin):
        mounts.enable_verity(folder / "model.safetensors")
    hashed = taken(first)
    assert isinstance(hashed.verity, Verity)
    found = again(second, hashed)
    assert found is not None and found.tier is Tier.CONTENT and found.location is not None
    assert (found.weights_digest, found.location.root, found.pinnable) == (hashed.weights_digest, str(second), True)
    assert found.coverage.reads == 0 and isinstance(found.verity, Verity) and found.verity.same_as == hashed.id()
    assert taken(second).weights_digest == found.weights_digest
    assert again(twin, hashed) is None and taken(twin).weights_digest != hashed.weights_digest
