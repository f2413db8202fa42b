"""8 GB in 398 tensors, from a process that has them to one that wants them: a packed residency against torch's CUDA IPC.

Every measured import is the first of a new process that has torch and a CUDA context, and turns are taken. torch's operations were used
once before, as the loader does while it waits for the daemon (`views.warm_up`), and unpickling once. The clock runs from the message
being there (the descriptors of table and memory, or torch's pickle) to all tensors being ready: what a loader does after an attach.
Python's garbage collector is off meanwhile, for both: a walk through torch's heap alone takes 3 ms.
"""

from __future__ import annotations

import argparse
import array
import gc
import json
import multiprocessing
import pickle
import socket
import statistics
import sys
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

SIZE_BYTES = 8_000_000_000
TENSORS = 398


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--rounds", type=int, default=7)
    args = parser.parse_args()
    from gpu_places import machine, unusable

    if why := unusable():
        sys.stderr.write(f"skipped: {why}\n")
        sys.stdout.write("[]\n" if args.json else "")
        return 0
    rows = measure(args.rounds)
    if args.json:
        sys.stdout.write(json.dumps(rows) + "\n")
        return 0
    sys.stdout.write(f"{machine()}; {SIZE_BYTES / 1e9:.0f} GB in {TENSORS} tensors, {args.rounds} new processes each\n")
    for row in rows:
        sys.stdout.write(f"{row['what']:56} {row['value']:10.3f} {row['unit']:6} {row['goal']}\n")
    return 0


def measure(rounds: int) -> list[dict[str, Any]]:
    spawn = multiprocessing.get_context("spawn")
    ours, theirs = socket.socketpair()
    holder_end, holder_pipe = spawn.Pipe()
    holder = spawn.Process(target=hold, args=(theirs, holder_pipe), daemon=True)
    holder.start()
    importers = []
    for _ in range(rounds):
        for kind in ("segment", "ipc"):
            end, pipe = spawn.Pipe()
            here, there = socket.socketpair()
            process = spawn.Process(target=take, args=(kind, there, pipe), daemon=True)
            process.start()
            importers.append((kind, process, end, here))
    manifests, pickled, sums = holder_end.recv()
    fds = _receive(ours)
    seconds: dict[str, list[float]] = {"segment": [], "ipc": []}
    steps: list[list[float]] = []
    for _, _, end, _ in importers:
        end.recv()  # ready: torch imported, a context made
    for kind, process, end, here in importers:
        if kind == "segment":
            here.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))])
        end.send((manifests, sums) if kind == "segment" else (pickled, sums))
        steps_s = end.recv()
        seconds[kind].append(sum(steps_s))
        if kind == "segment":
            steps.append(steps_s)
        process.join(60)
    holder_end.send("done")
    holder.join(60)
    segment, ipc = statistics.median(seconds["segment"]), statistics.median(seconds["ipc"])
    return [
        _row("packed residency: read the table, import, map, 398 tensors", segment * 1e3, "ms", "≤ 2 ms"),
        _row("fastest", min(seconds["segment"]) * 1e3, "ms"),
        _row("slowest", max(seconds["segment"]) * 1e3, "ms"),
        *(
            _row(f"of which {what}, median", statistics.median(step) * 1e3, "ms")
            for what, step in zip(
                ("reading the table", "import and map", "tensors", "waiting for the GPU"), zip(*steps, strict=True), strict=True
            )
        ),
        _row("torch CUDA IPC, 398 tensors: unpickle, open", ipc * 1e3, "ms"),
        _row("fastest", min(seconds["ipc"]) * 1e3, "ms"),
        _row("slowest", max(seconds["ipc"]) * 1e3, "ms"),
        _row("times faster", ipc / segment, "×", "≥ 10"),
    ]


def hold(peer: socket.socket, pipe: Any) -> None:
    """Has the same tensors twice: in one segment, and as torch's own."""
    import torch
    from gpu_places import sizes_like_a_model
    from torch.multiprocessing.reductions import reduce_tensor

    from wcache.core.memory import cuda, table, vmm
    from wcache.core.memory.packing import Item, pack
    from wcache.core.memory.views import tensors
    from wcache.core.wire.messages import MEMORY, TABLE, SegmentManifest

    device = cuda.devices()[0]
    sizes = sizes_like_a_model(SIZE_BYTES, TENSORS)
    plan = pack(Item(f"t{index}", "BF16", (size // 512, 256), size) for index, size in enumerate(sizes))
    owned = [torch.empty(size // 512, 256, dtype=torch.int16, device="cuda").random_().view(torch.bfloat16) for size in sizes]
    with vmm.create(plan.size_bytes, device) as allocation:
        mapping = allocation.map(writable=True)
        fd = allocation.export()
    for tensor, source in zip(tensors(mapping, plan.placements).values(), owned, strict=True):
        tensor.copy_(source)
    torch.cuda.synchronize()
    sums = [int(tensor.view(torch.int16).sum(dtype=torch.int64)) for tensor in owned]
    blocks = tuple(sorted((place.offset_bytes, place.size_bytes) for place in plan.placed()))
    described = table.Table(size_bytes=plan.size_bytes, tensors=plan.placements, blocks=blocks)
    table_fd, table_bytes = table.seal(described, "bench")
    manifests = [SegmentManifest("table", table_bytes, "", TABLE), SegmentManifest("memory", mapping.size_bytes, "", MEMORY)]
    pickled = pickle.dumps([reduce_tensor(tensor) for tensor in owned])
    peer.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [table_fd, fd]))])
    pipe.send((manifests, pickled, sums))
    pipe.recv()


def take(kind: str, peer: socket.socket, pipe: Any) -> None:
    import torch
    import torch.multiprocessing.reductions

    from wcache.core.memory import cuda
    from wcache.core.memory.views import warm_up
    from wcache.loader.packed import PackedMemory, take_packed

    torch.zeros(1, device="cuda")
    torch.cuda.synchronize()
    device = cuda.devices()[0]
    warm_up(torch.device("cuda"))
    pickle.loads(pickle.dumps(torch.zeros(1)))
    gc.disable()
    pipe.send("ready")
    message = pipe.recv()
    fds = _receive(peer) if kind == "segment" else []
    marks = [time.perf_counter()]
    if kind == "segment":
        manifests, sums = message
        packed = take_packed(zip(manifests, fds, strict=True), device.uuid)
        marks.append(time.perf_counter())
        memory = PackedMemory(packed)
        marks.append(time.perf_counter())
        found = list(memory.tensors().values())
    else:
        pickled, sums = message
        found = [rebuild(*arguments) for rebuild, arguments in pickle.loads(pickled)]
    marks.append(time.perf_counter())
    torch.cuda.synchronize()
    marks.append(time.perf_counter())
    if [int(tensor.view(torch.int16).sum(dtype=torch.int64)) for tensor in found] != sums:
        raise AssertionError(f"{kind}: other bytes arrived")
    pipe.send([end_s - begin_s for begin_s, end_s in pairwise(marks)])


def _receive(peer: socket.socket) -> list[int]:
    _, ancillary, *_ = peer.recvmsg(1, socket.CMSG_SPACE(8))
    return array.array("i", ancillary[0][2][:8]).tolist()


def _row(what: str, value: float, unit: str, goal: str = "") -> dict[str, Any]:
    return {"what": what, "value": value, "unit": unit, "goal": goal}


if __name__ == "__main__":
    sys.exit(main())
