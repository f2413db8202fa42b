"""Runs one target under atheris: coverage of wcache's own modules, a limit on memory and on time, and the target's own mutator."""

from __future__ import annotations

import importlib
import random
import resource
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

HERE = Path(__file__).resolve().parent
TIMEOUT_S = 5
ADDRESS_SPACE_BYTES = 1 << 30  # over what the process has at its start
OWN_MUTATIONS = 0.6  # the others are libFuzzer's


def run(name: str, mutator: Callable[[bytes, random.Random], bytes]) -> None:
    """Does not return. New inputs go to the first corpus directory that is named, else to a temporary one."""
    try:
        import atheris
    except ImportError:
        raise SystemExit("atheris is not installed for this Python: `pip install --group fuzz` (CPython 3.11 to 3.13, x86-64)") from None
    with atheris.instrument_imports(include=["wcache.core"]):
        targets = importlib.import_module("targets")
    targets.TRACE_EVERY = 8  # type: ignore[attr-defined]

    def mutate(data: bytes, max_size: int, seed: int) -> bytes:
        source = random.Random(seed)
        if source.random() < OWN_MUTATIONS:
            data = mutator(bytes(data), source)
            if len(data) <= max_size:
                return data
        return bytes(atheris.Mutate(bytes(data)[:max_size], max_size))

    used_bytes = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used_bytes + ADDRESS_SPACE_BYTES, resource.RLIM_INFINITY))
    options = [argument for argument in sys.argv[1:] if argument.startswith("-")]
    corpora = [argument for argument in sys.argv[1:] if not argument.startswith("-")]
    with tempfile.TemporaryDirectory(prefix="wcache-fuzz-") as scratch:
        arguments = [
            sys.argv[0], f"-timeout={TIMEOUT_S}", "-max_len=8192", f"-dict={HERE / f'{name}.dict'}", *options,
            *(corpora or [scratch]), str(HERE / "corpus" / name),
        ]  # fmt: skip
        atheris.Setup(arguments, getattr(targets, name), custom_mutator=mutate)
        atheris.Fuzz()
