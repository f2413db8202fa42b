"""The cycle collector is as it was, whatever happens meanwhile."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from wcache.loader.collector import paused_collector


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    yield
    gc.enable()


def test_the_collector_is_off_inside_and_on_again_after_an_error() -> None:
    with pytest.raises(KeyError), paused_collector():
        assert not gc.isenabled()
        raise KeyError
    assert gc.isenabled()


def test_a_collector_that_the_program_turned_off_stays_off() -> None:
    gc.disable()
    with paused_collector():
        pass
    assert not gc.isenabled()
