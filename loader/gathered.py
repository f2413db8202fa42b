"""What gathering evidence for one attach came to."""

from __future__ import annotations

from typing import NamedTuple

from wcache.core.checkpoint.checkpoint import Checkpoint, OpenCheckpoint
from wcache.core.checkpoint.read_ahead import requests
from wcache.core.model.decide import Decision, Request
from wcache.core.model.evidence import Fingerprint
from wcache.core.wire.messages import AttachOffer


class Price(NamedTuple):
    """What a full hash would cost; `operations` counts opens, reads and stats."""

    operations: int
    read_bytes: int

    @classmethod
    def of(cls, checkpoint: Checkpoint, files: int) -> Price:
        """Of a checkpoint whose weights are `files` files, the index included."""
        reads = sum(requests(shard.size_bytes, checkpoint.location.fs_kind) for shard in checkpoint.shards)
        return cls(reads + 2 * files, checkpoint.total_bytes)


class Gathered(NamedTuple):
    """What the loader would decide, and what on. `offer` is None where there is no server to ask; `price` is set where only a full hash
    that was not allowed could decide; `note` says in one sentence what an operator can do about a miss. `held` are the open files that a
    weak hit rests on, for whoever asked to keep them: the caller closes them."""

    request: Request
    decision: Decision
    evidence: tuple[Fingerprint, ...]
    offer: AttachOffer | None = None
    checkpoint: Checkpoint | None = None
    price: Price | None = None
    note: str = ""
    held: OpenCheckpoint | None = None
