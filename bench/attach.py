"""Attaching 272 and 5,000 tensors in 1 and 66 shards, step by step, beside `safetensors.torch.load_file` of the same files.

Every shape is there in two sizes, which take turns: an attach maps, so it must not depend on the bytes. The steps are timed around the
loader's own calls. The daemon's share is the processor time of its server (loop and ledger thread) and of its vault, as the kernel counts
it (schedstat): what a busy machine adds to the waiting is not in it. Until the descriptors are there somebody waits for it; what is
recorded of the map and of the lease's end comes afterwards.
"""

from __future__ import annotations

import functools
import json
import os
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from places import places, sparse_checkpoint, wcache
from rows import Row, main, ratio, timing

SHAPES = ((272, 1), (272, 66), (5_000, 1), (5_000, 66))  # tensors, shards
SIZES_BYTES = (16 << 20, 256 << 20)
ROUNDS = 3
RUNS = 6
SETTLED_S = 0.01
GOAL_MS = 10
GOAL_DAEMON_MS = 2
STEPS = {
    "connect and shake hands": ("wcache.loader.session", "Session", "__init__"),
    "offer": ("wcache.loader.session", "Session", "begin"),
    "evidence: a stat of every file, and decide": ("wcache.loader.attach", "", "gather"),
    "the daemon's decision, on record": ("wcache.core.wire.channel", "Channel", "call"),
    "descriptors": ("wcache.loader.session", "Session", "decide"),
    "check seals, parse headers": ("wcache.loader.session", "", "_checked"),
    "map, make the tensors": ("wcache.loader.attachment", "Attachment", "tensors"),
}
"""In the order of an attach. Two hold another one, which is taken off: gather the offer, Session.decide the decision and the headers."""


class Steps:
    """Milliseconds an attach of every step."""

    def __init__(self) -> None:
        self.ms: dict[str, list[float]] = {step: [] for step in STEPS}
        self._now: dict[str, float] = {}

    @contextmanager
    def around_the_loader(self) -> Iterator[None]:
        import importlib

        from wcache.core.wire.messages import Decide

        before = []
        for step, (module, owner, name) in STEPS.items():
            home: Any = importlib.import_module(module)
            home = getattr(home, owner) if owner else home
            plain = getattr(home, name)
            before.append((home, name, plain))
            only = Decide if name == "call" else None
            setattr(home, name, self._timed(step, plain, only))
        try:
            yield
        finally:
            for home, name, plain in before:
                setattr(home, name, plain)

    def _timed(self, step: str, plain: Callable[..., Any], only: type | None) -> Callable[..., Any]:
        @functools.wraps(plain)
        def timed(*arguments: Any, **named: Any) -> Any:
            if only is not None and not isinstance(arguments[1], only):
                return plain(*arguments, **named)
            began = time.perf_counter()
            try:
                return plain(*arguments, **named)
            finally:
                self._now[step] = self._now.get(step, 0.0) + (time.perf_counter() - began) * 1e3

        return timed

    def finish_attach(self) -> None:
        connect, offer, evidence, decision, descriptors, headers, mapping = (self._now.get(step, 0.0) for step in STEPS)
        parts = (connect, offer, evidence - offer, decision, descriptors - decision - headers, headers, mapping)
        for step, value in zip(STEPS, parts, strict=True):
            self.ms[step].append(value)
        self._now.clear()


def processor_ms(*pids: int) -> float:
    """What all threads of these processes have run so far (proc(5), schedstat: nanoseconds)."""
    files = [path for pid in pids for path in Path(f"/proc/{pid}/task").glob("*/schedstat")]
    return sum(int(path.read_text(encoding="ascii").split()[0]) for path in files) / 1e6


def settled_ms(*pids: int) -> float:
    """As `processor_ms`, once they have nothing left to do. It does not sleep: a virtual processor that went idle comes back slow, and what
    runs next takes three times as long."""
    found, since = processor_ms(*pids), time.perf_counter()
    while time.perf_counter() - since < SETTLED_S:
        now = processor_ms(*pids)
        if now != found:
            found, since = now, time.perf_counter()
    return found


def times_ms(run: Callable[[], Any]) -> list[float]:
    found = []
    for _ in range(RUNS):
        began = time.perf_counter()
        held = run()
        found.append((time.perf_counter() - began) * 1e3)
        del held
    return found


class Case:
    """One checkpoint and what was measured of it, a list of RUNS values a round."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.files = sorted(place.glob("*.safetensors"))
        self.attached: list[list[float]] = []
        self.mapped: list[list[float]] = []
        self.waited_for_ms: list[float] = []
        self.engine_ms: list[float] = []
        self.daemon_ms: list[float] = []
        self.steps = Steps()

    def round(self, daemon: tuple[int, ...]) -> None:
        from safetensors.torch import load_file

        from wcache.loader.attach import attach

        def once() -> Any:
            attachment = attach(self.place, on_miss="strict")
            return attachment, attachment.tensors()

        self.mapped.append(times_ms(lambda: [load_file(file) for file in self.files]))
        self.attached.append(times_ms(once))
        for _ in range(RUNS):
            before_ms, began = settled_ms(*daemon), time.process_time()
            attachment = attach(self.place, on_miss="strict")
            self.waited_for_ms.append(processor_ms(*daemon) - before_ms)
            attachment.tensors()
            self.engine_ms.append((time.process_time() - began) * 1e3)
            attachment.close()
            self.daemon_ms.append(settled_ms(*daemon) - before_ms)
        with self.steps.around_the_loader():
            for _ in range(RUNS // 2):
                once()
                self.steps.finish_attach()

    def middles(self) -> list[float]:
        return [statistics.median(values) for values in self.attached]


def measure() -> list[Row]:
    rows: list[Row] = []
    with places() as environ:
        os.environ.update(environ)
        scratch = Path(environ["WCACHE_STATE_DIR"]).parent
        wcache(environ, "daemon", "start")
        cases = {}
        for tensors, shards in SHAPES:
            for size_bytes in SIZES_BYTES:
                place = sparse_checkpoint(scratch / f"m-{tensors}-{shards}-{size_bytes}", tensors, shards, size_bytes)
                wcache(environ, "load", str(place))
                cases[tensors, shards, size_bytes] = Case(place)
        status = json.loads(wcache(environ, "status", "--json"))
        daemon = (int(status["server_pid"]), int(status["vault_pid"]))
        os.sync()
        for case in cases.values():
            Case(case.place).round(daemon)  # imports, page cache: not counted
        for _ in range(ROUNDS):
            for case in cases.values():
                case.round(daemon)
        for tensors, shards in SHAPES:
            small, large = (cases[tensors, shards, size_bytes] for size_bytes in SIZES_BYTES)
            rows += rows_of(shape_name(tensors, shards), small, large, tensors)
    return rows


def shape_name(tensors: int, shards: int) -> str:
    return f"{tensors:,} tensors in {shards} shard{'s' if shards > 1 else ''}"


def flat(rounds: list[list[float]]) -> list[float]:
    return [value for values in rounds for value in values]


def rows_of(shape: str, small: Case, large: Case, tensors: int) -> list[Row]:
    goal = f"<= {GOAL_MS}" if tensors == 272 else ""
    small_mib, large_mib = (size >> 20 for size in SIZES_BYTES)
    rows = [
        timing(f"{shape}: attach, {large_mib} MiB", flat(large.attached), "ms", goal),
        ratio(
            f"{shape}: attach of {large_mib} / {small_mib} MiB", list(zip(large.middles(), small.middles(), strict=True)),
            f"the same with {small_mib} MiB", "<= 1.3: flat in the bytes",
        ),
        timing(f"{shape}: safetensors load_file (mmap, warm page cache)", flat(large.mapped), "ms"),
        ratio(
            f"{shape}: attach / safetensors load_file",
            [(attached, statistics.median(mapped)) for attached, mapped in zip(large.middles(), large.mapped, strict=True)],
            "safetensors.torch.load_file of the same files, warm page cache",
        ),
        timing(
            f"{shape}: the daemon's processor time until the descriptors are there", small.waited_for_ms + large.waited_for_ms, "ms",
            f"<= {GOAL_DAEMON_MS}",
        ),
        ratio(
            f"{shape}: processor time, the daemon's until the descriptors are there / the engine's own",
            list(zip(small.waited_for_ms + large.waited_for_ms, small.engine_ms + large.engine_ms, strict=True)),
            "the engine's process in the same attach",
        ),
        timing(f"{shape}: the daemon's processor time until the lease's end is on record", small.daemon_ms + large.daemon_ms, "ms"),
    ]  # fmt: skip
    rows += [timing(f"{shape}: step, {step}", small.steps.ms[step] + large.steps.ms[step], "ms") for step in STEPS]
    return rows


if __name__ == "__main__":
    main(__doc__, measure)
