"""A server's command line, as far as the drill must understand it: which engine, which model, which port, and how to vary them."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import msgspec

from wcache.core.model.errors import UsageError

Engine = Literal["vllm", "sglang", "transformers", "other"]
Tensors = Literal["raw", "processed"]

_DEFAULT_PORTS: dict[str, int] = {"vllm": 8000, "sglang": 30000, "transformers": 8000}
_MODULES: dict[str, Engine] = {"vllm.entrypoints.openai.api_server": "vllm", "sglang.launch_server": "sglang"}
_PROGRAMS: dict[str, Engine] = {"vllm": "vllm", "sglang": "sglang", "transformers": "transformers"}
HALVED = "float16 or bfloat16"
_PLUGINS = ("vllm", "sglang")
_OURS = ("--load-format", "--model-loader-extra-config")
_ANY = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 (what a server binds to, and where it is asked then)
_DTYPES = {"BF16": "bfloat16", "F16": "float16", "F32": "float32", "F64": "float64"}


class ServerCommand(msgspec.Struct, frozen=True):
    """`words` is what was typed. Every method returns a variation and leaves this one as it is."""

    words: tuple[str, ...]
    engine: Engine
    model: str
    host: str
    port: int
    revision: str | None = None

    @property
    def url(self) -> str:
        host = _ANY.get(self.host, self.host)
        return f"http://[{host}]:{self.port}" if ":" in host else f"http://{host}:{self.port}"

    @property
    def by_plugin(self) -> bool:
        """Whether the engine asks the cache by itself, through wcache in its own environment."""
        return self.engine in _PLUGINS

    def cached(self, *, strict: bool, tensors: Tensors) -> tuple[str, ...]:
        """The command that takes its weights from the cache: through the engine's plugin, or through `wcache exec`."""
        if self.by_plugin:
            extra = json.dumps({"tensors": tensors, "fallback": not strict})
            return (*self.words, "--load-format", "wcache", "--model-loader-extra-config", extra)
        policy = ("--strict",) if strict else ()
        return (sys.executable, "-m", "wcache.cli", "exec", *policy, "--checkpoint", self.model, "--", *self.words)

    def with_model(self, other: str) -> ServerCommand:
        words = [other if word == self.model else word for word in self.words]
        words = [f"{name}={other}" if (name := word.partition("=")[0]) and word == f"{name}={self.model}" else word for word in words]
        return msgspec.structs.replace(self, words=tuple(words), model=other)

    def with_dtype(self, dtype: str) -> ServerCommand:
        words = _without(self.words, "--dtype")
        return msgspec.structs.replace(self, words=(*words, "--dtype", dtype))

    def asked_dtype(self, config: Path) -> str | None:
        """What the engine computes in, in torch's words: `--dtype`, else what the model's configuration says; None where neither does.

        HALVED where vLLM or SGLang choose: unless they are told, they compute a model in float32 in 16 bits.
        """
        typed = _value(self.words, "--dtype")
        if typed not in (None, "auto"):
            return _alias(str(typed))
        try:
            document = json.loads(config.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        found = document.get("dtype") or document.get("torch_dtype") if isinstance(document, dict) else None
        if not isinstance(found, str):
            return None
        return HALVED if self.by_plugin and _alias(found) == "float32" else _alias(found)


def _alias(dtype: str) -> str:
    return {"half": "float16", "float": "float32", **{word.lower(): name for word, name in _DTYPES.items()}}.get(dtype.lower(), dtype)


def parse_server(command: Sequence[str], *, model: str | None = None, port: int | None = None, tensors: Tensors = "raw") -> ServerCommand:
    """Raises UsageError: no such program, no model or port to be found in it, or words that the drill itself has to say."""
    words = tuple(command)
    if shutil.which(words[0]) is None:
        raise UsageError("no such command, or it may not be run", where=words[0], remedy="name it as a shell finds it, or by its path")
    engine, found = _engine_and_model(words)
    model = model or found or _value(words, "--model") or _value(words, "--model-path")
    if not model:
        raise UsageError("the command does not say which model it serves", where=words[0], remedy="say it: wcache drill --model MODEL -- …")
    named = any(model in (word, word.partition("=")[2]) for word in words)
    if not named and engine != "transformers":
        raise UsageError(
            f"the command does not name {model}", where=words[0], remedy="the drill puts a twin of the model at its place there"
        )
    if engine in _PLUGINS:
        for option in _OURS:
            if _value(words, option) is not None:
                raise UsageError(f"{option} is what the drill varies", where=words[0], remedy="leave it out of the command")
    if engine != "vllm" and tensors == "processed":
        raise UsageError(
            f"processed tensors of {words[0] if engine == 'other' else engine} are not known to wcache",
            where="--tensors",
            remedy="only vLLM has them: use raw",
        )
    typed = _value(words, "--port")
    try:
        number = port if port is not None else int(typed) if typed is not None else _DEFAULT_PORTS.get(engine, 0)
    except ValueError:
        number = 0
    if not 0 < number < 65536:
        raise UsageError(
            "the command does not say which port it listens on", where=words[0], remedy="say it: wcache drill --port PORT -- …"
        )
    host = _value(words, "--host") or "127.0.0.1"
    return ServerCommand(words, engine, model, host, number, _value(words, "--revision"))


def _engine_and_model(words: tuple[str, ...]) -> tuple[Engine, str | None]:
    for place, word in enumerate(words[:-1]):
        following = words[place + 1]
        name = Path(word).name
        if name in _PROGRAMS and following == "serve":
            rest = words[place + 2 :]
            first = rest[0] if rest and not rest[0].startswith("-") else None
            return _PROGRAMS[name], first
        if word == "-m" and following in _MODULES:
            return _MODULES[following], None
    return "other", None


def _value(words: Sequence[str], option: str) -> str | None:
    """Of `--option value` or `--option=value`; the last one counts, as argparse has it."""
    found = None
    for place, word in enumerate(words):
        if word == option and place + 1 < len(words):
            found = words[place + 1]
        elif word.startswith(f"{option}="):
            found = word.partition("=")[2]
    return found


def _without(words: Sequence[str], option: str) -> tuple[str, ...]:
    kept, skip = [], False
    for word in words:
        if not skip and word != option and not word.startswith(f"{option}="):
            kept.append(word)
        skip = word == option
    return tuple(kept)
