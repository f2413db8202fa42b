"""Fixtures that every room's tests share."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import freezegun
import pytest
from hypothesis import HealthCheck, settings

# Freezing time looks into every imported module, which makes the lazy ones of these import half of themselves.
freezegun.configure(extend_ignore_list=["torch", "transformers", "numpy", "safetensors", "huggingface_hub", "tokenizers"])
sys.path.insert(0, str(Path(__file__).parent))  # so that `from support.x import y` works in importlib mode

# The same examples in every run, however slow the machine: a change that breaks nothing fails nobody's run.
# `make test ARGS=--hypothesis-profile=default` draws new ones.
settings.register_profile("repeatable", derandomize=True, print_blob=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("repeatable")


_LONG_FIRST = ("test_vllm_drill.py", "test_vllm.py", "test_vllm_served.py", "test_vllm_ranks.py", "e2e", "daemon", "cli", "loader")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Each file runs in one process, one after the other as processes are free: a long one that began last would be waited for alone."""

    def turn(item: pytest.Item) -> int:
        found = [number for number, word in enumerate(_LONG_FIRST) if word in (item.path.name, item.path.parent.name)]
        return min(found, default=len(_LONG_FIRST))

    items.sort(key=turn)


@pytest.fixture
def disk_path(tmp_path: Path) -> Iterator[Path]:
    """A scratch directory on a file system whose pins hold: pytest's own, or one below the repository where /tmp is tmpfs."""
    from wcache.core.checkpoint.identity import filesystem_kind, pinnable

    if pinnable(filesystem_kind(tmp_path), "refuse", False)[0]:
        yield tmp_path
        return
    scratch = Path(tempfile.mkdtemp(prefix=".scratch-", dir=Path(__file__).parent))
    try:
        yield scratch
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


@pytest.fixture
def short_path() -> Iterator[Path]:
    """A private directory whose name leaves room for a socket (unix(7): 107 bytes), which pytest's own do not."""
    scratch = Path(tempfile.mkdtemp(prefix="wc-"))
    try:
        yield scratch
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


@pytest.fixture
def no_driver() -> None:
    """For what is said where there is no GPU to be had."""
    from wcache.core.memory import nvml
    from wcache.core.model.errors import Unsupported

    try:
        nvml.gpus()
    except Unsupported:
        return
    pytest.skip("there is an NVIDIA driver here")
