"""8 GB in host memory, sealed as the daemon seals it, to a GPU: the loader's ring of pinned chunks against `tensor.to("cuda")` on a mapping
of the same memory, and against what the bus gives from memory that is pinned already.

Every engine's start is a new process, which pins its ring and has nothing warm but CUDA itself: the first rows are such processes, one
after another. The very first also reads memory that nobody read since it was written.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

SIZE_BYTES = 8_000_000_000
TENSORS = 398
SHARDS = 4
STARTS = 3
PLAIN_BYTES = 1 << 30  # as much is enough to time the slow way


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--sweep", action="store_true", help="other sizes of a chunk, other numbers of threads")
    args = parser.parse_args()
    from gpu_places import machine, unusable

    if why := unusable():
        sys.stderr.write(f"skipped: {why}\n")
        sys.stdout.write("[]\n" if args.json else "")
        return 0
    rows = measure(args.rounds, sweep=args.sweep)
    if args.json:
        sys.stdout.write(json.dumps(rows) + "\n")
        return 0
    sys.stdout.write(f"{machine()}; {SIZE_BYTES / 1e9:.0f} GB, {TENSORS} tensors, {SHARDS} shards, {len(os.sched_getaffinity(0))} cores\n")
    for row in rows:
        sys.stdout.write(f"{row['what']:56} {row['value']:10.3f} {row['unit']:6} {row['goal']}\n")
    return 0


def through_ring(segments: list[Any], device: Any) -> float:
    """GB/s of the loader's own way."""
    import torch

    from wcache.loader import host_tier

    began = time.perf_counter()
    found = host_tier.copy_to_gpu(segments, device)
    torch.cuda.synchronize()
    seconds = time.perf_counter() - began
    del found
    torch.cuda.empty_cache()
    return sum(segment.header.data_bytes for segment in segments) / seconds / 1e9


def start_with(described: str) -> None:
    """One new process, whose CUDA is warm; prints GB/s of its first copy."""
    import torch

    from wcache.core.memory import cuda
    from wcache.loader.mapping import Segment

    torch.zeros(1, device="cuda").add_(1)
    torch.cuda.synchronize()
    print(through_ring([Segment(*one) for one in json.loads(described)], cuda.devices()[0]))


def in_new_process(segments: list[Any]) -> float:
    described = json.dumps([[segment.name, segment.descriptor, segment.size_bytes] for segment in segments])
    fds = [segment.descriptor for segment in segments]
    done = subprocess.run([sys.executable, __file__, "--start", described], pass_fds=fds, stdout=subprocess.PIPE, text=True, check=True)
    return float(done.stdout)


def measure(rounds: int, *, sweep: bool) -> list[dict[str, Any]]:
    import torch

    from wcache.core.memory import cuda
    from wcache.loader import host_tier

    torch.zeros(1, device="cuda").add_(1)
    torch.cuda.synchronize()
    device = cuda.devices()[0]
    segments = sealed_shards()
    size_bytes = sum(segment.header.data_bytes for segment in segments)
    fresh, *starts = [in_new_process(segments) for _ in range(1 + STARTS)]
    again = [through_ring(segments, device) for _ in range(rounds)]
    checked(segments, host_tier.copy_to_gpu(segments, device))
    plain = statistics.median(plainly(segments) for _ in range(3))
    start = statistics.median(starts)
    rows = [
        _row("host tier, a new process, memory not read before", fresh, "GB/s"),
        _row(f"host tier, {STARTS} new processes after it, median", start, "GB/s", "≥ 30"),
        _row("slowest", min(starts), "GB/s"),
        _row("fastest", max(starts), "GB/s"),
        _row("host tier, again in one process, median", statistics.median(again), "GB/s"),
        _row('tensor.to("cuda") on the mapping', plain, "GB/s"),
        _row("times faster, a new process", start / plain, "×", "≥ 5"),
        _row("bus: one copy from memory that is pinned already", pinned(), "GB/s"),
    ]
    if sweep:
        shipped = host_tier.CHUNK_BYTES, host_tier.THREADS_MAX, host_tier.read_chunk
        for chunk_mib, threads in ((1, 16), (2, 16), (4, 8), (4, 12), (4, 16), (8, 8), (8, 16), (16, 16)):
            host_tier.CHUNK_BYTES, host_tier.THREADS_MAX = chunk_mib << 20, threads
            value = _median(lambda: through_plan(segments, device, size_bytes))
            rows.append(_row(f"{threads} threads, chunks of {chunk_mib} MiB", value, "GB/s"))
        for chunk_mib in (2, 4, 8):
            host_tier.CHUNK_BYTES, host_tier.THREADS_MAX = chunk_mib << 20, 16
            host_tier.read_chunk = from_mappings(segments)  # type: ignore[assignment]
            value = _median(lambda: through_plan(segments, device, size_bytes))
            rows.append(_row(f"16 threads, chunks of {chunk_mib} MiB, memcpy from a mapping", value, "GB/s"))
        host_tier.CHUNK_BYTES, host_tier.THREADS_MAX, host_tier.read_chunk = shipped  # type: ignore[assignment]
    return rows


def through_plan(segments: list[Any], device: Any, size_bytes: int) -> float:
    """As copy_to_gpu does it, with the sizes that are set at the moment."""
    import torch

    from wcache.loader import host_tier

    began = time.perf_counter()
    load = host_tier.plan(segments, chunk_bytes=host_tier.CHUNK_BYTES)
    block = torch.empty(load.size_bytes, dtype=torch.uint8, device="cuda")
    host_tier._Transfer(device, block.data_ptr(), load.chunks).run()
    torch.cuda.synchronize()
    seconds = time.perf_counter() - began
    del block
    torch.cuda.empty_cache()
    return size_bytes / seconds / 1e9


def from_mappings(segments: list[Any]) -> Callable[[Any, memoryview], None]:
    """The other way to fill a chunk: memcpy from new mappings of the shards."""
    import ctypes

    from wcache.loader.mapping import ShardMap

    maps = {segment.descriptor: ShardMap(segment) for segment in segments}

    def read(chunk: Any, into: memoryview) -> None:
        ctypes.memmove(ctypes.addressof(ctypes.c_char.from_buffer(into)), maps[chunk.fd].begin + chunk.begin, chunk.size_bytes)

    return read


def sealed_shards() -> list[Any]:
    """Memory files as the daemon's worker leaves them; every page is written, since pages that never were cost nothing to read."""
    from gpu_places import sizes_like_a_model

    from wcache.core.memory import memfd
    from wcache.loader.mapping import Segment

    sizes = sizes_like_a_model(SIZE_BYTES, TENSORS)
    data = random.Random(9).randbytes(64 << 20)
    found = []
    for shard in range(SHARDS):
        header: dict[str, Any] = {}
        end = 0
        for number in range(shard, TENSORS, SHARDS):
            header[f"t{number}"] = {"dtype": "BF16", "shape": [sizes[number] // 512, 256], "data_offsets": [end, end + sizes[number]]}
            end += sizes[number]
        text = json.dumps(header).encode()
        text += b" " * (-len(text) % 8)
        head = len(text).to_bytes(8, "little") + text
        size_bytes = len(head) + end
        fd = memfd.create(f"bench-{shard}", size_bytes)
        os.pwrite(fd, head, 0)
        with ThreadPoolExecutor() as pool:
            list(pool.map(partial(_fill, fd, data, size_bytes), range(len(head), size_bytes, len(data))))
        memfd.seal(fd)
        found.append(Segment(f"shard-{shard}", fd, size_bytes))
    return found


def _fill(fd: int, data: bytes, size_bytes: int, at: int) -> None:
    view = memoryview(data)[: min(len(data), size_bytes - at)]
    done = 0
    while done < len(view):
        done += os.pwrite(fd, view[done:], at + done)


def checked(segments: list[Any], found: dict[str, Any]) -> None:
    """Raises AssertionError where other bytes arrived: every tensor against the host's."""
    import torch

    from wcache.loader.mapping import ShardMap

    for segment in segments:
        shard = ShardMap(segment)
        for name in shard.entries:
            wanted, here = shard.tensor(name).view(torch.int16), found[name].view(torch.int16)
            if not torch.equal(wanted[:8], here[:8].cpu()) or int(wanted[-1].long().sum()) != int(here[-1].long().sum()):
                raise AssertionError(f"{name}: other bytes arrived")


def plainly(segments: list[Any]) -> float:
    import torch

    from wcache.loader.mapping import ShardMap

    shard = ShardMap(segments[0])
    tensors, size_bytes = [], 0
    for name in shard.entries:
        if size_bytes >= PLAIN_BYTES:
            break
        tensors.append(shard.tensor(name))
        size_bytes += tensors[-1].nbytes
    began = time.perf_counter()
    there = [tensor.to("cuda") for tensor in tensors]
    torch.cuda.synchronize()
    seconds = time.perf_counter() - began
    del there
    torch.cuda.empty_cache()
    return size_bytes / seconds / 1e9


def pinned() -> float:
    import torch

    here = torch.empty(1 << 30, dtype=torch.uint8, pin_memory=True)
    there = torch.empty_like(here, device="cuda")

    def once() -> float:
        began = time.perf_counter()
        there.copy_(here, non_blocking=True)
        torch.cuda.synchronize()
        return here.nbytes / (time.perf_counter() - began) / 1e9

    return _median(once)


def _median(once: Callable[[], float]) -> float:
    return statistics.median(once() for _ in range(3))


def _row(what: str, value: float, unit: str, goal: str = "") -> dict[str, Any]:
    return {"what": what, "value": value, "unit": unit, "goal": goal}


if __name__ == "__main__":
    if sys.argv[1:2] == ["--start"]:
        start_with(sys.argv[2])
    else:
        sys.exit(main())
