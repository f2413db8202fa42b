"""Engines in processes of their own that wait for the word and then attach, all at once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

_SCRIPT = """
import json, sys
from wcache.core.settings import load_settings
from wcache.loader.attach import attach
print("ready", flush=True)
for line in sys.stdin:
    spelling, policy = json.loads(line)
    found = attach(spelling, settings=load_settings(**policy))
    decision = found.decision
    answer = {"hit": found.hit, "seq": found.seq, "attach": found.attach, "tier": decision.tier, "reason": decision.reason}
    print(json.dumps(answer), flush=True)
    found.close()
"""


class Engines:
    """`count` processes of one launch; ranks as torchrun gives them. `prefix` is a command that runs each (`unshare -m`)."""

    def __init__(
        self, env: Mapping[str, str], count: int = 1, *, prefix: Sequence[str] = (), script: str = _SCRIPT, cwd: Path | None = None
    ) -> None:
        clean = {name: value for name, value in os.environ.items() if not name.startswith("WCACHE_")}
        self.processes = [
            subprocess.Popen(
                [*prefix, sys.executable, "-c", script],
                env={**clean, **env, "RANK": str(rank), "WORLD_SIZE": str(count)},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                cwd=cwd,
            )
            for rank in range(count)
        ]

    def __enter__(self) -> Engines:
        for process in self.processes:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for process in self.processes:
            if kind is not None:
                process.kill()
            process.communicate(timeout=60)

    def ask(self, spelling: str | Path, **policy: Any) -> None:
        """All of them, without waiting."""
        for process in self.processes:
            assert process.stdin is not None
            process.stdin.write(json.dumps([str(spelling), policy]) + "\n")
            process.stdin.flush()

    def answers(self) -> list[dict[str, Any]]:
        found = []
        for process in self.processes:
            assert process.stdout is not None
            found.append(json.loads(process.stdout.readline()))
        return found

    def attach(self, spelling: str | Path, **policy: Any) -> dict[str, Any]:
        """Of one process."""
        self.ask(spelling, **policy)
        (found,) = self.answers()
        return found
