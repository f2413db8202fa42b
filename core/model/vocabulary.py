"""The closed sets of words: tiers, outcomes, reasons, modes, kinds, states. Their values are stored in the ledger and never change."""

from __future__ import annotations

from enum import Enum


class Word(str, Enum):
    """A member of a closed set; prints as its stored value."""

    def __str__(self) -> str:
        return str(self.value)


class Tier(Word):
    """How strong a fingerprint is. The first four lie on one scale; the last two stand beside it and count only by explicit opt-in."""

    HEADER = "header"
    SAMPLED = "sampled"
    PINNED = "pinned"
    CONTENT = "content"
    ATTESTED = "attested"
    TRUSTED = "trusted"

    @property
    def rank(self) -> int | None:
        """Position on the scale header < sampled < pinned < content; None for `attested` and `trusted`."""
        return _RANKS.get(self)


_RANKS = {Tier.HEADER: 0, Tier.SAMPLED: 1, Tier.PINNED: 2, Tier.CONTENT: 3}
SCALE = tuple(_RANKS)


class Outcome(Word):
    """What a decision ends in."""

    HIT = "hit"
    STRICT_MISS = "strict_miss"
    FALLBACK = "fallback"


class Reason(Word):
    """Why a decision was no hit: a closed set, one cause each (docs/reference/reasons.md is generated from here)."""

    DAEMON_ABSENT = "daemon_absent"
    DAEMON_REFUSED = "daemon_refused"
    DAEMON_SILENT = "daemon_silent"
    DAEMON_CLOSED = "daemon_closed"
    DAEMON_TIMEOUT = "daemon_timeout"
    PROTOCOL_ERROR = "protocol_error"
    PEER_NOT_ALLOWED = "peer_not_allowed"
    VERSION_MISMATCH = "version_mismatch"
    NOT_RESIDENT = "not_resident"
    STILL_LOADING = "still_loading"
    RELEASED = "released"
    SUSPECT = "suspect"
    CONTENT_MISMATCH = "content_mismatch"
    EVIDENCE_INSUFFICIENT = "evidence_insufficient"
    TRUST_EXPIRED = "trust_expired"
    CONFIG_MISMATCH = "config_mismatch"
    DEVICE_MISMATCH = "device_mismatch"
    CHECKPOINT_INVALID = "checkpoint_invalid"
    MAPPING_FAILED = "mapping_failed"
    NO_ROOM = "no_room"
    UNSUPPORTED = "unsupported"
    LEDGER_UNAVAILABLE = "ledger_unavailable"


REASON_TEXT: dict[Reason, str] = {
    Reason.DAEMON_ABSENT: "there is no socket in the runtime directory: no daemon was started there",
    Reason.DAEMON_REFUSED: "a socket is there but nobody listens on it: the daemon died and was not restarted",
    Reason.DAEMON_SILENT: "the daemon accepted the connection and did not answer the handshake in time",
    Reason.DAEMON_CLOSED: "the daemon closed the connection in the middle of an answer",
    Reason.DAEMON_TIMEOUT: "connecting, or a request after the handshake, took longer than its time limit",
    Reason.PROTOCOL_ERROR: "the answer was no frame of the wcache protocol",
    Reason.PEER_NOT_ALLOWED: "daemon and loader are different users, and this one is not let in, or does not trust the other, or did not"
    " prove that it may read the weights",
    Reason.VERSION_MISMATCH: "daemon and loader speak different versions of the protocol",
    Reason.NOT_RESIDENT: "no resident weights have the names, dtypes and shapes of the checkpoint that was asked for",
    Reason.STILL_LOADING: "the weights are being loaded and were not ready within `wait_s`",
    Reason.RELEASED: "the weights were resident and were released",
    Reason.SUSPECT: "the resident bytes no longer match their own digests, so they are not handed out",
    Reason.CONTENT_MISMATCH: "the checkpoint that was asked for has other weights than the resident ones",
    Reason.EVIDENCE_INSUFFICIENT: "nothing contradicts a hit, but no evidence as strong as `accept` could be had",
    Reason.TRUST_EXPIRED: "an operator's grant would have allowed the hit, but it has expired",
    Reason.CONFIG_MISMATCH: "the resident weights were prepared for another engine configuration; the fields are named",
    Reason.DEVICE_MISMATCH: "the weights are resident only on another device, from which this one cannot be fed",
    Reason.CHECKPOINT_INVALID: "the checkpoint breaks a rule of its format; the rule is named",
    Reason.MAPPING_FAILED: "the weights were granted but could not be mapped or copied",
    Reason.NO_ROOM: "the memory for the copy is not there; the numbers are given",
    Reason.UNSUPPORTED: "this platform or combination is not supported; it is named",
    Reason.LEDGER_UNAVAILABLE: "the decision could not be recorded durably, and without a record there are no weights",
}


class Mode(Word):
    """How a hit reached the engine."""

    ZERO_COPY = "zero_copy"
    COPY = "copy"


class Kind(Word):
    """What a residency holds: the checkpoint's tensors, or an engine's post-load tensors."""

    RAW = "raw"
    PROCESSED = "processed"


class Lineage(Word):
    """Whether processed weights are known to be made from the bytes that have their weights digest: they came from a residency, or from
    files that were pinned before and after they were read."""

    PROVEN = "proven"
    UNPROVEN = "unproven"


class Proof(Word):
    """What is known of a hit afterwards."""

    UNPROVEN = "unproven"
    PROVED = "proved"
    REFUTED = "refuted"
    UNPROVABLE = "unprovable"


class ResidencyState(Word):
    ABSENT = "absent"
    LOADING = "loading"
    RESIDENT = "resident"
    SUSPECT = "suspect"
    RELEASING = "releasing"
    RELEASED = "released"
    FAILED = "failed"
    LOST = "lost"


class AttachState(Word):
    ASKED = "asked"
    DECIDED = "decided"
    GRANTED = "granted"
    MAPPED = "mapped"
    COPIED = "copied"
    FAILED = "failed"
    FELL_BACK = "fell_back"
    MISSED = "missed"
    ENDED = "ended"


class TrustScope(Word):
    """What an operator's grant covers."""

    CHECKPOINT = "checkpoint"
    RESIDENCY = "residency"
    INSTANCE = "instance"
    STORE = "store"


class OptIn(Word):
    """Whether evidence beside the scale counts."""

    HONOUR = "honour"
    IGNORE = "ignore"


REDACTED = "[redacted]"
"""What stands where a redaction removed a text."""
