"""docs/cases.md: every case has a test, every test that it names exists and carries the id of its case."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parent
PAGE = TESTS.parent / "docs" / "cases.md"
NAMED = re.compile(r"`([\w/]+\.py)::(\w+)`")
ROW = re.compile(r"^\| ([IACDL]\d+) \|.*$", flags=re.M)
PROMISED = {
    *(f"I{number}" for number in range(1, 18)),
    *(f"C{number}" for number in range(1, 13)),
    *(f"A{number}" for number in range(1, 14)),
    *(f"D{number}" for number in range(1, 11)),
    *(f"L{number}" for number in range(1, 11)),
}


@cache
def _described(file: str) -> dict[str, str]:
    """Name of every test of a file -> its name and docstring; TestHistories = Machine.TestCase counts too."""
    tree = ast.parse((TESTS / file).read_text(encoding="utf-8"))
    module = ast.get_docstring(tree) or ""
    found: dict[str, str] = {}
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            found[node.name] = f"{node.name} {ast.get_docstring(node) or ''} {module}"
        elif isinstance(node, ast.Assign):
            found.update({target.id: module for target in node.targets if isinstance(target, ast.Name) and target.id.startswith("Test")})
    return found


def _rows() -> dict[str, list[tuple[str, str]]]:
    text = PAGE.read_text(encoding="utf-8")
    return {match.group(1): NAMED.findall(match.group(0)) for match in ROW.finditer(text)}


def test_every_test_that_the_page_names_exists() -> None:
    named = NAMED.findall(PAGE.read_text(encoding="utf-8"))
    assert len(named) > 100
    missing = [f"{file}::{name}" for file, name in named if not (TESTS / file).is_file() or name not in _described(file)]
    assert missing == []


def test_every_promised_case_has_a_row() -> None:
    assert PROMISED - set(_rows()) == set()


@pytest.mark.parametrize("case", sorted(_rows(), key=lambda case: (case[0], int(case[1:]))))
def test_every_case_is_shown_by_tests_that_carry_its_id(case: str) -> None:
    tests = _rows()[case]
    assert tests, f"{case} has no test"
    silent = [f"{file}::{name}" for file, name in tests if not re.search(rf"\b{case}\b", _described(file).get(name, ""))]
    assert silent == []
