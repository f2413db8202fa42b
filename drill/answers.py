"""What a model answers, greedily, over the OpenAI protocol: https://platform.openai.com/docs/api-reference/completions."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from wcache.core.model.errors import UsageError

TOKENS = 16
PROMPTS = (
    "The capital of France is",
    "Water boils at a temperature of",
    "def fibonacci(n):",
    "The first three prime numbers are",
)
_ANSWER_S = 300.0
_NO_SUCH_PATH = frozenset({404, 405, 501})
_direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class NoAnswer(Exception):
    """The server is up and does not answer; the text says how."""


def read_prompts(path: Path) -> tuple[str, ...]:
    """One prompt a line, empty lines left out. Raises UsageError."""
    try:
        found = tuple(line for line in path.read_text(encoding="utf-8").splitlines() if line.strip())
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot be read: {getattr(error, 'strerror', None) or 'it is no UTF-8'}", where=str(path)) from None
    if not found:
        raise UsageError("there is no prompt in it", where=str(path), remedy="write one a line")
    return found


class Interview:
    """Questions to one server. `model` is how it was started; what it calls itself is asked for, where it says so."""

    def __init__(self, url: str, model: str, *, as_started: bool) -> None:
        self._url = url
        self._model = model if as_started else _name(url, model)
        self._chat = False

    def answer(self, prompt: str) -> str:
        """At most 16 tokens at temperature 0. Raises NoAnswer."""
        asked: dict[str, Any] = {"model": self._model, "max_tokens": TOKENS, "temperature": 0, "stream": False}
        try:
            if not self._chat:
                try:
                    return str(_post(f"{self._url}/v1/completions", {**asked, "prompt": prompt})["choices"][0]["text"])
                except urllib.error.HTTPError as error:
                    if error.code not in _NO_SUCH_PATH:
                        raise
                    self._chat = True
            message = {"role": "user", "content": prompt}
            found = _post(f"{self._url}/v1/chat/completions", {**asked, "messages": [message]})
            return str(found["choices"][0]["message"]["content"])
        except urllib.error.HTTPError as error:
            raise NoAnswer(f"{error.url} answers {error.code}") from None
        except (OSError, ValueError, LookupError, TypeError) as error:
            raise NoAnswer(f"no answer from {self._url}: {type(error).__name__}: {error}") from None

    def answers(self, prompts: Sequence[str]) -> list[str]:
        return [self.answer(prompt) for prompt in prompts]


def _name(url: str, model: str) -> str:
    try:
        with _direct.open(f"{url}/v1/models", timeout=_ANSWER_S) as reply:
            names = [str(entry["id"]) for entry in json.load(reply)["data"]]
    except (OSError, ValueError, LookupError, TypeError):
        return model
    return model if model in names or not names else names[0]


def _post(url: str, body: dict[str, Any]) -> Any:
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})  # noqa: S310 (built here)
    with _direct.open(request, timeout=_ANSWER_S) as reply:
        return json.load(reply)
