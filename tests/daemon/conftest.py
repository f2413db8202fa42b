"""A running daemon and a checkpoint whose files are old enough to be pinned at once."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.corpus import make_checkpoint
from support.daemon import DaemonProcess


@pytest.fixture
def daemon() -> Iterator[DaemonProcess]:
    process = DaemonProcess()
    try:
        yield process.start()
    finally:
        process.cleanup()
