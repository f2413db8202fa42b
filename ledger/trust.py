"""Grants of trust: made and taken back through the ledger, by the operator who runs the command."""

from __future__ import annotations

import os
import secrets
from contextlib import closing
from pathlib import Path

import msgspec

from wcache.core.checkpoint.reader import Reader
from wcache.core.checkpoint.spelling import resolve_root
from wcache.core.model.errors import NotFound, UsageError
from wcache.core.model.events import Event, TrustGranted, TrustRevoked
from wcache.core.model.evidence import Grant
from wcache.core.model.policy import Policy
from wcache.core.model.vocabulary import Tier, TrustScope
from wcache.ledger.evidence import Progress, append_events, hash_content, known_content, recorded, spellings_of
from wcache.ledger.knowledge import Knowledge
from wcache.ledger.store import Ledger


class Terms(msgspec.Struct, frozen=True, kw_only=True):
    """Why, when, and until when (None: until revoked)."""

    reason: str
    granted_ns: int
    expires_ns: int | None = None


def grant_checkpoint(
    ledger: Ledger,
    spelling: str,
    terms: Terms,
    policy: Policy,
    *,
    revision: str | None = None,
    progress: Progress | None = None,
) -> tuple[Grant, int]:
    """Trust in a checkpoint as it is now: its weights digest is known from an unchanged earlier hash, else it is hashed now.

    Returns the grant and its seq. Raises what opening or hashing a checkpoint raises.
    """
    resolved = resolve_root(spelling, revision)
    events: list[Event] = []
    with closing(Knowledge(ledger)) as knowledge:
        found = known_content(knowledge, resolved, policy, Reader())
        if found is None:
            found = hash_content(spelling, policy, knowledge.grants(), revision=revision, progress=progress)
            if knowledge.fingerprint(found.id()) is None:
                events.append(recorded(found, spelling, "wcache trust grant"))
    made = _grant(
        TrustScope.CHECKPOINT,
        terms,
        spellings=spellings_of(spelling, resolved),
        weights_digest=found.weights_digest,
        fingerprint=found.id() if found.tier is Tier.CONTENT else found.reuses,
    )
    return made, append_events(ledger, *events, TrustGranted(grant=made))[-1]


def grant_residency(ledger: Ledger, residency: str, terms: Terms) -> tuple[Grant, int]:
    """Trust in resident weights, by their id or its beginning. Raises NotFound or UsageError."""
    with closing(Knowledge(ledger)) as knowledge:
        found = [item.view.residency for item in knowledge.residencies() if residency and item.view.residency.startswith(residency)]
    if not found:
        raise NotFound("no such residency", where=residency, remedy="`wcache ls` lists them")
    if len(found) > 1:
        raise UsageError(f"several residencies begin so: {', '.join(found)}", where=residency, remedy="give more of the id")
    made = _grant(TrustScope.RESIDENCY, terms, residency=found[0])
    return made, append_events(ledger, TrustGranted(grant=made))[-1]


def grant_instance(ledger: Ledger, instance: str, terms: Terms) -> tuple[Grant, int]:
    """Trust in the first fingerprint that this daemon instance takes of each checkpoint."""
    made = _grant(TrustScope.INSTANCE, terms, instance=instance)
    return made, append_events(ledger, TrustGranted(grant=made))[-1]


def grant_store(ledger: Ledger, prefix: str, terms: Terms) -> tuple[Grant, int]:
    """Trust that nothing below a directory changes. It is kept by its real path, as checkpoints are found."""
    real = os.path.realpath(os.path.expanduser(prefix))  # noqa: PTH111
    if not Path(real).is_dir():
        raise NotFound("no such directory", where=prefix)
    if real == "/":
        raise UsageError("the whole file system is no immutable store", where=prefix, remedy="name the directory of the store")
    made = _grant(TrustScope.STORE, terms, prefix=real)
    return made, append_events(ledger, TrustGranted(grant=made))[-1]


def revoke(ledger: Ledger, grant: str, reason: str) -> tuple[str, int]:
    """Takes a grant back, by its id or its beginning; returns the id and the seq. Raises NotFound, UsageError."""
    with closing(Knowledge(ledger)) as knowledge:
        active = [item.grant for item in knowledge.grants()]
        every = [item.grant for item in knowledge.grants(include_revoked=True)]
    found = [name for name in active if grant and name.startswith(grant)]
    if not found:
        known = [name for name in every if grant and name.startswith(grant)]
        what = "it was revoked already" if known else "no such grant"
        raise NotFound(what, where=grant, remedy="`wcache trust ls` lists them")
    if len(found) > 1:
        raise UsageError(f"several grants begin so: {', '.join(found)}", where=grant, remedy="give more of the id")
    return found[0], append_events(ledger, TrustRevoked(grant=found[0], operator_uid=os.geteuid(), reason=reason))[-1]


def _grant(
    scope: TrustScope,
    terms: Terms,
    *,
    spellings: tuple[str, ...] = (),
    weights_digest: str | None = None,
    fingerprint: str | None = None,
    residency: str | None = None,
    instance: str | None = None,
    prefix: str | None = None,
) -> Grant:
    return Grant(
        grant=f"g-{secrets.token_hex(8)}",
        scope=scope,
        reason=terms.reason,
        operator_uid=os.geteuid(),
        granted_ns=terms.granted_ns,
        expires_ns=terms.expires_ns,
        spellings=spellings,
        weights_digest=weights_digest,
        fingerprint=fingerprint,
        residency=residency,
        instance=instance,
        prefix=prefix,
    )
