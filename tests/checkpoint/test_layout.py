"""Which files count: the index is the authority; every broken layout is refused by its rule."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.corpus import make_checkpoint, make_tensors, mutated_checkpoints, write_index, write_safetensors
from support.descriptors import open_descriptors

from wcache.core.checkpoint.checkpoint import adopt_checkpoint, current_location, hold_checkpoint, open_checkpoint, recheck_paths
from wcache.core.checkpoint.reader import Reader
from wcache.core.model.errors import CheckpointChanged, CheckpointInvalid, CheckpointUnreadable

ONE = {"a": ("U8", (1,), b"x")}


def rule_of(path: Path) -> str:
    with pytest.raises(CheckpointInvalid) as caught:
        open_checkpoint(path)
    assert "\n" not in caught.value.diagnostics()
    return caught.value.rule


def test_every_broken_checkpoint_of_the_corpus_is_refused_by_its_rule(tmp_path: Path) -> None:
    """I3, C1, C2, C4, C5, C6."""
    base = make_checkpoint(tmp_path / "base", shards=3)
    refused = [case for case in mutated_checkpoints(base, tmp_path / "mutated") if case.expectation.startswith("refused:")]
    assert len(refused) >= 40
    for case in refused:
        assert rule_of(case.path) == case.expectation.removeprefix("refused:"), case.name


def test_the_shard_of_a_truncated_payload_is_named(tmp_path: Path) -> None:
    """I3."""
    base = make_checkpoint(tmp_path / "base", shards=3)
    shard = base / "model-00002-of-00003.safetensors"
    os.truncate(shard, shard.stat().st_size - 100)
    with pytest.raises(CheckpointInvalid, match=r"model-00002-of-00003.safetensors: the file is truncated"):
        open_checkpoint(base)


def test_a_missing_number_is_said(tmp_path: Path) -> None:
    """C2."""
    base = make_checkpoint(tmp_path / "base", shards=4, index=False)
    (base / "model-00003-of-00004.safetensors").unlink()
    with pytest.raises(CheckpointInvalid, match="shard 3 of 4 is missing"):
        open_checkpoint(base)
    for name in ("model-00000-of-00004.safetensors", "model-00003-of-00004.safetensors"):
        write_safetensors(base / name, {})
    assert rule_of(base) == "shard_numbers"
    huge = tmp_path / "huge"
    huge.mkdir()
    write_safetensors(huge / "m-00001-of-99999999.safetensors", ONE)
    assert rule_of(huge) == "shard_numbers"


def test_the_index_wins_and_strays_are_recorded(tmp_path: Path) -> None:
    """C3: consolidated file, stray shard, even a model.safetensors."""
    base = make_checkpoint(tmp_path / "base", shards=2)
    for name in ("consolidated.safetensors", "model-00003-of-00003.safetensors", "model.safetensors"):
        write_safetensors(base / name, make_tensors(5))
    checkpoint = open_checkpoint(base)
    assert [shard.name for shard in checkpoint.shards] == ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"]
    assert checkpoint.strays == ("consolidated.safetensors", "model-00003-of-00003.safetensors", "model.safetensors")
    assert checkpoint.location.index is not None


def test_without_an_index_few_layouts_are_clear(tmp_path: Path) -> None:
    """C3."""
    base = tmp_path / "base"
    base.mkdir()
    write_safetensors(base / "consolidated.safetensors", ONE)
    assert open_checkpoint(base).shards[0].name == "consolidated.safetensors"
    write_safetensors(base / "x.safetensors", ONE)
    assert open_checkpoint(base).shards[0].name == "x.safetensors"
    assert open_checkpoint(base).strays == ("consolidated.safetensors",)
    write_safetensors(base / "y.safetensors", ONE)
    assert rule_of(base) == "ambiguous_shards"
    write_safetensors(base / "model.safetensors", ONE)
    assert [shard.name for shard in open_checkpoint(base).shards] == ["model.safetensors"]


def test_one_other_index_decides_and_two_are_refused(tmp_path: Path) -> None:
    base = make_checkpoint(tmp_path / "base", shards=2)
    (base / "model.safetensors.index.json").rename(base / "other.safetensors.index.json")
    checkpoint = open_checkpoint(base)
    assert checkpoint.location.index is not None and checkpoint.location.index.name == "other.safetensors.index.json"
    write_index(base, {"a": "b"}, "third.safetensors.index.json")
    assert rule_of(base) == "ambiguous_index"


@pytest.mark.parametrize("name", ["../x", "/etc/passwd", "a/b.safetensors", "..", "", ".", "a\\b", "a\0b"])
def test_the_index_names_plain_files_only(tmp_path: Path, name: str) -> None:
    base = make_checkpoint(tmp_path / "base", shards=2)
    write_index(base, {"model.scale": name})
    assert rule_of(base) == "index_path"


def test_a_tensor_named_like_a_path_stays_a_name(tmp_path: Path) -> None:
    """C7."""
    tensors = {"../../etc/passwd": ("U8", (1,), b"x"), "/abs": ("U8", (1,), b"y"), "": ("U8", (1,), b"z")}
    base = make_checkpoint(tmp_path / "base", tensors, shards=2)
    assert list(open_checkpoint(base).table()) == ["", "../../etc/passwd", "/abs"]


def test_shards_that_are_no_files_are_named_and_never_waited_for(tmp_path: Path) -> None:
    """C12: directory, dangling symlink, named pipe."""
    for number, (make, detail) in enumerate(
        [
            (lambda path: path.mkdir(), "not_a_file"),
            (lambda path: path.symlink_to("gone"), "dangling_symlink"),
            (os.mkfifo, "not_a_file"),
        ]
    ):
        base = make_checkpoint(tmp_path / str(number))
        (base / "model.safetensors").unlink()
        make(base / "model.safetensors")
        with pytest.raises(CheckpointUnreadable, match=r"model\.safetensors") as caught:
            open_checkpoint(base)
        assert caught.value.detail == detail


def test_metadata_format_is_handed_on(tmp_path: Path) -> None:
    """C10."""
    assert open_checkpoint(make_checkpoint(tmp_path / "a", metadata={"format": "pt"}, shards=2)).format == "pt"
    assert open_checkpoint(make_checkpoint(tmp_path / "b", metadata={})).format is None


def test_the_table_does_not_depend_on_sharding(tmp_path: Path) -> None:
    one, three = (open_checkpoint(make_checkpoint(tmp_path / str(shards), shards=shards)) for shards in (1, 3))
    assert one.table() == three.table()
    assert one.table_digest == three.table_digest
    assert one.tensor_count == len(one.table()) == 13
    assert three.total_bytes == sum(path.stat().st_size for path in (tmp_path / "3").glob("*.safetensors"))


def test_opening_costs_one_read_a_shard(tmp_path: Path) -> None:
    base = make_checkpoint(tmp_path / "base", shards=12)
    reader = Reader()
    open_checkpoint(base, reader=reader)
    cost = reader.cost
    assert (cost.files_opened, cost.reads, cost.lists) == (13, 13, 1)
    assert cost.stats == 1 + 12 + 1  # the directory, the shards, the index


def test_looking_again_is_one_stat_a_file_and_opens_nothing(tmp_path: Path) -> None:
    base = make_checkpoint(tmp_path / "base", shards=12)
    location = open_checkpoint(base).location
    reader = Reader()
    assert current_location(location, reader=reader) == location
    assert reader.cost == (0, 0, 14, 0, 0)  # twelve shards, the index, the directory
    (base / "README.md").write_text("the index still decides")
    now = current_location(location)
    assert now is not None and now.key() == location.key() and now.directory != location.directory
    (base / "model-00007-of-00012.safetensors").unlink()
    assert current_location(location) is None


def test_without_an_index_a_changed_directory_needs_another_look(tmp_path: Path) -> None:
    """A new index or shard must not go unseen."""
    base = make_checkpoint(tmp_path / "base")
    location = open_checkpoint(base).location
    assert current_location(location) == location
    write_index(base, {"a": "model.safetensors"})
    assert current_location(location) is None


def test_adopted_descriptors_give_the_same_checkpoint(tmp_path: Path) -> None:
    """A worker is sent descriptors: it opens no path, and closing leaves them open."""
    base = make_checkpoint(tmp_path / "base", shards=3)
    with hold_checkpoint(base) as held:
        assert held.index is not None
        reader = Reader()
        descriptors = {name: file.descriptor for name, file in held.files.items()}
        with adopt_checkpoint(str(base), held.checkpoint.location, descriptors, held.index.descriptor, reader=reader) as adopted:
            assert adopted.checkpoint == held.checkpoint
        assert reader.cost.files_opened == 0
        assert all(os.fstat(file.descriptor) for file in held.files.values())
        del descriptors["model-00002-of-00003.safetensors"]
        with pytest.raises(CheckpointInvalid):
            adopt_checkpoint(str(base), held.checkpoint.location, descriptors, held.index.descriptor)


def test_files_replaced_after_opening_are_noticed(tmp_path: Path) -> None:
    base = make_checkpoint(tmp_path / "base", shards=2)
    checkpoint = open_checkpoint(base)
    recheck_paths(checkpoint)
    other = make_checkpoint(tmp_path / "other", seed=1, shards=2)
    os.replace(other / "model-00001-of-00002.safetensors", base / "model-00001-of-00002.safetensors")
    with pytest.raises(CheckpointChanged):
        recheck_paths(checkpoint)


def test_failing_to_open_leaks_no_descriptor(tmp_path: Path) -> None:
    base = make_checkpoint(tmp_path / "base", shards=4)
    os.truncate(base / "model-00004-of-00004.safetensors", 20)
    before = open_descriptors()
    for _ in range(5):
        with pytest.raises(CheckpointInvalid):
            open_checkpoint(base)
    assert open_descriptors() == before


def test_extra_tensors_of_a_shard_count_as_weights(tmp_path: Path) -> None:
    """Engines load whole shards, so a tensor that the index forgets is part of what is served."""
    base = make_checkpoint(tmp_path / "base", shards=2)
    path = base / "model.safetensors.index.json"
    weight_map = json.loads(path.read_text())["weight_map"]
    del weight_map["model.scale"]
    write_index(base, weight_map)
    assert "model.scale" in open_checkpoint(base).table()


PIECES = st.sampled_from(
    ['"', "{", "}", "[", ",", ":", "\\", "null", "NaN", "..", "/", "model-00001-of-00002.safetensors", "1", "\x00", "é", "\ufeff"]
)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.floats(0, 1), PIECES, st.integers(0, 8)), min_size=1, max_size=3))
def test_edited_indexes_open_or_are_refused(tmp_path: Path, edits: list[tuple[float, str, int]]) -> None:
    base = tmp_path / "base"
    if not base.exists():
        make_checkpoint(base, shards=2)
        (tmp_path / "index").write_bytes((base / "model.safetensors.index.json").read_bytes())
    text = (tmp_path / "index").read_text()
    for where, piece, removed in edits:
        at = int(where * len(text))
        text = text[:at] + piece + text[at + removed :]
    (base / "model.safetensors.index.json").write_text(text)
    try:
        assert open_checkpoint(base).tensor_count > 0
    except (CheckpointInvalid, CheckpointUnreadable) as error:
        assert error.where and "\n" not in error.diagnostics()
