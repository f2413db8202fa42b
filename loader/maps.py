"""The live mappings of one attachment: found by an address, given back and mapped again together."""

from __future__ import annotations

import threading
import weakref

from wcache.core.memory import span, vmm
from wcache.core.model.errors import MappingFailed
from wcache.loader.mapping import Memory, Segment, ShardMap
from wcache.loader.packed import GpuMemory, Packed, PackedMemory


class Maps:
    """Held weakly: a mapping goes with its last tensor. `paused` from `pause()` to `resume()`."""

    def __init__(self) -> None:
        self.paused = False
        self._host: weakref.WeakKeyDictionary[Memory, tuple[int, int, Segment | Packed]] = weakref.WeakKeyDictionary()
        self._gpu: weakref.WeakKeyDictionary[GpuMemory, Packed] = weakref.WeakKeyDictionary()
        self._lock = threading.Lock()

    def add_shard(self, shard: ShardMap, segment: Segment) -> None:
        self._host[shard.memory] = (shard.begin, shard.size_bytes, segment)

    def add_memory(self, memory: PackedMemory, packed: Packed) -> None:
        if memory.mapping is not None:
            self._gpu[memory.mapping] = packed
        elif memory.memory is not None:
            self._host[memory.memory] = (memory.begin, memory.size_bytes, packed)

    def holding(self, address: int) -> Memory | GpuMemory | None:
        """The mapping that an address lies in."""
        for memory, (begin, size_bytes, _) in list(self._host.items()):
            if begin <= address < begin + size_bytes:
                return memory
        for mapping in list(self._gpu):
            if mapping.address <= address < mapping.address + mapping.size_bytes:
                return mapping
        return None

    def on_gpu(self) -> list[GpuMemory]:
        return list(self._gpu)

    def pause(self) -> int:
        """Gives every mapping back and keeps its addresses; how many bytes that were, 0 where they are paused already.

        Raises MappingFailed where nothing is mapped, and for host memory that this process has written to: those pages are its own, and
        nobody else has them. Nothing is given back then.
        """
        with self._lock:
            if self.paused:
                return 0
            host, gpu = dict(self._host), dict(self._gpu)  # from here on none of them can go
            if not host and not gpu:
                raise MappingFailed("nothing of it is mapped now")
            self._check_held(host, gpu)
            own_bytes = span.written_bytes((begin, size_bytes) for begin, size_bytes, _ in host.values()) if host else 0
            if own_bytes:
                raise MappingFailed(
                    f"this process has changed up to {own_bytes} bytes of its mapped weights in place, which a pause would lose",
                    remedy="copy a tensor before changing it (`tensor.clone()`), or attach with mode `copy`",
                )
            self.paused = True  # also where it breaks off: `resume` brings everything back
            for mapping in gpu:
                mapping.pause()
            for begin, size_bytes, _ in host.values():
                span.give_back(begin, size_bytes)
            return _total_bytes(host, gpu)

    def resume(self) -> int:
        """Maps the same memory again at the same addresses; how many bytes that are, 0 where nothing is paused.

        Raises MappingFailed, also where the descriptors were given back meanwhile; what is still missing then may be tried again.
        """
        with self._lock:
            if not self.paused:
                return 0
            host, gpu = dict(self._host), dict(self._gpu)
            self._check_held(host, gpu)
            for mapping, packed in gpu.items():
                if not mapping.mapped:
                    with vmm.import_descriptor(packed.descriptor, packed.memory_bytes, mapping.device) as allocation:
                        mapping.resume(allocation)
            for begin, size_bytes, source in host.values():
                span.map_again(source.descriptor, begin, size_bytes)
            self.paused = False
            return _total_bytes(host, gpu)

    @staticmethod
    def _check_held(host: dict[Memory, tuple[int, int, Segment | Packed]], gpu: dict[GpuMemory, Packed]) -> None:
        sources: list[Segment | Packed] = [*(source for _, _, source in host.values()), *gpu.values()]
        if any(source.descriptor < 0 for source in sources):
            raise MappingFailed("its lease has ended, and with it the way back to this memory")


def _total_bytes(host: dict[Memory, tuple[int, int, Segment | Packed]], gpu: dict[GpuMemory, Packed]) -> int:
    return sum(size_bytes for _, size_bytes, _ in host.values()) + sum(mapping.size_bytes for mapping in gpu)
