"""Starts of a real vLLM, from the process to its first token: its own loader with a warm and a cold page cache, wcache's raw and processed
tensors, and, on a GPU, vLLM's own `vllm preload`. Each start is a new process; the ways take turns.

The checkpoint is a random 4B model in Qwen3's layout (bfloat16, 8 GB) unless one is given. Cold means that the kernel dropped the files'
pages just before. Runs in the environment that vLLM is installed in; the first start of all is not counted, since it fills vLLM's caches.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

from page_cache import forget
from places import places, wcache

HERE = Path(__file__).resolve().parent
ENGINE = HERE / "vllm_engine.py"
WAIT_S = 300
COMMON: dict[str, Any] = {
    "enforce_eager": True, "max_model_len": 2048, "skip_tokenizer_init": True, "seed": 0, "gpu_memory_utilization": 0.4,
}  # fmt: skip
# As `vllm serve` says it.
OPTIONS = [f"--{name.replace('_', '-')}" + ("" if value is True else f"={value}") for name, value in COMMON.items()]
WAYS: dict[str, dict[str, Any]] = {
    "disk, warm": {},
    "disk, cold": {},
    "wcache raw": {"load_format": "wcache", "model_loader_extra_config": {"tensors": "raw", "fallback": False}},
    "wcache processed": {"load_format": "wcache", "model_loader_extra_config": {"tensors": "processed", "fallback": False}},
    "vllm preload": {"load_format": "ipc_cache", "model_loader_extra_config": {"fallback": False}},
}
STEPS = ("load_s", "ready_s", "first_token_s")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--checkpoint", type=Path, help="a checkpoint of vLLM's, instead of the random one")
    parser.add_argument("--way", action="append", choices=list(WAYS), help="only these, beside the load from disk (repeat it)")
    parser.add_argument("--logs", type=Path, help="where what the engines wrote goes (default: away)")
    args = parser.parse_args()
    try:
        import vllm
    except ImportError as error:
        sys.stderr.write(f"skipped: {error}\n")
        sys.stdout.write("[]\n" if args.json else "")
        return 0
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # the daemons and the files must go too
    with tempfile.TemporaryDirectory(prefix="wc-bench-") as scratch:
        logs = args.logs or Path(scratch) / "logs"
        logs.mkdir(parents=True, exist_ok=True)
        rows = Starts(args.checkpoint or made(Path(scratch)), logs, args.way or list(WAYS)).measure(args.rounds)
    if args.json:
        sys.stdout.write(json.dumps(rows) + "\n")
        return 0
    sys.stdout.write(f"vLLM {vllm.__version__}, {args.rounds} starts of each way\n")
    for row in rows:
        sys.stdout.write(f"{row['what']:56} {row['value']!s:>24} {row['unit']:6} {row['goal']}\n")
    return 0


def made(scratch: Path) -> Path:
    path = scratch / "model"
    subprocess.run([sys.executable, str(HERE / "gpu_transformers.py"), "--make", str(path), "36"], check=True)
    return path


class Starts:
    """All starts of one checkpoint. `machine`-wide things are read once: whether there is a GPU, and how much of its memory is in use."""

    def __init__(self, checkpoint: Path, logs: Path, ways: list[str]) -> None:
        import torch

        self._checkpoint = checkpoint.absolute()
        self._logs = logs
        self._ways = [way for way in WAYS if way == "disk, warm" or way in ways]
        self._gpu = torch.cuda.is_available()
        self._found: dict[str, list[dict[str, Any]]] = {}
        self._rows: list[dict[str, Any]] = []

    def measure(self, rounds: int) -> list[dict[str, Any]]:
        files = sorted(self._checkpoint.glob("*.safetensors"))
        with places() as environ:
            environ["WCACHE_ON_MISS"] = "strict"
            wcache(environ, "daemon", "start")
            self._start(environ, "disk, warm", "first")  # fills vLLM's own caches
            nothing_mib = self._used_mib()
            self._timed(environ, "wcache load", "load", str(self._checkpoint))
            self._timed(environ, "wcache preload", "preload", "--", "vllm", "serve", str(self._checkpoint), *OPTIONS)
            self._row("GPU memory with only wcache's daemon", self._used_mib() - nothing_mib, "MiB")
            with self._preloaded(environ) as ways:
                for number in range(rounds):
                    for way in list(ways):
                        if way == "disk, cold":
                            forget(files)
                        try:
                            self._found.setdefault(way, []).append(self._start(environ, way, str(number)))
                        except RuntimeError as error:  # the others go on
                            ways.remove(way)
                            del self._found[way]
                            self._row(way, "failed", "")
                            sys.stderr.write(f"{error}\n")
        expected = self._found["disk, warm"][0]["tokens"]
        for way, starts in self._found.items():
            for step in STEPS:
                values = sorted(float(start[step]) for start in starts)
                middle = f"{statistics.median(values):.2f} ({values[0]:.2f} to {values[-1]:.2f})"
                self._row(f"{way}: {step.removesuffix('_s').replace('_', ' ')}", middle, "s")
            same = all(start["tokens"] == expected for start in starts)
            self._row(f"{way}: tokens equal to those from disk", "yes" if same else "NO", "", "yes")
            self._row(f"{way}: said", starts[-1]["said"], "")
        return self._rows

    def _start(self, environ: dict[str, str], way: str, label: str) -> dict[str, Any]:
        arguments = {"model": str(self._checkpoint), **COMMON, **WAYS[way]}
        log = self._logs / f"{re.sub('[^a-z]+', '-', way)}-{label}.log"
        with log.open("w") as file:
            command = [sys.executable, str(ENGINE), str(time.monotonic()), json.dumps(arguments)]
            done = subprocess.run(
                command, env=environ, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=file, text=True, timeout=WAIT_S, check=False
            )
        with log.open("a") as file:
            file.write(done.stdout)  # vLLM's own lines
        said = log.read_text()
        if done.returncode:
            raise RuntimeError(f"a start of {way} ended with {done.returncode}:\n{said[-3000:]}")
        (answer,) = [line for line in done.stdout.splitlines() if line.startswith('{"ready_s"')]  # engines may say more behind it
        found: dict[str, Any] = json.loads(answer)
        loading = re.findall(r"Model loading took .*?([\d.]+) seconds", said)
        found["load_s"] = float(loading[-1]) if loading else float("nan")
        mapped = re.findall(r"(Mapped \d+ .*?weight cache daemon \(\w+ mode\))", said)
        found["said"] = mapped[-1] if mapped else ""
        sys.stderr.write(
            f"{way:20} load {found['load_s']:.2f} s, ready {found['ready_s']:.2f} s, first token {found['first_token_s']:.2f} s\n"
        )
        sys.stderr.flush()
        return found

    def _timed(self, environ: dict[str, str], what: str, *arguments: str) -> None:
        began_s = time.monotonic()
        try:
            wcache(environ, *arguments)
        except subprocess.CalledProcessError as error:  # the starts say what comes of it
            sys.stderr.write(f"{what} failed: {error.stderr[-2000:]}\n")
            self._row(what, "failed", "")
            return
        self._row(what, f"{time.monotonic() - began_s:.2f}", "s")

    @contextmanager
    def _preloaded(self, environ: dict[str, str]) -> Iterator[list[str]]:
        """The ways that there are, with the peer's daemon where it runs: it needs CUDA IPC."""
        ways = [way for way in self._ways if way != "vllm preload"]
        if not self._gpu or "vllm preload" not in self._ways:
            yield ways
            return
        sockets = tempfile.mkdtemp(prefix="wc-peer-")
        WAYS["vllm preload"]["model_loader_extra_config"]["socket_dir"] = sockets
        before_mib, began_s = self._used_mib(), time.monotonic()
        log = self._logs / "peer.log"
        with log.open("w") as file:
            command = [
                sys.executable, "-m", "vllm.entrypoints.cli.main", "preload", "--model", str(self._checkpoint), *OPTIONS,
                "--weight-cache-socket-dir", sockets,
            ]  # fmt: skip
            process = subprocess.Popen(command, env=environ, stdin=subprocess.DEVNULL, stdout=file, stderr=file, start_new_session=True)
        try:
            while "READY" not in log.read_text() and process.poll() is None and time.monotonic() - began_s < WAIT_S:
                time.sleep(0.1)
            if "READY" in log.read_text():
                self._row("vllm preload, until READY", f"{time.monotonic() - began_s:.2f}", "s")
                self._row("GPU memory of vllm preload's daemon", self._used_mib() - before_mib, "MiB")
                ways.append("vllm preload")
            else:
                self._row("vllm preload", "did not get ready", "")
                sys.stderr.write(log.read_text()[-2000:])
            yield ways
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)
            with suppress(subprocess.TimeoutExpired):
                process.wait(20)
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)

    def _used_mib(self) -> int:
        if not self._gpu:
            return 0
        from gpu_places import settled_mib

        from wcache.core.memory import nvml

        return settled_mib(nvml.chosen(None, os.environ.get("CUDA_VISIBLE_DEVICES"))[0])

    def _row(self, what: str, value: Any, unit: str, goal: str = "") -> None:
        self._rows.append({"what": what, "value": value, "unit": unit, "goal": goal})


if __name__ == "__main__":
    sys.exit(main())
