"""Documents say what the code says."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import msgspec

from wcache.core.model.policy import Policy
from wcache.core.model.vocabulary import Reason
from wcache.core.settings import Settings

ROOT = Path(__file__).resolve().parent.parent
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")


def _read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def _generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("docs_generate", ROOT / "docs" / "generate.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _prose() -> Iterator[Path]:
    yield from sorted(ROOT.glob("*.md"))
    yield from sorted((ROOT / "docs").rglob("*.md"))


def test_the_reference_is_what_the_code_says() -> None:
    """`make docs` writes it; a difference means that it was not run."""
    assert _generator().stale() == []


def test_every_link_between_documents_leads_somewhere() -> None:
    for page in _prose():
        text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.S)
        for target in LINK.findall(text):
            path, _, anchor = target.partition("#")
            if "://" in target or target.startswith("mailto:"):
                continue
            found = page if not path else (page.parent / path)
            assert found.exists(), f"{page.relative_to(ROOT)}: {target}"
            if anchor:
                headings = re.findall(r"^#+ (.*)$", found.read_text(encoding="utf-8"), flags=re.M)
                assert anchor in {_anchor(heading) for heading in headings}, f"{page.relative_to(ROOT)}: {target}"


def _anchor(heading: str) -> str:
    """GitHub's: lower case, punctuation but `-` and `_` dropped, spaces to `-`."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def test_every_setting_is_documented_with_its_variable_and_default() -> None:
    text = _read("docs/configuration.md")
    for field in msgspec.structs.fields(Policy):
        row = next((line for line in text.splitlines() if line.startswith(f"| `{field.name}` |")), "")
        assert f"`WCACHE_{field.name.upper()}`" in row, field.name
        default = field.default
        if default is msgspec.UNSET:  # means what the row says
            continue
        plain = getattr(default, "value", default)
        shown = "no limit" if plain is None else f"`{int(plain) if isinstance(plain, float) else plain}`"
        assert shown in row, (field.name, shown)
    for field in msgspec.structs.fields(Settings):
        if field.name != "policy":
            assert f"`WCACHE_{field.name.upper()}`" in text, field.name


def test_every_reason_is_documented() -> None:
    text = _read("docs/reference/reasons.md")
    for reason in Reason:
        assert f"| `{reason}` |" in text, reason


def test_every_top_level_command_is_in_the_readme() -> None:
    from wcache.cli.main import COMMANDS

    text = _read("README.md")
    for name in COMMANDS:
        assert f"wcache {name}" in text, name


def test_every_decision_record_has_its_three_parts() -> None:
    records = sorted((ROOT / "docs" / "adr").glob("*.md"))
    assert [int(path.name[:4]) for path in records] == list(range(1, len(records) + 1))
    for path in records:
        text = path.read_text(encoding="utf-8")
        for part in ("**Context.**", "**Decision.**", "**Consequences.**"):
            assert part in text, f"{path.name}: {part}"
        assert len(text.splitlines()) <= 60, f"{path.name}: one page"


def test_the_readme_shows_a_run_of_the_demonstration() -> None:
    """The pasted output and the program have the same sections, in the same order, and no expectation failed in it."""
    readme = _read("README.md")
    titles = re.findall(r"story\.section\(\s*\"([^\"]+)\"", _read("demo/run.py"))
    assert len(titles) >= 7
    places = [readme.find(f"{number}  {title}") for number, title in enumerate(titles, 1)]
    assert -1 not in places and places == sorted(places), dict(zip(titles, places, strict=True))
    assert "Every expectation held." in readme and "✗" not in readme
