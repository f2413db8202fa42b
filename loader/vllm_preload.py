"""Preparing vLLM's tensors before any engine runs: its own loading once, on every rank, without a cache for requests or a server."""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Sequence
from typing import Any

import msgspec

from wcache.core.model.errors import NotFound, Unsupported, UsageError
from wcache.core.model.events import LoadCompleted
from wcache.core.model.vocabulary import Kind, Outcome
from wcache.core.settings import Settings

_OURS = ("--load-format", "--model-loader-extra-config")


class Prepared(msgspec.Struct, frozen=True, kw_only=True):
    """`published`: residencies that are new; `mapped`: ranks whose tensors were resident already; `unused`: arguments of the server."""

    launch: str
    ranks: int
    published: tuple[str, ...]
    mapped: int
    seconds: float
    unused: tuple[str, ...] = ()

    @property
    def complete(self) -> bool:
        return len(self.published) + self.mapped >= self.ranks


def prepare(command: Sequence[str], settings: Settings) -> Prepared:
    """Run the loading of `vllm serve MODEL …` in this process and those that vLLM starts for its ranks.

    Raises UsageError for another command, or one that says how to load; Unsupported where vLLM is not installed.
    """
    if list(command[:2]) != ["vllm", "serve"] or len(command) < 3:
        raise UsageError("it is no command of vLLM", where=" ".join(command[:3]), remedy="wcache preload -- vllm serve MODEL …")
    arguments = list(command[2:])
    for argument in arguments:
        option = argument.partition("=")[0].replace("_", "-")
        if option in _OURS:
            raise UsageError(f"{option} is what preload sets itself", where=" ".join(command[:3]), remedy=f"leave {option} out")
    os.environ.setdefault("VLLM_LOGGING_STREAM", "ext://sys.stderr")  # stdout is for the answer
    try:
        import vllm as vllm
    except ImportError as error:
        raise Unsupported(f"vllm cannot be imported ({error})", remedy="run this in the environment that vLLM is installed in") from error
    launch = os.environ.setdefault("WCACHE_LAUNCH", "l-" + secrets.token_hex(8))
    began_s = time.monotonic()
    ranks, unused = _load(arguments, settings)
    mapped, published = outcome(settings, launch)
    return Prepared(
        launch=launch, ranks=ranks, published=published, mapped=mapped, seconds=time.monotonic() - began_s, unused=tuple(unused)
    )  # fmt: skip


def _load(arguments: list[str], settings: Settings) -> tuple[int, list[str]]:
    from vllm.engine.arg_utils import EngineArgs
    from vllm.utils.argparse_utils import FlexibleArgumentParser
    from vllm.v1.executor.abstract import Executor

    parser = EngineArgs.add_cli_args(FlexibleArgumentParser(prog="wcache preload -- vllm serve"))
    parser.add_argument("model_tag", nargs="?")
    known, unused = parser.parse_known_args(arguments)
    places = {name: str(getattr(settings, name)) for name in ("runtime_dir", "state_dir", "ledger")}
    known.model = known.model_tag or known.model
    known.load_format = "wcache"
    known.model_loader_extra_config = {"tensors": "processed", "fallback": True, **places}
    config: Any = EngineArgs.from_cli_args(known).create_engine_config()
    if config.parallel_config.data_parallel_size > 1 and config.parallel_config.enable_expert_parallel:
        raise Unsupported(
            "experts that are spread over replicas are not prepared", remedy="the first start of the server itself publishes them"
        )
    executor = Executor.get_class(config)(config)
    try:
        return int(config.parallel_config.world_size), unused
    finally:
        executor.shutdown()


def outcome(settings: Settings, launch: str) -> tuple[int, tuple[str, ...]]:
    """How many ranks of the launch mapped what was there, and what they published; others may publish at the same time."""
    from wcache.ledger.audit import Audit
    from wcache.ledger.listing import Window
    from wcache.ledger.store import Ledger

    with Audit(settings.ledger) as audit:
        try:
            rows = audit.attaches(Window(launch=launch))
        except NotFound:
            return 0, ()  # not one rank came to ask
    mapped = {row["rank"] for row in rows if row["kind"] == Kind.PROCESSED.value and row["decision"] == Outcome.HIT.value}
    attaches = {row["attach"] for row in rows}
    with Ledger.open(settings.ledger, create=False, read_only=True) as ledger:
        loads = [stored.event for stored in ledger.events(types=(LoadCompleted.type,))]
    return len(mapped), tuple(event.residency for event in loads if isinstance(event, LoadCompleted) and event.by_attach in attaches)
