"""What the plugins of engines share around a load: what they say when it cannot be, in the log and on record.

Importing this needs the standard library only: it also speaks of an environment in which the rest of wcache cannot be imported.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from wcache.core.settings import Settings
    from wcache.loader.question import Question

_LAST_WORDS = "No weights from the weight cache, and no %s without them: %s"


def log_as(engine: str) -> None:
    """For an engine that gives handlers and a level to its own logger only: without them, what is said of a hit would be lost."""
    ours, theirs = logging.getLogger("wcache"), logging.getLogger(engine)
    if theirs.handlers and not ours.handlers:
        for handler in theirs.handlers:
            ours.addHandler(handler)
        ours.setLevel(theirs.level or logging.INFO)
        ours.propagate = theirs.propagate


@contextmanager
def told(what: str = "start") -> Iterator[None]:
    """Say an error of ours, which keeps `what` from happening, in one line before the engine prints where it came from."""
    from wcache.core.model.errors import WcacheError

    try:
        yield
    except WcacheError as error:
        logging.getLogger("wcache").error(_LAST_WORDS, what, error.diagnostics())
        raise


def refuse(cause: Exception, asked: Callable[[], tuple[Question, Settings]]) -> NoReturn:
    """Some of wcache cannot be imported here. What can be writes it down, and ends the start: `asked` says who wanted which weights."""
    what = f"wcache cannot be imported in this environment ({type(cause).__name__}: {cause})"
    logger = logging.getLogger("wcache")
    try:
        from wcache.core.model.errors import Unsupported
        from wcache.loader.record import record_refusal

        question, settings = asked()
        remedy = "install it together with what it needs, or use --load-format auto"
        problem = Unsupported(what, where=question.spelling, remedy=remedy)
        record_refusal(question, settings, problem)
    except Exception as error:
        logger.error("This could not be recorded (%s: %s): %s", type(error).__name__, error, what)
        raise ImportError(what) from cause
    logger.error(_LAST_WORDS, "start", problem.diagnostics())
    raise problem from cause
