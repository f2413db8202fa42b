"""Evidence taken by hand, on top of what the ledger knows: for `wcache fingerprint`, for grants, and for proofs."""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Callable, Iterable
from contextlib import closing
from typing import TYPE_CHECKING

import msgspec

from wcache.core.checkpoint.checkpoint import OpenCheckpoint, current_location, hold_checkpoint, open_checkpoint, recheck_paths
from wcache.core.checkpoint.fingerprint import (
    attested_fingerprint,
    content_fingerprint,
    header_fingerprint,
    pinned_fingerprint,
    sampled_fingerprint,
)
from wcache.core.checkpoint.reader import Reader
from wcache.core.checkpoint.retries import Retries
from wcache.core.checkpoint.seed import load_or_create_seed
from wcache.core.checkpoint.spelling import ResolvedRoot, absolute_spelling, resolve_root
from wcache.core.model.errors import EvidenceUnavailable, NotFound, WcacheError
from wcache.core.model.events import Event, FingerprintRecorded
from wcache.core.model.evidence import Coverage, Fingerprint, Grant
from wcache.core.model.policy import Policy
from wcache.core.model.vocabulary import Tier, TrustScope
from wcache.ledger.immutable import store_granted as store_granted
from wcache.ledger.knowledge import Knowledge
from wcache.ledger.store import Ledger, NewEvent

if TYPE_CHECKING:
    from wcache.core.settings import Settings

Progress = Callable[[int, int], None]
"""(bytes done, bytes in all)"""

TRUSTED_ALGORITHM = "wcache-grant-1"
FRESH_WAIT_MAX_S = 3.0  # longer needs a file from the future: no wait would help
_KNOWN_TRIED = 4  # places are hashed again and again over the years: only the newest can still be unchanged


def spellings_of(typed: str, resolved: ResolvedRoot) -> tuple[str, ...]:
    """As typed, absolute, and after every symlink, without repetition. A relative path is kept as an absolute one only: as typed it would
    mean another checkpoint in another working directory."""
    real = os.path.join(resolved.root, resolved.single_file) if resolved.single_file else resolved.root  # noqa: PTH118
    absolute = absolute_spelling(typed)
    names = [typed] if typed == absolute or typed.startswith("~") else []
    if absolute.startswith("/"):
        names += [absolute, os.path.abspath(absolute)]  # noqa: PTH100
    return tuple(dict.fromkeys([*names, real]))


def known_content(knowledge: Knowledge, resolved: ResolvedRoot, policy: Policy, reader: Reader) -> Fingerprint | None:
    """A `pinned` fingerprint: the content at this place was hashed earlier and no file identity has changed since. Opens nothing."""
    since, now_ns = reader.mark(), time.time_ns()
    granted = store_granted(knowledge.grants(), resolved.root, now_ns)
    tried = 0
    for earlier in knowledge.fingerprints_at(root=resolved.root):
        where = earlier.location
        if where is None or not earlier.pinnable or (where.directory is None) != (resolved.single_file is not None):
            continue
        if resolved.single_file is not None and where.files[0].name != resolved.single_file:
            continue
        now = current_location(where, reader=reader)
        if now is not None:
            network_fs = policy.network_fs
            pinned = pinned_fingerprint(earlier, now, reader=reader, network_fs=network_fs, store_granted=granted, since=since)
            if pinned is not None:
                return pinned
        tried += 1
        if tried == _KNOWN_TRIED:
            break
    return None


def hash_content(
    spelling: str, policy: Policy, grants: Iterable[Grant], *, revision: str | None = None, progress: Progress | None = None
) -> Fingerprint:
    """A `content` fingerprint: opens, checks and reads everything now. What a file system fails for a moment is tried again."""
    reader = Reader(Retries())
    with hold_checkpoint(spelling, revision=revision, reader=reader) as held:
        return hash_held(held, reader, policy, grants, progress=progress)


def hash_held(
    held: OpenCheckpoint, reader: Reader, policy: Policy, grants: Iterable[Grant], *, progress: Progress | None = None
) -> Fingerprint:
    """As `hash_content`, of a checkpoint that is open through `reader`. Waits for fresh files to age (2 s), so that they can be
    pinned."""
    done = 0
    total = held.checkpoint.total_bytes

    def advance(read_bytes: int) -> None:
        nonlocal done
        done += read_bytes
        if progress is not None:
            progress(done, total)

    found = content_fingerprint(
        held,
        reader,
        progress=advance,
        wait_fresh=lambda wait_s: time.sleep(wait_s if wait_s <= FRESH_WAIT_MAX_S else 0),
        network_fs=policy.network_fs,
        store_granted=store_granted(grants, held.checkpoint.location.root, time.time_ns()),
    )
    if found.location is not None:
        recheck_paths(msgspec.structs.replace(held.checkpoint, location=found.location), reader=reader)
    return found


def take_fingerprint(
    settings: Settings, spelling: str, tier: Tier, *, revision: str | None = None, progress: Progress | None = None
) -> Fingerprint:
    """Evidence of one tier about a checkpoint. `pinned` and `trusted` need a ledger that knows something.

    Raises EvidenceUnavailable with the reason where this tier cannot be had, and what opening a checkpoint raises.
    """
    reader = Reader()
    if tier is Tier.TRUSTED:
        with closing(Knowledge(settings.ledger)) as knowledge:
            return _trusted(knowledge, spelling)
    if tier is Tier.PINNED:
        resolved = resolve_root(spelling, revision)
        with closing(Knowledge(settings.ledger)) as knowledge:
            found = known_content(knowledge, resolved, settings.policy, reader)
        if found is None:
            raise EvidenceUnavailable(
                "no content that was hashed here earlier is still unchanged",
                where=resolved.root,
                remedy=f"`wcache fingerprint {spelling} --tier content` hashes it now",
            )
        return found
    if tier is Tier.CONTENT:
        return hash_content(spelling, settings.policy, _grants_if_any(settings), revision=revision, progress=progress)
    since = reader.mark()
    checkpoint = open_checkpoint(spelling, revision=revision, reader=reader)
    if tier is Tier.HEADER:
        return header_fingerprint(checkpoint, reader, since=since)
    if tier is Tier.SAMPLED:
        return sampled_fingerprint(checkpoint, load_or_create_seed(settings.state_dir), reader, since=since)
    return attested_fingerprint(checkpoint, reader, since=since)


def _grants_if_any(settings: Settings) -> tuple[Grant, ...]:
    try:
        with closing(Knowledge(settings.ledger)) as knowledge:
            return knowledge.grants()
    except NotFound:
        return ()


def _trusted(knowledge: Knowledge, spelling: str) -> Fingerprint:
    now_ns = time.time_ns()
    spelling = absolute_spelling(spelling)
    expired = None
    resident = {item.view.residency: item.view for item in knowledge.residencies()}
    for grant in reversed(knowledge.grants()):
        digest = grant.weights_digest
        if grant.scope is TrustScope.RESIDENCY:
            view = resident.get(grant.residency or "")
            digest = view.weights_digest if view is not None and spelling in view.spellings else None
        elif grant.scope is not TrustScope.CHECKPOINT or spelling not in grant.spellings:
            continue
        if digest is None:
            continue
        if grant.expired(now_ns):
            expired = grant
            continue
        return Fingerprint(
            tier=Tier.TRUSTED,
            algorithm=TRUSTED_ALGORITHM,
            digest=digest,
            coverage=Coverage(0, 0),
            weights_digest=digest,
            reuses=grant.fingerprint,
            grant=grant.grant,
            age_s=(now_ns - grant.granted_ns) / 1e9,
            nonce=secrets.token_hex(8),
        )
    if expired is not None:
        raise EvidenceUnavailable(f"grant {expired.grant} has expired", where=spelling, remedy="grant it anew: `wcache trust grant`")
    raise EvidenceUnavailable(
        "no grant names it in exactly this spelling",
        where=spelling,
        remedy="`wcache trust ls` shows grants; `wcache trust grant` makes one",
    )


def recorded(fingerprint: Fingerprint, spelling: str, by: str) -> FingerprintRecorded:
    return FingerprintRecorded.of(fingerprint, spelling, by=by, uid=os.geteuid())


def append_events(ledger: Ledger, *events: Event) -> list[int]:
    """Together or not at all; their seqs. Raises what refused them."""
    result = ledger.append_batch([tuple(NewEvent(event=event) for event in events)])[0]
    if isinstance(result, WcacheError):
        raise result
    return result


def record_fingerprint(ledger: Ledger, fingerprint: Fingerprint, spelling: str, *, by: str) -> int | None:
    """Its seq; None where an equal one is recorded already."""
    with closing(Knowledge(ledger)) as knowledge:
        if knowledge.fingerprint(fingerprint.id()) is not None:
            return None
    return append_events(ledger, recorded(fingerprint, spelling, by))[0]
