"""`vllm serve` with replicas on the CPU, asked over HTTP."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import urllib.request
from contextlib import suppress
from pathlib import Path
from typing import Any

from support.daemon import DaemonProcess, wait_until
from support.ledgers import Record
from support.ports import free_port
from support.vllm import NEEDS_VLLM, SERVED, START_S, VLLM, environ_of, patiently, preload, wcache

from wcache.core.model.events import AttachDecided
from wcache.core.model.vocabulary import Outcome

pytestmark = NEEDS_VLLM


class Server:
    """`vllm serve`, ready to answer."""

    def __init__(self, daemon: DaemonProcess, checkpoint: Path, log: Path, *arguments: str) -> None:
        patiently()
        self.url = f"http://127.0.0.1:{(port := free_port())}"
        self.log = log
        options = ("--host", "127.0.0.1", "--port", str(port), *SERVED)
        with log.open("wb") as sink:
            self.process = subprocess.Popen(
                [VLLM / "bin" / "vllm", "serve", checkpoint, *options, *arguments], env=environ_of(daemon), stdout=sink, stderr=sink,
                start_new_session=True,
            )  # fmt: skip
        try:
            wait_until(self._ready, START_S, "vllm serve")
        except BaseException:
            self.stop()
            raise

    def _ready(self) -> bool:
        assert self.process.poll() is None, self.log.read_text()[-4000:]
        with suppress(OSError), urllib.request.urlopen(f"{self.url}/health", timeout=5) as answer:
            return bool(answer.status == 200)
        return False

    def complete(self, prompt: str) -> dict[str, Any]:
        body = json.dumps({"prompt": prompt, "max_tokens": 4, "temperature": 0, "logprobs": 1}).encode()
        request = urllib.request.Request(f"{self.url}/v1/completions", body, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=300) as answer:
            (choice,) = json.load(answer)["choices"]
        return {"text": choice["text"], "logprobs": choice["logprobs"]["token_logprobs"]}

    def stop(self) -> None:
        self.process.terminate()
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(timeout=60)
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


def test_both_replicas_of_a_served_model_hit_and_answer_on_when_the_daemon_is_gone(smollm2: Path, tmp_path: Path) -> None:
    """I11: data-parallel size 2 of a dense model, against weights that were prepared once. Each replica is a process of its own, which
    vLLM starts with a word in its environment that the preparing one does not have."""
    daemon = DaemonProcess(tmp_path / "state")
    try:
        daemon.start()
        daemon.load(smollm2)
        strict = json.dumps({"fallback": False, "tensors": "processed", "socket_dir": str(daemon.settings.runtime_dir)})
        options = ("--load-format", "wcache", "--model-loader-extra-config", strict, "--data-parallel-size", "2")
        (published,) = preload(daemon, smollm2, *SERVED, "--data-parallel-size", "2")["published"]
        server = Server(daemon, smollm2, tmp_path / "log", *options)
        try:
            before = [server.complete("The capital of France is") for _ in range(2)]
            daemon.kill()
            after = [server.complete("The capital of France is") for _ in range(2)]
        finally:
            server.stop()
        assert before == after and " Paris" in before[0]["text"]
        said = [line for line in (tmp_path / "log").read_text().splitlines() if re.search("Mapped|weight cache|falling back", line)]
        mapped = re.findall(r"Mapped \d+ tensors from the weight cache daemon \(zero_copy mode\) rank=(\d)", "\n".join(said))
        assert sorted(mapped) == ["0", "1"], said
        decided = Record(daemon.settings).of(AttachDecided)[-2:]
        assert [(event.outcome, event.residency, event.ranks.tp) for event in decided] == [(Outcome.HIT, published, 1)] * 2
        assert len({event.launch for event in decided}) == 1
        assert "2 of 2 ranks mapped" in wcache(daemon, "audit", "launch", decided[0].launch)
    finally:
        daemon.cleanup()
