"""The parts of checking a ledger, done here or in helper processes that read the same snapshot.

A helper is `python -m wcache.ledger.pool PATH`: it takes one part after another on stdin and answers on stdout, in length-prefixed msgpack.
It ends with its stdin.
"""

from __future__ import annotations

import gc
import os
import secrets
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from queue import SimpleQueue
from typing import IO, Any

import msgspec

from wcache.ledger.block import Found, add_up_index, examine, settle
from wcache.ledger.chain import Chain
from wcache.ledger.reader import Reader
from wcache.ledger.segments import Past

MAX_HELPERS = 8
_LENGTH_BYTES = 8


class Snapshot(msgspec.Struct, tag=True, frozen=True):
    """Begin to see the ledger as it is now; the answer is its newest seq and chain hash."""


class Share(msgspec.Struct, tag=True, frozen=True):
    """What every block needs."""

    origin: str
    past: Past
    residencies: dict[str, tuple[list[int], list[str]]]
    sizes: list[int]


class File(msgspec.Struct, tag=True, frozen=True):
    """SQLite's own check of one table with its indexes (https://sqlite.org/pragma.html#pragma_integrity_check); None: of the whole file,
    without comparing indexes."""

    table: str | None = None


class Index(msgspec.Struct, tag=True, frozen=True):
    """One of the two indexes of `event`, added up."""

    index: int


class Block(msgspec.Struct, tag=True, frozen=True):
    """Rows in [first_seq, last_seq], all chained under one origin."""

    first_seq: int
    last_seq: int


class Settle(msgspec.Struct, tag=True, frozen=True):
    """Attaches that live in several blocks, by stream."""

    streams: list[str]


Part = File | Index | Block | Settle


class BrokenPool(Exception):
    """A helper ended, or sees another ledger."""


class Examiner:
    """Does parts on one reader."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._shared: Share | None = None

    def share(self, shared: Share) -> None:
        self._shared = shared
        self._reader.past = shared.past

    def do(self, part: Part) -> Found:
        if isinstance(part, File):
            return Found(problems=self._reader.integrity(part.table))
        if isinstance(part, Index):
            return add_up_index(self._reader, part.index)
        assert self._shared is not None  # noqa: S101
        residencies = self._shared.residencies
        if isinstance(part, Block):
            chain = Chain(self._shared.past.origin_at(part.last_seq, self._shared.origin))
            return examine(self._reader, chain, residencies, part.first_seq, part.last_seq, self._shared.sizes)
        return settle(self._reader, residencies, part.streams)

    def results(self, parts: Sequence[Part]) -> Iterator[tuple[int, Found]]:
        """Each part's place in `parts` and what it found, in any order."""
        for place, part in enumerate(parts):
            yield place, self.do(part)


_found = msgspec.msgpack.Decoder(Found)
_asked = msgspec.msgpack.Decoder(Snapshot | Share | Part)


def _send(pipe: IO[bytes], value: Any) -> None:
    body = msgspec.msgpack.encode(value)
    pipe.write(len(body).to_bytes(_LENGTH_BYTES, "big") + body)
    pipe.flush()


def _receive(pipe: IO[bytes]) -> bytes | None:
    head = pipe.read(_LENGTH_BYTES)
    return pipe.read(int.from_bytes(head, "big")) if len(head) == _LENGTH_BYTES else None


class _Helper:
    def __init__(self, path: Path, hash_seed: int) -> None:
        command = [sys.executable, "-m", "wcache.ledger.pool", str(path)]
        environ = {**os.environ, "PYTHONHASHSEED": str(hash_seed)}  # what they add up must agree
        # From /: `python -m` puts the current directory first on the path.
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd="/", env=environ
        )
        assert self._process.stdin and self._process.stdout  # noqa: S101
        self._to, self._from = self._process.stdin, self._process.stdout

    def tell(self, message: Any) -> None:
        try:
            _send(self._to, message)
        except OSError as error:
            raise BrokenPool from error

    def answer(self) -> bytes:
        body = _receive(self._from)
        if body is None:
            raise BrokenPool
        return body

    def close(self) -> None:
        self._process.kill()  # it holds nothing but a reading transaction
        self._process.communicate()


class Pool:
    """As an Examiner, on several helpers. A context manager. Raises BrokenPool where one of them ended, or OSError where none starts."""

    def __init__(self, path: Path, helpers: int) -> None:
        self._helpers: list[_Helper] = []
        hash_seed = secrets.randbelow(1 << 32)
        try:
            for _ in range(helpers):
                self._helpers.append(_Helper(path, hash_seed))
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *about: object) -> None:
        self.close()

    def close(self) -> None:
        for helper in self._helpers:
            helper.close()

    def snapshots(self) -> list[tuple[int, bytes]]:
        """What every helper sees from now on."""
        for helper in self._helpers:
            helper.tell(Snapshot())
        return [msgspec.msgpack.decode(helper.answer(), type=tuple[int, bytes]) for helper in self._helpers]

    def share(self, shared: Share) -> None:
        for helper in self._helpers:
            helper.tell(shared)

    def results(self, parts: Sequence[Part]) -> Iterator[tuple[int, Found]]:
        """As Examiner's."""
        idle: SimpleQueue[_Helper] = SimpleQueue()
        for helper in self._helpers:
            idle.put(helper)

        def do(part: Part) -> Found:
            helper = idle.get()
            try:
                helper.tell(part)
                return _found.decode(helper.answer())
            finally:
                idle.put(helper)

        with ThreadPoolExecutor(len(self._helpers)) as threads:
            try:
                futures = {threads.submit(do, part): place for place, part in enumerate(parts)}
                for future in as_completed(futures):
                    yield futures[future], future.result()
            except BaseException:
                self.close()  # threads that wait for an answer get none
                threads.shutdown(cancel_futures=True)
                raise


def helpers() -> int:
    """How many are worth starting on this machine; 0 where the work is better done alone."""
    cores = len(os.sched_getaffinity(0))
    return min(cores, MAX_HELPERS) if cores > 1 and sys.executable else 0


def main(path: Path) -> None:
    gc.disable()  # what a block leaves behind holds no cycles, and looking for them costs a tenth of the time
    reader = Reader(path)
    reader.map()
    examiner = Examiner(reader)
    while (body := _receive(sys.stdin.buffer)) is not None:
        message = _asked.decode(body)
        if isinstance(message, Share):
            examiner.share(message)
        elif isinstance(message, Snapshot):
            _send(sys.stdout.buffer, reader.begin())
        else:
            _send(sys.stdout.buffer, examiner.do(message))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
