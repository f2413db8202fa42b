"""A progress bar on stderr, for work that takes long, and only where somebody watches."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Update = Callable[[int, int, str], None]
"""(done bytes or items, of how many, phase)"""


@contextmanager
def progress(what: str, *, unit: str = "bytes") -> Iterator[Update]:
    """Yields a function to call with what is done; it draws nothing unless stderr is a terminal. `unit` is bytes or a plural noun."""
    if not sys.stderr.isatty():
        yield lambda done, total, phase="": None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

    numbers = (DownloadColumn(binary_units=True), TransferSpeedColumn()) if unit == "bytes" else (MofNCompleteColumn(), TextColumn(unit))
    name = TextColumn("{task.description}", markup=False)
    with Progress(name, BarColumn(), *numbers, TimeRemainingColumn(), console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total, phase="": bar.update(task, completed=done, total=total, description=f"{what} {phase}".strip())
