"""One conversation with the daemon: connect, ask once, close."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from wcache.cli.command import current_app

if TYPE_CHECKING:
    from wcache.core.wire.channel import Channel

PATIENCE_S = 30.0
"""For an answer that needs no reading of weights."""

LOAD_SILENCE_S = 600.0
"""The longest a load may go without a word of progress."""


@contextmanager
def daemon_channel(handshake_timeout_s: float | None = None) -> Iterator[Channel]:
    """A handshaken connection to the daemon of the current settings. Raises DaemonUnreachable with one of its reasons."""
    from wcache.core.wire.channel import HANDSHAKE_TIMEOUT_S, Channel

    settings = current_app().settings()
    timeout_s = handshake_timeout_s or HANDSHAKE_TIMEOUT_S
    channel = Channel.connect(settings.socket_path, handshake_timeout_s=timeout_s, daemon_uid=settings.daemon_uid)
    try:
        yield channel
    finally:
        channel.close()
