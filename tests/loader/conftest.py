"""Fixtures of the loader's tests: places of its own for each test, a real daemon, and a ledger to read back."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.ledgers import Record

from wcache.core.settings import Settings, load_settings


@pytest.fixture
def settings(disk_path: Path) -> Iterator[Settings]:
    runtime = Path(tempfile.mkdtemp(prefix="wc-"))
    yield load_settings({}, runtime_dir=runtime, state_dir=disk_path / "state", wait_s=10)
    shutil.rmtree(runtime, ignore_errors=True)


@pytest.fixture
def record(settings: Settings) -> Record:
    return Record(settings)
