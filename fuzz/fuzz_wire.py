"""Fuzz the wire: frames, descriptors beside them, and the messages in them: `make fuzz`, or

    python fuzz/fuzz_wire.py -runs=1000000 [CORPUS ...]

Arguments are libFuzzer's. docs/fuzzing.md says what a run promises and what the recorded ones found.
"""

from __future__ import annotations

import random

from runner import run


def mutator(data: bytes, source: random.Random) -> bytes:
    """Edits one frame of the stream as what it is, or adds one."""
    import msgspec
    from support.mutations import REPLIES, REQUESTS, edit, edited_body, encode_roughly, framed

    mode, stream = data[:1] or b"\0", data[1:]
    frames: list[bytes] = []
    while len(stream) >= 4:
        end = 4 + int.from_bytes(stream[:4], "big")
        if end > len(stream):
            break
        frames.append(stream[4:end])
        stream = stream[end:]
    if not frames or source.random() < 0.1:
        frames.insert(source.randrange(len(frames) + 1), edited_body(source, source.choice(REQUESTS + REPLIES)))
    else:
        position = source.randrange(len(frames))
        try:
            plain = msgspec.msgpack.decode(frames[position])
            frames[position] = encode_roughly(source, edit(source, plain))
        except (msgspec.MsgspecError, RecursionError, TypeError, OverflowError):  # dates and extensions may be in it
            frames[position] = edited_body(source, source.choice(REQUESTS + REPLIES))
    if source.random() < 0.2:
        mode = source.randbytes(1)
    return mode + b"".join(framed(source, frame) for frame in frames) + stream


if __name__ == "__main__":
    run("wire", mutator)
