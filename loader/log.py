"""What a loader says about an attach: one line a rank, in words that operators may match (DESIGN §8)."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from wcache.core.model.events import Ranks
from wcache.core.model.evidence import Coverage
from wcache.core.model.vocabulary import BELOW_PINNED, Mode, Reason, Tier

logger = logging.getLogger("wcache")


def _tail(ranks: Ranks, tier: Tier | None, seq: int | None) -> str:
    return f" rank={ranks.rank} tier={tier.value if tier else '-'} seq={'-' if seq is None else seq}"


def mapped(tensors: int, mode: Mode, ranks: Ranks, tier: Tier | None, seq: int | None) -> None:
    logger.info("Mapped %d tensors from the weight cache daemon (%s mode)%s", tensors, mode.value, _tail(ranks, tier, seq))


_next: ContextVar[str] = ContextVar("next", default="disk loading")


@contextmanager
def falling_back_to(what: str) -> Iterator[None]:
    """For an attach whose miss does not lead to the disk yet."""
    token = _next.set(what)
    try:
        yield
    finally:
        _next.reset(token)


def unusable(reason: Reason, detail: str, ranks: Ranks, tier: Tier | None, seq: int | None) -> None:
    """A fallback. The contract's sentence comes first, why and what to do about it after it."""
    why = f": {detail}" if detail else ""
    tail = _tail(ranks, tier, seq)
    logger.warning("Weight cache unusable (%s); falling back to %s%s%s", reason.value, _next.get(), tail, why)


def weak_hit(tier: Tier | None, coverage: Coverage | None, seq: int | None) -> None:
    """One warning for a hit that rests on less than `pinned`; nothing for any other."""
    if tier not in BELOW_PINNED:
        return
    covered = "no byte of the checkpoint was looked at"
    if coverage is not None and coverage.covered_bytes:
        covered = f"{coverage.covered_bytes} of {coverage.total_bytes} bytes were looked at"
    where = "-" if seq is None else seq
    logger.warning("This hit is unproven: tier=%s, %s, seq=%s; `wcache audit prove` checks it", tier.value, covered, where)


def unrecorded(what: str) -> None:
    logger.warning("A decision could not be recorded, not even in the journal: %s", what)


def kept_own(daemon_uid: int | None, path: str) -> None:
    logger.warning("Not recorded in the ledger: it is uid %s's, whose daemon was not there to write it; kept in %s", daemon_uid, path)
