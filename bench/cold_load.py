"""A cold load into host memory against reading the same bytes and nothing else: 1 GiB in 4 shards on the local disk, page cache dropped.

The plain read is eight threads with direct reads of 8 MiB into buffers of their own: it hashes nothing, keeps nothing, and takes no new
page of memory. The load is `wcache load`, of which the phase `read` (reading, hashing, checking identities) and the whole command count.
They take turns.
"""

from __future__ import annotations

import json
import mmap
import os
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from page_cache import forget
from places import places, wcache
from remote_fs import make_checkpoint
from rows import Row, main, ratio, timing

SHARDS = 4
SIZE_BYTES = 1 << 30
THREADS = 8
STEP_BYTES = 8 << 20
RUNS = 5


def read_plainly(shards: list[Path]) -> float:
    """Seconds."""
    own = threading.local()

    def read(place: tuple[int, int]) -> None:
        if not hasattr(own, "buffer"):
            own.buffer = mmap.mmap(-1, STEP_BYTES)
        fd, offset = place
        os.preadv(fd, [own.buffer], offset)

    began_s = time.perf_counter()
    fds = [os.open(shard, os.O_RDONLY | os.O_DIRECT) for shard in shards]
    places = [(fd, at) for fd, shard in zip(fds, shards, strict=True) for at in range(0, shard.stat().st_size, STEP_BYTES)]
    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(read, places))
    for fd in fds:
        os.close(fd)
    return time.perf_counter() - began_s


def measure() -> list[Row]:
    found: list[tuple[float, float, float]] = []
    with places() as environ, tempfile.TemporaryDirectory(prefix="wc-cold-") as scratch:
        checkpoint = make_checkpoint(Path(scratch) / "m", SHARDS, SIZE_BYTES // SHARDS)
        shards = sorted(checkpoint.glob("*.safetensors"))
        size_mb = sum(shard.stat().st_size for shard in shards) / 1e6
        wcache(environ, "daemon", "start")
        for _ in range(RUNS):
            forget(shards)
            plain_s = read_plainly(shards)
            forget(shards)
            began_s = time.perf_counter()
            loaded = json.loads(wcache(environ, "load", str(checkpoint), "--json"))
            found.append((plain_s, loaded["seconds"]["read"], time.perf_counter() - began_s))
            wcache(environ, "release", loaded["residency"], "--force")
    plain, read, whole = ([size_mb / one[position] for one in found] for position in range(3))
    return [
        timing("cold, local disk: direct reads and nothing else", plain, "MB/s"),
        timing("cold, local disk: wcache load, its reading and hashing", read, "MB/s"),
        timing("cold, local disk: wcache load, the whole command", whole, "MB/s"),
        ratio("cold, local disk: reading and hashing / direct reads", list(zip(read, plain, strict=True)), "direct reads", ">= 0.9"),
    ]


if __name__ == "__main__":
    main(__doc__, measure)
