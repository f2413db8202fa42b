"""Mode copy, the release after it, and mappings that are paused and resumed: with a real daemon, in host memory."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from support.corpus import make_checkpoint, read_tensors
from support.daemon import wait_until

from wcache.core.model.errors import MappingFailed, StrictMiss, UsageError
from wcache.core.model.events import (
    AttachDecided,
    LeaseGranted,
    MapCompleted,
    MapPaused,
    MapResumed,
    ReleaseCompleted,
    ReleaseRefused,
    ReleaseRequested,
)
from wcache.core.wire.messages import ReleaseRequest
from wcache.loader import load_file, safe_open
from wcache.loader.attach import attach

FIRST, SECOND = "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"


@pytest.fixture(scope="module")
def base(shared_disk: Path) -> Path:
    return make_checkpoint(shared_disk / "modes", shards=2)


def bits(tensor: torch.Tensor) -> bytes:
    return bytes(tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()) if tensor.numel() else b""


def assert_weights(found: dict[str, torch.Tensor], base: Path) -> None:
    wanted = read_tensors(base)
    assert {name: bits(tensor) for name, tensor in found.items()} == {name: data for name, (_, _, data) in wanted.items()}


def can_mount() -> bool:
    return subprocess.run(["unshare", "--mount", "true"], check=False, capture_output=True).returncode == 0


def mapped_files() -> int:
    with open("/proc/self/maps") as lines:
        return sum("memfd:wcache" in line for line in lines)


class TestCopy:
    def test_the_engine_gets_its_own_memory_and_the_weights_are_released(self, host: Any, base: Path) -> None:
        loaded = host.daemon.load(base).residency
        found = attach(base, settings=host.settings, mode="copy")
        before = mapped_files()
        tensors = found.tensors()
        assert_weights(tensors, base)
        assert mapped_files() <= before, "nothing of the daemon's stays mapped"
        decided, mapped = host.record.last(AttachDecided), host.record.last(MapCompleted)
        assert (decided.mode, mapped.mode, mapped.copied_tensors) == ("copy", "copy", mapped.tensors)
        assert mapped.copied_bytes == mapped.bytes == loaded.bytes - sum(8 + n for n in _header_bytes(base))
        asked = host.record.last(ReleaseRequested)
        assert asked.residency == loaded.residency and found.attach in asked.why and "mode copy" in asked.why
        assert host.record.last(ReleaseCompleted).residency == loaded.residency
        assert host.leases() == 0
        tensors["lm_head.weight"].zero_()
        with pytest.raises(StrictMiss, match="released") as error:
            attach(base, settings=host.settings)
        assert error.value.reason == "released"

    def test_a_copy_may_leave_the_weights_resident(self, host: Any, base: Path) -> None:
        host.daemon.load(base)
        assert_weights(attach(base, settings=host.settings, mode="copy", release=False).tensors(), base)
        assert not host.record.of(ReleaseRequested)
        wait_until(lambda: host.leases() == 0)
        assert attach(base, settings=host.settings).hit

    def test_a_release_that_others_prevent_is_on_record_and_no_error(self, host: Any, base: Path) -> None:
        """A10."""
        host.daemon.load(base)
        other = attach(base, settings=host.settings)
        kept = other.tensors()
        assert_weights(attach(base, settings=host.settings, mode="copy").tensors(), base)
        refused = host.record.last(ReleaseRefused)
        assert other.attach in refused.leases and not host.record.of(ReleaseCompleted)
        assert_weights(kept, base)
        assert attach(base, settings=host.settings).hit

    def test_files_are_copied_one_by_one_and_released_after_the_last(self, host: Any, base: Path) -> None:
        host.daemon.load(base)
        first = load_file(base / FIRST, settings=host.settings, mode="copy")
        assert host.leases() == 1 and not host.record.of(ReleaseRequested), "the second file is still to come"
        with safe_open(base / SECOND, "pt", settings=host.settings, mode="copy") as file:
            second = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            part = file.get_slice(next(iter(second)))[:1]
        assert_weights({**first, **second}, base)
        part.zero_()
        assert_weights({**first, **second}, base)
        assert len(host.record.of(AttachDecided)) == 1
        mapped = host.record.last(MapCompleted)
        assert (mapped.mode, mapped.tensors, mapped.copied_tensors) == ("copy", len(first) + len(second), mapped.tensors)
        assert host.record.last(ReleaseCompleted) and host.leases() == 0
        with pytest.raises(StrictMiss, match="released"):
            load_file(base / FIRST, settings=host.settings, mode="copy")

    def test_a_look_at_names_is_no_copy_and_leaves_the_weights_to_the_load(self, host: Any, base: Path) -> None:
        host.daemon.load(base)
        for name in (FIRST, SECOND):
            with safe_open(base / name, "pt", settings=host.settings, mode="copy") as file:
                assert file.keys()
        assert not host.record.of(MapCompleted) and not host.record.of(ReleaseRequested)
        found = {
            **load_file(base / FIRST, settings=host.settings, mode="copy"),
            **load_file(base / SECOND, settings=host.settings, mode="copy"),
        }
        assert_weights(found, base)
        assert host.record.last(MapCompleted).tensors == len(found)
        assert host.record.last(ReleaseCompleted) and host.leases() == 0

    def test_what_was_left_out_is_not_counted_and_stays_resident(self, host: Any, base: Path) -> None:
        host.daemon.load(base)
        for name in (FIRST, SECOND):
            with safe_open(base / name, "pt", settings=host.settings, mode="copy") as file:
                one = file.get_tensor(file.keys()[-1])
        mapped = host.record.last(MapCompleted)
        assert (mapped.tensors, mapped.copied_tensors) == (2, 2) and mapped.bytes >= one.nbytes
        assert host.leases() == 0 and not host.record.of(ReleaseRequested)

    def test_a_file_whose_reading_broke_off_is_not_taken_for_copied(self, host: Any, base: Path) -> None:
        host.daemon.load(base)
        for name in (FIRST, SECOND):
            with pytest.raises(KeyboardInterrupt), safe_open(base / name, "pt", settings=host.settings, mode="copy"):
                raise KeyboardInterrupt
        assert not host.record.of(ReleaseRequested) and not host.record.of(MapCompleted)

    def test_what_was_copied_by_a_process_that_ends_early_is_reported(self, host: Any, base: Path) -> None:
        host.daemon.load(base)
        script = "import sys; from wcache.loader import load_file; load_file(sys.argv[1], mode='copy')"
        subprocess.run([sys.executable, "-c", script, str(base / FIRST)], env={**os.environ, **host.daemon.env}, check=True)
        mapped = host.record.last(MapCompleted)
        assert mapped.mode == "copy" and 0 < mapped.tensors < len(read_tensors(base))
        wait_until(lambda: host.leases() == 0)

    @pytest.mark.skipif(not can_mount(), reason="needs a mount namespace, to show a process little memory")
    @pytest.mark.parametrize("target", ["", FIRST])
    def test_a_copy_that_does_not_fit_is_refused_with_the_numbers(self, host: Any, base: Path, disk_path: Path, target: str) -> None:
        """D7: before the grant where the whole is attached; of a file before it is copied."""
        host.daemon.load(base)
        short = disk_path / "meminfo"
        short.write_text("MemAvailable: 8 kB\n")
        script = """
import sys
from wcache.core.model.errors import StrictMiss
from wcache.loader import load_file
from wcache.loader.attach import attach
try:
    (load_file if sys.argv[1].endswith(".safetensors") else attach)(sys.argv[1], mode="copy", on_miss="strict").tensors()
except StrictMiss as error:
    print(error.reason, error, sep="\\n")
"""
        command = f'mount --bind {short} /proc/meminfo && exec {sys.executable} -c "$0" "$1"'
        found = subprocess.run(
            ["unshare", "--mount", "--propagation", "private", "sh", "-c", command, script, str(base / target)],
            env={**os.environ, **host.daemon.env}, capture_output=True, text=True, check=True,
        ).stdout.splitlines()  # fmt: skip
        assert found[0] == "no_room" and "a copy takes 1 MiB, 0 MiB are free (MemAvailable)" in found[1]
        assert bool(host.record.of(LeaseGranted)) == bool(target), "the whole is not even granted"
        assert not host.record.of(MapCompleted) and not host.record.of(ReleaseRequested)

    @pytest.mark.parametrize("mode", ["copies", "", 1])
    def test_a_mode_that_nobody_knows_is_a_usage_error(self, host: Any, base: Path, mode: Any) -> None:
        with pytest.raises(UsageError, match="unknown mode"):
            attach(base, settings=host.settings, mode=mode)


class TestPause:
    def test_a_mapping_is_given_back_and_comes_again_at_its_addresses(self, host: Any, base: Path) -> None:
        loaded = host.daemon.load(base).residency
        found = attach(base, settings=host.settings)
        tensors = found.tensors()
        addresses = {name: tensor.data_ptr() for name, tensor in tensors.items()}
        mapped = mapped_files()
        for _ in range(2):
            found.pause()
            found.pause()
            assert mapped_files() == mapped - 2 and host.leases() == 1
            with pytest.raises(MappingFailed, match="paused"):
                found.tensors()
            found.resume()
            found.resume()
        assert mapped_files() == mapped
        assert {name: tensor.data_ptr() for name, tensor in tensors.items()} == addresses
        assert_weights(tensors, base)
        paused, resumed = host.record.of(MapPaused), host.record.of(MapResumed)
        assert len(paused) == len(resumed) == 2 and {one.bytes for one in (*paused, *resumed)} == {loaded.bytes}
        assert all(one.attach == found.attach and one.ms > 0 for one in resumed)
        assert len(host.record.of(LeaseGranted)) == 1

    def test_changed_pages_are_never_lost_by_a_pause(self, host: Any, base: Path) -> None:
        host.daemon.load(base)
        found = attach(base, settings=host.settings)
        tensors = found.tensors()
        tensors["lm_head.weight"].fill_(3)
        with pytest.raises(MappingFailed, match=r"changed up to \d+ bytes"):
            found.pause()
        assert (tensors["lm_head.weight"] == 3).all() and not host.record.of(MapPaused)

    def test_what_survives_a_forced_release_can_still_be_resumed(self, host: Any, base: Path) -> None:
        loaded = host.daemon.load(base).residency
        found = attach(base, settings=host.settings)
        tensors = found.tensors()
        found.pause()
        channel = host.daemon.connect()
        channel.call(ReleaseRequest(residency=loaded.residency, force=True))
        channel.close()
        found.resume()
        assert_weights(tensors, base)

    def test_without_a_mapping_or_a_lease_there_is_nothing_to_pause(self, host: Any, base: Path) -> None:
        host.daemon.load(base)
        found = attach(base, settings=host.settings)
        with pytest.raises(MappingFailed, match="nothing"):
            found.pause()
        tensors = found.tensors()
        found.close()
        with pytest.raises(MappingFailed, match="lease has ended"):
            found.pause()
        assert_weights(tensors, base)

    def test_a_child_cannot_pause_what_its_parent_attached(self, host: Any, base: Path) -> None:
        """A13."""
        host.daemon.load(base)
        found = attach(base, settings=host.settings)
        tensors = found.tensors()
        child = os.fork()
        if not child:
            try:
                found.pause()
            except MappingFailed:
                os._exit(0)
            os._exit(1)
        assert os.waitpid(child, 0)[1] == 0
        assert_weights(tensors, base)


def _header_bytes(base: Path) -> list[int]:
    return [int.from_bytes(path.read_bytes()[:8], "little") for path in base.glob("*.safetensors")]
