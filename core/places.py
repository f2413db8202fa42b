"""Names in the runtime directory. Standard library only: the vault needs them and must stay small."""

from __future__ import annotations

SOCKET_NAME = "wcache.sock"
LOCK_NAME = "daemon.lock"
SUN_PATH_MAX = 107  # unix(7): sun_path is 108 bytes with its NUL
