"""Engines get weights here: attach, map, fall back; the safetensors and transformers surfaces. Importing this imports no torch.

`wcache.loader.attach` is the module of `attach()`, for engines that build on it; what most programs need is named here.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from wcache.loader.attach import Attachment
    from wcache.loader.attachment import attachment_of
    from wcache.loader.replacement import update
    from wcache.loader.safetensors_api import load_file, safe_open
    from wcache.loader.transformers import from_pretrained

__all__ = ["Attachment", "attachment_of", "from_pretrained", "load_file", "safe_open", "update"]

_HOMES = {
    "Attachment": "attach",
    "attachment_of": "attachment",
    "from_pretrained": "transformers",
    "load_file": "safetensors_api",
    "safe_open": "safetensors_api",
    "update": "replacement",
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{home}"), name)
