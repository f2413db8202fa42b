"""`python -m wcache.daemon.main`: the server process. Its log goes to stderr, its readiness to `--ready-fd`."""

from __future__ import annotations

import argparse
import logging
import os
import signal
import sys
from contextlib import suppress

import msgspec

from wcache.core.model.errors import EXIT_INTERRUPTED, EXIT_OK, WcacheError
from wcache.core.settings import Settings, load_settings
from wcache.core.wire.channel import failure_of
from wcache.daemon.instance import InstanceLock, prepare_directory
from wcache.daemon.server import Server

log = logging.getLogger("wcache")

READY_LINE = b"READY\n"


def serve(settings: Settings, ready_fd: int | None = None) -> None:
    """Take the lock, tell the ledger, listen, and serve until SIGTERM, SIGINT or a shutdown request. Raises WcacheError."""
    prepare_directory(settings.runtime_dir)
    prepare_directory(settings.state_dir, others_may=0o055)  # what lies in it is 0600
    server = Server(settings, InstanceLock(settings.runtime_dir))
    signal.set_wakeup_fd(server.loop.wake_fd, warn_on_full_buffer=False)

    def on_signal(number: int, _frame: object) -> None:
        if server.stopping:
            os._exit(EXIT_INTERRUPTED)  # asked twice: the next start finds what is missing
        server.loop.post(lambda: server.stop(signal.Signals(number).name))

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, on_signal)
    log.info("Weight cache daemon READY pid=%d instance=%s socket=%s", os.getpid(), server.instance, settings.socket_path)
    _tell(ready_fd, READY_LINE)
    server.run()
    log.info("Weight cache daemon stopped instance=%s", server.instance)


def _tell(ready_fd: int | None, line: bytes) -> None:
    if ready_fd is not None:
        with suppress(OSError):  # whoever started us may be gone
            os.write(ready_fd, line)
            os.close(ready_fd)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="wcache.daemon.main", description="The wcache server process; `wcache daemon start` runs it.")
    parser.add_argument("--runtime-dir")
    parser.add_argument("--state-dir")
    parser.add_argument("--ledger")
    parser.add_argument("--ready-fd", type=int)
    options = parser.parse_args(arguments)
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    try:
        serve(load_settings(runtime_dir=options.runtime_dir, state_dir=options.state_dir, ledger=options.ledger), options.ready_fd)
    except WcacheError as error:
        log.error("%s", error.diagnostics())
        _tell(options.ready_fd, msgspec.json.encode(failure_of(error)) + b"\n")
        return error.exit_code
    return EXIT_OK


if __name__ == "__main__":
    raise SystemExit(main())
