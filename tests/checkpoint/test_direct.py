"""Reading past the page cache gives the same bytes, counts, and errors as reading through it."""

from __future__ import annotations

import mmap
import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from wcache.core.checkpoint.direct import BLOCK_BYTES, OnceFile, _in_page_cache
from wcache.core.checkpoint.reader import Reader
from wcache.core.model.errors import CheckpointChanged

SIZE_BYTES = 5 * BLOCK_BYTES + 123


@pytest.fixture
def file(disk_path: Path) -> Path:
    path = disk_path / "bytes"
    path.write_bytes(random.Random(3).randbytes(SIZE_BYTES))
    return path


@pytest.fixture
def slot() -> Iterator[memoryview]:
    with mmap.mmap(-1, 8 * BLOCK_BYTES) as memory, memoryview(memory) as view:
        yield view


def forget(path: Path) -> None:
    with path.open("rb") as opened:
        os.fdatasync(opened.fileno())
        os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


@pytest.mark.parametrize("cached", [True, False])
@pytest.mark.parametrize("cold", [True, False])
def test_every_part_of_a_file_is_read_whole(file: Path, slot: memoryview, cached: bool, cold: bool) -> None:
    data, reader = file.read_bytes(), Reader()
    with reader.open(str(file)) as opened, OnceFile(opened, reader, cached=cached) as once:
        for offset in range(0, SIZE_BYTES, 2 * BLOCK_BYTES):
            if cold:
                forget(file)
            length = min(2 * BLOCK_BYTES, SIZE_BYTES - offset)
            once.fill(slot, offset, length)
            assert slot[:length] == data[offset : offset + length]
    assert reader.cost.read_bytes == SIZE_BYTES
    once.close()


def test_what_nobody_else_wants_stays_out_of_the_page_cache(file: Path, slot: memoryview) -> None:
    reader = Reader()
    with reader.open(str(file)) as opened, OnceFile(opened, reader) as once:
        forget(file)
        if _in_page_cache(opened.descriptor, 0, SIZE_BYTES):
            pytest.skip("this kernel does not say, or did not let go of it")
        once.fill(slot, 0, SIZE_BYTES)
        assert not _in_page_cache(opened.descriptor, 0, SIZE_BYTES)
        file.read_bytes()
        assert _in_page_cache(opened.descriptor, 0, SIZE_BYTES)


@pytest.mark.parametrize("cached", [True, False])
@pytest.mark.parametrize("left_bytes", [0, 100, BLOCK_BYTES, 3 * BLOCK_BYTES + 1])
def test_a_file_that_became_shorter_is_named_not_filled_up(file: Path, slot: memoryview, cached: bool, left_bytes: int) -> None:
    """C9: never SIGBUS, never what the buffer had before."""
    reader = Reader()
    with reader.open(str(file)) as opened, OnceFile(opened, reader, cached=cached) as once:
        os.truncate(file, left_bytes)
        with pytest.raises(CheckpointChanged, match=f"ends at byte {left_bytes}"):
            once.fill(slot, 0, SIZE_BYTES)


def test_a_file_system_without_direct_reads_is_read_all_the_same(slot: memoryview) -> None:
    fd = os.memfd_create("no-direct-reads")
    os.write(fd, b"x" * 5000)
    reader = Reader()
    with OnceFile(reader.adopt(fd, "memory"), reader) as once:
        once.fill(slot, 0, 5000)
    assert bytes(slot[:5000]) == b"x" * 5000
    os.close(fd)
