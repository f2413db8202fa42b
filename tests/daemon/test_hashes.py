"""Hashing for others: through their descriptors, once for all who ask, and never for nobody."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.attaching import hash_now
from support.corpus import make_checkpoint
from support.daemon import DaemonProcess, wait_until

from wcache.core.checkpoint.checkpoint import hold_checkpoint, open_checkpoint
from wcache.core.checkpoint.fingerprint import content_fingerprint
from wcache.core.checkpoint.reader import Reader
from wcache.core.model.errors import ProtocolError, WorkerDied
from wcache.core.model.events import FingerprintRecorded
from wcache.core.model.evidence import Fingerprint
from wcache.core.wire.channel import Channel
from wcache.core.wire.messages import HashRequest, LoadRequest, Progress, StatusRequest


def test_a_hash_is_what_reading_the_files_gives_and_is_on_record_first(daemon: DaemonProcess, checkpoint: Path) -> None:
    channel = daemon.connect()
    found = hash_now(channel, checkpoint)
    assert found.digest == content_fingerprint(open_checkpoint(checkpoint), Reader()).digest
    assert found.location == open_checkpoint(checkpoint).location
    (recorded,) = daemon.events("fingerprint.recorded")
    assert isinstance(recorded, FingerprintRecorded)
    assert (recorded.fingerprint, recorded.by, recorded.spelling) == (found.id(), "server", str(checkpoint))
    channel.close()


def test_more_descriptors_than_fit_into_a_message_come_in_batches(daemon: DaemonProcess, many_shards: Path) -> None:
    channel = daemon.connect()
    before = daemon.fd_count()
    assert len(hash_now(channel, many_shards).file_digests) == 70
    wait_until(lambda: daemon.fd_count() <= before)
    channel.close()


def test_eight_that_ask_at_once_cost_one_read(daemon: DaemonProcess, tmp_path: Path) -> None:
    """I17. The files are fresh, so the one worker waits for two seconds while all of them join."""
    path = make_checkpoint(tmp_path / "fresh", shards=2)
    found: list[Fingerprint] = []

    def ask() -> None:
        channel = daemon.connect()
        found.append(hash_now(channel, path))
        channel.close()

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    wait_until(lambda: len(daemon.workers()) == 1)
    worker = daemon.workers()
    for thread in threads:
        thread.join()
    assert len({item.id() for item in found}) == 1
    assert len(found) == 8
    assert worker
    assert len(daemon.events("fingerprint.recorded")) == 1


def begin_hash(daemon: DaemonProcess, path: Path) -> tuple[Channel, int]:
    """A channel that waits for a hash of fresh files, and the worker's pid."""
    channel = daemon.connect()
    with hold_checkpoint(path) as held:
        channel.send(HashRequest(spelling=str(path), location=held.checkpoint.location), [file.descriptor for file in held.files.values()])
    wait_until(daemon.workers)
    return channel, daemon.workers()[0]


def test_a_hash_that_nobody_waits_for_ends(daemon: DaemonProcess, tmp_path: Path) -> None:
    before = daemon.fd_count()
    channel, _worker = begin_hash(daemon, make_checkpoint(tmp_path / "fresh"))
    channel.close()
    wait_until(lambda: not daemon.workers() and daemon.fd_count() <= before)
    assert daemon.events("fingerprint.recorded") == []


def test_a_worker_that_is_killed_is_a_clear_failure(daemon: DaemonProcess, tmp_path: Path) -> None:
    channel = daemon.connect()
    path = make_checkpoint(tmp_path / "fresh")

    def kill(progress: Progress) -> None:
        if progress.phase == "settle":
            for worker in daemon.workers():
                os.kill(worker, signal.SIGKILL)

    with hold_checkpoint(path) as held, pytest.raises(WorkerDied, match="SIGKILL"):
        fds = [file.descriptor for file in held.files.values()]
        channel.call(HashRequest(spelling=str(path), location=held.checkpoint.location), fds, on_progress=kill)
    channel.call(StatusRequest())
    channel.close()


def test_a_wrong_number_of_descriptors_is_refused_and_none_is_kept(daemon: DaemonProcess, checkpoint: Path) -> None:
    channel = daemon.connect()
    before = daemon.fd_count()
    location = open_checkpoint(checkpoint).location
    with open("/dev/null", "rb") as file:
        with pytest.raises(ProtocolError, match="1 descriptors came to be hashed, 4 are needed"):
            channel.call(HashRequest(spelling="x", location=location), [file.fileno()])
        with pytest.raises(ProtocolError, match="5 descriptors came to be hashed, 4 are needed"):
            channel.call(HashRequest(spelling="x", location=location), [file.fileno()] * 5)
        with pytest.raises(ProtocolError, match="only with HashRequest"):
            channel.call(StatusRequest(), [file.fileno()])
    wait_until(lambda: daemon.fd_count() <= before)
    channel.close()


_IMPATIENT = """
import sys

if "wcache.daemon.main" in sys.orig_argv:
    from wcache.daemon import jobs

    jobs.WORKER_SILENT_S = 0.5
"""


@pytest.fixture
def impatient(tmp_path: Path) -> Iterator[DaemonProcess]:
    """A daemon whose server gives up on a silent worker after half a second instead of ten minutes."""
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text(_IMPATIENT)
    process = DaemonProcess(environ={"PYTHONPATH": str(tmp_path / "site")})
    try:
        yield process.start()
    finally:
        process.cleanup()


@pytest.mark.parametrize("what", ["hash", "load"])
def test_a_worker_that_is_stuck_is_given_up_and_nobody_waits_for_ever(impatient: DaemonProcess, tmp_path: Path, what: str) -> None:
    path = make_checkpoint(tmp_path / "fresh")
    channel = impatient.connect()

    def stop(_: Progress) -> None:
        for worker in impatient.workers():
            os.kill(worker, signal.SIGSTOP)

    with hold_checkpoint(path) as held, pytest.raises(WorkerDied, match="the worker said nothing"):
        fds = [file.descriptor for file in held.files.values()]
        if what == "hash":
            channel.call(HashRequest(spelling=str(path), location=held.checkpoint.location), fds, on_progress=stop)
        else:
            channel.call(LoadRequest(spelling=str(path)), on_progress=stop)
    wait_until(lambda: not impatient.workers())
    channel.call(StatusRequest())
    channel.close()
