"""What a warm restart costs on a remote file system: vLLM's own checkpoint hash, reading the headers, and each of wcache's tiers, for a
checkpoint of 66 shards at latencies of 5 to 100 ms (`--latency-ms 490` takes ten minutes more); and a cold load over a line of limited
bandwidth.

The file system is `remote_mount.py`: what it counts is what was asked of it, and `round trips` are the operations that waited for one
another. Times are medians of new processes, without their imports. vLLM's function runs in the Python of the virtual environment that
WCACHE_TEST_VLLM names (default .venv-vllm); where there is none, its rows are left out and that is said.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from page_cache import forget
from places import ROOT, places, wcache
from remote_mount import RemoteMount, missing

SHARDS = 66
SHARD_BYTES = 256 << 10
TENSORS = 3  # a shard
LATENCIES_MS = (5, 20, 100)
RUNS = 3
SLOW_FROM_MS = 20  # from there on what reads file after file is run once: it takes its time, and always the same
LOAD_SHARDS = 4
LOAD_BYTES = 256 << 20
LOAD_MB_S = 100
TIMEOUT_S = 300
GOAL_RATIO = 30

VLLM = """
from vllm.model_executor.model_loader.weight_cache.protocol import hash_checkpoint
work = lambda: hash_checkpoint(sys.argv[1])
"""
HEADERS = """
import glob
def work():
    for path in sorted(glob.glob(sys.argv[1] + "/*.safetensors")):
        with open(path, "rb", buffering=0) as file:
            file.read(int.from_bytes(file.read(8), "little"))
"""
ATTACH = """
from wcache.loader.attach import attach
def work():
    found = attach(sys.argv[1], on_miss="strict")
    assert found.hit and found.decision.tier.value == sys.argv[2], found.decision
"""
# It says when it has imported everything, and waits: only then is the file system told to be far away.
CHILD = """
import sys, time
{work}
print("ready", flush=True)
sys.stdin.readline()
began = time.perf_counter()
work()
print((time.perf_counter() - began) * 1e3, flush=True)
"""


def make_checkpoint(directory: Path, shards: int, shard_bytes: int) -> Path:
    """Random bytes, and an index."""
    directory.mkdir(parents=True)
    weight_map = {}
    part_bytes = shard_bytes // TENSORS // 64 * 64
    for number in range(shards):
        name = f"model-{number + 1:05d}-of-{shards:05d}.safetensors"
        header = {
            f"model.layers.{number}.part{part}.weight": {
                "dtype": "BF16", "shape": [part_bytes // 2], "data_offsets": [part * part_bytes, (part + 1) * part_bytes],
            }
            for part in range(TENSORS)
        }  # fmt: skip
        text = json.dumps(header).encode()
        text += b" " * (-len(text) % 8)
        (directory / name).write_bytes(len(text).to_bytes(8, "little") + text + os.urandom(part_bytes * TENSORS))
        weight_map.update(dict.fromkeys(header, name))
    (directory / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))
    return directory


class Restarts:
    """Runs one program in new processes, each against a file system that is far away from the moment on in which it is ready."""

    def __init__(self, mount: RemoteMount, environ: dict[str, str]) -> None:
        self._mount = mount
        self._environ = environ

    def measure(self, python: str, work: str, *arguments: str, latency_ms: float, runs: int = RUNS, **policy: str) -> dict[str, Any]:
        """Median, fastest and slowest in ms, and what the last run asked of the file system."""
        times = []
        for _ in range(runs):
            command = [python, "-c", CHILD.format(work=work), *arguments]
            environ = {**self._environ, **{f"WCACHE_{name.upper()}": value for name, value in policy.items()}}
            pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
            with subprocess.Popen(command, env=environ, text=True, **pipes) as child:
                assert child.stdin is not None and child.stdout is not None
                while (line := child.stdout.readline()).strip() != "ready":
                    if not line:
                        raise RuntimeError(f"{work.strip().splitlines()[0]}: no result")
                self._mount.turn(latency_ms)
                child.stdin.write("\n")
                child.stdin.flush()
                times.append(float(child.stdout.readline() or "nan"))
                asked = self._mount.turn()  # near again before the process ends
        return {"ms": statistics.median(times), "range": (min(times), max(times)), **asked}


def vllm_python() -> str | None:
    found = ROOT / os.environ.get("WCACHE_TEST_VLLM", ".venv-vllm") / "bin" / "python"
    return str(found) if found.exists() else None


def restart_rows(mount: RemoteMount, source: Path, environ: dict[str, str], latencies_ms: tuple[float, ...]) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = []
    plain, granted = (mount.path / make_checkpoint(source / name, SHARDS, SHARD_BYTES).name for name in ("plain", "granted"))
    for place in (plain, granted):
        wcache(environ, "load", str(place))
    wcache(environ, "trust", "grant", "--store", str(granted), "--reason", "the bench made it and writes it once")
    wcache(environ, "trust", "grant", str(granted), "--reason", "the bench made it")
    restarts = Restarts(mount, environ)
    vllm = vllm_python()
    if vllm is None:
        sys.stderr.write("no vLLM here (WCACHE_TEST_VLLM): its checkpoint hash is not measured\n")
    own = sys.executable
    ways: list[tuple[str, Callable[[float], dict[str, Any]]]] = [
        (
            "headers, one file after the other",
            lambda ms: restarts.measure(own, HEADERS, str(plain), latency_ms=ms, runs=RUNS if ms < SLOW_FROM_MS else 1),
        ),
        ("wcache trusted", lambda ms: restarts.measure(own, ATTACH, str(granted), "trusted", latency_ms=ms, trusted="honour")),
        ("wcache pinned, store granted", lambda ms: restarts.measure(own, ATTACH, str(granted), "pinned", latency_ms=ms)),
        ("wcache header", lambda ms: restarts.measure(own, ATTACH, str(plain), "header", latency_ms=ms, accept="header")),
        ("wcache sampled", lambda ms: restarts.measure(own, ATTACH, str(plain), "sampled", latency_ms=ms, accept="sampled")),
        ("wcache default: every byte", lambda ms: restarts.measure(own, ATTACH, str(plain), "content", latency_ms=ms)),
    ]
    if vllm is not None:
        ways.insert(
            0,
            (
                "vLLM's hash_checkpoint",
                lambda ms: restarts.measure(vllm, VLLM, str(plain), latency_ms=ms, runs=RUNS if ms < SLOW_FROM_MS else 1),
            ),
        )
    for latency_ms in latencies_ms:
        found = {}
        for name, way in ways:
            found[name] = way(latency_ms)
            sys.stderr.write(f"{latency_ms:g} ms, {name}: {found[name]['ms']:.0f} ms\n")
        against = found.get("vLLM's hash_checkpoint") or found["headers, one file after the other"]
        for name, one in found.items():
            what = f"{latency_ms:g} ms, {name}"
            goal = {"wcache trusted": "0 operations", "wcache pinned, store granted": f"<= {2 * latency_ms:g}"}.get(name, "")
            low, high = one["range"]
            rows.append({"what": f"{what}: time", "value": one["ms"], "unit": "ms", "goal": goal})
            rows.append({"what": f"{what}: fastest to slowest", "value": f"{low:.0f} to {high:.0f}", "unit": "ms", "goal": ""})
            operations = " ".join(f"{key} {count}" for key, count in one["operations"].items()) or "none"
            rows.append({"what": f"{what}: operations", "value": operations, "unit": "", "goal": ""})
            rows.append({"what": f"{what}: round trips", "value": one["round_trips"], "unit": "", "goal": ""})
            if name.startswith("wcache"):
                high = name in ("wcache trusted", "wcache pinned, store granted") and latency_ms >= 20
                goal = f">= {GOAL_RATIO if high else 1}"
                rows.append({"what": f"{what}: hash / this", "value": against["ms"] / one["ms"], "unit": "x", "goal": goal})
    return rows


def load_rows(mount: RemoteMount, source: Path, environ: dict[str, str]) -> list[dict[str, object]]:
    """`wcache load` with the page cache dropped, against the line's own speed: the worker's reading, and the whole command."""
    rows: list[dict[str, object]] = []
    for what, latency_ms, shards in (("4 shards", 20, LOAD_SHARDS), ("1 shard", 20, 1), ("4 shards", 100, LOAD_SHARDS)):
        name = f"load-{latency_ms}-{shards}"
        place = mount.path / make_checkpoint(source / name, shards, LOAD_BYTES // shards).name
        forget(sorted((source / name).glob("*.safetensors")))
        mount.turn(latency_ms, LOAD_MB_S)
        result = json.loads(wcache(environ, "load", str(place), "--json"))
        asked = mount.turn()
        read_s = result["seconds"]["read"]
        rate = LOAD_BYTES / 1e6 / read_s
        where = f"cold load of {LOAD_BYTES >> 20} MiB in {what}, {latency_ms} ms, {LOAD_MB_S} MB/s"
        rows.append({"what": f"{where}: reading and hashing", "value": rate, "unit": "MB/s", "goal": f">= {LOAD_MB_S * 0.9:.0f}"})
        rows.append({"what": f"{where}: reads", "value": asked["operations"]["read"], "unit": "", "goal": ""})
        wcache(environ, "release", result["residency"], "--force")
    return rows


def measure(latencies_ms: tuple[float, ...], *, loads: bool = True) -> list[dict[str, object]]:
    if why := missing():
        sys.stderr.write(f"nothing is measured: {why}\n")
        return []
    with tempfile.TemporaryDirectory(prefix="wc-remote-") as scratch, places() as environ:
        source = Path(scratch) / "source"
        source.mkdir()
        with RemoteMount(source, Path(scratch) / "mount") as mount:
            wcache(environ, "daemon", "start")
            try:
                rows = restart_rows(mount, source, environ, latencies_ms) if latencies_ms else []
                return [*rows, *(load_rows(mount, source, environ) if loads else [])]
            finally:
                wcache(environ, "daemon", "stop", "--force", check=False)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--latency-ms", type=float, action="append", help="may be given several times (default: 5, 20, 100)")
    parser.add_argument("--only", choices=("restarts", "loads"), help="one half of it")
    arguments = parser.parse_args()
    latencies_ms = () if arguments.only == "loads" else tuple(arguments.latency_ms or LATENCIES_MS)
    found = measure(latencies_ms, loads=arguments.only != "restarts")
    if arguments.json:
        sys.stdout.write(json.dumps(found) + "\n")
    else:
        for row in found:
            value = row["value"] if isinstance(row["value"], str) else f"{row['value']:.1f}"
            sys.stdout.write(f"{row['what']:<86} {value:>16} {row['unit']:<4} {row['goal']}\n")
