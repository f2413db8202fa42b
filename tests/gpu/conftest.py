"""What needs an NVIDIA GPU: all of it is skipped, for one reason, where there is none."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from wcache.core.memory import cuda
from wcache.core.memory.blake3_cuda import Blake3


@pytest.fixture(scope="session")
def gpu() -> cuda.Device:
    """The first GPU that this process sees."""
    why = cuda.why_unusable()
    if why:
        pytest.skip(why)
    return cuda.devices()[0]


@pytest.fixture(scope="session")
def hasher(gpu: cuda.Device) -> Iterator[Blake3]:
    found = Blake3(gpu)
    yield found
    found.close()
