"""`--device`: what names no GPU, or one that cannot be had, is one line with what to do. Loads onto real ones: tests/gpu."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.commands import Cli, ok
from support.corpus import make_checkpoint

from wcache.cli.checks import Subject, carried_out
from wcache.cli.host_checks import gpus
from wcache.cli.weights import devices_named
from wcache.core.model.errors import EXIT_REFUSED, EXIT_USAGE
from wcache.core.settings import load_settings


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_checkpoint(tmp_path_factory.mktemp("devices") / "model")


@pytest.mark.parametrize(
    ("device", "code", "says"),
    [
        ("cuda:0", EXIT_REFUSED, "NVIDIA driver"),
        ("all", EXIT_REFUSED, "NVIDIA driver"),
        ("cpu,cuda:0", EXIT_REFUSED, "NVIDIA driver"),
        ("GPU-00000000-0000-4000-8000-000000000000", EXIT_REFUSED, "NVIDIA driver"),
        ("hip:1", EXIT_REFUSED, "AMD GPUs (ROCm)"),
        ("cuda:0,xpu", EXIT_REFUSED, "Intel GPUs (XPU)"),
        ("gpu", EXIT_USAGE, "no device"),
        ("cuda:0,cuda:0", EXIT_USAGE, "named twice"),
        ("", EXIT_USAGE, "no device"),
    ],
)
def test_a_device_that_cannot_be_had_is_one_line(no_driver: None, wcache: Cli, checkpoint: Path, device: str, code: int, says: str) -> None:
    done = wcache("load", str(checkpoint), "--device", device)
    assert (done.returncode, done.stdout) == (code, "")
    (line,) = done.stderr.splitlines()
    assert says in line and "; " in line
    assert ok(wcache("load", str(checkpoint), "--device", device, "--json"), code)["error"]["code"] in ("unsupported", "usage")


def test_host_memory_needs_no_driver(wcache: Cli, checkpoint: Path) -> None:
    assert devices_named(" cpu ") == ["cpu"]
    loaded = ok(wcache("load", str(checkpoint), "--device", "cpu", "--json"))
    assert loaded["device"] == "cpu"
    (row,) = [row for row in ok(wcache("ls", "--json")) if row["residency"] == loaded["residency"]]
    assert row["device"] == "cpu"


def test_doctor_says_that_a_machine_without_a_driver_keeps_weights_in_host_memory(no_driver: None, short_path: Path) -> None:
    subject = Subject(settings=load_settings({"WCACHE_CONFIG": "", "HOME": str(short_path)}))
    (found,) = carried_out(gpus, subject)
    assert (found.check, found.state) == ("gpu", "ok")
    assert "no NVIDIA driver" in found.found and "host memory" in found.found
