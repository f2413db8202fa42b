"""One path, two directories: an engine in a mount namespace of its own sees other files under the name that the daemon knows (I15)."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.commands import in_processes, ok
from support.corpus import make_checkpoint, make_tensors
from support.daemon import DaemonProcess, wait_until
from support.engines import Engines

from wcache.core.model.errors import EXIT_UNPROVABLE
from wcache.core.model.events import VerifyFailed

needs_namespaces = pytest.mark.skipif(
    os.geteuid() != 0
    or not shutil.which("unshare")
    or subprocess.run(["unshare", "-m", "true"], capture_output=True, check=False).returncode != 0,
    reason="needs root and unshare for a mount namespace",
)


UNSEEN = {"WCACHE_VERIFY_BEHIND": "off"}
"""The daemon does not look at what was asked for, so that there is something left to be looked at."""


@pytest.fixture
def daemon(disk_path: Path) -> Iterator[DaemonProcess]:
    process = DaemonProcess(disk_path / "state")
    try:
        yield process.start()
    finally:
        process.cleanup()


def elsewhere(shown: Path, at: Path) -> tuple[str, ...]:
    """The command to run something where `shown` lies at `at`."""
    return ("unshare", "-m", "sh", "-c", f'mount --bind "{shown}" "{at}" && exec "$0" "$@"')


@needs_namespaces
def test_other_files_under_a_known_path_are_no_hit_at_pinned_and_content(daemon: DaemonProcess, disk_path: Path) -> None:
    """The daemon is never asked to look at a path: it hashes the engine's own descriptors."""
    base = make_checkpoint(disk_path / "base", shards=2)
    twin = make_checkpoint(disk_path / "twin", make_tensors(1), shards=2)
    daemon.load(base)
    with Engines(daemon.env, prefix=elsewhere(twin, base)) as engine, Engines(daemon.env) as outside:
        for accept in ("pinned", "content", "sampled"):
            assert engine.attach(base, accept=accept)["reason"] == "content_mismatch"
        assert outside.attach(base)["tier"] == "pinned"


@needs_namespaces
def test_equal_files_under_another_mount_are_a_hit(daemon: DaemonProcess, disk_path: Path) -> None:
    """No needless miss: a copy that an engine sees at the loaded path is hashed once, then pinned."""
    base = make_checkpoint(disk_path / "base", shards=2)
    copy = shutil.copytree(base, disk_path / "copy")
    daemon.load(base)
    with Engines(daemon.env, prefix=elsewhere(copy, base)) as engine:
        assert [engine.attach(base)["tier"] for _ in range(2)] == ["content", "pinned"]


@needs_namespaces
def test_the_daemon_looks_through_the_engines_descriptors_and_finds_the_wrong_hit(daemon: DaemonProcess, disk_path: Path) -> None:
    """I15: the path shows the daemon the very files that it loaded, so a look at the path would have proved the hit."""
    base = make_checkpoint(disk_path / "base", shards=2)
    twin = make_checkpoint(disk_path / "twin", make_tensors(1), shards=2)
    daemon.load(base)
    time.sleep(0.2)  # as below: an age
    with Engines(daemon.env, prefix=elsewhere(twin, base)) as engine:
        assert engine.attach(base, accept="header")["tier"] == "header"
        wait_until(lambda: daemon.events("verify.failed"))
    (failed,) = daemon.events("verify.failed")
    assert isinstance(failed, VerifyFailed) and failed.found != failed.expected


@needs_namespaces
def test_a_weak_hit_of_another_namespace_is_unprovable_from_this_one(daemon: DaemonProcess, disk_path: Path) -> None:
    """I15: here the path shows the very files that were loaded, and they prove nothing about what the engine saw."""
    base = make_checkpoint(disk_path / "base", shards=2)
    twin = make_checkpoint(disk_path / "twin", make_tensors(1), shards=2)
    daemon.load(base)
    time.sleep(0.2)  # a proof needs files that were not written in the very tick of the attach: this is an age, not a state
    with Engines({**daemon.env, **UNSEEN}, prefix=elsewhere(twin, base)) as engine:
        wrong = engine.attach(base, accept="header")
        assert (wrong["hit"], wrong["tier"]) == (True, "header")
    (proving,) = ok(in_processes(daemon.env)("audit", "prove", "--json"), EXIT_UNPROVABLE)
    assert (proving["seq"], proving["proof"]) == (wrong["seq"], "unprovable"), proving["why"]
    assert proving["read_bytes"] == 0
    assert ok(in_processes(daemon.env)("audit", "wrong-hits", "--json")) == []


@needs_namespaces
def test_proving_inside_the_engines_namespace_refutes_it(daemon: DaemonProcess, disk_path: Path) -> None:
    """I15: whoever sees the files as the engine saw them can say what they are, and the base stays good for everybody else (I16)."""
    base = make_checkpoint(disk_path / "base", shards=2)
    twin = make_checkpoint(disk_path / "twin", make_tensors(1), shards=2)
    daemon.load(base)
    time.sleep(0.2)  # as above
    inside = elsewhere(twin, base)
    with Engines({**daemon.env, **UNSEEN}, prefix=inside) as engine:
        wrong = engine.attach(base, accept="header")
    clean = {name: value for name, value in os.environ.items() if not name.startswith("WCACHE_")}
    command = [*inside, sys.executable, "-m", "wcache.cli", "audit", "prove", str(wrong["seq"]), "--json"]
    done = subprocess.run(command, env={**clean, **daemon.env}, capture_output=True, text=True, check=False, timeout=60)
    assert [item["proof"] for item in ok(done, 1)] == ["refuted"]
    with Engines(daemon.env) as outside:
        assert outside.attach(base)["tier"] == "pinned"
