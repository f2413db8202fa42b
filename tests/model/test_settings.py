"""Settings: defaults, then files, then environment, then arguments; what cannot be meant is refused in one line."""

from __future__ import annotations

from pathlib import Path

import pytest

from wcache.core.model.errors import UsageError
from wcache.core.settings import load_settings


def _environ(tmp_path: Path, toml: str = "", **more: str) -> dict[str, str]:
    (tmp_path / "wcache.toml").write_text(toml)
    return {"HOME": str(tmp_path), "WCACHE_CONFIG": str(tmp_path / "wcache.toml"), **more}


def test_each_source_overrides_the_one_before(tmp_path: Path) -> None:
    toml = 'state_dir = "/from/file"\nruntime_dir = "/file/run"\n[policy]\naccept = "header"\nwait_s = 7\n'
    environ = _environ(tmp_path, toml, WCACHE_STATE_DIR="/from/env", WCACHE_ACCEPT="sampled")
    settings = load_settings(environ, accept="content")
    assert settings.runtime_dir == Path("/file/run") and settings.state_dir == Path("/from/env")
    assert settings.policy.accept == "content" and settings.policy.wait_s == 7
    assert load_settings(environ).policy.accept == "sampled"
    assert settings.ledger == Path("/from/env/ledger.sqlite")


def test_the_state_directory_of_a_user_follows_xdg(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    settings = load_settings(_environ(tmp_path, XDG_STATE_HOME=str(tmp_path / "state")))
    assert settings.state_dir == tmp_path / "state" / "wcache" and settings.runtime_dir == settings.state_dir / "run"
    with_runtime = load_settings(_environ(tmp_path, XDG_RUNTIME_DIR="/run/user/1000"))
    assert with_runtime.runtime_dir == Path("/run/user/1000/wcache")


@pytest.mark.parametrize(
    ("toml", "says"),
    [
        ("[policy]\nacept = 'header'\n", "unknown setting policy.acept"),
        ("state = '/x'\n", "unknown setting state"),
        ("[policy]\naccept = 'strong'\n", "accept"),
        ("[policy]\naccept = 'strong'\n", "it must be one of header, sampled, pinned, content"),
        ("[policy]\ntrusted = 'yes'\n", "it must be one of honour, ignore"),
        ("[policy]\nmax_read_bytes = '10 GiB'\n", "max_read_bytes is '10 GiB'; it must be a whole number"),
        ("[policy]\nmax_read_bytes = -1\n", "max_read_bytes is -1"),
        ("[policy]\nwait_s = -0.5\n", "it must be a number"),
        ("policy = 3\n", "policy is no table"),
        ("state_dir = 3\n", "state_dir is 3, not a path"),
        ("[policy\n", "cannot be read"),
    ],
)
def test_a_bad_file_is_named_with_what_is_wrong(tmp_path: Path, toml: str, says: str) -> None:
    with pytest.raises(UsageError) as caught:
        load_settings(_environ(tmp_path, toml))
    assert says in caught.value.diagnostics()


@pytest.mark.parametrize(
    ("toml", "variables", "arguments", "place"),
    [
        ("[policy]\naccept = 'strong'\n", {}, {}, "wcache.toml"),
        ("", {"WCACHE_ACCEPT": "strong"}, {}, "WCACHE_ACCEPT"),
        ("", {"WCACHE_ACCEPT": "header"}, {"accept": "strong"}, "arguments"),
    ],
)
def test_a_bad_value_is_said_with_the_place_it_comes_from(
    tmp_path: Path, toml: str, variables: dict[str, str], arguments: dict[str, str], place: str
) -> None:
    with pytest.raises(UsageError) as caught:
        load_settings(_environ(tmp_path, toml, **variables), **arguments)
    assert f"{place}: policy: accept is 'strong'" in caught.value.diagnostics()


def test_a_socket_path_that_the_kernel_cannot_hold_is_refused(tmp_path: Path) -> None:
    """D6."""
    with pytest.raises(UsageError, match="107"):
        load_settings(_environ(tmp_path), runtime_dir="/" + "d" * 107)
    assert load_settings(_environ(tmp_path), runtime_dir="/" + "d" * 94)
