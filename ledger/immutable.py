"""Stores that an operator vouches for: nothing below them ever changes. Light: the daemon's server asks it, and hashes nothing itself."""

from __future__ import annotations

from collections.abc import Iterable

from wcache.core.model.evidence import Grant
from wcache.core.model.vocabulary import TrustScope


def store_granted(grants: Iterable[Grant], root: str, now_ns: int) -> bool:
    """Whether a grant in force says that nothing below its prefix ever changes, and `root` lies there."""
    return any(
        grant.scope is TrustScope.STORE
        and grant.prefix is not None
        and not grant.expired(now_ns)
        and (root == grant.prefix or root.startswith(grant.prefix.rstrip("/") + "/"))
        for grant in grants
    )
