"""The sampling seed is one, secret, and kept."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from wcache.core.checkpoint.seed import Seed, load_or_create_seed, load_seed
from wcache.core.model.errors import EvidenceUnavailable


def test_the_first_use_makes_a_seed_and_later_ones_find_it(tmp_path: Path) -> None:
    seed = load_or_create_seed(tmp_path / "state")
    assert load_or_create_seed(tmp_path / "state") == seed == load_seed(tmp_path / "state", seed.id)
    assert load_seed(tmp_path / "state", "f" * 16) is None
    assert load_seed(tmp_path / "state", "../x") is None
    (file,) = (tmp_path / "state" / "seeds").iterdir()
    assert file.name == f"seed-{seed.id}.key" and file.stat().st_mode & 0o777 == 0o600
    assert len(seed.key) == 32 and seed.key.hex() not in repr(seed) and str(seed.key) not in repr(seed)


def test_all_who_start_at_once_use_the_same_seed(tmp_path: Path) -> None:
    with ThreadPoolExecutor(16) as pool:
        seeds: set[Seed] = set(pool.map(lambda _: load_or_create_seed(tmp_path), range(64)))
    assert len(seeds) == 1
    assert len(list((tmp_path / "seeds").iterdir())) == 1


def test_a_seed_that_others_may_read_is_refused(tmp_path: Path) -> None:
    load_or_create_seed(tmp_path)
    (file,) = (tmp_path / "seeds").iterdir()
    file.chmod(0o640)
    with pytest.raises(EvidenceUnavailable, match="0640"):
        load_or_create_seed(tmp_path)
    file.chmod(0o600)
    file.write_bytes(b"short")
    with pytest.raises(EvidenceUnavailable, match="5 bytes"):
        load_or_create_seed(tmp_path)


def test_a_state_directory_that_cannot_be_used_is_one_clear_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(EvidenceUnavailable, match="seed"):
        load_or_create_seed(tmp_path / "file")
