"""The operator's policy: which evidence is enough, and what happens on a miss. Stored once by digest; every decision names it."""

from __future__ import annotations

import hashlib
from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, UnsetType

from wcache.core.model.vocabulary import OptIn, Tier


class Policy(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a loader asks of a hit.

    accept             the weakest tier of the scale that is enough for a hit
    attested, trusted  whether evidence beside the scale counts at all
    on_miss            `fallback` reads the disk and says so, `strict` refuses to start
    on_ledger_failure  `no_hit`: no durable record, no weights. `serve`: a hit goes on from a size-capped journal
    max_read_bytes     the most a check may read before it gives up (None: no limit)
    wait_s             how long to wait for a load that makes progress
    network_fs         `refuse`: pins never hold on network file systems; `coherent`: they hold on the kinds that promise close-to-open
    verify_behind      `on`: the daemon hashes what a hit below `pinned` was asked for, in the background. Unset is `on`, and is left out
                       of what is stored: policies of ledgers that were written before there was such a thing keep their digest
    lock               path of a `wcache.lock`: no other weights than those that it names are ever mapped. Unset: any
    """

    accept: Literal["header", "sampled", "pinned", "content"] = "pinned"
    attested: OptIn = OptIn.IGNORE
    trusted: OptIn = OptIn.IGNORE
    on_miss: Literal["fallback", "strict"] = "fallback"
    on_ledger_failure: Literal["no_hit", "serve"] = "no_hit"
    max_read_bytes: Annotated[int, msgspec.Meta(ge=0)] | None = None
    wait_s: Annotated[float, msgspec.Meta(ge=0)] = 300.0
    network_fs: Literal["refuse", "coherent"] = "refuse"
    verify_behind: Literal["on", "off"] | UnsetType = UNSET
    lock: str | UnsetType = UNSET

    @property
    def accept_tier(self) -> Tier:
        return Tier(self.accept)

    @property
    def verifies_behind(self) -> bool:
        return self.verify_behind != "off"

    def for_another_user(self) -> Policy:
        """What of this policy a shared daemon lets hold for a loader of another uid: what it cannot check by itself never
        counts, and nothing is handed out without a durable record."""
        accept: Literal["pinned", "content"] = "content" if self.accept == "content" else "pinned"
        return msgspec.structs.replace(self, accept=accept, attested=OptIn.IGNORE, trusted=OptIn.IGNORE, on_ledger_failure="no_hit")

    def digest(self) -> str:
        """SHA-256 of the policy's canonical JSON (RFC 8259, keys in name order), first 32 hex digits."""
        return hashlib.sha256(msgspec.json.encode(self, order="deterministic")).hexdigest()[:32]
