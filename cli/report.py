"""`wcache report`: what happened in a period, for people who were not there."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from wcache.cli.command import WcacheCommand, current_app, example
from wcache.cli.output import print_json
from wcache.cli.progress import progress
from wcache.cli.text import escape, size
from wcache.core.model.errors import EXIT_FINDING, EXIT_OK, UsageError

if TYPE_CHECKING:
    from wcache.ledger.report.model import Report

HELP = """Report what was served, what fell back, what is unproven, and whether the record is whole.

Without --format the answers, on the terminal. Formats: html is one file for people, complete in itself, without network; jsonl has every
row, one object a line; csv has one file a list; cyclonedx is a bill of materials of the weights (1.7); intoto is a statement about them,
signed (DSSE, Ed25519). The whole ledger is verified too, which takes a while for millions of events; --no-verify leaves it out, and the
report says so. Times are UTC; TIME is RFC 3339, a date, or a span ago (30d).

Exits with 1 when the report tells of a wrong hit, or of a problem in the ledger.

"""
_EXAMPLE = example(
    "wcache report --since 30d",
    "wcache report --since 2026-11-01 --until 2026-12-01 --format html --out november.html",
    "wcache report --since 30d --format intoto --key report.key --about november.html --out november.intoto.json",
)
_FORMATS = ("html", "jsonl", "csv", "cyclonedx", "intoto")


@click.command("report", cls=WcacheCommand, help=HELP + _EXAMPLE, short_help="Report a period of the ledger, for people and for tools.")
@click.option("--since", metavar="TIME", help="From then on; by default from the ledger's first event.")
@click.option("--until", metavar="TIME", help="Before then; by default all that is recorded.")
@click.option("--format", "form", type=click.Choice(_FORMATS), help="What to make; by default the answers, as text.")
@click.option("--out", "-o", type=click.Path(path_type=Path), metavar="PATH", help="Where to write; a directory for csv. Default: stdout.")
@click.option(
    "--key", type=click.Path(path_type=Path), metavar="FILE", help="The private key that signs (intoto); `wcache ledger key new` makes one."
)
@click.option(
    "--about",
    "files",
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="A file that the statement also vouches for (intoto).",
)
@click.option("--no-verify", is_flag=True, help="Do not verify the ledger; the report says that it was not.")
def report(
    since: str | None, until: str | None, form: str | None, out: Path | None, key: Path | None, files: tuple[Path, ...], no_verify: bool
) -> int:
    from wcache.ledger.durable import replace_file
    from wcache.ledger.moment import LAST_NS, parse_moment_ns
    from wcache.ledger.report.collect import collect
    from wcache.ledger.report.formats import render, require, rows_kept, write_sheets
    from wcache.ledger.report.model import Period
    from wcache.ledger.signing import SigningKey

    _check(form, out, key, files)
    now_ns = time.time_ns()
    since_ns = parse_moment_ns(since, now_ns) if since else None
    until_ns = parse_moment_ns(until, now_ns) if until else LAST_NS
    if since_ns is not None and since_ns >= min(until_ns, now_ns):
        raise UsageError("the period is empty", where=f"--since {since}", remedy="it must begin before --until, and before now")
    period = Period(since_ns=since_ns, until_ns=until_ns)
    if form is not None:
        require(form)
    signer = SigningKey.read(key) if key is not None else None
    with progress("verify", unit="events") as update:
        found = collect(current_app().settings().ledger, period, limit=rows_kept(form), verify=not no_verify, progress=update)
    written: list[Path] = []
    if out is not None and form == "csv":
        written = write_sheets(out, found)
    elif out is not None and form is not None:
        replace_file(out, render(found, form, signer, files), remedy="give --out a place that exists")
        written = [out]
    elif form is not None:
        for block in render(found, form, signer, files):
            click.echo(block.decode(), nl=False)
    if form is None or written:
        _print(found, written)
    return EXIT_FINDING if found.totals.wrong_hits or found.verification.problems else EXIT_OK


def _check(form: str | None, out: Path | None, key: Path | None, files: tuple[Path, ...]) -> None:
    """What cannot be meant together is refused before any work is done."""
    if form is None and out is not None:
        raise UsageError("a file needs a format", where=f"--out {out}", remedy="add --format html (or jsonl, csv, cyclonedx, intoto)")
    if form == "csv" and out is None:
        raise UsageError("csv is one file for each list", where="--format csv", remedy="add --out DIRECTORY")
    if form == "intoto" and key is None:
        remedy = "make a key with `wcache ledger key new` and add --key FILE"
        raise UsageError("a statement has to be signed", where="--format intoto", remedy=remedy)
    if form != "intoto" and (key is not None or files):
        raise UsageError("only a statement is signed", where="--key" if key is not None else "--about", remedy="add --format intoto")
    if form is not None and out is None and current_app().json:
        raise UsageError("--json and the report both want stdout", where=f"--format {form}", remedy="add --out PATH")


def _print(found: Report, written: list[Path]) -> None:
    from wcache.ledger.report.answers import answers
    from wcache.ledger.report.lines import about
    from wcache.ledger.report.text import render_text

    if current_app().json:
        said = [
            {"question": answer.question, "verdict": answer.verdict, "text": answer.text, "more": answer.more} for answer in answers(found)
        ]
        print_json({"written": [str(path) for path in written], "answers": said, **about(found)})
    elif written:
        total_bytes = sum(path.stat().st_size for path in written)
        where = written[0] if len(written) == 1 else f"{written[0].parent}, {len(written)} files"
        click.echo(f"{escape(str(where))}: {size(total_bytes)}")
        click.echo("\n".join(f"{answer.question} {escape(answer.text)}" for answer in answers(found)))
    else:
        click.echo(render_text(found))
