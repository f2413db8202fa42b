"""A small server that speaks vLLM's command line and HTTP protocol, and gets its weights as an engine does: for tests of the drill.

    serving.py [serve] MODEL --port PORT [--dtype DTYPE] [--load-format wcache --model-loader-extra-config JSON] [vices]

With `--load-format wcache` it attaches through `wcache.loader`; without, it reads with the safetensors package and knows nothing of
wcache. What it answers depends on every byte of its weights. Vices: `--lenient` reads the disk after a strict miss, `--moody` answers
otherwise each time, `--deaf` never listens, `--stubborn` ignores SIGINT and has a child that does too, `--lazy` loads when it is asked.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import secrets
import signal
import subprocess
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--load-format", default="auto")
    parser.add_argument("--model-loader-extra-config", type=json.loads, default={})
    for vice in ("lenient", "moody", "deaf", "stubborn", "lazy"):
        parser.add_argument(f"--{vice}", action="store_true")
    return parser.parse_args(arguments[arguments[:1] == ["serve"] :])


def from_disk(model: str) -> str:
    from safetensors import safe_open

    found = hashlib.sha256()
    for path in sorted(Path(model).glob("*.safetensors")):
        with safe_open(path, framework="np") as file:
            for name in sorted(file.keys()):
                found.update(file.get_tensor(name).tobytes())
    return found.hexdigest()


def from_cache(options: argparse.Namespace) -> str:
    from wcache.core.model.events import Engine
    from wcache.core.model.vocabulary import Mode
    from wcache.loader.attach import attach

    extra = options.model_loader_extra_config
    assert extra["tensors"] == "raw", extra
    dtype = {"float32": "F32", "bfloat16": "BF16"}[options.dtype]
    engine = Engine(name="vllm", version="0.0-test", pid=os.getpid())
    began_s = time.monotonic()
    attached = attach(options.model, dtype=dtype, engine=engine, on_miss="fallback" if extra["fallback"] else "strict")
    if not attached.hit:
        found = from_disk(options.model)
        attached.fell_back(attached_bytes(options.model), time.monotonic() - began_s)
        return found
    hashed = hashlib.sha256()
    tensors = 0
    for name in sorted(attached.segments):
        segment = attached.segments[name]
        for entry in sorted(segment.header.tensors, key=lambda entry: entry.name):
            hashed.update(os.pread(segment.descriptor, entry.size_bytes, segment.header.header_bytes + entry.begin))
            tensors += 1
    size_bytes = attached.weights_bytes
    took_ms = (time.monotonic() - began_s) * 1000
    attached.mapped(Mode.COPY, tensors=tensors, size_bytes=size_bytes, copied_tensors=tensors, copied_bytes=size_bytes, ms=took_ms)
    attached.close()
    return hashed.hexdigest()


def attached_bytes(model: str) -> int:
    return sum(path.stat().st_size for path in Path(model).glob("*.safetensors"))


def load(options: argparse.Namespace) -> str:
    if options.load_format != "wcache":
        return from_disk(options.model)
    from wcache.core.model.errors import StrictMiss

    try:
        return from_cache(options)
    except StrictMiss:
        if options.lenient:
            return from_disk(options.model)
        raise


def serve(options: argparse.Namespace) -> None:
    weights: list[str] = [] if options.lazy else [load(options)]

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._say({"data": [{"id": options.model}]} if self.path == "/v1/models" else {"status": "ok"})

        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            try:
                weights.append(weights[0] if weights else load(options))
            except Exception as error:
                self._say({"error": str(error)}, 500)
                return
            assert (asked["model"], asked["max_tokens"], asked["temperature"]) == (options.model, 16, 0), asked
            mood = secrets.token_hex(4) if options.moody else ""
            text = hashlib.sha256(f"{weights[0]} {asked['prompt']} {mood}".encode()).hexdigest()
            self._say({"choices": [{"text": text}]})

        def _say(self, document: dict[str, Any], status: int = 200) -> None:
            body = json.dumps(document).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *words: Any) -> None:
            pass

    if options.deaf:
        signal.pause()
    if options.stubborn:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"])
    print("Loading weights took 0.25 seconds", flush=True)
    ThreadingHTTPServer(("127.0.0.1", options.port), Handler).serve_forever()


if __name__ == "__main__":
    try:
        serve(parse(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(0)
