"""D1: nothing is lost when anything dies. A short run of the matrix; `make test-kill` is the long one."""

from __future__ import annotations

import random
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from kill_matrix import MATRIX, meaning, order, run, stays

ROUNDS = 30
LIMIT_S = 35.0


@pytest.mark.slow
def test_nothing_is_lost_when_anything_dies() -> None:
    seed = random.SystemRandom().randrange(1 << 32)
    rounds, _, losses = run(ROUNDS, seed, limit_s=LIMIT_S)
    assert losses == [], f"seed {seed}"
    assert rounds > 0


def test_the_long_run_has_every_combination() -> None:
    assert len(MATRIX) == 4 * 3 * 6
    assert set(order(len(MATRIX), random.Random(0))) == set(MATRIX)


def test_the_table_in_the_docs_is_what_the_matrix_checks() -> None:
    text = (Path(__file__).parents[2] / "docs" / "kill-matrix.md").read_text(encoding="utf-8")
    rows = [line for line in text.splitlines() if line.startswith("| ") and " SIG" in line]
    assert rows == [f"| {one.target} | {one.signal.name} | {one.phase} | {meaning(one)} |" for one in MATRIX]
    ends = [one for one in MATRIX if "ordered end" in meaning(one)]
    assert ends == [one for one in MATRIX if not stays(one)]
