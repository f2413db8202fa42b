"""The runs of a drill, and whether each went as it must. Pure: what was seen goes in, what was wrong comes out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from wcache.core.model.vocabulary import Kind, Mode, Outcome, Reason, Tier

Way = Literal["disk", "fallback", "strict"]
Case = Literal["disk", "absent_fallback", "absent_strict", "prepare", "warm", "dtype", "twin"]

_STRONG = {tier.value for tier in Tier if tier.rank is not None and tier.rank >= (Tier.PINNED.rank or 0)}


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """One start of the server. `way` is what it may do: know nothing of the cache, fall back, or not. `timed`: repeated in each round."""

    label: str
    case: Case
    way: Way
    expected: str
    daemon: bool = False
    timed: bool = False

    def in_round(self, number: int) -> Run:
        return self if number == 1 else msgspec.structs.replace(self, label=f"{self.label}-r{number}")


class Result(msgspec.Struct, kw_only=True):
    """What was seen of a run. `attaches` are the ledger's rows of its launch; `decided` those that count, one a rank and checkpoint.

    `elapsed_s` is the time to the first 200 of /health, or to the end of a start that never got there; `ready` means that it also
    answered. `others_cpu_share`: of the processors' time until that 200, what other work took. `exit_status` is that of a server that ended
    by itself. `port_taken`: somebody listened on its port after its end."""

    label: str
    case: Case
    expected: str
    started_utc: str
    command: list[str]
    launch: str | None = None
    ready: bool = False
    elapsed_s: float | None = None
    first_answer_s: float | None = None
    weights_s: float | None = None
    weights_s_by: str = ""
    pid: int | None = None
    exit_status: int | None = None
    timed_out: bool = False
    killed: bool = False
    port_taken: bool = False
    no_answer: str = ""
    answers: list[str] = []
    answers_equal: bool | None = None
    complete: bool = False
    attaches: list[dict[str, Any]] = []
    decided: list[dict[str, Any]] = []
    server_weights_bytes: int | None = None
    server_rest_bytes: int | None = None
    page_cache_share: float | None = None
    others_cpu_share: float | None = None
    last_words: list[str] = []
    skipped: str = ""
    wrong: list[str] = []

    @property
    def held(self) -> bool:
        return not self.wrong


DISK = Run(label="disk", case="disk", way="disk", expected="ready", timed=True)
ABSENT_FALLBACK = Run(label="absent-fallback", case="absent_fallback", way="fallback", expected="fallback daemon_absent")
ABSENT_STRICT = Run(label="absent-strict", case="absent_strict", way="strict", expected="no start, strict_miss daemon_absent")
PREPARE = Run(label="prepare", case="prepare", way="fallback", expected="processed tensors published", daemon=True)


def warm(number: int, tensors: str) -> Run:
    expected = "every rank hit pinned" + (" zero_copy" if tensors == "processed" else "")
    return Run(label=f"warm-{number}", case="warm", way="strict", expected=expected, daemon=True, timed=True)


def dtype(tensors: str) -> Run:
    expected = "no start, config_mismatch dtype" if tensors == "processed" else "every rank hit copy"
    return Run(label="dtype", case="dtype", way="strict", expected=expected, daemon=True)


TWIN = Run(label="twin", case="twin", way="strict", expected="no start, content_mismatch", daemon=True)


def judge(run: Run, seen: Result, tensors: str, disk: Sequence[str]) -> list[str]:
    """What was not as it must be, in words; empty where everything was. `disk` are the baseline's answers."""
    if seen.skipped:
        return []
    left = ["somebody still listens on its port after its end: what follows may be answers of that one"] if seen.port_taken else []
    return [*_judge(run, seen, tensors, disk), *left]


def _judge(run: Run, seen: Result, tensors: str, disk: Sequence[str]) -> list[str]:
    match run.case:
        case "disk":
            return _ready(seen)
        case "prepare":
            return [*_ready(seen), *_answers(seen, disk)]
        case "absent_fallback":
            return [*_ready(seen), *_all(seen, Outcome.FALLBACK, Reason.DAEMON_ABSENT), *_answers(seen, disk)]
        case "absent_strict":
            return [*_refused(seen), *_all(seen, Outcome.STRICT_MISS, Reason.DAEMON_ABSENT)]
        case "warm":
            kind, mode = (Kind.PROCESSED, Mode.ZERO_COPY) if tensors == "processed" else (Kind.RAW, None)
            return [*_ready(seen), *_hits(seen, kind, mode), *_answers(seen, disk)]
        case "dtype" if tensors == "processed":
            return [*_refused(seen), *_some(seen, Reason.CONFIG_MISMATCH, "dtype")]
        case "dtype":
            return [*_ready(seen), *_hits(seen, Kind.RAW, Mode.COPY)]
        case "twin":
            return [*_refused(seen), *_some(seen, Reason.CONTENT_MISMATCH, "")]


def _ready(seen: Result) -> list[str]:
    if seen.ready:
        return []
    if seen.exit_status is not None:
        return [f"it ended with status {seen.exit_status} after {seen.elapsed_s:.1f} s"]
    if seen.timed_out:
        return [f"it was not ready within {seen.elapsed_s:.0f} s"]
    return [seen.no_answer or "it was not ready"]


def _refused(seen: Result) -> list[str]:
    """A start that must not be: an end by itself that says so, or a server that is up and never answers."""
    if seen.ready:
        return ["it started and answered"]
    if seen.timed_out:
        return [f"it neither started nor ended within {seen.elapsed_s:.0f} s"]
    return ["it ended with status 0"] if seen.exit_status == 0 else []


def _all(seen: Result, outcome: Outcome, reason: Reason) -> list[str]:
    if not seen.decided:
        return ["the ledger has no attach of it"]
    others = [row for row in seen.decided if (row["decision"], row["reason"]) != (outcome.value, reason.value)]
    return [f"rank {row['rank']}: {describe(row)} instead of {outcome} {reason}" for row in others]


def _some(seen: Result, reason: Reason, field: str) -> list[str]:
    """Nothing was a hit, and something was refused for this reason. With processed tensors raw ones are asked for after them."""
    wrong = [f"rank {row['rank']}: {describe(row)}" for row in seen.attaches if row["decision"] == Outcome.HIT.value]
    for row in seen.attaches:
        if row["reason"] == reason.value and field in (row["detail"] or ""):
            return wrong
    named = f" naming {field}" if field else ""
    return [*wrong, f"no {reason}{named} on record" + (f", but {outcome_of(seen)}" if seen.attaches else ": no attach at all")]


def _hits(seen: Result, kind: Kind, mode: Mode | None) -> list[str]:
    if not seen.decided:
        return ["the ledger has no attach of it"]
    wrong = []
    for row in seen.decided:
        if row["decision"] != Outcome.HIT.value or row["tier"] not in _STRONG:
            wrong.append(f"rank {row['rank']}: {describe(row)}")
        elif row["kind"] != kind.value or (mode is not None and row["mode"] != mode.value):
            wrong.append(f"rank {row['rank']}: {row['kind']} tensors in mode {row['mode']}")
    return wrong if wrong or seen.complete else ["not every rank has said that its weights arrived"]


def _answers(seen: Result, disk: Sequence[str]) -> list[str]:
    if not seen.ready or list(seen.answers) == list(disk):
        return []
    differ = [number for number, (one, other) in enumerate(zip(seen.answers, disk, strict=False), 1) if one != other]
    return [f"answers differ from the disk's: prompt {', '.join(map(str, differ))}"]


def describe(row: dict[str, Any]) -> str:
    """A decision in its own words."""
    return " ".join(str(row[name]) for name in ("decision", "reason", "tier", "mode") if row[name])


def outcome_of(seen: Result) -> str:
    """The decisions that count, each once; of a refused start all of them."""
    rows = seen.attaches if any(row["decision"] == Outcome.STRICT_MISS.value for row in seen.attaches) else seen.decided
    return ", ".join(dict.fromkeys(describe(row) for row in rows))
