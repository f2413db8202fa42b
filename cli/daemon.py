"""`wcache daemon start | stop | status`, and `wcache status`."""

from __future__ import annotations

import os
import sys
import time
from typing import Any

import click

from wcache.cli import table
from wcache.cli.command import LazyGroup, WcacheCommand, current_app, example
from wcache.cli.output import print_document
from wcache.cli.service import PATIENCE_S, daemon_channel
from wcache.cli.text import duration, escape, size, tail
from wcache.core.model.errors import DaemonUnreachable, ProtocolError
from wcache.core.wire.messages import Done, ShutdownRequest, Status, StatusRequest, as_json
from wcache.ledger.moment import utc


@click.group("daemon", cls=LazyGroup, help="Start, stop or look at the daemon.")
def daemon() -> None:
    pass


@daemon.command("start", help="Start the daemon and wait until it is ready.\n\n" + example("wcache daemon start"))
@click.option("--foreground", is_flag=True, help="Stay in this terminal, or under a supervisor, instead of in the background.")
def start(foreground: bool) -> None:
    settings = current_app().settings()
    from wcache.daemon.launch import server_command, start_background

    if foreground:
        command = server_command(settings)
        sys.stdout.flush()
        # Replaced, not wrapped: the supervisor's signals must reach the daemon itself.
        os.execv(command[0], command)  # noqa: S606
    pid = start_background(settings)
    document = {"server_pid": pid, "state": "ready", "socket": str(settings.socket_path), "ledger": str(settings.ledger)}
    print_document(document, f"Weight cache daemon READY: pid {pid}, socket {settings.socket_path}")


@daemon.command("stop", help="Stop the daemon. It refuses while an engine has weights mapped.\n\n" + example("wcache daemon stop"))
@click.option("--force", is_flag=True, help="Stop even so: mapped engines keep their memory, nobody else gets it any more.")
def stop(force: bool) -> None:
    with daemon_channel() as channel:
        pid = channel.welcome.server_pid
        reply = channel.call(ShutdownRequest(force=force), timeout_s=PATIENCE_S)
        if not isinstance(reply, Done):
            raise ProtocolError(f"unexpected answer {type(reply).__name__}", where="shutdown")
        _wait_for_end(pid)
    print_document({"server_pid": pid, "state": "stopped", "seq": reply.seq}, f"Weight cache daemon stopped: pid {pid}")


def _wait_for_end(pid: int) -> None:
    """Until the process is gone, so that the next command finds no half-stopped daemon. Not our child: polled by a pidfd."""
    import select

    try:
        descriptor = os.pidfd_open(pid)
    except OSError:
        return  # already gone, or in another pid namespace
    try:
        select.select([descriptor], [], [], PATIENCE_S)
    finally:
        os.close(descriptor)


STATUS_HELP = "Say what the daemon is and holds.\n\nExits with 6 and says why when there is none.\n\n" + example("wcache status --json")


@click.command("status", cls=WcacheCommand, help=STATUS_HELP)
def status() -> int:
    try:
        with daemon_channel() as channel:
            reply = channel.call(StatusRequest(), timeout_s=PATIENCE_S)
    except DaemonUnreachable as error:
        if not current_app().json:
            raise
        # A program asks for the state, and "there is none" is an answer: the same keys, and the error beside them.
        print_document({"server_pid": None, "state": "absent", "reason": error.reason, "error": error.to_json()}, "")
        click.echo(f"wcache: {escape(error.diagnostics())}", err=True)
        return error.exit_code
    if not isinstance(reply, Status):
        raise ProtocolError(f"unexpected answer {type(reply).__name__}", where="status")
    print_document(as_json(reply), _status_text(reply))
    return 0


daemon.add_command(status)


def _status_text(reply: Status) -> str:
    up = duration((time.time_ns() - reply.started_ns) / 1e9)
    about: dict[str, Any] = {
        "daemon": f"{reply.state}, pid {reply.server_pid}, version {reply.version}, up {up}",
        "runtime": reply.runtime_dir,
        "ledger": reply.ledger if reply.ledger_seq is None else f"{reply.ledger}, seq {reply.ledger_seq}",
        "resident": f"{size(reply.resident_bytes)}; room for {size(reply.budget_bytes)} more, by {reply.budget_by}",
        "own memory": size(reply.memory_bytes),
        "journalled": f"{reply.journalled} decisions wait to be merged into the ledger" if reply.journalled else None,
    }
    parts = [table.fields(about), table.render(residency_rows(reply, short_form=True), RESIDENCY_COLUMNS, empty="No weights are resident.")]
    if reply.leases:
        leases = [
            {
                "attach": lease.attach[:10], "residency": lease.residency[:10], "launch": lease.launch[:10], "rank": lease.rank,
                "engine": f"{lease.engine.name} {lease.engine.version}".strip(), "pid": lease.engine.pid or None,
                "tier": lease.tier, "since": _second(lease.since_ns),
            }
            for lease in reply.leases
        ]  # fmt: skip
        parts.append(table.render(leases, tuple(leases[0])))
    return "\n\n".join(parts)


def _second(moment_ns: int | None) -> str:
    text = utc(moment_ns)
    return f"{text[:19]}Z" if text else ""


RESIDENCY_COLUMNS = ("residency", "checkpoint", "state", "device", "size", "tensors", "leases", "weights_digest", "loaded")


def residency_rows(reply: Status, *, short_form: bool = False) -> list[dict[str, Any]]:
    """What is resident or loading, flat, a row a residency."""
    rows = []
    for item in reply.residencies:
        view = item.view
        loading = f" {item.phase} {item.done_bytes * 100 // item.total_bytes} %" if item.phase and item.total_bytes else ""
        row: dict[str, Any] = {
            "residency": view.residency,
            "checkpoint": view.served.spelling,
            "state": view.state.value + (loading if short_form else ""),
            "device": view.device,
            "bytes": view.bytes,
            "tensors": view.tensors,
            "leases": item.leases,
            "weights_digest": view.weights_digest,
            "loaded": utc(item.loaded_ns),
            "kind": view.kind.value,
            "root": view.served.root,
            "repo": view.served.repo,
            "commit": view.served.commit,
            "spellings": list(view.spellings),
            "dtypes": list(view.dtypes),
            "phase": item.phase,
            "done_bytes": item.done_bytes,
            "total_bytes": item.total_bytes,
        }
        if short_form:
            row |= {
                "residency": view.residency[:10], "checkpoint": tail(view.served.spelling), "size": size(view.bytes),
                "weights_digest": (view.weights_digest or "")[:8], "loaded": _second(item.loaded_ns),
            }  # fmt: skip
        rows.append(row)
    return rows
