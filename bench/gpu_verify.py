"""Proving 30 GiB of resident weights on a GPU: BLAKE3 of every tensor, as a share of the bandwidth of reading alone."""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

GIB = 1 << 30
TENSORS = 398


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--gib", type=int, default=30)
    parser.add_argument("--rounds", type=int, default=21)
    args = parser.parse_args()
    from gpu_places import machine, unusable

    if why := unusable():
        sys.stderr.write(f"skipped: {why}\n")
        sys.stdout.write("[]\n" if args.json else "")
        return 0
    rows = measure(args.gib * GIB, args.rounds)
    if args.json:
        sys.stdout.write(json.dumps(rows) + "\n")
        return 0
    sys.stdout.write(f"{machine()}; {args.gib} GiB in {TENSORS} tensors, {args.rounds} rounds\n")
    for row in rows:
        sys.stdout.write(f"{row['what']:56} {row['value']:10.3f} {row['unit']:6} {row['goal']}\n")
    return 0


def measure(size_bytes: int, rounds: int) -> list[dict[str, Any]]:
    import torch
    from blake3 import blake3
    from gpu_places import sizes_like_a_model

    from wcache.core.memory import cuda, vmm
    from wcache.core.memory.blake3_cuda import Blake3
    from wcache.core.memory.packing import Item, Placement, pack
    from wcache.core.memory.views import tensors

    device = cuda.devices()[0]
    sizes = sizes_like_a_model(size_bytes, TENSORS)
    plan = pack(Item(f"t{index}", "U8", (size,), size) for index, size in enumerate(sizes))
    with vmm.create(plan.size_bytes, device) as allocation:
        with allocation.map(writable=True) as filling:
            words = tensors(filling, [Placement("all", "I64", (filling.size_bytes // 8,), 0, filling.size_bytes)])["all"]
            words.random_()
            del words
            torch.cuda.synchronize()
        mapping = allocation.map()
    everything = tensors(mapping, [Placement("all", "I64", (mapping.size_bytes // 8,), 0, mapping.size_bytes)])["all"]
    started_s = time.perf_counter()
    hasher = Blake3(device)
    compile_s = time.perf_counter() - started_s
    regions = [(mapping.address + place.offset_bytes, place.size_bytes) for place in plan.placements]
    digests = hasher.digests(regions)
    for place, digest in list(zip(plan.placements, digests, strict=True))[:12]:  # a few on the CPU; tests/gpu has the lengths
        if blake3(mapping.read(place.offset_bytes, place.size_bytes), max_threads=blake3.AUTO).digest() != digest:
            raise AssertionError(place.name)
    read_s, hash_s = [], []
    for _ in range(rounds):  # turn about, so that clocks and neighbours are the same for both
        read_s.append(_seconds(everything.sum, torch.cuda.synchronize))
        hash_s.append(_seconds(lambda: hasher.digests(regions), torch.cuda.synchronize))
    read, hashed = statistics.median(read_s), statistics.median(hash_s)
    total_bytes = sum(sizes)
    return [
        _row(f"prove {total_bytes / GIB:.1f} GiB in {TENSORS} tensors, median", hashed * 1e3, "ms", "≤ 20 ms for 30 GiB"),
        _row("fastest", min(hash_s) * 1e3, "ms"),
        _row("slowest", max(hash_s) * 1e3, "ms"),
        _row("hashed", total_bytes / hashed / 1e12, "TB/s"),
        _row("read only (torch sum of int64), median", mapping.size_bytes / read / 1e12, "TB/s"),
        _row("share of the read bandwidth", (total_bytes / hashed) / (mapping.size_bytes / read) * 100, "%"),
        _row("scratch memory", hasher.scratch_bytes() / (1 << 20), "MiB"),
        _row("compiling the kernels, once a process", compile_s, "s"),
    ]


def _seconds(function: Callable[[], object], wait: Callable[[], None]) -> float:
    wait()
    started_s = time.perf_counter()
    function()
    wait()
    return time.perf_counter() - started_s


def _row(what: str, value: float, unit: str, goal: str = "") -> dict[str, Any]:
    return {"what": what, "value": value, "unit": unit, "goal": goal}


if __name__ == "__main__":
    sys.exit(main())
