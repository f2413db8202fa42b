"""`wcache load`, `wcache ls`, `wcache release`."""

from __future__ import annotations

import click

from wcache.cli import table
from wcache.cli.command import WcacheCommand, current_app, example
from wcache.cli.daemon import RESIDENCY_COLUMNS, residency_rows
from wcache.cli.output import print_document, print_json
from wcache.cli.progress import progress
from wcache.cli.service import LOAD_SILENCE_S, PATIENCE_S, daemon_channel
from wcache.cli.text import duration, short, size
from wcache.core.model.errors import ProtocolError
from wcache.core.wire.messages import Done, Loaded, LoadRequest, Progress, ReleaseRequest, Status, StatusRequest, as_json

LOAD_HELP = """Make a checkpoint resident.

CHECKPOINT is a safetensors file, a directory, or a Hugging Face id in the local cache. The daemon does the work: Ctrl+C ends the
waiting, not the load.

"""


@click.command("load", cls=WcacheCommand, help=LOAD_HELP + example("wcache load ./my-model", "wcache load org/model --revision main"))
@click.argument("checkpoint")
@click.option("--revision", help="Revision of a Hugging Face id: a commit, branch or tag in the local cache.")
@click.option("--device", default="cpu", show_default=True, help="Where to keep the weights.")
def load(checkpoint: str, revision: str | None, device: str) -> None:
    from wcache.core.checkpoint.spelling import absolute_spelling, resolve_root

    found = resolve_root(checkpoint, revision)  # a mistyped name is told here, in the user's own words
    place = f"{found.root}/{found.single_file}" if found.single_file else found.root
    request = LoadRequest(spelling=absolute_spelling(checkpoint), revision=revision, device=device, place=place)
    with daemon_channel() as channel, progress("load") as update:

        def show(message: Progress) -> None:
            update(message.done_bytes, message.total_bytes, message.phase)

        try:
            reply = channel.call(request, timeout_s=LOAD_SILENCE_S, on_progress=show)
        except KeyboardInterrupt:
            click.echo("wcache: interrupted; the daemon goes on loading: `wcache ls` shows it, `wcache release` gives it back", err=True)
            raise
    if not isinstance(reply, Loaded):
        raise ProtocolError(f"unexpected answer {type(reply).__name__}", where="load")
    view = reply.residency
    took = ", ".join(f"{phase} {duration(seconds)}" for phase, seconds in reply.seconds.items())
    how = "already resident" if reply.reused else f"loaded ({took})"
    text = f"{view.residency}: {how}, {view.tensors} tensors, {size(view.bytes)}, weights digest {short(view.weights_digest, 16)}"
    document = as_json(reply)
    print_document({**document.pop("residency"), **document}, text)


@click.command("ls", cls=WcacheCommand, help="List resident weights and who has them mapped.\n\n" + example("wcache ls"))
def ls() -> None:
    with daemon_channel() as channel:
        reply = channel.call(StatusRequest(), timeout_s=PATIENCE_S)
    if not isinstance(reply, Status):
        raise ProtocolError(f"unexpected answer {type(reply).__name__}", where="ls")
    if current_app().json:
        print_json(residency_rows(reply))
    else:
        click.echo(table.render(residency_rows(reply, short_form=True), RESIDENCY_COLUMNS, empty="No weights are resident."))


RELEASE_HELP = """Give resident weights back.

RESIDENCY is an id from `wcache ls`, or enough of its beginning. Refused while an engine has them mapped.

"""


@click.command("release", cls=WcacheCommand, help=RELEASE_HELP + example("wcache release r-1f2e3d4c"))
@click.argument("residency")
@click.option("--force", is_flag=True, help="Release even so: mapped engines keep their memory, nobody else gets it any more.")
@click.option("--why", default="", help="A reason for the ledger.")
def release(residency: str, force: bool, why: str) -> None:
    with daemon_channel() as channel:
        reply = channel.call(ReleaseRequest(residency=residency, force=force, why=why), timeout_s=PATIENCE_S)
    if not isinstance(reply, Done):
        raise ProtocolError(f"unexpected answer {type(reply).__name__}", where="release")
    print_document({"residency": residency, "state": "released", "seq": reply.seq}, f"{residency}: released (seq {reply.seq})")
