"""Memory of the server and of its vault: empty, with SmolLM2 resident, after many attaches. The weights must not be in it, nor torch.

Three figures each (proc_pid_smaps_rollup(5), in MB of 10^6 bytes): RSS counts shared pages of libraries whole, PSS divides them among
the processes that map them, anonymous memory is what the process alone costs. Beside them a bare interpreter, and one that has imported
SQLAlchemy and nothing else. Byte code is cached first, as installing a package does: compiling at start costs 1 to 2 MB more.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from places import checkpoint, places, wcache
from rows import Row, figure, main

GOAL_MB = 40
GOAL_TOGETHER_MB = 60
ATTACHES = 500
_FIELDS = {"Rss": "RSS", "Pss": "PSS", "Anonymous": "anonymous"}
_ONLY = "import sys, {module}; sys.stdout.write(open('/proc/self/smaps_rollup').read())"
_ATTACH = """
import sys
from wcache.loader.attach import attach
for _ in range(int(sys.argv[2])):
    attach(sys.argv[1], on_miss="strict").close()
"""


def memory_mb(rollup: str) -> dict[str, float]:
    found = {}
    for line in rollup.splitlines()[1:]:
        name, _, value = line.partition(":")
        if name in _FIELDS:
            found[_FIELDS[name]] = int(value.split()[0]) * 1024 / 1e6
    return found


def measure() -> list[Row]:
    rows: list[Row] = []

    def add(what: str, rollup: str, goal: str = "") -> None:
        for name, value in memory_mb(rollup).items():
            rows.append(figure(f"{what}, {name}", value, "MB", goal if name == "RSS" else ""))

    with places() as environ:
        for module in ("os", "sqlalchemy"):
            for _ in range(2):  # the first one fills the cache
                command = [sys.executable, "-c", _ONLY.format(module=module)]
                alone = subprocess.run(command, env=environ, check=True, capture_output=True, text=True).stdout
            add(f"python that imports {module}", alone)
        wcache(environ, "daemon", "start")
        wcache(environ, "daemon", "stop")
        wcache(environ, "daemon", "start")
        status = json.loads(wcache(environ, "daemon", "status", "--json"))
        pid = int(status["server_pid"])
        rollup, vault = (Path(f"/proc/{one}/smaps_rollup") for one in (pid, int(status["vault_pid"])))
        add("server, nothing resident", rollup.read_text(encoding="ascii"), f"<= {GOAL_MB}")
        place = checkpoint()
        wcache(environ, "load", str(place))
        add("server, 269 MB resident", rollup.read_text(encoding="ascii"), f"<= {GOAL_MB}")
        subprocess.run([sys.executable, "-c", _ATTACH, str(place), str(ATTACHES)], env={**os.environ, **environ}, check=True)
        add(f"server, after {ATTACHES} attaches", rollup.read_text(encoding="ascii"), f"<= {GOAL_MB}")
        add("vault", vault.read_text(encoding="ascii"))
        together = memory_mb(rollup.read_text(encoding="ascii"))["RSS"] + memory_mb(vault.read_text(encoding="ascii"))["RSS"]
        rows.append(figure("server and vault together, RSS", together, "MB", f"<= {GOAL_TOGETHER_MB}"))
        torch = "libtorch" in Path(f"/proc/{pid}/maps").read_text(encoding="utf-8")
    rows.append(figure("torch in the server", "yes" if torch else "no", "", "no"))
    return rows


if __name__ == "__main__":
    main(__doc__, measure)
