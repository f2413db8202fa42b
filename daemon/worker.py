"""A worker process: one load, one hash or one verification, then it exits. It holds no lock and no ledger, and dies with its server.

`python -m wcache.daemon.worker FD PARENT_PID`; FD is the socket pair's end. Everything it has to say goes up that socket.
"""

from __future__ import annotations

import ctypes
import errno
import itertools
import mmap
import os
import signal
import socket
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from typing import NamedTuple

import msgspec

from wcache.core.checkpoint.checkpoint import Checkpoint, OpenCheckpoint, adopt_checkpoint, hold_checkpoint, recheck_paths
from wcache.core.checkpoint.content import ContentCheck, hash_shards
from wcache.core.checkpoint.digest import ShardDigests
from wcache.core.checkpoint.fingerprint import (
    attested_fingerprint,
    content_fingerprint,
    header_fingerprint,
    sampled_fingerprint,
    verity_fingerprint,
)
from wcache.core.checkpoint.reader import Reader
from wcache.core.checkpoint.resident import ReadAt, ResidentShard, compare_shard, weights_digest_found
from wcache.core.checkpoint.retries import Retries
from wcache.core.checkpoint.seed import load_or_create_seed
from wcache.core.memory import cuda, memfd
from wcache.core.model.decide import HOST
from wcache.core.model.errors import EvidenceUnavailable, NoRoom, ProtocolError, RequestRefused, WcacheError
from wcache.core.model.evidence import Fingerprint
from wcache.core.wire.channel import failure_of
from wcache.core.wire.frames import Frame, FrameDecoder, encode_frame, receive_some, send_some
from wcache.core.wire.messages import MAX_FDS, MEMORY, SegmentManifest
from wcache.daemon import gpu_load, orders, packed_verify, published
from wcache.daemon.priority import yield_to_others

_PR_SET_PDEATHSIG = 1
_REPORT_EVERY_S = 0.1
_SETTLE_MAX_S = 3.0  # longer needs a file from the future: no wait would help, and it is simply not pinnable yet


class ServerLink:
    """The worker's end: blocking."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._decoder = FrameDecoder(orders.MAX_FRAME_BYTES)
        self._frames: list[Frame] = []

    def report(self, report: orders.Report, fds: tuple[int, ...] = ()) -> None:
        left = memoryview(encode_frame(orders.encode(report)))
        while left:
            try:
                sent = send_some(self._sock, left, fds)
            except OSError as error:  # noqa: PERF203
                if error.errno != errno.ETOOMANYREFS:  # too many descriptors in flight for this user: they drain
                    raise
                time.sleep(0.05)
            else:
                left, fds = left[sent:], ()

    def order(self) -> orders.Order:
        """The next order; the process ends when the server is gone."""
        while not self._frames:
            data, fds = receive_some(self._sock)
            if not data:
                raise SystemExit(0)
            self._frames.extend(self._decoder.feed(data, fds))
        return orders.decode_order(self._frames.pop(0).body)


class Meter:
    """Progress, not more often than it can be read."""

    def __init__(self, link: ServerLink, total_bytes: int, retries: Retries | None = None) -> None:
        self._link = link
        self._total_bytes = total_bytes
        self._retries = retries or Retries()
        self._done_bytes = 0
        self._told_s = 0.0
        self._phase = ""

    def enter(self, phase: str) -> None:
        self._phase = phase
        self._tell()

    def advance(self, count_bytes: int) -> None:
        self._done_bytes += count_bytes
        if time.monotonic() - self._told_s >= _REPORT_EVERY_S:
            self._tell()

    def settle(self, seconds: float) -> None:
        """Wait until fresh files are old enough to be pinned."""
        if seconds <= _SETTLE_MAX_S:
            self.enter("settle")
            time.sleep(seconds)

    def _tell(self) -> None:
        self._told_s = time.monotonic()
        self._link.report(orders.Phase(self._phase, self._done_bytes, self._total_bytes, self._retries.count, self._retries.last))


def load(link: ServerLink, order: orders.LoadOrder) -> None:
    on_gpu = order.device != HOST
    if on_gpu:
        cuda.see_only(order.device)
    retries = Retries()
    reader = Reader(retries)
    with ExitStack() as held_open:
        held = held_open.enter_context(hold_checkpoint(order.spelling, revision=order.revision, reader=reader))
        checkpoint = held.checkpoint
        link.report(
            orders.Opened(
                location=checkpoint.location,
                bytes=gpu_load.needed_bytes(checkpoint) if on_gpu else checkpoint.total_bytes,
                tensors=checkpoint.tensor_count,
                table_digest=checkpoint.table_digest,
                strays=checkpoint.strays,
            )
        )
        if not isinstance(link.order(), orders.Go):
            raise ProtocolError("the server did not say Go")
        meter = Meter(link, checkpoint.total_bytes, retries)
        gpu = held_open.enter_context(gpu_load.GpuLoad(held, reader, order.device, cached=order.again)) if on_gpu else None
        clock = [time.monotonic()]
        # Which kinds of file systems may be pinned is the attach's policy; here only what no policy can mend counts (tmpfs, fresh files).
        check = ContentCheck(held, reader, network_fs="coherent", store_granted=True)
        check.begin(meter.settle)
        clock.append(time.monotonic())
        filled = _fill_gpu(gpu, meter) if gpu is not None else _fill_host(held, meter, cached=order.again)
        content = check.finish(filled.digests)
        recheck_paths(checkpoint_at(held, content), reader=reader)
        clock.append(time.monotonic())
        meter.enter("seal")
        segments, digests, fds = filled.hand_over()
        fingerprints = [content, *_weaker(held, order.state_dir, filled.read_at, reader)]
        for start in range(0, len(fds), MAX_FDS):
            stop = start + MAX_FDS
            link.report(orders.Filled(segments[start:stop], digests[start:stop]), fds[start:stop])
            if not isinstance(link.order(), orders.Taken):
                raise ProtocolError("the server did not take the segments")
        clock.append(time.monotonic())
        seconds = dict(zip(("settle", "read", "seal"), (after - before for before, after in itertools.pairwise(clock)), strict=True))
        entries = [entry for shard in checkpoint.shards for entry in shard.header.tensors]
        link.report(
            orders.LoadResult(
                fingerprints=tuple(fingerprints),
                dtypes=tuple(sorted({entry.dtype for entry in entries})),
                misaligned=0 if on_gpu else sum(len(shard.header.misaligned()) for shard in checkpoint.shards),
                seconds={name: round(spent_s, 6) for name, spent_s in (seconds | (gpu.seconds if gpu is not None else {})).items()},
                retried=retries.count,
            )
        )


class _Filled(NamedTuple):
    """What was read and hashed, and is not sealed yet. `read_at(shard, offset, length)` reads it as the files had it; `hand_over()` is
    called before it."""

    digests: dict[str, ShardDigests]
    read_at: Callable[[int, int, int], bytes]
    hand_over: Callable[[], tuple[tuple[SegmentManifest, ...], tuple[bytes, ...], tuple[int, ...]]]


def _fill_host(held: OpenCheckpoint, meter: Meter, *, cached: bool) -> _Filled:
    """Files are read straight into memory files and hashed there: no page is touched twice."""
    meter.enter("read")
    shards = held.checkpoint.shards
    fds: list[int] = []

    def memory(number: int) -> memoryview:
        shard = shards[number]
        fds.append(memfd.create(shard.name, shard.size_bytes))
        return memoryview(mmap.mmap(fds[-1], shard.size_bytes, flags=mmap.MAP_SHARED))  # unmapped with its release

    digests = hash_shards(held, into=memory, progress=meter.advance, cached=cached)

    def hand_over() -> tuple[tuple[SegmentManifest, ...], tuple[bytes, ...], tuple[int, ...]]:
        for fd in fds:
            memfd.seal(fd)
        segments = tuple(SegmentManifest(shard.name, shard.size_bytes, digests[shard.name].file) for shard in shards)
        tensors = tuple(b"".join(digests[shard.name].tensors[entry.name] for entry in shard.header.tensors) for shard in shards)
        return segments, tensors, tuple(fds)

    return _Filled(digests, lambda shard, offset, length: os.pread(fds[shard], length, offset), hand_over)


def _fill_gpu(gpu: gpu_load.GpuLoad, meter: Meter) -> _Filled:
    meter.enter("prepare")
    memory, digests = gpu.fill(lambda: meter.enter("read"), meter.advance)
    return _Filled(digests, memory.read_at, memory.hand_over)


def checkpoint_at(held: OpenCheckpoint, content: Fingerprint) -> Checkpoint:
    """The checkpoint under the identities that were hashed (settling may have seen a later ctime than opening did)."""
    return msgspec.structs.replace(held.checkpoint, location=content.location)


def _weaker(held: OpenCheckpoint, state_dir: str, resident: Callable[[int, int, int], bytes], reader: Reader) -> list[Fingerprint]:
    """The cheaper fingerprints of the same bytes, so that later attaches can be compared by them. Samples come from the resident memory."""
    found = [header_fingerprint(held.checkpoint, reader, since=reader.mark())]
    with suppress(EvidenceUnavailable):
        found.append(sampled_fingerprint(held, load_or_create_seed(state_dir), reader, read_at=resident, since=reader.mark()))
    with suppress(EvidenceUnavailable):
        found.append(attested_fingerprint(held.checkpoint, reader, since=reader.mark()))
    return found


def hash_only(link: ServerLink, order: orders.HashOrder) -> None:
    if order.behind:
        yield_to_others()
    retries = Retries()
    reader = Reader(retries)
    location = order.location
    shards = {identity.name: fd for identity, fd in zip(location.files, order.fds, strict=False)}
    index = order.fds[len(location.files)] if location.index is not None else None
    with adopt_checkpoint(order.spelling, location, shards, index, reader=reader) as held:
        meter = Meter(link, held.checkpoint.total_bytes, retries)
        meter.enter("read")
        fingerprint = verity_fingerprint(held, order.known, reader) or content_fingerprint(
            held, reader, progress=meter.advance, wait_fresh=meter.settle, network_fs="coherent", store_granted=True
        )
        meter.enter("read")  # with all that was tried again
    link.report(orders.HashResult(fingerprint))


def verify(link: ServerLink, order: orders.VerifyOrder) -> None:
    """Reads by pread(2), never through a mapping: memory that is not what it was may be shorter too. A GPU's is mapped read-only."""
    meter = Meter(link, sum(segment.size_bytes for segment in order.segments))
    meter.enter("read")
    if any(segment.form == MEMORY for segment in order.segments):
        link.report(packed_verify.compare(order, meter.advance))
        return
    shards = [
        ResidentShard(segment.name, segment.size_bytes, segment.file_digest, digests)
        for segment, digests in zip(order.segments, order.tensor_digests, strict=True)
    ]
    readers = [_resident(fd) for fd in order.fds]
    verdicts = [compare_shard(shard, read_at, meter.advance) for shard, read_at in zip(shards, readers, strict=True)]
    intact = all(verdict.intact for verdict in verdicts)
    link.report(
        orders.VerifyResult(
            intact=intact,
            tensors=tuple(name for verdict in verdicts for name in verdict.tensors),
            why="; ".join(verdict.why for verdict in verdicts if verdict.why),
            found=order.weights_digest if intact else weights_digest_found(shards, readers, verdicts) or "",
        )
    )


def _resident(fd: int) -> ReadAt:
    return lambda offset, length: os.pread(fd, length, offset)


def prove(link: ServerLink, order: orders.ProveOrder) -> None:
    """What lies behind another user's descriptors must be what that user named, file by file."""
    reader = Reader()
    named = order.location
    shards = {identity.name: fd for identity, fd in zip(named.files, order.fds, strict=False)}
    index = order.fds[len(named.files)] if named.index is not None else None
    with adopt_checkpoint(order.spelling, named, shards, index, reader=reader) as held:
        if held.checkpoint.location.key() != named.key():
            raise RequestRefused("its descriptors are not the files that it named", where=named.root, detail="not_proved")
        link.report(orders.ProofResult(header_fingerprint(held.checkpoint, reader)))


def _work(link: ServerLink) -> None:
    try:
        order = link.order()
        if isinstance(order, orders.LoadOrder):
            load(link, order)
        elif isinstance(order, orders.HashOrder):
            hash_only(link, order)
        elif isinstance(order, orders.ProveOrder):
            prove(link, order)
        elif isinstance(order, orders.VerifyOrder):
            verify(link, order)
        elif isinstance(order, orders.PublishOrder):
            meter = Meter(link, sum(segment.size_bytes for segment in order.segments))
            meter.enter("hash")
            link.report(published.check(order, meter.advance))
    except WcacheError as error:
        link.report(orders.Failed(failure_of(error)))
    except MemoryError:
        link.report(orders.Failed(failure_of(NoRoom("the kernel gave no more memory"))))
    except OSError as error:
        what = f"{error.strerror or error} ({errno.errorcode.get(error.errno or 0, 'OSError')})"
        where = str(error.filename or "")
        no_memory = error.errno in (errno.ENOMEM, errno.ENOSPC, errno.EFAULT)  # EFAULT: a page of the new memory file was not to be had
        link.report(orders.Failed(failure_of(NoRoom(what, where=where) if no_memory else WcacheError(what, where=where))))


def main(arguments: list[str]) -> int:
    sock = socket.socket(fileno=int(arguments[0]))
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != int(arguments[1]):  # the server died before the line above
        return 0
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal's Ctrl-C is the server's to answer
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    try:
        _work(ServerLink(sock))
    except (BrokenPipeError, ConnectionResetError):
        return 0  # nobody is there to report to
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
