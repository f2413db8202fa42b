"""`wcache load`, `wcache ls`, `wcache release`, `wcache verify`."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, NoReturn

import click

from wcache.cli import table
from wcache.cli.command import WcacheCommand, current_app, example
from wcache.cli.daemon import RESIDENCY_COLUMNS, residency_rows
from wcache.cli.output import print_document, print_json
from wcache.cli.progress import progress
from wcache.cli.service import LOAD_SILENCE_S, PATIENCE_S, daemon_channel
from wcache.cli.text import duration, escape, short, size
from wcache.core.model.decide import HOST
from wcache.core.model.errors import EXIT_FINDING, EXIT_OK, CheckpointInvalid, ProtocolError
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

if TYPE_CHECKING:
    from wcache.core.model.evidence import Lock

LOAD_HELP = """Make a checkpoint resident.

CHECKPOINT is a safetensors file, a directory, or a Hugging Face id in the local cache. Where there is no room, what nobody uses is given
back, longest unused first; what is pinned, mapped or about to be mapped stays. The daemon does the work: Ctrl+C ends the waiting, not
the load.

DEVICE is cpu, cuda:0 (counted as in this environment: CUDA_VISIBLE_DEVICES), the UUID of a GPU or MIG instance, several of them with
commas, or all for every GPU: each gets a residency of its own.

"""


@click.command(
    "load",
    cls=WcacheCommand,
    help=LOAD_HELP
    + example("wcache load ./my-model", "wcache load org/model --revision main", "wcache load ./my-model --device cuda:0,cuda:1"),
)
@click.argument("checkpoint")
@click.option("--revision", help="Revision of a Hugging Face id: a commit, branch or tag in the local cache.")
@click.option("--device", default=HOST, show_default=True, help="Where to keep the weights.")
@click.option("--pin/--no-pin", default=None, help="Never evict it to make room for another; --no-pin takes that back.")
@click.option("--lock", "lock_path", metavar="FILE", help="Keep it only if this wcache.lock names its weights. Default: WCACHE_LOCK.")
def load(checkpoint: str, revision: str | None, device: str, pin: bool | None, lock_path: str | None) -> None:
    from wcache.core.checkpoint.lockfile import read_lock
    from wcache.core.checkpoint.spelling import absolute_spelling, resolve_root

    locked = current_app().settings(lock=lock_path).policy.lock
    lock = read_lock(locked) if isinstance(locked, str) else None
    found = resolve_root(checkpoint, revision)  # a mistyped name is told here, in the user's own words
    place = f"{found.root}/{found.single_file}" if found.single_file else found.root
    devices = devices_named(device)
    documents: list[dict[str, Any]] = []
    for number, uuid in enumerate(devices, 1):
        request = LoadRequest(
            spelling=absolute_spelling(checkpoint), revision=revision, device=uuid, pin=pin, place=place, again=number < len(devices)
        )
        documents.append(_loaded(request, "load" if len(devices) == 1 else f"load {number}/{len(devices)}", lock))
    if len(devices) > 1 and current_app().json:
        print_json(documents)


_PHASES = ("settle", "read", "seal")


def devices_named(text: str) -> list[str]:
    """What --device names: `cpu`, and UUIDs of GPUs. Raises UsageError, NotFound, and Unsupported without an NVIDIA driver."""
    words = [word.strip() for word in text.split(",")]
    if words == [HOST]:
        return words
    from wcache.core.memory import nvml
    from wcache.core.memory.device import parse_devices

    if HOST not in words:
        return list(nvml.chosen(parse_devices(text), os.environ.get("CUDA_VISIBLE_DEVICES")))
    gpus = devices_named(",".join(word for word in words if word != HOST))
    return [HOST, *gpus]


def _loaded(request: LoadRequest, what: str, lock: Lock | None) -> dict[str, Any]:
    """One load, told as it ends; its document, which is printed here unless there will be a list of them."""
    with daemon_channel() as channel, progress(what) as update:

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
    if lock is not None and view.weights_digest not in lock.weights:
        _give_back(reply, lock)
    waits = ", ".join(f"{phase} {duration(seconds)}" for phase, seconds in reply.seconds.items() if phase not in _PHASES)
    told = {phase: duration(reply.seconds[phase]) for phase in _PHASES if phase in reply.seconds}
    took = ", ".join(f"{phase} {told[phase]}" + (f" (waiting: {waits})" if waits and phase == "read" else "") for phase in told)
    how = "already resident" if reply.reused else f"loaded ({took})"
    how += f", {reply.retried} operations on its files tried again" if reply.retried else ""
    how += ", pinned" if reply.pinned else ""
    how += "" if view.device == HOST else f", on {view.device}"
    text = f"{view.residency}: {how}, {view.tensors} tensors, {size(view.bytes)}, weights digest {short(view.weights_digest, 16)}"
    document = as_json(reply)
    document = {**document.pop("residency"), **document}
    if what == "load" or not current_app().json:
        print_document(document, text)
    return document


def _give_back(loaded: Loaded, lock: Lock) -> NoReturn:
    """The weights are known only now. What somebody else had loaded stays: it is right for whoever asked for it."""
    view = loaded.residency
    kept = "they were resident before, and stay"
    if not loaded.reused:
        with daemon_channel() as channel:
            channel.call(ReleaseRequest(residency=view.residency, why=f"not in the lock {lock.path}"), timeout_s=PATIENCE_S)
        kept = "they were released again"
    raise CheckpointInvalid(
        "not_locked",
        f"its weights digest {view.weights_digest} is not in the lock {lock.path}; {kept}",
        where=view.served.spelling,
        remedy=f"`wcache lock --check -o {lock.path}` says what differs",
    )


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

RESIDENCY is an id from `wcache ls`, or enough of its beginning. Every byte is hashed, on a GPU by that GPU, and compared with the digests
of the load; with --no-read only seals, sizes and inodes are looked at, which the memory of a GPU does not have. What fails becomes
suspect: nobody gets it any more, engines that have it mapped keep it and are flagged in `wcache status`, and the command exits with 1.

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
