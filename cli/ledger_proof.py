"""`wcache ledger proof inclusion | consistency | check`: RFC 6962's proofs, as files."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import click

from wcache.cli import table
from wcache.cli.command import LazyGroup, Number, current_app, example
from wcache.cli.output import print_document
from wcache.cli.text import escape
from wcache.core.model.errors import NotFound, UsageError

PROOF_HELP = """Prove that an event is in the ledger, or that the ledger only grew, to somebody who has neither.

A proof goes with the checkpoint that it is about, fits into a file of some kilobytes, and is checked without the ledger.
"""

INCLUSION_HELP = """Print the proof that event SEQ is among those that were signed (c2sp.org/tlog-proof).

The event itself is in it, with its payload: it tells that one, and nothing of any other.

"""

CONSISTENCY_HELP = """Print the proof that what was signed in OLD is the beginning of what was signed later.

It is the request that a witness takes (c2sp.org/tlog-witness): POST it to its add-checkpoint. OLD is a signed checkpoint or the number of
events that it was signed for.

"""

CHECK_HELP = """Check a proof, without any ledger: exits with 1 when it does not hold.

`-` is standard input. The public key has to come by another way than the proof.

"""

CHECKPOINT = click.option(
    "--checkpoint",
    "note",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="The signed checkpoint. Default: the one beside the ledger.",
)


@click.group(
    "proof",
    cls=LazyGroup,
    help=PROOF_HELP,
    short_help="Prove that an event is in the ledger, or that the ledger only grew, to somebody who has neither.",
)
def proof() -> None:
    pass


@proof.command("inclusion", help=INCLUSION_HELP + example("wcache ledger proof inclusion 37 > event-37.tlog-proof"))
@click.argument("seq", type=Number(min=1))
@CHECKPOINT
def inclusion(seq: int, note: Path | None) -> None:
    from wcache.ledger.note import read_checkpoint
    from wcache.ledger.proofs import prove_inclusion
    from wcache.ledger.signed_checkpoint import default_path

    path = current_app().settings().ledger
    text = prove_inclusion(path, seq, read_checkpoint(note or default_path(path)))
    print_document({"seq": seq, "proof": text}, text.removesuffix("\n"))


@proof.command("consistency", help=CONSISTENCY_HELP + example("wcache ledger proof consistency last-month.checkpoint > grown.proof"))
@click.argument("old")
@CHECKPOINT
def consistency(old: str, note: Path | None) -> None:
    from wcache.ledger.note import read_checkpoint
    from wcache.ledger.proofs import prove_consistency
    from wcache.ledger.signed_checkpoint import default_path

    path = current_app().settings().ledger
    size = int(old) if old.isdecimal() and len(old) < 19 else read_checkpoint(old).size
    text = prove_consistency(path, size, read_checkpoint(note or default_path(path)))
    print_document({"old_size": size, "proof": text}, text.removesuffix("\n"))


@proof.command("check", help=CHECK_HELP + example("wcache ledger proof check event-37.tlog-proof --public-key signer.pub"))
@click.argument("file", metavar="FILE", type=click.Path(dir_okay=False, allow_dash=True, path_type=Path))
@click.option(
    "--public-key", "keys", multiple=True, required=True, metavar="KEY", help="Whose signature counts: name+id+base64, or a file."
)
@click.option("--old", metavar="FILE", type=click.Path(path_type=Path), help="The older checkpoint, for a consistency proof.")
def check(file: Path, keys: Sequence[str], old: Path | None) -> None:
    from wcache.ledger.note import read_checkpoint
    from wcache.ledger.proofs import check_proof
    from wcache.ledger.signing import read_public_key

    text = _read(file)
    shown = check_proof(
        text, [read_public_key(item) for item in keys], None if old is None else read_checkpoint(old), "" if str(file) == "-" else str(file)
    )
    signed = shown.checkpoint
    about: dict[str, object] = {
        "proof": shown.kind,
        "origin": signed.origin,
        "size": signed.size,
        "root": signed.root.hex(),
        "signed_by": list(shown.signers),
    }
    if shown.old_origin is not None:
        about |= {"old_origin": shown.old_origin, "old_size": shown.old_size}
    document = {**about, "event": shown.event}
    if shown.event is None:
        verdict = f"holds: the first {shown.old_size} events are what they were"
        event = {}
    else:
        verdict = f"holds: event {shown.event['seq']} is among the {signed.size} that were signed"
        event = {name: shown.event[name] for name in ("seq", "stream", "type", "recorded_ns")}
        event["payload"] = shown.event["payload"] or "not shown, or redacted"
    shown_fields = {**about, "signed_by": ", ".join(shown.signers), **event, "result": verdict}
    print_document(document, table.fields({name: escape(v) if isinstance(v, str) else v for name, v in shown_fields.items()}))


def _read(file: Path) -> str:
    try:
        raw = sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()
        return raw.decode()
    except FileNotFoundError:
        raise NotFound("there is no such proof", where=str(file)) from None
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"the proof cannot be read: {error}", where=str(file)) from error
