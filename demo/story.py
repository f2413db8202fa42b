"""How the demonstration tells itself: sections, the commands as a user would type them, what they print, and what was expected of it."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import textwrap
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

WIDTH = 120
TABLE_WIDTH = 176  # where nobody's terminal sets a limit: wide enough for the commands' tables
BOLD, DIM, GREEN, RED, PLAIN = "1", "2", "32", "31", "0"


@dataclass(frozen=True)
class Ran:
    """What a command did: exit code, stdout, stderr."""

    code: int
    out: str
    err: str

    @property
    def text(self) -> str:
        return self.out + self.err


class Story:
    """Runs commands in `root` with `environ`, prints them, and counts the expectations that failed.

    Paths below `root` are shown relative to it, so that two runs can be compared.
    """

    def __init__(self, root: Path, environ: dict[str, str]) -> None:
        self.root = root
        self.environ = environ
        self.failures = 0
        self.sections = 0
        self.colours = sys.stdout.isatty() and "NO_COLOR" not in os.environ
        self.began = time.monotonic()

    def section(self, title: str, text: str) -> None:
        self.sections += 1
        self._line()
        self._line(f"{self.sections}  {title}", BOLD)
        self._line("─" * WIDTH, DIM)
        for line in textwrap.wrap(text, WIDTH):
            self._line(line)
        self._line()

    def tell(self, line: str) -> None:
        self._line(line)

    def run(self, command: str, *, shown: bool = True, **environ: str) -> Ran:
        """Runs one command line and shows it with its output. Keyword arguments are `WCACHE_*` settings, written in front as in a shell."""
        prefix = "".join(f"WCACHE_{name.upper()}={shlex.quote(value)} " for name, value in environ.items())
        if shown:
            self._line(f"  $ {prefix}{command}", BOLD)
        settings = {f"WCACHE_{name.upper()}": value for name, value in environ.items()}
        done = subprocess.run(
            shlex.split(command),
            cwd=self.root,
            env={**self.environ, **settings},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=600,
        )
        ran = Ran(done.returncode, done.stdout, done.stderr)
        if shown:
            for line in (ran.err + ran.out).rstrip().splitlines():
                self._line(f"    {self._relative(line)}".rstrip())
            if ran.code:
                self._line(f"    (exit code {ran.code})", DIM)
        return ran

    def _relative(self, line: str) -> str:
        """A path below `root` as seen from there; in a table its column keeps its width."""
        above = f"{self.root}/"
        line = re.sub(rf"{re.escape(above)}(\S*)(?=  )", lambda found: found[1] + " " * len(above), line)
        return line.replace(above, "")

    def ask(self, command: str) -> Any:
        """The JSON answer of a `wcache` command, for expectations; not shown."""
        ran = self.run(f"{command} --json", shown=False)
        try:
            return json.loads(ran.out)
        except json.JSONDecodeError:
            self.expect(f"{command} --json answers with JSON", ran.text.strip(), "one document")
            return {}

    def expect(self, promise: str, found: object, wanted: object) -> None:
        """One line: the promise, and when it does not hold what was found instead."""
        if found == wanted:
            self._line(f"  ✓ {promise}", GREEN)
            return
        self.failures += 1
        self._line(f"  ✗ {promise}: found {found!r}, wanted {wanted!r}", RED)

    def close(self) -> int:
        """The last line, and the exit code."""
        seconds = time.monotonic() - self.began
        self._line()
        if self.failures:
            self._line(f"{self.failures} expectation(s) failed after {seconds:.0f} s", RED)
            return 1
        self._line(f"Every expectation held. {seconds:.0f} s.", GREEN)
        return 0

    def _line(self, text: str = "", colour: str = PLAIN) -> None:
        sys.stdout.write(f"\x1b[{colour}m{text}\x1b[0m\n" if self.colours and colour != PLAIN else text + "\n")
        sys.stdout.flush()
