"""Code that runs as another user: a real uid with real supplementary groups, which only root can make."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest
from support.commands import clean_environ, with_tests_on_path

OTHER_UID = 40001
OTHER_GID = 40001
SHARED_GID = 41000
"""Numbers that no user or group of a distribution has; the kernel needs no names for them."""

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become another user")


def as_user(uid: int, *groups: int) -> tuple[str, ...]:
    """The words before a command that make it another user's. The interpreter may lie in root's home: the one capability that is left
    lets it be read, and lives on in every process that it starts."""
    named = f"--groups={','.join(map(str, groups))}" if groups else "--clear-groups"
    capability = ("--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search")
    return ("setpriv", f"--reuid={uid}", f"--regid={uid}", named, *capability)


# The interpreter may lie where the other user cannot read, so that everything is imported before the change.
_BEFORE = """
import importlib.readers, json, logging, os, sys, time
import numpy, safetensors.numpy
import wcache.ledger.journal, wcache.ledger.store, wcache.ledger.upgrade
import wcache.loader.attach, wcache.loader.check, wcache.loader.foreign, wcache.loader.evidence, wcache.loader.mapping
import wcache.core.checkpoint.checkpoint as checkpoint
from wcache.core.model.decide import Decision, Request, decide
from wcache.core.model.errors import *
from wcache.core.model.events import *
from wcache.core.model.evidence import *
from wcache.core.model.policy import Policy
from wcache.core.model.vocabulary import *
from wcache.core.settings import load_settings
from wcache.core.wire.channel import Channel
from wcache.core.wire.messages import *
from wcache.core.wire.messages import Message
from support.attaching import *
from wcache.loader.attach import attach as loader_attach
logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(message)s")
os.setgroups(GROUPS); os.setgid(GID); os.setuid(UID)
os.environ["HOME"] = HOME
settings = load_settings({"HOME": HOME, "WCACHE_CONFIG": os.devnull}, runtime_dir=RUN, state_dir=HOME + "/state", **SETTINGS)
def tell(**facts):
    print(json.dumps(facts, default=str), flush=True)
"""


class Other:
    """A user with a home of its own, who looks for a daemon in `runtime_dir`."""

    def __init__(self, home: Path, runtime_dir: Path, groups: tuple[int, ...], uid: int = OTHER_UID, **settings: Any) -> None:
        self.home = home
        self._before = textwrap.dedent(
            f"GROUPS, GID, UID = {list(groups)!r}, {uid}, {uid}\nHOME, RUN, SETTINGS = {str(home)!r}, {str(runtime_dir)!r}, {settings!r}\n"
        )
        home.mkdir(parents=True, exist_ok=True)
        os.chown(home, uid, uid)

    def start(self, code: str, *, as_root: str = "") -> subprocess.Popen[str]:
        """Runs `code`; it may read lines from stdin to wait for the test. `as_root` runs before root becomes this user."""
        return subprocess.Popen(
            [sys.executable, "-c", self._before + textwrap.dedent(as_root) + _BEFORE + textwrap.dedent(code)],
            env=with_tests_on_path(clean_environ()),
            cwd="/",
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, code: str, *, as_root: str = "") -> tuple[dict[str, Any], str]:
        """What it told last, and its log."""
        process = self.start(code, as_root=as_root)
        out, err = process.communicate(timeout=60)
        assert process.returncode == 0, err
        return json.loads(out.splitlines()[-1]), err
