"""Where tensors lie in a segment: packed at 256 bytes, tied ones once, tensors of the same form side by side."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from wcache.core.model.errors import MappingFailed, UsageError

ALIGNMENT_BYTES = 256
"""What cudaMalloc gives, so that no kernel meets an address it would not meet elsewhere (CUDA programming guide)."""


class Item(msgspec.Struct, frozen=True, gc=False):
    """A tensor to be placed; `dtype` as safetensors names it. `same_as` names another item that it shares its bytes with (tied weights)."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    size_bytes: int
    same_as: str = ""


class Placement(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """A tensor's place in its segment; an alias has the place of what it is `same_as`.

    `strides` count elements; none: contiguous. `size_bytes` is from the first to the last byte that the tensor reaches. `role` is what the
    tensor is in an engine's module: a parameter or a buffer, where that is known.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    offset_bytes: int
    size_bytes: int
    same_as: str = ""
    strides: tuple[int, ...] = ()
    role: str = ""


class Plan(msgspec.Struct, frozen=True, gc=False):
    """Every tensor's place, in the order given. `size_bytes` ends with the last tensor; a device rounds it up to its granularity."""

    size_bytes: int
    placements: tuple[Placement, ...]

    def placed(self) -> tuple[Placement, ...]:
        """Those that own their bytes: what is to be filled and hashed."""
        return tuple(place for place in self.placements if not place.same_as)


def pack(items: Iterable[Item]) -> Plan:
    """Places the items, those of equal dtype and shape next to each other (the layers of a model), so that one operation can view them all.

    Raises UsageError for a name given twice and for an alias of nothing or of another size.
    """
    asked = list(items)
    by_name = {item.name: item for item in asked}
    if len(by_name) != len(asked):
        seen: set[str] = set()
        twice = next(item.name for item in asked if item.name in seen or seen.add(item.name))  # type: ignore[func-returns-value]
        raise UsageError("two tensors have this name", where=twice)
    alike: dict[tuple[str, tuple[int, ...], int], list[Item]] = {}
    for item in asked:
        if not item.same_as:
            alike.setdefault((item.dtype, item.shape, item.size_bytes), []).append(item)
    offsets: dict[str, int] = {}
    end = 0
    for group in alike.values():
        for item in group:
            offsets[item.name] = aligned(end)
            end = offsets[item.name] + item.size_bytes
    owners = {item.name: _owner(item, by_name) for item in asked}
    placements = tuple(
        Placement(
            item.name,
            item.dtype,
            item.shape,
            offsets[owners[item.name]],
            item.size_bytes,
            "" if owners[item.name] == item.name else owners[item.name],
        )
        for item in asked
    )
    return Plan(end, placements)


def aligned(offset_bytes: int) -> int:
    """The first place at or after it where a tensor may begin."""
    return -(-offset_bytes // ALIGNMENT_BYTES) * ALIGNMENT_BYTES


def check_inside(placements: Iterable[Placement], size_bytes: int) -> None:
    """Raises MappingFailed for a place outside a segment of that size: kernels would read what is not there."""
    for place in placements:
        if place.offset_bytes < 0 or place.size_bytes < 0 or place.offset_bytes + place.size_bytes > size_bytes:
            raise MappingFailed(
                f"its place ends at {place.offset_bytes + place.size_bytes}, the segment has {size_bytes} bytes", where=place.name
            )


def _owner(item: Item, by_name: dict[str, Item]) -> str:
    passed = {item.name}
    found = item
    while found.same_as:
        if found.same_as not in by_name or found.same_as in passed:
            raise UsageError(f"it is tied to {found.same_as!r}, which owns no bytes", where=item.name)
        found = by_name[found.same_as]
        passed.add(found.name)
    if found.size_bytes != item.size_bytes:
        raise UsageError(f"it has {item.size_bytes} bytes, {found.name!r} that it is tied to has {found.size_bytes}", where=item.name)
    return found.name
