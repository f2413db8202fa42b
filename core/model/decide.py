"""`decide()`: whether an attach is a hit, a strict miss or a fallback. Pure: values in, one value out, no clock, no file, no socket.

The loader calls it on the evidence it gathered; the server calls it again on what it knows before it hands out anything.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from wcache.core.model.config import config_difference
from wcache.core.model.events import AttachDecided, Engine, EvidenceRef, Identity, Peer, Ranks
from wcache.core.model.evidence import Contradiction, Fingerprint, Grant, Lock
from wcache.core.model.policy import Policy
from wcache.core.model.vocabulary import Kind, Lineage, Mode, OptIn, Outcome, Reason, ResidencyState, Tier, TrustScope


class ResidencyView(msgspec.Struct, frozen=True, kw_only=True):
    """A residency as a decision sees it. Digests are None while it loads. `known` holds what its own load recorded: tier -> digest,
    the sampled one under `sampled:<seed id>`. `spellings` are the names it was asked by.

    Of processed weights `weights_digest` is that of the checkpoint they were made from, `processed_digest` their own, and `lineage` says
    whether it is known that they were made from those bytes. `device` is `cpu` or a GPU's UUID."""

    residency: str
    state: ResidencyState
    kind: Kind
    device: str
    served: Identity
    spellings: tuple[str, ...] = ()
    weights_digest: str | None = None
    table_digest: str | None = None
    known: dict[str, str] = {}
    dtypes: tuple[str, ...] = ()
    config: dict[str, str] = {}
    bytes: int = 0
    tensors: int = 0
    processed_digest: str | None = None
    lineage: Lineage | None = None


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """What one rank asks for. `obstacle` is a reason known before any residency is looked at (no daemon, an invalid checkpoint). `mode`
    copy: the engine wants memory of its own. `lock`: the only weights that may be served."""

    asked: Identity
    kind: Kind = Kind.RAW
    device: str = "cpu"
    dtype: str | None = None
    config: dict[str, str] = {}
    obstacle: Reason | None = None
    obstacle_detail: str = ""
    mode: Mode | None = None
    lock: Lock | None = None


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """The one end of an attach. `reason` is None only for a hit; `detail` names fields, tiers, numbers; `mode` is the expected one."""

    outcome: Outcome
    reason: Reason | None
    detail: str
    residency: str | None = None
    served: Identity | None = None
    tier: Tier | None = None
    mode: Mode | None = None
    evidence: tuple[EvidenceRef, ...] = ()


# Where several residencies miss for different reasons, the one that tells the operator most is reported.
_TELLING = (
    Reason.STILL_LOADING, Reason.SUSPECT, Reason.TRUST_EXPIRED, Reason.EVIDENCE_INSUFFICIENT, Reason.CONFIG_MISMATCH,
    Reason.CONTENT_MISMATCH, Reason.DEVICE_MISMATCH, Reason.RELEASED, Reason.NOT_RESIDENT,
)  # fmt: skip

HOST = "cpu"

FLOAT_DTYPES = frozenset({"F64", "F32", "F16", "BF16"})
"""Dtypes that an engine converts into each other when it is asked for another one."""


def agrees(evidence: Fingerprint, residency: ResidencyView) -> bool | None:
    """Whether evidence about the asked checkpoint and a residency's own record say the same; None where they cannot be compared.

    Another header digest over an equal table is no contradiction: the same weights may be sharded otherwise.
    """
    if evidence.table_digest and residency.table_digest and evidence.table_digest != residency.table_digest:
        return False
    if evidence.tier in (Tier.PINNED, Tier.CONTENT, Tier.TRUSTED):
        if evidence.weights_digest is None or residency.weights_digest is None:
            return None
        return evidence.weights_digest == residency.weights_digest
    if evidence.tier is Tier.SAMPLED:
        # Offsets depend on the shards, so only checkpoints of the same headers are sampled at the same places.
        own = residency.known.get(f"sampled:{evidence.seed_id}")
        return None if own is None else (evidence.digest == own or None)
    own = residency.known.get(evidence.tier.value)
    return True if own is not None and own == evidence.digest else None


def sampled_contradicts(evidence: Sequence[Fingerprint], residency: ResidencyView) -> bool:
    """Equal headers and other samples: the bytes differ for certain."""
    header_equal = any(item.tier is Tier.HEADER and item.digest == residency.known.get("header") for item in evidence)
    return header_equal and any(
        item.tier is Tier.SAMPLED and residency.known.get(f"sampled:{item.seed_id}") not in (None, item.digest) for item in evidence
    )


def grant_covers(grant: Grant, evidence: Fingerprint, request: Request, residency: ResidencyView, now_ns: int) -> bool | None:
    """True: the grant vouches for this hit now. False: it would, but has expired. None: it is about something else."""
    if grant.grant != evidence.grant:
        return None
    spelling = request.asked.spelling
    if grant.scope is TrustScope.CHECKPOINT:
        about = spelling in grant.spellings and grant.weights_digest == residency.weights_digest
    elif grant.scope is TrustScope.RESIDENCY:
        about = grant.residency == residency.residency and spelling in residency.spellings
    elif grant.scope is TrustScope.INSTANCE:
        about = evidence.reuses is not None and evidence.weights_digest == residency.weights_digest
    else:
        about = False  # a store grant makes pins hold; it is no evidence by itself
    if not about:
        return None
    return not grant.expired(now_ns)


def serves_device(residency: ResidencyView, request: Request) -> bool:
    """Weights on the asked device; and host memory feeds every GPU, by a copy. Processed weights are made for one device."""
    return residency.device == request.device or (residency.device == HOST and residency.kind is Kind.RAW)


def origin_known(residency: ResidencyView) -> bool:
    """Whether what is known of a checkpoint is known of these weights too: raw ones are it, processed ones need a proven lineage."""
    return residency.kind is Kind.RAW or residency.lineage is Lineage.PROVEN


def locked_in(residency: ResidencyView, request: Request) -> bool:
    """Whether the lock, if there is one, allows these weights to be served: by their digest, whatever was asked for."""
    return request.lock is None or residency.weights_digest in request.lock.weights


def _lock_says(lock: Lock | None) -> str:
    if lock is None or len(lock.weights) != 1:
        return f"the lock {lock.path if lock else ''} names {len(lock.weights) if lock else 0} checkpoints and none of them"
    return f"the lock {lock.path} allows {lock.weights[0]}"


def _is_about(request: Request, residency: ResidencyView) -> bool:
    """Whether a residency is about the asked checkpoint at all: the same table, the same place, or the same repository."""
    asked, served = request.asked, residency.served
    if asked.table_digest is not None and asked.table_digest == residency.table_digest:
        return True
    if asked.spelling in residency.spellings or (asked.root is not None and asked.root == served.root):
        return True
    return asked.repo is not None and asked.repo == served.repo


def _contradicted(request: Request, residency: ResidencyView, contradictions: Sequence[Contradiction]) -> Contradiction | None:
    asked = request.asked
    names = {asked.spelling, asked.root} - {None}
    for item in contradictions:
        if item.weights_digest == residency.weights_digest and (item.asked_key == asked.key or names & set(item.spellings)):
            return item
    return None


class _Verdict(msgspec.Struct, frozen=True, kw_only=True):
    residency: ResidencyView
    reason: Reason | None
    detail: str
    tier: Tier | None = None
    mode: Mode | None = None
    refs: tuple[EvidenceRef, ...] = ()


def _assess(
    residency: ResidencyView,
    evidence: Sequence[Fingerprint],
    request: Request,
    policy: Policy,
    now_ns: int,
    grants: Sequence[Grant],
    contradictions: Sequence[Contradiction],
) -> _Verdict:
    judged = [(item, agrees(item, residency)) for item in evidence]
    if sampled_contradicts(evidence, residency):
        judged = [(item, False if item.tier is Tier.SAMPLED else verdict) for item, verdict in judged]
    refs = tuple(EvidenceRef(item.tier, item.id(), item.digest, verdict) for item, verdict in judged)

    def miss(reason: Reason, detail: str, tier: Tier | None = None) -> _Verdict:
        return _Verdict(residency=residency, reason=reason, detail=detail, tier=tier, refs=refs)

    agreeing = [item for item, verdict in judged if verdict]
    about = _is_about(request, residency) or bool(agreeing)
    if not about or residency.state in (ResidencyState.ABSENT, ResidencyState.FAILED, ResidencyState.LOST):
        return miss(Reason.NOT_RESIDENT, "the daemon holds no weights like these")
    if residency.state is ResidencyState.LOADING:
        return miss(Reason.STILL_LOADING, f"{residency.residency} is loading")
    if not locked_in(residency, request):
        return miss(Reason.CONTENT_MISMATCH, f"{_lock_says(request.lock)}, resident are {residency.weights_digest}")
    if not serves_device(residency, request):
        return miss(Reason.DEVICE_MISMATCH, f"asked on {request.device}, resident on {residency.device}")
    if request.kind is Kind.PROCESSED:
        fields = config_difference(request.config, residency.config)
        if fields:
            return miss(Reason.CONFIG_MISMATCH, "differs in " + ", ".join(fields))

    against = [item for item, verdict in judged if verdict is False]
    strongest_for = max((item.tier.rank for item in agreeing if item.tier.rank is not None), default=-1)
    strongest_against = max((item.tier.rank or 0 for item in against), default=-1)
    if against and strongest_against >= strongest_for:
        worst = max(against, key=lambda item: item.tier.rank or 0)
        return miss(Reason.CONTENT_MISMATCH, _mismatch(worst, request, residency), worst.tier)
    if residency.state in (ResidencyState.RELEASING, ResidencyState.RELEASED):
        return miss(Reason.RELEASED, f"{residency.residency} was released")
    if residency.state is ResidencyState.SUSPECT:
        return miss(Reason.SUSPECT, f"the bytes of {residency.residency} failed their own digests")

    # A contradiction was made by a full hash, so only a full hash of what is there now can overrule it.
    denied = _contradicted(request, residency, contradictions)
    if denied is not None:
        agreeing = [item for item in agreeing if item.tier in (Tier.PINNED, Tier.CONTENT)]
        if not agreeing:
            return miss(Reason.CONTENT_MISMATCH, f"refuted by seq {denied.seq}: this checkpoint is not {residency.weights_digest}")

    expired = ""
    moved = _moved(request, residency)
    enough: list[Fingerprint] = []
    for item in agreeing:
        if item.tier is Tier.TRUSTED:
            covers = [grant_covers(grant, item, request, residency, now_ns) for grant in grants]
            if policy.trusted is OptIn.HONOUR and True in covers:
                enough.append(item)
            elif policy.trusted is OptIn.HONOUR and False in covers:
                expired = f"grant {item.grant} has expired"
        elif item.tier is Tier.ATTESTED:
            if policy.attested is OptIn.HONOUR:
                enough.append(item)
        elif moved and item.tier in (Tier.HEADER, Tier.SAMPLED):
            continue
        elif (item.tier.rank or 0) >= (policy.accept_tier.rank or 0):
            enough.append(item)
    from_unknown = not origin_known(residency)
    if from_unknown and policy.accept_tier not in (Tier.HEADER, Tier.SAMPLED):
        enough = [item for item in enough if item.tier is Tier.TRUSTED]
        if not enough:
            return miss(Reason.EVIDENCE_INSUFFICIENT, "their lineage is unproven: nobody knows from which bytes they were made")
    if enough:
        tier = max(enough, key=lambda item: _rank(item.tier)).tier
        if from_unknown and tier in (Tier.PINNED, Tier.CONTENT):
            tier = Tier.SAMPLED  # whatever is known of the checkpoint, it is not known of what was made from it
        return _Verdict(residency=residency, reason=None, detail="", tier=tier, mode=_mode(request, residency), refs=refs)
    if expired:
        return miss(Reason.TRUST_EXPIRED, expired)
    have = max((item.tier for item in agreeing if item.tier.rank is not None), key=lambda tier: tier.rank or 0, default=None)
    had = f"have {have}" if have else "have none"
    return miss(Reason.EVIDENCE_INSUFFICIENT, f"{had}, policy accepts {policy.accept} and above{moved}", have)


def _moved(request: Request, residency: ResidencyView) -> str:
    """What to say where another commit of the same repository was asked for: fine-tunes have equal headers, so agreement that looks at
    headers or samples only does not make two commits one; known content and attested names still do."""
    asked, served = request.asked, residency.served
    if asked.repo is None or asked.repo != served.repo or not asked.commit or not served.commit or asked.commit == served.commit:
        return ""
    return f"; asked commit {asked.commit}, resident commit {served.commit}: only content or attested names can make two commits equal"


def _mismatch(worst: Fingerprint, request: Request, residency: ResidencyView) -> str:
    if worst.table_digest and residency.table_digest and worst.table_digest != residency.table_digest:
        text = "names, dtypes or shapes differ"
    elif worst.weights_digest:
        text = f"asked {worst.weights_digest}, resident {residency.weights_digest}"
    else:
        text = f"{worst.tier} digests differ"
    asked, served = request.asked.commit, residency.served.commit
    return f"{text} (asked commit {asked}, resident commit {served})" if asked and served and asked != served else text


def _mode(request: Request, residency: ResidencyView) -> Mode:
    """Another dtype of raw weights means that the engine converts, hence copies; so does another device. Of processed weights the
    configuration has told the dtype."""
    if request.mode is Mode.COPY or residency.device != request.device:
        return Mode.COPY
    if residency.kind is Kind.PROCESSED:
        return Mode.ZERO_COPY
    floats = FLOAT_DTYPES & set(residency.dtypes)
    return Mode.COPY if request.dtype and floats and floats != {request.dtype} else Mode.ZERO_COPY


def _rank(tier: Tier | None) -> int:
    return -1 if tier is None or tier.rank is None else tier.rank


def decide(
    residencies: Sequence[ResidencyView],
    evidence: Sequence[Fingerprint],
    request: Request,
    policy: Policy,
    now_ns: int,
    *,
    grants: Sequence[Grant] = (),
    contradictions: Sequence[Contradiction] = (),
) -> Decision:
    """One decision for one attach.

    `evidence` is about the asked checkpoint as it is now, except `trusted`, which rests on a grant. Contrary evidence beats agreement
    that is not stronger. `now_ns` is only compared with expiries.
    """
    missed = Outcome.STRICT_MISS if policy.on_miss == "strict" else Outcome.FALLBACK
    if request.obstacle is not None:
        return Decision(outcome=missed, reason=request.obstacle, detail=request.obstacle_detail)
    verdicts = [
        _assess(residency, evidence, request, policy, now_ns, grants, contradictions)
        for residency in residencies
        if residency.kind is request.kind
    ]
    hits = [verdict for verdict in verdicts if verdict.reason is None]
    if hits:
        best = max(hits, key=lambda verdict: (_rank(verdict.tier), verdict.residency.device == request.device))
    elif verdicts:
        best = min(verdicts, key=lambda verdict: _TELLING.index(verdict.reason or Reason.NOT_RESIDENT))
    else:
        refs = tuple(EvidenceRef(item.tier, item.id(), item.digest) for item in evidence)
        return Decision(outcome=missed, reason=Reason.NOT_RESIDENT, detail="the daemon holds no weights like these", evidence=refs)
    about = best.reason is not Reason.NOT_RESIDENT
    return Decision(
        outcome=Outcome.HIT if best.reason is None else missed,
        reason=best.reason,
        detail=best.detail,
        residency=best.residency.residency if about else None,
        served=best.residency.served if about else None,
        tier=best.tier,
        mode=best.mode,
        evidence=best.refs,
    )


def decided_event(
    decision: Decision,
    request: Request,
    policy: Policy,
    *,
    attach: str,
    launch: str,
    host: str,
    engine: Engine,
    peer: Peer,
    ranks: Ranks,
    by: str,
) -> AttachDecided:
    """The decision as the ledger keeps it; `by` says who made it: `server`, or a `loader` that no server could help."""
    return AttachDecided(
        attach=attach,
        launch=launch,
        host=host,
        engine=engine,
        peer=peer,
        ranks=ranks,
        asked=request.asked,
        served=decision.served,
        residency=decision.residency,
        kind=request.kind,
        device=request.device,
        outcome=decision.outcome,
        reason=decision.reason,
        detail=decision.detail,
        tier=decision.tier,
        mode=decision.mode,
        evidence=decision.evidence,
        policy=policy.digest(),
        policy_body=policy,
        decided_by=by,
        asked_dtype=request.dtype,
        lock=request.lock,
    )
