"""`wcache ledger key | checkpoint | export | verifier`: what lets somebody else check the ledger."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from wcache.cli import table
from wcache.cli.command import LazyGroup, WcacheCommand, current_app, example
from wcache.cli.output import print_document
from wcache.cli.progress import progress
from wcache.core.model.errors import UsageError

if TYPE_CHECKING:
    from wcache.ledger.signed_checkpoint import Made

KEY_HELP = """Make or show the key that signs checkpoints of the ledger.

Whoever has the private key can sign a ledger that never was. Keep it where the daemon's user cannot read it, best on another machine
that gets a copy of the ledger; and give the public key to whoever will check.
"""


@click.group("key", cls=LazyGroup, help=KEY_HELP, short_help="Make or show the key that signs checkpoints of the ledger.")
def key() -> None:
    pass


@key.command(
    "new",
    help="Make an Ed25519 key in a new FILE, readable by you alone, and print its public key.\n\n"
    + example("wcache ledger key new signing.key --name example.com/ledgers"),
)
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@click.option(
    "--name", help="What signatures say who signed: a URL without https://. Default: the checkpoints' first line, of this ledger."
)
def new(file: Path, name: str | None) -> None:
    from wcache.ledger.signing import SigningKey

    made = SigningKey.generate(name or _origin_line())
    made.write(file)
    _print_key(file, made)


def _origin_line() -> str:
    from wcache.core.model.errors import NotFound
    from wcache.ledger.note import ORIGIN_LINE
    from wcache.ledger.store import Ledger

    try:
        with Ledger.open(current_app().settings().ledger, read_only=True) as ledger:
            return ORIGIN_LINE + ledger.origin
    except NotFound as error:
        raise UsageError("a key needs a name", remedy="give --name, such as example.com/ledgers") from error


@key.command("show", help="Print the public key of the private key in FILE.\n\n" + example("wcache ledger key show signing.key"))
@click.argument("file", type=click.Path(path_type=Path))
def show(file: Path) -> None:
    from wcache.ledger.signing import SigningKey

    _print_key(file, SigningKey.read(file))


def _print_key(file: Path, held: object) -> None:
    from wcache.ledger.signing import SigningKey

    assert isinstance(held, SigningKey)  # noqa: S101
    public = held.public
    print_document({"key": str(file), "name": public.name, "id": public.id.hex(), "public_key": public.text}, public.text)


CHECKPOINT_HELP = """Sign what the ledger says now, for those who will check it later.

Writes a signed checkpoint (origin, number of events, Merkle root; c2sp.org/tlog-checkpoint), records checkpoint.signed, and hands the note
to a URL or a command. What is posted where the daemon's user cannot change it can no longer be cut off or rewritten unseen. Nothing is
signed when the ledger contradicts the last checkpoint; when nothing happened since, that one stands and is posted again.

"""


@click.command(
    "checkpoint",
    cls=WcacheCommand,
    help=CHECKPOINT_HELP + example("wcache ledger checkpoint --key signing.key --post https://log.example.com/checkpoints"),
)
@click.option("--key", "key_file", required=True, metavar="FILE", type=click.Path(path_type=Path), help="The file with the private key.")
@click.option(
    "--out", metavar="FILE", type=click.Path(path_type=Path), help="The note, with the last one in it. Default: beside the ledger."
)
@click.option("--post", metavar="URL", help="POST the note there, as text/plain.")
@click.option("--command", metavar="COMMAND", help="Run this (no shell) with the note on its standard input.")
@click.option("--no-record", is_flag=True, help="Only read the ledger: for a copy of it beside the key.")
def checkpoint(key_file: Path, out: Path | None, post: str | None, command: str | None, no_record: bool) -> None:
    from wcache.ledger.posting import check_url, post_url, run_command, split_command
    from wcache.ledger.signed_checkpoint import make_checkpoint
    from wcache.ledger.signing import SigningKey

    app = current_app()
    path = (app.settings() if no_record else app.keeper_settings()).ledger
    words = None if command is None else split_command(command)
    if post is not None:
        check_url(post)
    held = SigningKey.read(key_file)
    with progress("hash", unit="events") as update:
        made = make_checkpoint(path, held, out, record=not no_record, progress=update)
    posted: dict[str, object] = {}
    if post is not None:
        posted["posted"] = f"{post.partition('?')[0]} ({post_url(post, made.checkpoint.text)})"
    if words is not None:
        run_command(words, made.checkpoint.text)
        posted["command"] = f"{command} (0)"
    _print_made(made, held.public.text, posted)


def _print_made(made: Made, public_key: str, posted: dict[str, object]) -> None:
    signed = made.checkpoint
    document = {
        "checkpoint": made.path, "new": made.new, "origin": signed.origin, "size": signed.size, "root": signed.root.hex(),
        "previous_size": made.previous_size, "recorded_seq": made.recorded_seq, "public_key": public_key, **posted, "note": signed.text,
    }  # fmt: skip
    shown = {name: document[name] for name in ("checkpoint", "origin", "size", "root", "recorded_seq", "public_key")} | posted
    since = "" if made.previous_size is None else f", {signed.size - made.previous_size} events after the last one"
    verdict = f"signed{since}" if made.new else "nothing happened since the last one, which stands"
    print_document(document, table.fields({**shown, "result": verdict}))


EXPORT_HELP = """Write the ledger to FILE as JSON lines, with everything that is needed to check it without wcache.

Works beside a running daemon. `-` is standard output. `wcache ledger verifier` prints the program that checks it.

"""


@click.command("export", cls=WcacheCommand, help=EXPORT_HELP + example("wcache ledger export ledger.jsonl"))
@click.argument("file", metavar="FILE", type=click.Path(dir_okay=False, allow_dash=True, path_type=Path))
def export(file: Path) -> None:
    from wcache.ledger.export import export_to

    path = current_app().settings().ledger
    with progress("export", unit="events") as update:
        if str(file) == "-":
            export_to(path, sys.stdout.buffer, update)
            return
        events = export_to(path, file, update)
    print_document({"ledger": str(path), "export": str(file), "events": events}, f"{file}: {events} events")


VERIFIER_HELP = """Print a program that checks an export against a signed checkpoint, and needs nothing but Python 3.8.

It is below 120 lines, so that an auditor can read it before running it.

"""


@click.command("verifier", cls=WcacheCommand, help=VERIFIER_HELP + example("wcache ledger verifier > verify_export.py"))
def verifier() -> None:
    from importlib.resources import files

    text = (files("wcache.ledger") / "verify_export.py").read_text(encoding="utf-8")
    print_document({"name": "verify_export.py", "text": text}, text.removesuffix("\n"))
