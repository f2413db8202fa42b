"""Who asks: a process's place in its launch, where the engine does not say it."""

from __future__ import annotations

import pytest
import torch.distributed
from torch.testing._internal.distributed.fake_pg import FakeStore

from wcache.core.model.events import Ranks
from wcache.loader.question import make_question

VARIABLES = ("RANK", "WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE")


@pytest.fixture(autouse=True)
def _nobody_said(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    ("environ", "ranks"),
    [
        ({}, Ranks()),
        ({"RANK": "3", "WORLD_SIZE": "4"}, Ranks(rank=3, world=4)),
        ({"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2"}, Ranks(rank=1, world=2)),
        ({"RANK": "0", "WORLD_SIZE": "8", "OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2"}, Ranks(rank=0, world=8)),
        ({"RANK": "first", "OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2"}, Ranks(rank=1, world=2)),
        ({"RANK": "-1", "WORLD_SIZE": "0"}, Ranks()),
    ],
    ids=str,
)
def test_ranks_are_what_the_launcher_wrote_down(environ: dict[str, str], ranks: Ranks, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    assert make_question("./model").ranks == ranks


def test_ranks_are_those_of_torch_distributed_where_it_was_initialised(monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes that somebody spawned without a launcher are not all rank 0."""
    monkeypatch.setenv("RANK", "0")
    torch.distributed.init_process_group("fake", rank=3, world_size=4, store=FakeStore())
    try:
        assert make_question("./model").ranks == Ranks(rank=3, world=4)
        assert make_question("./model", ranks=Ranks(rank=1, world=2)).ranks == Ranks(rank=1, world=2)
    finally:
        torch.distributed.destroy_process_group()
