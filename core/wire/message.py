"""What every message on the socket is."""

from __future__ import annotations

import msgspec


class Message(msgspec.Struct, frozen=True, kw_only=True, tag_field="m"):
    """Base of all messages; the tag `m` is the class name."""
