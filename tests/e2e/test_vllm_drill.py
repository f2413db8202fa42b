"""`wcache drill -- vllm serve` on a real language model on the CPU, with both kinds of tensors. Minutes: each start is a whole server's."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from support.ports import free_port
from support.vllm import NEEDS_VLLM, SERVED, START_S, VLLM, environ_of, patiently

pytestmark = NEEDS_VLLM

DECIDED = {
    "raw": {
        "disk": [],
        "absent-fallback": [("raw", "fallback", "daemon_absent", None)],
        "absent-strict": [("raw", "strict_miss", "daemon_absent", None)],
        "warm-1": [("raw", "hit", None, "copy")],
        "warm-2": [("raw", "hit", None, "copy")],
        "dtype": [("raw", "hit", None, "copy")],
        "twin": [("raw", "strict_miss", "content_mismatch", None)],
    },
    "processed": {
        "disk": [],
        "absent-fallback": [("processed", "fallback", "daemon_absent", None), ("raw", "fallback", "daemon_absent", None)],
        "absent-strict": [("processed", "fallback", "daemon_absent", None), ("raw", "strict_miss", "daemon_absent", None)],
        "prepare": [("processed", "fallback", "not_resident", None), ("raw", "hit", None, "copy")],
        "warm-1": [("processed", "hit", None, "zero_copy")],
        "warm-2": [("processed", "hit", None, "zero_copy")],
        "dtype": [("processed", "fallback", "config_mismatch", None), ("raw", "strict_miss", "released", None)],
        "twin": [("processed", "fallback", "content_mismatch", None), ("raw", "strict_miss", "not_resident", None)],
    },
}
"""What each start must have asked for and been answered, by the ledger: kind, decision, reason, mode."""


class Drilled(NamedTuple):
    exit_status: int
    said: str
    receipt: Any


@pytest.fixture(scope="module")
def drills(smollm2: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Drilled]:
    """Both kinds beside each other: much of a start is waiting. Processed tensors are computed with by another kernel than the disk's, and
    answers are compared word by word: in float32."""
    patiently()
    place = tmp_path_factory.mktemp("vllm-drill")
    started = {}
    for kind, more in (("raw", ()), ("processed", ("--dtype", "float32"))):
        options = ("--out", place / kind, "--tensors", kind, "--wait", str(int(START_S)))
        server = (VLLM / "bin" / "vllm", "serve", smollm2, "--port", str(free_port()), *SERVED, *more)
        with (place / f"{kind}.txt").open("wb") as sink:
            command = [VLLM / "bin" / "wcache", "drill", *options, "--", *server]
            started[kind] = subprocess.Popen(command, env=environ_of(), stdout=sink, stderr=sink)
    try:
        ended = {kind: process.wait(8 * START_S) for kind, process in started.items()}
    finally:
        for process in started.values():
            process.send_signal(signal.SIGINT)  # nothing, once it has ended
            process.wait()
    said = {kind: (place / f"{kind}.txt").read_text() for kind in started}
    return {kind: Drilled(ended[kind], said[kind], json.loads((place / kind / "drill.json").read_text())) for kind in started}


@pytest.mark.parametrize("kind", ["raw", "processed"])
def test_every_start_of_a_real_server_goes_as_it_must(drills: dict[str, Drilled], kind: str) -> None:
    """I1, I12, A11: hits with the disk's answers, recorded misses without a daemon, another dtype, a twin whose headers are equal."""
    found = drills[kind]
    assert found.exit_status == 0, found.said
    assert "Every expectation held." in found.said and "✗" not in found.said
    columns = ("kind", "decision", "reason", "mode")
    decided = {run["label"]: [tuple(row[name] for name in columns) for row in run["attaches"]] for run in found.receipt["runs"]}
    assert decided == DECIDED[kind]
    runs = {run["label"]: run for run in found.receipt["runs"]}
    assert all(runs[label]["answers"] == runs["disk"]["answers"] for label in ("absent-fallback", "warm-1", "warm-2"))
    assert any(" Paris" in answer for answer in runs["disk"]["answers"]) and len(runs["disk"]["answers"]) == 4
    mapped_bytes = max(point["server"]["weights_bytes"] for point in found.receipt["memory"])
    assert (mapped_bytes > 0) is (kind == "processed")
