"""Which of a loader's evidence the server lets count: what it recorded itself, what follows from that, and claims of the weaker tiers.

The same uid is inside the trust boundary: this catches mistakes and stale answers, not forgers (DESIGN, trust boundary).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from wcache.core.checkpoint.identity import pinnable
from wcache.core.model.events import Identity
from wcache.core.model.evidence import Fingerprint, Grant, Location
from wcache.core.model.policy import Policy
from wcache.core.model.vocabulary import Tier, TrustScope
from wcache.ledger.knowledge import Knowledge


class Admission:
    """For one attach. `hashed` are the content fingerprints that were taken for this very connection: an older one is no evidence of
    what the files are now."""

    def __init__(
        self,
        knowledge: Knowledge,
        *,
        attach: str,
        asked: Identity,
        policy: Policy,
        grants: Sequence[Grant],
        hashed: Collection[str],
        instance: str,
        now_ns: int,
    ) -> None:
        self._knowledge = knowledge
        self._attach = attach
        self._asked = asked
        self._policy = policy
        self._grants = {grant.grant: grant for grant in grants}
        self._hashed = hashed
        self._instance = instance
        self._now_ns = now_ns

    def admit(self, claimed: Sequence[Fingerprint]) -> tuple[list[Fingerprint], list[Fingerprint]]:
        """What counts, with the ledger's own bodies where it has them; and the part of it that the ledger has yet to learn."""
        admitted: list[Fingerprint] = []
        unknown: dict[str, Fingerprint] = {}
        for claim in claimed:
            stored = self._knowledge.fingerprint(claim.id())
            item = stored or claim
            if self._counts(item, recorded=stored is not None):
                admitted.append(item)
                if stored is None:
                    unknown[claim.id()] = claim
        return admitted, list(unknown.values())

    def _counts(self, item: Fingerprint, *, recorded: bool) -> bool:
        if item.location is not None and self._asked.root not in (None, item.location.root):
            return False  # about another place than the one that is asked for
        if item.tier is Tier.CONTENT:
            return item.id() in self._hashed
        if item.tier is Tier.PINNED:
            return self._pin_holds(item)
        if item.tier is Tier.TRUSTED:
            return not recorded and self._is_vouched(item)
        return True

    def _pin_holds(self, item: Fingerprint) -> bool:
        base = self._knowledge.fingerprint(item.reuses) if item.reuses else None
        if base is None or base.tier is not Tier.CONTENT or not base.pinnable or base.location is None or item.location is None:
            return False
        if base.weights_digest != item.weights_digest or base.table_digest != item.table_digest:
            return False
        if base.location.key() != item.location.key() or base.location.fs_kind != item.location.fs_kind:
            return False
        return self.pins_hold(item.location)

    def pins_hold(self, location: Location) -> bool:
        """Whether an unchanged file identity there means unchanged bytes."""
        return pinnable(location.fs_kind, self._policy.network_fs, self._store_granted(location.root))[0]

    def _store_granted(self, root: str) -> bool:
        for grant in self._grants.values():
            prefix = (grant.prefix or "").rstrip("/")
            if grant.scope is TrustScope.STORE and prefix and not grant.expired(self._now_ns) and f"{root}/".startswith(f"{prefix}/"):
                return True
        return False

    def _is_vouched(self, item: Fingerprint) -> bool:
        """The grant exists, the claim was made for this attach, and the content it speaks of is that of the fingerprint it reuses."""
        grant = self._grants.get(item.grant or "")
        if grant is None or item.nonce != self._attach:
            return False
        base = self._knowledge.fingerprint(item.reuses) if item.reuses else None
        if item.reuses and (base is None or base.weights_digest != item.weights_digest):
            return False
        if grant.scope is TrustScope.INSTANCE:
            first = self._knowledge.first_of_instance(self._instance, self._asked.spelling)
            return grant.instance == self._instance and first is not None and first.id() == item.reuses
        return True
