"""A command as a child process that cannot tell the difference: its terminal, its signals, its exit status."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Mapping, Sequence, Set
from contextlib import suppress

import click

from wcache.cli.text import escape

_FORWARDED = frozenset({signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2, signal.SIGWINCH})
_IGNORED_BY_PYTHON = [signal.SIGPIPE, signal.SIGXFSZ]
EXIT_NOT_EXECUTABLE = 126  # as the shell, env(1) and nohup(1) say it
EXIT_NO_SUCH_COMMAND = 127


def run_child(
    command: Sequence[str],
    environ: Mapping[str, str],
    beside: Callable[[threading.Event], None] | None = None,
    *,
    mask: Set[int] | None = None,
) -> int:
    """Run a command to its end and return its exit status, 128+n when signal n ended it. `beside` runs in a thread meanwhile, and ends
    soon after its event is set. `mask`: the signals that are blocked in the child, by default those that are blocked here.

    The child stays in this process group: the terminal, job control and what the terminal sends (Ctrl+C, Ctrl+Z) reach it as they
    would without us. What another process sends to us alone is forwarded; sigaction(2) tells the two apart by si_code.
    """
    waited = _FORWARDED | {signal.SIGCHLD}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, waited)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # ignored, as some parents hand it down, it would take the exit status away (wait(2))
    try:
        try:
            own = before if mask is None else mask
            pid = os.posix_spawnp(command[0], list(command), dict(environ), setsigmask=own, setsigdef=_IGNORED_BY_PYTHON)
        except OSError as error:
            missing = isinstance(error, FileNotFoundError)
            click.echo(f"wcache: {escape(command[0])}: {(error.strerror or str(error)).lower()}; the command was not started", err=True)
            return EXIT_NO_SUCH_COMMAND if missing else EXIT_NOT_EXECUTABLE
        ended = threading.Event()
        helper = threading.Thread(target=beside, args=(ended,), daemon=True) if beside else None
        if helper is not None:
            helper.start()
        status = _wait(pid, waited)
        ended.set()
        if helper is not None:
            helper.join()
        return status
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _wait(pid: int, waited: Set[signal.Signals]) -> int:
    while True:
        # As the first process of a container this one inherits orphans: whoever ended is reaped.
        with suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                if ended[0] == pid:
                    code = os.waitstatus_to_exitcode(ended[1])
                    return code if code >= 0 else 128 - code
        arrived = signal.sigwaitinfo(waited)
        if arrived.si_signo != signal.SIGCHLD and arrived.si_code <= 0:  # SI_USER and its like; the kernel's own are above 0
            with suppress(ProcessLookupError):
                os.kill(pid, arrived.si_signo)
