"""`attach()`: ask the daemon for a checkpoint's weights, decide on evidence, and hold what was granted (DESIGN §8)."""

from __future__ import annotations

import atexit
import os
import secrets
import sys
import threading
import time
import weakref
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import msgspec

from wcache.core.checkpoint.identity import pinnable
from wcache.core.checkpoint.reader import Reader
from wcache.core.model.decide import Decision, Request, decide
from wcache.core.model.errors import (
    DaemonUnreachable,
    LedgerError,
    MappingFailed,
    MissingTensor,
    NoRoom,
    StrictMiss,
    UsageError,
    WcacheError,
)
from wcache.core.model.events import (
    AttachRedecided,
    Engine,
    Event,
    FallbackCompleted,
    FallbackFailed,
    MapCompleted,
    MapFailed,
    Ranks,
)
from wcache.core.model.evidence import Fingerprint, Location
from wcache.core.model.policy import Policy
from wcache.core.model.vocabulary import REASON_TEXT, Kind, Mode, Outcome, Reason, Tier
from wcache.core.settings import Settings, load_settings
from wcache.core.wire.messages import Progress
from wcache.loader import log
from wcache.loader.evidence import Gathered, gather
from wcache.loader.mapping import Segment, ShardMap
from wcache.loader.question import Question, make_question, request_of
from wcache.loader.record import decided_event, record_event, record_miss
from wcache.loader.session import Session, new_event_id

if TYPE_CHECKING:
    import torch

_PLACES = ("runtime_dir", "state_dir", "ledger", "daemon_uid")
SETTING_NAMES = frozenset((*_PLACES, *Policy.__struct_fields__))
"""What `attach` and everything on top of it takes as overrides."""


_reporting: weakref.WeakSet[Attachment] = weakref.WeakSet()


def settle_reports() -> None:
    """Wait until everything that attaches of this process reported is on record. Runs at the process's end by itself."""
    for attachment in list(_reporting):
        attachment.settle()


atexit.register(settle_reports)


class Attachment:
    """One decided attach. On a hit it holds the segments and, through its connection, the lease; every mapping keeps it alive, so the
    lease ends when the last tensor is gone (or with `close()`, which leaves mapped memory as it is).

    A forked child may read and map; it says nothing to the daemon, since its words would be taken for its parent's.
    """

    def __init__(
        self,
        *,
        attach: str,
        question: Question,
        settings: Settings,
        request: Request,
        decision: Decision,
        evidence: tuple[Fingerprint, ...],
        seq: int | None,
        idle_bytes: int,
        session: Session | None,
        segments: tuple[Segment, ...] = (),
    ) -> None:
        self.attach = attach
        self.question = question
        self.settings = settings
        self.request = request
        self.decision = decision
        self.evidence = evidence
        self.seq = seq
        self.idle_bytes = idle_bytes
        self.segments: Mapping[str, Segment] = {segment.name: segment for segment in segments}
        self.handed_out: set[str] = set()  # files that were served from this attach, by name
        self._session = session
        self._pid = os.getpid()
        self._reported = False
        self._lock = threading.Lock()

    def __del__(self) -> None:
        with suppress(AttributeError):  # __init__ did not get far
            self.close()

    @property
    def hit(self) -> bool:
        return self.decision.outcome is Outcome.HIT

    @property
    def location(self) -> Location | None:
        """Where the asked checkpoint lay when it was decided; None for a trusted hit, which looked at nothing."""
        if self.decision.tier is Tier.TRUSTED:
            return None
        return next((item.location for item in reversed(self.evidence) if item.location is not None), None)

    @property
    def stays_true(self) -> bool:
        """Whether an unchanged file identity means that what was decided still holds: not on file systems that hide stores, and not for
        files that were still fresh when they were hashed."""
        location = self.location
        if location is None or not pinnable(location.fs_kind, self.settings.policy.network_fs)[0]:
            return False
        return all(item.pinnable for item in self.evidence if item.tier in (Tier.PINNED, Tier.CONTENT))

    @property
    def same_files(self) -> bool:
        """Whether the resident shards are, file by file, those of the asked checkpoint."""
        served = self.decision.served
        return served is not None and served.key is not None and served.key == self.request.asked.key

    @property
    def weights_bytes(self) -> int:
        return sum(segment.header.data_bytes for segment in self.segments.values())

    def shard(self, name: str) -> ShardMap:
        """A new private mapping of one resident shard. Raises MappingFailed."""
        return ShardMap(self.segments[name], self)

    def tensors(self) -> dict[str, torch.Tensor]:
        """Every resident tensor by name, in place where its alignment allows; the first call records `map.completed`.

        Each call maps anew: writes through an earlier call's tensors are not seen. Raises MappingFailed, after recording it.
        """
        began = time.monotonic()
        try:
            shards = [self.shard(name) for name in self.segments]
            found = {name: shard.tensor(name) for shard in shards for name in shard.entries}
        except WcacheError as error:
            self.map_failed(error)
            raise
        self.report_mapped((time.monotonic() - began) * 1000)
        return found

    def report_mapped(self, ms: float, *, mode: Mode = Mode.ZERO_COPY) -> None:
        """`map.completed` for everything that was granted: in place but for the misaligned tensors, or (`copy`) all copied."""
        headers = [segment.header for segment in self.segments.values()]
        entries = [entry for header in headers for entry in header.tensors]
        copied = entries if mode is Mode.COPY else [entry for header in headers for entry in header.misaligned()]
        self.mapped(
            mode,
            tensors=len(entries),
            size_bytes=sum(entry.size_bytes for entry in entries),
            copied_tensors=len(copied),
            copied_bytes=sum(entry.size_bytes for entry in copied),
            ms=ms,
        )

    def mapped(self, mode: Mode, *, tensors: int, size_bytes: int, copied_tensors: int, copied_bytes: int, ms: float) -> None:
        """Record `map.completed` and say the contract's line; once an attach, later calls do nothing."""
        if self._pid != os.getpid():
            return
        with self._lock:
            if self._reported:
                return
            self._reported = True
        self._observe(
            MapCompleted(
                attach=self.attach,
                mode=mode,
                tensors=tensors,
                bytes=size_bytes,
                copied_tensors=copied_tensors,
                copied_bytes=copied_bytes,
                ms=ms,
            ),
            wait=False,
        )
        log.mapped(tensors, mode, self.question.ranks, self.decision.tier, self.seq)

    def map_failed(self, error: WcacheError) -> None:
        """Record that the grant came to nothing and decide again: afterwards this is a fallback. Raises StrictMiss where that is the
        policy."""
        strict = self.settings.policy.on_miss == "strict"
        outcome = Outcome.STRICT_MISS if strict else Outcome.FALLBACK
        reason = Reason.NO_ROOM if isinstance(error, NoRoom) else Reason.MAPPING_FAILED
        self._observe(MapFailed(attach=self.attach, code=error.code, message=str(error)))
        self._observe(AttachRedecided(attach=self.attach, outcome=outcome, reason=reason, detail=str(error)))
        self.decision = Decision(outcome=outcome, reason=reason, detail=str(error))
        self._drop_segments()
        self._miss("")

    def incomplete(self, error: MissingTensor) -> None:
        """Record that the weights lack a tensor that the engine needs. The disk has no more of them: the attach ends here, under any
        policy, and the caller raises `error`."""
        with suppress(StrictMiss):
            self.map_failed(error)
            self.fallback_failed(error)
        self.close()

    def fell_back(self, read_bytes: int, seconds: float) -> None:
        """Record that the weights came from disk, and let the connection go."""
        self._observe(FallbackCompleted(attach=self.attach, bytes=read_bytes, seconds=seconds, idle_bytes=self.idle_bytes))
        self.close()

    def fallback_failed(self, error: BaseException) -> None:
        """Record that not even the disk had them, and let the connection go."""
        code = error.code if isinstance(error, WcacheError) else type(error).__name__
        self._observe(FallbackFailed(attach=self.attach, code=code, message=str(error), idle_bytes=self.idle_bytes))
        self.close()

    def close(self) -> None:
        """End the lease. What is mapped stays mapped. In a forked child only its copy of the connection is closed."""
        self.settle()
        if self._session is not None:
            self._session.close()
        self._drop_segments()

    def settle(self) -> None:
        """Make sure that what was reported without waiting is on record: by the daemon, or where that broke off by this process."""
        if self._session is None or self._pid != os.getpid():
            return
        with self._lock:
            _reporting.discard(self)
            lost = self._session.settle()
        for event, event_id in lost:
            record_event(event, event_id, self.settings)

    def _drop_segments(self) -> None:
        for segment in self.segments.values():
            segment.close()
        self.segments = {}

    def _observe(self, event: Event, *, wait: bool = True) -> None:
        """Report to the daemon, or record it here. Without `wait` the reply is read later: the engine needs its tensors, not that."""
        if self._pid != os.getpid():
            return
        event_id = new_event_id()
        unrecorded = [(event, event_id)]
        if self._session is not None and self._session.usable:
            with self._lock:  # threads may load shards of one checkpoint at the same time
                earlier = self._session.settle()
                try:
                    if wait:
                        self._session.observe(event, event_id)
                    else:
                        self._session.tell(event, event_id)
                        _reporting.add(self)
                    unrecorded = earlier
                except WcacheError as error:
                    log.logger.debug("the daemon did not take %s: %s", event.type, error)
                    unrecorded = earlier + unrecorded
        for item, item_id in unrecorded:
            record_event(item, item_id, self.settings)

    def _miss(self, note: str) -> None:
        """Say a fallback, or raise a strict miss."""
        reason = self.decision.reason or Reason.PROTOCOL_ERROR
        detail = "; ".join(part for part in (self.decision.detail, note) if part)
        if self.decision.outcome is Outcome.STRICT_MISS:
            self.close()
            what = f"{reason.value}: {detail or REASON_TEXT[reason]}"
            raise StrictMiss(reason, what, where=self.question.spelling, remedy=_remedy(reason), seq=self.seq)
        log.unusable(reason, detail, self.question.ranks, self.decision.tier, self.seq)


def attach(
    checkpoint: str | os.PathLike[str],
    *,
    revision: str | None = None,
    settings: Settings | None = None,
    device: str = "cpu",
    dtype: str | None = None,
    kind: Kind | str = Kind.RAW,
    config: Mapping[str, str] | None = None,
    engine: Engine | str = "python",
    ranks: Ranks | None = None,
    launch: str | None = None,
    is_file: bool = False,
    on_progress: Callable[[Progress], None] | None = None,
    **overrides: Any,
) -> Attachment:
    """Decide one attach and record it. `hit` of the result says whether there are weights; else the caller reads the disk and tells
    the result how that went (`fell_back`, `fallback_failed`).

    `dtype` is a safetensors name ("BF16"). `is_file`: `checkpoint` names one safetensors file; the whole that it is a shard of is
    attached. `overrides` are settings (`accept`, `on_miss`, `runtime_dir`, ...). Raises StrictMiss under `on_miss="strict"`, UsageError
    for settings that cannot be meant, never anything else.
    """
    settings = resolve_settings(settings, overrides)
    question = make_question(
        checkpoint, revision=revision, device=device, dtype=dtype, kind=kind, config=config, engine=engine, ranks=ranks, launch=launch,
        is_file=is_file,
    )  # fmt: skip
    session: Session | None = None
    gathered: Gathered | None = None
    try:
        if sys.platform != "linux":
            raise DaemonUnreachable(Reason.UNSUPPORTED, f"wcache maps weights on Linux only, this is {sys.platform}")
        session = Session(settings.socket_path, settings.daemon_uid)
        gathered = gather(session, question, settings, reader=Reader(), on_progress=on_progress)
        attach_id = gathered.offer.attach if gathered.offer else ""
        answer = session.decide(attach_id, gathered.request, gathered.decision, gathered.evidence)
    except UsageError:
        if session is not None:
            session.close()
        raise
    except WcacheError as error:
        if session is not None:
            session.close()
        return decide_alone(question, settings, gathered, error)
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
    )
    if answer.problem is not None:
        attachment.map_failed(answer.problem)
    elif attachment.hit and not answer.segments:
        attachment.map_failed(MappingFailed("the daemon granted a hit and sent no segment"))
    elif attachment.hit:
        tier = decided.decision.tier
        coverage = next((item.coverage for item in gathered.evidence if item.tier is tier), None)
        log.weak_hit(tier, coverage, decided.seq)
    else:
        attachment._miss(gathered.note)
    return attachment


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


def decide_alone(question: Question, settings: Settings, gathered: Gathered | None, error: WcacheError) -> Attachment:
    """The decision where no server could make it: a miss, recorded by this process."""
    if isinstance(error, DaemonUnreachable):
        reason = Reason(error.reason)
    elif isinstance(error, LedgerError):
        reason = Reason.LEDGER_UNAVAILABLE
    elif isinstance(error, NoRoom):
        reason = Reason.NO_ROOM
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
    )
    attachment._miss("")
    return attachment


def _remedy(reason: Reason) -> str:
    if reason in (Reason.DAEMON_ABSENT, Reason.DAEMON_REFUSED):
        return "start one with `wcache daemon start`, or allow on_miss = fallback"
    if reason is Reason.NOT_RESIDENT:
        return "load it with `wcache load`, or allow on_miss = fallback"
    return "`wcache check` shows what would help; on_miss = fallback would read the disk"
