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
from pathlib import Path
from typing import Any

from places import places, wcache

sys.path.insert(0, str(Path(__file__).resolve().parent))

ENGINE = Path(__file__).resolve().parent / "gpu_engine.py"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--layers", type=int, default=36)
    parser.add_argument("--dir", type=Path, help="where the checkpoint goes, on a file system whose pins hold (ext4, xfs)")
    args = parser.parse_args()
    from gpu_places import machine, unusable

    why = unusable() or _no_transformers()
    if why:
        sys.stderr.write(f"skipped: {why}\n")
        sys.stdout.write("[]\n" if args.json else "")
        return 0
    with tempfile.TemporaryDirectory(dir=args.dir) as scratch:
        rows = measure(Path(scratch), args.layers)
    if args.json:
        sys.stdout.write(json.dumps(rows) + "\n")
        return 0
    sys.stdout.write(f"{machine()}; Qwen3 layout, {args.layers} layers\n")
    for row in rows:
        sys.stdout.write(f"{row['what']:56} {row['value']!s:>12} {row['unit']:6} {row['goal']}\n")
    return 0


def measure(scratch: Path, layers: int) -> list[dict[str, Any]]:
    from wcache.core.memory import cuda, nvml

    uuid = cuda.devices()[0].uuid
    checkpoint = scratch / "model"
    subprocess.run([sys.executable, __file__, "--make", str(checkpoint), str(layers)], check=True)

    def used_mib() -> int:
        return nvml.memory(uuid).used_bytes >> 20

    with places() as environ:
        environ["WCACHE_ON_MISS"] = "strict"
        wcache(environ, "daemon", "start")
        empty_mib = used_mib()
        with _Engine(environ, checkpoint, "disk") as disk:
            reference = disk.answer()
            engine_mib = used_mib() - empty_mib
        loaded = json.loads(wcache(environ, "load", str(checkpoint), "--json"))
        with _Engine(environ, checkpoint, "wcache") as fed:
            from_host = fed.answer()
        wcache(environ, "release", _residency(loaded))
        loaded = json.loads(wcache(environ, "load", str(checkpoint), "--device", "cuda:0", "--json"))
        weights_mib = used_mib() - empty_mib
        with _Engine(environ, checkpoint, "wcache") as one:
            first = one.answer()
            one_mib = used_mib() - empty_mib - weights_mib
            with _Engine(environ, checkpoint, "wcache") as two:
                second = two.answer()
                two_mib = used_mib() - empty_mib - weights_mib
        with _Engine(environ, checkpoint, "copy") as own:
            copied = own.answer()
            copied_mib = used_mib() - empty_mib
        return [
            _row("model from disk (page cache)", round(reference["seconds"], 3), "s"),
            _row("model on mapped GPU memory", round(first["seconds"], 3), "s"),
            _row("model fed from host memory", round(from_host["seconds"], 3), "s"),
            _row("parameters in the daemon's memory", f"{first['mapped']} of {first['parameters']}", "", "all"),
            _row("logits and greedy tokens equal: mapped", _equal(reference, first), "", "yes"),
            _row("logits and greedy tokens equal: a second engine", _equal(reference, second), "", "yes"),
            _row("logits and greedy tokens equal: fed from host", _equal(reference, from_host), "", "yes"),
            _row("logits and greedy tokens equal: mode copy", _equal(reference, copied), "", "yes"),
            _row("GPU memory: the resident weights", weights_mib, "MiB"),
            _row("GPU memory: an engine from disk", engine_mib, "MiB"),
            _row("GPU memory: one mapped engine beside the weights", one_mib, "MiB"),
            _row("GPU memory: two mapped engines beside the weights", two_mib, "MiB", "two small ones"),
            _row("GPU memory: an engine in mode copy, weights released", copied_mib, "MiB", "as from disk"),
        ]


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

    def answer(self) -> dict[str, Any]:
        if self._process.stdout is None:
            raise AssertionError
        found: dict[str, Any] = json.loads(self._process.stdout.readline() or '{"error": "the engine failed"}')
        if "error" in found:
            raise RuntimeError(found["error"])
        return found

    def __enter__(self) -> _Engine:
        return self

    def __exit__(self, *exc: object) -> None:
        if self._process.stdin is not None:
            self._process.stdin.close()
        try:
            self._process.wait(60)
        finally:
            self._process.kill()
            self._process.wait()


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
