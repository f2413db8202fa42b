"""Frames: cut anywhere, capped before anything is allocated, and no descriptor is ever leaked."""

from __future__ import annotations

import os
import resource
import socket
import struct
import tracemalloc
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.descriptors import open_descriptors

from wcache.core.model.errors import ProtocolError
from wcache.core.wire.frames import FrameDecoder, close_fds, encode_frame, receive_some, send_some
from wcache.core.wire.messages import MAX_FDS


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    left, right = socket.socketpair()
    with left, right:
        yield left, right


@given(bodies=st.lists(st.binary(max_size=40), max_size=6), cuts=st.lists(st.integers(1, 9), min_size=1))
def test_frames_survive_any_cut_of_the_stream(bodies: list[bytes], cuts: list[int]) -> None:
    stream = b"".join(encode_frame(body) for body in bodies)
    decoder, found, position = FrameDecoder(64), [], 0
    while position < len(stream):
        step = cuts[position % len(cuts)]
        found += decoder.feed(stream[position : position + step])
        position += step
    assert [frame.body for frame in found] == bodies
    assert not decoder.in_frame


def test_a_length_of_16_gib_is_refused_without_an_allocation() -> None:
    """D5. Four bytes can announce at most 4 GiB; a client that means 16 GiB in eight bytes announces 0 and then garbage, or 4 GiB."""
    decoder = FrameDecoder(1 << 20)
    tracemalloc.start()
    with pytest.raises(ProtocolError, match="cap is 1048576 bytes"):
        decoder.feed(struct.pack(">I", 0xFFFFFFFF))
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak_bytes < 100_000


def test_descriptors_belong_to_the_frame_that_they_came_with(pair: tuple[socket.socket, socket.socket]) -> None:
    left, right = pair
    read_end, write_end = os.pipe()
    send_some(left, encode_frame(b"first"))
    send_some(left, encode_frame(b"second"), [read_end])
    send_some(left, encode_frame(b"third"))
    decoder, frames = FrameDecoder(64), []
    while len(frames) < 3:
        frames += decoder.feed(*receive_some(right))
    assert [(frame.body, len(frame.fds)) for frame in frames] == [(b"first", 0), (b"second", 1), (b"third", 0)]
    os.write(write_end, b"x")
    assert os.read(frames[1].fds[0], 1) == b"x"
    assert not os.get_inheritable(frames[1].fds[0])
    close_fds([*frames[1].fds, read_end, write_end])


def test_descriptors_of_a_frame_that_arrives_in_parts_wait_for_its_end(pair: tuple[socket.socket, socket.socket]) -> None:
    left, right = pair
    read_end, write_end = os.pipe()
    frame = encode_frame(b"body")
    send_some(left, frame[:3], [read_end])
    decoder = FrameDecoder(64)
    assert decoder.feed(*receive_some(right)) == []
    left.send(frame[3:])
    (found,) = decoder.feed(*receive_some(right))
    assert found.body == b"body"
    assert len(found.fds) == 1
    close_fds([*found.fds, read_end, write_end])


def test_descriptors_that_were_cut_off_are_an_error_and_none_stays_open(pair: tuple[socket.socket, socket.socket]) -> None:
    """MSG_CTRUNC: the receiver's limit of open files lets only some through."""
    left, right = pair
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    send_some(left, encode_frame(b"x"), [0] * MAX_FDS)
    before = open_descriptors()
    resource.setrlimit(resource.RLIMIT_NOFILE, (before + 4, limits[1]))
    try:
        with pytest.raises(ProtocolError, match="cut off"):
            receive_some(right)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert open_descriptors() == before


def test_more_descriptors_than_a_message_may_carry_are_refused_and_closed(pair: tuple[socket.socket, socket.socket]) -> None:
    left, right = pair
    frame = encode_frame(b"12345678")
    decoder, before = FrameDecoder(64), open_descriptors()
    send_some(left, frame[:4], [0] * MAX_FDS)
    decoder.feed(*receive_some(right))
    send_some(left, frame[4:6], [0])
    with pytest.raises(ProtocolError, match="33 descriptors"):
        decoder.feed(*receive_some(right))
    assert open_descriptors() == before
