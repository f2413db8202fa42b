"""The command line teaches itself, starts fast, and is documented."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from wcache.cli.command import LazyGroup
from wcache.cli.docs import render_cli_reference, walk_commands
from wcache.cli.main import COMMANDS, cli
from wcache.core.model import errors

COMMANDS_FOUND = list(walk_commands())
LEAVES = [(path, command) for path, command, _ in COMMANDS_FOUND if not isinstance(command, click.Group)]
CONTRACT = """
daemon start | daemon stop | daemon status | status | load | ls | release | fingerprint | check | trust grant | trust revoke | trust ls
| audit summary | audit attaches | audit launch | audit fallbacks | audit hits | audit wrong-hits | audit trust | audit timeline | audit at
| audit explain | audit prove | lock | ledger upgrade | ledger verify | ledger backup | doctor | exec | view
"""


def test_the_commands_are_those_of_the_contract() -> None:
    promised = {tuple(name.split()) for name in CONTRACT.replace("\n", " ").split(" | ") if name.strip()}
    promised = {tuple(word for word in name if word != "|") for name in promised}
    assert {path[1:] for path, _ in LEAVES} >= promised


@pytest.mark.parametrize(("path", "command"), LEAVES, ids=lambda value: " ".join(value) if isinstance(value, tuple) else "")
def test_every_command_has_help_with_an_example_and_json(path: tuple[str, ...], command: click.Command) -> None:
    result = CliRunner().invoke(cli, [*path[1:], "--help"])
    assert result.exit_code == 0
    assert "Example:" in result.output
    assert f"wcache {' '.join(path[1:])}" in result.output or path[-1] == "status"
    assert "--json" in result.output
    assert all(option.help for option in command.params if isinstance(option, click.Option) and not option.hidden), path


@pytest.mark.parametrize("name", COMMANDS)
def test_the_root_shows_the_same_line_as_the_command_itself(name: str) -> None:
    context = click.Context(cli)
    command = cli.get_command(context, name)
    assert command is not None
    assert COMMANDS[name][1] == command.get_short_help_str(limit=200)


def test_no_help_of_a_group_is_cut_off() -> None:
    for path, command, _ in COMMANDS_FOUND:
        if isinstance(command, LazyGroup):
            shown = CliRunner().invoke(cli, [*path[1:], "--help"]).output
            assert not [line for line in shown.splitlines()[1:] if line.endswith("...")], path


def test_the_reference_page_has_every_command_option_and_exit_code() -> None:
    page = render_cli_reference()
    for path, command in LEAVES:
        assert f"## `{' '.join(path)}`" in page
        for option in command.params:
            if isinstance(option, click.Option) and not option.hidden:
                assert f"`{option.opts[0]}`" in page
    for name in dir(errors):
        if name.startswith("EXIT_"):
            assert f"| {getattr(errors, name)} |" in page


HEAVY = ("sqlalchemy", "rich", "torch", "alembic", "safetensors", "blake3", "numpy", "cryptography")


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["status"], ["audit", "--help"], ["ls"]], ids=" ".join)
def test_the_quick_commands_import_nothing_heavy(arguments: list[str], short_path: Path) -> None:
    script = (
        "import sys\nfrom wcache.cli.main import run\n"
        f"run({arguments!r})\n"
        f"print([name for name in {HEAVY!r} if name in sys.modules], file=sys.stderr)"
    )
    env = {"WCACHE_RUNTIME_DIR": str(short_path), "WCACHE_STATE_DIR": str(short_path)}
    done = subprocess.run([sys.executable, "-c", script], env=env, capture_output=True, text=True, check=True)
    assert done.stderr.splitlines()[-1] == "[]"
