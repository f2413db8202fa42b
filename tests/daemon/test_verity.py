"""A checkpoint that the kernel measures (fs-verity) is hashed once, however often it is deployed anew."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from support import mounts
from support.attaching import hash_now
from support.corpus import flip, make_checkpoint
from support.daemon import DaemonProcess

from wcache.core.model.evidence import Verity


@pytest.fixture
def verity(disk_path: Path) -> Iterator[Path]:
    with mounts.verity(disk_path) as mounted:
        yield mounted


def test_what_was_loaded_once_is_known_in_other_inodes_without_a_read(daemon: DaemonProcess, verity: Path) -> None:
    path = make_checkpoint(verity / "model", shards=1)
    copy = shutil.copytree(path, verity / "copy")
    twin = shutil.copytree(path, verity / "twin")
    shard = twin / "model.safetensors"
    shard.write_bytes(flip(shard.read_bytes(), shard.stat().st_size - 1))
    for folder in (path, copy, twin):
        mounts.enable_verity(folder / "model.safetensors")
    loaded = daemon.load(path).residency
    channel = daemon.connect()
    for number, (deployed, same) in enumerate(((copy, True), (twin, False))):
        path.rename(verity / f"old-{number}")
        deployed.rename(path)
        found = hash_now(channel, path)
        assert (found.weights_digest == loaded.weights_digest) is same
        assert isinstance(found.verity, Verity) and (found.verity.same_as is not None) is same
        assert (found.coverage.reads == 0) is same
    channel.close()
