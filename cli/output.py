"""Printing an answer: a table for a person, or JSON, JSON lines, CSV for a program. One document on stdout, nothing beside it."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import click
import msgspec

from wcache.cli import table
from wcache.cli.command import current_app
from wcache.cli.text import csv_cell, short, size, tail

FORMATS = ("table", "json", "jsonl", "csv")

_DIGESTS = ("asked_digest", "served_digest", "weights_digest", "digest")
_PLAIN = (str, int, float, bool, type(None))


def chosen_format() -> str:
    """`--format` where the command has it, else json under --json, else table."""
    context = click.get_current_context()
    if current_app().json:
        return "json"
    return str(context.params.get("format_") or "table")


def print_json(document: Any) -> None:
    click.echo(msgspec.json.format(msgspec.json.encode(document), indent=2).decode())


def print_rows(rows: Iterable[Mapping[str, Any]], columns: Sequence[str], *, empty: str, shorten: bool = True, note: str = "") -> None:
    """Rows with all their keys as JSON; `columns` of them as table or CSV. The table shortens digests and ids, the others never do; they
    are written as the rows come. `note` stands below the table."""
    form = chosen_format()
    if form == "json":
        _print_array(rows)
    elif form == "jsonl":
        for row in rows:
            click.echo(msgspec.json.encode(row).decode())
    elif form == "csv":
        _print_csv(rows, columns)
    else:
        text = table.render([_for_people(row) if shorten else row for row in rows], columns, empty=empty)
        click.echo(f"{text}\n\n{note}" if note else text)


def _print_array(rows: Iterable[Mapping[str, Any]]) -> None:
    """As `print_json` of the list, without holding it."""
    before = "[\n"
    for row in rows:
        item = msgspec.json.format(msgspec.json.encode(row), indent=2).decode()
        click.echo(before + "  " + item.replace("\n", "\n  "), nl=False)
        before = ",\n"
    click.echo("[]" if before == "[\n" else "\n]")


def print_document(document: Mapping[str, Any], text: str) -> None:
    """One answer that is no list: `text` for a person, the document as one JSON value, or as name and value in CSV."""
    form = chosen_format()
    if form == "json":
        print_json(document)
    elif form == "jsonl":
        click.echo(msgspec.json.encode(document).decode())
    elif form == "csv":
        _print_csv([{"name": name, "value": value} for name, value in document.items()], ("name", "value"))
    else:
        click.echo(text)


def _for_people(row: Mapping[str, Any]) -> dict[str, Any]:
    shown = dict(row)
    for name in _DIGESTS:
        if name in shown:
            shown[name] = short(shown[name])
    if shown.get("time"):
        shown["time"] = f"{shown['time'][:19]}Z"
    for name in ("launch", "attach", "residency", "grant"):
        if shown.get(name):
            shown[name] = shown[name][: 8 if name == "launch" else 10]
    for name, value in shown.items():
        if isinstance(value, float):
            shown[name] = f"{value:.2f}"
        elif name.endswith("_bytes") and isinstance(value, int):
            shown[name] = size(value)
    if shown.get("checkpoint"):
        shown["checkpoint"] = tail(shown["checkpoint"])
    return shown


def _print_csv(rows: Iterable[Mapping[str, Any]], columns: Sequence[str]) -> None:
    """RFC 4180, with a header; text that a spreadsheet would run is prefixed by an apostrophe."""
    import csv

    writer = csv.writer(sys.stdout)
    writer.writerow(columns)
    for row in rows:
        writer.writerow([_csv_value(row.get(name)) for name in columns])


def _csv_value(value: Any) -> Any:
    if value is None or isinstance(value, (bool, int, float)):
        return value
    return csv_cell(value if isinstance(value, str) else msgspec.json.encode(value).decode())
