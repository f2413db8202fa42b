"""A few seconds of the soak: `make soak` is ten minutes. What it holds the daemon to is said in tests/daemon/soak.py."""

from __future__ import annotations

import importlib
import random
import sys
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture(scope="module")
def soak() -> ModuleType:
    here = str(Path(__file__).parent)
    sys.path.insert(0, here)
    try:
        return importlib.import_module("soak")
    finally:
        sys.path.remove(here)


@pytest.mark.slow
def test_everything_at_once_with_kills_loses_nothing_and_grows_nothing(soak: ModuleType) -> None:
    lines: list[str] = []
    last, failure = soak.run(20.0, 1, lines.append)
    assert not failure, "\n".join([*lines[-30:], last])
    assert "wrong hits 0" in last
    print(last)


def test_the_slope_and_the_versions_of_a_model_are_what_the_soak_takes_them_for(soak: ModuleType, disk_path: Path) -> None:
    """The judge is right: growth is seen, noise is not growth, and old bytes are no hit any more."""
    assert soak.slope([0.0, 1.0, 2.0, 3.0], [5.0, 7.0, 9.0, 11.0]) == pytest.approx(2.0)
    assert soak.slope([0.0, 1.0, 2.0, 3.0], [5.0, 6.0, 6.0, 5.0]) == pytest.approx(0.0)
    assert soak.slope([1.0], [5.0]) == 0.0
    model = soak.Model(disk_path / "m", random.Random(1))
    first = model.versions[0].digest
    assert model.held(first, 1.0, 2.0)
    model.overwrite()
    second = model.versions[1]
    assert second.digest != first
    assert model.held(first, second.since_s, second.since_s)  # while it was being overwritten
    assert not model.held(second.digest, 0.0, second.since_s - 1.0)
    model.versions[0] = model.versions[0]._replace(until_s=second.since_s)
    assert not model.held(first, second.since_s + 0.1, second.since_s + 1.0)
