"""Workers that are caught in the middle of their work, and a memory error, made from outside.

Sealed memory cannot be changed by anybody, so the fault is put where no seal helps: a byte turns after the worker has hashed it and
before it seals, as a failing memory would do it. The server, the worker, the seals and the digests are the real ones.
"""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from pathlib import Path

from support.daemon import PATIENCE_S, DaemonProcess, wait_until

from wcache.core.checkpoint.read_ahead import AHEAD_BYTES, PIECE_BYTES
from wcache.core.wire.messages import Loaded, LoadRequest, Progress

_CHUNK_BYTES = PIECE_BYTES  # in which the worker reads and hashes
_TENSOR_BYTES = 128 << 20


def two_tensors(path: Path) -> Path:
    """Two tensors of zeros that take no disk."""
    size = _TENSOR_BYTES
    ranges = {"a": (0, size), "b": (size, 2 * size)}
    entries = ",".join(f'"{name}":{{"dtype":"U8","shape":[{size}],"data_offsets":[{at},{end}]}}' for name, (at, end) in ranges.items())
    header = f"{{{entries}}}".encode()
    header += b" " * (-len(header) % 8)
    path.mkdir()
    with (path / "model.safetensors").open("wb") as file:
        file.write(len(header).to_bytes(8, "little") + header)
        file.truncate(8 + len(header) + 2 * size)
    return path


def stopped(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"


def memory_file_of(pid: int) -> Path | None:
    for link in Path(f"/proc/{pid}/fd").iterdir():
        try:
            if os.readlink(link).startswith("/memfd:wcache:"):
                return link
        except OSError:
            continue
    return None


def catch(daemon: DaemonProcess, filled_bytes: int = 0) -> int:
    """The one worker of a load that has begun (it is past the phase `wait`), stopped: at once, or when it has filled more than so much
    of its memory. Fresh files keep it waiting for up to two seconds before it reads."""
    (worker,) = daemon.workers()
    memory: Path | None = None
    deadline = time.monotonic() + PATIENCE_S
    while filled_bytes and (memory is None or memory.stat().st_blocks * 512 <= filled_bytes):
        assert time.monotonic() < deadline
        memory = memory or memory_file_of(worker)
    os.kill(worker, signal.SIGSTOP)
    wait_until(lambda: stopped(worker))
    return worker


def go_on(worker: int) -> None:
    """Let a stopped worker go on, unless it was killed, and may be reaped already."""
    with suppress(ProcessLookupError):
        os.kill(worker, signal.SIGCONT)


def turn_a_byte(worker: int, offset: int) -> None:
    """In the memory that a stopped worker fills."""
    memory = memory_file_of(worker)
    assert memory is not None
    assert memory.stat().st_blocks * 512 < 2 * _TENSOR_BYTES, "it was too fast for this test"
    fd = os.open(memory, os.O_RDWR)
    os.pwrite(fd, b"\1", offset)
    os.close(fd)
    os.kill(worker, signal.SIGCONT)


def load_with_a_memory_error(daemon: DaemonProcess, path: Path) -> str:
    done = False

    def on_progress(progress: Progress) -> None:
        nonlocal done
        if progress.phase != "wait" and not done:
            done = True
            # What it reads ahead, and the chunk that it hashes, are not more than this: with another one begun the first is done.
            turn_a_byte(catch(daemon, AHEAD_BYTES + _CHUNK_BYTES), offset=_CHUNK_BYTES // 2)

    channel = daemon.connect()
    try:
        reply = channel.call(LoadRequest(spelling=str(path)), timeout_s=60, on_progress=on_progress)
    finally:
        channel.close()
    assert done
    assert isinstance(reply, Loaded)
    return reply.residency.residency
