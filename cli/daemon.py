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
from wcache.cli.text import duration, escape, parse_size, size, tail
from wcache.core.model.config import config_digest
from wcache.core.model.errors import DaemonUnreachable, ProtocolError, UsageError
from wcache.core.model.vocabulary import Kind, Lineage
from wcache.core.wire.messages import Done, ReplaceRequest, ShutdownRequest, Status, StatusRequest, Welcome, as_json
from wcache.ledger.moment import utc

REPLACE_SILENCE_S = 60.0

REPLACE_HELP = "Upgrade in place: a new server, of the code that is installed now, goes on with all weights, leases and connections."

DAEMON_HELP = "Start, stop, replace or look at the daemon.\n\n" + example("wcache daemon --replace")


@click.group("daemon", cls=LazyGroup, invoke_without_command=True, help=DAEMON_HELP)
@click.option("--replace", is_flag=True, help=REPLACE_HELP)
@click.pass_context
def daemon(context: click.Context, replace: bool) -> None:
    if context.invoked_subcommand is not None:
        if replace:
            raise click.UsageError("--replace stands alone: `wcache daemon --replace`")
    elif replace:
        _replace()
    else:
        click.echo(context.get_help())
        context.exit(2)


@daemon.command("start", help="Start the daemon and wait until it is ready.\n\n" + example("wcache daemon start"))
@click.option("--foreground", is_flag=True, help="Stay in this terminal, or under a supervisor, instead of in the background.")
@click.option("--replace", is_flag=True, help=REPLACE_HELP)
@click.option("--health-port", type=int, metavar="PORT", help="Answer /health and /metrics on 127.0.0.1, for probes and Prometheus.")
@click.option("--expect", multiple=True, metavar="CHECKPOINT", help="Be healthy only while this is resident. May be repeated.")
@click.option(
    "--budget", metavar="SIZE", help="The most that weights may take of each device: bytes, or 64GiB. Default: WCACHE_BUDGET_BYTES."
)
@click.option(
    "--shared", metavar="GROUP", help="Serve the members of this group too, each as far as it may read. Default: WCACHE_SHARED_GROUP."
)
def start(
    foreground: bool, replace: bool, budget: str | None, shared: str | None, health_port: int | None, expect: tuple[str, ...]
) -> None:
    if replace:
        if foreground or budget or shared or health_port is not None or expect:
            raise click.UsageError("--replace keeps the settings that the daemon was started with: it stands alone")
        _replace()
        return
    _hand_on(health_port, expect)
    if budget is not None:
        _hand_on_budget(budget)
    settings = current_app().settings(shared_group=shared)
    _share_with(settings.shared_group)
    from wcache.daemon.launch import start_background, vault_command

    if foreground:
        command = vault_command(settings)
        sys.stdout.flush()
        # Replaced, not wrapped: the supervisor's signals must reach the daemon itself.
        os.execv(command[0], command)  # noqa: S606
    start_background(settings)
    with daemon_channel() as channel:
        welcome = channel.welcome
    _print_ready(welcome)


def _print_ready(welcome: Welcome, **more: Any) -> None:
    settings = current_app().settings()
    document = {
        "server_pid": welcome.server_pid, "vault_pid": welcome.vault_pid, "state": "ready", "socket": str(settings.socket_path),
        "ledger": str(settings.ledger), **more,
    }  # fmt: skip
    text = f"Weight cache daemon READY: pid {welcome.server_pid}, vault {welcome.vault_pid}, socket {settings.socket_path}"
    print_document(document, text)


def _replace() -> None:
    """The server that runs makes way for one of the code that is installed now."""
    import wcache.daemon.main  # noqa: F401  what cannot even be imported must not replace what works

    with daemon_channel() as channel:
        before = channel.welcome.server_pid
        channel.call(ReplaceRequest(), timeout_s=REPLACE_SILENCE_S)
        _wait_for_end(before)
    with daemon_channel(handshake_timeout_s=PATIENCE_S) as channel:
        _print_ready(channel.welcome, replaced_pid=before)


def _share_with(group: str | None) -> None:
    """Handed on as the others are. A group that does not exist is told here, in the user's own words."""
    from wcache.daemon.sharing import GROUP_VARIABLE, group_of

    if group:
        group_of(group)
        os.environ[GROUP_VARIABLE] = group


def _hand_on_budget(budget: str) -> None:
    try:
        os.environ["WCACHE_BUDGET_BYTES"] = str(parse_size(budget))
    except ValueError as error:
        raise UsageError(str(error), where="--budget") from None


def _hand_on(health_port: int | None, expect: tuple[str, ...]) -> None:
    """By the environment: a server that is started again later, by a process that is not this one, must find them too."""
    from wcache.core.checkpoint.spelling import absolute_spelling

    if health_port is not None:
        os.environ["WCACHE_HEALTH_PORT"] = str(health_port)
    spellings = [absolute_spelling(typed) for typed in expect]
    for spelling in spellings:
        if os.pathsep in spelling:
            raise UsageError(f"a {os.pathsep!r} in a name cannot be handed on", where=spelling, remedy="use `expect` in wcache.toml")
    if spellings:
        os.environ["WCACHE_EXPECT"] = os.pathsep.join(spellings)


@daemon.command("stop", help="Stop the daemon. It refuses while an engine has weights mapped.\n\n" + example("wcache daemon stop"))
@click.option("--force", is_flag=True, help="Stop even so: mapped engines keep their memory, nobody else gets it any more.")
def stop(force: bool) -> None:
    with daemon_channel() as channel:
        pid, vault_pid = channel.welcome.server_pid, channel.welcome.vault_pid
        reply = channel.call(ShutdownRequest(force=force), timeout_s=PATIENCE_S)
        if not isinstance(reply, Done):
            raise ProtocolError(f"unexpected answer {type(reply).__name__}", where="shutdown")
        _wait_for_end(vault_pid or pid)
    print_document(
        {"server_pid": pid, "vault_pid": vault_pid, "state": "stopped", "seq": reply.seq}, f"Weight cache daemon stopped: pid {pid}"
    )


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
        print_document({"server_pid": None, "vault_pid": None, "state": "absent", "reason": error.reason, "error": error.to_json()}, "")
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
        "daemon": f"{reply.state}, pid {reply.server_pid}, vault {reply.vault_pid}, version {reply.version}, up {up}",
        "runtime": reply.runtime_dir,
        "ledger": reply.ledger if reply.ledger_seq is None else f"{reply.ledger}, seq {reply.ledger_seq}",
        "resident": f"{size(reply.resident_bytes)}; room for {size(reply.budget_bytes)} more, by {reply.budget_by}",
        "own memory": size(reply.memory_bytes),
        "journalled": f"{reply.journalled} decisions wait to be merged into the ledger" if reply.journalled else None,
    }
    if reply.ledger_failure:
        about["ledger failure"] = reply.ledger_failure
    if reply.health_port is not None:
        about["health"] = f"http://127.0.0.1:{reply.health_port}/health"
    for number, warning in enumerate(reply.warnings):
        about[f"warning {number + 1}" if number else "warning"] = warning
    parts = [table.fields(about), table.render(residency_rows(reply, short_form=True), RESIDENCY_COLUMNS, empty="No weights are resident.")]
    if reply.leases:
        leases = [
            {
                "attach": lease.attach[:10], "residency": lease.residency[:10], "launch": lease.launch[:10], "rank": lease.rank,
                "engine": f"{lease.engine.name} {lease.engine.version}".strip(), "pid": lease.engine.pid or None,
                "tier": lease.tier, "since": _second(lease.since_ns),
                "flags": " ".join(flag for flag in ("orphaned", "suspect") if getattr(lease, flag)),
            }
            for lease in reply.leases
        ]  # fmt: skip
        parts.append(table.render(leases, tuple(leases[0])))
    return "\n\n".join(parts)


def _second(moment_ns: int | None) -> str:
    text = utc(moment_ns)
    return f"{text[:19]}Z" if text else ""


RESIDENCY_COLUMNS = (
    "residency",
    "checkpoint",
    "kind",
    "state",
    "device",
    "size",
    "tensors",
    "leases",
    "weights_digest",
    "used",
    "pinned",
    "evictable",
)


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
            "used": utc(item.used_ns),
            "pinned": item.pinned,
            "evictable": item.evictable,
            "flaw": item.flaw,
            "kind": view.kind.value,
            "lineage": view.lineage.value if view.lineage else None,
            "processed_digest": view.processed_digest,
            "config_digest": config_digest(view.config) if view.kind is Kind.PROCESSED else None,
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
                "kind": f"{view.kind}, unproven" if view.lineage is Lineage.UNPROVEN else view.kind.value,
                "weights_digest": (view.weights_digest or "")[:8],
                "used": f"{duration(max(0, time.time_ns() - item.used_ns) / 1e9)} ago" if item.used_ns else "",
            }  # fmt: skip
        rows.append(row)
    return rows
