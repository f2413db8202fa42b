"""What `wcache doctor` looks at: each check answers ok, warn or fail, with what was found and what to do."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from wcache.core.model.errors import WcacheError
from wcache.core.settings import Settings


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One check. `state` is ok, warn (works, with a limit) or fail (does not work)."""

    check: str
    state: str
    found: str
    remedy: str = ""


class Subject(msgspec.Struct, frozen=True, kw_only=True):
    """What is examined. `root` is where proc and sys lie."""

    settings: Settings
    checkpoint: str | None = None
    root: Path = Path("/")


Check = Callable[[Subject], Iterator[Finding]]


def ok(check: str, found: str) -> Finding:
    return Finding(check=check, state="ok", found=found)


def warn(check: str, found: str, remedy: str) -> Finding:
    return Finding(check=check, state="warn", found=found, remedy=remedy)


def fail(check: str, found: str, remedy: str) -> Finding:
    return Finding(check=check, state="fail", found=found, remedy=remedy)


def examine(settings: Settings, checkpoint: str | None = None, root: Path = Path("/")) -> list[Finding]:
    """All checks, in the order in which they build on each other. None raises: a check that cannot be done is a finding."""
    from wcache.cli import daemon_checks, host_checks, place_checks

    subject = Subject(settings=settings, checkpoint=checkpoint, root=root)
    findings: list[Finding] = []
    for check in (*host_checks.CHECKS, *place_checks.CHECKS, *daemon_checks.CHECKS):
        findings += carried_out(check, subject)
    return findings


def carried_out(check: Check, subject: Subject) -> list[Finding]:
    findings: list[Finding] = []
    name = check.__name__.replace("_", " ")
    try:
        findings.extend(check(subject))
    except WcacheError as error:
        findings.append(fail(name, str(error), error.remedy))
    except Exception as error:  # a machine may be odd in any way; the other checks still count
        findings.append(warn(name, f"could not be checked: {type(error).__name__}: {error}", "run as the daemon's user, or as root"))
    return findings
