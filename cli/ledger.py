"""`wcache ledger upgrade | verify | backup`, and the way to its other commands."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from wcache.cli import table
from wcache.cli.command import LazyGroup, current_app, example
from wcache.cli.output import print_document
from wcache.cli.progress import progress
from wcache.core.model.errors import EXIT_FINDING, EXIT_OK, UsageError

if TYPE_CHECKING:
    from wcache.ledger.verify import Report


COMMANDS = {
    "restore": ("wcache.cli.retention:restore", "Verify the backup FILE and make a copy of it the ledger."),
    "segment": ("wcache.cli.retention:segment", "Close segments of the ledger, and drop old ones."),
    "redact": ("wcache.cli.retention:redact", "Remove the words of events for ever: paths, names, reasons, messages."),
    "key": ("wcache.cli.ledger_signed:key", "Make or show the key that signs checkpoints of the ledger."),
    "checkpoint": ("wcache.cli.ledger_signed:checkpoint", "Sign what the ledger says now, for those who will check it later."),
    "proof": (
        "wcache.cli.ledger_proof:proof",
        "Prove that an event is in the ledger, or that the ledger only grew, to somebody who has neither.",
    ),
    "export": (
        "wcache.cli.ledger_signed:export",
        "Write the ledger to FILE as JSON lines, with everything that is needed to check it without wcache.",
    ),
    "verifier": (
        "wcache.cli.ledger_signed:verifier",
        "Print a program that checks an export against a signed checkpoint, and needs nothing but Python 3.8.",
    ),
}


@click.group("ledger", cls=LazyGroup, help="Upgrade, verify, back up, sign, export or shorten the ledger.", lazy=COMMANDS)
def ledger() -> None:
    pass


@ledger.command(
    "upgrade", help="Bring the ledger's schema to this release's. Stop the daemon first.\n\n" + example("wcache ledger upgrade")
)
def upgrade() -> None:
    from wcache.ledger.upgrade import upgrade as bring_up

    path = current_app().keeper_settings().ledger
    before, after = bring_up(path)
    text = f"{path}: schema {after}, nothing to do" if before == after else f"{path}: schema {before or 'none'} upgraded to {after}"
    print_document({"ledger": str(path), "before": before, "after": after}, text)


VERIFY_HELP = """Rebuild the ledger's chain, state and projections, and report every problem by seq and class.

Exits with 1 when there are problems. Rows removed at the very end, or a whole file written anew, can only be seen against a signed
checkpoint that lay elsewhere: give those that you kept with --checkpoint, and whose signature counts with --public-key.

"""


@ledger.command("verify", help=VERIFY_HELP + example("wcache ledger verify --checkpoint posted.checkpoint --public-key signer.pub"))
@click.option(
    "--checkpoint", "notes", multiple=True, metavar="FILE", type=click.Path(path_type=Path), help="A signed checkpoint; may be repeated."
)
@click.option("--public-key", "keys", multiple=True, metavar="KEY", help="Whose signature counts: name+id+base64, or a file with it.")
def verify(notes: Sequence[Path], keys: Sequence[str]) -> int:
    from wcache.ledger.against import Given
    from wcache.ledger.signing import read_public_key
    from wcache.ledger.verify import verify as examine

    if keys and not notes:
        raise UsageError("a public key is for signed checkpoints", remedy="give --checkpoint too")
    path = current_app().settings().ledger
    given = Given.read(notes, [read_public_key(item) for item in keys])
    with progress("verify", unit="events") as update:
        report = examine(path, update, given)
    return _print_report(report, {"ledger": str(path)})


def _print_report(report: Report, about: dict[str, str]) -> int:
    document = {**about, "ok": report.ok, **msgspec.to_builtins(report)}
    rows = [msgspec.to_builtins(problem) for problem in report.problems]
    verdict = f"{len(rows)} problems" if rows else "ok: chain, state and projections are what the events say"
    known = {"origin": report.origin, "events": report.events, "head": f"{report.head_seq} {report.head_chain}", "result": verdict}
    parts = [table.fields({**about, **known}), *([table.render(rows, tuple(rows[0]))] if rows else []), *report.notes]
    print_document(document, "\n\n".join(parts))
    return EXIT_OK if report.ok else EXIT_FINDING


@ledger.command(
    "backup",
    help="Copy the ledger, beside a running daemon, to a new FILE, and verify the copy.\n\n"
    + example("wcache ledger backup ledger-monday.sqlite"),
)
@click.argument("target", metavar="FILE", type=click.Path(dir_okay=False, path_type=Path))
def backup(target: Path) -> int:
    from wcache.ledger.backup import backup as copy

    path = current_app().settings().ledger
    with progress("verify the copy", unit="events") as update:
        report = copy(path, target, update)
    return _print_report(report, {"ledger": str(path), "backup": str(target)})
