"""`wcache preload`: an engine's own loading, once, so that the first server maps what it made."""

from __future__ import annotations

import click
import msgspec

from wcache.cli.command import WcacheCommand, current_app, example
from wcache.cli.output import print_document
from wcache.cli.text import duration, escape
from wcache.core.model.errors import EXIT_FINDING, EXIT_OK

PRELOAD_HELP = """Let vLLM load once, and keep what it made of the weights for its servers.

COMMAND is that of the server, `vllm serve MODEL …`, without --load-format: the tensors depend on all of it. Runs in the environment that
vLLM is installed in, and ends before a server would start. Exits with 1 when not every rank's tensors are resident afterwards.

"""


@click.command(
    "preload",
    cls=WcacheCommand,
    context_settings={"ignore_unknown_options": True},
    help=PRELOAD_HELP + example("wcache preload -- vllm serve ./my-model --dtype bfloat16"),
    short_help="Let vLLM load once, and keep what it made of the weights.",
)
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
def preload(command: tuple[str, ...]) -> int:
    from wcache.loader.vllm_preload import prepare

    found = prepare(command, current_app().settings())
    what = f"{len(found.published)} published, {found.mapped} resident already"
    unused = f"; not about loading: {' '.join(found.unused)}" if found.unused else ""
    word = "READY" if found.complete else "INCOMPLETE"
    text = f"{word}: {found.ranks} ranks, {what}, {duration(found.seconds)}, launch {found.launch}{unused}"
    print_document({**msgspec.to_builtins(found), "complete": found.complete}, escape(text))
    return EXIT_OK if found.complete else EXIT_FINDING
