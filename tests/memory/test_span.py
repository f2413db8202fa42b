"""Addresses that are kept while their memory is given back."""

from __future__ import annotations

import ctypes
import mmap
import os
import subprocess
import sys

import pytest

from wcache.core.memory import memfd, span
from wcache.core.model.errors import MappingFailed

SIZE = 5 * mmap.PAGESIZE - 100


def _sealed() -> tuple[int, bytes]:
    data = os.urandom(SIZE)
    fd = memfd.create("span", SIZE)
    os.pwrite(fd, data, 0)
    memfd.seal(fd)
    return fd, data


def _address(mapping: mmap.mmap) -> int:
    return ctypes.addressof(ctypes.c_char.from_buffer(mapping))


def _protection(address: int) -> str:
    with open("/proc/self/maps") as lines:
        for line in lines:
            begin, end = (int(word, 16) for word in line.split(" ", 1)[0].split("-"))
            if begin <= address < end:
                return line.split()[1]
    return ""


def test_a_range_is_given_back_and_mapped_again_at_its_address() -> None:
    fd, data = _sealed()
    mapping = memfd.map_private(fd, SIZE)
    address = _address(mapping)
    for _ in range(3):
        span.give_back(address, SIZE)
        assert _protection(address) == "---p" and _protection(address + SIZE) == "---p"
        span.map_again(fd, address, SIZE)
        assert _protection(address) == "rw-p" and mapping[:] == data
    mapping[0:3] = b"xyz"
    assert os.pread(fd, 3, 0) == data[:3], "a write stays private after it too"
    os.close(fd)


def test_what_was_written_is_counted_by_the_page_and_only_there() -> None:
    fd, data = _sealed()
    mapping, other = memfd.map_private(fd, SIZE), memfd.map_private(fd, SIZE)
    ranges = [(_address(mapping), SIZE)]
    assert mapping[:] == data and span.written_bytes(ranges) == 0
    other[0:1] = b"x"
    assert span.written_bytes(ranges) == 0
    mapping[mmap.PAGESIZE : mmap.PAGESIZE + 1] = b"x"
    assert span.written_bytes(ranges) == mmap.PAGESIZE
    assert span.written_bytes([*ranges, (_address(other), SIZE)]) == 2 * mmap.PAGESIZE
    os.close(fd)


def test_what_cannot_be_a_mapping_is_refused() -> None:
    fd, _ = _sealed()
    mapping = memfd.map_private(fd, SIZE)
    with pytest.raises(MappingFailed, match="no whole mapping"):
        span.give_back(_address(mapping) + 1, SIZE)
    os.close(fd)
    with pytest.raises(MappingFailed, match="Bad file descriptor"):
        span.map_again(fd, _address(mapping), SIZE)


def test_reading_what_was_given_back_ends_the_process() -> None:
    script = """
import ctypes, mmap
from wcache.core.memory import span
mapping = mmap.mmap(-1, 4096)
span.give_back(ctypes.addressof(ctypes.c_char.from_buffer(mapping)), 4096)
mapping[0]
"""
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == -11
