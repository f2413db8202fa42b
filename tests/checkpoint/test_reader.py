"""The counting reader, and the corpus writer it is tested with."""

from __future__ import annotations

import os
import tempfile
import threading
from pathlib import Path

import pytest
import safetensors
from support.corpus import encode_safetensors, make_tensors
from support.descriptors import open_descriptors

from wcache.core.checkpoint.checkpoint import open_checkpoint
from wcache.core.checkpoint.reader import Cost, Reader, in_parallel, threads_for
from wcache.core.model.errors import CheckpointChanged, CheckpointUnreadable


def test_the_corpus_writes_what_the_package_reads() -> None:
    tensors = make_tensors()
    read = {
        name: (view["dtype"], tuple(view["shape"]), bytes(view["data"]))
        for name, view in safetensors.deserialize(encode_safetensors(tensors))
    }
    assert read == tensors


def test_every_operation_is_counted_from_all_threads(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(bytes(100))
    reader = Reader()
    mark = reader.mark()

    def work(_: int) -> None:
        reader.stat_at("file", str(path))
        with reader.open(str(path)) as file:
            file.read_at(10, 20)

    in_parallel(work, range(200), threads=32)
    reader.list_directory(str(tmp_path))
    assert reader.cost.since(mark.cost) == Cost(files_opened=200, reads=200, stats=200, lists=1, read_bytes=4000)


def test_few_items_need_no_thread() -> None:
    assert set(in_parallel(lambda _: threading.current_thread(), range(8), threads=8)) == {threading.current_thread()}
    assert set(in_parallel(lambda _: threading.current_thread(), range(50), threads=1)) == {threading.current_thread()}
    assert in_parallel(lambda number: number * 2, range(50), threads=7) == [number * 2 for number in range(50)]


def test_the_first_error_of_calls_side_by_side_is_raised_after_all_have_ended() -> None:
    running = threading.Semaphore(0)
    ended: list[int] = []

    def work(number: int) -> None:
        if number == 3:
            for _ in range(3):
                running.acquire()
            raise ValueError(f"item {number}")
        running.release()
        ended.append(number)

    with pytest.raises(ValueError, match="item 3"):
        in_parallel(work, range(16), threads=16)
    assert {0, 1, 2} <= set(ended) and 3 not in ended


def test_a_file_that_ends_early_is_changed(tmp_path: Path) -> None:
    """C9."""
    path = tmp_path / "file"
    path.write_bytes(bytes(100))
    with Reader().open(str(path)) as file:
        assert file.read_at(90, 10) == bytes(10)
        with pytest.raises(CheckpointChanged, match="shorter"):
            file.read_at(90, 11)
        with pytest.raises(CheckpointChanged, match="shorter"):
            file.read_into(memoryview(bytearray(101)), 0)


def test_opening_what_is_no_file_leaves_nothing_open(tmp_path: Path) -> None:
    """C12."""
    os.mkfifo(tmp_path / "pipe")
    before = open_descriptors()
    for path in (tmp_path, tmp_path / "pipe", Path("/dev/null")):
        with pytest.raises(CheckpointUnreadable) as caught:
            Reader().open(str(path))
        assert caught.value.detail == "not_a_file"
    assert open_descriptors() == before


def test_an_unreadable_shard_is_one_clear_line() -> None:
    """C12."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        path = Path(folder) / "model.safetensors"
        path.write_bytes(encode_safetensors(make_tensors()))
        path.chmod(0)
        was = os.geteuid()
        if was == 0:
            os.seteuid(65534)  # root may read everything
        try:
            with pytest.raises(CheckpointUnreadable, match="permission denied") as caught:
                open_checkpoint(folder)
        finally:
            os.seteuid(was)
        assert caught.value.detail == "not_permitted" and caught.value.where == str(path)
        assert "uid" in caught.value.remedy


def test_where_a_call_is_a_round_trip_all_are_in_flight() -> None:
    assert threads_for("ext4") == 1 and threads_for("ext4", reads=True) == 8
    assert threads_for("nfs") == threads_for("fuse.x", reads=True) >= 66
