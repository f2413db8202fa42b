"""The root of the command line and its edge: every error becomes one line and an exit code here, never a traceback."""

from __future__ import annotations

import gc
import itertools
import os
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

import click

from wcache.cli.command import LazyGroup, place_options
from wcache.core import __version__
from wcache.core.model.errors import EXIT_INTERNAL, EXIT_INTERRUPTED, EXIT_OK, UsageError, WcacheError

COMMANDS = {
    "daemon": ("wcache.cli.daemon:daemon", "Start, stop, replace or look at the daemon."),
    "status": ("wcache.cli.daemon:status", "Say what the daemon is and holds."),
    "load": ("wcache.cli.weights:load", "Make a checkpoint resident."),
    "ls": ("wcache.cli.weights:ls", "List resident weights and who has them mapped."),
    "release": ("wcache.cli.weights:release", "Give resident weights back."),
    "verify": ("wcache.cli.weights:verify", "Check that resident weights are still what was loaded."),
    "preload": ("wcache.cli.preload:preload", "Let vLLM load once, and keep what it made of the weights."),
    "fingerprint": ("wcache.cli.checkpoint:fingerprint", "Take evidence about a checkpoint's content."),
    "check": ("wcache.cli.checkpoint:check", "Say how an attach would be decided, without attaching."),
    "lock": ("wcache.cli.lock:lock", "Write down which weights may be served, and check it."),
    "exec": ("wcache.cli.exec:exec_", "Run a command unchanged, with its weights from the cache."),
    "view": ("wcache.cli.view:view", "Show resident weights as a directory that any tool can read."),
    "drill": ("wcache.cli.drill:drill", "Start a server with, without and against the cache, and judge it."),
    "trust": ("wcache.cli.trust:trust", "Grant, revoke or list an operator's trust."),
    "audit": ("wcache.cli.audit:audit", "Ask the ledger what happened, and prove it."),
    "report": ("wcache.cli.report:report", "Report a period of the ledger, for people and for tools."),
    "ledger": ("wcache.cli.ledger:ledger", "Upgrade, verify, back up, sign, export or shorten the ledger."),
    "doctor": ("wcache.cli.doctor:doctor", "Check this machine for what wcache needs."),
}

HELP = """Keep model weights resident, let engines map them, and record every decision in a ledger that can be audited.

\b
Example:
  wcache daemon start
  wcache load ./my-model
  wcache check ./my-model
  wcache audit attaches

Every command has --help with an example, and --json. The options below may also stand behind a command. Settings come from defaults,
then wcache.toml, then WCACHE_* variables, then options.
"""

cli = LazyGroup(
    "wcache",
    help=HELP,
    lazy=COMMANDS,
    params=place_options(hidden=False),
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120},
)
click.version_option(__version__, prog_name="wcache", message="%(prog)s %(version)s")(cli)


def _wants_json(arguments: Sequence[str]) -> bool:
    """Of the raw arguments, because a command line that cannot be parsed has no parsed ones."""
    if "--" in arguments:
        arguments = arguments[: arguments.index("--")]  # behind it stands another command's line
    if "--json" in arguments or "--format=json" in arguments or "--format=jsonl" in arguments:
        return True
    return any(first == "--format" and second in ("json", "jsonl") for first, second in itertools.pairwise(arguments))


def _report(error: WcacheError, arguments: Sequence[str]) -> int:
    from wcache.cli.text import escape

    if _wants_json(arguments):
        import msgspec

        click.echo(msgspec.json.encode({"error": error.to_json()}).decode())
    click.echo(f"wcache: {escape(error.diagnostics())}", err=True)
    return error.exit_code


def _unexpected(error: BaseException) -> int:
    if os.environ.get("WCACHE_DEBUG"):
        import traceback

        traceback.print_exception(error)
    else:
        text = " ".join(str(error).split())[:200]
        click.echo(f"wcache: internal error, {type(error).__name__}: {text}; run again with WCACHE_DEBUG=1 to see where", err=True)
    return EXIT_INTERNAL


def run(arguments: Sequence[str]) -> int:
    """Runs one command line and returns its exit code; commands return theirs, None is 0."""
    try:
        code: Any = cli.main(args=list(arguments), prog_name="wcache", standalone_mode=False)
        sys.stdout.flush()
    except WcacheError as error:
        return _report(error, arguments)
    except click.Abort:
        return EXIT_INTERRUPTED
    except click.ClickException as error:
        if isinstance(error, click.exceptions.NoArgsIsHelpError):
            error.show()
            return error.exit_code
        context = getattr(error, "ctx", None)
        remedy = f"see `{context.command_path if context else 'wcache'} --help`"
        what, _, guess = error.format_message().partition("Did you mean")
        if guess:
            remedy = f"did you mean {guess.strip(' ?)')}? Else {remedy}"
        return _report(UsageError(what.rstrip(" .("), remedy=remedy), arguments)
    except (BrokenPipeError, SystemExit):  # click's own way out when a pipe breaks is the latter
        # The reader went away: what it did not read is not wanted. Python would complain once more at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 141  # 128 + SIGPIPE, as the shell reports other tools
    except UnicodeEncodeError:  # a lone surrogate: bytes of the command line that no message and no ledger can hold
        return _report(UsageError("an argument is no UTF-8", remedy="name it by an id, or by a path that is UTF-8"), arguments)
    except Exception as error:  # the edge: whatever was not foreseen
        return _unexpected(error)
    return code if isinstance(code, int) else EXIT_OK


def main() -> NoReturn:
    """Entry point of the console script."""
    gc.disable()  # a command lives for seconds and may print a million rows; collecting cycles among them would take longer than the rest
    sys.exit(run(sys.argv[1:]))
