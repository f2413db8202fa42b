"""Files read once and in order, from the first byte of the first to the last of the last, while what follows is on its way."""

from __future__ import annotations

import mmap
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import NamedTuple

from wcache.core.checkpoint.direct import OnceFile
from wcache.core.checkpoint.reader import OpenFile, remote

AHEAD_BYTES = 64 << 20
PIECE_BYTES = 8 << 20
REMOTE_PIECE_BYTES = 1 << 20  # as much as FUSE and NFS carry in one request

Into = Callable[[int], memoryview]
"""The memory that file number n is read to: writable, of its size, at a page's address. It is released once it is filled and was seen."""


def requests(size_bytes: int, fs_kind: str) -> int:
    """How many reads a file of this size takes."""
    return -(-size_bytes // _step_bytes(fs_kind))


def _step_bytes(fs_kind: str) -> int:
    return REMOTE_PIECE_BYTES if remote(fs_kind) else PIECE_BYTES


class Piece(NamedTuple):
    """What file number `file` has from `offset_bytes`. `data` is valid until the next piece is asked for."""

    file: int
    offset_bytes: int
    data: memoryview


class _Reading(NamedTuple):
    piece: Piece
    whole: memoryview  # the buffer, or the memory of the file, that `data` is a part of
    done: Future[None]


class ReadAhead:
    """One pass, as an iterator of pieces and a context manager: at its end nothing is read any more and no view of any memory is left.

    While a piece is looked at the next AHEAD_BYTES are being read, across the ends of files, in pieces of 8 MiB, or of 1 MiB where the kind
    of file system says that each read is a round trip. Files of more than one piece are read past the page cache where the file system
    can, if their bytes stay in memory (`into`) or come from far away.
    """

    def __init__(
        self, files: Sequence[OpenFile], sizes_bytes: Sequence[int], fs_kind: str, *, into: Into | None = None, cached: bool = False
    ) -> None:
        """`into(n)` is called in order, when the first piece of file n is asked for; without it the bytes go to buffers of which there is
        one more than pieces on their way. `cached`: leave them in the page cache, because somebody will read them again soon."""
        self._step = _step_bytes(fs_kind)
        self._sizes_bytes = sizes_bytes
        self._into = into
        cached = cached or (into is None and not remote(fs_kind))
        once = zip(files, sizes_bytes, strict=True)
        self._files = [OnceFile(file, file.reader, cached=cached or size_bytes <= self._step) for file, size_bytes in once]
        self._todo = ((file, at) for file, size_bytes in enumerate(sizes_bytes) for at in range(0, size_bytes, self._step))
        self._reading: deque[_Reading] = deque()
        self._seen: _Reading | None = None
        self._memory: dict[int, memoryview] = {}
        self._spare: list[memoryview] = []
        self._ahead = AHEAD_BYTES // self._step
        self._pool = ThreadPoolExecutor(max_workers=self._ahead, thread_name_prefix="wcache-ahead")

    def __iter__(self) -> ReadAhead:
        return self

    def __next__(self) -> Piece:
        """Raises CheckpointChanged for a file that became shorter, CheckpointUnreadable, and what `into` raises."""
        self._put_back()
        self._ask()
        if not self._reading:
            raise StopIteration
        self._reading[0].done.result()
        self._seen = self._reading.popleft()
        self._ask()
        return self._seen.piece

    def __enter__(self) -> ReadAhead:
        return self

    def __exit__(self, *exc: object) -> None:
        self._pool.shutdown(cancel_futures=True)
        self._put_back()
        for reading in self._reading:
            reading.piece.data.release()
        for memory in self._memory.values():
            memory.release()
        for file in self._files:
            file.close()

    def _ask(self) -> None:
        while len(self._reading) < self._ahead and (place := next(self._todo, None)) is not None:
            file, at = place
            length = min(self._step, self._sizes_bytes[file] - at)
            if self._into is None:
                whole = self._spare.pop() if self._spare else memoryview(mmap.mmap(-1, self._step))
                data = whole[:length]
            else:
                whole = self._memory[file] = self._memory.get(file) or self._into(file)
                data = whole[at : at + length]
            self._reading.append(_Reading(Piece(file, at, data), whole, self._pool.submit(self._files[file].fill, data, at, length)))

    def _put_back(self) -> None:
        """The piece that was looked at."""
        seen, self._seen = self._seen, None
        if seen is None:
            return
        file, at, data = seen.piece
        last = at + len(data) == self._sizes_bytes[file]
        data.release()
        if self._into is None:
            self._spare.append(seen.whole)
        if last:
            self._files[file].close()
            if self._into is not None:
                self._memory.pop(file).release()
