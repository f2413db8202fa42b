"""D7 and D9: a budget, what goes to make room for another, what never does, and refusals with the numbers."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.attaching import asked_of, attach, begin
from support.corpus import make_checkpoint
from support.daemon import DaemonProcess, wait_until

from wcache.core.checkpoint.checkpoint import open_checkpoint
from wcache.core.model.errors import NoRoom, WcacheError
from wcache.core.model.events import Identity, LoadFailed, ReleaseCompleted, ReleaseRequested
from wcache.core.model.vocabulary import Reason, ResidencyState
from wcache.core.wire.messages import Loaded, LoadRequest
from wcache.daemon.eviction import EVICTED_FOR, choose
from wcache.daemon.residencies import Residency

TENSOR_BYTES = 1 << 20
BUDGET_BYTES = 5 * TENSOR_BYTES // 2  # room for two of them


def residency(name: str, size_bytes: int, used: int) -> Residency:
    asked = Identity(name)
    return Residency(residency=name, asked=asked, served=asked, bytes=size_bytes, used_mono_ns=used)


@pytest.mark.parametrize(
    ("sizes", "needed", "expected"),
    [
        ([5, 5, 5], 5, [0]),
        ([5, 5, 5], 6, [0, 1]),
        ([5, 5, 5], 16, []),
        ([1, 10, 10], 5, [1]),  # the first would be given back in vain
        ([1, 2, 10], 12, [1, 2]),
        ([0, 5], 5, [1]),
        ([], 1, []),
    ],
)
def test_the_longest_unused_go_and_never_more_than_needed(sizes: list[int], needed: int, expected: list[int]) -> None:
    held = [residency(str(number), size, used=number) for number, size in enumerate(sizes)]
    chosen = choose(list(reversed(held)), needed)
    assert [int(one.residency) for one in chosen] == expected


@pytest.fixture(scope="module")
def models(disk: Path) -> list[Path]:
    """Five checkpoints of 1 MiB each."""
    return [make_checkpoint(disk / f"model-{n}", {f"w{n}": ("U8", (TENSOR_BYTES,), bytes([n]) * TENSOR_BYTES)}, shards=1) for n in range(5)]


@pytest.fixture
def budgeted() -> Iterator[DaemonProcess]:
    process = DaemonProcess(environ={"WCACHE_BUDGET_BYTES": str(BUDGET_BYTES)})
    try:
        yield process.start()
    finally:
        process.cleanup()


def load(daemon: DaemonProcess, path: Path, *, pin: bool | None = None) -> str:
    channel = daemon.connect()
    try:
        reply = channel.call(LoadRequest(spelling=str(path), pin=pin), timeout_s=60)
    finally:
        channel.close()
    assert isinstance(reply, Loaded)
    return reply.residency.residency


def held(daemon: DaemonProcess) -> list[str]:
    return [one.view.residency for one in daemon.status().residencies]


def test_the_third_of_two_takes_the_place_of_the_one_that_was_used_longest_ago(budgeted: DaemonProcess, models: list[Path]) -> None:
    """D9."""
    first, second = load(budgeted, models[0]), load(budgeted, models[1])
    attach(budgeted.settings.socket_path, models[0]).close()  # used later than the second
    wait_until(lambda: not budgeted.status().leases)
    third = load(budgeted, models[2])
    assert held(budgeted) == [first, third]
    requested, completed = budgeted.events("release.requested", "release.completed")
    assert isinstance(requested, ReleaseRequested)
    assert isinstance(completed, ReleaseCompleted)
    assert (requested.residency, requested.why, requested.uid) == (second, f"{EVICTED_FOR}{third}", os.geteuid())
    assert (completed.bytes > TENSOR_BYTES, completed.checked) == (True, "seals")
    gone = attach(budgeted.settings.socket_path, models[1])
    assert gone.decided.decision.reason is Reason.RELEASED
    gone.close()


def test_what_is_loaded_again_counts_as_used(budgeted: DaemonProcess, models: list[Path]) -> None:
    first, second = load(budgeted, models[0]), load(budgeted, models[1])
    assert load(budgeted, models[0]) == first
    third = load(budgeted, models[2])
    assert held(budgeted) == [first, third]
    assert second not in held(budgeted)


def test_what_is_pinned_stays_whatever_else_must_go(budgeted: DaemonProcess, models: list[Path]) -> None:
    pinned = load(budgeted, models[0], pin=True)
    load(budgeted, models[1])
    third = load(budgeted, models[2])
    assert held(budgeted) == [pinned, third]
    fourth = load(budgeted, models[3])
    assert held(budgeted) == [pinned, fourth]
    assert [(one.pinned, one.evictable) for one in budgeted.status().residencies] == [(True, False), (False, True)]
    load(budgeted, models[0], pin=False)
    load(budgeted, models[3])
    fifth = load(budgeted, models[4])
    assert held(budgeted) == [fourth, fifth]


def test_what_is_mapped_pinned_or_about_to_be_attached_is_not_evicted_and_the_refusal_names_it(
    budgeted: DaemonProcess, models: list[Path]
) -> None:
    """D9, the other half: a refusal up front, with the numbers and what holds the memory."""
    mapped, pinned = load(budgeted, models[0]), load(budgeted, models[1], pin=True)
    attached = attach(budgeted.settings.socket_path, models[0])
    before = budgeted.fd_count()
    held_bytes = budgeted.status().resident_bytes
    with pytest.raises(NoRoom) as caught:
        load(budgeted, models[2])
    assert f"{BUDGET_BYTES - held_bytes} may be taken (by the budget of {BUDGET_BYTES})" in caught.value.what
    assert f"{mapped} {held_bytes // 2} (mapped by 1)" in caught.value.what
    assert f"{pinned} {held_bytes // 2} (pinned)" in caught.value.what
    assert held(budgeted) == [mapped, pinned]
    assert budgeted.events("release.requested") == []
    (failed,) = budgeted.events("load.failed")
    assert isinstance(failed, LoadFailed)
    assert failed.code == "no_room"
    wait_until(lambda: not budgeted.workers() and budgeted.fd_count() <= before)
    attached.close()
    wait_until(lambda: not budgeted.status().leases)
    channel = budgeted.connect()
    begin(channel, asked_of(open_checkpoint(models[0])))
    with pytest.raises(NoRoom, match="about to be attached"):
        load(budgeted, models[2])
    channel.close()


def test_nothing_is_evicted_in_vain(budgeted: DaemonProcess, models: list[Path], disk: Path) -> None:
    first, second = load(budgeted, models[0]), load(budgeted, models[1])
    huge = make_checkpoint(disk / "huge", {"w": ("U8", (BUDGET_BYTES,), bytes(BUDGET_BYTES))}, shards=1)
    with pytest.raises(NoRoom, match="evictable"):
        load(budgeted, huge)
    assert held(budgeted) == [first, second]


def test_two_loads_at_once_do_not_evict_for_the_same_bytes(budgeted: DaemonProcess, models: list[Path]) -> None:
    load(budgeted, models[0])
    load(budgeted, models[1])
    outcomes: list[str | WcacheError] = []

    def run(path: Path) -> None:
        try:
            outcomes.append(load(budgeted, path))
        except WcacheError as error:
            outcomes.append(error)

    threads = [threading.Thread(target=run, args=(path,)) for path in models[2:4]]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(map(str, outcomes)) == sorted(held(budgeted))
    assert len(budgeted.events("release.completed")) == 2
    assert budgeted.status().resident_bytes <= BUDGET_BYTES


def test_a_budget_smaller_than_a_checkpoint_is_a_clear_refusal(models: list[Path]) -> None:
    process = DaemonProcess(environ={"WCACHE_BUDGET_BYTES": "1000"})
    try:
        process.start()
        with pytest.raises(NoRoom, match=r"1000 may be taken \(by the budget of 1000\)$"):
            load(process, models[0])
        assert process.status().budget_bytes == 1000
    finally:
        process.cleanup()


def test_when_it_was_used_and_whether_it_may_go_are_in_the_status(budgeted: DaemonProcess, models: list[Path]) -> None:
    load(budgeted, models[0])
    (one,) = budgeted.status().residencies
    assert one.evictable
    assert one.loaded_ns is not None
    assert one.used_ns is not None
    assert abs(one.used_ns - one.loaded_ns) < 1_000_000_000
    attached = attach(budgeted.settings.socket_path, models[0])
    (now,) = budgeted.status().residencies
    assert not now.evictable
    assert now.used_ns is not None
    assert now.used_ns > one.used_ns
    attached.close()
    assert now.view.state is ResidencyState.RESIDENT
