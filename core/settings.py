"""Where things lie and which policy holds: defaults, then `wcache.toml`, then `WCACHE_*`, then arguments, each over the one before."""

from __future__ import annotations

import enum
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

import msgspec

from wcache.core.model.errors import UsageError
from wcache.core.model.policy import Policy
from wcache.core.places import LOCK_NAME as LOCK_NAME
from wcache.core.places import SOCKET_NAME as SOCKET_NAME
from wcache.core.places import SUN_PATH_MAX as SUN_PATH_MAX

_PLACES = ("runtime_dir", "state_dir", "ledger")
_SHARED = ("shared_group", "daemon_uid")
_DAEMON = (*_SHARED, "health_port", "expect", "budget_bytes")
"""What only the daemon looks at: further fields of Settings."""
_POLICY_FIELDS = tuple(Policy.__struct_fields__)
VARIABLES = (*_PLACES, *_DAEMON, *_POLICY_FIELDS)
"""Settings that a `WCACHE_` variable of the same name sets."""


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """`runtime_dir` holds socket and lock and may vanish at boot; `state_dir` holds ledger, seeds and logs; `ledger` is the SQLite file.

    `health_port`: where the daemon answers /health and /metrics, on 127.0.0.1 (0: on a free one); `expect`: the checkpoints without
    which it is unhealthy. `budget_bytes`: the most that residencies may take of each device, below what the system's own limits leave.
    `shared_group`: the group (name or number) whose members a daemon serves beside its own user. `daemon_uid`: the user whose daemon a
    client talks to; None is its own.
    """

    runtime_dir: Path
    state_dir: Path
    ledger: Path
    policy: Policy
    health_port: Annotated[int, msgspec.Meta(ge=0, le=65535)] | None = None
    expect: tuple[str, ...] = ()
    budget_bytes: Annotated[int, msgspec.Meta(ge=0)] | None = None
    shared_group: str | None = None
    daemon_uid: Annotated[int, msgspec.Meta(ge=0)] | None = None

    @property
    def foreign(self) -> bool:
        """Whether the daemon is another user's: everything that is recorded goes through it then."""
        return self.daemon_uid is not None and self.daemon_uid != os.geteuid()

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


def _parsed(text: str) -> dict[str, Any]:
    """Raises ValueError (TOMLDecodeError is one). Imported here: most commands find no file, and the parser is a tenth of their start."""
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    return tomllib.loads(text)


def _from_files(environ: Mapping[str, str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for path in config_files(environ):
        try:
            text = path.read_text(encoding="utf-8")
            body = _parsed(text) if text else {}
        except FileNotFoundError:
            if environ.get("WCACHE_CONFIG"):
                raise UsageError("no such file", where=str(path), remedy="correct or unset WCACHE_CONFIG") from None
            continue
        except (OSError, ValueError) as error:
            raise UsageError(f"cannot be read: {error}", where=str(path)) from error
        policy = body.pop("policy", {})
        if not isinstance(policy, dict):
            raise UsageError("policy is no table", where=str(path), remedy="write a line [policy], and its settings below it")
        unknown = sorted(set(body) - {*_PLACES, *_DAEMON}) + sorted(f"policy.{key}" for key in set(policy) - set(_POLICY_FIELDS))
        if unknown:
            raise UsageError(
                f"unknown setting {unknown[0]}",
                where=str(path),
                remedy=f"known: {', '.join((*_PLACES, *_DAEMON))}, [policy] {', '.join(_POLICY_FIELDS)}",
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
    kind = next((one for one in get_args(kind) if get_origin(one) is Literal), kind)  # of a choice that may be left unset
    if get_origin(kind) is Literal:
        return f"one of {', '.join(get_args(kind))}"
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return f"one of {', '.join(member.value for member in kind)}"
    if field == "lock":
        return "a path"
    return "a number, not below 0" if kind is float else "a whole number, not below 0"


def load_settings(environ: Mapping[str, str] | None = None, **arguments: Any) -> Settings:
    """Reads files and environment; `arguments` that are not None win. Raises UsageError naming the setting."""
    environ = os.environ if environ is None else environ
    values = _from_files(environ)
    for field in VARIABLES:
        text = environ.get(f"WCACHE_{field.upper()}")
        if text:
            values[field] = text.split(os.pathsep) if field == "expect" else text
    values.update({field: value for field, value in arguments.items() if value is not None and value is not msgspec.UNSET})
    if isinstance(values.get("lock"), str):
        values["lock"] = str(Path(values["lock"]).expanduser().absolute())
    default_runtime, default_state = _default_places(environ)
    for field in _PLACES:
        if not isinstance(values.get(field, ""), (str, os.PathLike)):
            raise UsageError(f"{field} is {values[field]!r}, not a path", where=_source(field, environ, arguments))
    state_dir = Path(values.pop("state_dir", default_state)).expanduser().absolute()
    runtime_dir = Path(values.pop("runtime_dir", default_runtime)).expanduser().absolute()
    ledger = Path(values.pop("ledger", state_dir / "ledger.sqlite")).expanduser().absolute()
    daemon = {field: values.pop(field) for field in _DAEMON if field in values}
    try:
        policy = msgspec.convert(values, Policy, strict=False)
    except msgspec.ValidationError as error:
        field = str(error).rpartition("$.")[2].rstrip("`")
        if field not in _POLICY_FIELDS:
            raise UsageError(f"policy: {error}") from error
        what, where = f"policy: {field} is {values[field]!r}", _source(field, environ, arguments)
        raise UsageError(what, where=where, remedy=f"it must be {_allowed(field)}") from error
    places = {"runtime_dir": runtime_dir, "state_dir": state_dir, "ledger": ledger}
    try:
        settings = msgspec.convert({**places, "policy": policy, **daemon}, Settings, strict=False)
    except msgspec.ValidationError as error:
        raise UsageError(f"settings: {error}", remedy="see docs/configuration.md for the values") from error
    length = len(os.fsencode(settings.socket_path))
    if length > SUN_PATH_MAX:
        raise UsageError(
            f"the socket's path has {length} bytes, the kernel allows {SUN_PATH_MAX}",
            where=str(settings.socket_path),
            remedy="set WCACHE_RUNTIME_DIR to a shorter directory",
        )
    return settings
