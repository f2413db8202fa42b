"""D7: the least that any limit leaves, whichever ancestor sets it."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.daemon import DaemonProcess, wait_until, zeros_shard
from support.faults import catch

from wcache.core.model.errors import NoRoom, WorkerDied
from wcache.core.model.events import LoadFailed
from wcache.core.wire.messages import LoadRequest, Progress
from wcache.daemon.budget import MARGIN_BYTES, room

GIB = 1 << 30


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A /proc and /sys with 10 GiB available and no cgroup limit."""
    write(tmp_path, "proc/meminfo", f"MemTotal: 1 kB\nMemAvailable: {10 * GIB // 1024} kB\n")
    write(tmp_path, "proc/self/cgroup", "0::/slice/service\n")
    group(tmp_path, "sys/fs/cgroup/slice", "max", 0)
    group(tmp_path, "sys/fs/cgroup/slice/service", "max", 0)
    return tmp_path


def write(root: Path, name: str, text: str) -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def group(root: Path, name: str, limit: str, usage: int, cache: int = 0) -> None:
    write(root, f"{name}/memory.max", limit + "\n")
    write(root, f"{name}/memory.current", f"{usage}\n")
    write(root, f"{name}/memory.stat", f"anon 1\ninactive_file {cache}\nactive_file 0\n")


def test_without_limits_it_is_what_the_machine_has(tree: Path) -> None:
    assert room(tree) == (10 * GIB - MARGIN_BYTES, "MemAvailable")


def test_the_limit_of_an_ancestor_counts(tree: Path) -> None:
    group(tree, "sys/fs/cgroup/slice", str(4 * GIB), 1 * GIB)
    assert room(tree).bytes == 3 * GIB - MARGIN_BYTES
    assert "cgroup/slice" in room(tree).by


def test_page_cache_counts_as_free(tree: Path) -> None:
    group(tree, "sys/fs/cgroup/slice/service", str(4 * GIB), 4 * GIB, cache=3 * GIB)
    assert room(tree).bytes == 3 * GIB - MARGIN_BYTES


def test_a_group_over_its_limit_leaves_nothing(tree: Path) -> None:
    group(tree, "sys/fs/cgroup/slice/service", str(GIB), 2 * GIB)
    assert room(tree).bytes == 0


def test_in_a_container_the_mount_itself_is_the_group(tree: Path) -> None:
    write(tree, "proc/self/cgroup", "0::/../../not/visible/here\n")
    group(tree, "sys/fs/cgroup", str(2 * GIB), 0)
    assert room(tree).bytes == 2 * GIB - MARGIN_BYTES


def test_the_first_version_of_cgroups_counts_too(tree: Path) -> None:
    write(tree, "proc/self/cgroup", "5:cpu:/x\n4:memory:/docker/abc\n")
    base = "sys/fs/cgroup/memory/docker"
    write(tree, f"{base}/memory.limit_in_bytes", f"{3 * GIB}\n")
    write(tree, f"{base}/memory.usage_in_bytes", f"{2 * GIB}\n")
    write(tree, f"{base}/memory.stat", f"total_inactive_file {GIB}\n")
    write(tree, f"{base}/abc/memory.limit_in_bytes", "9223372036854771712\n")
    write(tree, f"{base}/abc/memory.usage_in_bytes", "0\n")
    write(tree, f"{base}/abc/memory.stat", "")
    assert room(tree).bytes == 2 * GIB - MARGIN_BYTES


def test_this_machine_has_an_answer() -> None:
    assert room().bytes > 0


@pytest.fixture
def limited() -> Iterator[DaemonProcess]:
    """A daemon in a control group of 400 MB."""
    first = Path("/sys/fs/cgroup/memory")  # version 1
    parent, limit_name = (first, "memory.limit_in_bytes") if first.is_dir() else (Path("/sys/fs/cgroup"), "memory.max")
    group = parent / f"wcache-test-{os.getpid()}"
    try:
        group.mkdir()
        (group / limit_name).write_text(str(400 << 20))
    except OSError:
        pytest.skip("control groups cannot be made here")
    process = DaemonProcess(prefix=("sh", "-c", f'echo $$ > {group}/cgroup.procs && exec "$@"', "sh"))
    try:
        yield process.start()
    finally:
        process.cleanup()
        wait_until(lambda: not (group / "cgroup.procs").read_text())
        group.rmdir()


def test_what_a_control_group_does_not_allow_is_refused_up_front_with_the_numbers(limited: DaemonProcess, disk: Path) -> None:
    shard = zeros_shard(disk / "over-the-limit" / "model.safetensors", 500 << 20)
    with pytest.raises(NoRoom, match=r"524288\d+ bytes are needed, \d+ may be taken \(by memory\.\S+ of /sys/fs/cgroup/\S+\)"):
        limited.load(shard.parent)
    (failed,) = limited.events("load.failed")
    assert isinstance(failed, LoadFailed)
    assert failed.code == "no_room"
    assert limited.events("load.started") == []
    assert limited.status().budget_bytes < 400 << 20
    small = zeros_shard(disk / "under-the-limit" / "model.safetensors", 20 << 20)
    assert limited.load(small.parent).residency.bytes > 20 << 20


def test_of_two_loads_at_once_that_do_not_fit_together_one_is_refused(limited: DaemonProcess, disk: Path) -> None:
    """The first has taken nothing yet: its files are fresh, so it waits."""
    first = zeros_shard(disk / "first-of-two" / "model.safetensors", 200 << 20)
    second = zeros_shard(disk / "second-of-two" / "model.safetensors", 201 << 20)
    channel = limited.connect()
    channel.send(LoadRequest(spelling=str(first.parent)))
    wait_until(lambda: any(one.phase == "settle" for one in limited.status().residencies))
    with pytest.raises(NoRoom, match="running loads will take 2097"):
        limited.load(second.parent)
    channel.close()
    wait_until(lambda: limited.status().resident_bytes > 200 << 20)


def test_the_operators_budget_counts_with_what_is_held_of_it(tree: Path) -> None:
    assert room(tree, budget_bytes=3 * GIB, held_bytes=GIB) == (2 * GIB, f"the budget of {3 * GIB}")
    assert room(tree, budget_bytes=GIB, held_bytes=2 * GIB).bytes == 0
    assert room(tree, budget_bytes=100 * GIB).by == "MemAvailable"


def test_in_a_control_group_the_longest_unused_make_room(limited: DaemonProcess, disk: Path) -> None:
    """D7 and D9: the kernel's own count, not ours, says that the memory came back."""
    shards = [zeros_shard(disk / f"in-turn-{number}" / "model.safetensors", 110 << 20) for number in range(3)]
    found = [limited.load(shard.parent).residency.residency for shard in shards]
    assert [one.view.residency for one in limited.status().residencies] == found[1:]
    assert len(limited.events("release.completed")) == 1


def test_of_a_refused_and_of_a_killed_load_nothing_stays_in_the_group(limited: DaemonProcess, disk: Path) -> None:
    """D7: nothing half loaded stays, as the kernel counts it."""
    before_bytes = limited.status().budget_bytes
    with pytest.raises(NoRoom):
        limited.load(zeros_shard(disk / "too-large" / "model.safetensors", 500 << 20).parent)
    shard = zeros_shard(disk / "killed" / "model.safetensors", 200 << 20)

    caught: list[int] = []

    def kill(progress: Progress) -> None:
        if progress.phase != "wait" and not caught:
            caught.append(catch(limited, 16 << 20))
            os.kill(caught[0], signal.SIGKILL)

    channel = limited.connect()
    with pytest.raises(WorkerDied):
        channel.call(LoadRequest(spelling=str(shard.parent)), timeout_s=60, on_progress=kill)
    channel.close()
    wait_until(lambda: not limited.workers() and abs(limited.status().budget_bytes - before_bytes) < 16 << 20)


def test_the_size_of_dev_shm_does_not_matter(disk: Path) -> None:
    """D7: containers have 64 MB there."""
    mounted = 'mount -t tmpfs -o size=1m tmpfs /dev/shm && exec "$@"'
    process = DaemonProcess(prefix=("unshare", "--mount", "--propagation", "private", "sh", "-c", mounted, "sh"))
    if subprocess.run(["unshare", "--mount", "true"], check=False, capture_output=True).returncode:
        pytest.skip("mount namespaces cannot be made here")
    try:
        process.start()
        shard = zeros_shard(disk / "larger-than-dev-shm" / "model.safetensors", 100 << 20)
        assert process.load(shard.parent).residency.bytes > 100 << 20
        assert "size=1024k" in Path(f"/proc/{process.pid}/mountinfo").read_text()
    finally:
        process.cleanup()
