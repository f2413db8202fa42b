"""Loading a checkpoint onto a GPU, cold and warm: `wcache load` against `safetensors.torch.load_file(device="cuda")`, and both against the
slower of what the disk and PCIe give.

load_file runs in a process that has its imports and its CUDA context, which are not counted; of wcache everything is, from the request to
the answer: the worker's start, its context, hashing, the ledger. Cold means that the kernel dropped the files' pages just before
(posix_fadvise(2), POSIX_FADV_DONTNEED); the disk below may have caches of its own. All take turns, so that a disk whose speed drifts is the
same for each. Every measurement is told on stderr as it is made.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

from page_cache import forget
from places import places, wcache

GIB = 1 << 30
TENSORS = 398
SHARDS = 5
CHILD = """
import json, sys, time, torch
from pathlib import Path
from safetensors.torch import load_file, save_file

def make(root, sizes, shards):
    names = [f"t{number:04d}" for number in range(len(sizes))]
    weight_map = {}
    for shard in range(shards):
        file = f"model-{shard + 1:05d}-of-{shards:05d}.safetensors"
        part = {names[i]: torch.randint(-9999, 9999, (sizes[i] // 2,), dtype=torch.int16, device="cuda").view(torch.bfloat16).cpu()
                for i in range(shard * len(sizes) // shards, (shard + 1) * len(sizes) // shards)}
        save_file(part, Path(root) / file, {"format": "pt"})
        weight_map.update(dict.fromkeys(part, file))
    (Path(root) / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))

def pcie():
    host = torch.zeros(1 << 30, dtype=torch.uint8).pin_memory()
    device = torch.empty(1 << 30, dtype=torch.uint8, device="cuda")
    best = 0.0
    for _ in range(6):
        torch.cuda.synchronize()
        began = time.perf_counter()
        device.copy_(host, non_blocking=True)
        torch.cuda.synchronize()
        best = max(best, (1 << 30) / (time.perf_counter() - began))
    return best

def load(*files):
    torch.cuda.synchronize()
    began = time.perf_counter()
    tensors = [load_file(file, device="cuda") for file in files]
    torch.cuda.synchronize()
    return time.perf_counter() - began

torch.zeros(1, device="cuda")
for line in sys.stdin:
    what, *arguments = json.loads(line)
    found = globals()[what](*arguments)
    torch.cuda.empty_cache()
    print(json.dumps(found), flush=True)
"""


class Reference:
    """The process that makes the checkpoint and loads it as safetensors does."""

    def __init__(self) -> None:
        self._process = subprocess.Popen([sys.executable, "-c", CHILD], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, what: str, *arguments: object) -> Any:
        if self._process.stdin is None or self._process.stdout is None:
            raise AssertionError
        self._process.stdin.write(json.dumps([what, *arguments]) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the process of load_file ended with {self._process.wait()}")
        return json.loads(line)

    def __enter__(self) -> Reference:
        return self

    def __exit__(self, *exc: object) -> None:
        self._process.kill()
        self._process.communicate()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--gib", type=float, default=6.0)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--directory", type=Path, help="where to write the checkpoint; a disk, not memory")
    args = parser.parse_args()
    from gpu_places import machine, unusable

    if why := unusable():
        sys.stderr.write(f"skipped: {why}\n")
        sys.stdout.write("[]\n" if args.json else "")
        return 0
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # the daemon and the files must go too
    with tempfile.TemporaryDirectory(prefix=".wc-bench-", dir=args.directory or _disk()) as scratch:
        rows = measure(Path(scratch), int(args.gib * GIB), args.rounds)
        kind = _kind(Path(scratch))
    if args.json:
        sys.stdout.write(json.dumps(rows) + "\n")
        return 0
    sys.stdout.write(f"{machine()}; {args.gib} GiB in {TENSORS} tensors, {SHARDS} shards on {kind}, {args.rounds} rounds\n")
    for row in rows:
        value = row["value"] if isinstance(row["value"], str) else f"{row['value']:.3f}"
        sys.stdout.write(f"{row['what']:66} {value:>10} {row['unit']:5} {row['goal']}\n")
    return 0


def measure(root: Path, size_bytes: int, rounds: int) -> list[dict[str, Any]]:
    from gpu_places import sizes_like_a_model

    from wcache.core.memory import nvml

    uuid = nvml.chosen(None, os.environ.get("CUDA_VISIBLE_DEVICES"))[0]
    seconds: dict[str, list[float]] = {}
    phases: dict[str, list[dict[str, float]]] = {}
    beyond_mib: list[int] = []

    def note(what: str, spent_s: float, more: str = "") -> None:
        seconds.setdefault(what, []).append(spent_s)
        sys.stderr.write(f"{what:24} {spent_s:8.3f} s{more}\n")
        sys.stderr.flush()

    with Reference() as reference, places() as environ:
        os.environ.update(environ)
        began_s = time.perf_counter()
        reference.ask("make", str(root), sizes_like_a_model(size_bytes, TENSORS), SHARDS)
        pcie = float(reference.ask("pcie"))
        files = sorted(root.glob("*.safetensors"))
        forget(files)
        note("making it", time.perf_counter() - began_s, f", PCIe {pcie / 1e9:.1f} GB/s")
        wcache(environ, "daemon", "start")
        time.sleep(max(0.0, max(file.stat().st_mtime for file in files) + 2.5 - time.time()))  # else the first load waits for that

        def load(what: str, *, verify: bool = False) -> None:
            before = nvml.memory(uuid).used_bytes
            spent_s, loaded = _load(root, uuid)
            told = ", ".join(f"{name} {phase_s:.3f}" for name, phase_s in loaded.seconds.items())
            note(what, spent_s, f" ({told})")
            phases.setdefault(what, []).append(loaded.seconds)
            beyond_mib.append(_settled(uuid, before + loaded.residency.bytes) >> 20)
            if verify:
                began_s = time.perf_counter()
                wcache(environ, "verify", loaded.residency.residency)
                note("verify", time.perf_counter() - began_s)
            wcache(environ, "release", loaded.residency.residency)

        load("first", verify=True)  # the first on a machine compiles the kernels; cold too
        names = [str(file) for file in files]
        for _ in range(rounds):
            forget(files)
            note("disk, direct", _read(files, cached=False))
            forget(files)
            load("cold")
            forget(files)
            note("load_file, cold", float(reference.ask("load", *names)))
            forget(files)
            note("disk, page cache", _read(files, cached=True))
            load("warm")
            note("load_file, warm", float(reference.ask("load", *names)))
        total_bytes = sum(file.stat().st_size for file in files)
    return _rows(total_bytes, seconds, phases, pcie, max(beyond_mib))


def _rows(
    size_bytes: int, seconds: dict[str, list[float]], phases: dict[str, list[dict[str, float]]], pcie: float, beyond_mib: int
) -> list[dict[str, Any]]:
    middle_s = {what: statistics.median(found) for what, found in seconds.items()}
    disk = size_bytes / min(middle_s["disk, direct"], middle_s["disk, page cache"])
    slower = min(disk, pcie)
    rows = [
        _row("disk alone, past the page cache", size_bytes / middle_s["disk, direct"] / 1e9, "GB/s"),
        _row("disk alone, through the page cache", size_bytes / middle_s["disk, page cache"] / 1e9, "GB/s"),
        _row("PCIe alone, pinned memory to the GPU", pcie / 1e9, "GB/s"),
    ]
    for what, goal in (("cold", "≥ 90 %"), ("warm", "")):
        limit = pcie if what == "warm" else slower
        spread = f"{min(seconds[what]):.2f} to {max(seconds[what]):.2f}"
        rows += [
            _row(f"wcache load, {what}: median", middle_s[what], "s"),
            _row(f"wcache load, {what}: fastest to slowest", spread, "s"),
            _row(f"wcache load, {what}", size_bytes / middle_s[what] / 1e9, "GB/s"),
            _row(
                f"wcache load, {what}: share of {'PCIe' if what == 'warm' else 'the slower of disk and PCIe'}",
                size_bytes / middle_s[what] / limit * 100, "%", goal,
            ),
        ]  # fmt: skip
        told = ", ".join(f"{name} {statistics.median(one[name] for one in phases[what]):.2f}" for name in phases[what][0])
        rows.append(_row(f"of which: {told}", "", "s"))
    for what in ("cold", "warm"):
        found = f"load_file, {what}"
        rows.append(_row(f'safetensors load_file(device="cuda"), {what}: median', middle_s[found], "s"))
        rows.append(_row(f"wcache load of it, {what}: times as fast", middle_s[found] / middle_s[what], "×"))
    rows.append(_row("the first load, cold, kernels compiled", seconds["first"][0], "s"))
    rows.append(_row("wcache verify, from the command to its answer", middle_s["verify"], "s"))
    rows.append(_row("GPU memory in use beyond the weights, at most", beyond_mib, "MiB", "0"))
    return rows


def _load(root: Path, uuid: str) -> tuple[float, Any]:
    from wcache.core.settings import load_settings
    from wcache.core.wire.channel import Channel
    from wcache.core.wire.messages import Loaded, LoadRequest

    channel = Channel.connect(load_settings().socket_path)
    try:
        began_s = time.perf_counter()
        reply = channel.call(LoadRequest(spelling=str(root), device=uuid), timeout_s=600)
        spent_s = time.perf_counter() - began_s
    finally:
        channel.close()
    if not isinstance(reply, Loaded) or reply.reused:
        raise AssertionError(reply)
    return spent_s, reply


def _settled(uuid: str, expected_bytes: int) -> int:
    """Bytes in use beyond those expected, once the worker and its context are gone, or after ten seconds."""
    from wcache.core.memory import nvml

    deadline_s = time.monotonic() + 10
    while (beyond := nvml.memory(uuid).used_bytes - expected_bytes) > 0 and time.monotonic() < deadline_s:
        time.sleep(0.05)
    return beyond


def _read(files: list[Path], *, cached: bool) -> float:
    """Seconds to read everything once into memory that is used again, as the load does it."""
    import mmap

    from wcache.core.checkpoint.direct import OnceFile
    from wcache.core.checkpoint.reader import Reader
    from wcache.core.memory.upload import CHUNK_BYTES, READERS

    reader = Reader()
    with ExitStack() as opened:
        once = [opened.enter_context(OnceFile(opened.enter_context(reader.open(str(file))), reader, cached=cached)) for file in files]
        parts = [
            (one, offset, min(CHUNK_BYTES, file.stat().st_size - offset))
            for one, file in zip(once, files, strict=True)
            for offset in range(0, file.stat().st_size, CHUNK_BYTES)
        ]
        slots = [memoryview(mmap.mmap(-1, CHUNK_BYTES)) for _ in range(READERS)]

        def work(part: tuple[OnceFile, int, int]) -> None:
            slot = slots.pop()
            part[0].fill(slot, part[1], part[2])
            slots.append(slot)

        with ThreadPoolExecutor(max_workers=READERS) as pool:
            began_s = time.perf_counter()
            list(pool.map(work, parts))
            return time.perf_counter() - began_s


def _disk() -> Path:
    """The temporary directory, or the current one where that is memory."""
    usual = Path(tempfile.gettempdir())
    return usual if _kind(usual) != "tmpfs" else Path.cwd()


def _kind(path: Path) -> str:
    from wcache.core.checkpoint.identity import filesystem_kind

    return filesystem_kind(path)


def _row(what: str, value: float | str, unit: str, goal: str = "") -> dict[str, Any]:
    return {"what": what, "value": value, "unit": unit, "goal": goal}


if __name__ == "__main__":
    sys.exit(main())
