"""`wcache drill`: the acceptance run of a server, in one command."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from wcache.cli import table
from wcache.cli.command import WcacheCommand, current_app, example
from wcache.cli.output import print_document
from wcache.cli.text import duration, escape, size
from wcache.core.model.errors import EXIT_FINDING, EXIT_OK

QUIET = 0.1
"""Other work that takes more of the processors than this while a server starts is told."""

DRILL_HELP = """Start a server with, without and against the cache, and say whether each start went as it must.

The drill has a daemon, a ledger and places of its own; nothing else is touched. It starts COMMAND from disk, without a daemon (falling
back, then strictly), twice from the cache, in another dtype, and on a tampered twin of the model; asks each server that is ready the same
questions; and stops it. vLLM and SGLang get --load-format wcache, every other server runs below `wcache exec`.

Exits with 0 when every expectation held, with 1 when one did not. docs/drill.md explains each line of the table.

"""


@click.command(
    "drill",
    cls=WcacheCommand,
    help=DRILL_HELP + example("wcache drill -- vllm serve ./my-model --port 8000"),
    short_help="Start a server with, without and against the cache, and judge it.",
    context_settings={"allow_interspersed_args": False},
)
@click.option("--model", help="The checkpoint that COMMAND serves, as COMMAND spells it. Default: what COMMAND says.")
@click.option("--port", type=click.IntRange(1, 65535), help="Where it listens. Default: what COMMAND says, or its engine's default.")
@click.option("--tensors", type=click.Choice(["raw", "processed"]), default="raw", show_default=True, help="Which tensors vLLM takes.")
@click.option("--wait", "wait_s", type=click.IntRange(min=1), default=600, show_default=True, metavar="SECONDS", help="How long a start "
              "may take.")  # fmt: skip
@click.option("--rounds", type=click.IntRange(min=1), default=1, show_default=True, help="How often the timed starts are repeated.")
@click.option("--prompts", type=click.Path(path_type=Path), metavar="FILE", help="What to ask, one prompt a line; 16 tokens each.")
@click.option("--out", type=click.Path(path_type=Path), metavar="DIRECTORY", help="For logs, receipts and ledger; absent or empty. "
              "Default: a new one here.")  # fmt: skip
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
def drill(
    model: str | None,
    port: int | None,
    tensors: Any,
    wait_s: int,
    rounds: int,
    prompts: Path | None,
    out: Path | None,
    command: tuple[str, ...],
) -> int:
    from wcache.drill.answers import PROMPTS, read_prompts
    from wcache.drill.command import parse_server
    from wcache.drill.drill import Drill, Options

    server = parse_server(command, model=model, port=port, tensors=tensors)
    place = out or Path(time.strftime("wcache-drill-%Y%m%dT%H%M%SZ", time.gmtime()))
    options = Options(
        out=place.absolute(), tensors=tensors, wait_s=wait_s, rounds=rounds, policy=current_app().settings().policy,
        prompts=read_prompts(prompts) if prompts else PROMPTS,
    )  # fmt: skip
    with _progress() as say, _ends_like_ctrl_c():
        document = Drill(server, options, say).run()
    print_document(document, _text(document, options.out))
    return EXIT_OK if document["held"] else EXIT_FINDING


@contextmanager
def _ends_like_ctrl_c() -> Iterator[None]:
    """SIGTERM and SIGHUP stop what was started, as Ctrl+C does."""

    def interrupt(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    meant = [number for number in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, interrupt) for number in meant}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _progress() -> Iterator[Any]:
    """News as lines on stderr; on a terminal the last one is shown as what is going on."""
    from rich.console import Console

    console = Console(stderr=True, highlight=False)
    with console.status("") as status:

        def say(line: str) -> None:
            console.print(escape(line), markup=False, soft_wrap=True)
            status.update(escape(line).replace("[", r"\["))

        yield say


def _text(document: dict[str, Any], out: Path) -> str:
    from wcache.drill.table import COLUMNS

    shown = [
        {**row, "weights_bytes": size(row["weights_bytes"]), "rest_bytes": size(row["rest_bytes"])} for row in document["table"]
    ]  # fmt: skip
    names = {"weights_bytes": "mapped", "rest_bytes": "memory", "ready_s": "ready s", "weights_s": "weights s"}
    columns = [names.get(name, name) for name in COLUMNS]
    lines = [{names.get(name, name): value for name, value in row.items()} for row in shown]
    wrong = [f"✗ {run['label']}: {escape(what)}" for run in document["runs"] for what in run["wrong"]]
    skipped = sum(1 for run in document["runs"] if run["skipped"])
    verdict = "Every expectation held." if document["held"] else f"{len(wrong)} expectations did not hold."
    return "\n\n".join(
        part
        for part in (
            table.render(lines, columns),
            table.render([_memory(point) for point in document["memory"]], MEMORY_COLUMNS),
            table.fields(_about(document, out)),
            "\n".join(wrong),
            verdict + (f" {skipped} skipped." if skipped else ""),
        )
        if part
    )


MEMORY_COLUMNS = ("memory at", "available", "shared", "daemon", "server: mapped weights", "server: rest", "GPU")


def _memory(point: dict[str, Any]) -> dict[str, Any]:
    daemon, server = point["daemon"], point["server"]
    return {
        "memory at": point["moment"],
        "available": size(point["available_bytes"]),
        "shared": size(point["shmem_bytes"]),
        "daemon": size(daemon["weights_bytes"] + daemon["rest_bytes"]),
        "server: mapped weights": size(server["weights_bytes"]),
        "server: rest": size(server["rest_bytes"]),
        "GPU": ", ".join(size(used) for used in point["gpu_used_bytes"].values()),
    }


def _about(document: dict[str, Any], out: Path) -> dict[str, Any]:
    model, preparation, device = document["model"], document["preparation"], document["device"]
    pays = document["pays_after_restarts"]
    published = preparation["publish_s"]
    gpus = ", ".join(f"{gpu['model']} {gpu['uuid']}" for gpu in device["gpus"])
    shares = [run["page_cache_share"] for run in document["runs"] if run["page_cache_share"] is not None]
    busy = [run["others_cpu_share"] for run in document["runs"] if run["others_cpu_share"] is not None]
    return {
        "model": f"{model['spelling']}{'@' + model['commit'] if model['commit'] else ''}, {', '.join(model['dtypes'])}, "
        f"{size(model['bytes'])}, weights digest {model['weights_digest'][:16]}",
        "device": f"{gpus}, driver {device['driver']}" if gpus else f"{device['cpu']['cores']} × {device['cpu']['model']}",
        "versions": ", ".join([f"wcache {document['versions']['wcache']}", *document["versions"]["engines"]]),
        "preparation": f"{duration(preparation['total_s'])}: daemon {duration(preparation['daemon_start_s'])}, load "
        f"{duration(preparation['load_s'])}" + (f", publish {duration(published)}" if published is not None else ""),
        "pays after": f"{pays} restart{'s' * (pays != 1)}" if pays is not None else "never: warm starts were not quicker than from disk",
        "page cache": f"held {100 * min(shares):.0f} % of the shards or more before every start; cold here means without a daemon" if shares
        else None,
        "other work": f"took up to {100 * max(busy):.0f} % of the processors' time while a server started: its seconds are no measurement"
        if max(busy, default=0.0) > QUIET else None,
        "ledger": f"{document['ledger']['ledger']}, {document['ledger']['events']} events",
        "receipt": str(out / "drill.json"),
    }  # fmt: skip
