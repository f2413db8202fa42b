"""Preparing vLLM's tensors before any engine runs: its own loading once, on every rank, without a cache for requests or a server."""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Sequence
from typing import Any, NoReturn

import msgspec

from wcache.core.model.errors import Unsupported, UsageError
from wcache.core.model.events import AttachDecided, AttachRedecided, LoadCompleted, ReleaseCompleted
from wcache.core.model.vocabulary import Kind, Outcome
from wcache.core.settings import Settings
from wcache.loader.vllm_key import spreads_experts

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
    from wcache.ledger.audit import Audit

    arguments = command[2:]
    if arguments[0].startswith("-") and not {"--config", "--model"} & {argument.partition("=")[0] for argument in arguments}:
        raise UsageError("the model has to come first", where=" ".join(command[:3]), remedy="vllm serve MODEL --option …")
    for argument in arguments:
        if argument.partition("=")[0].replace("_", "-") in _OURS:
            raise _ours(command)
    os.environ.setdefault("VLLM_LOGGING_STREAM", "ext://sys.stderr")  # stdout is for the answer
    try:
        import vllm as vllm
    except ImportError as error:
        raise Unsupported(f"vllm cannot be imported ({error})", remedy="run this in the environment that vLLM is installed in") from error
    launch = os.environ.setdefault("WCACHE_LAUNCH", "l-" + secrets.token_hex(8))
    with Audit(settings.ledger) as audit:
        before_seq = audit.last_seq
    began_s = time.monotonic()
    ranks, unused = _load(command, settings)
    mapped, published = outcome(settings, launch, before_seq)
    return Prepared(
        launch=launch, ranks=ranks, published=published, mapped=mapped, seconds=time.monotonic() - began_s, unused=unused
    )  # fmt: skip


def _ours(command: Sequence[str]) -> UsageError:
    names = " and ".join(_OURS)
    return UsageError(f"{names} are what preload sets itself", where=" ".join(command[:3]), remedy="leave them out")


def _load(command: Sequence[str], settings: Settings) -> tuple[int, tuple[str, ...]]:
    from vllm.engine.arg_utils import EngineArgs
    from vllm.usage.usage_lib import UsageContext
    from vllm.utils.argparse_utils import FlexibleArgumentParser
    from vllm.v1.executor.abstract import Executor

    class Parser(FlexibleArgumentParser):  # type: ignore[misc, unused-ignore]
        """Reads arguments as a server's are read, files of them included, and keeps those that are about the server."""

        unused: tuple[str, ...] = ()

        def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
            known, unused = super().parse_known_args(args, namespace)
            self.unused = tuple(unused)
            return known, []

        def error(self, message: str) -> NoReturn:
            raise UsageError(message, where=" ".join(command[:3]), remedy="see `vllm serve --help=all`")

    parser = Parser(prog="wcache preload -- vllm", add_help=False)
    parser.add_argument("command")
    parser.add_argument("model_tag", nargs="?")
    parser = EngineArgs.add_cli_args(parser)
    known = parser.parse_args(list(command[1:]))
    if known.load_format != "auto" or known.model_loader_extra_config:  # from a file of arguments
        raise _ours(command)
    places = {name: str(getattr(settings, name)) for name in ("runtime_dir", "state_dir", "ledger")}
    known.model = known.model_tag or known.model
    known.load_format = "wcache"
    known.model_loader_extra_config = {"tensors": "processed", "fallback": True, **places}
    config: Any = EngineArgs.from_cli_args(known).create_engine_config(UsageContext.OPENAI_API_SERVER)
    if config.parallel_config.data_parallel_size > 1:
        if spreads_experts(config, config.model_config):
            raise Unsupported(
                "experts that are spread over replicas are not prepared", remedy="the first start of the server itself publishes them"
            )
        _be_the_only_replica(config.parallel_config)
    executor = Executor.get_class(config)(config)
    try:
        return int(config.parallel_config.world_size), parser.unused
    finally:
        executor.shutdown()


def _be_the_only_replica(parallel: Any) -> None:
    """As vLLM itself tells each replica of a dense model; else the ranks would wait for those of the other replicas."""
    if hasattr(parallel, "reconfigure_for_independent_dp_rank"):
        parallel.reconfigure_for_independent_dp_rank()
        return
    parallel.data_parallel_size = parallel.data_parallel_size_local = 1
    parallel.data_parallel_rank = 0


def outcome(settings: Settings, launch: str, after_seq: int) -> tuple[int, tuple[str, ...]]:
    """How many ranks of the launch mapped what was there, and what they published, since `after_seq`, as far as it is still there: a
    publish may evict another. Others may publish at the same time, and a launch that was named by hand may have prepared before."""
    from wcache.ledger.store import Ledger

    attaches: set[str] = set()
    mapped: dict[str, tuple[int, str | None]] = {}
    published: dict[str, None] = {}
    gone: set[str | None] = set()
    types = (AttachDecided.type, AttachRedecided.type, LoadCompleted.type, ReleaseCompleted.type)
    with Ledger.open(settings.ledger, create=False, read_only=True) as ledger:
        for stored in ledger.events(after_seq, types=types):
            event = stored.event
            if isinstance(event, AttachDecided) and event.launch == launch:
                attaches.add(event.attach)
                if (event.kind, event.outcome) == (Kind.PROCESSED, Outcome.HIT):
                    mapped[event.attach] = event.ranks.rank, event.residency
            elif isinstance(event, AttachRedecided):
                mapped.pop(event.attach, None)
            elif isinstance(event, LoadCompleted) and event.by_attach in attaches:
                published[event.residency] = None
            elif isinstance(event, ReleaseCompleted):
                gone.add(event.residency)
    ranks = {rank for rank, residency in mapped.values() if residency not in gone}
    return len(ranks), tuple(residency for residency in published if residency not in gone)
