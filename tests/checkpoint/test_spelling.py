"""However a checkpoint is spelled, it is one checkpoint; what cannot be found is said in one clear line."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from support.corpus import COMMIT, OTHER_COMMIT, REPO, make_checkpoint, make_hub_cache

from wcache.core.checkpoint.checkpoint import current_location, open_checkpoint
from wcache.core.checkpoint.reader import Reader
from wcache.core.checkpoint.spelling import absolute_spelling, hub_cache, resolve_root
from wcache.core.model.errors import CheckpointInvalid, CheckpointUnreadable, UsageError


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    return tmp_path / "hub"


def test_five_spellings_are_one_root_and_one_identity(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """I5: relative, symlink, trailing slash, `..`, Hugging Face id; the spelling is kept as data."""
    snapshot = make_hub_cache(cache, make_checkpoint(tmp_path / "made", shards=2))
    (tmp_path / "link").symlink_to(snapshot)
    monkeypatch.chdir(snapshot.parent)
    monkeypatch.setenv("HOME", str(tmp_path))
    spellings = [REPO, str(snapshot), snapshot.name, str(tmp_path / "link"), f"{snapshot}/", f"{snapshot}/../{snapshot.name}/.", "~/link"]
    found = [open_checkpoint(spelling) for spelling in spellings]
    assert {one.location.root for one in found} == {str(snapshot)}
    assert {one.location.key() for one in found} == {found[0].location.key()}
    assert {(one.location.repo, one.location.commit) for one in found} == {(REPO, COMMIT)}
    assert [one.spelling for one in found] == spellings


def test_an_absolute_spelling_is_joined_and_never_leads_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """I5: what is typed relative means the same in every working directory; `..` behind a symlink is left to the kernel."""
    monkeypatch.chdir(tmp_path)
    expected = {
        "./m": f"{tmp_path}/m", ".//m": f"{tmp_path}/m", "././m": f"{tmp_path}/./m", "./": f"{tmp_path}/.", ".": f"{tmp_path}/.",
        "./a/../m": f"{tmp_path}/a/../m", "../m": f"{tmp_path}/../m", ".hidden": f"{tmp_path}/.hidden",
        "/x/./m": "/x/./m", "org/m": "org/m",
    }  # fmt: skip
    assert {typed: absolute_spelling(typed) for typed in expected} == expected


def test_revisions_resolve_to_their_commit(tmp_path: Path, cache: Path) -> None:
    """I6: when refs/main moves, the resolved commits differ."""
    make_hub_cache(cache, make_checkpoint(tmp_path / "one", seed=1))
    before = resolve_root(REPO)
    make_hub_cache(cache, make_checkpoint(tmp_path / "two", seed=2), commit=OTHER_COMMIT)
    after = resolve_root(REPO)
    assert (before.commit, after.commit) == (COMMIT, OTHER_COMMIT)
    assert open_checkpoint(REPO).location.key() != open_checkpoint(REPO, revision=COMMIT).location.key()
    make_hub_cache(cache, make_checkpoint(tmp_path / "three"), commit="a" * 40, ref="v1.0")
    assert resolve_root(REPO, "v1.0").commit == "a" * 40


def test_an_existing_path_wins_over_an_id(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_hub_cache(cache, make_checkpoint(tmp_path / "made"))
    monkeypatch.chdir(tmp_path)
    local = make_checkpoint(tmp_path / REPO)
    assert resolve_root(REPO) == (str(local), None, None, None)


def test_a_single_file_is_found_under_its_own_name(tmp_path: Path, cache: Path) -> None:
    made = make_checkpoint(tmp_path / "made")
    (tmp_path / "other.safetensors").symlink_to(made / "model.safetensors")
    for spelling in (made / "model.safetensors", tmp_path / "other.safetensors"):
        assert resolve_root(spelling) == (str(made), "model.safetensors", None, None)
    snapshot = make_hub_cache(cache, made)
    assert resolve_root(snapshot / "model.safetensors") == (str(snapshot), "model.safetensors", REPO, COMMIT)
    checkpoint = open_checkpoint(made / "model.safetensors")
    assert checkpoint.location.directory is None
    assert checkpoint.location.key() == open_checkpoint(made).location.key()
    assert current_location(checkpoint.location) == checkpoint.location


def test_the_cache_is_found_as_huggingface_hub_finds_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", "/h")
    assert hub_cache() == Path("/h/.cache/huggingface/hub")
    monkeypatch.setenv("XDG_CACHE_HOME", "/x")
    assert hub_cache() == Path("/x/huggingface/hub")
    monkeypatch.setenv("HF_HOME", "~/hf")
    assert hub_cache() == Path("/h/hf/hub")
    monkeypatch.setenv("HF_HUB_CACHE", "/cache")
    assert hub_cache() == Path("/cache")


def test_what_is_not_there_is_one_clear_line(tmp_path: Path, cache: Path) -> None:
    """C12: dangling symlink, refs/main naming an absent snapshot, nothing cached, no such path."""
    (tmp_path / "dangling").symlink_to(tmp_path / "gone")
    make_hub_cache(cache, make_checkpoint(tmp_path / "made"))
    (cache / "models--acme--tiny" / "refs" / "main").write_text(OTHER_COMMIT)
    (cache / "models--acme--tiny" / "refs" / "bad").write_text("not a commit")
    (tmp_path / "file").write_bytes(b"")
    cases = [
        (str(tmp_path / "gone"), None, "missing"),
        (str(tmp_path / "dangling"), None, "dangling_symlink"),
        (f"{tmp_path}/file/", None, "missing"),
        ("acme/absent", None, "not_cached"),
        (REPO, "v9", "not_cached"),
        (REPO, "bad", "not_cached"),
        (REPO, None, "snapshot_absent"),
        ("./acme/tiny", None, "missing"),
    ]
    for spelling, revision, detail in cases:
        with pytest.raises(CheckpointUnreadable) as caught:
            resolve_root(spelling, revision)
        assert caught.value.detail == detail, spelling
        assert "\n" not in caught.value.diagnostics()


def test_revisions_and_names_never_leave_the_cache(cache: Path) -> None:
    for spelling, revision in ((REPO, "../../../etc"), (REPO, "/etc"), ("", None), ("a\0b", None)):
        with pytest.raises(UsageError):
            resolve_root(spelling, revision)
    with pytest.raises(CheckpointUnreadable):
        resolve_root("../..x/y")


def test_a_path_that_is_no_utf8_is_refused(tmp_path: Path) -> None:
    odd = os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9")
    os.mkdir(odd)
    (tmp_path / "link").symlink_to(odd)
    for spelling in (odd, str(tmp_path / "link")):
        with pytest.raises(CheckpointUnreadable, match=r"caf\\xe9") as caught:
            resolve_root(spelling)
        assert caught.value.detail == "path_not_utf8"


def test_a_snapshot_may_link_to_its_blobs_and_nowhere_else(tmp_path: Path, cache: Path) -> None:
    """C12: a symlink out of the snapshot's repository is refused."""
    made = make_checkpoint(tmp_path / "made")
    snapshot = make_hub_cache(cache, made)
    assert open_checkpoint(REPO).shards[0].name == "model.safetensors"
    (snapshot / "model.safetensors").unlink()
    (snapshot / "model.safetensors").symlink_to(made / "model.safetensors")
    with pytest.raises(CheckpointInvalid) as caught:
        open_checkpoint(REPO)
    assert caught.value.rule == "link_outside"
    assert str(made) in str(caught.value)


def test_resolving_touches_no_checkpoint_file(tmp_path: Path) -> None:
    reader = Reader()
    make_checkpoint(tmp_path / "made")
    resolve_root(tmp_path / "made")
    assert reader.cost == (0, 0, 0, 0, 0)
