"""The question of an attach: who asks for which checkpoint, and which whole a single file belongs to."""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import msgspec

from wcache.core.checkpoint.layout import MODEL_INDEX, parse_index
from wcache.core.checkpoint.reader import Reader
from wcache.core.checkpoint.spelling import resolve_root
from wcache.core.model.decide import Request
from wcache.core.model.errors import CheckpointChanged, CheckpointInvalid, CheckpointUnreadable, WcacheError
from wcache.core.model.events import Engine, Identity, Ranks
from wcache.core.model.vocabulary import Kind

_process_launch = "l-" + secrets.token_hex(8)  # forked ranks share it; others are told by WCACHE_LAUNCH
_NUMBERED = re.compile(r".+-\d{5,}-of-\d{5,}\.safetensors")


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """Who asks for what. `spelling` is what was typed; `is_file` says that it names one safetensors file, perhaps one shard of many."""

    spelling: str
    launch: str
    host: str
    engine: Engine
    ranks: Ranks
    revision: str | None = None
    is_file: bool = False
    kind: Kind = Kind.RAW
    device: str = "cpu"
    dtype: str | None = None
    config: dict[str, str] = {}

    def request(self, asked: Identity | None = None) -> Request:
        """What is asked of the daemon; by name alone until more is known of the checkpoint."""
        asked = asked or Identity(self.spelling)
        return Request(asked=asked, kind=self.kind, device=self.device, dtype=self.dtype, config=self.config)


def make_question(
    checkpoint: str | os.PathLike[str],
    *,
    revision: str | None = None,
    device: str = "cpu",
    dtype: str | None = None,
    kind: Kind | str = Kind.RAW,
    config: Mapping[str, str] | None = None,
    engine: Engine | str = "python",
    ranks: Ranks | None = None,
    launch: str | None = None,
    is_file: bool = False,
) -> Question:
    return Question(
        spelling=os.fspath(checkpoint),
        launch=launch or os.environ.get("WCACHE_LAUNCH") or _process_launch,
        host=os.uname().nodename,
        engine=engine if isinstance(engine, Engine) else Engine(name=engine, pid=os.getpid()),
        ranks=ranks or _ranks_of_environment(),
        revision=revision,
        is_file=is_file,
        kind=Kind(kind),
        device=device,
        dtype=dtype,
        config=dict(config or {}),
    )


def _ranks_of_environment() -> Ranks:
    """RANK and WORLD_SIZE, as torchrun and its like set them."""
    try:
        return Ranks(rank=int(os.environ.get("RANK", "0")), world=int(os.environ.get("WORLD_SIZE", "1")))
    except ValueError:
        return Ranks()


def request_of(question: Question) -> Request:
    """The request where no server helps to complete it: the name is resolved, no checkpoint file is touched."""
    with suppress(WcacheError):
        resolved = resolve_root(question.spelling, question.revision)
        return question.request(Identity(question.spelling, resolved.root, resolved.repo, resolved.commit))
    return question.request()


def whole_of(path: str, reader: Reader) -> str:
    """The spelling of the checkpoint that the file at `path` is a shard of: its directory, or the file itself where it stands alone.

    Numbered names belong to a directory without a look; for others the index decides, if there is one.
    """
    parent, name = os.path.split(path)
    if _NUMBERED.fullmatch(name):
        return parent or "."
    try:
        index = Path(parent or ".") / MODEL_INDEX
        reader.count(stats=1)
        if index.is_file():
            with reader.open(str(index)) as file:
                if name in parse_index(file, MODEL_INDEX).shards:
                    return parent or "."
    except (CheckpointInvalid, CheckpointUnreadable, CheckpointChanged):
        pass  # a bad index is not this file's fault; whoever asks for the directory is told
    return path
