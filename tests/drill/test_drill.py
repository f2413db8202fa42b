"""`wcache drill` with a small real server: what it starts, what it judges, what it writes, and what it leaves behind."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from support.commands import clean_environ
from support.corpus import make_checkpoint
from support.daemon import command_of, wait_until
from support.ports import free_port

from wcache.ledger.audit import Audit

SERVER = Path(__file__).resolve().parent.parent / "support" / "serving.py"
ORDER = ["disk", "absent-fallback", "absent-strict", "warm-1", "warm-2", "dtype", "twin"]
TIMEOUT_S = 240


class Place(NamedTuple):
    """A checkpoint, a program called `vllm`, and somewhere to write."""

    model: Path
    vllm: Path
    out: Path

    def command(self, *options: str, server: tuple[str, ...] = (), port: int | None = None) -> list[str]:
        words = [str(self.vllm), "serve", str(self.model), "--port", str(port or free_port()), *server]
        return [sys.executable, "-m", "wcache.cli", "drill", "--out", str(self.out), *options, "--", *words]

    def run(self, command: list[str]) -> subprocess.CompletedProcess[str]:
        return subprocess.run(command, env=environ(), capture_output=True, text=True, timeout=TIMEOUT_S, check=False)

    def drill(self, *options: str, server: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
        return self.run(self.command(*options, server=server))

    def receipt(self) -> Any:
        return json.loads((self.out / "drill.json").read_text())


def environ() -> dict[str, str]:
    return {**clean_environ(), "WCACHE_CONFIG": os.devnull, "CUDA_VISIBLE_DEVICES": ""}


@pytest.fixture
def place(disk_path: Path) -> Iterator[Place]:
    weights = {f"model.layers.{number}.weight": np.full((64, 64), number, np.float32) for number in range(3)}
    weights["model.norm.weight"] = np.ones(64, np.float32)
    model = make_checkpoint(disk_path / "model", weights, shards=2)
    (model / "config.json").write_text('{"model_type": "tiny", "dtype": "float32"}')
    vllm = disk_path / "bin" / "vllm"
    vllm.parent.mkdir()
    vllm.write_text(f'#!/bin/sh\nexec {sys.executable} {SERVER} "$@"\n')
    vllm.chmod(0o755)
    yield Place(model, vllm, disk_path / "out")
    assert left_behind(disk_path) == [], "processes of the drill are left"


def left_behind(scratch: Path) -> list[bytes]:
    """Command lines of processes that name the test's own directory: server and its children, daemon, drill."""
    commands = [command_of(int(entry)) for entry in os.listdir("/proc") if entry.isdigit()]
    return [command for command in commands if os.fsencode(scratch) in command]


def wrong(receipt: Any) -> dict[str, list[str]]:
    return {run["label"]: run["wrong"] for run in receipt["runs"] if run["wrong"]}


# --- a drill that holds -------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_seven_starts_go_as_they_must_and_all_that_was_measured_is_written(place: Place) -> None:
    """I1, I12, A4: hits with the disk's answers, recorded misses without a daemon, another dtype as a copy, a twin refused."""
    done = place.drill(server=("--dtype", "float32"))
    assert done.returncode == 0, done.stdout + done.stderr
    receipt = place.receipt()
    assert [run["label"] for run in receipt["runs"]] == ORDER and receipt["held"]
    runs = {run["label"]: run for run in receipt["runs"]}
    decided = {label: [(row["decision"], row["reason"], row["mode"]) for row in run["attaches"]] for label, run in runs.items()}
    assert decided == {
        "disk": [],
        "absent-fallback": [("fallback", "daemon_absent", None)],
        "absent-strict": [("strict_miss", "daemon_absent", None)],
        "warm-1": [("hit", None, "copy")],
        "warm-2": [("hit", None, "copy")],
        "dtype": [("hit", None, "copy")],
        "twin": [("strict_miss", "content_mismatch", None)],
    }
    assert [label for label, run in runs.items() if run["ready"]] == ["disk", "absent-fallback", "warm-1", "warm-2", "dtype"]
    assert runs["warm-1"]["attaches"][0]["tier"] == "pinned" and "bfloat16" in runs["dtype"]["command"]
    assert runs["absent-strict"]["exit_status"] not in (None, 0) and "StrictMiss" in runs["absent-strict"]["last_words"][-1]
    assert len(runs["disk"]["answers"]) == 4 and runs["disk"]["answers"] == runs["warm-2"]["answers"]
    assert runs["disk"]["weights_s"] == 0.25 and runs["warm-1"]["weights_s"] == runs["warm-1"]["attaches"][0]["map_ms"] / 1000
    for label in ORDER:
        told = json.loads((place.out / f"{label}.json").read_text())
        assert {"label", "started_utc", "ready", "elapsed_s", "pid", "command"} <= set(told)
        assert (place.out / f"{label}.log").exists() and told["pid"] > 1
    assert [point["moment"] for point in receipt["memory"]] == ["nothing", "daemon", "daemon + engine", "engine stopped"]
    nothing, daemon, engine, stopped = receipt["memory"]
    assert nothing["daemon"]["rest_bytes"] == 0 < daemon["daemon"]["rest_bytes"]
    assert stopped["server"]["rest_bytes"] == 0 < engine["server"]["rest_bytes"]
    assert receipt["model"]["dtypes"] == ["F32"] and receipt["versions"]["engines"] == ["vllm 0.0-test"]
    assert receipt["preparation"]["total_s"] > 0 and receipt["device"]["kind"] == "cpu"
    assert set(receipt["time_to_ready_s"]) == {"disk", "absent_fallback", "warm", "dtype"}
    with Audit(place.out / "state" / "ledger.sqlite") as audit:
        assert audit.head()["origin"] == receipt["ledger"]["origin"]
    others = [run["others_cpu_share"] for run in runs.values() if run["ready"]]
    assert all(0 <= share <= 1 for share in others) and ("other work" in done.stdout) is (max(others) > 0.1)
    assert "Every expectation held." in done.stdout and "absent-strict" in done.stdout
    assert "warm-1: ready, hit pinned copy, same answers" in done.stderr


@pytest.mark.slow
def test_a_server_that_knows_nothing_of_wcache_is_started_below_exec(place: Place) -> None:
    """A second round repeats what is timed, with every value kept; a dtype that nobody knows how to ask for is skipped, with its reason."""
    port = free_port()
    words = [sys.executable, str(SERVER), str(place.model), f"--port={port}"]
    options = ["--model", str(place.model), "--rounds", "2", "--json"]
    done = place.run([sys.executable, "-m", "wcache.cli", "drill", "--out", str(place.out), *options, "--", *words])
    assert done.returncode == 0, done.stdout + done.stderr
    receipt = json.loads(done.stdout)
    assert receipt == place.receipt()
    labels = ["disk", "disk-r2", "absent-fallback", "absent-strict", "warm-1", "warm-2", "warm-1-r2", "warm-2-r2", "dtype", "twin"]
    assert [run["label"] for run in receipt["runs"]] == labels
    assert [len(receipt["time_to_ready_s"][case]) for case in ("disk", "warm")] == [2, 4]
    runs = {run["label"]: run for run in receipt["runs"]}
    assert runs["dtype"]["skipped"] and runs["dtype"]["wrong"] == [] and not (place.out / "dtype.log").exists()
    assert runs["warm-1"]["command"][1:4] == ["-m", "wcache.cli", "exec"]
    assert [row["tier"] for row in runs["warm-2-r2"]["attaches"]] == ["pinned"]


# --- drills that do not hold --------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_server_that_starts_after_a_strict_miss_is_shown_as_a_failure(place: Place) -> None:
    done = place.drill(server=("--lenient",))
    assert done.returncode == 1, done.stdout + done.stderr
    assert wrong(place.receipt()) == {"absent-strict": ["it started and answered"], "twin": ["it started and answered"]}
    assert "✗ twin: it started and answered" in done.stdout and "2 expectations did not hold." in done.stdout


@pytest.mark.slow
def test_other_answers_than_the_disks_are_a_failure_and_all_are_kept(place: Place) -> None:
    prompts = place.out.parent / "prompts"
    prompts.write_text("one\n\ntwo\n")
    done = place.drill("--prompts", str(prompts), server=("--moody",))
    assert done.returncode == 1, done.stdout + done.stderr
    receipt = place.receipt()
    assert set(wrong(receipt)) == {"absent-fallback", "warm-1", "warm-2"}
    assert wrong(receipt)["warm-1"] == ["answers differ from the disk's: prompt 1, 2"]
    assert len({tuple(run["answers"]) for run in receipt["runs"] if run["label"] in ("disk", "warm-1")}) == 2
    assert receipt["pays_after_restarts"] is None


@pytest.mark.slow
def test_a_server_that_loads_when_it_is_asked_is_ready_when_it_answers(place: Place) -> None:
    done = place.drill(server=("--lazy",))
    assert done.returncode == 0, done.stdout + done.stderr
    runs = {run["label"]: run for run in place.receipt()["runs"]}
    assert not runs["twin"]["ready"] and "answers 500" in runs["twin"]["no_answer"]


# --- what cannot be drilled ---------------------------------------------------------------------------------------------------------


def test_a_server_that_ends_at_once_ends_the_drill_with_the_last_lines_of_its_log(place: Place) -> None:
    done = place.drill(server=("--nonsense",))
    assert done.returncode == 2
    lines = done.stderr.splitlines()
    assert any("unrecognized arguments: --nonsense" in line for line in lines[:-1]), done.stderr
    assert lines[-1].startswith("wcache: ") and "disk.log: the server is not ready even without wcache: it ended with status 2" in lines[-1]


def test_an_engine_that_does_not_know_wcache_ends_the_drill_at_its_first_start_with_the_cache(place: Place) -> None:
    refusal = "error: argument --load-format: invalid choice: 'wcache' (choose from " + "'auto', " * 100
    place.vllm.write_text(place.vllm.read_text().replace("exec", f'case "$*" in *wcache*) echo "{refusal}"; exit 2;; esac\nexec'))
    done = place.drill()
    assert done.returncode == 2, done.stderr
    *before, said, last = done.stderr.splitlines()
    assert "the server ended with status 2 before it asked the cache; the log says why; wcache must be installed" in last
    assert "invalid choice: 'wcache'" in said and max(map(len, [*before, said])) < 400
    assert sorted(path.name for path in place.out.glob("*.log")) == ["absent-fallback.log", "disk.log"]


def test_a_server_that_never_listens_is_a_time_out_and_no_process_is_left(place: Place) -> None:
    done = place.drill("--wait", "2", server=("--deaf",))
    assert done.returncode == 2 and "it was not ready within 2 s" in done.stderr
    told = json.loads((place.out / "disk.json").read_text())
    assert (told["ready"], told["timed_out"]) == (False, True)


def test_a_preflight_says_in_one_line_what_is_in_the_way(place: Place) -> None:
    def refusal(command: list[str], code: int) -> str:
        done = place.run(command)
        assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (code, "", 1), done.stderr
        return done.stderr

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert "somebody listens on this port" in refusal(place.command(port=port), 7)
    drill = [sys.executable, "-m", "wcache.cli", "drill"]
    missing = str(place.model) + "-gone"
    assert "no such file or directory" in refusal([*drill, "--", str(place.vllm), "serve", missing, "--port", str(free_port())], 3)
    assert "no such command" in refusal([*drill, "--", "no-such-server", "serve", missing], 2)
    assert "does not say which model" in refusal([*drill, "--", sys.executable, str(SERVER)], 2)
    assert "does not say which port" in refusal([*drill, "--model", "m", "--", sys.executable, "m"], 2)
    assert "--load-format is what the drill varies" in refusal(place.command(server=("--load-format", "auto")), 2)
    assert "only vLLM has them" in refusal([*drill, "--tensors", "processed", "--model", "m", "--", sys.executable, "m"], 2)
    place.out.mkdir()
    (place.out / "notes").touch()
    assert "there are files in it already" in refusal(place.command(), 2)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_drill_ends_everything_that_it_started(place: Place, number: signal.Signals) -> None:
    """The fixture looks for processes that are left: a server, its children, the daemon."""
    process = subprocess.Popen(place.command(server=("--deaf",)), env=environ(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    wait_until(lambda: any(b"--deaf" in command and b"serving.py" in command for command in left_behind(place.out.parent)), 60)
    process.send_signal(number)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130 and "Traceback" not in said
