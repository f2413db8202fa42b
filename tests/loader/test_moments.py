"""Between two steps of an attach the files, links and names may change, and other processes may be asked for the same files."""

from __future__ import annotations

import mmap
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from support.corpus import REPO, make_checkpoint, make_hub_cache, write_safetensors

from wcache.core.checkpoint.checkpoint import open_checkpoint, recheck_paths
from wcache.core.checkpoint.identity import filesystem_kind
from wcache.core.checkpoint.reader import Reader
from wcache.core.checkpoint.spelling import resolve_root
from wcache.core.model.errors import CheckpointChanged, StrictMiss, UsageError
from wcache.core.model.events import AttachDecided, FingerprintRecorded, Ranks
from wcache.core.model.vocabulary import Outcome, Reason, Tier
from wcache.ledger.evidence import spellings_of
from wcache.ledger.store import Ledger
from wcache.ledger.trust import Terms, grant_checkpoint, grant_instance
from wcache.loader import load_file
from wcache.loader.attach import attach
from wcache.loader.evidence import gather
from wcache.loader.question import make_question
from wcache.loader.session import Session


@pytest.fixture
def memory_disk() -> Iterator[Path]:
    if not Path("/dev/shm").is_dir() or filesystem_kind("/dev/shm") != "tmpfs":
        pytest.skip("needs a tmpfs at /dev/shm")
    with tempfile.TemporaryDirectory(dir="/dev/shm") as found:
        yield Path(found)


def test_an_attach_is_not_used_again_for_a_file_whose_stores_nobody_can_see(host: Any, memory_disk: Path) -> None:
    """I4 on tmpfs: a store through a mapping that is dirty already changes no time stamp."""
    path = write_safetensors(memory_disk / "x.safetensors", {"w": ("U8", (64,), b"\1" * 64)})
    with path.open("r+b") as file, mmap.mmap(file.fileno(), 0) as mapping:
        mapping[-64:] = b"\1" * 64
        host.daemon.load(path)
        held = load_file(path, settings=host.settings)
        before = path.stat()
        mapping[-64:] = b"\2" * 64
        assert (path.stat().st_mtime_ns, path.stat().st_ctime_ns) == (before.st_mtime_ns, before.st_ctime_ns)
        with pytest.raises(StrictMiss) as caught:
            load_file(path, settings=host.settings)
    assert caught.value.reason is Reason.CONTENT_MISMATCH
    assert int(held["w"][0]) == 1


def test_the_shards_of_one_load_are_one_attach_there_too(host: Any, memory_disk: Path) -> None:
    path = make_checkpoint(memory_disk / "x", shards=3)
    host.daemon.load(path)
    kept = [load_file(shard, settings=host.settings) for shard in sorted(path.glob("*.safetensors"))]
    assert len(kept) == 3
    assert len(host.daemon.events("attach.decided")) == 1


def test_a_link_that_is_turned_meanwhile_is_decided_by_where_the_files_were_opened(host: Any, disk_path: Path) -> None:
    first = make_checkpoint(disk_path / "v1")
    second = make_checkpoint(disk_path / "v2", seed=1)
    link = disk_path / "current"
    link.symlink_to(first)
    host.daemon.load(first)
    turned = make_question(link)
    session = Session(host.settings.socket_path)

    def turn() -> None:
        link.unlink()
        link.symlink_to(second)

    settings = msgspec.structs.replace(host.settings, policy=msgspec.structs.replace(host.settings.policy, on_miss="fallback"))
    (first / "more").touch()  # no pin holds, so the files have to be opened
    gathered = gather(session, turned, settings, reader=_turning(turn))
    session.close()
    assert gathered.decision.outcome is not Outcome.HIT
    assert gathered.request.asked.root == str(second)
    places = {item.location.root for item in gathered.evidence if item.location is not None}
    assert places == {str(second)}


def _turning(turn: Any) -> Reader:
    """Something happens right after the first look at a file."""

    class Turning(Reader):
        turned = False

        def stat_at(self, name: str, path: str, **words: Any) -> Any:
            found = super().stat_at(name, path, **words)
            if not self.turned:
                self.turned = True
                turn()
            return found

    return Turning()


def test_hard_linked_places_that_are_hashed_at_once_are_each_answered_about_their_own(host: Any, disk_path: Path) -> None:
    base = make_checkpoint(disk_path / "base")
    host.daemon.load(base)
    first = shutil.copytree(base, disk_path / "first")
    second = disk_path / "second"
    second.mkdir()
    os.link(first / "model.safetensors", second / "model.safetensors")
    roots: list[tuple[str, Outcome]] = []

    def start(path: Path) -> None:
        found = attach(path, settings=host.settings, accept="content")
        roots.append((str(found.location.root if found.location else None), found.decision.outcome))
        found.close()

    threads = [threading.Thread(target=start, args=(path,)) for path in (first, second)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(roots) == [(str(first), Outcome.HIT), (str(second), Outcome.HIT)]


def test_names_that_a_directory_got_without_its_times_showing_it_are_noticed(tmp_path: Path) -> None:
    """The second listing finds what a coarse clock hides: the directory's identity is made equal here, as it would be there."""
    path = tmp_path / "x"
    path.mkdir()
    write_safetensors(path / "weights.safetensors", {"w": ("U8", (8,), b"\1" * 8)})
    checkpoint = open_checkpoint(path)
    write_safetensors(path / "model.safetensors", {"w": ("U8", (8,), b"\2" * 8)})
    hidden = msgspec.structs.replace(checkpoint.location, directory=Reader().stat_at("", str(path)))
    with pytest.raises(CheckpointChanged, match="other files count now"):
        recheck_paths(msgspec.structs.replace(checkpoint, location=hidden))


def test_a_directory_that_is_still_fresh_is_listed_again_before_it_is_pinned(host: Any, disk_path: Path) -> None:
    base = make_checkpoint(disk_path / "base")
    host.daemon.load(base)
    copy = disk_path / "copy"
    copy.mkdir()
    os.link(base / "model.safetensors", copy / "model.safetensors")  # the file is fresh by its ctime, the directory too
    found = attach(copy, settings=host.settings)
    assert found.decision.tier is Tier.CONTENT
    found.close()
    recorded = [event for event in host.daemon.events("fingerprint.recorded") if isinstance(event, FingerprintRecorded)]
    place = next(event.evidence for event in recorded if event.evidence.tier is Tier.CONTENT and event.evidence.location.root == str(copy))
    assert place.pinnable
    assert place.location is not None
    assert place.location.directory is not None


@pytest.mark.parametrize("scope", ["checkpoint", "instance"])
def test_a_grant_for_a_relative_path_means_that_directory_alone(host: Any, disk_path: Path, scope: str) -> None:
    """The same word typed in another working directory is another checkpoint."""
    for name, seed in (("x", 0), ("y", 5)):
        make_checkpoint(disk_path / name / "model", seed=seed)
    host.daemon.load(disk_path / "x" / "model")
    terms = Terms(reason="tested", granted_ns=time.time_ns())
    here = Path.cwd()
    os.chdir(disk_path / "x")
    try:
        with Ledger.open(host.settings.ledger) as ledger:
            if scope == "checkpoint":
                made, _ = grant_checkpoint(ledger, "model", terms, host.settings.policy)
                assert "model" not in made.spellings
            else:
                session = Session(host.settings.socket_path)
                grant_instance(ledger, session.instance, terms)
                session.close()
        attach("model", settings=host.settings, accept="content").close()
        found = attach("model", settings=host.settings, trusted="honour")
        assert found.decision.tier is Tier.TRUSTED
        found.close()
        os.chdir(disk_path / "y")
        with pytest.raises(StrictMiss) as caught:
            attach("model", settings=host.settings, trusted="honour")
        assert caught.value.reason is Reason.CONTENT_MISMATCH
    finally:
        os.chdir(here)


def test_a_hub_id_is_granted_as_it_is_typed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(make_hub_cache(tmp_path / "hub", make_checkpoint(tmp_path / "base")).parents[2]))
    assert spellings_of(REPO, resolve_root(REPO))[0] == REPO


@pytest.mark.parametrize("alive", [True, False])
def test_words_that_are_no_utf8_never_end_a_start(host: Any, disk_path: Path, monkeypatch: pytest.MonkeyPatch, *, alive: bool) -> None:
    base = make_checkpoint(disk_path / "base")
    if alive:
        host.daemon.load(base)
    else:
        host.daemon.stop()
    monkeypatch.setenv("WCACHE_LAUNCH", "l-\udc80")
    monkeypatch.setenv("RANK", "9" * 30)
    words = {"engine": "x\udcff\n\x1b[31m", "config": {"a\udcff": "\udcff"}, "on_miss": "fallback"}
    attach(base, settings=host.settings, **words).close()
    missed = attach(f"{disk_path}/\udcff", settings=host.settings, **words)
    assert missed.decision.reason is (Reason.CHECKPOINT_INVALID if alive else Reason.DAEMON_ABSENT)
    missed.close()
    decided = [event for event in host.daemon.events("attach.decided") if isinstance(event, AttachDecided)]
    assert [event.launch for event in decided] == ["l-\\udc80"] * 2
    assert decided[1].asked.spelling.endswith("/\\udcff")
    assert decided[0].ranks == Ranks()


def test_what_cannot_be_meant_is_a_usage_error(host: Any) -> None:
    with pytest.raises(UsageError, match="unknown kind"):
        attach("x", settings=host.settings, kind="nonsense")
    with pytest.raises(UsageError, match="no such ranks"):
        attach("x", settings=host.settings, ranks=Ranks(rank=1 << 70))


@pytest.mark.parametrize("known", [True, False])
def test_too_few_open_files_is_no_room_and_not_the_checkpoint(host: Any, disk_path: Path, *, known: bool) -> None:
    tensors = {f"layer.{number:03d}.weight": ("U8", (16,), bytes([number]) * 16) for number in range(70)}
    base = make_checkpoint(disk_path / "base", tensors, shards=70)
    host.daemon.load(base)
    asked = base if known else shutil.copytree(base, disk_path / "copy")
    code = "import sys; from wcache.loader.attach import attach; print(attach(sys.argv[1]).decision.reason.value)"
    command = ["bash", "-c", f'ulimit -n 40; exec "{sys.executable}" -c "$0" "$1"', code, str(asked)]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **host.daemon.env}, check=False)
    assert done.stdout == "no_room\n", done.stderr
    assert "ulimit -n" in done.stderr or "open no more files" in done.stderr
