"""`wcache exec`: programs that know nothing of wcache, with real interpreters and a real daemon. numpy stands for any framework."""

from __future__ import annotations

import json
import os
import pty
import secrets
import signal
import socket
import subprocess
import sys
import venv
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from support.commands import Cli, clean_environ, ok
from support.corpus import make_checkpoint
from support.daemon import DaemonProcess, wait_until

FIRST, SECOND = "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"
TENSORS = 4
WEIGHTS_BYTES = TENSORS * 256 * 256 * 4

LOAD = """
import glob, sys
from safetensors import safe_open
kept = {}
for path in sorted(glob.glob(sys.argv[1] + "/*.safetensors")):
    with safe_open(path, framework="np") as file:
        for name in file.keys():
            kept[name] = file.get_tensor(name)
print(sorted((name, float(array[0, 0]), float(array[-1, -1])) for name, array in kept.items()))
"""


class Place(NamedTuple):
    path: Path
    said: str  # by LOAD


@pytest.fixture
def place(disk_path: Path) -> Place:
    """Names and values that no other test has: the daemon is a module's, and knows content wherever it lies."""
    random, prefix = np.random.default_rng(), secrets.token_hex(4)
    weights = {f"{prefix}.{number}": random.random((256, 256), np.float32) for number in range(TENSORS)}
    said = str([(name, float(array[0, 0]), float(array[-1, -1])) for name, array in weights.items()])
    return Place(make_checkpoint(disk_path / "m", weights, shards=2), said)


class Exec:
    """`wcache exec OPTIONS -- COMMAND`, finished; the launch's attaches by its receipt."""

    def __init__(self, daemon: DaemonProcess, scratch: Path) -> None:
        self.daemon = daemon
        self.output = scratch / "receipt.json"

    def command(self, *command: str, options: tuple[str, ...] = ()) -> list[str]:
        return [sys.executable, "-m", "wcache.cli", "exec", "--json", str(self.output), *options, "--", *command]

    def environ(self, **more: str) -> dict[str, str]:
        return {**clean_environ(), **self.daemon.env, **more}

    def __call__(self, *command: str, options: tuple[str, ...] = (), stdin: str = "", **more: str) -> subprocess.CompletedProcess[str]:
        line = self.command(*command, options=options)
        return subprocess.run(line, env=self.environ(**more), input=stdin, capture_output=True, text=True, timeout=120, check=False)

    def python(self, script: str, *arguments: str | Path, **words: Any) -> subprocess.CompletedProcess[str]:
        return self(sys.executable, "-c", script, *map(str, arguments), **words)

    def receipt(self) -> Any:
        return json.loads(self.output.read_text())


@pytest.fixture
def execute(daemon: DaemonProcess, tmp_path: Path) -> Exec:
    return Exec(daemon, tmp_path)


# --- weights ------------------------------------------------------------------------------------------------------------------------


def test_an_unchanged_program_gets_its_weights_from_the_cache_as_one_attach(execute: Exec, wcache: Cli, place: Place) -> None:
    """Two files opened one after the other are one load: one decision, one report, the mode by what still points into the mapping."""
    execute.daemon.load(place.path)
    done = execute.python(LOAD, place.path)
    assert (done.returncode, done.stdout.strip()) == (0, place.said), done.stderr
    found = execute.receipt()
    (row,) = found["attaches"]
    assert (row["decision"], row["tier"], row["mode"], row["checkpoint"]) == ("hit", "pinned", "zero_copy", str(place.path))
    assert (row["mapped_bytes"], row["copied_bytes"]) == (WEIGHTS_BYTES, 0)
    assert (found["complete"], found["exit_status"], found["text"]) == (True, 0, "1 of 1 ranks mapped")
    assert f"launch {found['launch']}: 1 of 1 ranks mapped" in done.stderr
    assert "rank 0: hit, tier pinned, zero_copy, 1.0 MiB in " in done.stderr and f"seq {row['seq']}: {place.path}" in done.stderr
    assert ok(wcache("audit", "launch", found["launch"], "--json"))["complete"]


def test_what_the_program_copied_is_told_as_a_copy(execute: Exec, place: Place) -> None:
    execute.daemon.load(place.path)
    done = execute.python(LOAD.replace("file.get_tensor(name)", "file.get_tensor(name) * 1"), place.path)
    assert (done.returncode, done.stdout.strip()) == (0, place.said), done.stderr
    (row,) = execute.receipt()["attaches"]
    assert (row["decision"], row["mode"], row["copied_bytes"]) == ("hit", "copy", WEIGHTS_BYTES)
    assert "copy, 1.0 MiB, 1.0 MiB of it copied, seq" in done.stderr


def test_a_look_into_a_file_and_the_load_after_it_are_one_attach(execute: Exec, place: Place) -> None:
    execute.daemon.load(place.path)
    look = f'import sys\nfrom safetensors import safe_open\nlist(safe_open(sys.argv[1] + "/{FIRST}", "np").keys())\n'
    assert execute.python(look + LOAD, place.path).returncode == 0
    (row,) = execute.receipt()["attaches"]
    assert (row["mode"], row["mapped_bytes"]) == ("zero_copy", WEIGHTS_BYTES)


@pytest.mark.parametrize("resident", [True, False])
def test_threads_that_open_shards_at_the_same_time_are_one_attach(execute: Exec, place: Place, resident: bool) -> None:
    if resident:
        execute.daemon.load(place.path)
    script = """
import glob, sys
from concurrent.futures import ThreadPoolExecutor
from safetensors.numpy import load_file
with ThreadPoolExecutor(4) as pool:
    parts = list(pool.map(load_file, sorted(glob.glob(sys.argv[1] + "/*.safetensors"))))
print(sum(map(len, parts)))
"""
    done = execute.python(script, place.path)
    assert done.stdout.strip() == str(TENSORS), done.stderr
    (row,) = execute.receipt()["attaches"]
    assert row["decision"] == ("hit" if resident else "fallback")


def test_a_miss_reads_the_disk_as_ever_and_is_one_fallback_with_all_its_bytes(execute: Exec, place: Place) -> None:
    done = execute.python(LOAD, place.path)
    assert (done.returncode, done.stdout.strip()) == (0, place.said), done.stderr
    found = execute.receipt()
    (row,) = found["attaches"]
    assert (row["decision"], row["reason"], row["fallback_bytes"]) == ("fallback", "not_resident", WEIGHTS_BYTES)
    assert not found["complete"] and found["text"].startswith("0 of 1 ranks mapped, rank 0 fell back because not_resident")
    assert "1.0 MiB read from disk" in done.stderr


def test_strict_ends_the_load_with_the_reason(execute: Exec, place: Place) -> None:
    done = execute.python(LOAD, place.path, options=("--strict",))
    assert done.returncode == 1 and "StrictMiss" in done.stderr
    (row,) = execute.receipt()["attaches"]
    assert (row["decision"], row["reason"]) == ("strict_miss", "not_resident")


def test_only_named_checkpoints_are_asked_for(execute: Exec, place: Place, disk_path: Path) -> None:
    """An adapter beside the model is no miss: nobody meant to have it in the cache."""
    adapter = make_checkpoint(disk_path / "adapter", {"lora": np.ones((2, 2), np.float32)})
    execute.daemon.load(place.path)
    link = disk_path / "link"
    link.symlink_to(place.path)
    both = LOAD + LOAD.replace("argv[1]", "argv[2]").replace("kept = {}", "")
    done = execute.python(both, place.path, adapter, options=("--strict", "--checkpoint", str(link)))
    assert done.returncode == 0, done.stderr
    assert [row["checkpoint"] for row in execute.receipt()["attaches"]] == [str(place.path)]


def test_several_checkpoints_of_a_launch_are_told_apart(execute: Exec, place: Place, disk_path: Path) -> None:
    draft = make_checkpoint(disk_path / "draft", {"w": np.ones((2, 2), np.float32)})
    execute.daemon.load(place.path)
    done = execute.python(LOAD + LOAD.replace("argv[1]", "argv[2]"), place.path, draft)
    found = execute.receipt()
    file = draft / "model.safetensors"
    assert found["text"].startswith(f"0 of 1 ranks mapped, rank 0 fell back for {file} because not_resident"), done.stderr
    assert [row["decision"] for row in found["attaches"]] == ["hit", "fallback"]


def test_processes_that_a_server_spawns_are_of_its_launch(execute: Exec, place: Place) -> None:
    execute.daemon.load(place.path)
    spawning = f"""
import subprocess, sys
for _ in range(2):
    subprocess.run([sys.executable, "-c", {LOAD!r}, sys.argv[1]], check=True)
"""
    assert execute.python(spawning, place.path).returncode == 0
    rows = execute.receipt()["attaches"]
    assert [row["decision"] for row in rows] == ["hit", "hit"] and len({row["launch"] for row in rows}) == 1


def test_an_earlier_start_of_the_same_name_does_not_count(execute: Exec, place: Place) -> None:
    """Nor does a launch whose name begins alike."""
    execute.daemon.load(place.path)
    name = "l-" + secrets.token_hex(4)
    assert execute.python(LOAD, place.path, WCACHE_LAUNCH=name + "x").returncode == 0
    assert execute.python(LOAD, place.path, WCACHE_LAUNCH=name).returncode == 0 and execute.receipt()["complete"]
    done = execute(sys.executable, "-E", "-c", LOAD, str(place.path), WCACHE_LAUNCH=name)
    found = execute.receipt()
    assert (done.returncode, found["attaches"], found["complete"]) == (0, [], False), done.stderr
    assert "0 attaches recorded" in done.stderr and found["launch"] == name


def test_shards_with_a_pause_between_them_are_one_load_with_all_its_bytes(execute: Exec, place: Place) -> None:
    execute.daemon.load(place.path)
    script = f"""
import sys, threading
from safetensors.numpy import load_file
from wcache.loader import tracked
tracked._QUIET_S = 0.0
kept = []
for name in ({FIRST!r}, {SECOND!r}):
    kept.append(load_file(sys.argv[1] + "/" + name))
    for thread in threading.enumerate():
        if isinstance(thread, threading.Timer) and not thread.interval:
            thread.join(30)
"""
    done = execute.python(script, place.path)
    (row,) = execute.receipt()["attaches"]
    assert (row["decision"], row["mode"], row["mapped_bytes"]) == ("hit", "zero_copy", WEIGHTS_BYTES), done.stderr


@pytest.mark.parametrize("start", ["fork", "forkserver"])
def test_what_workers_of_multiprocessing_loaded_is_told_at_their_end(execute: Exec, place: Place, start: str, disk_path: Path) -> None:
    """They end by os._exit."""
    other = make_checkpoint(disk_path / "other", {"w": np.ones((2, 2), np.float32)})
    execute.daemon.load(place.path)
    script = disk_path / "workers.py"
    script.write_text(f"""
import sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from safetensors.numpy import load_file
def work(path):
    return len(load_file(path))
if __name__ == "__main__":
    with ProcessPoolExecutor(1, mp_context=get_context({start!r})) as pool:
        print(*pool.map(work, sys.argv[1:]))
""")
    done = execute(sys.executable, str(script), str(place.path / FIRST), str(other / "model.safetensors"))
    assert done.stdout.split() == ["2", "1"], done.stderr
    hit, fallback = execute.receipt()["attaches"]
    assert (hit["decision"], hit["mapped_bytes"]) == ("hit", WEIGHTS_BYTES // 2), done.stderr
    assert (fallback["decision"], fallback["fallback_bytes"]) == ("fallback", 16), done.stderr


def test_a_program_that_uses_the_loader_itself_is_not_asked_for_twice(execute: Exec, place: Place) -> None:
    """Its fallback reads the disk through the package, which is not a load of its own."""
    done = execute.python(LOAD.replace("from safetensors import", "from wcache.loader import"), place.path)
    assert (done.returncode, done.stdout.strip()) == (0, place.said), done.stderr
    rows = execute.receipt()["attaches"]
    assert [row["engine"] for row in rows] == ["safetensors"] * 2, "one for each file, as its own calls decide"
    assert sum(row["fallback_bytes"] for row in rows) == WEIGHTS_BYTES


def test_the_lease_ends_with_the_last_tensor_also_when_the_program_keeps_its_closed_files(execute: Exec, place: Place) -> None:
    execute.daemon.load(place.path)
    script = LOAD + "print('loaded', flush=True)\nsys.stdin.readline()\nkept.clear()\ndel array\nsys.stdin.readline()\n"
    script = script.replace("array in kept", "one in kept").replace("(array[", "(one[").replace("kept[name] =", "array = kept[name] =")
    line = execute.command(sys.executable, "-c", script, str(place.path))
    with subprocess.Popen(line, env=execute.environ(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None and process.stdout is not None
        assert process.stdout.readline().strip() == place.said and process.stdout.readline() == "loaded\n"
        wait_until(lambda: execute.output.exists(), 60)  # reported, and three quiet seconds after it
        assert [one.launch for one in execute.daemon.status().leases] == [execute.receipt()["launch"]]
        process.stdin.write("drop\n")
        process.stdin.flush()
        wait_until(lambda: not execute.daemon.status().leases)
        process.stdin.write("end\n")
        process.stdin.flush()
        assert process.wait(timeout=30) == 0


def test_a_forked_child_says_nothing_of_its_parents_load(execute: Exec, place: Place) -> None:
    execute.daemon.load(place.path)
    forking = LOAD + "import os\npid = os.fork()\nif pid:\n    assert os.waitpid(pid, 0)[1] == 0\nelse:\n    kept.clear()\n"
    assert execute.python(forking, place.path).returncode == 0
    (row,) = execute.receipt()["attaches"]
    assert (row["mode"], row["mapped_bytes"]) == ("zero_copy", WEIGHTS_BYTES)


def test_what_is_wrong_is_told_by_the_reference(execute: Exec, place: Place) -> None:
    script = """
import sys
import safetensors
from safetensors import safe_open
wrong = ({"backend": "zz"}, {"nonsense": 1}, {"device": "zz"}, {"device": "cpu:0"}, {"device": -1}, {"device": [0]})
for words in ({"framework": "zz"}, *({"framework": "np", **one} for one in wrong), {}):
    try:
        safe_open(sys.argv[1], **words)
    except BaseException as error:
        print(type(error).__name__, str(error)[:60])
try:
    safe_open(sys.argv[1] + ".none", "np")
except BaseException as error:
    print(type(error).__name__)
print(isinstance(safe_open(sys.argv[1], "np"), safe_open), isinstance(1, safe_open))
"""
    file = place.path / FIRST
    plain = subprocess.run([sys.executable, "-c", script, str(file)], capture_output=True, text=True, timeout=60, check=True)
    ours = execute.python(script, file).stdout.splitlines()
    assert [line.split()[0] for line in ours] == [line.split()[0] for line in plain.stdout.splitlines()]
    assert ours[:7] == plain.stdout.splitlines()[:7] and ours[-1] == "True False"


# --- interpreters -----------------------------------------------------------------------------------------------------------------


def test_a_sitecustomize_of_the_environment_still_runs_and_is_found(execute: Exec, place: Place, tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "sitecustomize.py").write_text("mark = 'own'\n")
    execute.daemon.load(place.path)
    script = "import sitecustomize, sys\nassert sitecustomize.mark == 'own'\nassert not any(entry.endswith('hook') for entry in sys.path)\n"
    done = execute.python(script + LOAD, place.path, PYTHONPATH=str(tmp_path / "own"))
    assert (done.returncode, done.stdout.strip()) == (0, place.said), done.stderr
    assert execute.receipt()["complete"]


def test_the_package_keeps_its_own_loader(execute: Exec) -> None:
    """A look for the package does not use the hook up, and its resources are found."""
    script = """
import importlib.resources, importlib.util
importlib.util.find_spec("safetensors")
import safetensors
print(type(safetensors.__loader__).__name__, type(safetensors.__spec__.loader).__name__, hasattr(safetensors.safe_open, "__wrapped__"))
importlib.resources.files("safetensors").joinpath("__init__.py").read_text()
"""
    done = execute.python(script)
    assert done.stdout.split() == ["SourceFileLoader", "SourceFileLoader", "True"], done.stderr


@pytest.mark.parametrize("flag", ["-I", "-E", "-S"])
def test_a_python_that_ignores_the_hook_is_noticed(execute: Exec, place: Place, flag: str) -> None:
    """-S: without `site` there are no packages either; whatever the program makes of that, the receipt says that nothing was asked."""
    done = execute(sys.executable, flag, "-c", LOAD, str(place.path))
    assert execute.receipt()["attaches"] == []
    assert "0 attaches recorded: the command did not load weights through wcache" in done.stderr


@pytest.mark.slow
def test_an_environment_without_wcache_says_so_and_reads_the_disk(execute: Exec, place: Place, tmp_path: Path) -> None:
    import safetensors

    venv.create(tmp_path / "other", with_pip=False, symlinks=True)
    (packages,) = (tmp_path / "other" / "lib").glob("python*/site-packages")
    for module in (safetensors, np):
        source = Path(str(module.__file__)).parent
        (packages / source.name).symlink_to(source)
        for libraries in source.parent.glob(f"{source.name}.libs"):
            (packages / libraries.name).symlink_to(libraries)
    python = str(tmp_path / "other" / "bin" / "python")
    done = execute(python, "-c", LOAD, str(place.path))
    assert (done.returncode, done.stdout.strip()) == (0, place.said), done.stderr
    assert f"weights are not mapped here: {python} has no usable wcache" in done.stderr


# --- the command as it would be without us --------------------------------------------------------------------------------------------


def test_the_exit_status_is_the_commands(execute: Exec) -> None:
    assert execute("sh", "-c", "exit 7").returncode == 7
    assert execute("sh", "-c", "kill -9 $$").returncode == 137
    assert execute.receipt()["exit_status"] == 137
    assert execute("no-such-command").returncode == 127
    assert execute("/").returncode == 126


def test_input_and_output_are_the_commands(execute: Exec) -> None:
    done = execute("cat", stdin="one\ntwo\n")
    assert done.stdout == "one\ntwo\n"


def test_options_behind_the_command_are_its_own(execute: Exec) -> None:
    assert execute("echo", "--strict", "--json", "--", "--help").stdout == "--strict --json -- --help\n"


def test_what_cannot_be_meant_is_told_before_the_command_starts(execute: Exec, tmp_path: Path) -> None:
    touched = str(tmp_path / "touched")
    for options in (("--ready-url", "nonsense"), ("--json", str(tmp_path / "none" / "x")), ("--checkpoint", str(tmp_path / "none"))):
        done = execute("touch", touched, options=options)
        assert done.returncode in (2, 3) and len(done.stderr.splitlines()) == 1, done.stderr
    assert execute("touch", touched, WCACHE_ACCEPT="everything").returncode == 2
    assert not Path(touched).exists()


WAITING = """
import signal, sys
print("waiting", flush=True)
got = signal.sigwait({signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1})
print("got", got.name, flush=True)
sys.exit(40 + got)
"""
BLOCKED = "import signal\nsignal.pthread_sigmask(signal.SIG_BLOCK, {1, 2, 10, 15})\n" + WAITING


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1])
def test_signals_are_forwarded(execute: Exec, number: signal.Signals) -> None:
    line = execute.command(sys.executable, "-c", BLOCKED)
    with subprocess.Popen(line, env=execute.environ(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stdout.readline() == "waiting\n"
        process.send_signal(number)
        out, _ = process.communicate(timeout=30)
    assert (out, process.returncode) == (f"got {number.name}\n", 40 + number)


def test_ctrl_c_reaches_the_command_once(execute: Exec) -> None:
    """The terminal sends it to the whole foreground group; a second one would make many a server drop its requests."""
    script = """
import signal, sys, time
seen = []
signal.signal(signal.SIGINT, lambda *_: seen.append(1))
print("waiting", flush=True)
sys.stdin.readline()
print("interrupts", len(seen), sys.stdin.isatty(), flush=True)
"""
    pid, terminal = pty.fork()
    if pid == 0:
        line = execute.command(sys.executable, "-c", script)
        os.execve(line[0], line, execute.environ())
    try:
        _read_until(terminal, b"waiting")
        os.write(terminal, b"\x03")
        _read_until(terminal, b"^C")
        os.write(terminal, b"go\n")
        _read_until(terminal, b"interrupts 1 True")
        _read_until(terminal, b"0 attaches recorded")
    finally:
        _, status = os.waitpid(pid, 0)
        os.close(terminal)
    assert os.waitstatus_to_exitcode(status) == 0


def _read_until(terminal: int, wanted: bytes) -> bytes:
    found = b""
    while wanted not in found:
        found += os.read(terminal, 4096)
    return found


# --- readiness --------------------------------------------------------------------------------------------------------------------

SERVE = (
    LOAD
    + """
import http.server
http.server.HTTPServer(("127.0.0.1", int(sys.argv[2])), http.server.SimpleHTTPRequestHandler).serve_forever()
"""
)


@pytest.mark.parametrize("by_url", [True, False])
def test_the_receipt_is_there_when_the_server_is_ready(execute: Exec, place: Place, tmp_path: Path, by_url: bool) -> None:
    execute.daemon.load(place.path)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    options = ("--ready-url", f"http://127.0.0.1:{port}/") if by_url else ()
    line = execute.command(sys.executable, "-c", SERVE, str(place.path), port, options=options)
    with subprocess.Popen(line, env=execute.environ(), cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            wait_until(execute.output.exists, 60)
            found = execute.receipt()
            assert (found["ready"], found["complete"], found["exit_status"]) == (True, True, None)
            assert found["attaches"][0]["mode"] == "zero_copy"
            assert sum(one.leases for one in execute.daemon.status().residencies) >= 1
        finally:
            process.terminate()
            _, err = process.communicate(timeout=30)
    assert process.returncode == 128 + signal.SIGTERM
    assert err.count("ranks mapped") == 1, "what has not changed since is not said twice"
    assert execute.receipt()["exit_status"] == 128 + signal.SIGTERM
