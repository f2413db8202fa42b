"""`attach()`: ask the daemon for a checkpoint's weights, decide on evidence, and hold what was granted (DESIGN §8)."""

from __future__ import annotations

import os
import secrets
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import msgspec

from wcache.core.checkpoint.content import seconds_until_listed_safely
from wcache.core.checkpoint.reader import Reader
from wcache.core.model.decide import HOST, Decision, decide
from wcache.core.model.errors import (
    DaemonUnreachable,
    LedgerError,
    MappingFailed,
    NoRoom,
    StrictMiss,
    Unsupported,
    UsageError,
    WcacheError,
)
from wcache.core.model.events import Engine, Ranks
from wcache.core.model.policy import Policy
from wcache.core.model.vocabulary import BELOW_PINNED, Kind, Mode, Outcome, Reason
from wcache.core.settings import Settings, load_settings
from wcache.core.wire.messages import Progress
from wcache.loader import log
from wcache.loader.attachment import Attachment as Attachment
from wcache.loader.attachment import settle_reports as settle_reports
from wcache.loader.device import visible_gpu, warm_up
from wcache.loader.evidence import Gathered, gather
from wcache.loader.question import Question, make_question, request_of
from wcache.loader.record import decided_event, record_miss
from wcache.loader.room import check_room
from wcache.loader.session import Session

if TYPE_CHECKING:
    from wcache.core.memory.cuda import Device

_PLACES = ("runtime_dir", "state_dir", "ledger", "daemon_uid")
SETTING_NAMES = frozenset((*_PLACES, *Policy.__struct_fields__))
"""What `attach` and everything on top of it takes as overrides."""


def attach(
    checkpoint: str | os.PathLike[str],
    *,
    revision: str | None = None,
    settings: Settings | None = None,
    device: object = HOST,
    dtype: str | None = None,
    kind: Kind | str = Kind.RAW,
    config: Mapping[str, str] | None = None,
    mode: Mode | str | None = None,
    release: bool = True,
    engine: Engine | str = "python",
    ranks: Ranks | None = None,
    launch: str | None = None,
    is_file: bool = False,
    on_progress: Callable[[Progress], None] | None = None,
    **overrides: Any,
) -> Attachment:
    """Decide one attach and record it. `hit` of the result says whether there are weights; else the caller reads the disk and tells
    the result how that went (`fell_back`, `fallback_failed`).

    `device` is `cpu`, or a GPU as torch or `nvidia-smi -L` names it; one without the weights is fed from host memory. `dtype` is a
    safetensors name ("BF16"). `mode` copy: the engine gets memory of its own, after which the daemon is asked to release the weights,
    unless `release` is false. `is_file`: `checkpoint` names one safetensors file; the whole that it is a shard of is attached.
    `overrides` are settings (`accept`, `on_miss`, `runtime_dir`, ...). Raises StrictMiss under `on_miss="strict"`, UsageError for what
    cannot be meant, never anything else.
    """
    settings = resolve_settings(settings, overrides)
    question = make_question(
        checkpoint, revision=revision, device=device, dtype=dtype, kind=kind, config=config, mode=mode, engine=engine, ranks=ranks,
        launch=launch, is_file=is_file, lock=settings.policy.lock,
    )  # fmt: skip
    session: Session | None = None
    gathered: Gathered | None = None
    gpu: Device | None = None
    warming: threading.Thread | None = None
    try:
        if sys.platform != "linux":
            raise DaemonUnreachable(Reason.UNSUPPORTED, f"wcache maps weights on Linux only, this is {sys.platform}")
        gpu = visible_gpu(question.device)
        if gpu is not None:
            question = msgspec.structs.replace(question, device=gpu.uuid)
            warming = warm_up(gpu)
        session = Session(settings.socket_path, settings.daemon_uid)
        began_ns = time.time_ns()
        behind = settings.policy.verifies_behind
        gathered = gather(session, question, settings, reader=Reader(), keep_open=behind, on_progress=on_progress)
        with gathered.held or nullcontext():
            gathered = _with_room(gathered, question, gpu, settings)
            attach_id = gathered.offer.attach if gathered.offer else ""
            answer = session.decide(attach_id, gathered.request, gathered.decision, gathered.evidence)
            _verify_behind(session, attach_id, answer.decided.decision, gathered, began_ns)
        if warming is not None:
            warming.join()
    except UsageError:
        if session is not None:
            session.close()
        raise
    except WcacheError as error:
        if session is not None:
            session.close()
        try:
            return decide_alone(question, settings, gathered, error, gpu)
        except StrictMiss as miss:
            raise miss from None  # one error in an engine's log, not each that led to it: the message has them
    except BaseException:
        if session is not None:
            session.close()
        raise
    decided = answer.decided
    attachment = Attachment(
        attach=attach_id,
        question=question,
        settings=settings,
        request=gathered.request,
        decision=decided.decision,
        evidence=gathered.evidence,
        seq=decided.seq,
        idle_bytes=decided.idle_bytes,
        session=session,
        segments=answer.segments,
        packed=answer.packed,
        gpu=gpu,
        release=release,
    )
    if answer.problem is not None:
        attachment.map_failed(answer.problem)
    elif attachment.hit and not answer.segments and answer.packed is None:
        attachment.map_failed(MappingFailed("the daemon granted a hit and sent no segment"))
    elif attachment.hit:
        tier = decided.decision.tier
        coverage = next((item.coverage for item in gathered.evidence if item.tier is tier), None)
        log.weak_hit(tier, coverage, decided.seq)
    else:
        attachment.miss(gathered.note)
    return attachment


def _verify_behind(session: Session, attach_id: str, decision: Decision, gathered: Gathered, began_ns: int) -> None:
    """Send the files that a weak hit rests on, as they were opened. A trusted hit opened none, and none is opened for this."""
    if gathered.held is None or decision.outcome is not Outcome.HIT or decision.tier not in BELOW_PINNED:
        return
    held, location = gathered.held, gathered.held.checkpoint.location
    if seconds_until_listed_safely(location, began_ns) > 0:
        location = msgspec.structs.replace(location, directory=None)  # a later attach must not rest on a listing that was made too early
    descriptors = [file.descriptor for file in (*held.files.values(), *((held.index,) if held.index else ()))]
    try:
        session.verify_behind(attach_id, location, descriptors)
    except WcacheError as error:
        log.logger.debug("the daemon was not sent the files of %s: %s", attach_id, error)


def _with_room(gathered: Gathered, question: Question, gpu: Device | None, settings: Settings) -> Gathered:
    """The decision as it is with a look at the memory for the copy: where that is short, nothing is granted in the first place.

    Of single files only their own tensors are copied; those are weighed when they are.
    """
    decision, request = gathered.decision, gathered.request
    views = gathered.offer.residencies if gathered.offer else ()
    chosen = next((view for view in views if view.residency == decision.residency), None)
    if decision.outcome is not Outcome.HIT or chosen is None or question.is_file:
        return gathered
    if request.mode is not Mode.COPY and chosen.device == request.device:
        return gathered
    try:
        check_room(chosen.bytes, gpu)
    except NoRoom as error:
        request = msgspec.structs.replace(request, obstacle=Reason.NO_ROOM, obstacle_detail=error.diagnostics())
        return gathered._replace(request=request, decision=decide((), (), request, settings.policy, time.time_ns()))
    return gathered


def resolve_settings(settings: Settings | None, overrides: Mapping[str, Any]) -> Settings:
    """Given or loaded settings with single ones replaced; None leaves one as it is. Raises UsageError for a name nobody knows."""
    unknown = sorted(set(overrides) - SETTING_NAMES)
    if unknown:
        raise UsageError(f"unknown setting {unknown[0]!r}", remedy=f"known: {', '.join((*_PLACES, *Policy.__struct_fields__))}")
    if settings is None:
        return load_settings(**overrides)
    if not overrides:
        return settings
    places = {name: getattr(settings, name) for name in _PLACES}
    policy = {name: getattr(settings.policy, name) for name in Policy.__struct_fields__}
    given = {name: value for name, value in overrides.items() if value is not None}
    return load_settings({"WCACHE_CONFIG": os.devnull}, **{**places, **policy, **given})


def decide_alone(
    question: Question, settings: Settings, gathered: Gathered | None, error: WcacheError, gpu: Device | None = None
) -> Attachment:
    """The decision where no server could make it: a miss, recorded by this process."""
    if isinstance(error, DaemonUnreachable):
        reason = Reason(error.reason)
    elif isinstance(error, LedgerError):
        reason = Reason.LEDGER_UNAVAILABLE
    elif isinstance(error, NoRoom):
        reason = Reason.NO_ROOM
    elif isinstance(error, Unsupported):
        reason = Reason.UNSUPPORTED
    else:
        reason = Reason.PROTOCOL_ERROR
    request = gathered.request if gathered else request_of(question)
    request = msgspec.structs.replace(request, obstacle=reason, obstacle_detail=str(error))
    decision = decide((), (), request, settings.policy, time.time_ns())
    attach_id = gathered.offer.attach if gathered and gathered.offer else "a-" + secrets.token_hex(8)
    seq = record_miss(decided_event(attach_id, question, request, decision, settings), settings)
    attachment = Attachment(
        attach=attach_id,
        question=question,
        settings=settings,
        request=request,
        decision=decision,
        evidence=(),
        seq=seq,
        idle_bytes=0,
        session=None,
        gpu=gpu,
    )
    attachment.miss("")
    return attachment
