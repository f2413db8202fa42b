"""Attaching 272 tensors in three shards against `safetensors.torch.load_file` in the same process; mapping is flat in the size."""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from places import places, wcache

TENSORS = 272
SHARDS = 3
RUNS = 20
ROUNDS = 4
SIZES_BYTES = (32 << 20, 256 << 20)
GOAL_MS = 10


def make_checkpoint(directory: Path, size_bytes: int) -> Path:
    """Zeros in bfloat16: what the bytes are makes no difference to a mapping."""
    import torch
    from safetensors.torch import save_file

    directory.mkdir()
    items = size_bytes // TENSORS // 2
    names = [f"model.layers.{number // 9}.part{number % 9}.weight" for number in range(TENSORS)]
    weight_map = {}
    for shard in range(SHARDS):
        file = f"model-{shard + 1:05d}-of-{SHARDS:05d}.safetensors"
        part = {name: torch.zeros(items, dtype=torch.bfloat16) for name in names[shard::SHARDS]}
        save_file(part, directory / file, {"format": "pt"})
        weight_map.update(dict.fromkeys(part, file))
    (directory / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))
    return directory


def times_ms(run: Callable[[], Any]) -> list[float]:
    found = []
    for _ in range(RUNS):
        began = time.perf_counter()
        held = run()
        found.append((time.perf_counter() - began) * 1e3)
        del held
    return found


def measure() -> list[dict[str, object]]:
    from safetensors.torch import load_file as reference

    rows: list[dict[str, object]] = []
    with places() as environ:
        os.environ.update(environ)
        scratch = Path(environ["WCACHE_STATE_DIR"]).parent
        wcache(environ, "daemon", "start")
        from wcache.loader import load_file
        from wcache.loader.attach import attach

        made = {size_bytes: make_checkpoint(scratch / f"m{size_bytes}", size_bytes) for size_bytes in SIZES_BYTES}
        for place in made.values():
            wcache(environ, "load", str(place))
        os.sync()  # else the ledger's commits wait behind the checkpoints that were just written
        # In turns, so that what a neighbour does to the machine meets every size alike.
        attached_ms: dict[int, list[float]] = {size_bytes: [] for size_bytes in made}
        for _ in range(ROUNDS):
            for size_bytes, place in made.items():
                attached_ms[size_bytes] += times_ms(lambda place=place: attach(place, on_miss="strict").tensors())  # type: ignore[misc]
        for size_bytes, place in made.items():
            files = sorted(place.glob("*.safetensors"))
            attached = attached_ms[size_bytes]
            loaded = times_ms(lambda files=files: [load_file(file, on_miss="strict") for file in files])  # type: ignore[misc]
            mapped = times_ms(lambda files=files: [reference(file) for file in files])  # type: ignore[misc]
            # The reference maps too; an engine that needs its own memory pays for the bytes.
            copied = times_ms(lambda files=files: [{name: t.clone() for name, t in reference(file).items()} for file in files])  # type: ignore[misc]
            size = f"{size_bytes >> 20} MiB"
            middle_ms = statistics.median(attached)
            for what, found, goal in (
                (f"attach, {TENSORS} tensors, {size}", attached, f"<= {GOAL_MS}"),
                (f"wcache load_file of {SHARDS} shards, {size}", loaded, ""),
                (f"safetensors load_file (mmap, warm page cache), {size}", mapped, ""),
                (f"safetensors load_file into memory of its own, {size}", copied, ""),
            ):
                low, middle, high = statistics.quantiles(found, n=4)
                rows.append({"what": f"{what}, median", "value": middle, "unit": "ms", "goal": goal})
                rows.append({"what": f"{what}, quartiles", "value": f"{low:.1f} to {high:.1f}", "unit": "ms", "goal": ""})
            ratio = middle_ms / statistics.median(mapped)
            rows.append({"what": f"attach / safetensors mmap, {size}", "value": ratio, "unit": "x", "goal": ""})
            rows.append(
                {"what": f"into own memory / attach, {size}", "value": statistics.median(copied) / middle_ms, "unit": "x", "goal": ""}
            )
        small, large = (statistics.median(attached_ms[size_bytes]) for size_bytes in SIZES_BYTES)
        rows.append({"what": "attach, 256 MiB / 32 MiB", "value": large / small, "unit": "x", "goal": "1: flat in the size"})
    return rows


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    found = measure()
    if arguments.json:
        sys.stdout.write(json.dumps(found) + "\n")
    else:
        for row in found:
            value = row["value"] if isinstance(row["value"], str) else f"{row['value']:.2f}"
            sys.stdout.write(f"{row['what']:<70} {value:>14} {row['unit']:<3} {row['goal']}\n")
