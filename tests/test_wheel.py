"""The wheel as a user installs it: everything is in it, and it works where the repository is not."""

from __future__ import annotations

import os
import site
import subprocess
import sys
import venv
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.commands import clean_environ, ok

ROOT = Path(__file__).resolve().parent.parent
ROOMS = ("core", "ledger", "daemon", "loader", "cli", "migrations")

pytestmark = pytest.mark.slow


def _run(*command: str | Path, env: dict[str, str] | None = None, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, env=env, cwd=cwd, timeout=300, check=False)


def _sources(target: Path) -> Path:
    """A copy of what git would have: building leaves files beside the sources, which another test run must not see."""
    listed = _run("git", "ls-files", "--cached", "--others", "--exclude-standard", cwd=ROOT)
    if listed.returncode:
        pytest.skip("not a git checkout")
    for name in listed.stdout.splitlines():
        source, copy = ROOT / name, target / name
        if source.is_file() and not source.is_symlink():
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(source.read_bytes())
    return target


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built with the setuptools of this environment where it is new enough, else in a build environment of its own."""
    folder = tmp_path_factory.mktemp("wheel")
    sources = _sources(folder / "sources")
    arguments = (sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", folder / "out", sources)
    done = _run(*arguments, "--no-build-isolation")
    if done.returncode:
        done = _run(*arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    (found,) = (folder / "out").glob("*.whl")
    return found


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A new environment with the wheel in it; what it depends on is seen through a path file, the repository is not."""
    place = tmp_path_factory.mktemp("installed") / "venv"
    venv.create(place, with_pip=False, symlinks=True)
    (packages,) = (place / "lib").glob("python*/site-packages")
    done = _run(sys.executable, "-m", "pip", "--python", place / "bin" / "python", "install", "--quiet", "--no-deps", wheel)
    assert done.returncode == 0, done.stderr
    # The dependencies' directory behind the environment's own, without the path files and finders that lie in it.
    (packages / "dependencies.pth").write_text("\n".join(site.getsitepackages()))
    yield place


def test_the_wheel_holds_every_module_migration_and_type_marker_and_nothing_else(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    for room in ROOMS:
        assert f"wcache/{room}/py.typed" in names
        for path in (ROOT / room).rglob("*.py"):
            if "__pycache__" not in path.parts:
                assert f"wcache/{path.relative_to(ROOT)}" in names
    assert any(name.startswith("wcache/migrations/versions/0001") for name in names)
    assert {f"wcache/ledger/report/page.{kind}" for kind in ("html.jinja", "css", "js")} <= names
    assert {name.partition("/")[0].partition("-")[0] for name in names} == {"wcache", "wcache_ledger"}
    assert any(name.endswith("licenses/LICENSE") for name in names)


def test_the_command_works_from_the_wheel_with_a_ledger_made_by_its_own_migrations(installed: Path, short_path: Path) -> None:
    from support.corpus import make_checkpoint

    env = {
        **{name: value for name, value in clean_environ().items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")},
        "WCACHE_RUNTIME_DIR": str(short_path / "run"),
        "WCACHE_STATE_DIR": str(short_path / "state"),
    }
    python = installed / "bin" / "python"
    where = _run(python, "-c", "import wcache.core, wcache.migrations as m; print(m.__file__)", env=env, cwd=short_path)
    assert where.stdout.startswith(str(installed)), where.stdout + where.stderr
    command = installed / "bin" / "wcache"

    def wcache(*arguments: str, code: int = 0) -> object:
        return ok(_run(command, *arguments, "--json", env=env, cwd=short_path), code)

    version = _run(command, "--version", env=env, cwd=short_path)
    assert version.returncode == 0 and version.stdout.strip()
    wcache("daemon", "start")
    try:
        assert wcache("ledger", "upgrade")
        place = str(make_checkpoint(short_path / "m", shards=2))
        wcache("load", place)
        found = wcache("check", place)
        assert isinstance(found, dict) and (found["decision"], found["tier"]) == ("hit", "pinned")
        loader = "import sys; from wcache.loader.attach import attach; print(attach(sys.argv[1], on_miss='strict').decision.tier.value)"
        assert _run(python, "-c", loader, place, env=env, cwd=short_path).stdout.strip() == "pinned"
        assert wcache("ledger", "verify")
    finally:
        _run(command, "daemon", "stop", "--force", env=env, cwd=short_path)
    assert os.access(command, os.X_OK)


def test_a_type_checker_sees_the_types(installed: Path, tmp_path: Path) -> None:
    """py.typed of every room: what a function returns is known to whoever installs the wheel."""
    user = tmp_path / "user.py"
    user.write_text("from wcache.core.settings import load_settings\nreveal_type(load_settings().ledger)\n")
    python = installed / "bin" / "python"
    done = _run(sys.executable, "-m", "mypy", "--python-executable", python, "--cache-dir", tmp_path / "cache", user, cwd=tmp_path)
    assert "pathlib.Path" in done.stdout and "missing library stubs or py.typed" not in done.stdout, done.stdout + done.stderr
