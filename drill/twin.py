"""A tampered twin: the same names, sizes and headers, and one tensor of zeros. What only looks at headers takes it for the original."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path
from typing import NamedTuple

from wcache.core.checkpoint.checkpoint import Checkpoint, Shard
from wcache.core.checkpoint.header import TensorEntry
from wcache.core.model.errors import CheckpointUnreadable

_BLOCK_BYTES = 1 << 20
_NORM = re.compile(r"norm|(^|\.)ln_", re.IGNORECASE)
_LAYER = re.compile(r"(^|\.)\d+(\.|$)")


class Twin(NamedTuple):
    """`place` is what to serve at the original's place; `tensor` is what was zeroed."""

    place: Path
    tensor: str


def make_twin(checkpoint: Checkpoint, directory: Path, single_file: str | None = None) -> Twin:
    """Copy the shard of the final norm and zero that; everything else of the directory is linked. Raises CheckpointUnreadable."""
    shard, entry = _final_norm(checkpoint)
    root = Path(checkpoint.location.root)
    try:
        directory.mkdir(parents=True)
        for found in sorted(root.iterdir()):
            if found.name != shard.name:
                (directory / found.name).symlink_to(found)
        copy = directory / shard.name
        shutil.copyfile(os.path.realpath(shard.path), copy)
        with copy.open("r+b") as file:
            file.seek(shard.header.header_bytes + entry.begin)
            left_bytes = entry.size_bytes
            while left_bytes:
                left_bytes -= file.write(bytes(min(left_bytes, _BLOCK_BYTES)))
    except OSError as error:
        raise CheckpointUnreadable(f"no twin of the checkpoint can be made: {error.strerror}", where=str(directory)) from None
    return Twin(directory / single_file if single_file else directory, entry.name)


def _final_norm(checkpoint: Checkpoint) -> tuple[Shard, TensorEntry]:
    """Every answer goes through it. A model without one loses its last tensor that has bytes."""
    held = [(shard, entry) for shard in checkpoint.shards for entry in shard.header.tensors if entry.size_bytes]
    norms = [(shard, entry) for shard, entry in held if _NORM.search(entry.name) and not _LAYER.search(entry.name)]
    if not held:
        raise CheckpointUnreadable("it has no tensor that could be changed", where=checkpoint.spelling)
    return (norms or held)[-1]
