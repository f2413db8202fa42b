"""Aligned tables for people. They fold long cells to fit the terminal, and turn into one block a row where even that does not fit."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from wcache.cli.text import escape, width

_PIPE_WIDTH = 120
_WORDS = re.compile(r"(?<= )")
_BREAK_AFTER = re.compile(r"(?<=[_/ ])|(?<=\dT)")
_WORD_MAX = 12
_TORN_MIN = 8
_TEARABLE = frozenset({"checkpoint", "engine", "about", "what", "why", "detail", "reason", "found", "remedy"})
"""Columns of paths and prose, where a torn word is still read."""

_RED, _GREEN, _YELLOW, _DIM, _BOLD, _RESET = "\x1b[31m", "\x1b[32m", "\x1b[33m", "\x1b[2m", "\x1b[1m", "\x1b[0m"
_COLOURS = {
    "hit": _GREEN, "proved": _GREEN, "ok": _GREEN, "resident": _GREEN, "ready": _GREEN,
    "strict_miss": _RED, "refuted": _RED, "fail": _RED, "suspect": _RED, "lost": _RED, "failed": _RED,
    "fallback": _YELLOW, "unproven": _YELLOW, "unprovable": _YELLOW, "warn": _YELLOW, "loading": _YELLOW,
}  # fmt: skip


def coloured() -> bool:
    """Only on a terminal, and not with NO_COLOR (no-color.org)."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def bold(text: str) -> str:
    return f"{_BOLD}{text}{_RESET}" if coloured() else text


def _terminal_width() -> int:
    import shutil

    if sys.stdout.isatty() or os.environ.get("COLUMNS", "").isdigit():
        return shutil.get_terminal_size((_PIPE_WIDTH, 24)).columns
    return _PIPE_WIDTH


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return escape(str(value))


def _fold(text: str, limit: int) -> list[str]:
    """Lines of at most `limit` columns, broken at blanks, and after _ / T in a word that is longer than a line."""
    if width(text) <= limit:
        return [text]
    lines: list[str] = [""]
    for piece in (part for word in _WORDS.split(text) for part in ([word] if width(word.rstrip()) <= limit else _BREAK_AFTER.split(word))):
        if width(lines[-1]) + width(piece.rstrip()) <= limit:
            lines[-1] += piece
            continue
        if lines[-1]:
            lines.append("")
        while width(piece.rstrip()) > limit:
            cut = limit if piece.isascii() else next(n for n in range(len(piece), 0, -1) if n == 1 or width(piece[:n]) <= limit)
            lines[-1:] = [piece[:cut], ""]
            piece = piece[cut:]
        lines[-1] = piece
    return [line.rstrip() for line in lines if line.strip()] or [""]


def _least(texts: Sequence[str], name: str, breaks: re.Pattern[str], *, tear: bool) -> int:
    """The narrowest that a column may get: its longest word, by what words end with, or less where words may be torn."""
    head = max(width(word.rstrip()) for word in breaks.split(name))
    longest = max((width(word.rstrip()) for text in texts for word in breaks.split(text)), default=0)
    return max(head, min(longest, _TORN_MIN if tear and name in _TEARABLE else _WORD_MAX))


def _widths(columns: Sequence[str], body: Sequence[Sequence[str]], total: int) -> tuple[list[int], int] | None:
    """Column widths and the gap between them, or None where the table cannot be read at this width."""
    texts = [[row[n] for row in body] for n in range(len(columns))]
    wanted = [max(map(width, (*cells, name))) for cells, name in zip(texts, columns, strict=True)]
    for breaks, tear, gap in (
        (_WORDS, False, 2),
        (_BREAK_AFTER, False, 2),
        (_BREAK_AFTER, False, 1),
        (_BREAK_AFTER, True, 2),
        (_BREAK_AFTER, True, 1),
    ):
        least = [min(_least(cells, name, breaks, tear=tear), want) for cells, name, want in zip(texts, columns, wanted, strict=True)]
        room = total - gap * (len(columns) - 1)
        if sum(least) > room:
            continue
        found = list(wanted)
        while sum(found) > room:
            slackest = max(range(len(found)), key=lambda n: found[n] - least[n])
            found[slackest] -= 1
        return found, gap
    return None


def _paint(text: str, raw: str) -> str:
    colour = _COLOURS.get(raw) if coloured() else None
    return f"{colour}{text}{_RESET}" if colour else text


def render(rows: Sequence[Mapping[str, Any]], columns: Sequence[str], *, empty: str = "nothing") -> str:
    """The rows as text; whole numbers stand at the right of their column."""
    if not rows:
        return empty
    body = [[_cell(row.get(name)) for name in columns] for row in rows]
    layout = _widths(columns, body, _terminal_width())
    if layout is None:
        label = max(map(len, columns))
        blocks = [
            "\n".join(f"{name:<{label}}  {_paint(value, value)}" for name, value in zip(columns, row, strict=True) if value) for row in body
        ]
        return "\n\n".join(blocks)
    widths, gap = layout
    lines = [bold(line) for line in _row_lines(columns, widths, gap, paint=False)]
    for row in body:
        lines += _row_lines(row, widths, gap, paint=True)
    return "\n".join(lines)


def _row_lines(cells: Sequence[str], widths: Sequence[int], gap: int, *, paint: bool) -> list[str]:
    folded = [_fold(cell, limit) for cell, limit in zip(cells, widths, strict=True)]
    lines = []
    for level in range(max(map(len, folded))):
        parts = []
        for number, (cell, limit) in enumerate(zip(folded, widths, strict=True)):
            text = cell[level] if level < len(cell) else ""
            pad = " " * (limit - width(text))
            shown = _paint(text, cells[number]) if paint and text else text
            parts.append(pad + shown if cells[number].isdigit() else shown + pad)
        lines.append((" " * gap).join(parts).rstrip())
    return lines


def fields(pairs: Mapping[str, Any]) -> str:
    """Name and value, one a line, empty values left out."""
    shown = {name: _cell(value) for name, value in pairs.items() if value not in (None, "")}
    label = max(map(len, shown), default=0)
    return "\n".join(f"{name:<{label}}  {_paint(value, value)}" for name, value in shown.items())
