"""Granted weights as tensors: in place where they can be mapped, else copied, as the request or the device wants it."""

from __future__ import annotations

import time
from collections.abc import Collection
from typing import TYPE_CHECKING, NamedTuple

from wcache.core.memory.views import block_tensors
from wcache.core.model.vocabulary import Mode
from wcache.loader.collector import paused_collector
from wcache.loader.mapping import Segment, ShardMap
from wcache.loader.packed import PackedMemory
from wcache.loader.room import check_room, named_failures

if TYPE_CHECKING:
    import torch

    from wcache.loader.attachment import Attachment


class Taken(NamedTuple):
    """`maps` are what the tensors lie in, none for copies; `ms` is how long it took."""

    tensors: dict[str, torch.Tensor]
    maps: tuple[ShardMap | PackedMemory, ...]
    ms: float


def take(attachment: Attachment, names: Collection[str] | None = None) -> Taken:
    """All tensors of the residency, or those of `names`. Raises NoRoom before a copy that does not fit, MappingFailed, Unsupported."""
    began = time.monotonic()
    with named_failures(attachment.question.spelling):
        found, maps = _take(attachment, names)
    if attachment.copies:
        maps = ()
    return Taken(found, maps, (time.monotonic() - began) * 1000)


def _take(attachment: Attachment, names: Collection[str] | None) -> tuple[dict[str, torch.Tensor], tuple[ShardMap | PackedMemory, ...]]:
    maps: tuple[ShardMap | PackedMemory, ...] = ()
    if attachment.packed is not None:
        maps = (memory := attachment.memory(),)
        found = _from_memory(memory, names, copy=attachment.copies)
    elif attachment.gpu is not None:
        from wcache.loader.host_tier import copy_to_gpu

        found = copy_to_gpu(attachment.segments.values(), attachment.gpu, names)
    else:
        wanted = [name for name, segment in attachment.segments.items() if names is None or _has_any(segment, names)]
        with paused_collector():
            maps = shards = tuple(attachment.shard(name) for name in wanted)
            found = _from_shards(shards, names, copy=attachment.copies)
    return found, maps


def report_taken(attachment: Attachment, taken: Taken, tensors: Collection[torch.Tensor]) -> None:
    """`map.completed` with the mode that the addresses prove; `tensors` are those that the engine has now, tied ones once. Where all of
    them are the engine's own copies, nothing is left to lease: the attach ends."""
    copied = [tensor for tensor in tensors if not any(one.holds(tensor.data_ptr()) for one in taken.maps)]
    misaligned = sum(one.copies(name) for one in taken.maps if isinstance(one, ShardMap) for name in one.entries)
    attachment.mapped(
        Mode.ZERO_COPY if len(copied) <= misaligned and not attachment.copies else Mode.COPY,
        tensors=len(tensors),
        size_bytes=sum(tensor.nbytes for tensor in tensors),
        copied_tensors=len(copied),
        copied_bytes=sum(tensor.nbytes for tensor in copied),
        ms=taken.ms,
    )
    if len(copied) == len(tensors):
        attachment.copied()


def _has_any(segment: Segment, names: Collection[str]) -> bool:
    return any(entry.name in names for entry in segment.header.tensors)


def _from_memory(memory: PackedMemory, names: Collection[str] | None, *, copy: bool) -> dict[str, torch.Tensor]:
    places = memory.table.tensors if names is None else tuple(place for place in memory.table.tensors if place.name in names)
    if not copy:
        return memory.tensors(places)
    gpu = memory.mapping.device if memory.mapping is not None else None
    if names is not None:
        found = memory.tensors(places)
        check_room(sum(tensor.nbytes for tensor in found.values()), gpu)
        return {name: tensor.clone() for name, tensor in found.items()}
    # As one block: tensors that share bytes go on sharing them.
    check_room(memory.table.size_bytes, gpu)
    return block_tensors(memory.bytes()[: memory.table.size_bytes].clone(), places)


def _from_shards(shards: tuple[ShardMap, ...], names: Collection[str] | None, *, copy: bool) -> dict[str, torch.Tensor]:
    wanted = [(shard, name) for shard in shards for name in shard.entries if names is None or name in names]
    if not copy:
        return {name: shard.tensor(name) for shard, name in wanted}
    check_room(sum(shard.entries[name].size_bytes for shard, name in wanted), None)
    return {name: shard.tensor(name) if shard.copies(name) else shard.tensor(name).clone() for shard, name in wanted}
