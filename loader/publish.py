"""Publishing an engine's post-load tensors: each storage is copied once into memory of its own, which the daemon then keeps for others."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from wcache.core.checkpoint.reader import Reader
from wcache.core.memory import memfd, vmm
from wcache.core.memory import table as tables
from wcache.core.memory.cuda import find
from wcache.core.model.decide import HOST
from wcache.core.model.errors import MappingFailed, UsageError
from wcache.core.model.events import Engine, Identity, Ranks
from wcache.core.model.evidence import Fingerprint
from wcache.core.model.vocabulary import Lineage
from wcache.core.settings import Settings
from wcache.core.wire.messages import Loaded, Progress, Publish, PublishBegin
from wcache.loader.attach import resolve_settings
from wcache.loader.attachment import Attachment
from wcache.loader.hindsight import evidence_now
from wcache.loader.question import make_question
from wcache.loader.session import Session
from wcache.loader.storages import BUFFER, PARAMETER, Layout, lay_out

if TYPE_CHECKING:
    import torch


class PublishedInfo(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a publish. `reused`: equal weights were resident already, and nothing was handed over. `unproven_why` says what an
    unproven lineage lacks. `seconds`: copy (into the shared memory) and hash (in the daemon's worker)."""

    residency: str
    reused: bool
    lineage: Lineage
    unproven_why: str
    weights_digest: str
    processed_digest: str
    bytes: int
    tensors: int
    seconds: dict[str, float]


def publish(
    tensors: Mapping[str, torch.Tensor],
    checkpoint: str | os.PathLike[str] | None = None,
    *,
    config: Mapping[str, str],
    attachment: Attachment | None = None,
    revision: str | None = None,
    roles: Mapping[str, str] | None = None,
    engine: Engine | str = "python",
    ranks: Ranks | None = None,
    pin: bool | None = None,
    settings: Settings | None = None,
    on_progress: Callable[[Progress], None] | None = None,
    **overrides: Any,
) -> PublishedInfo:
    """Hand a copy of these tensors to the daemon, as a residency of kind `processed`; they stay the engine's and as they are.

    `config` is the whole normalised configuration (`core.model.config.normalise_config`): the key that an attach must equal. `attachment`
    is the attach that the bytes came by: a hit on raw weights, or one that fell back, after which the engine read the files. Their lineage
    is proven only with it (docs/memory.md). Without it, `checkpoint` names what they were made from. `roles` says of a name what it is in
    the engine's module (`parameter`, `buffer`). Tensors that share a storage share it again, at the same distances; all are on one device.

    Raises Unsupported or UsageError naming a tensor that cannot be shared, NoRoom with the numbers, RequestRefused where nobody knows which
    weights these were made from, DaemonUnreachable, MappingFailed.
    """
    if attachment is not None:
        settings, checkpoint = attachment.settings, attachment.question.spelling
        revision = attachment.question.revision if revision is None else revision
        attachment.settle()  # the daemon looks up how it went
    if checkpoint is None:
        raise UsageError("of which checkpoint are these?", remedy="pass attachment=, or the checkpoint")
    settings = resolve_settings(settings, overrides)
    layout = lay_out(tensors, roles or {})
    question = make_question(checkpoint, revision=revision, device=layout.device, config=config, engine=engine, ranks=ranks)
    session = Session(settings.socket_path, settings.daemon_uid)
    try:
        asked: Identity
        evidence: tuple[Fingerprint, ...] = ()
        if attachment is not None and attachment.hit:
            asked = attachment.request.asked
        else:
            asked, evidence = evidence_now(session, question, settings, reader=Reader(), on_progress=on_progress)
            if attachment is not None:
                asked = msgspec.structs.replace(asked, spelling=attachment.request.asked.spelling)
        begin = PublishBegin(
            asked=asked,
            device=layout.device,
            config=dict(question.config),
            size_bytes=layout.memory_bytes,
            tensors=len(layout.table.tensors),
            engine=question.engine,
            ranks=question.ranks,
            evidence=evidence,
            source=attachment.attach if attachment is not None else None,
            pin=pin,
        )
        reply = session.begin_publish(begin, on_progress)
        copy_s = 0.0
        if not isinstance(reply, Loaded):
            began_s = time.monotonic()
            fds: list[int] = []
            try:
                table_fd, table_bytes = tables.seal(layout.table, "table")
                fds.append(table_fd)
                fds.append(_fill_host(layout) if layout.device == HOST else _fill_gpu(layout))
                copy_s = time.monotonic() - began_s
                message = Publish(residency=reply.residency, table_bytes=table_bytes, memory_bytes=layout.memory_bytes)
                reply = session.publish(message, fds, on_progress)
            finally:
                for fd in fds:
                    os.close(fd)
    finally:
        session.close()
    return _info(reply, copy_s)


def publish_module(
    module: torch.nn.Module,
    checkpoint: str | os.PathLike[str] | None = None,
    *,
    buffers: Callable[[str, torch.Tensor], bool] | Collection[str] | None = None,
    **words: Any,
) -> PublishedInfo:
    """As `publish`, of a module's parameters and buffers by their names, tied ones under each of their names.

    `buffers` says which buffers: a function of name and tensor, or their names; by default the persistent ones, which `state_dict()` has.
    What a module makes by itself and does not keep there (rotary tables) has to be chosen, or made again before `Attachment.into`.
    """
    tensors: dict[str, torch.Tensor] = dict(module.named_parameters(remove_duplicate=False))
    roles = dict.fromkeys(tensors, PARAMETER)
    found = dict(module.named_buffers(remove_duplicate=False))
    if buffers is None:
        chosen = persistent_buffers(module)
    elif callable(buffers):
        chosen = {name for name, tensor in found.items() if buffers(name, tensor)}
    else:
        chosen = set(buffers)
        unknown = sorted(chosen - found.keys())
        if unknown:
            raise UsageError("the module has no such buffer", where=unknown[0])
    for name, tensor in found.items():
        if name in chosen:
            tensors[name] = tensor
            roles[name] = BUFFER
    return publish(tensors, checkpoint, roles=roles, **words)


def persistent_buffers(module: torch.nn.Module) -> set[str]:
    """Full names of the buffers that `state_dict()` has."""
    return {
        f"{path}.{name}" if path else name
        for path, part in module.named_modules(remove_duplicate=False)
        for name, buffer in part._buffers.items()
        if buffer is not None and name not in part._non_persistent_buffers_set
    }


def _fill_host(layout: Layout) -> int:
    import mmap

    import torch

    fd = memfd.create("processed", layout.memory_bytes)
    try:
        mapping = mmap.mmap(fd, layout.memory_bytes, flags=mmap.MAP_SHARED)
        try:
            whole = torch.frombuffer(mapping, dtype=torch.uint8)
            layout.copy_into(whole)
            del whole  # the mapping cannot go while anything points into it, and sealing needs it gone
        finally:
            mapping.close()
        memfd.seal(fd)
    except BaseException:
        os.close(fd)
        raise
    return fd


def _fill_gpu(layout: Layout) -> int:
    """On the tensors' own GPU, copied there; the writable mapping is given up before anybody else can have the memory."""
    import torch

    from wcache.core.memory.packing import Placement
    from wcache.core.memory.views import tensors as mapped

    device = find(layout.device)
    with vmm.create(layout.table.size_bytes, device) as allocation, allocation.map(writable=True) as mapping:
        if allocation.size_bytes != layout.memory_bytes:
            raise MappingFailed(f"the GPU gave {allocation.size_bytes} bytes, {layout.memory_bytes} were announced", where=str(device))
        torch.cuda.synchronize(device.ordinal)  # other streams may still write what is copied
        whole = mapped(mapping, [Placement("", "U8", (layout.table.size_bytes,), 0, layout.table.size_bytes)])[""]
        layout.copy_into(whole)
        torch.cuda.synchronize(device.ordinal)
        del whole
        return allocation.export()


def _info(reply: Loaded, copy_s: float) -> PublishedInfo:
    view = reply.residency
    return PublishedInfo(
        residency=view.residency,
        reused=reply.reused,
        lineage=view.lineage or Lineage.UNPROVEN,
        unproven_why=reply.unproven_why,
        weights_digest=view.weights_digest or "",
        processed_digest=view.processed_digest or "",
        bytes=view.bytes,
        tensors=view.tensors,
        seconds={"copy": round(copy_s, 6), **reply.seconds} if not reply.reused else {},
    )
