"""`wcache trust grant | revoke | ls`: an operator's word, with its reason and its end."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click
import msgspec

from wcache.cli.command import LazyGroup, current_app, example
from wcache.cli.output import print_document, print_rows
from wcache.cli.progress import progress
from wcache.cli.service import daemon_channel
from wcache.cli.text import escape, short
from wcache.core.model.errors import UsageError
from wcache.core.model.vocabulary import TrustScope

if TYPE_CHECKING:
    from wcache.core.model.evidence import Grant

TRUST_HELP = """Grant, revoke or list an operator's trust.

Trust is evidence only where a policy honours it (trusted = "honour", `wcache check --trusted`). It can be wrong: the ledger keeps who
granted it, why and until when, and `wcache audit prove` looks at the hits that rest on it.
"""


@click.group("trust", cls=LazyGroup, help=TRUST_HELP, short_help="Grant, revoke or list an operator's trust.")
def trust() -> None:
    pass


GRANT_HELP = """Vouch for a checkpoint, a residency, the daemon's first look, or a store.

\b
CHECKPOINT      in exactly this spelling (and its absolute and real path) is
                what it is now; it is hashed unless the ledger knows it
--residency ID  whoever asks by a name it was loaded by gets it
--instance      what the running daemon hashed first under a name holds
                until that daemon ends
--store PREFIX  nothing below this directory ever changes, so pins hold
                there on a network file system

"""


@trust.command("grant", help=GRANT_HELP + example("wcache trust grant ./my-model --reason 'release 12, checked by hand' --expires 30d"))
@click.argument("checkpoint", required=False)
@click.option("--residency", metavar="ID", help="Vouch for resident weights, by their id or its beginning.")
@click.option("--instance", is_flag=True, help="Vouch for what the running daemon hashed first.")
@click.option("--store", metavar="PREFIX", help="Vouch that nothing below this directory changes.")
@click.option("--reason", required=True, help="Why; it is kept in the ledger.")
@click.option("--expires", metavar="TIME", help="When it ends: a span (45m, 12h, 30d) or RFC 3339. Default: when it is revoked.")
@click.option("--revision", help="Revision of a Hugging Face id.")
def grant(
    checkpoint: str | None,
    residency: str | None,
    instance: bool,
    store: str | None,
    reason: str,
    expires: str | None,
    revision: str | None,
) -> None:
    from wcache.ledger import trust as trusting
    from wcache.ledger.moment import parse_moment_ns
    from wcache.ledger.store import Ledger

    if sum((checkpoint is not None, residency is not None, instance, store is not None)) != 1:
        raise UsageError("name one of CHECKPOINT, --residency, --instance, --store", remedy="see `wcache trust grant --help`")
    if not reason.strip():
        raise UsageError("a grant without a reason", where="--reason", remedy="say why: it is what an audit will show")
    now_ns = time.time_ns()
    expires_ns = parse_moment_ns(expires, now_ns, ahead=True) if expires else None
    if expires_ns is not None and expires_ns <= now_ns:
        raise UsageError("this is in the past", where=f"--expires {expires}")
    settings = current_app().keeper_settings()
    running = None
    if instance:
        with daemon_channel() as channel:
            running = channel.welcome.instance
    terms = trusting.Terms(reason=reason, granted_ns=now_ns, expires_ns=expires_ns)
    with Ledger.open(settings.ledger) as ledger:
        if checkpoint is not None:
            with progress(f"hash {checkpoint}") as update:
                made, seq = trusting.grant_checkpoint(ledger, checkpoint, terms, settings.policy, revision=revision, progress=update)
        elif residency is not None:
            made, seq = trusting.grant_residency(ledger, residency, terms)
        elif store is not None:
            made, seq = trusting.grant_store(ledger, store, terms)
        else:
            made, seq = trusting.grant_instance(ledger, str(running), terms)
    print_document({"seq": seq, **msgspec.to_builtins(made)}, f"{made.grant}: trust granted for {_about(made)} (seq {seq})")


def _about(made: Grant) -> str:
    if made.scope is TrustScope.CHECKPOINT:
        return f"{escape(made.spellings[0])} as {short(made.weights_digest, 16)}"
    if made.scope is TrustScope.STORE:
        return f"the store {escape(made.prefix or '')}"
    return f"{made.scope} {made.residency or made.instance}"


@trust.command("revoke", help="Take a grant back.\n\n" + example("wcache trust revoke g-1f2e3d4c --reason 'the files were replaced'"))
@click.argument("grant_id", metavar="ID")
@click.option("--reason", default="", help="Why; it is kept in the ledger.")
def revoke(grant_id: str, reason: str) -> None:
    from wcache.ledger import trust as trusting
    from wcache.ledger.store import Ledger

    with Ledger.open(current_app().keeper_settings().ledger, create=False) as ledger:
        found, seq = trusting.revoke(ledger, grant_id, reason)
    print_document({"grant": found, "state": "revoked", "seq": seq}, f"{found}: trust revoked (seq {seq})")


@trust.command("ls", help="List grants with their state and how many hits rest on them.\n\n" + example("wcache trust ls"))
def ls() -> None:
    print_grants()


GRANT_COLUMNS = ("grant", "scope", "about", "state", "hits", "operator_uid", "expires", "reason")


def print_grants() -> None:
    from wcache.ledger.audit import Audit
    from wcache.ledger.moment import utc

    with Audit(current_app().settings().ledger) as audit:
        rows = [{**row, "expires": utc(row["expires_ns"])} for row in audit.trust(time.time_ns())]
    print_rows(rows, GRANT_COLUMNS, empty="No trust was ever granted.")
