"""The question of an attach: who asks for which checkpoint, and which whole a single file belongs to."""

from __future__ import annotations

import os
import re
import secrets
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec import UNSET, UnsetType

from wcache.core.checkpoint.layout import MODEL_INDEX, parse_index
from wcache.core.checkpoint.lockfile import read_lock
from wcache.core.checkpoint.reader import Reader
from wcache.core.checkpoint.spelling import resolve_root
from wcache.core.model.decide import HOST, Request
from wcache.core.model.errors import CheckpointChanged, CheckpointInvalid, CheckpointUnreadable, UsageError, WcacheError
from wcache.core.model.events import Engine, Identity, Ranks
from wcache.core.model.evidence import Lock
from wcache.core.model.vocabulary import Kind, Mode
from wcache.loader.device import named_device

_process_launch = "l-" + secrets.token_hex(8)  # forked ranks share it; others are told by WCACHE_LAUNCH
_RANK_MAX = (1 << 31) - 1
NUMBERED = re.compile(r".+-\d{5,}-of-\d{5,}\.safetensors")


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """Who asks for what. `spelling` is what was typed; `is_file` says that it names one safetensors file, perhaps one shard of many.

    `device` is `cpu`, a GPU's UUID, or a GPU as it was called, where this process cannot find it."""

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
    mode: Mode | None = None
    lock: Lock | None = None

    def request(self, asked: Identity | None = None) -> Request:
        """What is asked of the daemon; by name alone until more is known of the checkpoint."""
        asked = asked or Identity(recordable(self.spelling))
        return Request(
            asked=asked, kind=self.kind, device=self.device, dtype=self.dtype, config=self.config, mode=self.mode, lock=self.lock
        )  # fmt: skip


def make_question(
    checkpoint: str | bytes | os.PathLike[str],
    *,
    revision: str | None = None,
    device: object = HOST,
    dtype: str | None = None,
    kind: Kind | str = Kind.RAW,
    config: Mapping[str, str] | None = None,
    mode: Mode | str | None = None,
    engine: Engine | str = "python",
    ranks: Ranks | None = None,
    launch: str | None = None,
    is_file: bool = False,
    lock: str | UnsetType = UNSET,
) -> Question:
    """Raises UsageError for what cannot be meant, a lock that cannot be read among it: without one nobody knows what may be served."""
    known = engine if isinstance(engine, Engine) else Engine(name=engine, pid=os.getpid())
    if kind not in tuple(Kind):
        raise UsageError(f"unknown kind {kind!r}", remedy=f"known: {', '.join(Kind)}")
    if mode is not None and mode not in tuple(Mode):
        raise UsageError(f"unknown mode {mode!r}", remedy=f"known: {', '.join(Mode)}")
    ranks = ranks or _ranks_of_environment()
    if not all(0 <= number <= _RANK_MAX for number in msgspec.structs.astuple(ranks)):
        raise UsageError(f"no such ranks: {ranks}", remedy=f"ranks and sizes are numbers from 0 to {_RANK_MAX}")
    return Question(
        spelling=os.fsdecode(checkpoint),
        launch=recordable(launch or os.environ.get("WCACHE_LAUNCH") or _process_launch),
        host=recordable(os.uname().nodename),
        engine=Engine(name=recordable(known.name), version=recordable(known.version), pid=known.pid),
        ranks=ranks,
        revision=revision,
        is_file=is_file,
        kind=Kind(kind),
        device=recordable(named_device(device)),
        dtype=None if dtype is None else recordable(dtype),
        config={recordable(name): recordable(value) for name, value in (config or {}).items()},
        mode=None if mode is None else Mode(mode),
        lock=None if lock is UNSET else read_lock(lock),
    )


def recordable(text: str) -> str:
    """The text as the wire and the ledger can hold it: what is no UTF-8 becomes visible as escapes."""
    return text.encode("utf-8", "backslashreplace").decode()


_RANK_VARIABLES = (("RANK", "WORLD_SIZE"), ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"))
"""Of torchrun and its like, and of Open MPI's mpirun."""


def _ranks_of_environment() -> Ranks:
    """As torch.distributed knows them, where this process has initialised it, else as whoever started this process wrote them down."""
    distributed = sys.modules.get("torch.distributed")
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        return Ranks(rank=distributed.get_rank(), world=distributed.get_world_size())
    for rank_name, world_name in _RANK_VARIABLES:
        with suppress(KeyError, ValueError):
            rank, world = int(os.environ[rank_name]), int(os.environ.get(world_name, "1"))
            if 0 <= rank <= _RANK_MAX and 1 <= world <= _RANK_MAX:
                return Ranks(rank=rank, world=world)
    return Ranks()


def request_of(question: Question) -> Request:
    """The request where no server helps to complete it: the name is resolved, no checkpoint file is touched."""
    with suppress(WcacheError):
        resolved = resolve_root(question.spelling, question.revision)
        return question.request(Identity(recordable(question.spelling), resolved.root, resolved.repo, resolved.commit))
    return question.request()


def whole_of(path: str, reader: Reader) -> str:
    """The spelling of the checkpoint that the file at `path` is a shard of: its directory, or the file itself where it stands alone.

    Numbered names belong to a directory without a look; for others the index decides, if there is one.
    """
    parent, name = os.path.split(path)
    if NUMBERED.fullmatch(name):
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
