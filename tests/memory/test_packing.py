"""Where tensors lie in a segment."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wcache.core.memory.packing import Item, Placement, check_inside, pack
from wcache.core.model.errors import MappingFailed, UsageError


@given(st.lists(st.tuples(st.integers(0, 5000), st.integers(-1, 30)), max_size=30))
def test_tensors_are_aligned_never_overlap_and_tied_ones_lie_once(drawn: list[tuple[int, int]]) -> None:
    items: list[Item] = []
    for index, (size_bytes, tied) in enumerate(drawn):
        to = items[tied % len(items)] if tied >= 0 and items else None
        items.append(
            Item(f"t{index}", "U8", (to.size_bytes if to else size_bytes,), to.size_bytes if to else size_bytes, to.name if to else "")
        )
    plan = pack(items)
    assert [place.name for place in plan.placements] == [item.name for item in items]
    by_name = {place.name: place for place in plan.placements}
    end = 0
    for place in sorted(plan.placed(), key=lambda place: (place.offset_bytes, place.size_bytes)):
        assert place.offset_bytes % 256 == 0
        assert end <= place.offset_bytes < end + 256
        end = place.offset_bytes + place.size_bytes
    assert plan.size_bytes == end
    for place in plan.placements:
        if place.same_as:
            assert by_name[place.same_as] in plan.placed()
            assert place.offset_bytes == by_name[place.same_as].offset_bytes
    check_inside(plan.placements, plan.size_bytes)


def test_an_alias_may_come_before_its_owner_and_point_to_another_alias() -> None:
    plan = pack([Item("c", "U8", (4,), 4, same_as="b"), Item("b", "U8", (4,), 4, same_as="a"), Item("a", "U8", (4,), 4)])
    assert [(place.offset_bytes, place.same_as) for place in plan.placements] == [(0, "a"), (0, "a"), (0, "")]


@pytest.mark.parametrize(
    ("items", "message"),
    [
        ([Item("a", "U8", (1,), 1), Item("a", "U8", (1,), 1)], "this name"),
        ([Item("a", "U8", (1,), 1, same_as="b")], "tied to 'b'"),
        ([Item("a", "U8", (1,), 1, same_as="a")], "owns no bytes"),
        ([Item("a", "U8", (1,), 1, same_as="b"), Item("b", "U8", (1,), 1, same_as="a")], "owns no bytes"),
        ([Item("a", "U8", (1,), 1, same_as="b"), Item("b", "U8", (2,), 2)], "1 bytes"),
    ],
)
def test_a_plan_that_cannot_be_is_refused(items: list[Item], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        pack(items)


def test_a_place_outside_the_segment_is_refused() -> None:
    check_inside([Placement("a", "U8", (4,), 252, 4)], 256)
    for offset_bytes, size_bytes in ((253, 4), (-1, 4), (0, -4)):
        with pytest.raises(MappingFailed):
            check_inside([Placement("a", "U8", (4,), offset_bytes, size_bytes)], 256)
