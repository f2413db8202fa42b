"""A progress bar on stderr, for work that takes long, and only where somebody watches."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol


class Update(Protocol):
    """What is done, of how much, and in which phase."""

    def __call__(self, done: int, total: int, phase: str = "") -> None: ...


def _nothing(done: int, total: int, phase: str = "") -> None:
    pass


@contextmanager
def progress(what: str, *, unit: str = "bytes") -> Iterator[Update]:
    """Yields a function to call with what is done; it draws nothing unless stderr is a terminal. `unit` is bytes or a plural noun."""
    if not sys.stderr.isatty():
        yield _nothing
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

    numbers = (DownloadColumn(binary_units=True), TransferSpeedColumn()) if unit == "bytes" else (MofNCompleteColumn(), TextColumn(unit))
    name = TextColumn("{task.description}", markup=False)
    with Progress(name, BarColumn(), *numbers, TimeRemainingColumn(), console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=None)

        def update(done: int, total: int, phase: str = "") -> None:
            bar.update(task, completed=done, total=total, description=f"{what} {phase}".strip())

        yield update
