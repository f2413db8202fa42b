"""The root of the tree of a ledger that is not verified, computed beside everything else: for a big ledger by a process of its own, because
hashing a million rows keeps Python's lock for as long as all questions of a report take together.

`python -m wcache.ledger.report.root PATH SIZE` prints it.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from wcache.core.model.errors import LedgerCorrupt
from wcache.ledger.database import connect_reader, driver, translated
from wcache.ledger.leaves import roots
from wcache.ledger.segments import history_of

BESIDE_EVENTS = 100_000  # below, a process costs more than it saves


def root_of(path: Path, size: int) -> str:
    """Over the first `size` events, in hex. Empty where a row is missing or unreadable: then verification says what is wrong."""
    reader = connect_reader(path)
    try:
        with translated(path), reader.begin() as connection:
            return roots(driver(connection), history_of(connection, path), [size], path)[size].hex()
    except LedgerCorrupt:
        return ""
    finally:
        reader.dispose()


class Root:
    """Begins to compute; `result` waits. A context manager, so that no process is left where the rest fails."""

    def __init__(self, path: Path, size: int) -> None:
        self._path, self._size = path, size
        self._process: subprocess.Popen[str] | None = None
        if size >= BESIDE_EVENTS:
            # From /: `python -m` puts the current directory first on the path.
            command = [sys.executable, "-m", "wcache.ledger.report.root", str(path.absolute()), str(size)]
            self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd="/")

    def __enter__(self) -> Root:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            with self._process:  # waits
                self._process.kill()

    def result(self) -> str:
        if self._process is not None:
            said, _ = self._process.communicate()
            if self._process.returncode == 0:
                return said.strip()
        return root_of(self._path, self._size)  # also where the process was killed


if __name__ == "__main__":
    sys.stdout.write(root_of(Path(sys.argv[1]), int(sys.argv[2])))
