"""The contract of the command line, line by line over a real daemon: every command, its exit code and its JSON keys, every format."""

from __future__ import annotations

import csv
import io
import json
import os
import pty
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from support.commands import Cli, clean_environ, in_process, ok
from support.corpus import make_checkpoint, make_hub_cache
from support.daemon import DaemonProcess

from wcache.loader.attach import attach

ATTACH_KEYS = [
    "seq", "time", "launch", "rank", "engine", "checkpoint", "decision", "reason", "tier", "asked_digest", "served_digest", "mode", "proof",
]  # fmt: skip
CHECK_KEYS = ["decision", "reason", "tier", "asked_digest", "served_digest", "residency", "cost"]
FINGERPRINT_KEYS = ["fingerprint", "seq", "tier", "algorithm", "digest", "weights_digest", "coverage", "location", "reuses", "grant"]
GRANT_KEYS = ["grant", "scope", "reason", "operator_uid", "granted_ns", "expires_ns", "seq"]
PROVE_KEYS = ["seq", "attach", "checkpoint", "tier", "proof", "why", "asked_digest", "served_digest"]
VERIFY_KEYS = ["ok", "origin", "events", "head_seq", "head_chain", "problems", "notes"]
ERROR_KEYS = ["error"]


class Story(NamedTuple):
    daemon: DaemonProcess
    wcache: Cli
    words: dict[str, str]

    def fill(self, line: str) -> list[str]:
        return [word.format(**self.words) for word in line.split()]


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    """A load, a hit, a fallback, a wrong hit on purpose, a grant: something for every command to speak of."""
    folder = tmp_path_factory.mktemp("contract")
    for name, seed in (("base", 0), ("spare", 7), ("twin", 1), ("copy", 1)):
        make_checkpoint(folder / name, seed=seed)
    daemon = DaemonProcess()
    try:
        wcache = in_process({**daemon.start().env, "HF_HUB_CACHE": str(folder / "hub")})
        words = {name: str(folder / name) for name in ("base", "spare", "twin", "copy")}
        snapshot = make_hub_cache(folder / "hub", folder / "base")
        words |= {"folder": str(folder), "snapshot": str(snapshot)}
        words["residency"] = ok(wcache("load", words["base"], "--json"))["residency"]
        words["other"] = ok(wcache("load", words["spare"], "--json"))["residency"]
        hit = attach(folder / "base", settings=daemon.settings, launch="l-hit")
        hit.tensors()
        hit.close()
        missed = attach(folder / "twin", settings=daemon.settings, launch="l-miss")
        missed.fell_back(10, 0.1)
        missed.close()
        wrong = attach(folder / "copy", settings=daemon.settings, launch="l-wrong", accept="header", verify_behind="off")
        wrong.close()
        words |= {"hit": str(hit.seq), "missed": str(missed.seq), "wrong": str(wrong.seq)}
        words["grant"] = ok(wcache("trust", "grant", words["base"], "--reason", "first", "--json"))["grant"]
        yield Story(daemon, wcache, words)
    finally:
        daemon.cleanup()


# What is typed, the exit code, and the keys of the document or of each row ("[]": rows, "[+]": at least one).
TABLE: list[tuple[str, int, str, list[str]]] = [
    ("status", 0, "{}", ["server_pid", "state", "version", "instance", "residencies", "leases", "ledger_seq", "resident_bytes"]),
    ("daemon status", 0, "{}", ["server_pid", "state"]),
    ("daemon start", 5, "{}", ERROR_KEYS),
    ("load {base}", 0, "{}", ["residency", "state", "weights_digest", "bytes", "tensors", "reused", "seconds", "served"]),
    ("load {base} --device cpu", 0, "{}", ["residency", "reused"]),
    ("load acme/tiny --revision main", 0, "{}", ["residency", "served"]),
    ("load {folder}/nowhere", 3, "{}", ERROR_KEYS),
    ("ls", 0, "[+]", ["residency", "checkpoint", "state", "device", "bytes", "tensors", "leases", "weights_digest"]),
    *[(f"fingerprint {{base}} --tier {tier}", 0, "{}", FINGERPRINT_KEYS) for tier in ("header", "sampled", "pinned", "content", "trusted")],
    ("fingerprint {snapshot} --tier attested", 0, "{}", FINGERPRINT_KEYS),
    ("fingerprint {base} --tier attested", 7, "{}", ERROR_KEYS),
    ("check {base}", 0, "{}", CHECK_KEYS),
    ("check {twin}", 1, "{}", CHECK_KEYS),
    ("check {twin} --strict", 10, "{}", CHECK_KEYS),
    ("check {base} --accept content --strict", 10, "{}", CHECK_KEYS),
    ("check {base} --accept content --read", 0, "{}", CHECK_KEYS),
    ("lock {base} {twin} -o {folder}/wcache.lock", 0, "{}", ["lock", "version", "checkpoints"]),
    ("lock --check -o {folder}/wcache.lock", 0, "[+]", ["checkpoint", "ok", "locked", "found", "why"]),
    ("lock --check {spare} -o {folder}/wcache.lock", 2, "{}", ERROR_KEYS),
    ("lock --check -o {folder}/nowhere.lock", 2, "{}", ERROR_KEYS),
    ("load {spare} --lock {folder}/wcache.lock", 3, "{}", ERROR_KEYS),
    ("fingerprint {base} --signature {folder}/nowhere.sig --key {folder}/nowhere.pub", 7, "{}", ERROR_KEYS),
    ("trust grant {spare} --reason why --expires 30d", 0, "{}", GRANT_KEYS),
    ("trust grant --residency {residency} --reason why", 0, "{}", GRANT_KEYS),
    ("trust grant --instance --reason why", 0, "{}", GRANT_KEYS),
    ("trust grant --store {folder} --reason why", 0, "{}", GRANT_KEYS),
    ("trust grant {base}", 2, "{}", ERROR_KEYS),
    ("trust ls", 0, "[+]", ["grant", "scope", "state", "about", "reason", "expires", "hits"]),
    ("audit summary", 0, "{}", ["attaches", "decisions", "reasons", "tiers", "proofs", "wrong_hits", "unfinished", "idle_bytes", "gaps"]),
    ("audit attaches", 0, "[+]", ATTACH_KEYS),
    ("audit attaches --since 7d --launch l-hit --limit 1", 0, "[+]", ATTACH_KEYS),
    ("audit launch l-hit", 0, "{}", ["launch", "complete", "ranks", "mapped", "text", "attaches"]),
    ("audit launch l-miss", 1, "{}", ["launch", "complete"]),
    ("audit launch l-none", 4, "{}", ERROR_KEYS),
    ("audit fallbacks", 0, "[+]", [*ATTACH_KEYS, "fallback_bytes", "idle_bytes"]),
    ("audit hits", 0, "[+]", ATTACH_KEYS),
    ("audit hits --unproven", 0, "[+]", ATTACH_KEYS),
    ("audit wrong-hits", 0, "[]", ATTACH_KEYS),
    ("audit trust", 0, "[+]", ["grant", "scope", "state", "reason"]),
    ("audit timeline {residency}", 0, "[+]", ["seq", "time", "event", "what"]),
    ("audit at 0s", 0, "{}", ["time", "resident", "mapped", "grants"]),
    ("audit explain {hit}", 0, "{}", ["seq", "time", "type", "sentences", "event"]),
    ("audit explain {missed}", 0, "{}", ["seq", "sentences"]),
    ("audit explain 99999", 4, "{}", ERROR_KEYS),
    ("audit prove", 1, "[+]", PROVE_KEYS),
    ("audit prove {hit} {wrong}", 1, "[+]", PROVE_KEYS),
    ("audit prove {missed}", 2, "{}", ERROR_KEYS),
    ("audit wrong-hits", 1, "[+]", [*ATTACH_KEYS, "host", "pid", "uid", "since", "until", "had"]),
    ("report --since 1d", 1, "{}", ["written", "answers", "ledger", "verification", "retention", "totals"]),
    ("report --format csv --out {folder}/sheets", 1, "{}", ["written", "answers", "ledger"]),
    ("report --format csv", 2, "{}", ERROR_KEYS),
    ("trust revoke {grant}", 0, "{}", ["grant", "state", "seq"]),
    ("trust revoke g-none", 4, "{}", ERROR_KEYS),
    ("ledger upgrade", 0, "{}", ["ledger", "before", "after"]),
    ("ledger verify", 0, "{}", VERIFY_KEYS),
    ("ledger backup {folder}/backup.sqlite", 0, "{}", ["backup", "ok", "events"]),
    ("ledger backup {folder}/backup.sqlite", 2, "{}", ERROR_KEYS),
    ("doctor", 0, "{}", ["ok", "checks"]),
    ("release {other}", 0, "{}", ["residency", "state", "seq"]),
    ("release {other}", 4, "{}", ERROR_KEYS),
    ("load hub/nothing", 3, "{}", ERROR_KEYS),
    ("release {residency} --force", 0, "{}", ["residency", "state", "seq"]),
]


def _holds(found: Any, shape: str, keys: list[str], line: str) -> None:
    if shape == "{}":
        assert isinstance(found, dict), line
        rows = [found]
    else:
        assert isinstance(found, list) and (found or shape == "[]"), line
        rows = found
    for row in rows:
        assert [key for key in keys if key not in row] == [], line


def test_every_command_answers_with_its_keys_and_its_exit_code(story: Story) -> None:
    """In this order: it is one day. Nothing but JSON on standard output, one line on standard error where there is an error."""
    for line, code, shape, keys in TABLE:
        done = story.wcache(*story.fill(line), "--json")
        assert done.returncode == code, (line, done.returncode, done.stdout, done.stderr)
        _holds(json.loads(done.stdout), shape, keys, line)
        if keys == ERROR_KEYS:
            error = json.loads(done.stdout)["error"]
            assert error["code"] and error["what"], line
            assert len(done.stderr.splitlines()) <= 1, line


@pytest.mark.parametrize(
    "question", ["attaches", "fallbacks", "hits", "wrong-hits", "trust", "summary", "timeline {residency}", "launch l-miss", "at 0s"]
)
def test_every_audit_question_is_answered_in_four_formats(story: Story, question: str) -> None:
    """`--format table|json|jsonl|csv` say the same; `--json` is short for one of them."""
    words = ["audit", *story.fill(question)]
    code = story.wcache(*words).returncode
    asked = {form: story.wcache(*words, "--format", form) for form in ("table", "json", "jsonl", "csv")}
    assert {done.returncode for done in asked.values()} == {code}
    document = json.loads(asked["json"].stdout)
    assert document == json.loads(story.wcache(*words, "--json").stdout) or question in ("at 0s", "trust")
    lines = [json.loads(text) for text in asked["jsonl"].stdout.splitlines()]
    cells = list(csv.DictReader(io.StringIO(asked["csv"].stdout)))
    assert asked["table"].stdout.strip()
    if isinstance(document, list):
        assert len(lines) == len(cells) == len(document)
        if "time" not in question and lines and question != "trust":
            assert lines == document
    assert all("\x1b" not in done.stdout for done in asked.values()), "colours only on a terminal"


def test_the_keys_of_attaches_come_first_and_in_order_in_every_format(story: Story) -> None:
    document = ok(story.wcache("audit", "attaches", "--format", "json"))
    assert list(document[0])[: len(ATTACH_KEYS)] == ATTACH_KEYS
    header = story.wcache("audit", "attaches", "--format", "csv").stdout.splitlines()[0].split(",")
    assert header[: len(ATTACH_KEYS)] == ATTACH_KEYS
    assert [(row["decision"], row["reason"], row["tier"], row["mode"]) for row in sorted(document, key=lambda row: row["seq"])] == [
        ("hit", None, "pinned", "zero_copy"),
        ("fallback", "content_mismatch", document[1]["tier"], None),
        ("hit", None, "header", "zero_copy"),
    ]


def test_settings_come_from_file_then_environment_then_arguments(story: Story, tmp_path: Path) -> None:
    """`wcache.toml`, `WCACHE_RUNTIME_DIR`, `WCACHE_STATE_DIR`, `WCACHE_LEDGER`, arguments: the later wins. The environment's places are
    the daemon's; a file that says otherwise loses, an argument that says otherwise wins."""
    config = tmp_path / "wcache.toml"
    config.write_text(f'runtime_dir = "{tmp_path}/from-file"\nstate_dir = "{tmp_path}/from-file"\n[policy]\naccept = "header"\n')
    chosen = {"WCACHE_CONFIG": str(config)}
    assert ok(story.wcache("status", "--json", **chosen))["server_pid"] == story.daemon.pid
    assert ok(story.wcache("status", "--json", "--runtime-dir", str(tmp_path / "none"), **chosen), 6)["state"] == "absent"
    alone = {**chosen, "WCACHE_RUNTIME_DIR": "", "WCACHE_STATE_DIR": "", "WCACHE_LEDGER": ""}
    assert str(tmp_path / "from-file") in ok(story.wcache("status", "--json", **alone), 6)["error"]["where"]
    assert ok(story.wcache("audit", "summary", "--json", "--ledger", str(tmp_path / "none.sqlite")), 4)["error"]["code"] == "not_found"


def test_colours_are_for_a_terminal_and_not_when_told_so(story: Story) -> None:
    """On a terminal the table has them, with NO_COLOR (https://no-color.org) or in a pipe it has none."""

    def on_terminal(**more: str) -> str:
        ours, theirs = pty.openpty()
        environ = {**clean_environ(), **story.daemon.env, "TERM": "xterm-256color", **more}
        environ.pop("NO_COLOR", None) if "NO_COLOR" not in more else None
        command = [sys.executable, "-m", "wcache.cli", "doctor"]
        process = subprocess.Popen(command, env=environ, stdin=theirs, stdout=theirs, stderr=theirs, close_fds=True)
        os.close(theirs)
        text = b""
        while True:
            try:
                chunk = os.read(ours, 65536)
            except OSError:  # EIO: the other side is closed
                break
            if not chunk:
                break
            text += chunk
        process.wait()
        os.close(ours)
        return text.decode()

    assert "\x1b[" in on_terminal()
    assert "\x1b[" not in on_terminal(NO_COLOR="1")
    assert "\x1b[" not in story.wcache("doctor").stdout


def test_stop_is_the_end_of_the_day(story: Story) -> None:
    """Refused while somebody has weights mapped, and says who; `--force` ends it even so."""
    ok(story.wcache("load", story.words["base"], "--json"))
    held = attach(story.words["base"], settings=story.daemon.settings, launch="l-last")
    refused = ok(story.wcache("daemon", "stop", "--json"), 7)["error"]
    assert "mapped" in refused["what"]
    stopped = ok(story.wcache("daemon", "stop", "--force", "--json"))
    assert set(stopped) >= {"server_pid", "state"} and stopped["state"] == "stopped"
    held.close()
    assert ok(story.wcache("status", "--json"), 6)["server_pid"] is None
