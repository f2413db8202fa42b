"""What operators vouch for, as a loader reads it from the offer: no file is touched."""

from __future__ import annotations

from collections.abc import Iterable

from wcache.core.model.evidence import Coverage, Fingerprint, Grant
from wcache.core.model.vocabulary import Tier, TrustScope
from wcache.core.wire.messages import AttachOffer


def vouched(grant: Grant, spelling: str, offer: AttachOffer, instance: str, now_ns: int) -> Fingerprint | None:
    """Trusted evidence by one grant, of the weights that it names; None where it says nothing about this spelling."""
    digest, reuses = grant.weights_digest, grant.fingerprint
    if grant.scope is TrustScope.CHECKPOINT:
        if spelling not in grant.spellings:
            return None
    elif grant.scope is TrustScope.RESIDENCY:
        one = next((one for one in offer.residencies if one.residency == grant.residency and spelling in one.spellings), None)
        digest = one.weights_digest if one else None
    elif grant.scope is TrustScope.INSTANCE:
        first = offer.first
        if first is None or grant.instance not in (None, instance):
            return None
        digest, reuses = first.weights_digest, first.id()
    else:
        return None
    if digest is None:
        return None
    return Fingerprint(
        tier=Tier.TRUSTED,
        algorithm="wcache-grant-1",
        digest=digest,
        weights_digest=digest,
        coverage=Coverage(covered_bytes=0, total_bytes=0),
        grant=grant.grant,
        reuses=reuses,
        age_s=(now_ns - grant.granted_ns) / 1e9,
        nonce=offer.attach,
    )


def store_granted(grants: Iterable[Grant], root: str, now_ns: int) -> bool:
    """Whether a grant in force says that nothing below its prefix ever changes, and `root` lies there."""
    return any(
        grant.scope is TrustScope.STORE
        and (grant.prefix or "").strip("/") != ""
        and not grant.expired(now_ns)
        and f"{root}/".startswith(f"{(grant.prefix or '').rstrip('/')}/")
        for grant in grants
    )
