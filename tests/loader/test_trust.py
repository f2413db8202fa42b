"""An operator's word through a real daemon: the four scopes, an event of its own for every attach that rests on one, and its end."""

from __future__ import annotations

import datetime
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from freezegun import freeze_time
from support.commands import Cli, in_process, ok
from support.corpus import make_checkpoint, make_tensors

from wcache.core.checkpoint.identity import filesystem_kind
from wcache.core.model.events import AttachDecided, FingerprintRecorded
from wcache.core.model.evidence import Fingerprint
from wcache.loader.attach import Attachment, attach


@pytest.fixture(scope="module")
def base(shared_disk: Path) -> Path:
    return make_checkpoint(shared_disk / "base", shards=2)


@pytest.fixture
def wcache(host: Any) -> Cli:
    return in_process(host.daemon.env)


def trusting(host: Any, place: Path | str, **policy: Any) -> Attachment:
    """An attach that nothing but trust (or a hash of everything, which is not allowed) can make a hit."""
    asked: dict[str, Any] = {"trusted": "honour", "on_miss": "fallback", "accept": "content", "max_read_bytes": 0}
    found = attach(place, settings=host.settings, **{**asked, **policy})
    found.close()
    return found


def vouched(host: Any) -> list[Fingerprint]:
    return [event.evidence for event in host.record.of(FingerprintRecorded) if event.evidence.tier == "trusted"]


@pytest.mark.parametrize("scope", ["checkpoint", "residency", "instance"])
def test_every_trusted_attach_has_an_event_of_its_own(host: Any, wcache: Cli, base: Path, scope: str) -> None:
    """Which grant, which earlier fingerprint it reuses, how old; no file is looked at, and without the opt-in it is no hit."""
    loaded = host.daemon.load(base).residency
    arguments = {"checkpoint": [str(base)], "residency": ["--residency", loaded.residency], "instance": ["--instance"]}[scope]
    grant = ok(wcache("trust", "grant", *arguments, "--reason", "release 12", "--expires", "30d", "--json"))
    assert grant["scope"] == scope
    before = len(host.record.of(FingerprintRecorded))
    hits = [trusting(host, base) for _ in range(3)]
    assert [(hit.hit, hit.decision.tier) for hit in hits] == [(True, "trusted")] * 3
    recorded = vouched(host)
    assert len(host.record.of(FingerprintRecorded)) == before + 3 == before + len(recorded)
    assert {one.grant for one in recorded} == {grant["grant"]}
    assert len({one.id() for one in recorded}) == 3 and {one.nonce for one in recorded} == {hit.attach for hit in hits}
    ages = [one.age_s for one in recorded if one.age_s is not None]
    assert len(ages) == 3 and ages == sorted(ages) and 0 < ages[0] < 600
    assert all(one.weights_digest == loaded.weights_digest for one in recorded)
    assert all((one.coverage.stats, one.coverage.files_opened, one.coverage.read_bytes) == (0, 0, 0) for one in recorded)
    if scope != "residency":
        contents = {event.fingerprint for event in host.record.of(FingerprintRecorded) if event.evidence.tier == "content"}
        assert {one.reuses for one in recorded} <= contents
    decided = host.record.of(AttachDecided)
    assert [{ref.fingerprint for ref in event.evidence} for event in decided] == [{one.id()} for one in recorded]
    assert not trusting(host, base, trusted="ignore").hit
    (row,) = ok(wcache("trust", "ls", "--json"))
    assert (row["grant"], row["state"], row["hits"]) == (grant["grant"], "active", 3)
    assert ok(wcache("trust", "revoke", grant["grant"], "--json"))["state"] == "revoked"
    assert not trusting(host, base).hit
    assert len(vouched(host)) == 3


def test_a_grant_of_thirty_days_made_a_month_ago_has_expired(host: Any, wcache: Cli, base: Path, disk_path: Path) -> None:
    """The clock of the command is set back, the daemon's is not: loader and server both see that the time is over."""
    host.daemon.load(base)
    other = shutil.copytree(base, disk_path / "other")
    ok(wcache("fingerprint", str(base), "--tier", "content", "--json"))
    for days, wanted in ((31, "trust_expired"), (29, None)):
        then = datetime.datetime.now(datetime.timezone.utc) - datetime.timedelta(days=days)
        with freeze_time(then):
            grant = ok(wcache("trust", "grant", str(other), "--reason", "r", "--expires", "30d", "--json"))
        assert grant["expires_ns"] - grant["granted_ns"] == 30 * 86_400 * 10**9
        found = trusting(host, other)
        assert (found.hit, found.decision.reason) == (wanted is None, wanted), days
    states = [row["state"] for row in ok(wcache("trust", "ls", "--json"))]
    assert sorted(states) == ["active", "expired"]
    assert [round((one.age_s or 0) / 86_400) for one in vouched(host) if one.grant == grant["grant"]] == [29]


def test_an_instance_grant_ends_with_its_daemon(host: Any, wcache: Cli, base: Path) -> None:
    host.daemon.load(base)
    ok(wcache("trust", "grant", "--instance", "--reason", "r", "--json"))
    assert trusting(host, base).hit
    assert host.daemon.stop() == 0
    host.daemon.start()
    host.daemon.load(base)
    assert not trusting(host, base).hit


def test_a_residency_grant_covers_only_the_names_it_was_loaded_by(host: Any, wcache: Cli, base: Path, disk_path: Path) -> None:
    loaded = host.daemon.load(base).residency
    twin = make_checkpoint(disk_path / "twin", make_tensors(1), shards=2)
    ok(wcache("trust", "grant", "--residency", loaded.residency, "--reason", "r", "--json"))
    assert trusting(host, base).hit
    assert not trusting(host, twin).hit
    ok(wcache("release", loaded.residency, "--json"))
    host.daemon.load(base)
    assert not trusting(host, base).hit, "another residency is another grant"


@pytest.fixture
def unlisted(disk_path: Path) -> Iterator[Path]:
    """A real file system whose kind is on no list of those that keep pins: a store grant is what makes them hold there."""
    if os.geteuid() != 0 or not shutil.which("mkfs.ext2"):
        pytest.skip("needs root and mkfs.ext2 to mount a file system")
    image, place = disk_path / "image", disk_path / "store"
    with image.open("wb") as file:
        file.truncate(64 << 20)
    subprocess.run(["mkfs.ext2", "-q", "-I", "256", str(image)], check=True)
    place.mkdir()
    mounted = subprocess.run(["mount", "-t", "ext2", "-o", "loop", str(image), str(place)], check=False, capture_output=True, text=True)
    if mounted.returncode or filesystem_kind(place) != "ext2":
        subprocess.run(["umount", str(place)], check=False, capture_output=True)
        pytest.skip(f"cannot mount ext2 here: {mounted.stderr}")
    try:
        yield place
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=False)


def test_a_store_grant_makes_pins_hold_below_its_prefix_and_nowhere_else(host: Any, wcache: Cli, unlisted: Path) -> None:
    """Each start reads everything until the grant; then a pin is one statx a file, until the grant is taken back."""
    models = unlisted / "models"
    place = make_checkpoint(models / "m", shards=2)
    beside = make_checkpoint(unlisted / "models2" / "m", make_tensors(1), shards=2)
    for one in (place, beside):
        host.daemon.load(one)
        found = attach(one, settings=host.settings)
        assert found.decision.tier == "content"
        found.close()
    told = ok(wcache("check", str(place), "--json"), 1)
    assert "immutable store" in told["detail"] and told["cost"]["would_read_bytes"] > 0
    grant = ok(wcache("trust", "grant", "--store", str(models), "--reason", "written once", "--json"))
    tiers = {}
    for one in (place, beside):
        found = attach(one, settings=host.settings)
        tiers[one] = found.decision.tier
        found.close()
    assert tiers == {place: "pinned", beside: "content"}, "a prefix is a directory, not a beginning of a name"
    pins = [event.evidence for event in host.record.of(FingerprintRecorded) if event.evidence.tier == "pinned"]
    assert [pin.location.fs_kind for pin in pins if pin.location] == ["ext2"]
    ok(wcache("trust", "revoke", grant["grant"], "--json"))
    found = attach(place, settings=host.settings)
    assert found.decision.tier == "content"
    found.close()
