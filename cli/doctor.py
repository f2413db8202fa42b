"""`wcache doctor`."""

from __future__ import annotations

import click
import msgspec

from wcache.cli import table
from wcache.cli.command import WcacheCommand, current_app, example
from wcache.cli.output import print_document
from wcache.core.model.errors import EXIT_FINDING, EXIT_OK

DOCTOR_HELP = "Check this machine for what wcache needs: each check is ok, warn or fail, with a remedy.\n\nExits with 1 when one fails.\n\n"


@click.command(
    "doctor", cls=WcacheCommand, help=DOCTOR_HELP + example("wcache doctor"), short_help="Check this machine for what wcache needs."
)
def doctor() -> int:
    from wcache.cli.checks import examine

    rows = [msgspec.to_builtins(finding) for finding in examine(current_app().settings())]
    failed = [row["check"] for row in rows if row["state"] == "fail"]
    print_document({"ok": not failed, "checks": rows}, table.render(rows, ("check", "state", "found", "remedy")))
    return EXIT_FINDING if failed else EXIT_OK
