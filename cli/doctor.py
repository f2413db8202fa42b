"""`wcache doctor`."""

from __future__ import annotations

import click
import msgspec

from wcache.cli import table
from wcache.cli.command import WcacheCommand, current_app, example
from wcache.cli.output import print_document
from wcache.core.model.errors import EXIT_FINDING, EXIT_OK, UsageError

DOCTOR_HELP = """Check this machine for what wcache needs: each check is ok, warn or fail, with a remedy.

With CHECKPOINT it is looked at too: can it be read, and does a hash of it hold where it lies? Exits with 1 when a check fails.

"""


@click.command(
    "doctor",
    cls=WcacheCommand,
    help=DOCTOR_HELP + example("wcache doctor", "wcache doctor ./my-model"),
    short_help="Check this machine for what wcache needs.",
)
@click.argument("checkpoint", required=False)
def doctor(checkpoint: str | None) -> int:
    from wcache.cli.checks import examine, fail

    try:
        findings = examine(current_app().settings(), checkpoint)
    except UsageError as error:  # a socket path that is too long, a bad setting: nothing else can be looked at
        findings = [fail("settings", str(error), error.remedy)]
    rows = [msgspec.to_builtins(finding) for finding in findings]
    failed = [row["check"] for row in rows if row["state"] == "fail"]
    print_document({"ok": not failed, "checks": rows}, table.render(rows, ("check", "state", "found", "remedy")))
    return EXIT_FINDING if failed else EXIT_OK
