"""Sealed memory: nobody changes it, nobody trusts a file that could still change, and a writer only changes its own copy (A5)."""

from __future__ import annotations

import fcntl
import mmap
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from wcache.core.memory import memfd
from wcache.core.model.errors import MappingFailed

DATA = bytes(range(256)) * 32


@pytest.fixture
def sealed() -> Iterator[int]:
    fd = memfd.create("model-00001-of-00002.safetensors", len(DATA))
    os.pwrite(fd, DATA, 0)
    memfd.seal(fd)
    yield fd
    os.close(fd)


def test_a_sealed_file_takes_no_write_no_other_size_and_no_writable_shared_mapping(sealed: int) -> None:
    for attempt in (
        lambda: os.pwrite(sealed, b"x", 0),
        lambda: os.ftruncate(sealed, 1),
        lambda: os.ftruncate(sealed, len(DATA) + 1),
        lambda: mmap.mmap(sealed, len(DATA), flags=mmap.MAP_SHARED),
        lambda: fcntl.fcntl(sealed, 1033, 0),
    ):
        with pytest.raises(OSError):
            attempt()
    memfd.check_sealed(sealed, len(DATA))


def test_it_is_close_on_exec_and_shows_its_name(sealed: int) -> None:
    assert not os.get_inheritable(sealed)
    assert "wcache:model-00001-of-00002.safetensors" in os.readlink(f"/proc/self/fd/{sealed}")


def test_long_and_strange_names_are_fine() -> None:
    for name in ("x" * 400, "ß" * 300, "a/../b", "nul\0inside"):
        os.close(memfd.create(name, 1))


def test_a_file_that_is_not_sealed_is_not_trusted() -> None:
    fd = memfd.create("x", 10)
    with pytest.raises(MappingFailed, match="not sealed"):
        memfd.check_sealed(fd, 10)
    os.close(fd)


def test_a_file_of_another_size_is_not_trusted(sealed: int) -> None:
    with pytest.raises(MappingFailed, match="manifest says 8191"):
        memfd.check_sealed(sealed, len(DATA) - 1)


def test_a_file_that_is_no_memory_file_is_not_trusted() -> None:
    with open("/dev/null", "rb") as file, pytest.raises(MappingFailed, match="no memory file"):
        memfd.check_sealed(file.fileno(), 0, name="shard")


def test_sealing_waits_for_no_writer_it_fails() -> None:
    fd = memfd.create("x", 4096)
    with mmap.mmap(fd, 4096, flags=mmap.MAP_SHARED), pytest.raises(MappingFailed, match="cannot be sealed"):
        memfd.seal(fd)
    memfd.seal(fd)
    os.close(fd)


def test_a_private_mapping_can_be_written_and_nobody_else_sees_it(sealed: int) -> None:
    with memfd.map_private(sealed, len(DATA)) as mine, memfd.map_private(sealed, len(DATA)) as other:
        mine[0:4] = b"mine"
        assert mine[:4] == b"mine"
        assert other[:] == DATA
        assert os.pread(sealed, len(DATA), 0) == DATA


def test_a_read_only_mapping_ends_whoever_writes_it(sealed: int) -> None:
    with memfd.map_readonly(sealed, len(DATA)) as mapping:
        assert mapping[:] == DATA
        with pytest.raises(TypeError):
            mapping[0] = 1
    pid = os.fork()
    if pid == 0:
        import ctypes
        import faulthandler

        faulthandler.disable()
        _view = memfd.map_readonly(sealed, len(DATA))
        start = next(line for line in Path("/proc/self/maps").read_text().splitlines() if "wcache:" in line).split("-")[0]
        ctypes.memset(int(start, 16), 1, 1)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGSEGV


def test_mapping_more_than_there_is_is_an_error(sealed: int) -> None:
    with pytest.raises(MappingFailed):
        memfd.map_private(sealed, 1 << 60)
