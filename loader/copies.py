"""Attachments whose files are copied one by one. No tensor holds them, so they are held here until the last file of the checkpoint."""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Mapping
from typing import NamedTuple

from wcache.core.model.vocabulary import Mode
from wcache.loader.attachment import Attachment


class FileCopy(NamedTuple):
    """What was copied of one file (bytes by tensor), how many tensors it has, and how long that took."""

    sizes: Mapping[str, int]
    tensors: int
    ms: float


_held: dict[Attachment, dict[str, FileCopy]] = {}
_lock = threading.Lock()


def _new_lock() -> None:
    global _lock
    _lock = threading.Lock()  # a fork may have copied it locked


os.register_at_fork(after_in_child=_new_lock)


def hold(attachment: Attachment) -> None:
    """Keep it, and with it its lease, for the files to come."""
    with _lock:
        _held.setdefault(attachment, {})


def note(attachment: Attachment, name: str, copy: FileCopy) -> None:
    """That of this file is copied now; of a file of which nothing was read, nothing is. After the last file nothing is left to lease:
    `map.completed` is reported, and the attach ends. The release is asked for where every tensor was copied: who left some out may have
    looked into the files before loading them."""
    if copy.tensors and not copy.sizes:
        return
    location = attachment.location
    wanted = {one.name for one in location.files} if location is not None else set(attachment.headers)
    with _lock:
        done = _held.setdefault(attachment, {})
        earlier = done.get(name, FileCopy({}, copy.tensors, 0.0))
        done[name] = FileCopy({**earlier.sizes, **copy.sizes}, copy.tensors, earlier.ms + copy.ms)
        if not done.keys() >= wanted:
            return
        whole = all(len(one.sizes) == one.tensors for one in done.values())
    _report(attachment)
    if whole:
        attachment.copied()
    else:
        attachment.close()


def let_go(attachment: Attachment) -> None:
    """Do not keep one of which nothing was copied: another has taken its place. An open file of it still keeps it."""
    with _lock:
        if not _held.get(attachment, True):
            del _held[attachment]


def forget(attachment: Attachment) -> list[FileCopy]:
    """Let go of it; what was copied so far."""
    with _lock:
        return list(_held.pop(attachment, {}).values())


def _report(attachment: Attachment) -> None:
    done = forget(attachment)
    tensors, size_bytes = sum(len(one.sizes) for one in done), sum(sum(one.sizes.values()) for one in done)
    ms = sum(one.ms for one in done)
    attachment.mapped(Mode.COPY, tensors=tensors, size_bytes=size_bytes, copied_tensors=tensors, copied_bytes=size_bytes, ms=ms)


@atexit.register  # before the reports are waited for, which was registered earlier
def _report_the_rest() -> None:
    """Of checkpoints of which only some files were taken."""
    for attachment, done in list(_held.items()):
        if done:
            _report(attachment)
