"""`wcache exec`: a server that must not change, with its weights from the cache, and a receipt."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

import click

from wcache.cli.command import WcacheCommand, current_app, example
from wcache.core.model.errors import UsageError

EXEC_HELP = """Run a command unchanged, with its weights from the cache, and print how that went.

Every Python that COMMAND starts gets safetensors files from the daemon where a hit is decided, and from disk otherwise. The command needs
wcache in its environment, and no change. All its processes are one launch. When it is ready, the receipt of the launch is printed on
stderr, with a line for each attach, and again at its end if there is more to say.

stdin, stdout, the terminal and signals are the command's. Exits with the status of the command, 128+n when signal n ended it; with 127
when there is no such command.

"""


@click.command(
    "exec",
    cls=WcacheCommand,
    help=EXEC_HELP
    + example(
        "wcache exec -- transformers serve ./my-model",
        "wcache exec --strict --ready-url http://127.0.0.1:8000/health -- transformers serve ./my-model",
    ),
    short_help="Run a command unchanged, with its weights from the cache.",
    context_settings={"allow_interspersed_args": False},
)
@click.option("--checkpoint", "checkpoints", multiple=True, metavar="CHECKPOINT", help="Only this one is asked for (repeatable); other "
              "files are read as ever, unrecorded. Default: every safetensors file.")  # fmt: skip
@click.option("--strict", is_flag=True, help="A miss ends the load with an error instead of reading the disk.")
@click.option("--ready-url", metavar="URL", help="The command is ready when this answers. Default: when every attach has said how it went.")
@click.option("--json", "output", metavar="FILE", type=click.Path(path_type=Path), help="Write the receipts as one JSON document to FILE, "
              "when the command is ready and again at its end; stdout is the command's.")  # fmt: skip
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
def exec_(checkpoints: tuple[str, ...], strict: bool, ready_url: str | None, output: Path | None, command: tuple[str, ...]) -> int:
    from wcache.cli.child import run_child
    from wcache.cli.receipt import Receipts, check_output, check_url, last_seq

    app = current_app()
    settings = app.settings(on_miss="strict" if strict else None)  # also: what cannot be meant is told before anything starts
    if ready_url is not None:
        check_url(ready_url)
    if output is not None:
        check_output(output)
    environ = dict(os.environ)
    environ.update({f"WCACHE_{name.upper()}": str(getattr(settings, name)) for name in app.places})
    if strict:
        environ["WCACHE_ON_MISS"] = "strict"
    after_seq = last_seq(settings) if environ.get("WCACHE_LAUNCH") else 0  # the name of an earlier start, it may be
    launch = environ.setdefault("WCACHE_LAUNCH", "l-" + secrets.token_hex(8))  # one that is set is of a launch over several hosts
    hook = _hook_directory()
    environ["PYTHONPATH"] = os.pathsep.join(part for part in (hook, environ.get("PYTHONPATH")) if part)
    _name_checkpoints(environ, checkpoints)
    receipts = Receipts(launch, command, settings, ready_url, output, after_seq=after_seq)
    status = run_child(command, environ, receipts.watch)
    receipts.finish(status)
    return status


def _hook_directory() -> str:
    import wcache.loader

    return str(Path(str(wcache.loader.__file__)).parent / "hook")


def _name_checkpoints(environ: dict[str, str], checkpoints: tuple[str, ...]) -> None:
    from wcache.core.checkpoint.spelling import resolve_root
    from wcache.loader.standin import CHECKPOINTS

    environ.pop(CHECKPOINTS, None)
    if not checkpoints:
        return
    places = []
    for checkpoint in checkpoints:
        found = resolve_root(checkpoint)
        places.append(os.path.realpath(Path(found.root, found.single_file or "")))
    if any(os.pathsep in place for place in places):
        raise UsageError("a path with a colon cannot be named here", where="--checkpoint", remedy="name it by a link without one")
    environ[CHECKPOINTS] = os.pathsep.join(places)
