"""Files that are there as a whole, also after the machine has lost its power, or not at all."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from wcache.core.model.errors import UsageError


def synchronise(path: Path) -> None:
    """fsync(2) of a file that no connection of SQLite has open, or of a directory: which names lie there. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def replace_file(path: Path, blocks: Iterable[bytes], *, mode: int = 0o666, remedy: str = "give another place") -> int:
    """Writes a file beside `path` and puts it in its place; the bytes written. `mode` is less the umask, as for every new file.

    Raises UsageError where it cannot be written, and what `blocks` raises; then `path` is as it was.
    """
    beside = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    size_bytes = 0
    try:
        descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
        try:
            with os.fdopen(descriptor, "wb") as file:
                for block in blocks:
                    size_bytes += file.write(block)
                file.flush()
                os.fsync(file.fileno())
            beside.replace(path)
        except BaseException:
            with suppress(OSError):
                beside.unlink()
            raise
        synchronise(path.parent)
    except OSError as error:
        raise UsageError(f"cannot be written: {os.strerror(error.errno or 0)}", where=str(path), remedy=remedy) from error
    return size_bytes
