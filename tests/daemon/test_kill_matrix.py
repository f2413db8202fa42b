"""D1: nothing is lost when anything dies. A third of the matrix, always the same; `make test-kill` does all of it in random orders."""

from __future__ import annotations

import random
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from kill_matrix import MATRIX, PHASES, SIGNALS, TARGETS, Combination, meaning, order, run, stays


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
def test_nothing_is_lost_when_anything_dies(target: str) -> None:
    """In every phase, by every signal twice."""
    first = TARGETS.index(target)
    rounds = [Combination(target, SIGNALS[(first + number) % len(SIGNALS)], phase) for number, phase in enumerate(PHASES)]
    done, _, losses = run(rounds, seed=first)
    assert losses == []
    assert done == len(rounds)


def test_the_long_run_has_every_combination() -> None:
    assert len(MATRIX) == 4 * 3 * 6
    assert set(order(len(MATRIX), random.Random(0))) == set(MATRIX)


def test_the_table_in_the_docs_is_what_the_matrix_checks() -> None:
    text = (Path(__file__).parents[2] / "docs" / "kill-matrix.md").read_text(encoding="utf-8")
    rows = [line for line in text.splitlines() if line.startswith("| ") and " SIG" in line]
    assert rows == [f"| {one.target} | {one.signal.name} | {one.phase} | {meaning(one)} |" for one in MATRIX]
    ends = [one for one in MATRIX if "ordered end" in meaning(one)]
    assert ends == [one for one in MATRIX if not stays(one)]
