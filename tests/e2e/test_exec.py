"""Engines that must not change, with a real model: `transformers serve` under `wcache exec`, stock transformers on a `wcache view`."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from support.commands import clean_environ
from support.daemon import DaemonProcess, wait_until

ENGINE = Path(__file__).resolve().parent / "engine.py"
SERVE = "import sys; from transformers.cli.transformers import main; sys.argv[0] = 'transformers'; main()"
READY_S = 300  # importing torch and transformers on a busy machine


@pytest.fixture
def daemon(disk_path: Path, smollm2: Path) -> Iterator[DaemonProcess]:
    process = DaemonProcess(disk_path / "state")
    try:
        process.start().load(smollm2)
        yield process
    finally:
        process.cleanup()


def environ_of(daemon: DaemonProcess) -> dict[str, str]:
    return {**clean_environ(), **daemon.env, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}


@contextmanager
def serving(model: Path, environ: dict[str, str], log: Path, *prefix: str) -> Iterator[str]:
    """The URL of a ready `transformers serve`, behind whatever `prefix` is. Its output is in `log`."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    line = [sys.executable, "-c", SERVE, "serve", str(model), "--host", "127.0.0.1", "--port", str(port), "--device", "cpu"]
    options = [word.format(url=url) for word in prefix]
    with log.open("wb") as output:
        process = subprocess.Popen([*options, *line], env=environ, stdout=output, stderr=output)
        try:
            wait_until(lambda: process.poll() is not None or _answers(url), READY_S, "transformers serve")
            assert process.poll() is None, log.read_text()
            yield url
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(timeout=60)


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/health", timeout=5):
            return True
    except (OSError, urllib.error.URLError):
        return False


def complete(url: str, model: Path, prompt: str) -> str:
    body = {"model": str(model), "prompt": prompt, "max_tokens": 4, "temperature": 0, "seed": 1}
    request = urllib.request.Request(f"{url}/v1/completions", json.dumps(body).encode(), {"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=180) as answer:
        text: str = json.load(answer)["choices"][0]["text"]
    return text


@pytest.mark.slow
def test_an_unmodified_transformers_serve_answers_as_ever_from_mapped_weights(daemon: DaemonProcess, smollm2: Path, tmp_path: Path) -> None:
    """Its text is that of the server without wcache; the ledger has one hit, zero_copy, every byte in place; and it goes on answering
    when the daemon is killed."""
    environ = environ_of(daemon)
    prompts = ("The capital of France is", "def fibonacci(n):")
    with serving(smollm2, environ, tmp_path / "plain.log") as url:
        expected = [complete(url, smollm2, prompt) for prompt in prompts]
    receipt = tmp_path / "receipt.json"
    wrap = (sys.executable, "-m", "wcache.cli", "exec", "--strict", "--json", str(receipt), "--ready-url", "{url}/health", "--")
    with serving(smollm2, environ, tmp_path / "exec.log", *wrap) as url:
        assert complete(url, smollm2, prompts[0]) == expected[0]
        wait_until(receipt.exists, 30)
        found = json.loads(receipt.read_text())
        (row,) = found["attaches"]
        assert (row["decision"], row["tier"], row["mode"], row["engine"]) == ("hit", "pinned", "zero_copy", "transformers")
        assert (row["copied_bytes"], row["mapped_bytes"]) == (0, sum(tensor.nbytes for tensor in _tensors(smollm2).values()))
        assert found["ready"] and found["complete"]
        assert len(daemon.status().leases) == 1
        daemon.kill()
        assert complete(url, smollm2, prompts[1]) == expected[1]
    assert "Paris" in expected[0]
    assert "1 of 1 ranks mapped" in (tmp_path / "exec.log").read_text()


def _tensors(model: Path) -> dict[str, torch.Tensor]:
    return {name: tensor for file in model.glob("*.safetensors") for name, tensor in load_file(file).items()}


def test_stock_transformers_maps_a_view_and_computes_the_same_bits(daemon: DaemonProcess, smollm2: Path, tmp_path: Path) -> None:
    """`from_pretrained` on the directory, in a process that knows nothing of wcache: every parameter lies in the sealed memory."""

    def engine(*prefix: str, model: str, output: Path) -> Any:
        line = [*prefix, sys.executable, str(ENGINE), "logits", model, "disk", "bfloat16", str(output)]
        done = subprocess.run(line, env=environ_of(daemon), capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    assert engine(model=str(smollm2), output=tmp_path / "disk")["mapped"] == 0
    wrap = (sys.executable, "-m", "wcache.cli", "view", str(smollm2), "--strict", "--")
    report = engine(*wrap, model="{view}", output=tmp_path / "viewed")
    assert report["mapped"] == report["parameters"] > 0
    disk, viewed = load_file(tmp_path / "disk")["result"], load_file(tmp_path / "viewed")["result"]
    assert torch.equal(disk.view(torch.uint8), viewed.view(torch.uint8))


def test_a_fallback_of_our_own_from_pretrained_is_one_attach_under_exec(smollm2: Path, short_path: Path, tmp_path: Path) -> None:
    """It has decided, and then has transformers read the disk, which must not decide again."""
    environ = {
        **clean_environ(),
        "WCACHE_RUNTIME_DIR": str(short_path),
        "WCACHE_STATE_DIR": str(short_path / "state"),
        "HF_HUB_OFFLINE": "1",
    }
    receipt = tmp_path / "receipt.json"
    line = [sys.executable, "-m", "wcache.cli", "exec", "--json", str(receipt), "--", sys.executable, str(ENGINE)]
    words = ["logits", str(smollm2), "wcache", "bfloat16", str(tmp_path / "out")]
    done = subprocess.run([*line, *words], env=environ, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    (row,) = json.loads(receipt.read_text())["attaches"]
    assert (row["engine"], row["decision"], row["reason"]) == ("transformers", "fallback", "daemon_absent")
