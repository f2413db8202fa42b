"""Every command against a real daemon: answers, exit codes, JSON."""

from __future__ import annotations

import csv
import io
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest
from support.corpus import make_checkpoint
from support.daemon import DaemonProcess

from wcache.ledger.audit import ATTACH_COLUMNS

Cli = Callable[..., "CompletedProcess[str]"]

ATTACH = """
import glob, sys
from wcache.loader import load_file
for name in sorted(glob.glob(sys.argv[1] + "/*.safetensors")):
    load_file(name, **dict(pair.split("=") for pair in sys.argv[2:]))
"""


def ok(done: CompletedProcess[str], code: int = 0) -> Any:
    """The JSON document, after the exit code was looked at."""
    assert done.returncode == code, done.stdout + done.stderr
    return json.loads(done.stdout)


def attach(daemon: DaemonProcess, folder: Path, *policy: str) -> CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", ATTACH, str(folder), *policy], env={**os.environ, **daemon.env}, capture_output=True, text=True
    )


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    make_checkpoint(folder / "base")
    for name in ("twin", "copy", "other"):
        make_checkpoint(folder / name, seed=1)
    return folder


def test_a_day_with_wcache(wcache: Cli, daemon: DaemonProcess, models: Path) -> None:
    """Load, check, attach, a wrong hit on purpose, its proof, and the questions an operator asks afterwards (A2, I5, I16)."""
    base, twin, copy = (str(models / name) for name in ("base", "twin", "copy"))
    assert ok(wcache("status", "--json"))["server_pid"] == daemon.pid
    assert ok(wcache("daemon", "status", "--json"))["state"] == "ready"
    loaded = ok(wcache("load", base, "--json"))
    residency, digest = loaded["residency"], loaded["weights_digest"]
    assert not loaded["reused"]
    assert ok(wcache("load", f"{base}/../base/", "--json"))["reused"]  # I5
    (row,) = ok(wcache("ls", "--json"))
    assert (row["residency"], row["weights_digest"], row["leases"]) == (residency, digest, 0)
    assert residency[:10] in wcache("ls").stdout

    found = ok(wcache("check", base, "--json"))
    assert set(found) >= {"decision", "reason", "tier", "asked_digest", "served_digest", "residency", "cost"}
    assert (found["decision"], found["tier"], found["asked_digest"], found["served_digest"]) == ("hit", "pinned", digest, digest)
    assert ok(wcache("check", twin, "--json"), 1)["decision"] == "fallback"
    assert ok(wcache("check", twin, "--strict", "--json"), 10)["decision"] == "strict_miss"
    assert ok(wcache("check", copy, "--accept", "header", "--json"))["tier"] == "header"
    assert ok(wcache("audit", "attaches", "--json")) == []  # a check records nothing

    assert attach(daemon, models / "base").returncode == 0
    assert attach(daemon, models / "twin").returncode == 0
    wrong = attach(daemon, models / "copy", "accept=header", "verify_behind=off")
    assert "unproven" in wrong.stderr
    assert attach(daemon, models / "other", "on_miss=strict").returncode != 0

    rows = ok(wcache("audit", "attaches", "--json"))
    assert [(row["decision"], row["tier"]) for row in rows][::2] == [("hit", "pinned"), ("hit", "header")]
    assert [row["decision"] for row in rows] == ["hit", "fallback", "hit", "strict_miss"]
    assert tuple(rows[0])[:13] == ATTACH_COLUMNS
    assert [row["reason"] for row in ok(wcache("audit", "fallbacks", "--format", "json"))] == ["content_mismatch"] * 2
    assert [row["seq"] for row in ok(wcache("audit", "hits", "--unproven", "--json"))] == [rows[2]["seq"]]
    assert ok(wcache("audit", "wrong-hits", "--json")) == []

    (proved,) = ok(wcache("audit", "prove", "--json"), 1)
    assert (proved["seq"], proved["proof"]) == (rows[2]["seq"], "refuted")
    assert [row["seq"] for row in ok(wcache("audit", "wrong-hits", "--json"), 1)] == [rows[2]["seq"]]
    denied = ok(wcache("check", copy, "--accept", "header", "--json"), 1)
    assert denied["reason"] == "content_mismatch"
    assert ok(wcache("check", base, "--json"))["decision"] == "hit"  # I16: good for everybody else
    assert [row["proof"] for row in ok(wcache("audit", "prove", str(rows[0]["seq"]), "--json"))] == ["proved"]

    summary = ok(wcache("audit", "summary", "--json"))
    assert (summary["wrong_hits"], summary["decisions"]) == (1, {"hit": 2, "fallback": 1, "strict_miss": 1})
    assert "wrong hits" in wcache("audit", "summary").stdout
    assert ok(wcache("audit", "launch", rows[0]["launch"], "--json"))["complete"]
    assert wcache("audit", "launch", rows[1]["launch"]).stdout.startswith("0 of 1 ranks mapped, rank 0 fell back because content_mismatch")
    assert wcache("audit", "launch", rows[1]["launch"]).returncode == 1
    text = wcache("audit", "explain", str(rows[2]["seq"])).stdout
    assert "What would have changed it" in text
    assert "Proof: refuted" in text
    assert {item["event"] for item in ok(wcache("audit", "timeline", residency[:8], "--json"))} >= {"load.completed", "verify.failed"}
    assert [item["residency"] for item in ok(wcache("audit", "at", "0s", "--json"))["resident"]] == [residency]
    lines = list(csv.DictReader(io.StringIO(wcache("audit", "attaches", "--format", "csv").stdout)))
    assert [line["decision"] for line in lines] == [row["decision"] for row in rows]
    assert len(wcache("audit", "attaches", "--format", "jsonl").stdout.splitlines()) == len(rows)
    narrow = wcache("audit", "attaches", COLUMNS="60").stdout
    assert max(map(len, narrow.splitlines())) <= 60

    assert ok(wcache("ledger", "verify", "--json"))["problems"] == []
    assert ok(wcache("doctor", "--json"))["ok"]
    assert ok(wcache("release", residency[:8], "--json"))["residency"] == residency
    assert ok(wcache("ls", "--json")) == []
    assert ok(wcache("release", residency, "--json"), 4)["error"]["code"] == "not_found"


def test_trust_is_granted_listed_and_revoked(wcache: Cli, models: Path) -> None:
    """With a reason that a spreadsheet would take for a formula (L9)."""
    base = str(models / "base")
    granted = ok(wcache("trust", "grant", base, "--reason", "=1+1", "--expires", "30d", "--json"))
    assert granted["spellings"] == [base]
    assert granted["expires_ns"] - granted["granted_ns"] == 30 * 86_400 * 1_000_000_000
    again = ok(wcache("trust", "grant", base, "--reason", "known by now", "--json"))
    assert (again["weights_digest"], again["fingerprint"]) == (granted["weights_digest"], granted["fingerprint"])
    store = ok(wcache("trust", "grant", "--store", str(models), "--reason", "r", "--json"))
    assert store["prefix"] == os.path.realpath(models)
    assert ok(wcache("trust", "grant", "--instance", "--reason", "r", "--json"))["instance"].startswith("d-")
    assert ok(wcache("fingerprint", base, "--tier", "trusted", "--json"))["grant"] == again["grant"]
    assert ok(wcache("trust", "revoke", again["grant"][:12], "--json"))["state"] == "revoked"
    assert ok(wcache("trust", "revoke", again["grant"], "--json"), 4)["error"]["what"] == "it was revoked already"
    states = {row["grant"]: row["state"] for row in ok(wcache("audit", "trust", "--json"))}
    assert (states[granted["grant"]], states[again["grant"]]) == ("active", "revoked")
    assert "'=1+1" in wcache("audit", "trust", "--format", "csv").stdout  # L9
    for wrong in (["--residency", "r-none"], [], [base, "--instance"], [base, "--expires", "2001-01-01"]):
        assert wcache("trust", "grant", *wrong, "--reason", "r").returncode in (2, 4)


def test_fingerprints_of_every_tier(wcache: Cli, models: Path) -> None:
    base = str(models / "twin")
    tiers = {tier: wcache("fingerprint", base, "--tier", tier, "--json") for tier in ("header", "sampled", "content")}
    assert {tier: ok(done)["tier"] for tier, done in tiers.items()} == {tier: tier for tier in tiers}
    content = ok(wcache("fingerprint", base, "--json"))
    pinned = ok(wcache("fingerprint", base, "--tier", "pinned", "--json"))
    assert pinned["digest"] == content["weights_digest"] == ok(tiers["content"])["weights_digest"]
    assert pinned["coverage"]["files_opened"] == 0
    assert ok(wcache("fingerprint", base, "--tier", "attested", "--json"), 7)["error"]["code"] == "evidence_unavailable"
    assert "covers" in wcache("fingerprint", base, "--tier", "sampled").stdout


def test_without_a_daemon_every_command_says_so_in_one_line(lonely: Cli, models: Path) -> None:
    for arguments in (["status"], ["ls"], ["load", str(models / "base")], ["release", "r-1"], ["daemon", "stop"]):
        done = lonely(*arguments)
        assert (done.returncode, done.stdout) == (6, ""), arguments
        assert done.stderr.startswith("wcache: ")
        assert len(done.stderr.splitlines()) == 1
        assert ok(lonely(*arguments, "--json"), 6)["error"]["detail"] == "daemon_absent"
    state = ok(lonely("status", "--json"), 6)
    assert (state["server_pid"], state["state"], state["reason"]) == (None, "absent", "daemon_absent")
    assert ok(lonely("check", str(models / "base"), "--json"), 1)["reason"] == "daemon_absent"
    assert ok(lonely("audit", "summary", "--json"), 4)["error"]["code"] == "not_found"
    assert ok(lonely("doctor", "--json"))["ok"]


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to give files away")
def test_a_user_who_may_not_look_at_places_is_told_so(short_path: Path, models: Path) -> None:
    """C12 for our own files: no permission is a named error everywhere, never an internal one."""
    hidden = short_path / "hidden"
    (hidden / "run").mkdir(parents=True)
    (hidden / "state").mkdir()
    # Another user's places, and a root that is bound by permissions: a real other user might not be able to read this interpreter.
    command = ["setpriv", "--bounding-set=-dac_override,-dac_read_search", sys.executable, "-m", "wcache.cli"]
    env = {**os.environ, "WCACHE_RUNTIME_DIR": str(hidden / "run"), "WCACHE_STATE_DIR": str(hidden / "state")}
    hidden.chmod(0o700)
    os.chown(hidden, 65534, 65534)
    for arguments in (
        ["fingerprint", str(models / "base"), "--no-record"], ["ledger", "upgrade"], ["ledger", "verify"], ["trust", "revoke", "g-1"],
        ["audit", "attaches"], ["status"], ["daemon", "start"],
    ):  # fmt: skip
        done = subprocess.run([*command, *arguments], env=env, capture_output=True, text=True)
        assert done.returncode not in (0, 70), (arguments, done.stderr)
        assert done.stderr.startswith("wcache: ") and len(done.stderr.splitlines()) == 1, (arguments, done.stderr)
    doctor = subprocess.run([*command, "doctor", "--json"], env=env, capture_output=True, text=True)
    states = {row["check"]: row["state"] for row in json.loads(doctor.stdout)["checks"]}
    assert (doctor.returncode, states["runtime directory"], states["state directory"]) == (1, "fail", "fail")


def test_a_mistyped_word_is_answered_with_the_nearest_one(lonely: Cli) -> None:
    assert "did you mean 'load'?" in lonely("lod").stderr
    assert "did you mean 'attaches'?" in lonely("audit", "atatches").stderr
    assert "use one of BOOL" in lonely("check", ".", "--dtype", "bfloat").stderr
    assert lonely("check", ".", "--dtype", "bf16").returncode == 1


def test_a_mistyped_variable_is_seen_by_the_doctor(short_path: Path) -> None:
    env = {**os.environ, "WCACHE_RUNTIME_DIR": str(short_path), "WCACHE_STATE_DIR": str(short_path), "WCACHE_ACEPT": "header"}
    done = subprocess.run([sys.executable, "-m", "wcache.cli", "doctor", "--json"], env=env, capture_output=True, text=True)
    (found,) = (row for row in json.loads(done.stdout)["checks"] if row["check"] == "environment" and "WCACHE_ACEPT" in row["found"])
    assert (found["state"], found["remedy"]) == ("warn", "did you mean WCACHE_ACCEPT?")


def test_a_daemon_is_started_once_and_stopped(lonely: Cli) -> None:
    started = ok(lonely("daemon", "start", "--json"))
    try:
        assert ok(lonely("status", "--json"))["server_pid"] == started["server_pid"]
        assert ok(lonely("daemon", "start", "--json"), 5)["error"]["code"] == "daemon_running"
    finally:
        stopped = ok(lonely("daemon", "stop", "--json"))
    assert (stopped["server_pid"], stopped["state"]) == (started["server_pid"], "stopped")
    assert lonely("status").returncode == 6


def test_ledger_backup_copies_once_and_never_overwrites(wcache: Cli, tmp_path: Path) -> None:
    assert ok(wcache("ledger", "backup", str(tmp_path / "b.sqlite"), "--json"))["ok"]
    assert ok(wcache("ledger", "backup", str(tmp_path / "b.sqlite"), "--json"), 2)["error"]["what"] == "the target exists"
    assert ok(wcache("audit", "attaches", "--json", "--ledger", str(tmp_path / "b.sqlite"))) is not None
    assert ok(wcache("ledger", "upgrade", "--json"))["before"] == ok(wcache("ledger", "upgrade", "--json"))["after"]


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["bogus"], 2),
        (["load"], 2),
        (["audit", "explain", "none"], 2),
        (["audit", "attaches", "--since", "x"], 2),
        (["audit", "explain", "99999"], 4),
    ],
)
def test_every_error_is_one_line_and_one_json_document(wcache: Cli, arguments: list[str], code: int) -> None:
    done = wcache(*arguments)
    assert done.returncode == code
    assert done.stdout == ""
    assert done.stderr.startswith("wcache: ")
    assert len(done.stderr.splitlines()) == 1
    assert set(ok(wcache(*arguments, "--json"), code)) == {"error"}


def test_an_unforeseen_error_is_one_line_naming_its_type(lonely: Cli, short_path: Path) -> None:
    broken = "from wcache.cli import main, daemon\ndef fail(): raise ZeroDivisionError('a\\nb')\ndaemon.daemon_channel = fail\nmain.main()"
    for debug in (False, True):
        env = {**os.environ, "WCACHE_RUNTIME_DIR": str(short_path), **({"WCACHE_DEBUG": "1"} if debug else {})}
        done = subprocess.run([sys.executable, "-c", broken, "status"], env=env, capture_output=True, text=True)
        assert done.returncode == 70
        assert ("Traceback" in done.stderr) == debug
        assert "ZeroDivisionError" in done.stderr


def test_an_interrupted_command_exits_with_130(lonely: Cli, short_path: Path) -> None:
    broken = "from wcache.cli import main, daemon\ndef stop(): raise KeyboardInterrupt\ndaemon.daemon_channel = stop\nmain.main()"
    env = {**os.environ, "WCACHE_RUNTIME_DIR": str(short_path)}
    done = subprocess.run([sys.executable, "-c", broken, "status"], env=env, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr.strip()) == (130, "", "")


def test_a_reader_that_goes_away_is_no_error(wcache: Cli, daemon: DaemonProcess) -> None:
    command = f"{sys.executable} -m wcache.cli --help | true; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], env={**os.environ, **daemon.env}, capture_output=True, text=True)
    assert done.stderr == ""
    assert done.stdout.strip() in ("0", "141")


@pytest.mark.parametrize("arguments", [["release", "\udcff"], ["audit", "launch", "\udcff"], ["trust", "revoke", "\udcff"]])
def test_an_argument_that_is_no_utf8_is_an_error_of_its_own(wcache: Cli, arguments: list[str]) -> None:
    done = wcache(*arguments)
    assert done.returncode not in (0, 70)
    assert done.stderr.count("\n") == 1
    assert "internal error" not in done.stderr


def test_a_grant_is_told_without_obeying_the_path(wcache: Cli, tmp_path: Path) -> None:
    evil = make_checkpoint(tmp_path / "e\x1b[31mvil\nrow")
    told = wcache("trust", "grant", str(evil), "--reason", "tested").stdout
    assert "\\x1b[31mvil\\nrow" in told
    assert "\x1b" not in told
    assert told.count("\n") == 1
