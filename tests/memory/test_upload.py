"""Which bytes of a file go where, in which read: nothing here needs a GPU (tests/gpu has what does)."""

from __future__ import annotations

import mmap

from hypothesis import given
from hypothesis import strategies as st

from wcache.core.memory.upload import CHUNK_BYTES, SLOTS, Extent, Ring, chunks_of


@given(st.lists(st.integers(0, 40), max_size=12), st.integers(0, 30), st.integers(1, 25), st.randoms(use_true_random=False))
def test_every_byte_of_every_block_arrives_at_its_place_once(sizes: list[int], header_bytes: int, chunk_bytes: int, order) -> None:  # type: ignore[no-untyped-def]
    """A file of a header and blocks without holes, and a memory in which they lie in another order with gaps."""
    file = bytes(order.randrange(256) for _ in range(header_bytes + sum(sizes)))
    places: dict[int, int] = {}
    end = 0
    for block in order.sample(range(len(sizes)), len(sizes)):
        places[block] = end
        end += sizes[block] + order.randrange(5)
    begins = [header_bytes + sum(sizes[:block]) for block in range(len(sizes))]
    extents = [Extent(begins[block], places[block], sizes[block], block) for block in range(len(sizes))]
    memory, written = bytearray(end), bytearray(end)
    read, complete = b"", []
    for chunk in chunks_of(7, len(file), extents, chunk_bytes):
        assert chunk.file == 7 and chunk.offset_bytes == len(read)
        data = file[chunk.offset_bytes : chunk.offset_bytes + chunk.size_bytes]
        read += data
        for copy in chunk.copies:
            memory[copy.to_bytes : copy.to_bytes + copy.size_bytes] = data[copy.from_bytes : copy.from_bytes + copy.size_bytes]
            for at in range(copy.to_bytes, copy.to_bytes + copy.size_bytes):
                written[at] += 1
        for block in chunk.completes:
            assert memory[places[block] :][: sizes[block]] == file[begins[block] :][: sizes[block]]
        complete += chunk.completes
    assert read == file
    assert complete == list(range(len(sizes))) or not file
    assert sum(written) == sum(sizes) and max(written, default=0) <= 1


def test_the_ring_has_no_more_slots_than_there_are_reads_and_each_begins_on_a_page() -> None:
    assert Ring(10**6).slots == SLOTS
    assert Ring(0).slots == 1
    ring = Ring(3)
    assert ring.address % mmap.PAGESIZE == 0 and CHUNK_BYTES % mmap.PAGESIZE == 0
    with ring.slot(1) as slot:
        slot[0] = 7
        assert len(slot) == CHUNK_BYTES
    with ring.slot(0) as first, ring.slot(1) as second:
        assert (first[0], second[0]) == (0, 7)
    ring.close()
    ring.close()
