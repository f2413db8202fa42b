"""What the server holds: resident weights with their descriptors, who leases them, and who has them reserved."""

from __future__ import annotations

import builtins
import os
import time
from collections import deque
from collections.abc import Iterator

import msgspec

from wcache.core.memory import memfd
from wcache.core.model.decide import HOST, ResidencyView
from wcache.core.model.errors import MappingFailed, NotFound, UsageError
from wcache.core.model.events import Engine, Identity
from wcache.core.model.vocabulary import Kind, Lineage, ResidencyState, Tier
from wcache.core.wire.frames import close_fds
from wcache.core.wire.messages import MEMORY, LeaseStatus, SegmentManifest
from wcache.core.wire.peer import has_exited

_REMEMBERED = 32  # released ones, so that a miss can say `released`


class Lease(msgspec.Struct, kw_only=True):
    """One live attach that has, or is promised, the descriptors."""

    attach: str
    residency: str
    launch: str
    engine: Engine
    rank: int
    since_ns: int
    tier: Tier | None
    pidfd: int | None
    orphaned: bool = False  # the process that attached is gone, and somebody else has its connection

    def status(self, *, suspect: bool = False) -> LeaseStatus:
        return LeaseStatus(
            attach=self.attach,
            residency=self.residency,
            launch=self.launch,
            engine=self.engine,
            rank=self.rank,
            since_ns=self.since_ns,
            tier=self.tier,
            orphaned=self.orphaned,
            suspect=suspect,
        )

    def process_ended(self) -> bool:
        """The process that attached is gone (a zombie is), as far as the kernel can say."""
        return self.pidfd is not None and has_exited(self.pidfd)

    def describe(self) -> str:
        name = f"{self.engine.name} {self.engine.version}".strip() or "an engine"
        return f"{name} rank {self.rank} (pid {self.engine.pid}, {self.attach})"

    def close(self) -> None:
        if self.pidfd is not None:
            os.close(self.pidfd)
            self.pidfd = None


class Residency(msgspec.Struct, kw_only=True):
    """Weights in memory, or about to be. `fds`, `segments`, `inodes` and `tensor_digests` belong together, in order.

    The weights of a checkpoint in host memory have a segment for each shard. Everything else is packed: a table, then the memory that it
    describes (`core.memory.table`); then `tensor_digests` of the memory are those of the table's blocks, and those of the table are empty.
    """

    residency: str
    asked: Identity
    served: Identity
    device: str = HOST
    kind: Kind = Kind.RAW
    config: dict[str, str] = {}  # of processed weights, as are the next two
    processed_digest: str | None = None
    lineage: Lineage | None = None
    state: ResidencyState = ResidencyState.LOADING
    bytes: int = 0
    tensors: int = 0
    table_digest: str | None = None
    weights_digest: str | None = None
    known: dict[str, str] = {}
    dtypes: tuple[str, ...] = ()
    segments: tuple[SegmentManifest, ...] = ()
    fds: list[int] = []
    inodes: tuple[tuple[int, int], ...] = ()  # (device, inode) of each descriptor as it came from the worker
    tensor_digests: tuple[builtins.bytes, ...] = ()  # of each segment: 32 bytes a tensor, in file order
    pinned: bool = False  # never evicted
    flaw: str = ""  # what is on record as wrong with its memory
    loaded_ns: int | None = None
    used_mono_ns: int = 0  # on the monotonic clock: when it was last loaded, attached, or let go by an attach
    leases: dict[str, Lease] = {}
    reserved: dict[str, float] = {}  # attach -> monotonic time until which it holds

    def view(self) -> ResidencyView:
        spellings = dict.fromkeys(name for name in (self.asked.spelling, self.served.root, self.served.repo) if name)
        return ResidencyView(
            residency=self.residency,
            state=self.state,
            kind=self.kind,
            device=self.device,
            served=self.served,
            spellings=tuple(spellings),
            weights_digest=self.weights_digest,
            table_digest=self.table_digest,
            known=self.known,
            dtypes=self.dtypes,
            bytes=self.bytes,
            tensors=self.tensors,
            config=self.config,
            processed_digest=self.processed_digest,
            lineage=self.lineage,
        )

    def reserving(self) -> list[str]:
        """Attaches that were offered this residency and have not decided yet."""
        now_s = time.monotonic()
        return [attach for attach, until_s in self.reserved.items() if until_s > now_s]

    def touch(self) -> None:
        self.used_mono_ns = time.monotonic_ns()

    def used_ns(self) -> int | None:
        """When it was last used, by the wall clock as it is now."""
        return time.time_ns() - (time.monotonic_ns() - self.used_mono_ns) if self.used_mono_ns else None

    def memory_flaw(self) -> str:
        """What is wrong with its memory as far as that can be said without reading it: seals, sizes and inodes. Nothing: an empty text.

        Bytes that were hashed before they were sealed cannot differ while these hold, but for a fault of the memory itself.
        """
        for position, (segment, fd) in enumerate(zip(self.segments, self.fds, strict=True)):
            on_gpu = segment.form == MEMORY and self.device != HOST  # no seals there: only reading it tells
            try:
                if not on_gpu:
                    memfd.check_sealed(fd, segment.size_bytes, name=segment.name)
            except MappingFailed as error:
                return str(error)
            if self.inodes and self.inodes[position] != inode_of(fd):
                return f"{segment.name}: this is other memory than the one that was loaded"
        return ""

    def drop(self) -> None:
        """Let go of the memory. Engines that map it keep theirs."""
        close_fds(self.fds)
        self.fds = []


def inode_of(fd: int) -> tuple[int, int]:
    found = os.fstat(fd)
    return found.st_dev, found.st_ino


class Holdings:
    """All residencies of this server by id, those that are gone for a while too."""

    def __init__(self) -> None:
        self._all: dict[str, Residency] = {}
        self._gone: deque[str] = deque()

    def __iter__(self) -> Iterator[Residency]:
        return iter(self._all.values())

    def get(self, residency: str) -> Residency | None:
        return self._all.get(residency)

    def add(self, residency: Residency) -> None:
        self._all[residency.residency] = residency

    def forget(self, residency: Residency) -> None:
        """It never became resident."""
        residency.drop()
        self._all.pop(residency.residency, None)

    def retire(self, residency: Residency, state: ResidencyState) -> None:
        """It is released: nothing is held, but misses can name it."""
        residency.drop()
        residency.state = state
        self._gone.append(residency.residency)
        if len(self._gone) > _REMEMBERED:
            self._all.pop(self._gone.popleft(), None)

    def held(self) -> list[Residency]:
        states = (ResidencyState.LOADING, ResidencyState.RESIDENT, ResidencyState.SUSPECT, ResidencyState.RELEASING)
        return [one for one in self if one.state in states]

    def resident(self) -> list[Residency]:
        return [one for one in self if one.state in (ResidencyState.RESIDENT, ResidencyState.SUSPECT)]

    def views(self) -> tuple[ResidencyView, ...]:
        return tuple(one.view() for one in self)

    def leases(self) -> list[Lease]:
        return [lease for one in self for lease in one.leases.values()]

    def resident_bytes(self) -> int:
        return sum(one.bytes for one in self.resident())

    def held_bytes(self, device: str) -> int:
        """What whole residencies take of a device, those that are being released too."""
        states = (ResidencyState.RESIDENT, ResidencyState.SUSPECT, ResidencyState.RELEASING)
        return sum(one.bytes for one in self if one.device == device and one.state in states)

    def idle_bytes(self) -> int:
        """Resident and mapped by nobody."""
        return sum(one.bytes for one in self.resident() if not one.leases)

    def find(self, prefix: str) -> Residency:
        """By id or by a unique prefix of one. Raises NotFound or UsageError."""
        held = self.held()
        exact = [one for one in held if one.residency == prefix]
        found = exact or [one for one in held if prefix and one.residency.startswith((prefix, f"r-{prefix}"))]
        if not found:
            names = ", ".join(one.residency for one in held) or "nothing"
            raise NotFound("no such residency", where=prefix, remedy=f"the daemon holds {names}")
        if len(found) > 1:
            raise UsageError(f"means {len(found)} residencies: {', '.join(one.residency for one in found)}", where=prefix)
        return found[0]
