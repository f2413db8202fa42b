"""Evidence as it comes about between real processes: what each tier records and costs, when it counts, and when it no longer does."""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from support.commands import in_process, in_processes, ok
from support.corpus import COMMIT, OTHER_COMMIT, flip, make_checkpoint, make_hub_cache, make_tensors, read_tensors
from support.daemon import DaemonProcess, wait_until
from support.engines import Engines

from wcache.core.checkpoint.identity import filesystem_kind
from wcache.core.model.errors import StrictMiss
from wcache.core.model.events import AttachDecided, FingerprintRecorded, TrustGranted, VerifyFailed
from wcache.core.model.evidence import Fingerprint, Grant
from wcache.core.model.vocabulary import Tier, TrustScope
from wcache.ledger.replay import replay
from wcache.ledger.store import Ledger, NewEvent
from wcache.ledger.verify import verify
from wcache.loader.attach import Attachment, attach


@pytest.fixture(scope="module")
def base(shared_disk: Path) -> Path:
    return make_checkpoint(shared_disk / "base", shards=2)


@pytest.fixture
def hub(disk_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The Hugging Face cache of this process; the daemon is told where it is by the spelling's resolved root alone."""
    monkeypatch.setenv("HF_HUB_CACHE", str(disk_path / "hub"))
    return disk_path / "hub"


def taken(host: Any, tier: Tier, *, root: Path | None = None) -> list[Fingerprint]:
    events = [event.evidence for event in host.record.of(FingerprintRecorded)]
    return [one for one in events if one.tier is tier and (root is None or (one.location is not None and one.location.root == str(root)))]


def headers_once(place: Path) -> int:
    """What checking the headers and the index of a checkpoint may read: up to 64 KiB a file."""
    return sum(min(64 << 10, path.stat().st_size) for path in place.iterdir())


def asked(host: Any, place: Path | str, **policy: Any) -> Attachment:
    found = attach(place, settings=host.settings, on_miss="fallback", **policy)
    found.close()
    return found


def test_every_tier_is_recorded_with_what_it_covered_and_what_it_cost(host: Any, base: Path, disk_path: Path, hub: Path) -> None:
    """Each tier decides one attach of a copy that nobody has seen; afterwards replay finds the projections as they are."""
    host.daemon.load(make_hub_cache(hub, base))
    total = sum(path.stat().st_size for path in base.glob("*.safetensors"))
    copies = {tier: shutil.copytree(base, disk_path / tier.value) for tier in (Tier.HEADER, Tier.SAMPLED, Tier.CONTENT)}

    assert asked(host, copies[Tier.HEADER], accept="header").decision.tier is Tier.HEADER
    (header,) = taken(host, Tier.HEADER, root=copies[Tier.HEADER])
    assert header.coverage.files_opened >= 2 and 0 < header.coverage.covered_bytes < total == header.coverage.total_bytes

    assert asked(host, copies[Tier.SAMPLED], accept="sampled").decision.tier is Tier.SAMPLED
    (sampled,) = taken(host, Tier.SAMPLED, root=copies[Tier.SAMPLED])
    firsts = sum(min(1024, len(data)) for _, _, data in read_tensors(base).values())
    assert sampled.seed_id and sampled.coverage.samples > 0 and sampled.coverage.covered_bytes >= firsts
    assert 0 < sampled.coverage.chance_4k <= 1 and sampled.coverage.reads > 0 and sampled.coverage.seconds > 0

    assert asked(host, copies[Tier.CONTENT]).decision.tier is Tier.CONTENT
    (content,) = taken(host, Tier.CONTENT, root=copies[Tier.CONTENT])
    assert content.coverage.covered_bytes == content.coverage.total_bytes == total
    assert total <= content.coverage.read_bytes <= total + headers_once(copies[Tier.CONTENT])
    assert content.coverage.seconds > 0 and set(content.file_digests) == {path.name for path in base.glob("*.safetensors")}

    assert asked(host, copies[Tier.CONTENT]).decision.tier is Tier.PINNED
    (pinned,) = taken(host, Tier.PINNED, root=copies[Tier.CONTENT])
    assert pinned.reuses == content.id() and pinned.weights_digest == content.weights_digest
    assert (pinned.coverage.files_opened, pinned.coverage.reads, pinned.coverage.read_bytes) == (0, 0, 0) and pinned.coverage.stats >= 2

    make_hub_cache(disk_path / "elsewhere", base)
    snapshot = disk_path / "elsewhere" / "models--acme--tiny" / "snapshots" / COMMIT
    found = asked(host, snapshot, accept="content", attested="honour")
    assert found.decision.tier is Tier.ATTESTED
    (attested,) = taken(host, Tier.ATTESTED, root=snapshot)
    assert attested.coverage.covered_bytes == 0 and len(attested.attested_names) == 2
    assert attested.location is not None and attested.location.commit == COMMIT

    wcache = in_process(host.daemon.env)
    grant = ok(wcache("trust", "grant", str(copies[Tier.CONTENT]), "--reason", "tested", "--json"))
    assert asked(host, copies[Tier.CONTENT], accept="content", trusted="honour").decision.tier is Tier.TRUSTED
    (trusted,) = taken(host, Tier.TRUSTED)
    assert (trusted.grant, trusted.reuses, trusted.weights_digest) == (grant["grant"], content.id(), content.weights_digest)
    assert trusted.age_s is not None and trusted.age_s > 0
    assert (trusted.coverage.stats, trusted.coverage.files_opened, trusted.coverage.read_bytes) == (0, 0, 0)

    # Each decision names the evidence it rests on, and each is on record before the decision.
    recorded = {event.fingerprint for event in host.record.of(FingerprintRecorded)}
    for decided in host.record.of(AttachDecided):
        assert {ref.fingerprint for ref in decided.evidence if ref.agrees} <= recorded
    with Ledger.open(host.settings.ledger) as ledger:
        assert replay(ledger) == []
    report = verify(host.settings.ledger)
    assert report.ok and report.events == len(host.record.all())


def test_an_id_whose_ref_moved_since_the_load_is_a_miss_with_both_commits(host: Any, base: Path, disk_path: Path, hub: Path) -> None:
    """I6: load and attach by the Hugging Face id alone; `refs/main` moves between them, then back."""
    daemon_env = {**host.daemon.env, "HF_HUB_CACHE": str(hub), "HF_HUB_OFFLINE": "1"}
    make_hub_cache(hub, base)
    host.daemon.cleanup()
    daemon = DaemonProcess(disk_path / "state", environ={"HF_HUB_CACHE": str(hub)})
    try:
        daemon.start()
        daemon_env |= daemon.env
        settings = msgspec.structs.replace(daemon.settings, policy=host.settings.policy)
        loaded = ok(in_process(daemon_env)("load", "acme/tiny", "--json"))
        assert loaded["served"]["commit"] == COMMIT and loaded["served"]["repo"] == "acme/tiny"
        make_hub_cache(hub, make_checkpoint(disk_path / "new", make_tensors(1), shards=2), commit=OTHER_COMMIT)
        with pytest.raises(StrictMiss) as caught:
            attach("acme/tiny", settings=settings)
        assert caught.value.reason == "content_mismatch"
        (decided,) = (event for event in daemon.events("attach.decided") if isinstance(event, AttachDecided))
        assert (decided.asked.spelling, decided.asked.commit) == ("acme/tiny", OTHER_COMMIT)
        assert decided.served is not None and decided.served.commit == COMMIT
        for accept in ("header", "sampled"):  # equal headers do not make two commits one
            with pytest.raises(StrictMiss) as caught:
                attach("acme/tiny", settings=settings, accept=accept, attested="honour")
            assert COMMIT in caught.value.what and OTHER_COMMIT in caught.value.what
        old = attach("acme/tiny", settings=settings, revision=COMMIT)
        assert old.decision.tier == "pinned"
        old.close()
        (hub / "models--acme--tiny" / "refs" / "main").write_text(COMMIT)
        back = attach("acme/tiny", settings=settings)
        assert back.decision.tier == "pinned"
        back.close()
    finally:
        daemon.cleanup()


@pytest.mark.parametrize("how", ["prove", "fingerprint"])
def test_a_blob_that_is_not_its_name_is_attested_only_until_its_content_is_known(host: Any, base: Path, disk_path: Path, how: str) -> None:
    """I10: the names agree, so an operator who honours them gets a hit; its bytes refute it, and from then on the names are nothing."""
    host.daemon.load(make_hub_cache(disk_path / "good", base))
    snapshot = make_hub_cache(disk_path / "bad", base)
    blob = (snapshot / "model-00001-of-00002.safetensors").resolve()
    data = blob.read_bytes()
    blob.write_bytes(flip(data, len(data) - 1))
    time.sleep(0.2)  # a proof needs files that were not written in the very tick of the attach: this is an age, not a state
    assert asked(host, snapshot, accept="header").decision.tier is Tier.HEADER
    wrong = asked(host, snapshot, accept="content", attested="honour")
    assert wrong.hit and wrong.decision.tier is Tier.ATTESTED
    assert asked(host, snapshot, attested="ignore").decision.reason == "content_mismatch"  # names alone never count by themselves
    wcache = in_process(host.daemon.env)
    if how == "prove":
        proofs = ok(wcache("audit", "prove", "--json"), 1)
        assert {item["seq"]: item["proof"] for item in proofs}[wrong.seq] == "refuted"
    else:
        assert ok(wcache("fingerprint", str(snapshot), "--tier", "content", "--json"))["weights_digest"] != wrong.request.asked.digest
    for accept in ("header", "sampled", "pinned", "content"):
        denied = asked(host, snapshot, accept=accept, attested="honour")
        assert not denied.hit and denied.decision.reason == "content_mismatch", accept


@pytest.mark.parametrize("how", ["chmod", "hard_link", "rename_and_back"])
def test_a_new_ctime_costs_one_hash_and_no_permanent_miss(host: Any, disk_path: Path, how: str) -> None:
    """I8, by loaders and a daemon; the second attach is pinned again."""
    place = make_checkpoint(disk_path / "m", shards=2)
    host.daemon.load(place)
    shard = place / "model-00001-of-00002.safetensors"
    if how == "chmod":
        shard.chmod(0o640)
    elif how == "hard_link":
        os.link(shard, disk_path / "link")
    else:
        shard.rename(disk_path / "away")
        (disk_path / "away").rename(shard)
    assert [asked(host, place).decision.tier for _ in range(2)] == [Tier.CONTENT, Tier.PINNED]


def test_a_file_from_the_future_is_hashed_each_time_and_pinned_once_it_is_old(host: Any, disk_path: Path) -> None:
    """I9: while its hash may lie in the racy window it is a hit by content, never by a pin; nothing waits for an hour."""
    place = make_checkpoint(disk_path / "m", shards=2)
    ahead_ns = time.time_ns() + 3600 * 10**9
    shard = place / "model-00002-of-00002.safetensors"
    os.utime(shard, ns=(ahead_ns, ahead_ns))
    began_s = time.monotonic()
    host.daemon.load(place)
    assert [asked(host, place).decision.tier for _ in range(2)] == [Tier.CONTENT, Tier.CONTENT]
    assert time.monotonic() - began_s < 600
    assert not any(one.pinnable for one in taken(host, Tier.CONTENT))
    os.utime(shard)
    assert [asked(host, place).decision.tier for _ in range(2)] == [Tier.CONTENT, Tier.PINNED]


def test_a_refuted_checkpoint_is_denied_at_every_tier_and_nobody_else_is(host: Any, base: Path, disk_path: Path) -> None:
    """I16: also where a grant vouches for the wrong weights, and after the daemon has started anew."""
    residency = host.daemon.load(base).residency
    twin = make_checkpoint(disk_path / "twin", make_tensors(1), shards=2)
    time.sleep(0.2)  # as above: an age
    wrong = asked(host, twin, accept="header")
    assert wrong.hit
    (proved,) = ok(in_process(host.daemon.env)("audit", "prove", "--json"), 1)
    assert proved["proof"] == "refuted" and host.record.last(VerifyFailed).attach == wrong.attach
    made = Grant(
        grant="g-wrong", scope=TrustScope.CHECKPOINT, reason="a mistake", operator_uid=os.geteuid(), granted_ns=time.time_ns(),
        spellings=(str(twin),), weights_digest=residency.weights_digest,
    )  # fmt: skip
    with Ledger.open(host.settings.ledger) as ledger:
        ledger.append_batch([(NewEvent(event=TrustGranted(grant=made)),)])
    (disk_path / "by-link").symlink_to(twin)
    for life in range(2):
        for accept in ("header", "sampled", "pinned", "content"):
            for spelling in (twin, disk_path / "by-link"):
                denied = asked(host, spelling, accept=accept, attested="honour", trusted="honour")
                assert not denied.hit and denied.decision.reason == "content_mismatch", (life, accept, spelling)
        own = asked(host, base)
        assert own.hit and own.decision.tier is Tier.PINNED
        clone = asked(host, shutil.copytree(base, disk_path / f"clone{life}"), accept="header")
        assert clone.hit
        if life == 0:
            assert host.daemon.stop() == 0
            host.daemon.start()
            host.daemon.load(base)


def test_a_hash_whose_worker_is_killed_is_missing_evidence_and_the_next_start_hashes_again(
    frail_host: Any, base: Path, disk_path: Path
) -> None:
    """The daemon answered as it should, so the protocol is not at fault: the reason says what was lacking, the line says why."""
    frail_host.daemon.load(base)
    copy = shutil.copytree(base, disk_path / "copy")
    kill = disk_path / "site" / "kill"
    kill.touch()
    with pytest.raises(StrictMiss, match="the worker was ended by SIGKILL") as missed:
        attach(copy, settings=frail_host.settings)
    assert missed.value.reason == "evidence_insufficient"
    assert frail_host.record.last(AttachDecided).decided_by == "server"
    kill.unlink()
    assert asked(frail_host, copy).decision.tier is Tier.CONTENT


def _workers_seen(host: Any, seen: set[int], stop: threading.Event) -> None:
    while not stop.is_set():
        seen.update(host.daemon.workers())
        time.sleep(0.005)


def test_eight_processes_at_once_cost_one_read_and_none_where_names_differ(host: Any, base: Path, disk_path: Path) -> None:
    """I17: one hash job, one content fingerprint that covers every byte once, eight decisions of one launch."""
    host.daemon.load(base)
    copy = shutil.copytree(base, disk_path / "copy")
    other = make_checkpoint(disk_path / "other", {"x": ("U8", (4,), b"abcd")})
    env = {**host.daemon.env, "WCACHE_LAUNCH": "l-eight"}
    seen: set[int] = set()
    stop = threading.Event()
    watcher = threading.Thread(target=_workers_seen, args=(host, seen, stop))
    with Engines(env, 8) as engines:
        wait_until(lambda: not host.daemon.workers())
        watcher.start()
        engines.ask(other)
        assert {answer["reason"] for answer in engines.answers()} == {"not_resident"}
        assert seen == set() and not taken(host, Tier.CONTENT, root=other)
        engines.ask(copy)
        answers = engines.answers()
        stop.set()
        watcher.join()
    assert all(answer["hit"] for answer in answers)
    assert {answer["tier"] for answer in answers} <= {"content", "pinned"}
    assert len(seen) == 1, "one worker hashed for all of them"
    (content,) = taken(host, Tier.CONTENT, root=copy)
    total = sum(path.stat().st_size for path in copy.glob("*.safetensors"))
    assert total <= content.coverage.read_bytes <= total + headers_once(copy)
    decided = [event for event in host.record.of(AttachDecided) if event.asked.spelling == str(copy)]
    assert sorted(event.ranks.rank for event in decided) == list(range(8))
    assert {event.launch for event in decided} == {"l-eight"} and {event.ranks.world for event in decided} == {8}
    launch = in_process(host.daemon.env)("audit", "launch", "l-eight", "--json")
    assert launch.returncode in (0, 1)


# What the kernel says of the disk is replaced, in every process that is started with it: such mounts cannot be made in a test.
_ON_NFS = """
import builtins, io
_open = builtins.open
def open(file, *arguments, **keywords):
    if file == "/proc/self/mountinfo":
        told = [line.partition(" - ") for line in _open(file, encoding="utf-8").read().splitlines()]
        return io.StringIO("\\n".join(f"{head} - {'nfs4' if line.startswith(KIND) else line}" for head, _, line in told))
    return _open(file, *arguments, **keywords)
builtins.open = open
"""


@pytest.fixture
def elsewhere() -> Iterator[Path]:
    """A directory on another file system than the disk's: a ledger is refused where the disk is said to be NFS (L7)."""
    if filesystem_kind("/dev/shm") != "tmpfs":
        pytest.skip("no second file system for the ledger")
    with tempfile.TemporaryDirectory(prefix="wcache-", dir="/dev/shm") as scratch:
        yield Path(scratch)


def test_on_a_network_file_system_pins_hold_only_where_the_policy_says_coherent(disk_path: Path, short_path: Path, elsewhere: Path) -> None:
    """`network_fs`: by default each start reads everything and says so with the ways on; with `coherent` an unchanged file is pinned."""
    kind = filesystem_kind(disk_path)
    (short_path / "sitecustomize.py").write_text(_ON_NFS.replace("KIND", repr(kind)))
    environ = {"PYTHONPATH": str(short_path)}
    place = make_checkpoint(disk_path / "m", shards=2)
    daemon = DaemonProcess(elsewhere / "state", environ=environ)
    try:
        daemon.start()
        daemon.load(place)
        with Engines({**daemon.env, **environ}) as engine:
            assert [engine.attach(place)["tier"] for _ in range(2)] == ["content", "content"]
            assert engine.attach(place, network_fs="coherent")["tier"] == "pinned"
            os.utime(place / "model-00001-of-00002.safetensors")
            assert [engine.attach(place, network_fs="coherent")["tier"] for _ in range(2)] == ["content", "pinned"]
        events = daemon.events("attach.decided", "fingerprint.recorded")
        decided = [event.policy_body.network_fs for event in events if isinstance(event, AttachDecided)]
        assert decided == ["refuse", "refuse", "coherent", "coherent", "coherent"]
        taken_at = [event.evidence.location for event in events if isinstance(event, FingerprintRecorded)]
        assert {location.fs_kind for location in taken_at if location is not None} == {"nfs"}
        told = ok(in_processes({**daemon.env, **environ})("check", str(place), "--json"), 1)
        assert "network_fs = coherent" in told["detail"] and "immutable store" in told["detail"]
        assert told["cost"]["would_read_bytes"] == sum(path.stat().st_size for path in place.glob("*.safetensors"))
    finally:
        daemon.cleanup()
