"""`wcache ledger key | checkpoint | export | verifier | proof`, and `verify` against checkpoints, as somebody types them."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from support import history
from support.commands import Cli, in_process, in_processes, ok

from wcache.ledger.store import Ledger, NewEvent


class Desk(NamedTuple):
    """A ledger of some events, a key with its public part, and the command line on it."""

    wcache: Cli
    ledger: Path
    folder: Path
    public: str

    def add(self, count: int = 2) -> None:
        with Ledger.open(self.ledger) as opened:
            seq, _ = opened.head()
            for number in range(count):
                opened.append_batch([(NewEvent(event=history.decided(f"a-{seq}-{number}")),)])

    def file(self, name: str) -> str:
        return str(self.folder / name)


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    env = {"WCACHE_RUNTIME_DIR": str(tmp_path / "run"), "WCACHE_STATE_DIR": str(tmp_path / "state")}
    wcache = in_process(env)
    with Ledger.open(tmp_path / "state" / "ledger.sqlite") as opened:
        for number in range(6):
            opened.append_batch([(NewEvent(event=history.decided(f"a-{number}")),)])
    made = wcache("ledger", "key", "new", str(tmp_path / "key"), "--name", "example.com/log")
    assert made.returncode == 0
    (tmp_path / "key.pub").write_text(made.stdout)
    return Desk(wcache, tmp_path / "state" / "ledger.sqlite", tmp_path, made.stdout.strip())  # type: ignore[return-value]


def error(document: Any) -> str:
    return str(document["error"]["code"])


def test_a_key_is_made_once_and_shown_without_its_secret(desk: Desk) -> None:
    shown = ok(desk.wcache("ledger", "key", "show", desk.file("key"), "--json"))
    assert shown == {"key": desk.file("key"), "name": "example.com/log", "id": desk.public.split("+")[1], "public_key": desk.public}
    assert error(ok(desk.wcache("ledger", "key", "new", desk.file("key"), "--json"), 2)) == "usage"
    secret = Path(desk.file("key")).read_text().strip()
    for arguments in (("key", "show", desk.file("key")), ("checkpoint", "--key", desk.file("key"), "--json")):
        done = desk.wcache("ledger", *arguments)
        assert done.returncode == 0
        assert secret.split("+", 4)[4] not in done.stdout + done.stderr  # base64 has a + of its own now and then


def test_a_key_is_named_after_the_ledger_unless_it_has_a_name_of_its_own(desk: Desk) -> None:
    made = ok(desk.wcache("ledger", "key", "new", desk.file("own"), "--json"))
    with Ledger.open(desk.ledger, read_only=True) as opened:
        assert made["name"] == f"wcache/ledger/{opened.origin}"
    refused = desk.wcache("ledger", "key", "new", desk.file("other"), "--ledger", desk.file("none"))
    assert (refused.returncode, refused.stderr) == (2, "wcache: a key needs a name; give --name, such as example.com/ledgers\n")


def test_a_checkpoint_is_signed_recorded_posted_and_verified(desk: Desk) -> None:
    made = ok(desk.wcache("ledger", "checkpoint", "--key", desk.file("key"), "--command", f"tee {desk.file('posted')}", "--json"))
    assert (made["new"], made["size"], made["recorded_seq"], made["previous_size"]) == (True, 6, 7, None)
    assert made["public_key"] == desk.public
    assert Path(desk.file("posted")).read_text() == made["note"] == Path(made["checkpoint"]).read_text()
    again = ok(desk.wcache("ledger", "checkpoint", "--key", desk.file("key"), "--json"))
    assert (again["new"], again["size"]) == (False, 6)
    desk.add()
    text = desk.wcache("ledger", "checkpoint", "--key", desk.file("key")).stdout
    assert "signed, 3 events after the last one" in text
    checked = ok(desk.wcache("ledger", "verify", "--checkpoint", desk.file("posted"), "--public-key", desk.file("key.pub"), "--json"))
    assert (checked["ok"], checked["problems"]) == (True, [])
    plain = desk.wcache("ledger", "verify", "--checkpoint", made["checkpoint"], "--checkpoint", desk.file("posted"))
    assert plain.returncode == 0
    assert "the signatures were not checked" in plain.stdout


def test_a_ledger_that_lost_its_end_exits_with_1_and_says_truncated(desk: Desk) -> None:
    ok(desk.wcache("ledger", "checkpoint", "--key", desk.file("key"), "--out", desk.file("posted"), "--no-record", "--json"))
    from support.tamper import tamper

    tamper(
        desk.ledger,
        "DELETE FROM event WHERE seq > 4",
        "DELETE FROM stream WHERE stream IN ('attach/a-4', 'attach/a-5')",
        "DELETE FROM attach WHERE seq > 4",
    )
    assert desk.wcache("ledger", "verify").returncode == 0
    checked = ok(desk.wcache("ledger", "verify", "--checkpoint", desk.file("posted"), "--public-key", desk.public, "--json"), 1)
    assert [problem["cls"] for problem in checked["problems"]] == ["truncated"]
    refused = ok(desk.wcache("ledger", "checkpoint", "--key", desk.file("key"), "--out", desk.file("posted"), "--json"), 8)
    assert (error(refused), refused["error"]["detail"]) == ("ledger_corrupt", "truncated")


def test_a_checkpoint_that_could_not_be_posted_stays_and_exits_with_7(desk: Desk) -> None:
    done = desk.wcache("ledger", "checkpoint", "--key", desk.file("key"), "--post", "http://127.0.0.1:1/log?token=secret", "--json")
    assert error(ok(done, 7)) == "post_failed"
    assert "secret" not in done.stdout + done.stderr
    assert Path(f"{desk.ledger}.checkpoint").exists()


def test_what_cannot_be_meant_is_one_line(desk: Desk) -> None:
    Path(desk.file("loose")).write_text(Path(desk.file("key")).read_text())
    Path(desk.file("loose")).chmod(0o644)
    for code, arguments in (
        (2, ("checkpoint", "--key", desk.file("loose"))), (4, ("checkpoint", "--key", desk.file("absent"))), (2, ("checkpoint",)),
        (2, ("checkpoint", "--key", desk.file("key.pub"))), (2, ("verify", "--public-key", desk.public)),
        (4, ("verify", "--checkpoint", desk.file("absent"))), (1, ("verify", "--checkpoint", desk.file("key"))),
        (2, ("checkpoint", "--key", desk.file("key"), "--post", "example.com")), (4, ("proof", "inclusion", "3")),
        (2, ("checkpoint", "--key", desk.file("key"), "--command", "'")), (2, ("proof", "inclusion", "0")),
        (4, ("proof", "consistency", desk.file("absent"))), (4, ("proof", "check", desk.file("absent"), "--public-key", desk.public)),
    ):  # fmt: skip
        done = desk.wcache("ledger", *arguments)
        assert done.returncode == code, (arguments, done.stderr)
        assert len(done.stderr.splitlines()) == 1
        assert done.stderr.startswith("wcache: ")
    assert not Path(f"{desk.ledger}.checkpoint").exists()


def test_an_export_goes_to_a_file_or_a_pipe_and_the_program_that_comes_with_it_checks_it(desk: Desk) -> None:
    ok(desk.wcache("ledger", "checkpoint", "--key", desk.file("key"), "--out", desk.file("posted"), "--json"))
    written = ok(desk.wcache("ledger", "export", desk.file("out.jsonl"), "--json"))
    assert written == {"ledger": str(desk.ledger), "export": desk.file("out.jsonl"), "events": 7}
    env = {"WCACHE_RUNTIME_DIR": desk.file("run"), "WCACHE_STATE_DIR": desk.file("state")}
    piped = in_processes(env)("ledger", "export", "-")
    assert piped.stdout == Path(desk.file("out.jsonl")).read_text(encoding="utf-8")
    assert error(ok(desk.wcache("ledger", "export", desk.file("out.jsonl"), "--json"), 2)) == "usage"
    Path(desk.file("verify_export.py")).write_text(desk.wcache("ledger", "verifier").stdout, encoding="utf-8")
    assert ok(desk.wcache("ledger", "verifier", "--json"))["text"] == Path(desk.file("verify_export.py")).read_text(encoding="utf-8")
    command = [sys.executable, "-I", "-S", desk.file("verify_export.py"), desk.file("out.jsonl"), desk.file("posted"), desk.public]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "ok: seq 1 to 7, signed up to 6, 0 redacted\n")


def test_proofs_are_printed_and_checked_by_somebody_who_has_no_ledger(desk: Desk, tmp_path: Path) -> None:
    ok(desk.wcache("ledger", "checkpoint", "--key", desk.file("key"), "--json"))
    Path(desk.file("first")).write_text(Path(f"{desk.ledger}.checkpoint").read_text())
    desk.add()
    ok(desk.wcache("ledger", "checkpoint", "--key", desk.file("key"), "--json"))
    elsewhere = in_process({"WCACHE_RUNTIME_DIR": desk.file("x"), "WCACHE_STATE_DIR": desk.file("x")})

    def keep(name: str, *arguments: str) -> str:
        done = desk.wcache("ledger", "proof", *arguments)
        assert done.returncode == 0, done.stderr
        Path(desk.file(name)).write_text(done.stdout, encoding="utf-8")
        return desk.file(name)

    event = keep("event", "inclusion", "3")
    shown = ok(elsewhere("ledger", "proof", "check", event, "--public-key", desk.file("key.pub"), "--json"))
    assert (shown["proof"], shown["event"]["seq"], shown["signed_by"]) == ("inclusion", 3, [desk.public])
    assert json.loads(shown["event"]["payload"])["attach"] == "a-2"
    assert (
        "holds: event 3 is among the 9 that were signed" in elsewhere("ledger", "proof", "check", event, "--public-key", desk.public).stdout
    )
    for old in (desk.file("first"), "6"):
        grown = keep("grown", "consistency", old)
        arguments = ("ledger", "proof", "check", grown, "--public-key", desk.public, "--old", desk.file("first"), "--json")
        assert ok(elsewhere(*arguments))["old_size"] == 6
    Path(event).write_text(Path(event).read_text().replace("index 2", "index 3"))
    assert error(ok(elsewhere("ledger", "proof", "check", event, "--public-key", desk.public, "--json"), 1)) == "signature_invalid"


def test_beside_a_running_daemon_everything_works(wcache: Cli, tmp_path: Path) -> None:
    """Signing appends like everybody else; exporting and proving only read."""
    assert wcache("ledger", "key", "new", str(tmp_path / "key"), "--name", "example.com/log").returncode == 0
    made = ok(wcache("ledger", "checkpoint", "--key", str(tmp_path / "key"), "--out", str(tmp_path / "note"), "--json"))
    assert made["recorded_seq"] == made["size"] + 1
    checked = ok(wcache("ledger", "verify", "--checkpoint", str(tmp_path / "note"), "--public-key", made["public_key"], "--json"))
    assert checked["ok"]
    assert ok(wcache("ledger", "export", str(tmp_path / "out.jsonl"), "--json"))["events"] == checked["events"]
    assert wcache("ledger", "proof", "inclusion", "1", "--checkpoint", str(tmp_path / "note")).returncode == 0
    assert ok(wcache("status", "--json"))["state"] == "ready"
