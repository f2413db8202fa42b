"""The cycle collector, kept out of the way while an attach makes thousands of objects that are all wanted, or gone at once."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def paused_collector() -> Iterator[None]:
    """For milliseconds: parsing headers and making tensors leaves no cycles, and a full collection that falls into it walks all of torch
    (100 ms). A collector that was off stays off."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
