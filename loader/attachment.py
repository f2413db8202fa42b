"""An attachment: one decided attach, what was granted with it, and everything that is said about it afterwards."""

from __future__ import annotations

import atexit
import os
import threading
import time
import weakref
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from typing import TYPE_CHECKING, Any

from wcache.core.checkpoint.identity import pinnable
from wcache.core.memory.views import explained_writes
from wcache.core.model.decide import Decision, Request
from wcache.core.model.errors import MappingFailed, NoRoom, StrictMiss, WcacheError
from wcache.core.model.events import (
    AttachRedecided,
    Event,
    FallbackCompleted,
    FallbackFailed,
    MapCompleted,
    MapFailed,
    MapPaused,
    MapResumed,
)
from wcache.core.model.evidence import Fingerprint, Location
from wcache.core.model.vocabulary import REASON_TEXT, Mode, Outcome, Reason, Tier
from wcache.core.settings import Settings
from wcache.loader import log
from wcache.loader.mapping import Segment, ShardMap
from wcache.loader.maps import Maps
from wcache.loader.modules import fill
from wcache.loader.packed import Packed, PackedMemory
from wcache.loader.question import Question
from wcache.loader.record import record_event
from wcache.loader.release import ask_release
from wcache.loader.session import Session, new_event_id
from wcache.loader.taken import take

if TYPE_CHECKING:
    import torch

    from wcache.core.checkpoint.header import Header
    from wcache.core.memory.cuda import Device

_reporting: weakref.WeakSet[Attachment] = weakref.WeakSet()
_alive: weakref.WeakSet[Attachment] = weakref.WeakSet()


def attachment_of(weights: torch.nn.Module | torch.Tensor) -> Attachment | None:
    """The attachment that a tensor, or any parameter of a model, is mapped from; None for memory of one's own."""
    parameters: Any = getattr(weights, "parameters", None)
    tensors: list[torch.Tensor] = list(parameters()) if parameters is not None else [weights]  # type: ignore[list-item]
    addresses = [tensor.data_ptr() for tensor in tensors if tensor.numel()]
    return next((one for one in list(_alive) if any(one.maps.holding(address) is not None for address in addresses)), None)


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
        packed: Packed | None = None,
        gpu: Device | None = None,
        release: bool = True,
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
        self.packed = packed
        self.gpu = gpu
        self.maps = Maps()
        self.handed_out: set[str] = set()  # files that were served from this attach, by name
        self._release = release
        self._session = session
        self._pid = os.getpid()
        self._reported = False
        self._over = False
        self._lock = threading.Lock()
        _alive.add(self)

    def __del__(self) -> None:
        with suppress(AttributeError):  # __init__ did not get far
            self.close()

    @property
    def hit(self) -> bool:
        return self.decision.outcome is Outcome.HIT

    @property
    def inherited(self) -> bool:
        """Whether this process is a forked child of the one that attached."""
        return self._pid != os.getpid()

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
    def copies(self) -> bool:
        """Whether the engine gets memory of its own: it asked for that, or its GPU is fed from host memory."""
        return self.request.mode is Mode.COPY or (self.gpu is not None and self.packed is None)

    @property
    def holds_weights(self) -> bool:
        """Whether what was granted can still be mapped: not once `close()` has begun. While Python calls `__del__`, which closes, weak
        references still lead here."""
        return not self._over and (bool(self.segments) or (self.packed is not None and self.packed.descriptor >= 0))

    @property
    def headers(self) -> Mapping[str, Header]:
        """The headers of the resident shards by file name; none of processed weights. Raises MappingFailed."""
        if self.packed is not None:
            return self.packed.headers()
        return {name: segment.header for name, segment in self.segments.items()}

    @property
    def weights_bytes(self) -> int:
        """Bytes of the tensors that were granted, shared ones once."""
        if self.packed is not None:
            return self.packed.data_bytes
        return sum(segment.header.data_bytes for segment in self.segments.values())

    def shard(self, name: str) -> ShardMap:
        """A new private mapping of one resident shard. Raises MappingFailed, also where the weights are packed and have no shards."""
        segment = self.segments.get(name)
        if segment is None:
            raise MappingFailed("there is no such shard among what was granted", where=name)
        self._require_mapped()
        shard = ShardMap(segment, self)
        self.maps.add_shard(shard, segment)
        return shard

    def memory(self) -> PackedMemory:
        """A new mapping of a packed residency (processed weights, or any on a GPU). Raises MappingFailed, also where it has shards."""
        if self.packed is None:
            raise MappingFailed("no packed weights were granted", where=self.question.spelling)
        self._require_mapped()
        memory = PackedMemory(self.packed, self)
        self.maps.add_memory(memory, self.packed)
        return memory

    def tensors(self) -> dict[str, torch.Tensor]:
        """Every resident tensor by name, in place where device, mode and alignment allow; the first call records `map.completed`.

        Each call maps anew: writes through an earlier call's tensors are not seen. In mode copy the first call also ends the lease, and
        asks for the release. Raises NoRoom and MappingFailed, after recording it.
        """
        self._require_mapped()
        try:
            taken = take(self)
        except WcacheError as error:
            self.map_failed(error)
            raise
        self.report_mapped(taken.ms, mode=Mode.COPY if self.copies else Mode.ZERO_COPY)
        if self.copies:
            self.copied()
        return taken.tensors

    def copied(self) -> None:
        """The engine has all it needs in memory of its own: ends the lease; in mode copy the daemon is asked to release the weights."""
        residency = self.decision.residency
        self.close()
        if self.request.mode is Mode.COPY and self._release and residency is not None and self._pid == os.getpid():
            ask_release(residency, f"{self.attach} has copied the weights (mode copy)", self.settings)

    def pause(self) -> None:
        """Gives the mapping back and keeps the lease; tensors keep their addresses, and must not be used until `resume()`.

        Raises MappingFailed where nothing is mapped, in a forked child, or where this process has written to mapped host memory. Again
        is no error.
        """
        self._require_own()
        paused_bytes = self.maps.pause()
        if paused_bytes:
            self._observe(MapPaused(attach=self.attach, bytes=paused_bytes))

    def resume(self) -> None:
        """Maps the same memory at the same addresses. Raises MappingFailed; again is no error."""
        self._require_own()
        began = time.monotonic()
        resumed_bytes = self.maps.resume()
        if resumed_bytes:
            self._observe(MapResumed(attach=self.attach, bytes=resumed_bytes, ms=(time.monotonic() - began) * 1000))

    @contextmanager
    def explained_writes(self) -> Iterator[None]:
        """While it lasts, torch's message about a kernel that wrote to weights mapped read-only (on a GPU) says that. It waits for the
        kernels inside. Raises MappingFailed; this process' CUDA context is lost then, and no other process notices."""
        mapping = next(iter(self.maps.on_gpu()), None)
        with nullcontext() if mapping is None else explained_writes(mapping):
            yield

    def require_replaceable(self) -> None:
        """Raises MappingFailed where its weights must not be replaced: in a forked child, and while the mapping is paused."""
        self._require_own("replace")
        self._require_mapped()

    def _require_own(self, verb: str = "pause") -> None:
        if self._pid != os.getpid():
            raise MappingFailed(f"a forked child cannot {verb} what its parent attached", where=self.question.spelling)

    def _require_mapped(self) -> None:
        if self.maps.paused:
            raise MappingFailed("the mapping is paused", where=self.question.spelling, remedy="resume() it first")

    def into(self, module: torch.nn.Module) -> None:
        """Put the granted processed weights into a module that was built on the meta device, by name, and record `map.completed`.

        Parameters are mapped, buffers copied; ties are kept. Raises MissingTensor for what the module needs and nobody published (also a
        parameter or persistent buffer that has memory), MappingFailed for what does not fit it, StrictMiss where that is the policy, all of
        them after recording it.
        """
        fill(module, self)

    def report_mapped(self, ms: float, *, mode: Mode = Mode.ZERO_COPY) -> None:
        """`map.completed` for everything that was granted: in place but for the misaligned tensors, or (`copy`) all copied."""
        headers = [segment.header for segment in self.segments.values()]
        entries = [entry for header in headers for entry in header.tensors]
        sizes = [entry.size_bytes for entry in entries]
        copied = [entry.size_bytes for header in headers for entry in header.misaligned()]
        if self.packed is not None:
            sizes = [0 if place.same_as else place.size_bytes for place in self.packed.table.tensors]
        if mode is Mode.COPY:
            copied = sizes
        self.mapped(
            mode, tensors=len(sizes), size_bytes=sum(sizes), copied_tensors=len(copied), copied_bytes=sum(copied), ms=ms
        )  # fmt: skip

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
        self.miss("")

    def incomplete(self, error: WcacheError) -> None:
        """Record that the weights are not those that the engine needs: a tensor is missing, or is another one. The disk has the same: the
        attach ends here, under any policy, and the caller raises `error`."""
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
        self._over = True
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
        if self.packed is not None:
            self.packed.close()

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

    def miss(self, note: str) -> None:
        """Say a fallback, or raise a strict miss."""
        reason = self.decision.reason or Reason.PROTOCOL_ERROR
        detail = "; ".join(part for part in (self.decision.detail, note) if part)
        if self.decision.outcome is Outcome.STRICT_MISS:
            self.close()
            what = f"{reason.value}: {detail or REASON_TEXT[reason]}"
            raise StrictMiss(reason, what, where=self.question.spelling, remedy=_remedy(reason), seq=self.seq)
        log.unusable(reason, detail, self.question.ranks, self.decision.tier, self.seq)


def _remedy(reason: Reason) -> str:
    if reason in (Reason.DAEMON_ABSENT, Reason.DAEMON_REFUSED):
        return "start one with `wcache daemon start`, or allow on_miss = fallback"
    if reason is Reason.NOT_RESIDENT:
        return "load it with `wcache load`, or allow on_miss = fallback"
    return "`wcache check` shows what would help; on_miss = fallback would read the disk"
