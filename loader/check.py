"""`check()`: what an attach would decide now, and what it would cost, without an attach: nothing is decided, mapped or recorded."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from typing import Any

import msgspec

from wcache.core.checkpoint.reader import Reader
from wcache.core.model.decide import decide
from wcache.core.model.errors import DaemonUnreachable, Unsupported
from wcache.core.model.vocabulary import Outcome, Reason, Tier
from wcache.core.settings import Settings
from wcache.core.wire.messages import Progress
from wcache.loader.attach import resolve_settings
from wcache.loader.device import visible_gpu
from wcache.loader.evidence import Gathered, gather
from wcache.loader.question import make_question, request_of
from wcache.loader.session import Session


class CheckCost(msgspec.Struct, frozen=True, kw_only=True):
    """What the check took, and what a full hash on top of it would take (None where none is needed). `operations` counts opens, reads,
    stats and listings of checkpoint files."""

    operations: int
    read_bytes: int
    seconds: float
    would_operations: int | None = None
    would_read_bytes: int | None = None


class CheckResult(msgspec.Struct, frozen=True, kw_only=True):
    """The decision that an attach with these settings would get now. `detail` says why in words, and what would change it."""

    decision: Outcome
    reason: Reason | None
    tier: Tier | None
    asked_digest: str | None
    served_digest: str | None
    residency: str | None
    cost: CheckCost
    detail: str


def check(
    checkpoint: str | os.PathLike[str],
    settings: Settings | None = None,
    *,
    revision: str | None = None,
    device: str = "cpu",
    dtype: str | None = None,
    read: bool = False,
    on_progress: Callable[[Progress], None] | None = None,
    **overrides: Any,
) -> CheckResult:
    """Gathers evidence as `attach` does. Where only a full hash could decide, it is paid for with `read` alone; else the result is
    `evidence_insufficient` with its price. Raises UsageError."""
    settings = resolve_settings(settings, overrides)
    question = make_question(checkpoint, revision=revision, device=device, dtype=dtype, engine="wcache check", lock=settings.policy.lock)
    reader = Reader()
    began = time.monotonic()
    session: Session | None = None
    try:
        if sys.platform != "linux":
            raise DaemonUnreachable(Reason.UNSUPPORTED, f"wcache maps weights on Linux only, this is {sys.platform}")
        gpu = visible_gpu(question.device)
        if gpu is not None:
            question = msgspec.structs.replace(question, device=gpu.uuid)
        session = Session(settings.socket_path, settings.daemon_uid)
        gathered = gather(session, question, settings, reader=reader, may_hash=read, on_progress=on_progress)
    except (DaemonUnreachable, Unsupported) as error:
        reason = Reason.UNSUPPORTED if isinstance(error, Unsupported) else Reason(error.reason)
        request = msgspec.structs.replace(request_of(question), obstacle=reason, obstacle_detail=error.diagnostics())
        gathered = Gathered(request, decide((), (), request, settings.policy, time.time_ns()), ())
    finally:
        if session is not None:
            session.close()
    cost = reader.cost
    decision, price = gathered.decision, gathered.price
    served = None
    if gathered.offer is not None:
        served = next((one.weights_digest for one in gathered.offer.residencies if one.residency == decision.residency), None)
    return CheckResult(
        decision=decision.outcome,
        reason=decision.reason,
        tier=decision.tier,
        asked_digest=gathered.request.asked.digest
        or next((item.weights_digest for item in gathered.evidence if item.weights_digest), None),
        served_digest=served,
        residency=decision.residency,
        cost=CheckCost(
            operations=cost.files_opened + cost.reads + cost.stats + cost.lists,
            read_bytes=cost.read_bytes,
            seconds=time.monotonic() - began,
            would_operations=price.operations if price else None,
            would_read_bytes=price.read_bytes if price else None,
        ),
        detail="; ".join(part for part in (decision.detail, gathered.note) if part),
    )
