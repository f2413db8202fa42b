"""Weaker hits are proved later: only by bytes that are known to be those of the attach."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from support.corpus import make_checkpoint
from support.past import Past

from wcache.core.model import events as ev
from wcache.core.model.errors import NotFound, UsageError
from wcache.core.model.evidence import Grant
from wcache.core.model.vocabulary import Outcome, Proof, Reason, ResidencyState, Tier, TrustScope
from wcache.ledger.audit import Audit
from wcache.ledger.knowledge import Knowledge
from wcache.ledger.prove import Proving, prove


@pytest.fixture
def past(disk_path: Path) -> Iterator[Past]:
    past = Past(disk_path / "ledger.sqlite")
    yield past
    past.ledger.close()


@pytest.fixture(autouse=True)
def unhurried(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Most tests need no pins afterwards, so their fresh files need not age for 2 s."""
    if "pin" not in request.node.name:
        monkeypatch.setattr("wcache.ledger.evidence.FRESH_WAIT_MAX_S", 0.0)


def checkpoint(folder: Path, value: float = 1.0, *, shards: int = 1) -> Path:
    """Two tensors; every `value` gives the same headers."""
    weights = {"a": np.full((64, 8), value, np.float32), "b": np.arange(100, dtype=np.float32)}
    return make_checkpoint(folder, weights, shards=shards)


def only(found: Iterator[Proving]) -> Proving:
    (one,) = found
    return one


def test_a_weak_hit_on_the_same_weights_is_proved(past: Past, disk_path: Path) -> None:
    served = past.resident(checkpoint(disk_path / "base"))
    seq = past.weak_hit(checkpoint(disk_path / "copy", shards=2), served)
    result = only(prove(past.ledger))
    assert (result.seq, result.proof, result.asked_digest) == (seq, Proof.PROVED, served.weights_digest)
    with Audit(past.ledger.path) as audit:
        row = audit.attach_at(seq)
        assert row["proof"] == "proved"
        assert row["asked_digest"] == row["served_digest"] == served.weights_digest
        assert not audit.wrong_hits()
        assert not audit.hits(unproven=True)


def test_a_wrong_hit_is_refuted_and_the_residency_stays_good(past: Past, disk_path: Path) -> None:
    """I16"""
    served = past.resident(checkpoint(disk_path / "base"))
    right = past.weak_hit(disk_path / "base", served)
    twin = checkpoint(disk_path / "twin", 0.0)
    wrong = past.weak_hit(twin, served)
    results = {result.seq: result for result in prove(past.ledger)}
    assert results[right].proof is Proof.PROVED
    assert results[wrong].proof is Proof.REFUTED
    assert results[wrong].asked_digest != served.weights_digest
    with Audit(past.ledger.path) as audit:
        assert [row["seq"] for row in audit.wrong_hits()] == [wrong]
    knowledge = Knowledge(past.ledger)
    (contradiction,) = knowledge.contradictions()
    assert contradiction.weights_digest == served.weights_digest
    assert str(twin) in contradiction.spellings
    assert [item.view.residency for item in knowledge.residencies((ResidencyState.RESIDENT,))] == [served.residency]
    knowledge.close()


def test_a_checkpoint_overwritten_after_its_weak_hit_is_unprovable(past: Past, disk_path: Path) -> None:
    """I15"""
    served = past.resident(checkpoint(disk_path / "base"))
    folder = checkpoint(disk_path / "over", 0.0)
    past.weak_hit(folder, served)
    shutil.copyfile(disk_path / "base" / "model.safetensors", folder / "model.safetensors")
    result = only(prove(past.ledger))
    assert result.proof is Proof.UNPROVABLE
    assert "has changed" in result.why


def test_a_path_that_now_shows_another_directory_is_unprovable(past: Past, disk_path: Path) -> None:
    """I15: as a mount namespace does it: the same path, other files, each of them old."""
    served = past.resident(checkpoint(disk_path / "base"))
    folder = checkpoint(disk_path / "shown", 0.0)
    past.weak_hit(folder, served)
    other = checkpoint(disk_path / "other", 1.0)
    folder.rename(disk_path / "hidden")
    other.rename(folder)
    assert only(prove(past.ledger)).proof is Proof.UNPROVABLE


def test_a_checkpoint_that_is_gone_is_unprovable(past: Past, disk_path: Path) -> None:
    served = past.resident(checkpoint(disk_path / "base"))
    past.weak_hit(checkpoint(disk_path / "gone"), served)
    shutil.rmtree(disk_path / "gone")
    result = only(prove(past.ledger))
    assert result.proof is Proof.UNPROVABLE
    assert "gone" in result.why


def test_a_file_written_in_the_moment_of_the_attach_proves_nothing(past: Past, disk_path: Path) -> None:
    """I15, I9: a second change within the same tick would leave the same identity."""
    served = past.resident(checkpoint(disk_path / "base"))
    folder = checkpoint(disk_path / "fresh", 0.0)
    written_ns = (folder / "model.safetensors").stat().st_ctime_ns
    past.weak_hit(folder, served, occurred_ns=written_ns + 1_000_000)
    result = only(prove(past.ledger))
    assert result.proof is Proof.UNPROVABLE
    assert "moment" in result.why


@pytest.mark.skipif(not Path("/dev/shm").is_dir(), reason="needs a tmpfs")
def test_where_stores_leave_no_trace_an_unchanged_identity_proves_nothing(past: Past, disk_path: Path) -> None:
    """I15: tmpfs hides stores through mappings."""
    served = past.resident(checkpoint(disk_path / "base"))
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        past.weak_hit(checkpoint(Path(folder) / "m"), served)
        result = only(prove(past.ledger))
    assert result.proof is Proof.UNPROVABLE
    assert "tmpfs" in result.why


def test_a_hit_without_recorded_evidence_is_unprovable(past: Past, disk_path: Path) -> None:
    served = past.resident(checkpoint(disk_path / "base"))
    seq = past.decided(ev.Identity(str(disk_path / "base")), served)
    result = only(prove(past.ledger, [seq]))
    assert result.proof is Proof.UNPROVABLE
    assert "nothing was recorded" in result.why


def test_each_content_is_read_once(past: Past, disk_path: Path) -> None:
    served = past.resident(checkpoint(disk_path / "base"))
    folder = checkpoint(disk_path / "copy")
    for _ in range(3):
        past.weak_hit(folder, served)
    read: list[int] = []
    results = list(prove(past.ledger, progress=lambda done, total: read.append(done)))
    assert [result.proof for result in results] == [Proof.PROVED] * 3
    assert read == [(folder / "model.safetensors").stat().st_size]


def test_a_pin_of_the_same_identity_saves_the_reading(past: Past, disk_path: Path) -> None:
    served = past.resident(checkpoint(disk_path / "base"))
    folder = checkpoint(disk_path / "copy")
    past.weak_hit(folder, served)
    assert only(prove(past.ledger)).proof is Proof.PROVED  # waits until the files are old enough to be pinned
    past.weak_hit(folder, served)
    read: list[int] = []
    assert only(prove(past.ledger, progress=lambda done, total: read.append(done))).proof is Proof.PROVED
    assert read == []


def hub_snapshot(cache: Path, value: float, *, lie: bool = False) -> Path:
    """A snapshot of a Hugging Face cache: a link to a blob that is named by its sha256, or, with `lie`, by another one."""
    commit = "c" * 40
    made = checkpoint(cache / "made", value)
    body = (made / "model.safetensors").read_bytes()
    name = hashlib.sha256(body + (b"x" if lie else b"")).hexdigest()
    repo = cache / "models--org--m"
    (repo / "blobs").mkdir(parents=True)
    (repo / "blobs" / name).write_bytes(body)
    snapshot = repo / "snapshots" / commit
    snapshot.mkdir(parents=True)
    (snapshot / "model.safetensors").symlink_to(Path("../../blobs") / name)
    return snapshot


@pytest.mark.parametrize("tier", [Tier.ATTESTED, Tier.HEADER])
def test_an_immutable_name_proves_what_a_changed_identity_cannot(past: Past, disk_path: Path, tier: Tier) -> None:
    """The blob was touched, its bytes still are its sha256; a header hit knows the name by the unchanged snapshot directory."""
    served = past.resident(checkpoint(disk_path / "base"))
    snapshot = hub_snapshot(disk_path / "hub", 1.0)
    past.weak_hit(snapshot, served, tier)
    os.utime(snapshot / "model.safetensors")
    result = only(prove(past.ledger))
    assert result.proof is Proof.PROVED
    assert "sha256" in result.why


def test_a_blob_that_is_not_its_name_is_refuted_by_its_content(past: Past, disk_path: Path) -> None:
    """I10"""
    served = past.resident(checkpoint(disk_path / "base"))
    past.weak_hit(hub_snapshot(disk_path / "hub", 0.0, lie=True), served, Tier.ATTESTED)
    assert only(prove(past.ledger)).proof is Proof.REFUTED


def test_a_touched_blob_that_is_not_its_name_is_unprovable(past: Past, disk_path: Path) -> None:
    """I10, I15"""
    served = past.resident(checkpoint(disk_path / "base"))
    snapshot = hub_snapshot(disk_path / "hub", 0.0, lie=True)
    past.weak_hit(snapshot, served, Tier.ATTESTED)
    os.utime(snapshot / "model.safetensors")
    assert only(prove(past.ledger)).proof is Proof.UNPROVABLE


def trusted_hit(past: Past, spelling: str, served: ev.LoadCompleted) -> int:
    content = served.fingerprints[0]
    grant = Grant(
        grant=f"g-{spelling[-6:]}", scope=TrustScope.CHECKPOINT, reason="r", operator_uid=0, granted_ns=1, spellings=(spelling,),
        weights_digest=served.weights_digest, fingerprint=content,
    )  # fmt: skip
    past.append(ev.TrustGranted(grant=grant))
    evidence = past.trusted(grant.grant, content, served.weights_digest, spelling)
    return past.decided(ev.Identity(spelling), served, (evidence,))


def test_a_trusted_hit_is_proved_where_its_reused_fingerprint_was_taken(past: Past, disk_path: Path) -> None:
    base = checkpoint(disk_path / "base")
    served = past.resident(base)
    trusted_hit(past, str(base), served)
    assert only(prove(past.ledger)).proof is Proof.PROVED


def test_a_trusted_hit_by_a_link_that_moved_is_unprovable(past: Past, disk_path: Path) -> None:
    """I15: nobody looked where the link led at the attach, so the old content must not prove it."""
    base = checkpoint(disk_path / "base")
    served = past.resident(base)
    link = disk_path / "current"
    link.symlink_to(base)
    trusted_hit(past, str(link), served)
    link.unlink()
    link.symlink_to(checkpoint(disk_path / "next", 0.0))
    result = only(prove(past.ledger))
    assert result.proof is Proof.UNPROVABLE
    assert "leads to" in result.why


def test_a_trusted_hit_by_a_relative_path_is_unprovable(past: Past, disk_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    base = checkpoint(disk_path / "base")
    served = past.resident(base)
    monkeypatch.chdir(disk_path)
    trusted_hit(past, "base", served)
    result = only(prove(past.ledger))
    assert result.proof is Proof.UNPROVABLE
    assert "relative" in result.why


def test_what_is_no_hit_cannot_be_proved(past: Past, disk_path: Path) -> None:
    seq = past.decided(ev.Identity("/m"), None, outcome=Outcome.FALLBACK, reason=Reason.NOT_RESIDENT)
    with pytest.raises(UsageError, match="nothing was served"):
        list(prove(past.ledger, [seq]))
    with pytest.raises(NotFound):
        list(prove(past.ledger, [10_000]))
