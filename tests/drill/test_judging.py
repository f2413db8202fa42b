"""What is expected of each start, and what a command line says: values in, values out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from wcache.core.model.errors import UsageError
from wcache.drill import runs
from wcache.drill.command import parse_server
from wcache.drill.device import other_dtype
from wcache.drill.drill import weights_took_s
from wcache.drill.receipt import pays_after
from wcache.drill.runs import Result, Run, judge

DISK = ["a", "b"]


def row(decision: str, reason: str | None = None, **more: Any) -> dict[str, Any]:
    hit = decision == "hit"
    base = {"rank": 0, "decision": decision, "reason": reason, "detail": None, "kind": "raw"}
    return {**base, "tier": "pinned" if hit else None, "mode": "copy" if hit else None, **more}


def seen(run: Run, *attaches: dict[str, Any], ready: bool = True, **more: Any) -> Result:
    """Of attaches of one rank the last one counts."""
    base: dict[str, Any] = {
        "answers": list(DISK) if ready else [],
        "exit_status": None if ready else 1,
        "elapsed_s": 1.0,
        "complete": ready,
    }
    return Result(
        label=run.label, case=run.case, expected=run.expected, started_utc="", command=[], ready=ready,
        attaches=list(attaches), decided=list(attaches[-1:]), **{**base, **more},
    )  # fmt: skip


WARM = runs.warm(1, "raw")
PROCESSED = row("fallback", "not_resident", kind="processed")


@pytest.mark.parametrize(
    ("run", "tensors", "found", "wrong"),
    [
        (WARM, "raw", seen(WARM, row("hit")), ""),
        (WARM, "raw", seen(WARM), "no attach"),
        (WARM, "raw", seen(WARM, row("hit", tier="sampled")), "hit sampled"),
        (WARM, "raw", seen(WARM, row("hit", tier="attested")), "hit attested"),
        (WARM, "raw", seen(WARM, row("fallback", "still_loading")), "fallback still_loading"),
        (WARM, "raw", seen(WARM, row("hit"), complete=False), "not every rank"),
        (WARM, "raw", seen(WARM, row("hit"), answers=["a", "c"]), "prompt 2"),
        (WARM, "raw", seen(WARM, ready=False, timed_out=True, exit_status=None), "not ready within"),
        (WARM, "raw", seen(WARM, row("hit"), port_taken=True), "still listens on its port"),
        (WARM, "processed", seen(WARM, row("hit", kind="processed", mode="zero_copy")), ""),
        (WARM, "processed", seen(WARM, PROCESSED, row("hit")), "raw tensors in mode copy"),
        (runs.ABSENT_FALLBACK, "raw", seen(runs.ABSENT_FALLBACK, row("fallback", "daemon_absent")), ""),
        (runs.ABSENT_FALLBACK, "raw", seen(runs.ABSENT_FALLBACK, row("fallback", "daemon_refused")), "daemon_refused"),
        (runs.ABSENT_STRICT, "raw", seen(runs.ABSENT_STRICT, row("strict_miss", "daemon_absent"), ready=False), ""),
        (runs.ABSENT_STRICT, "raw", seen(runs.ABSENT_STRICT, row("strict_miss", "daemon_absent")), "it started"),
        (runs.ABSENT_STRICT, "raw", seen(runs.ABSENT_STRICT, row("strict_miss", "daemon_absent"), ready=False, exit_status=0), "status 0"),
        (runs.ABSENT_STRICT, "raw", seen(runs.ABSENT_STRICT, ready=False), "no attach"),
        (runs.dtype("raw"), "raw", seen(runs.dtype("raw"), row("hit"), answers=["z"]), ""),
        (runs.dtype("raw"), "raw", seen(runs.dtype("raw"), row("hit", mode="zero_copy")), "zero_copy"),
        (
            runs.dtype("processed"),
            "processed",
            seen(
                runs.dtype("processed"),
                row("fallback", "config_mismatch", kind="processed", detail="differs in dtype, kernel"),
                row("strict_miss", "released"),
                ready=False,
            ),
            "",
        ),
        (
            runs.dtype("processed"),
            "processed",
            seen(runs.dtype("processed"), row("fallback", "config_mismatch", detail="differs in tp"), ready=False),
            "no config_mismatch naming dtype",
        ),
        (runs.TWIN, "raw", seen(runs.TWIN, row("strict_miss", "content_mismatch"), ready=False), ""),
        (runs.TWIN, "raw", seen(runs.TWIN, row("hit", tier="header")), "it started"),
        (runs.TWIN, "raw", seen(runs.TWIN, row("hit", tier="header"), ready=False), "hit header"),
        (runs.TWIN, "raw", seen(runs.TWIN, row("strict_miss", "not_resident"), ready=False), "no content_mismatch"),
    ],
)
def test_a_start_is_judged_by_what_is_on_record(run: Run, tensors: str, found: Result, wrong: str) -> None:
    said = "; ".join(judge(run, found, tensors, DISK))
    assert wrong in said and bool(wrong) == bool(said), said


def test_what_is_skipped_is_neither_right_nor_wrong() -> None:
    run = runs.dtype("raw")
    assert judge(run, seen(run, ready=False, skipped="no such dtype here"), "raw", DISK) == []


def test_preparation_is_won_back_only_by_starts_that_were_quicker() -> None:
    def drilled(disk_s: float, warm_s: float, **more: Any) -> list[Result]:
        return [seen(runs.DISK, elapsed_s=disk_s), seen(WARM, row("hit"), elapsed_s=warm_s, **more)]

    assert pays_after(25.0, drilled(30.0, 20.0)) == 3
    assert pays_after(25.0, drilled(20.0, 20.0)) is None
    fallback = seen(runs.ABSENT_FALLBACK, row("fallback", "daemon_absent"), elapsed_s=19.0)
    assert pays_after(25.0, [*drilled(30.0, 20.0), fallback]) is None, "the first start of all is slower for reasons of its own"
    assert pays_after(25.0, drilled(30.0, 2.0, ready=False)) is None, "a time-out is no speed-up"
    assert pays_after(25.0, drilled(30.0, 2.0, wrong=["other answers"])) is None


@pytest.mark.parametrize(
    ("log", "took_s"),
    [
        ("INFO [default_loader.py] Loading weights took 0.25 seconds\n(Worker_TP1) INFO Loading weights took 1.5 seconds\n", 1.5),
        ("[2026-01-01 00:00:00 TP0] Load weight end. elapsed=1.32 s, type=LlamaForCausalLM, avail mem=14.57 GB\n", 1.32),
        ("elapsed=3.1 s, nothing about weights\n", None),
    ],
)
def test_what_an_engine_says_of_its_load_from_disk_is_that_of_its_slowest_rank(log: str, took_s: float | None) -> None:
    assert weights_took_s(log) == took_s


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("vllm", "sglang", "transformers", "python"):
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))


@pytest.mark.parametrize(
    ("line", "engine", "model", "url"),
    [
        ("vllm serve ./m", "vllm", "./m", "http://127.0.0.1:8000"),
        ("vllm serve --model ./m --port=9 --host 0.0.0.0", "vllm", "./m", "http://127.0.0.1:9"),
        ("python -m vllm.entrypoints.openai.api_server --model ./m --host ::1", "vllm", "./m", "http://[::1]:8000"),
        ("sglang serve ./m", "sglang", "./m", "http://127.0.0.1:30000"),
        ("python -m sglang.launch_server --model-path ./m --port 7", "sglang", "./m", "http://127.0.0.1:7"),
        ("transformers serve ./m --port 7", "transformers", "./m", "http://127.0.0.1:7"),
        ("python serve.py --model-path=./m --port 7", "other", "./m", "http://127.0.0.1:7"),
    ],
)
@pytest.mark.usefixtures("programs")
def test_engine_model_and_port_are_what_the_command_says(line: str, engine: str, model: str, url: str) -> None:
    found = parse_server(line.split())
    assert (found.engine, found.model, found.url) == (engine, model, url)
    twin = found.with_model("/twin")
    assert " ".join(twin.words) == line.replace("./m", "/twin") and twin.model == "/twin"


@pytest.mark.usefixtures("programs")
def test_what_a_start_needs_is_put_behind_the_command() -> None:
    found = parse_server(["vllm", "serve", "./m", "--dtype", "half"])
    words = found.cached(strict=True, tensors="processed")
    assert words[:5] == found.words and words[5:7] == ("--load-format", "wcache")
    assert words[8] == '{"tensors": "processed", "fallback": false}'
    assert found.asked_dtype(Path("none")) == "float16"
    other = parse_server(["sglang", "serve", "./m"]).cached(strict=True, tensors="raw")
    assert other[3:] == ("--load-format", "wcache", "--model-loader-extra-config", '{"tensors": "raw", "fallback": false}')
    for line in ("sglang serve ./m", "python -m sglang.launch_server --model-path ./m"):
        with pytest.raises(UsageError, match="processed tensors of sglang"):
            parse_server(line.split(), tensors="processed")
    assert found.with_dtype("float32").words == ("vllm", "serve", "./m", "--dtype", "float32")


@pytest.mark.parametrize(
    ("line", "configured", "other"),
    [
        ("vllm serve ./m", "bfloat16", "float32"),
        ("vllm serve ./m", "float32", "float32"),
        ("sglang serve ./m --dtype auto", "float32", "float32"),
        ("sglang serve ./m --dtype float32", "float32", "bfloat16"),
        ("sglang serve ./m", "float16", "float32"),
        ("transformers serve ./m", "float32", "bfloat16"),
        ("vllm serve ./m", None, None),
    ],
)
@pytest.mark.usefixtures("programs")
def test_the_other_dtype_is_none_that_the_server_chooses_by_itself(
    tmp_path: Path, line: str, configured: str | None, other: str | None
) -> None:
    """Unless they are told, vLLM and SGLang compute a model of float32 in 16 bits. These are starts on a CPU."""
    config = tmp_path / "config.json"
    config.write_text(json.dumps({"dtype": configured} if configured else {}))
    assert other_dtype(parse_server(line.split()), config, ())[0] == other


@pytest.mark.usefixtures("programs")
def test_a_model_that_the_command_does_not_name_cannot_be_exchanged() -> None:
    with pytest.raises(UsageError, match=r"does not name \./m"):
        parse_server(["python", "serve.py", "--port", "7"], model="./m")
