"""The client's end of the socket: blocking calls with time limits, used by loaders and the command line.

Every way in which a daemon can be unusable has its own reason, so that nobody has to guess from a log which one it was.
"""

from __future__ import annotations

import errno
import math
import os
import select
import socket
import struct
import time
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn

import msgspec

from wcache.core import __version__
from wcache.core.model.errors import DaemonUnreachable, ProtocolError, UsageError, WcacheError, error_types
from wcache.core.model.vocabulary import Reason
from wcache.core.wire.frames import Frame, FrameDecoder, close_fds, encode_frame, receive_some, send_some
from wcache.core.wire.messages import (
    MAX_FDS,
    MAX_REPLY_BYTES,
    MAX_REQUEST_BYTES,
    PROTOCOL_VERSION,
    AnyReply,
    Failure,
    Hello,
    Message,
    Progress,
    Welcome,
    decode_plain,
    decode_reply,
    encode,
)
from wcache.core.wire.peer import peer_of

CONNECT_TIMEOUT_S = 1.0
HANDSHAKE_TIMEOUT_S = 2.0
REQUEST_TIMEOUT_S = 10.0

_START = "start one with `wcache daemon start`"
_JOIN = "run as the daemon's user, or, where the daemon is shared, as a member of its group"
_CONNECT_ERRORS: dict[int, tuple[Reason, str, str]] = {
    errno.ENOENT: (Reason.DAEMON_ABSENT, "there is no socket here: no daemon was started", _START),
    errno.ENOTDIR: (Reason.DAEMON_ABSENT, "there is no socket here: no daemon was started", _START),
    errno.ECONNREFUSED: (Reason.DAEMON_REFUSED, "nobody listens on this socket: the daemon died", _START),
    errno.EACCES: (Reason.PEER_NOT_ALLOWED, "permission denied: this daemon is another user's", _JOIN),
    errno.EPERM: (Reason.PEER_NOT_ALLOWED, "permission denied: this daemon is another user's", _JOIN),
    errno.EAGAIN: (Reason.DAEMON_TIMEOUT, "the daemon does not accept connections", "look at its log and at `wcache status`"),
}
_HANDSHAKE_REASONS = {Reason.VERSION_MISMATCH.value: Reason.VERSION_MISMATCH, Reason.PEER_NOT_ALLOWED.value: Reason.PEER_NOT_ALLOWED}


class Channel:
    """One connection after its handshake. Not thread-safe. After an exception other than a refused request it is closed.

    A forked child may `close()` its copy: that takes nothing from the parent. Every method but `close` raises DaemonUnreachable
    (`reason` is one of the closed set) when the daemon cannot be used, and the refusal's own WcacheError when it says no.
    """

    def __init__(self, sock: socket.socket, where: str) -> None:
        self._sock = sock
        self._where = where
        self._decoder = FrameDecoder(MAX_REPLY_BYTES)
        self._frames: deque[Frame] = deque()
        self.welcome: Welcome
        self.foreign = False  # the server is another user's: it wants proof, and only its own evidence counts

    @classmethod
    def connect(
        cls,
        socket_path: str | os.PathLike[str],
        *,
        daemon_uid: int | None = None,
        connect_timeout_s: float = CONNECT_TIMEOUT_S,
        handshake_timeout_s: float = HANDSHAKE_TIMEOUT_S,
    ) -> Channel:
        """Connect, check that the server is of this user (or of `daemon_uid`, where that is given), and shake hands."""
        where = str(Path(socket_path))
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        try:
            _connect(sock, where, connect_timeout_s)
            server = peer_of(sock)
            wanted = os.geteuid() if daemon_uid is None else daemon_uid
            if server.uid != wanted:
                whose = "this process as uid" if daemon_uid is None else "only one is trusted of uid"
                raise DaemonUnreachable(
                    Reason.PEER_NOT_ALLOWED,
                    f"the daemon runs as uid {server.uid}, {whose} {wanted}",
                    where=where,
                    remedy=f"run both as the same user, or, where uid {server.uid} is to be trusted, set WCACHE_DAEMON_UID={server.uid}",
                )
            sock.setblocking(False)
            channel = cls(sock, where)
            channel.foreign = server.uid != os.geteuid()
            channel._handshake(handshake_timeout_s)
        except BaseException:
            sock.close()
            raise
        return channel

    def fileno(self) -> int:
        return self._sock.fileno()

    @property
    def closed(self) -> bool:
        return self._sock.fileno() < 0

    def close(self) -> None:
        """Close this copy of the connection. Idempotent."""
        self._sock.close()
        self._decoder.close()
        while self._frames:
            self._frames.popleft().close()

    def call(
        self,
        message: Message,
        fds: Sequence[int] = (),
        *,
        timeout_s: float = REQUEST_TIMEOUT_S,
        on_progress: Callable[[Progress], None] | None = None,
    ) -> AnyReply:
        """Send a request and return its reply. `timeout_s` is the longest silence: every `Progress` starts it anew.

        The caller keeps its descriptors. Descriptors that come with the reply are closed: use `receive` where some are expected.
        """
        self.send(message, fds, timeout_s=timeout_s)
        while True:
            reply, received = self.receive(timeout_s=timeout_s)
            close_fds(received)
            if not isinstance(reply, Progress):
                return reply
            if on_progress is not None:
                on_progress(reply)

    def send(self, message: Message, fds: Sequence[int] = (), *, timeout_s: float = REQUEST_TIMEOUT_S) -> None:
        """Send a request without waiting for its reply."""
        if len(fds) > MAX_FDS:
            raise ProtocolError(f"{len(fds)} descriptors for one message, the cap is {MAX_FDS}", where=self._where)
        body = encode(message)
        if len(body) > MAX_REQUEST_BYTES:
            raise ProtocolError(f"a request of {len(body)} bytes, the cap is {MAX_REQUEST_BYTES} bytes", where=self._where)
        left = memoryview(encode_frame(body))
        deadline = time.monotonic() + timeout_s
        while left:
            try:
                sent = send_some(self._sock, left, fds)
            except BlockingIOError:  # noqa: PERF203
                self._await(select.POLLOUT, deadline, Reason.DAEMON_TIMEOUT)
            except (BrokenPipeError, ConnectionResetError):
                if self._failure_waits():
                    return  # the server said why before it closed: receive() tells it
                self._unusable(Reason.DAEMON_CLOSED, "the daemon closed the connection")
            except OSError as error:
                self._unusable(Reason.DAEMON_CLOSED, f"sending failed: {error.strerror or error}")
            else:
                left, fds = left[sent:], ()

    def receive(self, *, timeout_s: float = REQUEST_TIMEOUT_S) -> tuple[AnyReply, list[int]]:
        """The next reply and its descriptors, which are then the caller's. A `Failure` is raised as the error that it names."""
        frame = self._next_frame(time.monotonic() + timeout_s, Reason.DAEMON_TIMEOUT)
        try:
            reply = decode_reply(frame.body)
        except msgspec.MsgspecError as error:
            frame.close()
            self._unusable(Reason.PROTOCOL_ERROR, f"the answer is no message of protocol {PROTOCOL_VERSION}: {error}")
        if isinstance(reply, Failure):
            frame.close()
            raise_failure(reply)
        return reply, list(frame.fds)

    def _handshake(self, timeout_s: float) -> None:
        self.send(Hello(protocol=PROTOCOL_VERSION, version=__version__), timeout_s=timeout_s)
        frame = self._next_frame(time.monotonic() + timeout_s, Reason.DAEMON_SILENT)
        frame.close()
        plain = decode_plain(frame.body)
        if plain.get("m") not in ("Welcome", "Failure"):
            self._unusable(Reason.PROTOCOL_ERROR, "the answer to the handshake is no wcache message")
        if plain["m"] == "Welcome" and plain.get("protocol") != PROTOCOL_VERSION:
            self._unusable(
                Reason.VERSION_MISMATCH,
                f"the daemon (version {plain.get('version')}) speaks protocol {plain.get('protocol')}, this process {PROTOCOL_VERSION}",
                remedy="install the same version of wcache on both sides and restart the daemon",
            )
        try:
            reply = decode_reply(frame.body)
        except msgspec.MsgspecError as error:
            self._unusable(Reason.PROTOCOL_ERROR, f"the answer to the handshake cannot be read: {error}")
        if isinstance(reply, Failure):
            reason = _HANDSHAKE_REASONS.get(reply.code)
            if reason is None:
                self.close()
                raise_failure(reply)
            self._unusable(reason, reply.what, remedy=reply.remedy)
        assert isinstance(reply, Welcome)  # noqa: S101 (the tag was looked at above)
        self.welcome = reply

    def _next_frame(self, deadline: float, silence: Reason) -> Frame:
        while not self._frames:
            try:
                data, fds = receive_some(self._sock)
                if data:
                    self._frames.extend(self._decoder.feed(data, fds))
                    continue
            except BlockingIOError:
                self._await(select.POLLIN, deadline, silence)
                continue
            except ProtocolError as error:
                self._unusable(Reason.PROTOCOL_ERROR, error.what, remedy=error.remedy)
            except OSError as error:
                if error.errno != errno.ECONNRESET:
                    self._unusable(Reason.DAEMON_CLOSED, f"receiving failed: {error.strerror or error}")
            middle = " in the middle of an answer" if self._decoder.in_frame else ""
            self._unusable(Reason.DAEMON_CLOSED, f"the daemon closed the connection{middle}")
        return self._frames.popleft()

    def _failure_waits(self) -> bool:
        """Whether a whole frame arrived before the connection broke."""
        try:
            while True:
                data, fds = receive_some(self._sock)
                if not data:
                    break
                self._frames.extend(self._decoder.feed(data, fds))
        except (OSError, ProtocolError):
            pass
        return bool(self._frames)

    def _await(self, event: int, deadline: float, silence: Reason) -> None:
        poller = select.poll()  # select(2) cannot take descriptors over 1023
        poller.register(self._sock, event)
        left_s = deadline - time.monotonic()
        if left_s <= 0 or not poller.poll(math.ceil(left_s * 1000)):
            what = (
                "the daemon accepted the connection and said nothing"
                if silence is Reason.DAEMON_SILENT
                else "the daemon did not answer in time"
            )
            self._unusable(silence, what)

    def _unusable(self, reason: Reason, what: str, *, remedy: str = "") -> NoReturn:
        self.close()
        raise DaemonUnreachable(reason, what, where=self._where, remedy=remedy)


def _connect(sock: socket.socket, where: str, timeout_s: float) -> None:
    # A non-blocking connect to a full backlog fails at once (EAGAIN); a blocking one waits this long (socket(7), SO_SNDTIMEO).
    whole_s, part_s = divmod(max(timeout_s, 0.001), 1.0)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("@ll", int(whole_s), int(part_s * 1e6)))
    try:
        sock.connect(where)
    except OSError as error:
        if error.errno is None:  # Python's own check of the path's length
            raise UsageError(str(error), where=where, remedy="set WCACHE_RUNTIME_DIR to a shorter directory") from None
        fallback = (Reason.DAEMON_REFUSED, error.strerror or str(error), _START)
        reason, what, remedy = _CONNECT_ERRORS.get(error.errno, fallback)
        raise DaemonUnreachable(reason, what, where=where, remedy=remedy) from None


def raise_failure(failure: Failure) -> NoReturn:
    """Raise the WcacheError that a `Failure` names; an unknown code (a newer server's) becomes the base class."""
    cls = next((cls for cls in error_types() if cls.code == failure.code), WcacheError)
    if failure.code in _HANDSHAKE_REASONS:
        raise DaemonUnreachable(failure.code, failure.what, where=failure.where, remedy=failure.remedy)
    error = cls.__new__(cls)  # constructors differ; what crosses the wire is the common part
    WcacheError.__init__(error, failure.what, where=failure.where, remedy=failure.remedy, detail=failure.detail)
    raise error


def failure_of(error: WcacheError) -> Failure:
    """The `Failure` that carries this error across the wire."""
    return Failure(code=error.code, what=error.what, where=error.where, remedy=error.remedy, detail=error.detail)
