"""The promise itself, over a catalogue of real files: at `pinned` and above no wrong hit and no needless miss; what goes wrong below is
refuted afterwards (CASES I and C)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.commands import in_process
from support.corpus import Case, equal_checkpoints, make_checkpoint, make_tensors, mutated_checkpoints, read_tensors
from support.daemon import DaemonProcess

from wcache.core.settings import Settings
from wcache.loader.attach import Attachment, attach


@pytest.fixture
def daemon(disk_path: Path) -> Iterator[DaemonProcess]:
    process = DaemonProcess(disk_path / "state")
    try:
        yield process.start()
    finally:
        process.cleanup()


@pytest.fixture
def settings(daemon: DaemonProcess) -> Settings:
    return daemon.settings


def _wcache(settings: Settings, *arguments: str, codes: tuple[int, ...] = (0,)) -> object:
    places = {f"WCACHE_{name.upper()}": str(getattr(settings, name)) for name in ("runtime_dir", "state_dir", "ledger")}
    done = in_process(places)(*arguments, "--json")
    assert done.returncode in codes, (arguments, done.returncode, done.stdout, done.stderr)
    return json.loads(done.stdout)


def _served_bytes(attachment: Attachment) -> dict[str, bytes]:
    import torch

    tensors = attachment.tensors()
    return {name: tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes() for name, tensor in tensors.items()}


def _ask(case: Case, settings: Settings, accept: str, **policy: str) -> Attachment:
    return attach(case.path, settings=settings, accept=accept, **policy)


@pytest.fixture
def catalogue(disk_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, list[Case], list[Case]]:
    base = make_checkpoint(disk_path / "base", shards=3)
    mutated = list(mutated_checkpoints(base, disk_path / "mutated"))
    equal = list(equal_checkpoints(base, disk_path / "equal"))
    for variable in ("HF_HOME", "HF_HUB_CACHE"):
        monkeypatch.delenv(variable, raising=False)
    assert len(mutated) >= 60 and len(equal) >= 20
    return base, mutated, equal


@pytest.mark.slow
def test_no_wrong_hit_and_no_needless_miss_at_pinned_and_above(
    daemon: DaemonProcess, settings: Settings, catalogue: tuple[Path, list[Case], list[Case]]
) -> None:
    """I1, I2, I3, I4, I5, I7, I8, I13, C1 to C6: every mutated checkpoint misses, every equal one hits with the very bytes."""
    base, mutated, equal = catalogue
    _wcache(settings, "load", str(base))
    expected = {name: data for name, (_, _, data) in read_tensors(base).items()}
    for accept in ("pinned", "content"):
        for case in mutated:
            attachment = _ask(case, settings, accept)
            assert not attachment.hit, (case.name, accept)
            wanted = "checkpoint_invalid" if case.expectation.startswith("refused") else None
            reason = attachment.decision.reason
            assert wanted is None or reason == wanted, (case.name, accept, reason, attachment.decision.detail)
            attachment.close()
        for case in equal:
            attachment = _ask(case, settings, accept)
            assert attachment.hit, (case.name, accept, attachment.decision)
            assert _served_bytes(attachment) == expected, case.name
            attachment.close()


@pytest.mark.slow
@pytest.mark.parametrize("accept", ["header", "sampled"])
def test_every_wrong_hit_of_a_weak_tier_is_refuted_afterwards(
    daemon: DaemonProcess, settings: Settings, catalogue: tuple[Path, list[Case], list[Case]], accept: str
) -> None:
    base, mutated, equal = catalogue
    _wcache(settings, "load", str(base))
    wrong: dict[int, str] = {}
    right: dict[int, str] = {}
    for case in (*mutated, *equal):
        attachment = _ask(case, settings, accept, verify_behind="off")
        if attachment.hit and attachment.decision.tier is not None and attachment.decision.tier.value == accept:
            assert attachment.seq is not None
            (right if case.expectation == "equal" else wrong)[attachment.seq] = case.name
        attachment.close()
    if accept == "header":
        assert wrong, "the catalogue holds twins that only differ in values"
    _wcache(settings, "audit", "prove", codes=(0, 1))
    rows = _wcache(settings, "audit", "attaches")
    assert isinstance(rows, list)
    proof = {row["seq"]: row["proof"] for row in rows}
    assert {seq: proof[seq] for seq in wrong} == dict.fromkeys(wrong, "refuted")
    assert {seq: proof[seq] for seq in right} == dict.fromkeys(right, "proved")
    listed = _wcache(settings, "audit", "wrong-hits", codes=(0, 1))
    assert isinstance(listed, list)
    assert {row["seq"] for row in listed} == set(wrong)
    # Denied from now on at the tier that was fooled, and the residency is still good for its own checkpoint.
    for case in mutated:
        if case.name in wrong.values():
            again = _ask(case, settings, accept)
            assert not again.hit and again.decision.reason == "content_mismatch", case.name
            again.close()
    own = attach(base, settings=settings)
    assert own.hit and own.decision.tier == "pinned"
    own.close()


@pytest.mark.slow
def test_twenty_checkpoints_of_a_training_loop_in_one_directory_make_no_wrong_hit(
    daemon: DaemonProcess, settings: Settings, disk_path: Path
) -> None:
    """I4: the same path, the same shapes, other bytes each time; load, attach, release, overwrite."""
    place = disk_path / "step"
    for step in range(20):
        make_checkpoint(place, make_tensors(step), shards=2)
        stale = attach(place, settings=settings)
        assert not stale.hit, f"step {step}: nothing of this step was loaded yet"
        stale.close()
        loaded = _wcache(settings, "load", str(place))
        assert isinstance(loaded, dict)
        attachment = attach(place, settings=settings, on_miss="strict")
        expected = {name: data for name, (_, _, data) in read_tensors(place).items()}
        assert _served_bytes(attachment) == expected, f"step {step}"
        attachment.close()
        _wcache(settings, "release", loaded["residency"])
    assert _wcache(settings, "audit", "wrong-hits", codes=(0, 1)) == []
