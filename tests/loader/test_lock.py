"""A lock names the weights that may be served: nothing else is mapped, whatever the evidence says, and the record names the lock."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from support.commands import Cli, in_process, ok
from support.corpus import make_checkpoint, make_tensors

from wcache.core.checkpoint.lockfile import read_lock
from wcache.core.model.errors import EXIT_FINDING, UsageError
from wcache.core.model.events import AttachDecided, FingerprintRecorded
from wcache.core.model.vocabulary import Tier
from wcache.loader.attach import attach


@pytest.fixture
def wcache(host: Any) -> Cli:
    return in_process(host.daemon.env)


@pytest.fixture
def base(disk_path: Path) -> Path:
    return make_checkpoint(disk_path / "base", shards=2)


@pytest.fixture
def twin(disk_path: Path) -> Path:
    return make_checkpoint(disk_path / "twin", make_tensors(1), shards=2)


def locked(wcache: Cli, path: Path, *checkpoints: Path) -> Path:
    ok(wcache("lock", *map(str, checkpoints), "-o", str(path), "--json"))
    return path


def test_only_locked_weights_are_mapped_and_the_record_names_the_lock(
    host: Any, wcache: Cli, base: Path, twin: Path, disk_path: Path
) -> None:
    host.daemon.load(base)
    right, wrong = locked(wcache, disk_path / "right.lock", base), locked(wcache, disk_path / "wrong.lock", twin)
    assert attach(base, settings=host.settings, lock=str(right)).decision.tier is Tier.PINNED
    decided = host.record.last(AttachDecided)
    assert decided.lock == read_lock(right) and decided.policy_body.lock == str(right)
    refused = attach(base, settings=host.settings, lock=str(wrong), on_miss="fallback")
    assert refused.decision.reason == "content_mismatch" and f"the lock {wrong} allows" in refused.decision.detail
    assert host.record.last(AttachDecided).lock == read_lock(wrong)
    assert str(wrong) in wcache("audit", "explain", str(refused.seq)).stdout
    both = locked(wcache, disk_path / "both.lock", base, twin)
    assert attach(base, settings=host.settings, lock=str(both)).hit


@pytest.mark.parametrize("accept", ["header", "sampled", "pinned", "content"])
def test_no_tier_and_no_grant_is_stronger_than_a_lock(host: Any, wcache: Cli, base: Path, twin: Path, disk_path: Path, accept: str) -> None:
    """A name that means other weights now: the files agree with what is resident, and the lock with neither."""
    host.daemon.load(base)
    ok(wcache("trust", "grant", str(base), "--reason", "r", "--json"))
    wrong = locked(wcache, disk_path / "wrong.lock", twin)
    before = len(host.record.of(FingerprintRecorded))
    refused = attach(base, settings=host.settings, lock=str(wrong), accept=accept, trusted="honour", attested="honour", on_miss="fallback")
    assert not refused.hit and refused.decision.reason == "content_mismatch"
    assert len([e for e in host.record.of(FingerprintRecorded)[before:] if e.evidence.tier is Tier.CONTENT]) == 0, (
        "nothing is read for nothing"
    )


def test_a_lock_by_environment_and_the_check_of_one(
    host: Any, wcache: Cli, base: Path, twin: Path, disk_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host.daemon.load(base)
    wrong = locked(wcache, disk_path / "wrong.lock", twin)
    assert ok(wcache("check", str(base), "--json", WCACHE_LOCK=str(wrong)), EXIT_FINDING)["reason"] == "content_mismatch"
    with pytest.raises(UsageError, match="cannot be read"):
        attach(base, settings=host.settings, lock=str(disk_path / "none.lock"))
    wrong.write_text("{}")
    with pytest.raises(UsageError, match="no lock"):
        attach(base, settings=host.settings, lock=str(wrong))


def test_a_load_whose_weights_are_not_in_the_lock_does_not_stay(host: Any, wcache: Cli, base: Path, twin: Path, disk_path: Path) -> None:
    lock = locked(wcache, disk_path / "wcache.lock", base)
    assert ok(wcache("load", str(base), "--lock", str(lock), "--json"))["reused"] is False
    error = ok(wcache("load", str(twin), "--json", WCACHE_LOCK=str(lock)), 3)["error"]
    assert error["detail"] == "not_locked" and str(lock) in error["what"] and "released" in error["what"]
    assert [row["checkpoint"] for row in ok(wcache("ls", "--json"))] == [str(base)]
    kept = ok(wcache("load", str(twin), "--json"))["residency"]
    assert "stay" in ok(wcache("load", str(twin), "--lock", str(lock), "--json"), 3)["error"]["what"]
    assert kept in [row["residency"] for row in ok(wcache("ls", "--json"))]


def test_check_says_what_differs_and_that_the_same_weights_in_other_files_do_not(
    host: Any, wcache: Cli, base: Path, twin: Path, disk_path: Path
) -> None:
    lock = disk_path / "wcache.lock"
    made = ok(wcache("lock", str(base), str(twin), "-o", str(lock), "--json"))
    assert [one["checkpoint"] for one in made["checkpoints"]] == [str(base), str(twin)]
    before = lock.read_bytes()
    locked(wcache, lock, twin, base)
    assert lock.read_bytes() == before, "the same weights, the same bytes"
    assert [row["ok"] for row in ok(wcache("lock", "--check", "-o", str(lock), "--json"))] == [True, True]
    shutil.rmtree(base)
    make_checkpoint(base, shards=3)
    shard = sorted(twin.glob("*.safetensors"))[0]
    data = bytearray(shard.read_bytes())
    data[-1] ^= 1
    shard.write_bytes(bytes(data))
    same, other = ok(wcache("lock", "--check", "-o", str(lock), "--json"), EXIT_FINDING)
    assert same["ok"] and "the weights are the same, the files are not" in same["why"]
    assert not other["ok"] and other["why"] == f"{shard.name} has other bytes" and other["found"] != other["locked"]
    shutil.rmtree(twin)
    (gone,) = ok(wcache("lock", "--check", str(twin), "-o", str(lock), "--json"), EXIT_FINDING)
    assert gone["found"] is None and "no such file" in gone["why"]
    assert json.loads(wcache("lock", "--check", "/other", "-o", str(lock), "--json").stdout)["error"]["code"] == "usage"
