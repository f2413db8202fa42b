"""Attachments whose files are copied one by one. No tensor holds them, so they are held here until the last file of the checkpoint."""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from wcache.core.model.vocabulary import Mode
from wcache.loader.attachment import Attachment


class FileCopy(NamedTuple):
    """What was copied of one file (bytes by tensor), how many tensors it has, and how long that took."""

    sizes: Mapping[str, int]
    tensors: int
    ms: float


class _Held:
    """What was copied of an attachment, by file, how many of its files are open, and whether another one has taken its place."""

    def __init__(self) -> None:
        self.done: dict[str, FileCopy] = {}
        self.users = 0
        self.replaced = False


_held: dict[Attachment, _Held] = {}
_lock = threading.Lock()


def _new_lock() -> None:
    global _lock
    _lock = threading.Lock()  # a fork may have copied it locked


os.register_at_fork(after_in_child=_new_lock)


def hold(attachment: Attachment) -> None:
    """Keep it, and with it its lease, for the files to come."""
    with _lock:
        _held.setdefault(attachment, _Held())


def enter(attachment: Attachment) -> bool:
    """Count an open file in, which keeps the weights. False where another thread has just closed the last one: nothing is left then."""
    with _lock:
        held = _held.get(attachment)
        if held is not None:
            held.users += 1
        return held is not None


def note(attachment: Attachment, name: str, copy: FileCopy) -> None:
    """That of this file is copied now; of a file of which nothing was read, nothing is."""
    if copy.tensors and not copy.sizes:
        return
    with _lock:
        held = _held.get(attachment)
        if held is not None:
            earlier = held.done.get(name, FileCopy({}, copy.tensors, 0.0))
            held.done[name] = FileCopy({**earlier.sizes, **copy.sizes}, copy.tensors, earlier.ms + copy.ms)


def leave(attachment: Attachment) -> None:
    """Count an open file out. After the last file nothing is left to lease: `map.completed` is reported, and the attach ends. The release
    is asked for where every tensor was copied: who left some out may have looked into the files before loading them."""
    with _lock:
        held = _held.get(attachment)
        if held is None:
            return
        held.users -= 1
        if held.users:
            return
        if not held.done.keys() >= _files(attachment):
            if held.replaced and not held.done:
                del _held[attachment]
            return
        done = list(_held.pop(attachment).done.values())
    whole = all(len(one.sizes) == one.tensors for one in done)
    _report(attachment, done)
    if whole:
        attachment.copied()
    else:
        attachment.close()


def let_go(attachment: Attachment) -> None:
    """Do not keep one of which nothing was copied: another has taken its place. An open file of it still keeps it."""
    with _lock:
        held = _held.get(attachment)
        if held is not None:
            held.replaced = True
            if not held.done and not held.users:
                del _held[attachment]


def _files(attachment: Attachment) -> set[str]:
    location = attachment.location
    return {one.name for one in location.files} if location is not None else set(attachment.headers)


def forget(attachment: Attachment) -> None:
    """Let go of it, and of what was copied so far."""
    with _lock:
        _held.pop(attachment, None)


def _report(attachment: Attachment, done: Sequence[FileCopy]) -> None:
    tensors, size_bytes = sum(len(one.sizes) for one in done), sum(sum(one.sizes.values()) for one in done)
    ms = sum(one.ms for one in done)
    attachment.mapped(Mode.COPY, tensors=tensors, size_bytes=size_bytes, copied_tensors=tensors, copied_bytes=size_bytes, ms=ms)


@atexit.register  # before the reports are waited for, which was registered earlier
def _report_the_rest() -> None:
    """Of checkpoints of which only some files were taken."""
    for attachment, held in list(_held.items()):
        if held.done:
            _report(attachment, list(held.done.values()))
