"""A random 4B model in Qwen3's layout (bfloat16, 8 GB), built by transformers on a GPU: from disk, from the daemon's GPU memory, and fed
from host memory. Every engine is a new process; answers and logits are compared bit by bit, and the GPU's memory is looked at.

Needs about 10 GB of disk and 20 GB of GPU memory; the checkpoint's files are in the page cache when the disk load reads them.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from places import places, wcache

sys.path.insert(0, str(Path(__file__).resolve().parent))

ENGINE = Path(__file__).resolve().parent / "gpu_engine.py"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--layers", type=int, default=36)
    parser.add_argument("--checkpoint", type=Path, help="one that --make wrote before, instead of a new one")
    parser.add_argument("--dir", type=Path, help="where the checkpoint goes, on a file system whose pins hold (ext4, xfs)")
    args = parser.parse_args()
    from gpu_places import machine, unusable

    why = unusable() or _no_transformers()
    if why:
        sys.stderr.write(f"skipped: {why}\n")
        sys.stdout.write("[]\n" if args.json else "")
        return 0
    if not args.json:
        sys.stdout.write(f"{machine()}; Qwen3 layout, {args.layers} layers\n")
    rows = []
    with tempfile.TemporaryDirectory(dir=args.dir) as scratch:
        for row in measure(args.checkpoint or Path(scratch) / "model", args.layers, make_it=args.checkpoint is None):
            rows.append(row)
            if not args.json:
                sys.stdout.write(f"{row['what']:56} {row['value']!s:>12} {row['unit']:6} {row['goal']}\n")
                sys.stdout.flush()
    if args.json:
        sys.stdout.write(json.dumps(rows) + "\n")
    return 0


def measure(checkpoint: Path, layers: int, *, make_it: bool) -> Iterator[dict[str, Any]]:
    """A row as soon as it is known. All engines begin at once, since importing takes longest, and build their models one after another."""
    from gpu_places import settled_mib

    from wcache.core.memory import cuda

    uuid = cuda.devices()[0].uuid
    if make_it:
        began = time.perf_counter()
        subprocess.run([sys.executable, __file__, "--make", str(checkpoint), str(layers)], check=True)
        yield _row("the checkpoint was made and written", round(time.perf_counter() - began, 1), "s")

    with places() as environ, ExitStack() as stack:
        environ["WCACHE_ON_MISS"] = "strict"
        wcache(environ, "daemon", "start")
        disk, fed, one, two, own = (
            stack.enter_context(_Engine(environ, checkpoint, how)) for how in ("disk", "wcache", "wcache", "wcache", "copy")
        )

        def build(engine: _Engine) -> tuple[dict[str, Any], int]:
            before_mib = settled_mib(uuid)
            answer = engine.do("go")
            return answer, settled_mib(uuid) - before_mib

        began = time.perf_counter()
        on_host = json.loads(wcache(environ, "load", str(checkpoint), "--json"))
        yield _row("wcache load into host memory", round(time.perf_counter() - began, 1), "s")
        for engine in (disk, fed, one, two, own):
            engine.answer()
        reference, disk_mib = build(disk)
        yield _row("model from disk (page cache)", round(reference["seconds"], 3), "s")
        yield _row("GPU memory: that engine", disk_mib, "MiB")
        disk.close()
        answer, _ = build(fed)
        yield _row("model fed from host memory", round(answer["seconds"], 3), "s")
        yield _row("logits and greedy tokens equal", _equal(reference, answer), "", "yes")
        fed.close()
        wcache(environ, "release", _residency(on_host))
        before_mib = settled_mib(uuid)
        began = time.perf_counter()
        wcache(environ, "load", str(checkpoint), "--device", "cuda:0")
        yield _row("wcache load onto the GPU", round(time.perf_counter() - began, 1), "s")
        yield _row("GPU memory: the resident weights", settled_mib(uuid) - before_mib, "MiB")
        for engine, what in ((one, "model on mapped GPU memory"), (two, "a second engine on the same memory")):
            answer, more_mib = build(engine)
            yield _row(what, round(answer["seconds"], 3), "s")
            yield _row("parameters in the daemon's memory", f"{answer['mapped']} of {answer['parameters']}", "", "all")
            yield _row("logits and greedy tokens equal", _equal(reference, answer), "", "yes")
            yield _row("GPU memory: that engine beside the weights", more_mib, "MiB", "small")
            engine.close()
        answer, more_mib = build(own)
        yield _row("model in mode copy", round(answer["seconds"], 3), "s")
        yield _row("logits and greedy tokens equal", _equal(reference, answer), "", "yes")
        yield _row("GPU memory: what it added after the release", more_mib, "MiB", "about 0")


def _residency(loaded: Any) -> str:
    one = loaded[0] if isinstance(loaded, list) else loaded
    return str(one["residency"]["residency"] if isinstance(one["residency"], dict) else one["residency"])


def _equal(one: dict[str, Any], other: dict[str, Any]) -> str:
    return "yes" if (one["tokens"], one["logits"]) == (other["tokens"], other["logits"]) else "NO"


def make(directory: str, layers: str) -> None:
    import torch
    import transformers

    config = transformers.Qwen3Config(
        hidden_size=2560, intermediate_size=9728, num_hidden_layers=int(layers), num_attention_heads=32, num_key_value_heads=8,
        head_dim=128, vocab_size=151936, tie_word_embeddings=True, dtype="bfloat16",
    )  # fmt: skip
    torch.manual_seed(0)
    torch.set_default_dtype(torch.bfloat16)
    with torch.device("cuda"):
        model = transformers.Qwen3ForCausalLM(config)
    model.save_pretrained(directory, max_shard_size="2GB")


class _Engine:
    def __init__(self, environ: dict[str, str], checkpoint: Path, how: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, str(ENGINE), str(checkpoint), how], env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def answer(self) -> Any:
        found = json.loads((self._process.stdout.readline() if self._process.stdout else "") or '{"error": "the engine failed"}')
        if isinstance(found, dict) and "error" in found:
            raise RuntimeError(found["error"])
        return found

    def do(self, what: str) -> Any:
        if self._process.stdin is not None:
            self._process.stdin.write(what + "\n")
            self._process.stdin.flush()
        return self.answer()

    def close(self) -> None:
        """Returns when it has ended."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        try:
            self._process.wait(60)
        finally:
            self._process.kill()
            self._process.wait()

    def __enter__(self) -> _Engine:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def _no_transformers() -> str:
    try:
        import transformers  # noqa: F401
    except ImportError as error:
        return str(error)
    return ""


def _row(what: str, value: Any, unit: str, goal: str = "") -> dict[str, Any]:
    return {"what": what, "value": value, "unit": unit, "goal": goal}


if __name__ == "__main__":
    if sys.argv[1:2] == ["--make"]:
        make(*sys.argv[2:])
    else:
        sys.exit(main())
