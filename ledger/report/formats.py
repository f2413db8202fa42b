"""From a format's name to files: how many rows each keeps, what it needs, and how it is written."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from wcache.core.model.errors import Unsupported, UsageError
from wcache.ledger.durable import replace_file
from wcache.ledger.report.model import Report

if TYPE_CHECKING:
    from wcache.ledger.signing import SigningKey

FORMATS = ("html", "jsonl", "csv", "cyclonedx", "intoto")
_ROWS = {"html": 100, "intoto": 1000, "jsonl": None, "csv": None, "cyclonedx": None}
SUMMARY_ROWS = 10


def rows_kept(form: str | None) -> int | None:
    """How many rows of a list the format holds; None is all. Without a format: what a summary needs."""
    return SUMMARY_ROWS if form is None else _ROWS[form]


def require(form: str) -> None:
    """Raises Unsupported, before any work, where a package is missing that the format needs."""
    import importlib.util

    for package, name in {"html": (("jinja2", "jinja2"),), "cyclonedx": (("cyclonedx", "cyclonedx-python-lib"),)}.get(form, ()):
        if importlib.util.find_spec(package) is None:
            raise Unsupported(f"the format {form} needs the package {name}", remedy="pip install 'wcache-ledger[report]'")


def render(report: Report, form: str, key: SigningKey | None = None, files: Sequence[Path] = ()) -> Iterator[bytes]:
    """The one file of a format. Raises UsageError for `csv`, which is many files, and for `intoto` without a key."""
    if form == "html":
        from wcache.ledger.report.html import render_html

        yield render_html(report).encode("utf-8", "backslashreplace")
    elif form == "jsonl":
        from wcache.ledger.report.lines import render_lines

        yield from render_lines(report)
    elif form == "cyclonedx":
        from wcache.ledger.report.bom import render_bom

        yield render_bom(report).encode()
    elif form == "intoto" and key is not None:
        from wcache.ledger.report.statement import render_statement

        yield render_statement(report, key, files)
    else:
        raise UsageError("cannot be written into one file", where=form)


def write_sheets(directory: Path, report: Report) -> list[Path]:
    """One CSV file a list into the directory, which is made where it is missing. Raises UsageError."""
    from wcache.ledger.report.sheets import render_sheets

    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"cannot be made a directory: {error.strerror}", where=str(directory)) from error
    written = []
    for name, text in render_sheets(report):
        replace_file(directory / name, [text.encode("utf-8", "backslashreplace")])
        written.append(directory / name)
    return written
