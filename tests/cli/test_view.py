"""`wcache view`: a directory of links to sealed memory, with a real daemon and readers that know nothing of wcache."""

from __future__ import annotations

import json
import os
import secrets
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import load_file, save_file
from support.commands import Cli, clean_environ, ok
from support.corpus import make_checkpoint
from support.daemon import DaemonProcess, wait_until

Weights = dict[str, np.ndarray[Any, Any]]


@pytest.fixture
def weights() -> Weights:
    """Names and values that no other test has: the daemon is a module's, and knows content wherever it lies."""
    random, prefix = np.random.default_rng(), secrets.token_hex(4)
    return {f"{prefix}.{number}.weight": random.random((64, 64), np.float32) for number in range(4)}


@pytest.fixture
def place(disk_path: Path, weights: Weights) -> Path:
    made = make_checkpoint(disk_path / "m", weights, shards=2)
    (made / "tokenizer.json").write_text("{}")
    (made / "pytorch_model.bin").write_bytes(b"not to be shown")
    (made / ".cache").mkdir()
    (made / "1_Pooling").mkdir()
    (made / "1_Pooling" / "config.json").write_text("{}")
    return made


@contextmanager
def viewing(daemon: DaemonProcess, *arguments: str | Path, end: int = signal.SIGTERM, code: int = 0) -> Iterator[dict[str, Any]]:
    """The JSON document of a running `wcache view`, with the process under "process"."""
    line = [sys.executable, "-m", "wcache.cli", "view", *map(str, arguments), "--json"]
    environ = {**clean_environ(), **daemon.env}
    with subprocess.Popen(line, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            lines = []
            while not lines or lines[-1].rstrip() != "}":
                lines.append(process.stdout.readline())
                assert lines[-1], process.communicate()[1]
            yield {**json.loads("".join(lines)), "process": process}
        finally:
            process.send_signal(end)
            process.communicate(timeout=30)
    assert process.returncode == (code if end != signal.SIGKILL else -signal.SIGKILL)


def contents(directory: str | Path) -> Weights:
    return {name: array for file in sorted(Path(directory).glob("*.safetensors")) for name, array in load_file(file).items()}


def assert_weights(directory: str | Path, weights: Weights) -> None:
    found = contents(directory)
    assert found.keys() == weights.keys() and all(np.array_equal(found[name], weights[name]) for name in weights)


def test_a_plain_reader_finds_a_checkpoint_whose_shards_are_sealed_memory(
    daemon: DaemonProcess, wcache: Cli, place: Path, weights: Weights
) -> None:
    residency = daemon.load(place).residency.residency
    with viewing(daemon, place) as found:
        path = Path(found["view"])
        assert_weights(path, weights)
        visible = {entry.name for entry in path.iterdir() if not entry.name.startswith(".")}
        assert visible == {*found["shards"], "model.safetensors.index.json", "config.json", "tokenizer.json", "1_Pooling"}
        assert all("memfd:" in os.readlink(os.readlink(path / shard)) for shard in found["shards"])
        assert path.parent == daemon.settings.runtime_dir / "views" and path.stat().st_mode & 0o777 == 0o700
        with pytest.raises(PermissionError), (path / found["shards"][0]).open("r+b") as file:
            file.write(b"x")
            file.flush()
        row = next(one for one in ok(wcache("audit", "attaches", "--json")) if one["attach"] == found["attach"])
        assert (row["engine"], row["decision"], row["mode"], row["copied_bytes"]) == ("wcache view", "hit", "zero_copy", 0)
        leases = daemon.status().leases
        assert [(one.residency, one.engine.name) for one in leases] == [(residency, "wcache view")]
        assert ok(wcache("release", residency, "--json"), 7)["error"]["code"] == "refused"
    assert not path.exists()
    wait_until(lambda: not daemon.status().leases)


def test_weights_beside_the_checkpoint_are_shown_from_disk_and_named(
    daemon: DaemonProcess, wcache: Cli, place: Path, disk_path: Path, weights: Weights
) -> None:
    """An adapter is a part of what a tool finds on disk; the checkpoint's own shards are not, also where others stand for them."""
    (place / "adapter_config.json").write_text("{}")
    save_file({"lora": np.ones(4, np.float32)}, place / "adapter_model.safetensors")
    (place / "2_Dense").mkdir()
    save_file({"linear": np.ones(4, np.float32)}, place / "2_Dense" / "model.safetensors")
    daemon.load(make_checkpoint(disk_path / "three", weights, shards=3))
    list_it = f"(ls $WCACHE_VIEW; readlink $WCACHE_VIEW/adapter_model.safetensors) >{disk_path}/shown"
    done = wcache("view", str(place), "--strict", "--", "sh", "-c", list_it)
    assert done.returncode == 0 and done.stderr.rstrip().endswith("; from disk: 2_Dense/, adapter_model.safetensors"), done.stderr
    shown = (disk_path / "shown").read_text().split()
    assert shown[-1] == str(place / "adapter_model.safetensors")
    assert {"adapter_config.json", "adapter_model.safetensors"} < set(shown)
    assert len([name for name in shown if name.startswith("model-")]) == 3


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_it_ends_quietly_and_leaves_nothing(daemon: DaemonProcess, place: Path, end: signal.Signals) -> None:
    daemon.load(place)
    with viewing(daemon, place, end=end) as found:
        assert Path(found["view"]).is_dir()
    assert not Path(found["view"]).exists()


def test_a_command_gets_the_path_and_the_view_ends_with_it(daemon: DaemonProcess, wcache: Cli, place: Path) -> None:
    daemon.load(place)
    script = "import os, sys; print(sys.argv[1] == os.environ['WCACHE_VIEW'], len(os.listdir(sys.argv[1])), sys.argv[1]); sys.exit(5)"
    line = [sys.executable, "-m", "wcache.cli", "view", str(place), "--", sys.executable, "-c", script, "{view}"]
    environ = {**clean_environ(), **daemon.env}
    done = subprocess.run(line, env=environ, capture_output=True, text=True, timeout=60, check=False)
    same, count, path = done.stdout.split()
    assert (done.returncode, same) == (5, "True") and int(count) > 4, done.stderr
    assert not Path(path).exists() and "tier pinned" in done.stderr
    assert ok(wcache("view", str(place), "--json", "--", "true"), 2)["error"]["code"] == "usage"


def test_two_views_of_a_checkpoint_do_not_disturb_each_other(daemon: DaemonProcess, place: Path, weights: Weights) -> None:
    daemon.load(place)
    with viewing(daemon, place) as first:
        with viewing(daemon, place) as second:
            assert first["view"] != second["view"] and len(daemon.status().leases) == 2
        assert_weights(first["view"], weights)


def test_a_reader_outlives_the_holder_and_a_new_one_fails_clearly(daemon: DaemonProcess, place: Path, weights: Weights) -> None:
    """kill -9: what was opened stays; the links dangle; the next view clears them away."""
    daemon.load(place)
    with viewing(daemon, place, end=signal.SIGKILL) as found:
        path = Path(found["view"])
        opened = safe_open(path / found["shards"][0], "np")  # type: ignore[no-untyped-call]
    names = list(opened.keys())
    assert all(np.array_equal(opened.get_tensor(name), weights[name]) for name in names)
    with pytest.raises(FileNotFoundError):
        load_file(path / found["shards"][1])
    wait_until(lambda: not daemon.status().leases)
    with viewing(daemon, place):
        assert not path.exists()


def test_the_daemons_death_takes_no_view_with_it(place: Path, weights: Weights) -> None:
    process = DaemonProcess()
    try:
        process.start().load(place)
        with viewing(process, place) as found:
            process.kill()
            assert_weights(found["view"], weights)
    finally:
        process.cleanup()


def test_a_miss_is_a_view_of_the_disk_and_on_record(daemon: DaemonProcess, wcache: Cli, place: Path, weights: Weights) -> None:
    with viewing(daemon, place) as found:
        assert (found["decision"], found["reason"]) == ("fallback", "not_resident")
        assert_weights(found["view"], weights)
        assert all(os.readlink(Path(found["view"]) / shard) == str(place / shard) for shard in found["shards"])
        assert not daemon.status().leases
    row = next(one for one in ok(wcache("audit", "fallbacks", "--json")) if one["attach"] == found["attach"])
    assert (row["engine"], row["fallback_bytes"]) == ("wcache view", 0)
    assert_weights(place, weights)


def test_a_strict_miss_is_no_view(daemon: DaemonProcess, wcache: Cli, place: Path) -> None:
    assert ok(wcache("view", str(place), "--strict", "--json"), 10)["error"]["detail"] == "not_resident"
    assert ok(wcache("view", str(place / "none"), "--json"), 3)["error"]["code"] == "checkpoint_unreadable"
    assert list((daemon.settings.runtime_dir / "views").iterdir()) == []


def test_a_directory_that_is_not_ours_is_left_alone(daemon: DaemonProcess, wcache: Cli, place: Path, tmp_path: Path) -> None:
    daemon.load(place)
    own = tmp_path / "own"
    own.mkdir()
    (own / "notes").write_text("mine")
    assert ok(wcache("view", str(place), str(own), "--json"), 7)["error"]["code"] == "refused"
    assert (own / "notes").read_text() == "mine"
    with viewing(daemon, place, tmp_path / "new") as found:
        assert found["view"] == str(tmp_path / "new")
        assert "another view" in ok(wcache("view", str(place), str(tmp_path / "new"), "--json"), 7)["error"]["what"]
        (tmp_path / "new" / "result.txt").write_text("a tool's own")
    assert [entry.name for entry in (tmp_path / "new").iterdir()] == ["result.txt"]


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGKILL])
def test_links_that_somebody_else_made_in_a_view_stay(daemon: DaemonProcess, wcache: Cli, place: Path, tmp_path: Path, end: int) -> None:
    """Also when the holder was killed, and the next view clears away."""
    daemon.load(place)
    view = tmp_path / "v"
    with viewing(daemon, place, view, end=end):
        (view / "notes").symlink_to(tmp_path)
        (view / "tokenizer.json").unlink()
        (view / "tokenizer.json").symlink_to(tmp_path / "mine.json")
    if end == signal.SIGKILL:
        assert "not empty" in wcache("view", str(place), str(view), "--", "true").stderr
    assert {entry.name for entry in view.iterdir()} == {"notes", "tokenizer.json"}


def test_a_dead_view_in_a_named_directory_is_replaced(daemon: DaemonProcess, place: Path, tmp_path: Path, weights: Weights) -> None:
    daemon.load(place)
    with viewing(daemon, place, tmp_path / "v", end=signal.SIGKILL):
        pass
    with viewing(daemon, place, tmp_path / "v"):
        assert_weights(tmp_path / "v", weights)


def test_weights_that_are_resident_in_other_shards_come_with_an_index_of_their_own(
    daemon: DaemonProcess, place: Path, disk_path: Path, weights: Weights
) -> None:
    """I13: the same weights, sharded otherwise."""
    daemon.load(make_checkpoint(disk_path / "three", weights, shards=3))
    with viewing(daemon, place) as found:
        assert found["decision"] == "hit" and len(found["shards"]) == 3
        assert_weights(found["view"], weights)
        index = json.loads((Path(found["view"]) / "model.safetensors.index.json").read_text())
        assert index["weight_map"].keys() == weights.keys() and set(index["weight_map"].values()) == set(found["shards"])
    assert not Path(found["view"]).exists()


def test_a_single_file_is_a_view_of_one_file(daemon: DaemonProcess, disk_path: Path, weights: Weights) -> None:
    file = make_checkpoint(disk_path / "single", weights) / "model.safetensors"
    daemon.load(file)
    with viewing(daemon, file) as found:
        assert found["shards"] == ["model.safetensors"]
        assert_weights(found["view"], weights)


def test_a_checkpoint_that_cannot_be_shown_is_told_and_on_record(daemon: DaemonProcess, wcache: Cli, place: Path) -> None:
    """C1: not even the disk has it. No directory stays."""
    next(place.glob("*.safetensors")).write_bytes(b"version https://git-lfs.github.com/spec/v1\n")
    error = ok(wcache("view", str(place), "--json"), 3)["error"]
    assert error["code"] == "checkpoint_invalid"
    row = ok(wcache("audit", "attaches", "--json"))[-1]
    assert (row["decision"], row["reason"], row["state"]) == ("fallback", "checkpoint_invalid", "failed")
    assert list((daemon.settings.runtime_dir / "views").iterdir()) == []


def test_a_place_that_may_not_be_written_is_one_line(wcache: Cli, place: Path) -> None:
    error = ok(wcache("view", str(place), "/proc/nowhere", "--json"), 7)["error"]
    assert error["code"] == "refused" and "/proc/nowhere" in error["where"]
