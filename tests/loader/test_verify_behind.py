"""What a weak hit was asked for is looked at in the background: through the engine's descriptors, once for all, and nobody waits for it."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from support.attaching import hash_now
from support.commands import in_process, ok
from support.corpus import make_checkpoint, make_tensors
from support.daemon import wait_until

from wcache.core.model import events as ev
from wcache.core.model.vocabulary import Tier
from wcache.loader.attach import attach
from wcache.loader.attachment import Attachment


@pytest.fixture
def base(host: Any, disk_path: Path) -> Path:
    made = make_checkpoint(disk_path / "base", shards=2)
    host.daemon.load(made)
    return made


def twin_of(folder: Path, *, shards: int = 2) -> Path:
    """Other values under the same headers. Fresh: a worker waits up to two seconds before it hashes them, while which much can be done."""
    made = make_checkpoint(folder, make_tensors(1), shards=shards)
    time.sleep(0.2)  # a proof needs files that were not written in the very tick of the attach: this is an age, not a state
    return made


def weak(host: Any, path: Path, launch: str = "l-weak", **more: Any) -> Attachment:
    found = attach(path, settings=host.settings, **{"accept": "header", "verify_behind": "on", "launch": launch, **more})
    assert found.hit and found.decision.tier is Tier.HEADER
    return found


def is_nice(pid: int) -> bool:
    try:
        return os.getpriority(os.PRIO_PROCESS, pid) == 10
    except ProcessLookupError:
        return False


def log_of(host: Any) -> str:
    return str(host.daemon.log())


def test_a_wrong_hit_is_refuted_while_the_engine_runs_and_nobody_waited(host: Any, base: Path, disk_path: Path) -> None:
    """I16: on record, in the log and denied from then on; the resident weights stay good."""
    twin = twin_of(disk_path / "twin")
    wrong = weak(host, twin)
    assert not host.record.of(ev.VerifyFailed), "the attach is over, and the look has only begun"
    wait_until(lambda: any(is_nice(worker) for worker in host.daemon.workers()) or host.record.of(ev.VerifyFailed))
    wrong.tensors()
    wait_until(lambda: host.record.of(ev.VerifyFailed))
    failed = host.record.last(ev.VerifyFailed)
    assert (failed.attach, failed.residency) == (wrong.attach, wrong.decision.residency)
    assert str(twin) in failed.spellings
    wait_until(lambda: "WRONG HIT" in log_of(host))
    again = attach(twin, settings=host.settings, accept="header", on_miss="fallback")
    assert not again.hit and again.decision.reason == "content_mismatch"
    assert attach(base, settings=host.settings).hit
    (row,) = ok(in_process(host.daemon.env)("audit", "wrong-hits", "--json"), 1)
    assert (row["pid"], row["uid"], row["had"], row["until"]) == (os.getpid(), os.geteuid(), "still", None)
    assert row["since"] is not None
    wrong.close()


def test_a_right_hit_is_proved_and_the_next_start_is_pinned(host: Any, base: Path, disk_path: Path) -> None:
    copy = shutil.copytree(base, disk_path / "copy")
    time.sleep(0.2)  # as above: an age
    right = weak(host, copy)
    right.close()  # an engine that is gone is proved all the same
    wait_until(lambda: host.record.of(ev.VerifyPassed))
    assert host.record.last(ev.VerifyPassed).attach == right.attach
    assert attach(copy, settings=host.settings).decision.tier is Tier.PINNED
    assert ok(in_process(host.daemon.env)("audit", "prove", "--json")) == []


def test_what_lies_at_the_path_now_says_nothing(host: Any, base: Path, disk_path: Path) -> None:
    """I15: the twin was asked for and is moved away; what takes its place would prove the hit."""
    twin = twin_of(disk_path / "twin")
    wrong = weak(host, twin)
    twin.rename(disk_path / "away")
    shutil.copytree(base, twin)
    wait_until(lambda: host.record.of(ev.VerifyFailed))
    assert host.record.last(ev.VerifyFailed).attach == wrong.attach
    wrong.close()


def test_files_that_are_written_to_before_they_are_hashed_prove_nothing(host: Any, base: Path, disk_path: Path) -> None:
    """I15"""
    twin = twin_of(disk_path / "twin")
    wrong = weak(host, twin)
    for shard in twin.glob("*.safetensors"):
        with shard.open("r+b") as file:
            file.write((base / shard.name).read_bytes())
    wait_until(lambda: host.record.of(ev.VerifyInconclusive))
    assert "changed" in host.record.last(ev.VerifyInconclusive).why
    assert not host.record.of(ev.VerifyFailed) and not host.record.of(ev.VerifyPassed)
    wrong.close()


def test_eight_weak_hits_on_the_same_files_cost_one_read(host: Any, base: Path, disk_path: Path) -> None:
    """I17"""
    twin = twin_of(disk_path / "twin")
    found: list[Attachment] = []
    threads = [threading.Thread(target=lambda: found.append(weak(host, twin))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    wait_until(lambda: len(host.record.of(ev.VerifyFailed)) == 8)
    assert {event.attach for event in host.record.of(ev.VerifyFailed)} == {one.attach for one in found}
    contents = [event for event in host.record.of(ev.FingerprintRecorded) if event.evidence.tier is Tier.CONTENT]
    assert len([event for event in contents if event.evidence.location.root == str(twin)]) == 1
    for one in found:
        one.close()


def test_earlier_hits_on_the_same_files_are_decided_by_the_same_content(host: Any, base: Path, disk_path: Path) -> None:
    twin = twin_of(disk_path / "twin")
    earlier = weak(host, twin, "l-earlier", verify_behind="off")
    earlier.close()
    later = weak(host, twin, "l-later")
    wait_until(lambda: len(host.record.of(ev.VerifyFailed)) == 2)
    assert {event.attach for event in host.record.of(ev.VerifyFailed)} == {earlier.attach, later.attach}
    rows = ok(in_process(host.daemon.env)("audit", "wrong-hits", "--json"), 1)
    assert {row["launch"]: row["had"] for row in rows} == {"l-earlier": "never", "l-later": "never"}  # nobody asked for a tensor
    later.close()


def test_an_attach_that_needs_the_same_hash_has_it_at_once_and_it_counts_for_both(host: Any, base: Path, disk_path: Path) -> None:
    """I17: what an engine waits for is never behind what nobody waits for."""
    twin = twin_of(disk_path / "twin")
    wrong = weak(host, twin)
    wait_until(host.daemon.workers)
    (slow,) = host.daemon.workers()
    channel = host.daemon.connect()
    found = hash_now(channel, twin)
    assert slow not in host.daemon.workers()
    channel.close()
    wait_until(lambda: host.record.of(ev.VerifyFailed))
    assert (host.record.last(ev.VerifyFailed).attach, host.record.last(ev.VerifyFailed).found) == (wrong.attach, found.digest)
    contents = [event for event in host.record.of(ev.FingerprintRecorded) if event.evidence.tier is Tier.CONTENT]
    assert len([event for event in contents if event.evidence.location.root == str(twin)]) == 1
    wrong.close()


def test_a_hit_that_a_dying_server_could_not_look_at_stays_unproven(host: Any, base: Path, disk_path: Path) -> None:
    twin = twin_of(disk_path / "twin")
    wrong = weak(host, twin)
    wrong.tensors()
    wait_until(host.daemon.workers)
    before = host.daemon.status().server_pid
    os.kill(before, signal.SIGKILL)
    wait_until(lambda: host.daemon.status().server_pid != before)
    assert not host.record.of(ev.VerifyFailed) and host.leases() == 1
    wcache = in_process(host.daemon.env)
    assert [row["proof"] for row in ok(wcache("audit", "hits", "--unproven", "--json"))] == ["unproven"]
    assert [row["proof"] for row in ok(wcache("audit", "prove", "--json"), 1)] == ["refuted"]
    wrong.close()


def test_what_could_tell_nothing_is_not_read(host: Any, base: Path) -> None:
    """On tmpfs an unchanged identity does not mean unchanged bytes."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        found = weak(host, twin_of(Path(folder) / "twin"))
        wait_until(lambda: "stays unproven" in log_of(host))
        assert not host.daemon.workers()
        found.close()
    assert not host.record.of(ev.VerifyInconclusive)


def test_off_means_off(host: Any, base: Path, disk_path: Path) -> None:
    found = weak(host, twin_of(disk_path / "twin"), verify_behind="off")
    assert host.leases() == 1 and not host.daemon.workers()
    found.close()
    assert [row["proof"] for row in ok(in_process(host.daemon.env)("audit", "hits", "--json"))] == ["unproven"]
