"""`load --pin`, `release --when-free`, `verify` and `--budget` as a user types them."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest
from support.attaching import attach
from support.corpus import make_checkpoint
from support.daemon import DaemonProcess, wait_until
from support.faults import load_with_a_memory_error, two_tensors

from wcache.cli.text import parse_size

Cli = Callable[..., "CompletedProcess[str]"]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_checkpoint(tmp_path_factory.mktemp("memory") / "model")


def test_pinning_is_said_and_shown(wcache: Cli, model: Path) -> None:
    assert ", pinned" in wcache("load", str(model), "--pin").stdout
    (row,) = json.loads(wcache("ls", "--json").stdout)
    assert (row["pinned"], row["evictable"], row["leases"]) == (True, False, 0)
    assert row["used"]
    assert json.loads(wcache("load", str(model), "--json").stdout)["pinned"]
    assert not json.loads(wcache("load", str(model), "--no-pin", "--json").stdout)["pinned"]
    assert json.loads(wcache("ls", "--json").stdout)[0]["evictable"]
    assert "evictable" in wcache("ls").stdout


def test_verify_says_what_it_looked_at_and_exits_with_1_for_a_finding(
    wcache: Cli, daemon: DaemonProcess, model: Path, tmp_path: Path
) -> None:
    good = json.loads(wcache("load", str(model), "--json").stdout)["residency"]
    found = wcache("verify", good)
    assert (found.returncode, "intact" in found.stdout) == (0, True)
    assert "nothing was read" in wcache("verify", good, "--no-read").stdout
    assert json.loads(wcache("verify", good, "--json").stdout)["intact"]

    bad = load_with_a_memory_error(daemon, two_tensors(tmp_path / "bad"))
    attached = attach(daemon.settings.socket_path, tmp_path / "bad")
    found = wcache("verify", bad)
    assert found.returncode == 1
    assert found.stdout.startswith(f"{bad}: NOT what was loaded, now suspect")
    assert "changed: a" in found.stdout
    document = wcache("verify", bad, "--json")
    assert (document.returncode, json.loads(document.stdout)["tensors"]) == (1, ["a"])
    assert "suspect" in wcache("status").stdout
    attached.close()
    timeline = wcache("audit", "timeline", bad).stdout
    assert "verify.failed" in timeline
    assert "mutation.detected" in timeline
    wait_until(lambda: not daemon.status().leases)
    assert wcache("release", bad, "--why", "broken").returncode == 0


def test_a_release_when_free_returns_when_it_is(wcache: Cli, daemon: DaemonProcess, model: Path) -> None:
    residency = json.loads(wcache("load", str(model), "--json").stdout)["residency"]
    attached = attach(daemon.settings.socket_path, model)
    refused = wcache("release", residency)
    assert refused.returncode == 7
    assert "--when-free" in refused.stderr
    done: list[CompletedProcess[str]] = []
    thread = threading.Thread(target=lambda: done.append(wcache("release", residency, "--when-free", "--verify")))
    thread.start()
    wait_until(
        lambda: daemon.events("release.requested")[-1:] and any(one.view.state == "releasing" for one in daemon.status().residencies)
    )
    assert not done
    attached.close()
    thread.join(30)
    assert done[0].returncode == 0
    assert "released" in done[0].stdout


def test_a_budget_is_a_size(lonely: Cli, tmp_path: Path) -> None:
    refused = lonely("daemon", "start", "--budget", "much")
    assert (refused.returncode, "is no size" in refused.stderr) == (2, True)
    make_checkpoint(tmp_path / "model")
    try:
        assert lonely("daemon", "start", "--budget", "1 KiB").returncode == 0
        status = json.loads(lonely("status", "--json").stdout)
        assert (status["budget_bytes"], status["budget_by"]) == (1024, "the budget of 1024")
        refused = lonely("load", str(tmp_path / "model"))
        assert refused.returncode == 9
        assert "1024 may be taken" in refused.stderr
    finally:
        lonely("daemon", "stop", "--force")


@pytest.mark.parametrize(
    ("text", "size_bytes"), [("0", 0), ("1000", 1000), ("1KiB", 1024), ("1.5 GiB", 3 << 29), ("2tib", 2 << 40), ("7B", 7), ("3Mi", 3 << 20)]
)
def test_sizes_are_read_as_people_write_them(text: str, size_bytes: int) -> None:
    assert parse_size(text) == size_bytes


@pytest.mark.parametrize("text", ["", "GiB", "-1", "1GB", "1 2", "1e9", "0x10"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is no size"):
        parse_size(text)
