"""What a daemon says of itself: the reply to StatusRequest."""

from __future__ import annotations

import msgspec

from wcache.core.model.decide import ResidencyView
from wcache.core.model.events import Engine
from wcache.core.model.vocabulary import Tier
from wcache.core.wire.message import Message


class ResidencyStatus(msgspec.Struct, frozen=True, kw_only=True):
    """`used_ns`: when it was last loaded, attached, or let go. `evictable`: it may be given back when a load needs room."""

    view: ResidencyView
    leases: int
    loaded_ns: int | None
    used_ns: int | None = None
    pinned: bool = False
    evictable: bool = False
    flaw: str = ""
    phase: str | None = None
    done_bytes: int = 0
    total_bytes: int = 0


class LeaseStatus(msgspec.Struct, frozen=True, kw_only=True):
    """`orphaned`: the process that attached is gone, and a child of it still holds the connection, hence maps the weights.
    `suspect`: what it maps failed its own digests."""

    attach: str
    residency: str
    launch: str
    engine: Engine
    rank: int
    since_ns: int
    tier: Tier | None
    orphaned: bool = False
    suspect: bool = False


class Status(Message, frozen=True, kw_only=True, tag=True):
    """`budget_bytes` is what may still be loaded now and `budget_by` which limit says so. `ledger_failure` says why the ledger takes
    nothing at present; `warnings` are lines for an operator."""

    version: str
    instance: str
    server_pid: int
    state: str
    started_ns: int
    runtime_dir: str
    ledger: str
    ledger_seq: int | None
    resident_bytes: int
    budget_bytes: int
    budget_by: str
    memory_bytes: int
    residencies: tuple[ResidencyStatus, ...]
    leases: tuple[LeaseStatus, ...]
    journalled: int = 0
    vault_pid: int = 0
    ledger_failure: str = ""
    warnings: tuple[str, ...] = ()
    health_port: int | None = None
