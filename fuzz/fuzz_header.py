"""Fuzz the safetensors header parser against the safetensors package: `make fuzz`, or

    python fuzz/fuzz_header.py -runs=1000000 [CORPUS ...]

Arguments are libFuzzer's. docs/fuzzing.md says what a run promises and what the recorded ones found.
"""

from __future__ import annotations

import random

from runner import run


def mutator(data: bytes, source: random.Random) -> bytes:
    """Keeps the length prefix right, so that an edit gets further than to the first check."""
    from support.mutations import edited_header

    length = int.from_bytes(data[:8], "little")
    text, tensors = data[8 : 8 + length], data[8 + length :]
    if not text or length > len(data):
        text, tensors = data, b""
    text = edited_header(source, text)
    if source.random() < 0.3 and tensors:
        tensors = tensors[: source.randrange(len(tensors) + 1)]
    return len(text).to_bytes(8, "little") + text + tensors


if __name__ == "__main__":
    run("header", mutator)
