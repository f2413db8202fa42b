"""Attaching to a real daemon: what is touched, what is recorded, how long a lease lasts."""

from __future__ import annotations

import gc
import logging
import os
import shutil
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch
from support.corpus import COMMIT, OTHER_COMMIT, make_checkpoint, make_hub_cache, make_tensors, read_tensors
from support.daemon import wait_until
from support.descriptors import open_descriptors

from wcache.core.model.errors import MappingFailed, StrictMiss
from wcache.core.model.events import (
    AttachDecided,
    FallbackCompleted,
    FingerprintRecorded,
    LeaseEnded,
    LeaseGranted,
    MapCompleted,
    MapFailed,
    Ranks,
    TrustGranted,
)
from wcache.core.model.evidence import Grant
from wcache.core.model.vocabulary import TrustScope
from wcache.ledger.store import Ledger, NewEvent
from wcache.loader import attachment_of, load_file
from wcache.loader.attach import attach
from wcache.loader.check import check


@pytest.fixture(scope="module")
def base(shared_disk: Path) -> Path:
    """A checkpoint of two shards that nobody changes: only its first load has to wait until its files are two seconds old."""
    return make_checkpoint(shared_disk / "base", shards=2)


def bits(tensor: torch.Tensor) -> bytes:
    return bytes(tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())


def grant(host: Any, **fields: Any) -> Grant:
    made = Grant(grant="g-1", reason="tested", operator_uid=os.geteuid(), granted_ns=time.time_ns() - 10**9, **fields)
    with Ledger.open(host.settings.ledger) as ledger:
        ledger.append_batch([(NewEvent(event=TrustGranted(grant=made)),)])
    return made


def test_a_hit_gives_every_tensor_and_a_complete_record(host: Any, base: Path, caplog: pytest.LogCaptureFixture) -> None:
    place = base
    host.daemon.load(place)
    with caplog.at_level(logging.INFO, "wcache"):
        attachment = attach(place, settings=host.settings, engine="tested", launch="l-mine")
        found = attachment.tensors()
    assert {name: bits(tensor) for name, tensor in found.items()} == {name: data for name, (_, _, data) in read_tensors(place).items()}
    decided = host.record.last(AttachDecided)
    assert (decided.outcome, decided.tier, decided.mode, decided.decided_by) == ("hit", "pinned", "zero_copy", "server")
    assert (decided.launch, decided.engine.name, decided.asked.spelling) == ("l-mine", "tested", str(place))
    assert host.record.last(LeaseGranted).attach == attachment.attach
    mapped = host.record.last(MapCompleted)
    assert (mapped.mode, mapped.tensors, mapped.copied_tensors) == ("zero_copy", 13, 0)
    assert mapped.bytes == sum(tensor.nbytes for tensor in found.values())
    lines = [entry.getMessage() for entry in caplog.records if entry.name == "wcache"]
    expected = f"Mapped 13 tensors from the weight cache daemon (zero_copy mode) rank=0 tier=pinned seq={attachment.seq}"
    assert lines == [expected]


def test_the_lease_ends_with_the_last_tensor(host: Any, base: Path) -> None:
    place = base
    host.daemon.load(place)
    attachment = attach(place, settings=host.settings)
    tensors = attachment.tensors()
    del attachment
    view = tensors.pop("model.norm.weight")[:3]
    tensors.clear()
    assert host.leases() == 1
    del tensors, view
    wait_until(lambda: host.leases() == 0)
    wait_until(lambda: host.record.of(LeaseEnded))
    assert host.record.last(LeaseEnded).how == "closed"


def _cost(host: Any, place: Path, **policy: Any) -> tuple[Any, int]:
    result = check(place, host.settings, **policy)
    return result, result.cost.operations


def test_a_pinned_restart_costs_one_statx_a_file_and_opens_none(host: Any, disk_path: Path) -> None:
    place = make_checkpoint(disk_path / "m", {f"t{number}": ("U8", (8,), os.urandom(8)) for number in range(66)}, shards=66)
    host.daemon.load(place)
    result, operations = _cost(host, place)
    assert result.decision == "hit" and result.tier == "pinned"
    assert (operations, result.cost.read_bytes) == (66 + 2, 0)


_WATCHED = """
import os, sys
seen = []
def hook(event, arguments):
    if event in ("open", "os.listdir", "os.scandir") and PLACE in str(arguments[0]):
        seen.append(f"{event} {arguments[0]}")
sys.addaudithook(hook)
from wcache.core.settings import load_settings
from wcache.loader.attach import attach
found = attach(PLACE, accept="pinned", on_miss="strict")
assert found.hit
print(found.decision.tier.value, len(found.segments), *seen, sep="\\n")
"""


def _watch(host: Any, place: Path, scratch: Path, **environ: str) -> tuple[list[str], list[str]]:
    """What an engine's attach touched: by Python's audit hook, and by strace where it is installed (system calls naming the place)."""
    command = [sys.executable, "-c", f"PLACE = {str(place)!r}\n{_WATCHED}"]
    log = scratch / "strace"
    if shutil.which("strace"):
        command = ["strace", "-f", "-qq", "-e", "trace=%file", "-o", str(log), *command]
    done = subprocess.run(command, env={**os.environ, **host.daemon.env, **environ}, capture_output=True, text=True, check=True)
    calls = [line for line in log.read_text().splitlines() if str(place) in line] if log.exists() else []
    return done.stdout.split("\n")[:-1], [call for call in calls if "execve" not in call]


def test_a_restart_in_a_new_process_opens_no_checkpoint_file(host: Any, disk_path: Path) -> None:
    place = make_checkpoint(disk_path / "m", shards=9)
    host.daemon.load(place)
    lines, calls = _watch(host, place, disk_path)
    assert lines[:2] == ["pinned", "9"]
    assert [line for line in lines[2:] if line != f"open {place}"] == []  # the root itself, O_PATH
    assert not [call for call in calls if " open" in call and "O_PATH" not in call]


def test_a_trusted_attach_touches_nothing_at_all(host: Any, base: Path, disk_path: Path) -> None:
    place = base
    digest = host.daemon.load(place).residency.weights_digest
    grant(host, scope=TrustScope.CHECKPOINT, spellings=(str(place),), weights_digest=digest)
    lines, calls = _watch(host, place, disk_path, WCACHE_TRUSTED="honour")
    assert lines == ["trusted", "2"] and calls == []
    result, operations = _cost(host, place, trusted="honour")
    assert (result.tier, operations) == ("trusted", 0)


def test_a_grant_is_matched_by_what_was_typed_and_needs_the_opt_in(host: Any, base: Path, disk_path: Path) -> None:
    place = base
    other = shutil.copytree(place, disk_path / "o")
    digest = host.daemon.load(place).residency.weights_digest
    grant(host, scope=TrustScope.CHECKPOINT, spellings=(str(other),), weights_digest=digest, expires_ns=time.time_ns() + 60 * 10**9)
    assert check(other, host.settings, trusted="honour").tier == "trusted"
    assert check(f"{other}/", host.settings, trusted="honour").reason == "evidence_insufficient"
    assert check(other, host.settings).reason == "evidence_insufficient"


def test_an_expired_grant_is_its_own_reason(host: Any, base: Path, disk_path: Path) -> None:
    place = base
    other = shutil.copytree(place, disk_path / "o")
    digest = host.daemon.load(place).residency.weights_digest
    grant(host, scope=TrustScope.CHECKPOINT, spellings=(str(other),), weights_digest=digest, expires_ns=time.time_ns() - 1)
    assert check(other, host.settings, trusted="honour").reason == "trust_expired"


def test_a_stale_grant_does_not_stand_in_the_way_of_what_was_really_hashed(host: Any, base: Path) -> None:
    host.daemon.load(base)
    grant(host, scope=TrustScope.CHECKPOINT, spellings=(str(base),), weights_digest="0" * 64)
    assert check(base, host.settings, trusted="honour").tier == "pinned"


def test_a_twin_is_refused_by_its_samples_without_a_full_hash(host: Any, base: Path, disk_path: Path) -> None:
    """I1, I17: equal names and shapes, other bytes."""
    host.daemon.load(base)
    twin = make_checkpoint(disk_path / "t", make_tensors(1), shards=2)
    with pytest.raises(StrictMiss) as caught:
        attach(twin, settings=host.settings)
    assert caught.value.reason == "content_mismatch"
    assert {ref.tier for ref in host.record.last(AttachDecided).evidence} == {"header", "sampled"}


def test_other_names_are_refused_before_anything_is_sampled(host: Any, base: Path, disk_path: Path) -> None:
    host.daemon.load(base)
    other = make_checkpoint(disk_path / "o", {"x": ("U8", (4,), b"abcd")})
    result = check(other, host.settings)
    assert result.reason == "not_resident"
    assert result.cost.read_bytes <= (other / "model.safetensors").stat().st_size


def test_a_copy_is_hashed_once_and_pinned_after(host: Any, base: Path, disk_path: Path) -> None:
    place = base
    host.daemon.load(place)
    copy = make_checkpoint(disk_path / "c", read_tensors(place), shards=3)
    dry = check(copy, host.settings)
    assert (dry.reason, dry.tier) == ("evidence_insufficient", None)
    assert dry.cost.would_read_bytes == sum(path.stat().st_size for path in copy.glob("*.safetensors"))
    assert str(dry.cost.would_read_bytes) in dry.detail
    first, second = attach(copy, settings=host.settings), attach(copy, settings=host.settings)
    assert (first.decision.tier, second.decision.tier) == ("content", "pinned")
    # Shards differ, names do not: the asked file's names, served from wherever they are.
    path = copy / "model-00002-of-00003.safetensors"
    with torch.no_grad():
        found = load_file(path, settings=host.settings)
    expected = load_file(path, runtime_dir=disk_path / "nobody", state_dir=disk_path / "other")
    assert list(found) == list(expected) and all(bits(found[name]) == bits(expected[name]) for name in found)


def test_a_check_that_may_not_read_so_much_says_the_price(host: Any, base: Path, disk_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    place = base
    host.daemon.load(place)
    copy = shutil.copytree(place, disk_path / "c")
    with caplog.at_level(logging.WARNING, "wcache"):
        found = attach(copy, settings=host.settings, on_miss="fallback", max_read_bytes=10)
    assert found.decision.reason == "evidence_insufficient"
    assert "max_read_bytes allows 10" in caplog.text
    found.close()


def test_a_check_records_nothing(host: Any, base: Path, disk_path: Path) -> None:
    place = base
    host.daemon.load(place)
    before = len(host.record.all())
    check(place, host.settings)
    check(make_checkpoint(disk_path / "t", make_tensors(1), shards=2), host.settings)
    assert len(host.record.all()) == before


def test_five_spellings_are_one_checkpoint(host: Any, disk_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """I5."""
    monkeypatch.setenv("HF_HUB_CACHE", str(disk_path / "hub"))
    snapshot = make_hub_cache(disk_path / "hub", make_checkpoint(disk_path / "m", shards=2))
    host.daemon.load(snapshot)
    (disk_path / "link").symlink_to(snapshot)
    monkeypatch.chdir(snapshot.parent)
    for spelling in (snapshot.name, str(disk_path / "link"), f"{snapshot}/", f"{snapshot}/../{snapshot.name}", "acme/tiny"):
        found = attach(spelling, settings=host.settings)
        assert found.decision.tier == "pinned" and host.record.last(AttachDecided).asked.spelling == spelling
        found.close()


def test_a_moved_ref_is_a_miss_that_names_both_commits(host: Any, base: Path, disk_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """I6."""
    monkeypatch.setenv("HF_HUB_CACHE", str(disk_path / "hub"))
    host.daemon.load(make_hub_cache(disk_path / "hub", base))
    make_hub_cache(disk_path / "hub", make_checkpoint(disk_path / "new", make_tensors(1), shards=2), commit=OTHER_COMMIT)
    with pytest.raises(StrictMiss) as caught:
        attach("acme/tiny", settings=host.settings)
    decided = host.record.last(AttachDecided)
    assert decided.asked.commit == OTHER_COMMIT and decided.served is not None and decided.served.commit == COMMIT
    assert caught.value.reason == "content_mismatch" and COMMIT in caught.value.what and OTHER_COMMIT in caught.value.what


def test_eight_ranks_cost_one_hash(host: Any, base: Path, disk_path: Path) -> None:
    """I17: nobody has hashed this copy, all ask at once."""
    host.daemon.load(base)
    copy = shutil.copytree(base, disk_path / "c")
    before = len(host.record.of(FingerprintRecorded))
    with ThreadPoolExecutor(8) as pool:
        ranks = list(pool.map(lambda rank: attach(copy, settings=host.settings, ranks=Ranks(rank, 8), launch="l-8"), range(8)))
    assert all(rank.hit for rank in ranks)
    taken = [event.evidence for event in host.record.of(FingerprintRecorded)[before:] if event.evidence.tier == "content"]
    assert len(taken) == 1
    assert sorted(event.ranks.rank for event in host.record.of(AttachDecided)) == list(range(8))


def test_a_hit_below_pinned_warns_once_with_tier_coverage_and_seq(
    host: Any, base: Path, disk_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    host.daemon.load(base)
    twin = make_checkpoint(disk_path / "t", make_tensors(1), shards=2)
    with caplog.at_level(logging.WARNING, "wcache"):
        found = attach(twin, settings=host.settings, accept="header")
    assert found.hit and found.decision.tier == "header"
    (line,) = [entry.getMessage() for entry in caplog.records if entry.name == "wcache"]
    total = sum(path.stat().st_size for path in twin.glob("*.safetensors"))
    assert "unproven: tier=header" in line and f"of {total} bytes" in line and f"seq={found.seq};" in line


def test_a_changed_file_is_never_a_pinned_hit(host: Any, disk_path: Path) -> None:
    """I4, I7: overwritten in place, size and mtime kept."""
    place = make_checkpoint(disk_path / "m", shards=2)
    host.daemon.load(place)
    path = place / "model-00001-of-00002.safetensors"
    before = path.stat()
    with path.open("r+b") as file:
        file.seek(-1, os.SEEK_END)
        last = file.read(1)
        file.seek(-1, os.SEEK_END)
        file.write(bytes([last[0] ^ 1]))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    result = check(place, host.settings)
    assert result.reason == "content_mismatch"


def test_chmod_costs_a_hash_and_then_it_is_pinned_again(host: Any, disk_path: Path) -> None:
    """I8."""
    place = make_checkpoint(disk_path / "m", shards=2)
    host.daemon.load(place)
    (place / "model-00001-of-00002.safetensors").chmod(0o600)
    tiers = []
    for _ in range(2):
        found = attach(place, settings=host.settings)
        tiers.append(found.decision.tier)
        found.close()
    assert tiers == ["content", "pinned"]


def test_an_invalid_checkpoint_is_a_reason_that_names_the_rule(host: Any, base: Path, disk_path: Path) -> None:
    """I3."""
    place = base
    host.daemon.load(place)
    copy = shutil.copytree(place, disk_path / "c")
    path = copy / "model-00002-of-00002.safetensors"
    os.truncate(path, path.stat().st_size - 100)
    result = check(copy, host.settings)
    assert result.reason == "checkpoint_invalid" and "truncated" in result.detail and path.name in result.detail
    assert check(disk_path / "nowhere", host.settings).reason == "checkpoint_invalid"


def test_an_attach_waits_for_a_load_in_progress(host: Any, disk_path: Path) -> None:
    """The load settles for two seconds first, since the files are new."""
    place = make_checkpoint(disk_path / "m", shards=2)
    thread = threading.Thread(target=host.daemon.load, args=(place,))
    thread.start()
    wait_until(lambda: host.daemon.status().residencies)
    assert check(place, host.settings, wait_s=0).reason == "still_loading"
    found = attach(place, settings=host.settings)
    thread.join()
    assert found.hit and found.decision.tier == "pinned"


def test_a_daemon_that_dies_while_it_is_asked_is_a_fallback_on_record(host: Any, base: Path) -> None:
    place = base
    settings = msgspec.structs.replace(host.settings, policy=msgspec.structs.replace(host.settings.policy, on_miss="fallback"))
    host.daemon.load(place)
    host.daemon.kill()
    found = load_file(place / "model-00001-of-00002.safetensors", settings=settings)
    assert found and host.record.last(AttachDecided).reason == "daemon_refused"
    assert host.record.last(FallbackCompleted)


def test_mapped_tensors_outlive_the_daemon(host: Any, base: Path) -> None:
    place = base
    host.daemon.load(place)
    found = attach(place, settings=host.settings).tensors()
    host.daemon.kill()
    gc.collect()
    assert bits(found["model.rope.freqs"]) == read_tensors(place)["model.rope.freqs"][2]


def test_a_grant_that_cannot_be_mapped_is_decided_again(host: Any, base: Path) -> None:
    place = base
    host.daemon.load(place)
    settings = msgspec.structs.replace(host.settings, policy=msgspec.structs.replace(host.settings.policy, on_miss="fallback"))
    attachment = attach(place, settings=settings)
    with open(os.devnull, "rb") as null:
        os.dup2(null.fileno(), attachment.segments["model-00001-of-00002.safetensors"].descriptor)
    with pytest.raises(MappingFailed, match="cannot be mapped"):
        attachment.tensors()
    assert not attachment.hit and attachment.decision.reason == "mapping_failed"
    attachment.fell_back(1, 0.1)
    assert host.record.last(MapFailed).attach == attachment.attach
    assert host.record.last(FallbackCompleted).attach == attachment.attach


def test_a_forked_child_reads_and_says_nothing(host: Any, base: Path) -> None:
    """A13: the lease lasts while the child maps; its exit and its own look at the weights leave the parent's connection alone."""
    place = base
    host.daemon.load(place)
    path = place / "model-00001-of-00002.safetensors"
    found = load_file(path, settings=host.settings)
    expected = {name: bits(tensor) for name, tensor in found.items()}
    ready, done = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            own = load_file(path, settings=host.settings)  # the parent's attach serves the child too
            same = all(bits(found[name]) == bits(own[name]) == data for name, data in expected.items())
            os.write(ready[1], b"y" if same else b"n")
            os.read(done[0], 1)
            status = 0
        finally:
            os._exit(status)
    assert os.read(ready[0], 1) == b"y"
    events = len(host.record.all())
    found.clear()
    assert host.leases() == 1, "the child still maps"
    os.write(done[1], b"x")
    assert os.waitpid(child, 0)[1] == 0
    wait_until(lambda: host.record.of(LeaseEnded))
    assert host.leases() == 0 and len(host.record.all()) == events + 1


def test_a_strict_miss_without_a_daemon_is_one_error_and_not_what_came_before_it_too(disk_path: Path) -> None:
    """An engine's log has a traceback for each."""
    places = {"runtime_dir": str(disk_path / "run"), "state_dir": str(disk_path / "state")}
    with pytest.raises(StrictMiss, match="daemon_absent") as caught:
        attach(make_checkpoint(disk_path / "m"), on_miss="strict", **places)
    assert caught.value.__suppress_context__ and caught.value.__cause__ is None


@pytest.mark.parametrize("on_miss", ["fallback", "strict"])
def test_a_forked_child_that_cannot_map_what_its_parent_attached_attaches_by_itself(host: Any, base: Path, on_miss: str) -> None:
    """It was silent about it: the child read the disk, or failed, and nothing was on record."""
    host.daemon.load(base)
    path = base / "model-00001-of-00002.safetensors"
    found = load_file(path, settings=host.settings, on_miss=on_miss)
    attachment = attachment_of(next(iter(found.values())))
    assert attachment is not None
    child = os.fork()
    if child == 0:
        status = 1
        try:
            with open(os.devnull, "rb") as null:
                os.dup2(null.fileno(), attachment.segments[path.name].descriptor)
            own = load_file(path, settings=host.settings, on_miss=on_miss)
            status = int({name: bits(one) for name, one in own.items()} != {name: bits(one) for name, one in found.items()})
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
    wait_until(lambda: len(host.record.of(MapCompleted)) == 2)
    first, second = host.record.of(AttachDecided)
    assert [one.attach for one in host.record.of(MapCompleted)] == [first.attach, second.attach] and first.attach == attachment.attach


def _resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.slow
def test_a_thousand_attaches_leave_nothing_behind(host: Any, base: Path) -> None:
    """A9: descriptors, memory and address space of the engine, and the server's descriptors."""
    place = base
    host.daemon.load(place)

    def cycle(count: int) -> tuple[int, int, int, int]:
        for _ in range(count):
            tensors = attach(place, settings=host.settings).tensors()
            assert len(tensors) == 13
            del tensors
        wait_until(lambda: host.leases() == 0)
        gc.collect()
        maps = len(Path("/proc/self/maps").read_text().splitlines())
        return open_descriptors(), host.daemon.fd_count(), maps, _resident_bytes()

    cycle(100)
    descriptors, server_descriptors, maps, resident = cycle(100)
    after = cycle(800)
    assert after[0] == descriptors and after[1] <= server_descriptors + 2
    assert after[2] <= maps + 4
    assert after[3] <= resident + (4 << 20)
