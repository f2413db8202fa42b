"""Waiting for a load that is in progress, so that daemon and engine can start together."""

from __future__ import annotations

import time
from collections.abc import Callable

from wcache.core.model.vocabulary import ResidencyState
from wcache.core.wire.messages import Progress
from wcache.loader.session import Session

_POLL_S = 0.1
_STALL_S = 30.0  # a load that shows no progress for so long is not waited for any longer


def load_ended(session: Session, residency: str | None, deadline_s: float, on_progress: Callable[[Progress], None] | None) -> bool:
    """True once that residency loads no longer, however it ended; False when it stalls, or at `deadline_s` of the monotonic clock.

    Raises DaemonUnreachable.
    """
    seen: tuple[str | None, int] | None = None
    moved_s = time.monotonic()
    while (now_s := time.monotonic()) < deadline_s and now_s - moved_s < _STALL_S:
        time.sleep(min(_POLL_S, deadline_s - now_s))
        loading = (one for one in session.status().residencies if one.view.residency == residency)
        one = next((one for one in loading if one.view.state is ResidencyState.LOADING), None)
        if one is None:
            return True
        if (one.phase, one.done_bytes) != seen:
            seen, moved_s = (one.phase, one.done_bytes), time.monotonic()
            if on_progress is not None:
                on_progress(Progress(phase=one.phase or "wait", done_bytes=one.done_bytes, total_bytes=one.total_bytes))
    return False
