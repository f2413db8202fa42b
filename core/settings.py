"""Where things lie and which policy holds: defaults, then `wcache.toml`, then `WCACHE_*`, then arguments, each over the one before."""

from __future__ import annotations

import enum
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

import msgspec

from wcache.core.model.errors import UsageError
from wcache.core.model.policy import Policy

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

SOCKET_NAME = "wcache.sock"
LOCK_NAME = "daemon.lock"
SUN_PATH_MAX = 107  # unix(7): sun_path is 108 bytes with its NUL

_PLACES = ("runtime_dir", "state_dir", "ledger")
_POLICY_FIELDS = tuple(Policy.__struct_fields__)
VARIABLES = (*_PLACES, *_POLICY_FIELDS)
"""Settings that a `WCACHE_` variable of the same name sets."""


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """`runtime_dir` holds socket and lock and may vanish at boot; `state_dir` holds ledger, seeds and logs; `ledger` is the SQLite file."""

    runtime_dir: Path
    state_dir: Path
    ledger: Path
    policy: Policy

    @property
    def socket_path(self) -> Path:
        return self.runtime_dir / SOCKET_NAME


def _default_places(environ: Mapping[str, str]) -> tuple[Path, Path]:
    """systemd's and XDG's places (file-hierarchy(7), XDG Base Directory); never a shared temporary directory."""
    if os.geteuid() == 0:
        return Path("/run/wcache"), Path("/var/lib/wcache")
    home = Path(environ.get("HOME") or Path.home())
    state = Path(environ.get("XDG_STATE_HOME") or home / ".local" / "state") / "wcache"
    runtime = environ.get("XDG_RUNTIME_DIR")
    return (Path(runtime) / "wcache" if runtime else state / "run"), state


def config_files(environ: Mapping[str, str] | None = None) -> tuple[Path, ...]:
    """The files that are read, in rising order. `WCACHE_CONFIG` replaces the others."""
    environ = os.environ if environ is None else environ
    if environ.get("WCACHE_CONFIG"):
        return (Path(environ["WCACHE_CONFIG"]),)
    home = Path(environ.get("XDG_CONFIG_HOME") or Path(environ.get("HOME") or Path.home()) / ".config")
    return (Path("/etc/wcache/wcache.toml"), home / "wcache" / "wcache.toml")


def _from_files(environ: Mapping[str, str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for path in config_files(environ):
        try:
            body = tomllib.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            if environ.get("WCACHE_CONFIG"):
                raise UsageError("no such file", where=str(path), remedy="correct or unset WCACHE_CONFIG") from None
            continue
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            raise UsageError(f"cannot be read: {error}", where=str(path)) from error
        policy = body.pop("policy", {})
        if not isinstance(policy, dict):
            raise UsageError("policy is no table", where=str(path), remedy="write a line [policy], and its settings below it")
        unknown = sorted(set(body) - set(_PLACES)) + sorted(f"policy.{key}" for key in set(policy) - set(_POLICY_FIELDS))
        if unknown:
            raise UsageError(
                f"unknown setting {unknown[0]}",
                where=str(path),
                remedy=f"known: {', '.join(_PLACES)}, [policy] {', '.join(_POLICY_FIELDS)}",
            )
        found.update(body)
        found.update(policy)
    return found


def _source(field: str, environ: Mapping[str, str], arguments: Mapping[str, Any]) -> str:
    """Which layer a value came from, for an error about it."""
    if arguments.get(field) is not None:
        return "arguments"
    variable = f"WCACHE_{field.upper()}"
    return variable if environ.get(variable) else ", ".join(str(path) for path in config_files(environ) if path.exists())


def _allowed(field: str) -> str:
    kind = get_type_hints(Policy)[field]
    if get_origin(kind) is Literal:
        return f"one of {', '.join(get_args(kind))}"
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return f"one of {', '.join(member.value for member in kind)}"
    return "a number, not below 0" if kind is float else "a whole number, not below 0"


def load_settings(environ: Mapping[str, str] | None = None, **arguments: Any) -> Settings:
    """Reads files and environment; `arguments` that are not None win. Raises UsageError naming the setting."""
    environ = os.environ if environ is None else environ
    values = _from_files(environ)
    for field in VARIABLES:
        text = environ.get(f"WCACHE_{field.upper()}")
        if text:
            values[field] = text
    values.update({field: value for field, value in arguments.items() if value is not None})
    default_runtime, default_state = _default_places(environ)
    for field in _PLACES:
        if not isinstance(values.get(field, ""), (str, os.PathLike)):
            raise UsageError(f"{field} is {values[field]!r}, not a path", where=_source(field, environ, arguments))
    state_dir = Path(values.pop("state_dir", default_state)).expanduser().absolute()
    runtime_dir = Path(values.pop("runtime_dir", default_runtime)).expanduser().absolute()
    ledger = Path(values.pop("ledger", state_dir / "ledger.sqlite")).expanduser().absolute()
    try:
        policy = msgspec.convert(values, Policy, strict=False)
    except msgspec.ValidationError as error:
        field = str(error).rpartition("$.")[2].rstrip("`")
        if field not in _POLICY_FIELDS:
            raise UsageError(f"policy: {error}") from error
        what, where = f"policy: {field} is {values[field]!r}", _source(field, environ, arguments)
        raise UsageError(what, where=where, remedy=f"it must be {_allowed(field)}") from error
    settings = Settings(runtime_dir=runtime_dir, state_dir=state_dir, ledger=ledger, policy=policy)
    length = len(os.fsencode(settings.socket_path))
    if length > SUN_PATH_MAX:
        raise UsageError(
            f"the socket's path has {length} bytes, the kernel allows {SUN_PATH_MAX}",
            where=str(settings.socket_path),
            remedy="set WCACHE_RUNTIME_DIR to a shorter directory",
        )
    return settings
