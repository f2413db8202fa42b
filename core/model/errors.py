"""The error tree: every failure that a user can meet has a stable code, an exit code, and says what to do next."""

from __future__ import annotations

from typing import ClassVar

# Exit codes are a contract of the command line (docs/errors.md is generated from this module).
EXIT_OK = 0
EXIT_FINDING = 1  # the command worked and found what it was asked to look for: a wrong hit, a broken chain, a fallback
EXIT_USAGE = 2  # click's own code for a bad command line
EXIT_CHECKPOINT = 3
EXIT_NOT_FOUND = 4
EXIT_STATE = 5
EXIT_DAEMON = 6
EXIT_REFUSED = 7
EXIT_LEDGER = 8
EXIT_RESOURCES = 9
EXIT_MISS = 10
EXIT_UNPROVABLE = 11  # nothing wrong was found, but of something nothing can be said any more
EXIT_INTERNAL = 70  # sysexits.h EX_SOFTWARE
EXIT_INTERRUPTED = 130


def one_line(text: str) -> str:
    """The text with its control characters spelt out: names come from files that others wrote, and messages end up on terminals."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode("ascii") for char in text)


class WcacheError(Exception):
    """Base of all errors that wcache raises on purpose.

    `what` says what happened in one line, `where` names the file, field, stream or process, `remedy` says what to do.
    `detail` is a finer, stable word for machines (a rule of the checkpoint parser, a field name).
    """

    code: ClassVar[str] = "internal"
    exit_code: ClassVar[int] = EXIT_INTERNAL
    default_remedy: ClassVar[str] = ""

    def __init__(self, what: str, *, where: str = "", remedy: str = "", detail: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.where = where
        self.remedy = remedy or self.default_remedy
        self.detail = detail

    def __str__(self) -> str:
        return one_line(f"{self.where}: {self.what}" if self.where else self.what)

    def diagnostics(self) -> str:
        """One line for a person: what, where, what to do."""
        line = str(self)
        return f"{line}; {one_line(self.remedy)}" if self.remedy else line

    def to_json(self) -> dict[str, str]:
        fields = {"code": self.code, "what": self.what, "where": self.where, "remedy": self.remedy, "detail": self.detail}
        return {key: value for key, value in fields.items() if value}


class UsageError(WcacheError):
    """An argument or setting that cannot be meant."""

    code = "usage"
    exit_code = EXIT_USAGE


class CheckpointInvalid(WcacheError):
    """A checkpoint that must not be loaded; `detail` is the name of the rule it breaks."""

    code = "checkpoint_invalid"
    exit_code = EXIT_CHECKPOINT

    def __init__(self, rule: str, what: str, *, where: str = "", remedy: str = "") -> None:
        super().__init__(what, where=where, remedy=remedy, detail=rule)

    @property
    def rule(self) -> str:
        return self.detail


class CheckpointChanged(WcacheError):
    """A file of the checkpoint changed while it was read or hashed."""

    code = "checkpoint_changed"
    exit_code = EXIT_CHECKPOINT
    default_remedy = "wait until the writer has finished and try again"


class CheckpointUnreadable(WcacheError):
    """A file of the checkpoint is missing or may not be read."""

    code = "checkpoint_unreadable"
    exit_code = EXIT_CHECKPOINT


class EvidenceUnavailable(WcacheError):
    """A fingerprint of the asked tier cannot be taken here (file system kind, missing metadata, no grant)."""

    code = "evidence_unavailable"
    exit_code = EXIT_REFUSED


class NotFound(WcacheError):
    """A residency, launch, seq or grant that nobody knows."""

    code = "not_found"
    exit_code = EXIT_NOT_FOUND


class IllegalTransition(WcacheError):
    """An authority event that the state machine does not allow; nothing was appended."""

    code = "illegal_transition"
    exit_code = EXIT_STATE

    def __init__(self, machine: str, state: str, event: str, *, where: str = "") -> None:
        super().__init__(f"{machine} in state {state!r} does not allow {event}", where=where)
        self.machine = machine
        self.state = state
        self.event = event


class LedgerError(WcacheError):
    """The ledger cannot be opened, read or written."""

    code = "ledger"
    exit_code = EXIT_LEDGER


class LedgerUnavailable(LedgerError):
    """The ledger cannot be written now (disk full, read-only, lock not to be had in time)."""

    code = "ledger_unavailable"


class WrongExpectedVersion(LedgerError):
    """Somebody else appended to the stream first."""

    code = "wrong_expected_version"
    exit_code = EXIT_STATE

    def __init__(self, stream: str, expected: int, actual: int) -> None:
        super().__init__(f"expected version {expected}, the stream is at {actual}", where=stream)
        self.stream = stream
        self.expected = expected
        self.actual = actual


class EventIdReused(LedgerError):
    """The same event id came with another body."""

    code = "event_id_reused"
    exit_code = EXIT_STATE


class LedgerCorrupt(LedgerError):
    """The ledger's file or chain is damaged."""

    code = "ledger_corrupt"
    default_remedy = "run `wcache ledger verify`, then restore a backup"


class SignatureInvalid(WcacheError):
    """A signature is not the given key's over the given text, or no given key signed at all."""

    code = "signature_invalid"
    exit_code = EXIT_FINDING


class PostFailed(WcacheError):
    """A signed checkpoint was made and could not be handed to the URL or command that was given."""

    code = "post_failed"
    exit_code = EXIT_REFUSED


class DaemonUnreachable(WcacheError):
    """No usable daemon; `reason` is one of the closed set of decision reasons."""

    code = "daemon_unreachable"
    exit_code = EXIT_DAEMON

    def __init__(self, reason: str, what: str, *, where: str = "", remedy: str = "") -> None:
        super().__init__(what, where=where, remedy=remedy, detail=reason)

    @property
    def reason(self) -> str:
        return self.detail


class DaemonRunning(WcacheError):
    """A daemon already serves this runtime directory."""

    code = "daemon_running"
    exit_code = EXIT_STATE


class WorkerDied(WcacheError):
    """The daemon's worker process ended before it was done; nothing of its work stays."""

    code = "worker_died"
    exit_code = EXIT_DAEMON


class ProtocolError(WcacheError):
    """Bytes on the socket that are no frame of this protocol."""

    code = "protocol_error"
    exit_code = EXIT_DAEMON


class RequestRefused(WcacheError):
    """The daemon understood the request and refuses it; `detail` names why."""

    code = "refused"
    exit_code = EXIT_REFUSED


class NoRoom(WcacheError):
    """The memory budget does not allow it; the message carries the numbers."""

    code = "no_room"
    exit_code = EXIT_RESOURCES


class MappingFailed(WcacheError):
    """A segment could not be mapped, or is not what its manifest says."""

    code = "mapping_failed"
    exit_code = EXIT_RESOURCES


class StrictMiss(WcacheError):
    """The policy says strict and the decision was no hit; `reason` is one of the closed set."""

    code = "strict_miss"
    exit_code = EXIT_MISS

    def __init__(self, reason: str, what: str, *, where: str = "", remedy: str = "", seq: int | None = None) -> None:
        super().__init__(what, where=where, remedy=remedy, detail=reason)
        self.seq = seq

    @property
    def reason(self) -> str:
        return self.detail


class MissingTensor(WcacheError):
    """A tensor that the model needs is not in the residency: never random, never uninitialised."""

    code = "missing_tensor"
    exit_code = EXIT_CHECKPOINT


class Unsupported(WcacheError):
    """This platform or combination is not supported; the message names it."""

    code = "unsupported"
    exit_code = EXIT_REFUSED


def error_types() -> list[type[WcacheError]]:
    """Every member of the tree, base first: what the generated table in docs/ lists."""
    found: list[type[WcacheError]] = []
    todo: list[type[WcacheError]] = [WcacheError]
    while todo:
        current = todo.pop(0)
        found.append(current)
        todo.extend(current.__subclasses__())
    return found
