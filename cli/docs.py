"""The reference of the command line, made from the commands themselves: docs/reference/cli.md."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click

from wcache.cli.main import cli
from wcache.core.model import errors

_EXIT_TEXT = {
    "EXIT_OK": "done; for `check`: a hit",
    "EXIT_FINDING": "the command worked and found something: a wrong hit, an incomplete launch, a problem; for `check`: a fallback",
    "EXIT_USAGE": "a command line or setting that cannot be meant",
    "EXIT_CHECKPOINT": "the checkpoint is invalid, unreadable, or changed meanwhile",
    "EXIT_NOT_FOUND": "nobody knows this residency, launch, seq, grant or ledger",
    "EXIT_STATE": "not possible in this state (a daemon runs already, an illegal transition)",
    "EXIT_DAEMON": "no usable daemon",
    "EXIT_REFUSED": "understood and refused",
    "EXIT_LEDGER": "the ledger cannot be opened, read or written",
    "EXIT_RESOURCES": "no room, or a mapping failed",
    "EXIT_MISS": "a strict miss",
    "EXIT_UNPROVABLE": "nothing wrong was found, but a hit can neither be proved nor refuted any more",
    "EXIT_INTERNAL": "an unforeseen error; WCACHE_DEBUG=1 shows where",
    "EXIT_INTERRUPTED": "interrupted (Ctrl+C)",
}


def walk_commands() -> Iterator[tuple[tuple[str, ...], click.Command, click.Context]]:
    """Every command and group with its path, depth first, `wcache` itself first."""

    def below(path: tuple[str, ...], command: click.Command, parent: click.Context | None) -> Iterator[Any]:
        context = click.Context(command, info_name=path[-1], parent=parent)
        yield path, command, context
        if isinstance(command, click.Group):
            for name in command.list_commands(context):
                member = command.get_command(context, name)
                if member is not None:
                    yield from below((*path, name), member, context)

    yield from below(("wcache",), cli, None)


def render_cli_reference() -> str:
    """The whole page, in Markdown."""
    lines = [
        "# Command line",
        "",
        "Made from the commands by `make docs`. Every command takes `--json` (one JSON document on stdout) and `--help`. Errors are one",
        "line on stderr, `wcache: where: what; what to do`, and with `--json` also an object on stdout:",
        '`{"error": {"code", "what", "where", "remedy", "detail"}}`.',
        "",
        "## Exit codes",
        "",
        "| code | says |",
        "| ---: | --- |",
        *(f"| {getattr(errors, name)} | {text} |" for name, text in _EXIT_TEXT.items()),
        "",
    ]
    for path, command, context in walk_commands():
        lines += [f"## `{' '.join(path)}`", "", "```", _usage(command, context), "```", "", *_help(command), ""]
        options = [_option(parameter) for parameter in command.params if isinstance(parameter, click.Option) and not parameter.hidden]
        if options:
            lines += ["| option | |", "| --- | --- |", *options, ""]
    return "\n".join(lines).rstrip() + "\n"


def _usage(command: click.Command, context: click.Context) -> str:
    return " ".join([context.command_path, *command.collect_usage_pieces(context)])


def _help(command: click.Command) -> list[str]:
    """click's \\b paragraphs are kept as they are, as code."""
    found: list[str] = []
    for paragraph in (command.help or "").strip().split("\n\n"):
        if paragraph.startswith("\b\n"):
            found += ["```", paragraph[2:].rstrip(), "```", ""]
        else:
            found += [paragraph.strip(), ""]
    return found[:-1]


def _option(option: click.Option) -> str:
    names = ", ".join(f"`{name}`" for name in (*option.opts, *option.secondary_opts))
    values = f" {'|'.join(option.type.choices)}" if isinstance(option.type, click.Choice) else ""
    shown = f" {option.metavar}" if option.metavar else values
    text = (option.help or "").replace("|", "\\|")
    return f"| {names}{shown.replace('|', chr(92) + '|')} | {text} |"
