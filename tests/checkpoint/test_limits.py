"""Hostile sizes on real files: a header as large as it gets, and broken ones, under a limit of memory and time (C6, C11)."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from support.corpus import Case, make_checkpoint, mutated_checkpoints

from wcache.core.checkpoint.checkpoint import open_checkpoint
from wcache.core.checkpoint.header import HEADER_CAP_BYTES
from wcache.core.model.errors import CheckpointInvalid


def _write_tensors(path: Path, count: int) -> int:
    """A shard of `count` tensors of one byte, whose header is real JSON; returns the header's length."""
    path.parent.mkdir(exist_ok=True)
    with path.open("wb") as file:
        file.write(bytes(8))
        for start in range(0, count, 10_000):
            numbers = range(start, min(count, start + 10_000))
            entry = '"model.layers.%07d.self_attn.proj.weight":{"dtype":"U8","shape":[1],"data_offsets":[%d,%d]}'
            text = ",".join(entry % (number, number, number + 1) for number in numbers)
            file.write((("," if start else "{") + text).encode())
        file.write(b"}")
        length = file.tell() - 8
        file.seek(0)
        file.write(length.to_bytes(8, "little"))
        file.truncate(8 + length + count)
    return length


# The address space that this process has after its imports, and no more than so many bytes on top of it.
_LIMITED = """
import resource, sys, time
from pathlib import Path
from wcache.core.checkpoint.checkpoint import open_checkpoint
from wcache.core.model.errors import CheckpointInvalid
pages = int(Path("/proc/self/statm").read_text().split()[0])
limit = pages * resource.getpagesize() + int(sys.argv[1])
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
for path in sys.argv[2:]:
    try:
        print(len(open_checkpoint(path).shards))
    except CheckpointInvalid as error:
        print(error.rule, error, sep="\\t")
"""


def _under_limit(more_bytes: int, *paths: Path) -> list[str]:
    command = [sys.executable, "-c", _LIMITED, str(more_bytes), *map(str, paths)]
    environ = {**os.environ, "MALLOC_ARENA_MAX": "1"}
    done = subprocess.run(command, capture_output=True, text=True, env=environ, timeout=120, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.splitlines()


def test_a_header_of_132_mb_is_refused_naming_cap_and_size_before_it_is_read(tmp_path: Path) -> None:
    """C11: 1.29 million tensors, written out; 16 MiB of memory are enough to say no."""
    shard = tmp_path / "huge" / "model.safetensors"
    length = _write_tensors(shard, 1_290_000)
    assert length > 130_000_000 > HEADER_CAP_BYTES
    with pytest.raises(CheckpointInvalid) as caught:
        open_checkpoint(shard)
    assert caught.value.rule == "header_too_large"
    assert str(length) in str(caught.value) and str(HEADER_CAP_BYTES) in str(caught.value)
    (line,) = _under_limit(16 << 20, shard.parent)
    assert line.startswith("header_too_large")


@pytest.mark.slow
def test_a_header_just_below_the_cap_is_read_in_bounded_time_and_memory(tmp_path: Path) -> None:
    """C11: 95 MB and 930,000 tensors take minutes nowhere and less than 25 times the header's size."""
    shard = tmp_path / "large" / "model.safetensors"
    length = _write_tensors(shard, 930_000)
    assert 0.9 * HEADER_CAP_BYTES < length < HEADER_CAP_BYTES
    began_s = time.monotonic()
    assert _under_limit(25 * length, shard.parent) == ["1"]
    assert time.monotonic() - began_s < 300


def test_every_broken_file_is_refused_under_a_limit_of_memory(tmp_path: Path) -> None:
    """C6: holes, overlaps, aliases, overflowing shapes, a length of 2^64-1, 2,000 levels: none makes the reader ask for memory."""
    base = make_checkpoint(tmp_path / "base", shards=3)
    broken: list[Case] = [case for case in mutated_checkpoints(base, tmp_path / "out") if case.expectation.startswith("refused:")]
    assert len(broken) > 35
    lines = _under_limit(24 << 20, *[case.path for case in broken])
    assert [line.partition("\t")[0] for line in lines] == [case.expectation.removeprefix("refused:") for case in broken]
