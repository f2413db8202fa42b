"""The weights of one load by an engine: which directory its own loader is to read, and afterwards how that went, on record.

A hit is served as a directory of links to the sealed shards, so that the engine's own loader reads memory as it reads a disk: whatever it
does with names, quantizations and parallel layouts, it does to the same bytes.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from wcache.core.model.errors import DaemonUnreachable, MappingFailed, MissingTensor, StrictMiss, WcacheError
from wcache.core.model.events import Engine, Ranks
from wcache.core.model.vocabulary import Mode, Reason
from wcache.core.settings import Settings
from wcache.loader.attach import Attachment, attach, decide_alone
from wcache.loader.question import make_question

_NOT_INITIALISED = "were not initialized from"  # vLLM's words for parameters that no tensor was loaded into


class Weights:
    """The sources of one model's weights, each attached on its own: most models have one, some take a part from another repository."""

    def __init__(self, settings: Settings, *, dtype: str | None, engine: Engine, ranks: Ranks, launch: str) -> None:
        self.settings = settings
        self._dtype = dtype
        self._engine = engine
        self._ranks = ranks
        self._launch = launch
        self._began = time.monotonic()
        self.model: Any = None  # where the weights went, as far as that is known
        self._attachments: list[Attachment] = []
        self._read_bytes: dict[str, int] = {}
        self._links: list[Path] = []

    def place_of(self, spelling: str, revision: str | None, obstacle: str = "") -> str:
        """The directory to read: of links to sealed memory after a hit, else `spelling` itself. Raises StrictMiss.

        `obstacle` says why these weights cannot come from a residency; a source beside the first that has one is no attach.
        """
        words = {"revision": revision, "engine": self._engine, "ranks": self._ranks, "launch": self._launch}
        if obstacle and self._attachments:
            return spelling
        if obstacle:
            question = make_question(spelling, dtype=self._dtype, **words)  # type: ignore[arg-type]
            attachment = decide_alone(question, self.settings, None, DaemonUnreachable(Reason.UNSUPPORTED, obstacle))
        else:
            attachment = attach(spelling, dtype=self._dtype, settings=self.settings, **words)  # type: ignore[arg-type]
        self._attachments.append(attachment)
        if attachment.hit:
            try:
                return str(self._link(attachment))
            except OSError as error:
                attachment.map_failed(MappingFailed(f"no directory for links to the shards: {error}"))
        return spelling

    @property
    def asked(self) -> bool:
        """Whether any source was attached or decided against."""
        return bool(self._attachments)

    @property
    def source(self) -> Attachment | None:
        """The attach of the first source, where there is no other: all of the model came by it."""
        return self._attachments[0] if len(self._attachments) == 1 else None

    @property
    def read_bytes(self) -> int:
        return sum(self._read_bytes.values())

    def read_from(self, spelling: str, files: Sequence[str]) -> None:
        """What is read from disk for `spelling` after all."""
        with suppress(OSError):
            self._read_bytes[spelling] = sum(Path(file).stat().st_size for file in files)

    @contextmanager
    def settled(self, model: Any = None) -> Iterator[None]:
        """Around the loading into `model`: afterwards every attach has its end on record, and every lease is given back. An engine that
        builds its model meanwhile says later which one it is (`model`)."""
        self.model = model
        try:
            yield
        except BaseException as error:
            problem = _problem(error)
            for attachment in self._attachments:
                _failed(attachment, problem)
            if problem is error or not isinstance(problem, MissingTensor):
                raise
            raise problem from error
        else:
            seconds = time.monotonic() - self._began
            for attachment in self._attachments:
                if attachment.hit:
                    self._report_copied(attachment, seconds)
                    attachment.close()
                else:
                    attachment.fell_back(self._read_bytes.get(attachment.question.spelling, 0), seconds)
        finally:
            for directory in self._links:
                shutil.rmtree(directory, ignore_errors=True)

    def _report_copied(self, attachment: Attachment, seconds: float) -> None:
        """A rank of several takes its part of each tensor, and what it took is what its parameters hold."""
        tensors = sum(len(segment.header.tensors) for segment in attachment.segments.values())
        copied_bytes = attachment.weights_bytes
        if len(self._attachments) == 1 and self.model is not None:
            copied_bytes = min(copied_bytes, sum(parameter.nbytes for parameter in self.model.parameters()))
        attachment.mapped(
            Mode.COPY, tensors=tensors, size_bytes=copied_bytes, copied_tensors=tensors, copied_bytes=copied_bytes, ms=seconds * 1000
        )

    def _link(self, attachment: Attachment) -> Path:
        """Numbered, since the names come from others, and in the order in which engines read the files themselves."""
        directory = Path(tempfile.mkdtemp(prefix="wcache-"))
        self._links.append(directory)
        for number, name in enumerate(sorted(attachment.segments), start=1):
            link = directory / f"model-{number:05}-of-{len(attachment.segments):05}.safetensors"
            link.symlink_to(f"/proc/self/fd/{attachment.segments[name].descriptor}")
        return directory


def _problem(error: BaseException) -> BaseException:
    """vLLM's word that parameters were left as they are, as the error that it is here."""
    if isinstance(error, ValueError) and _NOT_INITIALISED in str(error):
        names = str(error).partition(": ")[2].strip("{}").replace("'", "")
        return MissingTensor(
            f"the model needs tensors that the checkpoint does not have: {', '.join(sorted(names.split(', ')))}",
            remedy="use the model that the checkpoint was made for",
        )
    return error


def _failed(attachment: Attachment, problem: BaseException) -> None:
    """The disk has the same bytes as the residency, so there is nothing to fall back to: the attach ends here."""
    if not attachment.hit:
        attachment.fallback_failed(problem)
        return
    recorded = problem if isinstance(problem, WcacheError) else MappingFailed(f"{type(problem).__name__}: {problem}")
    with suppress(StrictMiss):
        attachment.map_failed(recorded)
        attachment.fallback_failed(recorded)
    attachment.close()
