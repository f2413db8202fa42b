"""A1: every way in which a daemon can be unusable has its own reason."""

from __future__ import annotations

import os
import socket
import struct
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import msgspec
import pytest

from wcache.core import __version__
from wcache.core.model.errors import (
    CheckpointInvalid,
    DaemonUnreachable,
    NoRoom,
    RequestRefused,
    UsageError,
    WcacheError,
    WrongExpectedVersion,
    error_types,
)
from wcache.core.model.vocabulary import Reason
from wcache.core.wire.channel import Channel, failure_of, raise_failure
from wcache.core.wire.frames import encode_frame
from wcache.core.wire.messages import PROTOCOL_VERSION, Done, Failure, Progress, StatusRequest, Welcome, encode

WELCOME = encode_frame(encode(Welcome(protocol=PROTOCOL_VERSION, version=__version__, instance="d-1", server_pid=1, ledger="")))


@pytest.fixture
def place() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="wc-", dir="/tmp") as name:
        yield Path(name) / "s"


@pytest.fixture
def serve(place: Path) -> Iterator[Callable[..., Path]]:
    """`serve(answers...)`: accept one client, and after each thing that it sends, send the next answer. None closes."""
    with ExitStack() as undo:

        def start(*answers: bytes | None) -> Path:
            listener = undo.enter_context(socket.socket(socket.AF_UNIX))
            listener.bind(str(place))
            listener.listen(1)

            def run() -> None:
                with suppress(OSError):
                    sock, _ = listener.accept()
                    with sock:
                        for answer in answers:
                            sock.recv(65536)
                            if answer is None:
                                return
                            sock.sendall(answer)
                        sock.recv(65536)  # until the client leaves

            thread = threading.Thread(target=run, daemon=True)
            thread.start()
            undo.callback(thread.join, 5)
            return place

        yield start


def reason_of(path: Path, *, timeout_s: float = 60) -> str:
    with pytest.raises(DaemonUnreachable) as caught:
        Channel.connect(path, connect_timeout_s=timeout_s, handshake_timeout_s=timeout_s)
    assert str(path) in str(caught.value)
    return caught.value.reason


def test_a_missing_socket_is_daemon_absent(place: Path) -> None:
    assert reason_of(place) == Reason.DAEMON_ABSENT
    assert reason_of(place / "below") == Reason.DAEMON_ABSENT


def test_a_socket_without_a_listener_is_daemon_refused(place: Path) -> None:
    with socket.socket(socket.AF_UNIX) as sock:
        sock.bind(str(place))
    assert reason_of(place) == Reason.DAEMON_REFUSED


def test_a_server_that_says_nothing_is_daemon_silent(serve: Callable[..., Path]) -> None:
    assert reason_of(serve(b""), timeout_s=0.2) == Reason.DAEMON_SILENT


def test_a_server_that_says_half_an_answer_and_nothing_more_is_daemon_silent(serve: Callable[..., Path]) -> None:
    assert reason_of(serve(WELCOME[:9]), timeout_s=0.2) == Reason.DAEMON_SILENT


def test_a_server_that_closes_in_the_middle_of_a_frame_is_daemon_closed(place: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(place))
        listener.listen()

        def run() -> None:
            sock, _ = listener.accept()
            with sock:
                sock.recv(65536)
                sock.sendall(WELCOME[:7])

        thread = threading.Thread(target=run)
        thread.start()
        assert reason_of(place) == Reason.DAEMON_CLOSED
        thread.join()


def test_a_server_that_closes_without_an_answer_is_daemon_closed(serve: Callable[..., Path]) -> None:
    assert reason_of(serve(None)) == Reason.DAEMON_CLOSED


@pytest.mark.parametrize(
    "garbage",
    [b"HTTP/1.1 400 Bad Request\r\n\r\n", struct.pack(">I", 0xFFFFFFF0), encode_frame(b"\xc1"), encode_frame(msgspec.msgpack.encode([1]))],
    ids=["http", "oversized", "no msgpack", "other msgpack"],
)
def test_garbage_is_protocol_error(serve: Callable[..., Path], garbage: bytes) -> None:
    assert reason_of(serve(garbage)) == Reason.PROTOCOL_ERROR


def test_another_protocol_version_is_version_mismatch_whatever_its_other_fields(serve: Callable[..., Path]) -> None:
    other = {"m": "Welcome", "protocol": PROTOCOL_VERSION + 1, "version": "9.9", "new": {"field": 1}}
    assert reason_of(serve(encode_frame(msgspec.msgpack.encode(other)))) == Reason.VERSION_MISMATCH


def test_a_server_that_refuses_our_version_is_version_mismatch(serve: Callable[..., Path]) -> None:
    refusal = Failure(code="version_mismatch", what="this daemon speaks protocol 9")
    assert reason_of(serve(encode_frame(encode(refusal)))) == Reason.VERSION_MISMATCH


def test_a_full_backlog_is_daemon_timeout(place: Path) -> None:
    with ExitStack() as opened:
        listener = opened.enter_context(socket.socket(socket.AF_UNIX))
        listener.bind(str(place))
        listener.listen(0)
        while True:  # until the kernel takes no more
            sock = opened.enter_context(socket.socket(socket.AF_UNIX))
            sock.setblocking(False)
            try:
                sock.connect(str(place))
            except BlockingIOError:
                break
        assert reason_of(place, timeout_s=0.2) == Reason.DAEMON_TIMEOUT


def test_a_request_that_is_not_answered_is_daemon_timeout_and_ends_the_channel(serve: Callable[..., Path]) -> None:
    channel = Channel.connect(serve(WELCOME, b""))
    with pytest.raises(DaemonUnreachable) as caught:
        channel.call(StatusRequest(), timeout_s=0.1)
    assert caught.value.reason == Reason.DAEMON_TIMEOUT
    assert channel.closed


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become another user")
def test_another_users_socket_is_peer_not_allowed(place: Path) -> None:
    """D6: the kernel keeps another uid out of a 0600 socket."""
    place.parent.chmod(0o755)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(place))
        place.chmod(0o600)
        listener.listen()
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                os.setgid(65534)
                os.setuid(65534)
                Channel.connect(place)
            except DaemonUnreachable as error:
                code = 0 if error.reason == Reason.PEER_NOT_ALLOWED else 2
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become another user")
def test_a_server_of_another_user_is_peer_not_allowed(place: Path) -> None:
    """Both sides check: whoever put a socket there could hand out other weights."""
    ready, told = os.pipe()
    place.parent.chmod(0o777)
    pid = os.fork()
    if pid == 0:
        os.setuid(65534)
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(str(place))
        listener.listen()
        os.write(told, b"x")
        listener.accept()[0].recv(1)
        os._exit(0)
    os.read(ready, 1)
    try:
        assert reason_of(place) == Reason.PEER_NOT_ALLOWED
    finally:
        os.waitpid(pid, 0)
        os.close(ready)
        os.close(told)


def test_a_path_longer_than_the_kernel_allows_is_a_clear_error() -> None:
    """D6."""
    with pytest.raises(UsageError, match="too long"):
        Channel.connect("/tmp/" + "x" * 120)


def test_progress_is_told_and_starts_the_time_limit_anew(serve: Callable[..., Path]) -> None:
    step = encode_frame(encode(Progress(phase="read", done_bytes=1, total_bytes=2)))
    channel = Channel.connect(serve(WELCOME, step + step + encode_frame(encode(Done(seq=7)))))
    told: list[int] = []
    assert channel.call(StatusRequest(), on_progress=lambda progress: told.append(progress.done_bytes)) == Done(seq=7)
    assert told == [1, 1]
    channel.close()


def test_a_refusal_is_raised_as_its_own_error_and_the_channel_lives_on(serve: Callable[..., Path]) -> None:
    refusal = failure_of(NoRoom("9 bytes are needed, 3 may be taken", where="x", remedy="release something"))
    channel = Channel.connect(serve(WELCOME, encode_frame(encode(refusal)), encode_frame(encode(Done()))))
    with pytest.raises(NoRoom, match="9 bytes are needed"):
        channel.call(StatusRequest())
    assert channel.call(StatusRequest()) == Done()
    channel.close()


def test_every_error_of_the_tree_crosses_the_wire() -> None:
    for cls in error_types():
        with pytest.raises(WcacheError) as caught:
            raise_failure(Failure(code=cls.code, what="w", where="f", remedy="r", detail="d"))
        assert caught.value.code == cls.code
        assert caught.value.to_json() == {"code": cls.code, "what": "w", "where": "f", "remedy": "r", "detail": "d"}
    with pytest.raises(CheckpointInvalid) as invalid:
        raise_failure(failure_of(CheckpointInvalid("bom", "starts with a BOM", where="a.safetensors")))
    assert invalid.value.rule == "bom"
    with pytest.raises(WrongExpectedVersion):
        raise_failure(failure_of(WrongExpectedVersion("attach/a", 0, 3)))
    with pytest.raises(RequestRefused):
        raise_failure(failure_of(RequestRefused("no")))


def test_a_code_of_a_newer_server_is_still_a_wcache_error() -> None:
    with pytest.raises(WcacheError, match="new"):
        raise_failure(Failure(code="from_the_future", what="new"))


def test_closing_in_a_forked_child_leaves_the_parents_connection(serve: Callable[..., Path]) -> None:
    """A13."""
    channel = Channel.connect(serve(WELCOME, encode_frame(encode(Done(seq=1)))))
    pid = os.fork()
    if pid == 0:
        channel.close()
        os._exit(0)
    os.waitpid(pid, 0)
    assert channel.call(StatusRequest()) == Done(seq=1)
    channel.close()
