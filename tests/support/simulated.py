"""The made-up fleet of bench/, small: a ledger with everything in it that a year of 200 nodes has, in a second."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "bench"))

from fleet import story  # type: ignore[import-not-found]
from simulate import batches, simulate  # type: ignore[import-not-found]

__all__ = ["batches", "simulate", "story"]
