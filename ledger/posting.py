"""Handing a signed checkpoint to where it cannot be taken back: an HTTP POST, or a command of the operator's."""

from __future__ import annotations

import http.client
import shlex
import subprocess
import urllib.error
import urllib.request
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

from wcache.core import __version__
from wcache.core.model.errors import PostFailed, UsageError

URL_TIMEOUT_S = 10.0
COMMAND_TIMEOUT_S = 60.0
_REMEDY = "the checkpoint's file stays; run the command again to post it again"


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A redirected POST would go on as a GET without its body, and somewhere else than the operator said."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


def check_url(url: str) -> None:
    """Raises UsageError for what is no http or https URL, and for one with a password in it."""
    try:
        parts = urlsplit(url)
        if "@" in parts.netloc:
            remedy = "give a --command that reads its credentials from a file, such as `curl --netrc --data-binary @- URL`"
            raise UsageError("a password in a URL is seen by everybody on this machine", where=str(parts.hostname), remedy=remedy)
        if parts.scheme in ("http", "https") and parts.hostname and (parts.port is None or parts.port) and url.isprintable():
            return
    except ValueError:
        pass
    raise UsageError("this is no http or https URL", where=_shown(url))


def _shown(url: str) -> str:
    return url.partition("?")[0]  # what follows may be somebody's token


def post_url(url: str, note: str) -> int:
    """POSTs the note as it stands in its file (text/plain, UTF-8) and returns the status, which is 2xx. Raises UsageError as `check_url`,
    PostFailed for any other answer or none."""
    check_url(url)
    shown = _shown(url)
    headers = {"Content-Type": "text/plain; charset=utf-8", "User-Agent": f"wcache/{__version__}"}
    request = urllib.request.Request(url, note.encode(), headers, method="POST")  # noqa: S310 the scheme is one of two
    try:
        with urllib.request.build_opener(_NoRedirect).open(request, timeout=URL_TIMEOUT_S) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        raise PostFailed(f"it answered {error.code} {error.reason}".rstrip(), where=shown, remedy=_REMEDY) from error
    except urllib.error.URLError as error:
        raise PostFailed(f"no answer: {error.reason}", where=shown, remedy=_REMEDY) from error
    except (OSError, ValueError, http.client.HTTPException) as error:
        raise PostFailed(f"no answer: {error}", where=shown, remedy=_REMEDY) from error


def split_command(command: str) -> list[str]:
    """The words of a command, split as a shell would. Raises UsageError."""
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise UsageError(f"the command cannot be split into words: {error}", where=command) from error
    if not words:
        raise UsageError("the command is empty")
    return words


def run_command(words: Sequence[str], note: str) -> None:
    """Runs a command, without a shell, with the note on its standard input. Raises PostFailed."""
    try:
        done = subprocess.run(words, input=note.encode(), capture_output=True, timeout=COMMAND_TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired as error:
        raise PostFailed(f"the command was not done after {COMMAND_TIMEOUT_S:g} s", where=words[0], remedy=_REMEDY) from error
    except (OSError, ValueError) as error:
        raise PostFailed(f"the command cannot be run: {error}", where=words[0], remedy=_REMEDY) from error
    if done.returncode:
        said = done.stderr.decode("utf-8", "replace").strip().splitlines()
        raise PostFailed(f"the command ended with {done.returncode}{': ' + said[-1][:200] if said else ''}", where=words[0], remedy=_REMEDY)
