"""The release after a copy: the engine has memory of its own, so the daemon may give its weights back."""

from __future__ import annotations

from wcache.core.model.errors import WcacheError
from wcache.core.settings import Settings
from wcache.core.wire.channel import Channel
from wcache.core.wire.messages import ReleaseRequest
from wcache.loader import log

_RELEASE_S = 30.0  # the daemon answers when the memory is gone and that is on record


def ask_release(residency: str, why: str, settings: Settings) -> bool:
    """Whether it was released. Refused, since somebody else maps it or it is another user's: that is on record there, and no error."""
    try:
        channel = Channel.connect(settings.socket_path, daemon_uid=settings.daemon_uid)
        try:
            if channel.foreign:
                return False
            channel.call(ReleaseRequest(residency=residency, why=why), timeout_s=_RELEASE_S)
        finally:
            channel.close()
    except WcacheError as error:
        log.logger.info("The copied weights stay resident: %s", error)
        return False
    return True
