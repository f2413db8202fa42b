"""The command line of a test: in processes of its own, as a user has it, or in this one, which is quicker."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any
from unittest.mock import patch

from wcache.cli.main import run

Cli = Callable[..., CompletedProcess[str]]


def clean_environ() -> dict[str, str]:
    """Nothing of the developer's own settings."""
    return {name: value for name, value in os.environ.items() if not name.startswith("WCACHE_") and name != "COLUMNS"}


def with_tests_on_path(environ: Mapping[str, str]) -> dict[str, str]:
    """`environ` with this directory's parent in front of what `PYTHONPATH` says already: a child may import `support`."""
    return {**environ, "PYTHONPATH": os.pathsep.join(filter(None, [str(Path(__file__).parents[1]), environ.get("PYTHONPATH")]))}


def in_processes(env: Mapping[str, str]) -> Cli:
    """`run_it("audit", "attaches", COLUMNS="80")` -> the finished process, output as text."""

    def run_it(*arguments: str, **more: str) -> CompletedProcess[str]:
        command = [sys.executable, "-m", "wcache.cli", *arguments]
        return subprocess.run(command, env={**clean_environ(), **env, **more}, capture_output=True, text=True, timeout=300, check=False)

    return run_it


def in_process(env: Mapping[str, str]) -> Cli:
    """As `in_processes`, without a new interpreter for every question: importing SQLAlchemy takes longer than all of them."""

    def run_here(*arguments: str, **more: str) -> CompletedProcess[str]:
        out, err = io.StringIO(), io.StringIO()
        with patch.dict(os.environ, {**clean_environ(), **env, **more}, clear=True), redirect_stdout(out), redirect_stderr(err):
            code = run(arguments)
        return CompletedProcess(arguments, code, out.getvalue(), err.getvalue())

    return run_here


def ok(done: CompletedProcess[str], code: int = 0) -> Any:
    """The JSON document, after the exit code was looked at."""
    assert done.returncode == code, done.stdout + done.stderr
    return json.loads(done.stdout)
