"""Libraries that an engine brings along. One that cannot be imported ends the start with one line and a record, not with a traceback
that nobody can find afterwards."""

from __future__ import annotations

import importlib
import os
from collections.abc import Mapping
from types import ModuleType
from typing import Any

from wcache.core.model.errors import DaemonUnreachable, Unsupported
from wcache.core.model.vocabulary import Reason
from wcache.loader.attach import SETTING_NAMES, decide_alone, resolve_settings
from wcache.loader.question import make_question

_QUESTION_WORDS = ("revision", "engine", "ranks", "launch", "is_file")


def library(name: str, checkpoint: str | bytes | os.PathLike[str], words: Mapping[str, Any]) -> ModuleType:
    """The module called `name`. `words` are the caller's keyword arguments, of which settings and who asks are used.

    Raises Unsupported, after recording the attach (reason `unsupported`) and its end; StrictMiss where the policy is strict.
    """
    try:
        return importlib.import_module(name)
    except Exception as error:  # a broken installation raises anything
        what = f"{name} cannot be imported ({type(error).__name__}: {error})"
        problem = Unsupported(
            what, where=os.fsdecode(checkpoint), remedy=f"install it into this environment: {name} is what the weights are for"
        )
        settings = resolve_settings(words.get("settings"), {word: words[word] for word in SETTING_NAMES & words.keys()})
        question = make_question(checkpoint, **{word: words[word] for word in _QUESTION_WORDS if word in words})
        decide_alone(question, settings, None, DaemonUnreachable(Reason.UNSUPPORTED, what)).fallback_failed(problem)
        raise problem from error
