"""`wcache.lock`: the same content gives the same bytes, and what is no lock is an error, never an empty one."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from blake3 import blake3

from wcache.core.checkpoint.lockfile import LockedCheckpoint, LockedFile, LockFile, lock_of, read_lock, read_lock_file, render_lock
from wcache.core.model.errors import UsageError
from wcache.core.model.evidence import LOCKED_MAX

GOOD = "ab" * 32


def entry(name: str, digest: str = GOOD) -> LockedCheckpoint:
    file = LockedFile(name="model.safetensors", size_bytes=9, blake3="cd" * 32)
    return LockedCheckpoint(checkpoint=name, weights_digest=digest, algorithm="a", tensors=1, size_bytes=9, files=(file,))


def test_what_is_written_is_read_back_and_does_not_depend_on_the_order(tmp_path: Path) -> None:
    raw = render_lock(lock_of([entry("b"), entry("a", "12" * 32)]))
    assert raw == render_lock(lock_of([entry("a", "12" * 32), entry("b")])) and raw.endswith(b"}\n")
    assert b"null" not in raw, "what is not known is not there"
    path = tmp_path / "wcache.lock"
    path.write_bytes(raw)
    assert [one.checkpoint for one in read_lock_file(path).checkpoints] == ["a", "b"]
    lock = read_lock(path)
    assert (lock.path, lock.digest, lock.weights) == (str(path), blake3(raw).hexdigest(), ("12" * 32, GOOD))


_PLAIN = msgspec.to_builtins(lock_of([entry("a")]))


@pytest.mark.parametrize(
    ("plain", "says"),
    [
        (b"", "no lock"),
        (b"not json", "no lock"),
        (b"[1]", "no lock"),
        (b"\xff", "no lock"),
        (b"[" * 100_000, "no lock"),
        ({**_PLAIN, "version": 2}, "version 2"),
        ({**_PLAIN, "more": 1}, "no lock"),
        ({"version": 1}, "no lock"),
        ({"version": 1, "checkpoints": []}, "nothing could ever be served"),
        ({"version": 1, "checkpoints": [{**_PLAIN["checkpoints"][0], "weights_digest": "AB"}]}, "no weights digest"),
        ({"version": 1, "checkpoints": [_PLAIN["checkpoints"][0]] * (LOCKED_MAX + 1)}, f"may hold {LOCKED_MAX}"),
    ],
)
def test_what_is_no_lock_is_one_clear_error(tmp_path: Path, plain: object, says: str) -> None:
    path = tmp_path / "wcache.lock"
    path.write_bytes(plain if isinstance(plain, bytes) else msgspec.json.encode(plain))
    with pytest.raises(UsageError, match=says) as refused:
        read_lock(path)
    assert str(path) in str(refused.value) and "\n" not in refused.value.diagnostics()


def test_a_lock_that_is_not_there_or_is_a_directory_is_an_error(tmp_path: Path) -> None:
    for path in (tmp_path / "none", tmp_path):
        with pytest.raises(UsageError, match="cannot be read"):
            read_lock(path)


def test_one_spelling_twice_is_refused() -> None:
    with pytest.raises(UsageError, match="twice"):
        lock_of([entry("a"), entry("a", "12" * 32)])
    assert isinstance(lock_of([entry("a")]), LockFile)
