"""`python -m wcache.daemon.main`: the server process, started by the vault. Its log goes to stderr."""

from __future__ import annotations

import argparse
import logging
import os
import signal
import socket
import sys

import msgspec

from wcache.core.model.errors import EXIT_INTERNAL, EXIT_OK, UsageError, WcacheError
from wcache.core.settings import Settings, load_settings
from wcache.core.wire.channel import failure_of
from wcache.daemon.server import Server
from wcache.daemon.vault_client import VaultClient

log = logging.getLogger("wcache")


def serve(settings: Settings, vault: VaultClient, listener: socket.socket) -> None:
    """Take over what the vault keeps, tell the ledger, and serve until a signal or a request ends it. Raises WcacheError."""
    server = Server(settings, vault, listener, vault.restored())
    signal.set_wakeup_fd(server.loop.wake_fd, warn_on_full_buffer=False)

    def on_signal(number: int, _frame: object) -> None:
        server.loop.post(lambda: server.asked_to_stop(signal.Signals(number).name))

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, on_signal)
    log.info("Weight cache daemon READY pid=%d instance=%s socket=%s", os.getpid(), server.instance, settings.socket_path)
    vault.ready()
    server.run()
    log.info("Weight cache daemon %s instance=%s", "makes way for another server" if server.leaving else "stopped", server.instance)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="wcache.daemon.main", description="The wcache server process; `wcache daemon start` runs it.")
    parser.add_argument("--instance")
    for name in ("--vault-pid", "--vault-fd", "--listen-fd", "--lock-fd"):
        parser.add_argument(name, type=int)
    inherited, handed_on = parser.parse_known_args(arguments)
    places = argparse.ArgumentParser(prog="wcache.daemon.main", add_help=False)
    places.add_argument("--runtime-dir")
    places.add_argument("--state-dir")
    places.add_argument("--ledger")
    options = places.parse_args(handed_on)
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    vault: VaultClient | None = None
    try:
        settings = load_settings(runtime_dir=options.runtime_dir, state_dir=options.state_dir, ledger=options.ledger)
        if None in vars(inherited).values():
            raise UsageError("the server is started by its vault", remedy="run `wcache daemon start`, with --foreground under a supervisor")
        vault = VaultClient.inherited(inherited, handed_on)
        listener = socket.socket(fileno=inherited.listen_fd)
        listener.setblocking(False)
        serve(settings, vault, listener)
    except WcacheError as error:
        log.error("%s", error.diagnostics())
        if vault is not None:
            vault.fail(msgspec.json.encode(failure_of(error)), error.exit_code)
        return error.exit_code
    except Exception:
        log.exception("a defect in the daemon")
        return EXIT_INTERNAL
    return EXIT_OK


if __name__ == "__main__":
    raise SystemExit(main())
