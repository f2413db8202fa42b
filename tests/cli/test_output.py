"""What is printed harms neither a terminal nor a spreadsheet, and can be read at any width."""

from __future__ import annotations

import csv
import io

import pytest

from wcache.cli import table
from wcache.cli.text import csv_cell, duration, escape, size, tail, width
from wcache.ledger.audit import ATTACH_COLUMNS

ROW = {
    "seq": 1234567, "time": "2026-11-29T14:00:00Z", "launch": "l-1f2e3d", "rank": 7, "engine": "transformers",
    "checkpoint": "…/snapshots/0123456789abcdef/x", "decision": "strict_miss", "reason": "evidence_insufficient", "tier": "attested",
    "asked_digest": "01234567", "served_digest": "89abcdef", "mode": "zero_copy", "proof": "unprovable",
}  # fmt: skip


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t", "\r"])
def test_a_formula_in_a_cell_is_neutralised(start: str) -> None:
    """L9"""
    assert csv_cell(f"{start}1+1") == f"'{start}1+1"
    assert csv_cell("a=1") == "a=1"


def test_control_characters_and_overrides_are_shown_not_obeyed() -> None:
    assert escape("a\x1b[31m\n\u202eb\x07") == "a\\x1b[31m\\n\\u202eb\\x07"
    assert escape("Ünïcode 模型") == "Ünïcode 模型"
    assert "\x1b" not in table.render([{"x": "\x1b]0;t\x07"}], ("x",))


@pytest.mark.parametrize("columns", [200, 150, 120])
def test_the_widest_attach_fits_a_terminal(columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    lines = table.render([ROW], ATTACH_COLUMNS).splitlines()
    assert max(map(width, lines)) <= columns
    assert lines[0].split()[:2] == ["seq", "time"]


def test_a_narrow_terminal_gets_one_block_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    lines = table.render([ROW, ROW], ATTACH_COLUMNS).splitlines()
    assert lines[:2] == ["seq            1234567", "time           2026-11-29T14:00:00Z"]
    assert max(map(width, lines)) <= 60
    assert lines.count("") == 1


def test_wide_characters_are_counted_as_two_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "30")
    lines = table.render([{"checkpoint": "模型" * 20, "n": 1}], ("checkpoint", "n")).splitlines()
    assert max(map(width, lines)) <= 30
    assert "".join(line.split()[0] for line in lines[1:]) == "模型" * 20


def test_a_word_that_fits_on_a_line_is_not_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "30")
    lines = table.render([{"what": "ready, fallback daemon_absent, same answers", "n": 1}], ("what", "n")).splitlines()
    assert [line[:27].rstrip() for line in lines[1:]] == ["ready, fallback", "daemon_absent, same answers"]


def test_folding_loses_no_letter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    text = "/a/very_long/path-with/x" * 9
    lines = table.render([{"what": text, "n": 1}], ("what", "n")).splitlines()
    assert "".join(line.split()[0] for line in lines[1:]) == text


def test_a_folded_line_of_digits_stands_where_its_text_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "30")
    lines = table.render([{"found": "/run/user/wcache, mode 0700", "n": 7}, {"found": "x", "n": 12}], ("found", "n")).splitlines()
    assert any(line.startswith("0700") or " 0700" in line for line in lines)
    assert not any(line.startswith("  ") and line.strip() == "0700" for line in lines)


def test_numbers_are_written_for_people() -> None:
    assert [size(n) for n in (0, 999, 1024, 269 << 20, 5 << 40)] == ["0 B", "999 B", "1.0 KiB", "269 MiB", "5.0 TiB"]
    assert [duration(s) for s in (0.0042, 3, 130, 7300, 200_000)] == ["4.2 ms", "3.0 s", "2 min 10 s", "2 h 1 min", "2 d 7 h"]
    assert tail("/models/" + "x" * 40, 10) == "…" + "x" * 9


def test_a_csv_value_survives_a_reader() -> None:
    written = io.StringIO()
    csv.writer(written).writerow([csv_cell('=HYPERLINK("x")'), csv_cell('a,"b"\nc')])
    assert next(csv.reader(io.StringIO(written.getvalue()))) == ['\'=HYPERLINK("x")', 'a,"b"\nc']
