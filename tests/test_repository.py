"""The repository as a whole: what is promised about its shape, its verbs and its package."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parent.parent
ROOMS = ("core", "ledger", "daemon", "loader", "drill", "cli", "migrations")
MODULE_LINES = 420  # "about 400"
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def _modules() -> list[Path]:
    return sorted(path for room in ROOMS for path in (ROOT / room).rglob("*.py") if "__pycache__" not in path.parts)


def _ours() -> list[Path]:
    """Every text file of the repository that is, or would be, committed."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if listed.returncode:
        pytest.skip("not a git checkout")
    return [path for name in listed.stdout.splitlines() if (path := ROOT / name).is_file() and not path.is_symlink()]


def test_every_folder_with_modules_is_a_named_package() -> None:
    """A sub-package that pyproject.toml does not name would be missing from the wheel."""
    found = {"wcache." + ".".join(path.parent.relative_to(ROOT).parts) for path in _modules()}
    assert found == set(PYPROJECT["tool"]["setuptools"]["packages"])


def test_every_package_says_what_may_live_in_it() -> None:
    for path in _modules():
        if path.name == "__init__.py":
            assert path.read_text(encoding="utf-8").lstrip().startswith('"""'), f"{path.relative_to(ROOT)} has no docstring"


def test_every_room_is_marked_as_typed() -> None:
    for room in ROOMS:
        assert (ROOT / room / "py.typed").is_file(), room


def test_modules_stay_readable() -> None:
    """About 400 lines a module, of what is code: the catalogue of events is one noun, however long."""
    catalogues = {"core/model/events.py"}
    long = {str(path.relative_to(ROOT)): lines for path in _modules() if (lines := len(path.read_text().splitlines())) > MODULE_LINES}
    assert set(long) <= catalogues, long


def test_nothing_is_left_to_be_done_silently() -> None:
    """No stubs: an open end is an issue, not a comment."""
    word = re.compile(r"\b(TODO|FIXME|XXX|NotImplementedError)\b")
    for path in _modules():
        assert not word.search(path.read_text(encoding="utf-8")), path.relative_to(ROOT)


def test_no_file_names_the_machine_it_was_written_on() -> None:
    home = re.compile(r"/(?:root|home/\w+)/(?!\.\.\.)")
    for path in _ours():
        if path.suffix in (".py", ".md", ".toml", ".txt", "") and path != Path(__file__):
            try:
                text = path.read_text(encoding="utf-8")
            except UnicodeDecodeError:
                continue
            assert not home.search(text), f"{path.relative_to(ROOT)}: {home.search(text)}"


def test_no_large_file_is_committed() -> None:
    for path in _ours():
        assert path.stat().st_size < 2_000_000, path.relative_to(ROOT)


def test_the_five_verbs_exist_and_the_readme_names_them() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    for verb in ("demo", "test", "lint", "bench", "docs"):
        assert re.search(rf"^{verb}:", makefile, flags=re.M), verb
        assert f"make {verb}" in readme, verb


def test_continuous_integration_runs_the_readmes_own_test_command() -> None:
    script = ROOT / ".ci" / "run"
    assert os.access(script, os.X_OK)
    assert "make lint" in script.read_text(encoding="utf-8")
    assert re.search(r"^make test", (ROOT / "README.md").read_text(encoding="utf-8"), flags=re.M)


def test_the_licence_is_the_whole_of_apache_2() -> None:
    text = (ROOT / "LICENSE").read_text(encoding="utf-8")
    assert "Apache License" in text and "Version 2.0, January 2004" in text
    assert "END OF TERMS AND CONDITIONS" in text
    assert PYPROJECT["project"]["license"] == "Apache-2.0"


def test_the_changelog_has_an_unreleased_section() -> None:
    assert "## [Unreleased]" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_importing_a_room_imports_no_engine() -> None:
    """torch and transformers cost seconds and a CUDA context; only the function that needs them imports them."""
    code = (
        "import sys\n"
        f"import {', '.join('wcache.' + room for room in ROOMS)}\n"
        "import wcache.cli.main, wcache.loader, wcache.core.model.decide, wcache.core.checkpoint.checkpoint\n"
        "heavy = {'torch', 'transformers', 'numpy', 'sqlalchemy', 'rich', 'alembic'} & set(sys.modules)\n"
        "print(*sorted(heavy))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, ""), done.stderr
