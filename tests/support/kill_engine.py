"""A program of the kill matrix: an engine that attaches through the real loader, and stops where it is told.

    kill_engine.py {idle|hand-over|mapped|committing} CHECKPOINT

It says one JSON line when it has reached its phase. Afterwards it obeys lines on stdin: `go` ends a pause in the hand-over, `hash` prints
the digest of everything that it maps; the end of stdin ends it. In `committing` it records events without a pause and says each event's id
once it is acknowledged.
"""

from __future__ import annotations

import hashlib
import json
import signal
import sys
import threading
from typing import Any

from wcache.core.model.events import MapCompleted
from wcache.core.model.vocabulary import Mode
from wcache.core.settings import load_settings
from wcache.core.wire.channel import Channel
from wcache.core.wire.messages import Ack
from wcache.loader import attachment as attachment_module
from wcache.loader.attach import Attachment, attach

_LOCK = threading.Lock()  # two threads speak


def say(**fields: Any) -> None:
    with _LOCK:
        sys.stdout.write(json.dumps(fields) + "\n")
        sys.stdout.flush()


def pause_in_hand_over() -> None:
    """At the first acknowledgement: some of the descriptors are here, and the server waits."""
    send = Channel.send

    def pausing(self: Channel, message: Any, *arguments: Any, **options: Any) -> None:
        if isinstance(message, Ack):
            Channel.send = send  # type: ignore[method-assign]
            say(phase="hand-over")
            sys.stdin.readline()
        send(self, message, *arguments, **options)

    Channel.send = pausing  # type: ignore[method-assign]


def record_for_ever(attached: Attachment) -> None:
    seen: list[str] = []
    make = attachment_module.new_event_id

    def remembered() -> str:
        seen.append(make())
        return seen[-1]

    attachment_module.new_event_id = remembered
    while True:
        attached._observe(
            MapCompleted(attach=attached.attach, mode=Mode.ZERO_COPY, tensors=1, bytes=1, copied_tensors=0, copied_bytes=0, ms=0.0)
        )
        say(recorded=seen[-1])


def main() -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell that starts this in the background has it ignored
    phase, checkpoint = sys.argv[1:]
    if phase == "idle":
        channel = Channel.connect(load_settings().socket_path)
        say(phase="idle")
        sys.stdin.read()
        channel.close()
        return
    if phase == "hand-over":
        pause_in_hand_over()
    attached = attach(checkpoint)
    shards = [attached.shard(name) for name in sorted(attached.segments)]
    if attached.hit:
        attached.report_mapped(1.0)
        attached.settle()
    else:
        attached.fell_back(1, 0.1)
    say(phase=phase, attach=attached.attach, hit=attached.hit, reason=attached.decision.reason)
    if phase == "committing" and attached.hit:
        threading.Thread(target=record_for_ever, args=(attached,), daemon=True).start()
    for line in sys.stdin:
        if line.strip() == "hash":
            digest = hashlib.sha256()
            for shard in shards:
                digest.update(shard.memory)
            say(digest=digest.hexdigest())
    attached.close()


if __name__ == "__main__":
    main()
