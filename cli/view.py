"""`wcache view`: resident weights as a directory, for tools that cannot be changed."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from wcache.cli.command import WcacheCommand, current_app, example
from wcache.cli.output import print_json
from wcache.cli.progress import progress
from wcache.cli.text import escape
from wcache.core.model.errors import EXIT_OK, UsageError

if TYPE_CHECKING:
    from wcache.core.wire.messages import Progress
    from wcache.loader.view import View

VIEW_HELP = """Show resident weights as a directory that any tool can read.

The directory has the checkpoint's configuration and tokenizer, and at each shard's place a link to its sealed memory. Tools of the same
user in the same pid namespace read it like any checkpoint; nobody can write it. It is leased while it exists. On a miss its links lead
to the disk, or with --strict there is none. Other weights beside the shards, such as an adapter or those in folders, are links to the
disk, and named.

Without COMMAND it exists until Ctrl+C or SIGTERM, and its path is printed on stdout. With COMMAND it exists as long as that runs; {view}
in its arguments, and WCACHE_VIEW in its environment, are the path. Exits with the status of the command.

DIRECTORY must be absent or empty; by default a new one below the runtime directory. The view of a holder that was killed dangles, and is
removed by the next one.

"""

_COMMAND = "wcache.view.command"


class _ViewCommand(WcacheCommand):
    """What stands behind `--` is a command, whatever it looks like."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        own = args[: args.index("--")] if "--" in args else args
        ctx.meta[_COMMAND] = args[len(own) + 1 :]
        if "--" in args and not ctx.meta[_COMMAND]:
            raise UsageError("no command behind --", remedy="name one, or leave out the --")
        return super().parse_args(ctx, list(own))

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        return [*super().collect_usage_pieces(ctx), "[-- COMMAND [ARGUMENT]...]"]


@click.command(
    "view",
    cls=_ViewCommand,
    help=VIEW_HELP + example("wcache view ./my-model", "wcache view ./my-model -- python evaluate.py --model {view}"),
    short_help="Show resident weights as a directory that any tool can read.",
)
@click.argument("checkpoint")
@click.argument("directory", required=False, type=click.Path(path_type=Path))
@click.option("--revision", help="Revision of a Hugging Face id.")
@click.option("--strict", is_flag=True, help="A miss is an error instead of links to the disk.")
def view(checkpoint: str, directory: Path | None, revision: str | None, strict: bool) -> int:
    from wcache.loader.view import make_view

    command: list[str] = click.get_current_context().meta[_COMMAND]
    if command and current_app().json:
        raise UsageError("--json and a command both want stdout", remedy="leave one of them out")
    settings = current_app().settings(on_miss="strict" if strict else None)
    waited = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    with progress(f"view {checkpoint}") as update:

        def show(message: Progress) -> None:
            update(message.done_bytes, message.total_bytes, message.phase)

        made = make_view(checkpoint, directory, settings, revision=revision, on_progress=show)
    try:
        signal.pthread_sigmask(signal.SIG_BLOCK, waited)  # from here on they are the way out, and the view goes first
        if command:
            click.echo(f"wcache: {escape(_sentence(made))}", err=True)
            return _run(command, str(made.path), before)
        if current_app().json:
            print_json(_document(made))
        else:
            click.echo(f"{made.path}")
            click.echo(f"wcache: {escape(_sentence(made))}; Ctrl+C removes it", err=True)
        signal.sigwait(waited)
    finally:
        made.close()
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return EXIT_OK


def _run(command: list[str], path: str, mask: set[int]) -> int:
    from wcache.cli.child import run_child

    environ = {**os.environ, "WCACHE_VIEW": path}
    return run_child([word.replace("{view}", path) for word in command], environ, mask=mask)


def _document(made: View) -> dict[str, Any]:
    decision = made.attachment.decision
    return {
        "view": str(made.path),
        "pid": os.getpid(),
        "attach": made.attachment.attach,
        "seq": made.attachment.seq,
        "decision": decision.outcome,
        "reason": decision.reason,
        "tier": decision.tier,
        "residency": decision.residency,
        "shards": list(made.shards),
        "on_disk": list(made.on_disk),
    }


def _sentence(made: View) -> str:
    decision = made.attachment.decision
    shards = f"{len(made.shards)} shard{'' if len(made.shards) == 1 else 's'}"
    seq = "-" if made.attachment.seq is None else made.attachment.seq
    if made.attachment.hit:
        rest = f"; from disk: {', '.join(made.on_disk)}" if made.on_disk else ""
        return f"{made.path}: {shards} of {decision.residency}, tier {decision.tier}, seq {seq}{rest}"
    return f"{made.path}: {shards} on disk, {decision.reason}, seq {seq}"
