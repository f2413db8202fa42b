"""When the cache helps on a CPU: every byte of SmolLM2 read once, from safetensors and through wcache, with a warm and a cold page cache.

Each figure is of five new processes, the two loaders in turns. Cold means that the kernel dropped the shards' pages just before
(posix_fadvise(2), POSIX_FADV_DONTNEED); the disk below may have caches of its own. Imports are not counted, nor is the walk through all
that they made (80 ms) which the cycle collector owes after them: it would fall into one loader or the other by chance.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from places import checkpoint, places, wcache
from rows import Row, main, ratio, timing

RUNS = 5
CHILD = """
import gc, sys, time
import torch
{load}
shards = sys.argv[1:]
gc.collect()
began = time.perf_counter()
tensors = [tensor for shard in shards for tensor in load_file(shard).values()]
ready = time.perf_counter()
total = sum(int(tensor.reshape(-1).view(torch.int16).sum()) for tensor in tensors)
print((ready - began) * 1e3, (time.perf_counter() - began) * 1e3)
"""
LOADERS = {"safetensors": "from safetensors.torch import load_file", "wcache": "from wcache.loader import load_file"}


def forget(shards: list[Path]) -> None:
    for shard in shards:
        fd = os.open(shard, os.O_RDONLY)
        try:
            os.fdatasync(fd)
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(fd)


def once(loader: str, shards: list[Path], environ: dict[str, str]) -> tuple[float, float]:
    command = [sys.executable, "-c", CHILD.format(load=LOADERS[loader]), *map(str, shards)]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=True)
    ready, touched = done.stdout.split()
    return float(ready), float(touched)


def measure() -> list[Row]:
    shards = sorted(checkpoint().glob("*.safetensors"))
    rows: list[Row] = []
    with places() as environ:
        environ["WCACHE_ON_MISS"] = "strict"
        wcache(environ, "daemon", "start")
        wcache(environ, "load", str(checkpoint()))
        for state in ("warm", "cold"):
            found: dict[str, list[tuple[float, float]]] = {loader: [] for loader in LOADERS}
            for _ in range(RUNS):
                for loader in LOADERS:
                    if state == "cold":
                        forget(shards)
                    found[loader].append(once(loader, shards, environ))
            for position, what in enumerate(("tensors ready", "every byte read")):
                values = {loader: [times[position] for times in found[loader]] for loader in LOADERS}
                rows += [timing(f"{state} page cache, {loader}: {what}", values[loader], "ms") for loader in LOADERS]
                pairs = list(zip(values["wcache"], values["safetensors"], strict=True))
                rows.append(ratio(f"{state} page cache, {what}: wcache / safetensors", pairs, "safetensors.torch.load_file"))
    return rows


if __name__ == "__main__":
    main(__doc__, measure)
