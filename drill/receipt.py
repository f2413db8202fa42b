"""The receipt of a drill: on what, of which versions, how long, how much memory, and after how many restarts it pays."""

from __future__ import annotations

import math
import platform
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from wcache.core import __version__
from wcache.core.checkpoint.checkpoint import Checkpoint
from wcache.drill.command import ServerCommand
from wcache.drill.memory import MemoryPoint
from wcache.drill.runs import Result
from wcache.ledger.audit import Audit
from wcache.ledger.moment import utc

COLD = "cold means that there was no daemon, not that the page cache was empty; page_cache_share is how much of the shards it held"


class Preparation(msgspec.Struct, frozen=True, kw_only=True):
    """What must happen once before starts are quick. `publish_s`: a start that made the processed tensors."""

    daemon_start_s: float
    load_s: float
    load_phases_s: dict[str, float]
    publish_s: float | None
    weights_digest: str
    resident: list[dict[str, Any]]

    @property
    def total_s(self) -> float:
        return self.daemon_start_s + self.load_s + (self.publish_s or 0.0)


def receipt(
    *,
    server: ServerCommand,
    checkpoint: Checkpoint,
    options: dict[str, Any],
    device: dict[str, Any],
    began_s: float,
    preparation: Preparation,
    points: Sequence[MemoryPoint],
    results: Sequence[Result],
    ledger: Path,
) -> dict[str, Any]:
    """The document of `drill.json`, but for its table. `held`: every expectation of every run."""
    engines = {(row["engine"], row["engine_version"]) for seen in results for row in seen.attaches}
    dtypes = sorted({entry.dtype for shard in checkpoint.shards for entry in shard.header.tensors})
    with Audit(ledger) as audit:
        head = audit.head()
    return {
        "held": all(seen.held for seen in results),
        "began_utc": utc(int(began_s * 1e9)),
        "ended_utc": utc(time.time_ns()),
        "command": list(server.words),
        "options": options,
        "device": device,
        "versions": {
            "wcache": __version__,
            "python": platform.python_version(),
            "engines": [f"{name} {version}".strip() for name, version in sorted(engines)],
        },
        "model": {
            "spelling": server.model,
            "root": checkpoint.location.root,
            "repo": checkpoint.location.repo,
            "commit": checkpoint.location.commit,
            "dtypes": dtypes,
            "tensors": checkpoint.tensor_count,
            "shards": len(checkpoint.shards),
            "bytes": checkpoint.total_bytes,
            "file_system": checkpoint.location.fs_kind,
            "weights_digest": preparation.weights_digest,
        },
        "download_s": None,  # wcache never uses the network: the checkpoint must be there
        "preparation": {**msgspec.to_builtins(preparation), "total_s": preparation.total_s},
        "time_to_ready_s": times(results, "elapsed_s"),
        "weights_s": times(results, "weights_s"),
        "pays_after_restarts": pays_after(preparation.total_s, results),
        "page_cache": COLD,
        "memory": [msgspec.to_builtins(point) for point in points],
        "runs": [{**msgspec.to_builtins(seen), "held": seen.held} for seen in results],
        "ledger": head,
    }


def times(results: Sequence[Result], name: str) -> dict[str, list[float]]:
    """Every raw value of the runs that got ready, by what they were; nothing else is a time."""
    found: dict[str, list[float]] = {}
    for seen in results:
        value = getattr(seen, name)
        if seen.ready and value is not None:
            found.setdefault(seen.case, []).append(value)
    return found


def pays_after(cost_s: float, results: Sequence[Result]) -> int | None:
    """Restarts until the preparation is won back; None where a warm start is not quicker than the disk, or did not go as it must.

    A mean warm start against the quickest from disk: the first start of all fills caches of the engine, which is no gain of this one.
    """
    ready = times(results, "elapsed_s")
    disk, warm = [*ready.get("disk", ()), *ready.get("absent_fallback", ())], ready.get("warm")
    if not disk or not warm or any(not seen.held for seen in results if seen.case in ("disk", "warm")):
        return None
    gain_s = min(disk) - sum(warm) / len(warm)
    return math.ceil(cost_s / gain_s) if gain_s > 0 else None
