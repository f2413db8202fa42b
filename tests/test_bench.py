"""What the measurements promise about themselves; the figures are in docs/benchmarks.md, and none is held here."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent
RECORDED = ROOT / "bench" / "results.json"


@pytest.fixture
def bench() -> Iterator[Any]:
    """Imports a program of bench/ by its name, as running it would."""
    before = list(sys.path)
    sys.path.insert(0, str(ROOT / "bench"))
    loaded: list[str] = []

    def load(name: str) -> ModuleType:
        loaded.append(name)
        return importlib.import_module(name)

    yield load
    sys.path[:] = before
    for name in (*loaded, "rows", "places"):
        sys.modules.pop(name, None)


def _results(**values: float) -> dict[str, Any]:
    goals = {"speed": ">= 1"}
    return {"rows": [{"what": what, "value": value, "unit": "x", "goal": goals.get(what, "")} for what, value in values.items()]}


def test_a_ratio_that_is_twice_as_bad_is_a_regression(bench: Any) -> None:
    """Worse is more, but where the goal says that more is better."""
    run = bench("run")
    before = _results(cost=1.0, speed=4.0)
    assert run.regressions(_results(cost=1.9, speed=2.1), before) == {}
    assert run.regressions(_results(cost=0.1, speed=40.0), before) == {}
    assert list(run.regressions(_results(cost=2.1, speed=1.9), before)) == ["cost", "speed"]


def test_seconds_and_new_ratios_are_never_regressions(bench: Any) -> None:
    run = bench("run")
    slow = {"rows": [{"what": "start", "value": 900.0, "unit": "s", "goal": "< 1"}]}
    fast = {"rows": [{"what": "start", "value": 0.1, "unit": "s", "goal": "< 1"}]}
    assert run.regressions(slow, fast) == {}
    assert run.regressions(_results(cost=9.0), _results(other=1.0)) == {}
    assert run.regressions(_results(cost=9.0), None) == {}


def test_every_recorded_ratio_with_a_spread_names_what_it_is_against() -> None:
    recorded = json.loads(RECORDED.read_text(encoding="utf-8"))
    for name, found in recorded.items():
        assert found["machine"] and found["versions"]["Python"] and len(found["load_average"]) == 2, name
        for row in found["rows"]:
            if row["unit"] == "x" and "low" in row:
                assert row["against"] and row["low"] <= row["value"] <= row["high"], row


def test_every_picture_is_small_and_shown_in_the_document() -> None:
    text = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    pictures = sorted((ROOT / "docs" / "benchmarks").glob("*.svg"))
    assert pictures
    for picture in pictures:
        assert f"(benchmarks/{picture.name})" in text, picture.name
        assert picture.stat().st_size < 100_000, picture.name


def test_a_checkpoint_without_bytes_of_its_own_is_one_that_safetensors_reads(bench: Any, tmp_path: Path) -> None:
    from safetensors import safe_open

    place = bench("places").sparse_checkpoint(tmp_path / "m", 20, 3, 1 << 20)
    names: list[str] = []
    for shard in sorted(place.glob("*.safetensors")):
        with safe_open(str(shard), "numpy") as opened:
            names += opened.keys()
    index = json.loads((place / "model.safetensors.index.json").read_text())
    assert len(names) == 20 and set(names) == set(index["weight_map"])
