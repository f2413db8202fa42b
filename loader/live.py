"""Attachments that are alive, so that the files of one checkpoint share one decision."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Mapping
from typing import Any

from wcache.core.checkpoint.reader import Reader
from wcache.core.model.errors import WcacheError
from wcache.core.model.vocabulary import Reason, Tier
from wcache.core.settings import Settings
from wcache.loader import copies
from wcache.loader.attach import SETTING_NAMES, Attachment, attach, resolve_settings
from wcache.loader.question import NUMBERED

# By the directory as it was spelled and all that a decision depends on: the next shards of a checkpoint
# need no attach of their own. Held weakly: when the last tensor is gone, so is the lease.
_live: weakref.WeakValueDictionary[tuple[object, ...], Attachment] = weakref.WeakValueDictionary()
_gave_up: set[tuple[object, ...]] = set()  # whose load was waited for in vain: the next shards do not wait again
_lock = threading.Lock()
# Threads that ask for shards of one checkpoint at a time share a decision: one is there while some thread is at it.
_gates: weakref.WeakValueDictionary[tuple[object, ...], threading.RLock] = weakref.WeakValueDictionary()


def _new_locks() -> None:
    global _lock
    _lock = threading.Lock()  # a fork may have copied it locked
    _gates.clear()


os.register_at_fork(after_in_child=_new_locks)


def attached(path: str, policy: Mapping[str, Any]) -> Attachment:
    """A live attachment that covers this very file, or a new one."""
    options = {"engine": "safetensors", **policy}
    settings = resolve_settings(options.pop("settings", None), {name: options.pop(name) for name in SETTING_NAMES & options.keys()})
    parent, name = os.path.split(os.path.abspath(path))  # noqa: PTH100 (nothing on disk may be looked at yet)
    key = (parent, settings, *sorted((word, repr(value)) for word, value in options.items()))
    with _lock:
        gate = _gates.setdefault((None if NUMBERED.fullmatch(name) else name, *key), threading.RLock())
    with gate:
        return _attached(path, parent, name, key, settings, options)


def _attached(path: str, parent: str, name: str, key: tuple[object, ...], settings: Settings, options: Mapping[str, Any]) -> Attachment:
    with _lock:
        live = _live.get(key)
    if live is not None:
        if _still_covers(live, parent, name):
            live.handed_out.add(name)
            return live
        copies.let_go(live)
    if key in _gave_up:
        settings = resolve_settings(settings, {"wait_s": 0.0})
    attachment = attach(path, is_file=True, settings=settings, **options)
    with _lock:
        if attachment.hit:
            attachment.handed_out.add(name)
            _live[key] = attachment
            if attachment.copies:
                copies.hold(attachment)
            _gave_up.discard(key)
        elif attachment.decision.reason is Reason.STILL_LOADING:
            _gave_up.add(key)
    return attachment


def _still_covers(attachment: Attachment, parent: str, name: str) -> bool:
    """Whether the file is still the one that was decided on: one stat, none under a grant."""
    if not attachment.hit or not attachment.holds_weights:
        return False
    if attachment.decision.tier is Tier.TRUSTED:
        return name in attachment.headers
    location = attachment.location
    if name in attachment.handed_out and not attachment.stays_true:
        return False  # one decision is for one look at each of the files
    decided = next((one for one in location.files if one.name == name), None) if location else None
    if decided is None or location is None:
        return False
    try:
        return Reader().stat_at(name, f"{parent}/{name}", fs_kind=location.fs_kind) == decided
    except WcacheError:
        return False


def disown(attachment: Attachment) -> None:
    """It serves no more files."""
    with _lock:
        for key in [key for key, one in _live.items() if one is attachment]:
            del _live[key]
