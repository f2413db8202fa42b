"""`wcache load`, `wcache ls`, `wcache release`, `wcache verify`."""

from __future__ import annotations

import click

from wcache.cli import table
from wcache.cli.command import WcacheCommand, current_app, example
from wcache.cli.daemon import RESIDENCY_COLUMNS, residency_rows
from wcache.cli.output import print_document, print_json
from wcache.cli.progress import progress
from wcache.cli.service import LOAD_SILENCE_S, PATIENCE_S, daemon_channel
from wcache.cli.text import duration, escape, short, size
from wcache.core.model.errors import EXIT_FINDING, EXIT_OK, ProtocolError
from wcache.core.wire.messages import (
    Done,
    Loaded,
    LoadRequest,
    Progress,
    ReleaseRequest,
    Status,
    StatusRequest,
    Verified,
    VerifyRequest,
    as_json,
)

LOAD_HELP = """Make a checkpoint resident.

CHECKPOINT is a safetensors file, a directory, or a Hugging Face id in the local cache. Where there is no room, what nobody uses is given
back, longest unused first; what is pinned, mapped or about to be mapped stays. The daemon does the work: Ctrl+C ends the waiting, not
the load.

"""


@click.command("load", cls=WcacheCommand, help=LOAD_HELP + example("wcache load ./my-model", "wcache load org/model --revision main"))
@click.argument("checkpoint")
@click.option("--revision", help="Revision of a Hugging Face id: a commit, branch or tag in the local cache.")
@click.option("--device", default="cpu", show_default=True, help="Where to keep the weights.")
@click.option("--pin/--no-pin", default=None, help="Never evict it to make room for another; --no-pin takes that back.")
def load(checkpoint: str, revision: str | None, device: str, pin: bool | None) -> None:
    from wcache.core.checkpoint.spelling import absolute_spelling, resolve_root

    found = resolve_root(checkpoint, revision)  # a mistyped name is told here, in the user's own words
    place = f"{found.root}/{found.single_file}" if found.single_file else found.root
    request = LoadRequest(spelling=absolute_spelling(checkpoint), revision=revision, device=device, pin=pin, place=place)
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
    how += ", pinned" if reply.pinned else ""
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

RESIDENCY is an id from `wcache ls`, or enough of its beginning. Refused while an engine has them mapped, unless it is deferred
(--when-free) or forced. A deferred release is on record at once: nobody else gets the weights from then on, and it goes on without the
command that asked for it.

"""


@click.command("release", cls=WcacheCommand, help=RELEASE_HELP + example("wcache release r-1f2e3d4c --when-free"))
@click.argument("residency")
@click.option("--force", is_flag=True, help="Release even so: mapped engines keep their memory, nobody else gets it any more.")
@click.option("--when-free", is_flag=True, help="Wait until the last engine has let go of them.")
@click.option("--verify", is_flag=True, help="Hash the memory a last time before it goes.")
@click.option("--why", default="", help="A reason for the ledger.")
def release(residency: str, force: bool, when_free: bool, verify: bool, why: str) -> None:
    request = ReleaseRequest(residency=residency, force=force, why=why, when_free=when_free, verify=verify)
    with daemon_channel() as channel, progress("release") as update:

        def show(message: Progress) -> None:
            update(message.done_bytes, message.total_bytes, message.phase)

        reply = channel.call(request, timeout_s=PATIENCE_S, on_progress=show)
    if not isinstance(reply, Done):
        raise ProtocolError(f"unexpected answer {type(reply).__name__}", where="release")
    released = reply.residency  # the whole id
    print_document({"residency": released, "state": "released", "seq": reply.seq}, f"{released}: released (seq {reply.seq})")


VERIFY_HELP = """Check that resident weights are still what was loaded.

RESIDENCY is an id from `wcache ls`, or enough of its beginning. Every byte is hashed and compared with the digests of the load; with
--no-read only seals, sizes and inodes are looked at. What fails becomes suspect: nobody gets it any more, engines that have it mapped
keep it and are flagged in `wcache status`, and the command exits with 1.

"""


@click.command("verify", cls=WcacheCommand, help=VERIFY_HELP + example("wcache verify r-1f2e3d4c"))
@click.argument("residency")
@click.option("--read/--no-read", default=True, show_default=True, help="Hash every byte, or look at the seals only.")
def verify(residency: str, read: bool) -> int:
    with daemon_channel() as channel, progress("verify") as update:

        def show(message: Progress) -> None:
            update(message.done_bytes, message.total_bytes, message.phase)

        reply = channel.call(VerifyRequest(residency=residency, read=read), timeout_s=LOAD_SILENCE_S, on_progress=show)
    if not isinstance(reply, Verified):
        raise ProtocolError(f"unexpected answer {type(reply).__name__}", where="verify")
    print_document(as_json(reply), _verified_text(reply))
    return EXIT_OK if reply.intact else EXIT_FINDING


_NAMED = 20


def _verified_text(reply: Verified) -> str:
    if reply.intact and reply.by == "seals":
        return f"{reply.residency}: sealed since it was loaded, nothing was read (seq {reply.seq})"
    if reply.intact:
        took = f"{size(reply.bytes)} in {duration(reply.seconds)}"
        return f"{reply.residency}: intact, {took}, weights digest {short(reply.found, 16)} (seq {reply.seq})"
    lines = [f"{reply.residency}: NOT what was loaded, now {reply.state} (seq {reply.seq})"]
    lines += [reply.why] if reply.why else []
    lines += [f"changed: {name}" for name in reply.tensors[:_NAMED]]
    if len(reply.tensors) > _NAMED:
        lines.append(f"and {len(reply.tensors) - _NAMED} more: see --json")
    return "\n".join(escape(line) for line in lines)
