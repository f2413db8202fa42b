"""Starts of `vllm serve`, up to its `/health`, where the checkpoint lies on a remote file system: with vLLM's own loader, with the tensors
that wcache holds, below a granted store, by the plugin and by `wcache view`; and where it lies on the local disk. The ways take turns; each
start is a new process, and asks the file system (`remote_mount.py`) for everything anew.

The checkpoint is SmolLM2-135M in 66 shards. vLLM runs in the Python of the virtual environment that WCACHE_TEST_VLLM names (default
.venv-vllm). The first start of all is not counted, since it fills vLLM's own caches. Takes a minute a start.
"""

from __future__ import annotations

import json
import shutil
import signal
import socket
import sys
import tempfile
import urllib.request
from argparse import ArgumentParser
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from places import checkpoint, places, wcache
from remote_fs import SHARDS, vllm_python
from remote_mount import RemoteMount, missing
from rows import Row, columns, figure, ratio, table, timing

from wcache.drill.server import RunningServer

BANDWIDTH_MB_S = 100.0
WAIT_S = 900
PROMPT = "The capital of France is"
LOCAL, OWN, OURS, VIEW = "own loader, local disk", "own loader, remote", "wcache plugin, remote", "wcache view, remote"


def resharded(source: Path, target: Path, shards: int) -> Path:
    """The same tensors in more files, in the order of their names, with everything else that lies beside them."""
    from safetensors.torch import load_file, save_file

    tensors = {name: tensor for shard in sorted(source.glob("*.safetensors")) for name, tensor in load_file(shard).items()}
    target.mkdir(parents=True)
    for path in source.iterdir():
        if path.is_file() and not path.name.endswith((".safetensors", ".index.json")):
            shutil.copy(path, target)
    names = sorted(tensors)
    weight_map = {}
    for number in range(shards):
        file = f"model-{number + 1:05d}-of-{shards:05d}.safetensors"
        part = names[len(names) * number // shards : len(names) * (number + 1) // shards]
        save_file({name: tensors[name] for name in part}, target / file, metadata={"format": "pt"})
        weight_map.update(dict.fromkeys(part, file))
    (target / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))
    return target


def started(
    python: str, environ: dict[str, str], model: str, log: Path, before: tuple[str, ...], options: tuple[str, ...]
) -> dict[str, Any]:
    """One `vllm serve` up to its first answer: seconds to `/health`, and a greedy answer. Raises RuntimeError for a start that failed."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    small = ("--enforce-eager", "--max-model-len", "256", "--max-num-seqs", "4", "--served-model-name", "m")
    vllm = str(Path(python).with_name("vllm"))
    command = [*before, vllm, "serve", model, "--host", "127.0.0.1", "--port", str(port), *small, *options]
    with RunningServer(command, environ, log) as server:
        if not server.wait_healthy(url, WAIT_S):
            raise RuntimeError("`vllm serve` did not get ready:\n" + "\n".join(server.last_words()))
        health_s = server.elapsed_s
        body = json.dumps({"model": "m", "prompt": PROMPT, "max_tokens": 8, "temperature": 0}).encode()
        request = urllib.request.Request(f"{url}/v1/completions", body, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=WAIT_S) as answer:
            text = json.load(answer)["choices"][0]["text"]
    return {"health_s": health_s, "text": text, "mapped": "Mapped" in log.read_text()}


def measure(latency_ms: float, rounds: int) -> list[Row]:
    python = vllm_python()
    if why := missing() or ("" if python else "there is no vLLM here (WCACHE_TEST_VLLM)"):
        sys.stderr.write(f"nothing is measured: {why}\n")
        return []
    assert python is not None
    with tempfile.TemporaryDirectory(prefix="wc-remote-") as scratch, places() as environ:
        local = resharded(checkpoint(), Path(scratch) / "source" / "model", SHARDS)
        environ |= {
            "HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_CPU_OMP_THREADS_BIND": "nobind",
            "VLLM_CACHE_ROOT": f"{scratch}/vllm",
        }  # fmt: skip
        with RemoteMount(local.parent, Path(scratch) / "mount") as mount:
            model = mount.path / local.name
            wcache(environ, "daemon", "start")
            wcache(environ, "load", str(model))
            wcache(environ, "trust", "grant", "--store", str(model), "--reason", "the bench made it and writes it once")
            ours = ("--load-format", "wcache", "--model-loader-extra-config", json.dumps({"fallback": False}))
            view = (sys.executable, "-m", "wcache.cli", "view", "--strict", str(model), "--")
            ways: dict[str, tuple[str, tuple[str, ...], tuple[str, ...]]] = {
                LOCAL: (str(local), (), ()), OWN: (str(model), (), ()), OURS: (str(model), (), ours), VIEW: ("{view}", view, ()),
            }  # fmt: skip

            def start(way: str) -> dict[str, Any]:
                place, before, options = ways[way]
                return started(python, environ, place, Path(scratch) / "log", before, options)

            start(LOCAL)
            return _rows(mount, {way: partial(start, way) for way in ways}, latency_ms, rounds)


def _rows(mount: RemoteMount, ways: dict[str, Callable[[], dict[str, Any]]], latency_ms: float, rounds: int) -> list[Row]:
    found: dict[str, list[dict[str, Any]]] = {way: [] for way in ways}
    for _ in range(rounds):
        for way, start in ways.items():
            mount.turn(latency_ms, BANDWIDTH_MB_S)
            try:
                result = start()
            finally:
                asked = mount.turn()
            found[way].append({**result, **asked, "operations": sum(asked["operations"].values())})
            sys.stderr.write(f"{latency_ms:g} ms, {way}: {found[way][-1]}\n")
    texts = {result["text"] for results in found.values() for result in results}
    if len(texts) > 1 or not all(result["mapped"] for result in found[OURS]):
        raise RuntimeError(f"the answers differ, or a start did not map: {found}")
    seconds = {way: [result["health_s"] for result in results] for way, results in found.items()}
    rows = [timing(f"{latency_ms:g} ms, {way}: to /health", values, "s") for way, values in seconds.items()]
    for way in (OWN, OURS, VIEW):
        pairs = list(zip(seconds[way], seconds[LOCAL], strict=True))
        rows.append(ratio(f"{latency_ms:g} ms, {way} / {LOCAL}", pairs, LOCAL))
        for what, unit in (("operations", ""), ("round_trips", ""), ("read_bytes", "B")):
            rows.append(figure(f"{latency_ms:g} ms, {way}: {what.replace('_', ' ')}", found[way][-1][what], unit))
    return rows


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # servers, daemon and mount must go too
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--latency-ms", type=float, default=20)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    rows = measure(arguments.latency_ms, max(2, arguments.rounds))
    if arguments.json:
        sys.stdout.write(json.dumps(rows) + "\n")
    elif rows:
        sys.stdout.write(table([("what", "value", "spread", "unit", "goal")] + [columns(row) for row in rows]))
