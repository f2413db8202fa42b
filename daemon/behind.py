"""Looking at weak hits at once, in the background (policy `verify_behind`): what was asked for is hashed through the descriptors that the
loader sent, by a worker that takes only what others leave, one at a time. No engine waits for it and none is told; the ledger is.

A server that ends before it is done leaves the hits `unproven`: the ledger says so, and `wcache audit prove` goes on.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

from wcache.core.model.errors import LedgerUnavailable, WcacheError
from wcache.core.model.events import AttachDecided, Event, FingerprintRecorded
from wcache.core.model.evidence import Fingerprint, Grant
from wcache.core.model.vocabulary import BELOW_PINNED, Proof
from wcache.core.model.vocabulary import Outcome as Decided
from wcache.core.wire.frames import close_fds
from wcache.core.wire.messages import Failure, VerifyBehind
from wcache.daemon import orders
from wcache.daemon.jobs import Job, retries_told
from wcache.daemon.recorder import Outcome, new_event
from wcache.ledger.proof import Hit, Unprovable, Verdict, hit_from, inconclusive, judge, others_of

if TYPE_CHECKING:
    from wcache.daemon.connection import Connection
    from wcache.daemon.server import Server

log = logging.getLogger("wcache")

FILES_MAX = 8192  # that wait open, of all contents together: enough for a hundred large checkpoints
_CHANGED = ("checkpoint_changed", "checkpoint_invalid", "checkpoint_unreadable")


class Behind:
    """One content that hits rest on: waiting, being read, or waiting for a hash of the same files that an attach asked for. `fds` are
    owned until the worker has them."""

    def __init__(self, request: VerifyBehind, spelling: str, fds: list[int], uid: int) -> None:
        self.location = request.location
        self.spelling = spelling
        self.key = request.location.key()
        self.fds = fds
        self.uid = uid
        self.hits: list[Hit] = []
        self.job: Job | None = None
        self.phase = orders.Phase("wait", 0, sum(one.size_bytes for one in request.location.files))
        self.began_s = time.monotonic()


def take_behind(server: Server, connection: Connection, request: VerifyBehind, fds: tuple[int, ...]) -> None:
    """The descriptors arrive, in as many messages as it takes. Nothing is ever replied, and what cannot be meant is left alone."""
    connection.parts.extend(fds)
    if request.more and len(connection.parts) < len(request.location.files) + 1:
        connection.proceed()
        return
    parts, connection.parts = connection.parts, []
    attach = connection.attach
    event, decided_ns = (attach.event, attach.decided_ns) if attach is not None else (None, 0)
    expected = len(request.location.files) + (request.location.index is not None)
    due = event is not None and event.attach == request.attach and not request.more and len(parts) == expected and _wants(event)
    if not due or event is None:
        close_fds(parts)
        log.debug("nothing to verify behind %s", request.attach)
    else:
        _admit(server, request, event, decided_ns, parts, connection.peer.uid)
    connection.proceed()


def _wants(event: AttachDecided) -> bool:
    return event.outcome is Decided.HIT and event.tier in BELOW_PINNED and event.policy_body.verifies_behind


def _admit(server: Server, request: VerifyBehind, event: AttachDecided, decided_ns: int, fds: list[int], uid: int) -> None:
    """Ask before reading whether the bytes could tell anything; and read each content once, for all hits that rest on it."""
    try:
        hit = hit_from(server.recorder.knowledge, 0, decided_ns, event)
        place = hit.place(server.recorder.knowledge)
        if place is None:
            raise Unprovable("nothing is recorded about the files that were asked for")
        if place.location.key() != request.location.key():
            raise Unprovable("its descriptors are not the files that its evidence is about")
        hit.require_fixed(place.location, server.recorder.knowledge.grants(), event.policy_body.network_fs)
    except (Unprovable, WcacheError) as error:
        close_fds(fds)
        log.info("%s stays unproven: %s; `wcache audit prove` may know more", event.attach, error)
        return
    found = next((one for one in server.behinds if one.key == request.location.key()), None)
    if found is None:
        if sum(len(one.fds) for one in server.behinds) + len(fds) > FILES_MAX:
            close_fds(fds)
            log.warning("%s stays unproven: too many files wait to be looked at; `wcache audit prove`", event.attach)
            return
        found = Behind(request, event.asked.spelling, fds, uid)
        server.behinds.append(found)
    else:
        close_fds(fds)
    found.hits.append(hit)
    start_behind(server)


def start_behind(server: Server) -> None:
    """The next one, where none is being read. What an attach waits for comes first, and whatever that reads is not read twice."""
    if server.stopping or any(one.job is not None for one in server.behinds):
        return
    hashed = {one.key[1] for one in server.hashes if not one.foreign}
    following = next((one for one in server.behinds if one.key not in hashed), None)
    if following is not None:
        _start(server, following)


def _start(server: Server, behind: Behind) -> None:
    fds = tuple(behind.fds)
    behind.began_s = time.monotonic()
    try:
        order = orders.HashOrder(spelling=behind.spelling, location=behind.location, fds=fds, behind=True)
        behind.job = Job(
            server.loop,
            order,
            fds,
            lambda report, extra: _report(server, behind, report, extra),
            lambda failure: _failed(server, behind, failure),
        )
    except OSError as error:
        _leave(server, behind, f"no worker could be started: {error.strerror}")


def step_aside(server: Server, key: str) -> None:
    """An attach wants these very files hashed: its hash is not to be as slow as ours, and what it finds is what we look for."""
    for behind in server.behinds:
        if behind.key == key and behind.job is not None:
            behind.job.kill()
            behind.job = None


def hashed_meanwhile(server: Server, content: Fingerprint) -> None:
    """A hash that an attach asked for is done, and on record."""
    key = content.location.key() if content.location is not None else ""
    for behind in [one for one in server.behinds if one.key == key and one.job is None]:
        _conclude(server, behind, content, new=False)
    server.loop.post(lambda: start_behind(server))


def sweep_behinds(server: Server, now_s: float) -> None:
    """As for hashes. Also looks whether one may begin whose files an attach had asked to hash and then did not wait for."""
    for behind in list(server.behinds):
        stalled = behind.job.stalled(now_s) if behind.job is not None else None
        if behind.job is not None and stalled is not None:
            behind.job.kill()
            _leave(server, behind, stalled.what)
    start_behind(server)


def abandon_behinds(server: Server) -> None:
    """The server ends, or another one goes on: what was not looked at is unproven, and the ledger says so."""
    hits = sum(len(one.hits) for one in server.behinds)
    for behind in list(server.behinds):
        if behind.job is not None:
            behind.job.kill()
        _drop(server, behind)
    if hits:
        log.warning("%d hits stay unproven, this server ends before it could look at them: `wcache audit prove`", hits)


def _report(server: Server, behind: Behind, report: orders.Report, fds: tuple[int, ...]) -> None:
    close_fds(fds)
    if isinstance(report, orders.Phase):
        retries_told(server, behind.phase, report)
        behind.phase = report
    elif isinstance(report, orders.HashResult) and behind.job is not None:
        behind.job.finish()
        behind.job = None
        _conclude(server, behind, report.fingerprint, new=True)


def _failed(server: Server, behind: Behind, failure: Failure | None) -> None:
    if failure is None or behind not in server.behinds:
        return
    if failure.code in _CHANGED:
        why = f"the files changed before they could be hashed: {failure.what}"
        _record(server, behind, [(hit, inconclusive(hit, why)) for hit in behind.hits], [])
        return
    _leave(server, behind, failure.what)


def _leave(server: Server, behind: Behind, why: str) -> None:
    names = ", ".join(hit.attach for hit in behind.hits)
    log.warning("%s could not be looked at and stays unproven: %s; `wcache audit prove`", names, why)
    _drop(server, behind)
    server.loop.post(lambda: start_behind(server))


def _drop(server: Server, behind: Behind) -> None:
    close_fds(behind.fds)
    behind.fds, behind.job = [], None
    if behind in server.behinds:
        server.behinds.remove(behind)


def _conclude(server: Server, behind: Behind, content: Fingerprint, *, new: bool) -> None:
    """`new`: the content is not on record yet."""
    knowledge, seconds = server.recorder.knowledge, time.monotonic() - behind.began_s
    if content.location is None or content.location.key() != behind.key:
        why = "the files changed after the attach, before they could be hashed"
        verdicts = [(hit, inconclusive(hit, why)) for hit in behind.hits]
    else:
        how = "the files are as they were at the attach, through the descriptors that it had open"
        verdicts = [(hit, judge(hit, content, how, seconds)) for hit in behind.hits]
        others = _others(server, behind, content, knowledge.grants())
        verdicts += [(hit, verdict) for hit in others if (verdict := judge(hit, content, how)).decides]
    events: list[Event] = []
    if new and knowledge.fingerprint(content.id()) is None:
        events.append(FingerprintRecorded.of(content, behind.spelling, by="server", uid=behind.uid, instance=server.instance))
    _record(server, behind, verdicts, events)


def _others(server: Server, behind: Behind, content: Fingerprint, grants: tuple[Grant, ...]) -> list[Hit]:
    try:
        return others_of(server.recorder.knowledge, content, behind.hits, grants)
    except WcacheError as error:  # an old decision that cannot be read must not keep the new ones from being decided
        log.warning("earlier hits on the files of %s could not be looked at: %s", behind.spelling, error)
        return []


def _record(server: Server, behind: Behind, verdicts: list[tuple[Hit, Verdict]], events: list[Event]) -> None:
    _drop(server, behind)
    unit = [new_event(event) for event in (*events, *(verdict.event for _, verdict in verdicts))]

    def then(outcome: Outcome) -> None:
        if isinstance(outcome, LedgerUnavailable):
            server.recorder.keep(unit)
        seqs = outcome[len(events) :] if isinstance(outcome, list) else [None] * len(verdicts)
        for (hit, verdict), seq in zip(verdicts, seqs, strict=True):
            _tell(hit, verdict, seq)
        start_behind(server)

    server.recorder.append(unit, then)


def _tell(hit: Hit, verdict: Verdict, seq: int | None) -> None:
    decided = hit.decided
    who = f"{decided.engine.name} rank {decided.ranks.rank} of launch {decided.launch} (pid {decided.engine.pid}, {hit.attach})"
    if verdict.proof is Proof.REFUTED:
        log.error(
            "WRONG HIT: %s asked for %s and was served other weights (%s instead of %s, tier=%s, seq=%s); that checkpoint is denied from"
            " now on, the resident weights stay good; `wcache audit wrong-hits` names everybody who has them",
            who, decided.asked.spelling, (hit.served_digest or "")[:16], (verdict.asked_digest or "")[:16], decided.tier,
            "-" if seq is None else seq,
        )  # fmt: skip
    else:
        log.info("%s: %s (seq=%s)", who, verdict.why if verdict.proof is Proof.UNPROVABLE else "the hit is proved", seq)
