"""What an attach asks of a remote file system, counted by one that is mounted for it (bench/remote_mount.py): operations, not times."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from support.corpus import make_checkpoint

from wcache.loader.attach import attach

_BENCH = Path(__file__).resolve().parents[2] / "bench"
sys.path.insert(0, str(_BENCH))

from remote_mount import RemoteMount, missing  # noqa: E402

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing() or "-")
SHARDS = 12
LATENCY_MS = 20


@pytest.fixture
def mount(short_path: Path) -> Iterator[RemoteMount]:
    source = short_path / "source"
    source.mkdir()
    with RemoteMount(source, short_path / "mount") as found:
        make_checkpoint(source / "m", shards=SHARDS)
        yield found


def _attach(mount: RemoteMount, host: Any, **policy: str) -> tuple[str, dict[str, int], int]:
    mount.turn(LATENCY_MS)
    with closing(attach(mount.path / "m", settings=host.settings, **policy)) as found:
        asked = mount.turn()
        assert found.hit and found.decision.tier is not None
        return found.decision.tier.value, asked["operations"], asked["read_bytes"]


def _grant(host: Any, *arguments: str) -> None:
    command = [sys.executable, "-m", "wcache.cli", "trust", "grant", *arguments, "--reason", "the test made it"]
    subprocess.run(command, env=host.daemon.env, check=True, capture_output=True)


def test_below_a_granted_store_a_restart_looks_each_name_up_once_and_opens_nothing(host: Any, mount: RemoteMount) -> None:
    """The directory, then its shards and the index at once: two round trips."""
    host.daemon.load(mount.path / "m")
    _grant(host, "--store", str(mount.path))
    assert _attach(mount, host) == ("pinned", {"lookup": 1 + SHARDS + 1}, 0)


def test_a_trusted_restart_asks_a_remote_file_system_for_nothing(host: Any, mount: RemoteMount) -> None:
    host.daemon.load(mount.path / "m")
    _grant(host, str(mount.path / "m"))
    assert _attach(mount, host, trusted="honour") == ("trusted", {}, 0)


def test_without_a_grant_a_restart_opens_and_reads_each_shard_and_the_attach_says_so(host: Any, mount: RemoteMount) -> None:
    host.daemon.load(mount.path / "m")
    size_bytes = sum(path.stat().st_size for path in (mount.path / "m").glob("*.safetensors"))
    tier, operations, read_bytes = _attach(mount, host)
    assert tier == "content" and operations["open"] >= SHARDS and read_bytes >= size_bytes


def test_the_mount_counts_what_a_program_asks(mount: RemoteMount) -> None:
    mount.turn(1)
    names = sorted(path.name for path in (mount.path / "m").glob("*.safetensors"))
    assert names == sorted(path.name for path in (mount.path.parent / "source" / "m").glob("*.safetensors"))
    assert mount.turn()["operations"]["opendir"] >= 1
    shard = mount.path / "m" / names[0]
    data = shard.read_bytes()
    asked = mount.turn()
    assert asked["operations"]["open"] == 1 and asked["read_bytes"] >= len(data)
    assert data == (mount.path.parent / "source" / "m" / names[0]).read_bytes()
