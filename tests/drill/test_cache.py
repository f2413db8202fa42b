"""The drill's own daemon: what is left of it when its start does not end."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from support.daemon import alive

from wcache.core.model.errors import RequestRefused
from wcache.core.model.policy import Policy
from wcache.drill import cache

NEVER_SAID = """#!/bin/sh
case "$*" in *"daemon start"*) {python} "$@"; exec sleep 600;; *) exec {python} "$@";; esac
"""


def test_a_daemon_whose_start_takes_too_long_is_one_line_and_leaves_no_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The daemon is up, but the command that starts it never says so."""
    python = tmp_path / "python"
    python.write_text(NEVER_SAID.format(python=sys.executable))
    python.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(python))
    monkeypatch.setattr(cache, "_START_S", 4.0)
    with cache.OwnDaemon(tmp_path, Policy()) as daemon, pytest.raises(RequestRefused, match="wcache daemon start: not done within 4 s"):
        daemon.start()
    assert not [pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if alive(pid) and names(pid, daemon.runtime_dir)]
    assert not daemon.runtime_dir.exists()


def names(pid: int, place: Path) -> bool:
    """Whether it has the directory in its environment."""
    try:
        return os.fsencode(place) in Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return False
