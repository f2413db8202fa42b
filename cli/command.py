"""What all commands share: lazily imported groups, `--json`, the places options, and the context they hand on."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from wcache.core.settings import Settings

C = TypeVar("C", bound=Callable[..., Any])

_PLACES = {
    "runtime_dir": "Directory of the daemon's socket and lock. Default: WCACHE_RUNTIME_DIR, then the system's place for it.",
    "state_dir": "Directory of ledger, seeds and logs. Default: WCACHE_STATE_DIR, then the system's place for it.",
    "ledger": "The ledger's SQLite file. Default: WCACHE_LEDGER, then ledger.sqlite in the state directory.",
}


class App:
    """The one object behind a run of `wcache`: where things lie, and whether the answer is for a program."""

    def __init__(self) -> None:
        self.places: dict[str, Any] = {}
        self.json = False

    def settings(self, **policy: Any) -> Settings:
        """Settings with this command line's places and policy over files and environment. Raises UsageError."""
        from wcache.core.settings import load_settings

        return load_settings(**self.places, **policy)

    def keeper_settings(self) -> Settings:
        """As `settings()`, for a command that writes the ledger. Raises RequestRefused where that is another user's."""
        from wcache.core.model.errors import RequestRefused

        settings = self.settings()
        if settings.foreign:
            what = f"the daemon is uid {settings.daemon_uid}'s, and only that user writes its ledger"
            raise RequestRefused(what, remedy="ask that user to do it, or unset WCACHE_DAEMON_UID", detail="not_owner")
        return settings


class Number(click.IntRange):
    """A whole number of those that a ledger can hold (64 bits, https://sqlite.org/datatype3.html), which need not be said in each help."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        found = super().convert(value, param, ctx)
        if found >= 1 << 63:
            self.fail(f"{value} is more than any number in a ledger.", param, ctx)
        return found


def current_app() -> App:
    context = click.get_current_context()
    app: App = context.ensure_object(App)
    return app


def _keep_place(context: click.Context, parameter: click.Parameter, value: str | None) -> None:
    if value is not None and parameter.name is not None:
        context.ensure_object(App).places[parameter.name] = value


def _keep_json(context: click.Context, parameter: click.Parameter, value: bool) -> None:
    if value:
        context.ensure_object(App).json = True


def place_options(*, hidden: bool) -> list[click.Parameter]:
    return [
        click.Option(
            [f"--{name.replace('_', '-')}"],
            metavar="PATH",
            help=text,
            expose_value=False,
            is_eager=True,
            hidden=hidden,
            callback=_keep_place,
        )
        for name, text in _PLACES.items()
    ]


class WcacheCommand(click.Command):
    """A command with `--json`; the places options are accepted behind it too, and shown only in `wcache --help`."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if not any("--json" in parameter.opts for parameter in self.params):
            text = "Print one JSON document on stdout and nothing else."
            self.params.append(click.Option(["--json"], is_flag=True, help=text, expose_value=False, callback=_keep_json))
        self.params.extend(place_options(hidden=True))


class LazyGroup(click.Group):
    """A group whose members are imported when they are run: name -> ("module:attribute", one line for the group's help).

    The line is kept here so that `wcache --help` imports no command; a test compares it with the command's own.
    """

    command_class = WcacheCommand

    def __init__(self, *args: Any, lazy: Mapping[str, tuple[str, str]] | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.lazy = dict(lazy or {})

    def list_commands(self, context: click.Context) -> list[str]:
        return [*self.lazy, *self.commands]

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        if name not in self.lazy:
            return super().get_command(context, name)
        module, _, attribute = self.lazy[name][0].partition(":")
        command: click.Command = getattr(importlib.import_module(module), attribute)
        return command

    def resolve_command(self, context: click.Context, args: list[str]) -> tuple[str | None, click.Command | None, list[str]]:
        """As click does, but with suggestions from commands that are not imported yet too, in every release of click."""
        name = args[0]
        if not name.startswith("-") and not context.resilient_parsing and self.get_command(context, name) is None:
            from difflib import get_close_matches

            near = get_close_matches(name, self.list_commands(context))
            raise click.UsageError(f"No such command {name!r}." + (f" Did you mean {near[0]!r}?" if near else ""), context)
        return super().resolve_command(context, args)

    def format_commands(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        """Whole first sentences: click would cut them off at the width of the terminal."""
        lines = [(name, line) for name, (_, line) in self.lazy.items()]
        lines += [(name, command.get_short_help_str(limit=200)) for name, command in self.commands.items()]
        with formatter.section("Commands"):
            formatter.write_dl(lines)


def example(*lines: str) -> str:
    """The closing paragraph of a command's help, kept as it is (click's \\b)."""
    return "\b\nExample:\n" + "\n".join(f"  {line}" for line in lines)
