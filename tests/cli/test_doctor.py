"""Each problem that `wcache doctor` knows is provoked, and the line that says what to do is looked at."""

from __future__ import annotations

import json
import os
import resource
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from freezegun import freeze_time
from support import history
from support.corpus import make_checkpoint
from support.daemon import DaemonProcess

from wcache.cli.checks import Finding, examine
from wcache.core.checkpoint.identity import filesystem_kind
from wcache.core.checkpoint.seed import load_or_create_seed
from wcache.core.model.vocabulary import Outcome
from wcache.core.settings import Settings, load_settings
from wcache.ledger.journal import Journal
from wcache.ledger.store import Ledger, NewEvent

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root to mount")


@pytest.fixture
def settings(short_path: Path, disk_path: Path) -> Settings:
    run = short_path / "run"
    run.mkdir(mode=0o700)
    return load_settings({"WCACHE_CONFIG": os.devnull, "HOME": str(short_path)}, runtime_dir=str(run), state_dir=str(disk_path / "state"))


def about(check: str, settings: Settings, **more: object) -> Finding:
    """The worst finding of that name."""
    found = [one for one in examine(settings, **more) if one.check == check]  # type: ignore[arg-type]
    assert found, check
    return max(found, key=lambda one: ("ok", "warn", "fail").index(one.state))


def told(finding: Finding, state: str, found: str, remedy: str) -> None:
    assert finding.state == state, finding
    assert found in finding.found, finding
    assert remedy in finding.remedy, finding


def test_every_problem_has_a_remedy_and_a_good_machine_has_none(settings: Settings) -> None:
    findings = examine(settings)
    assert [one for one in findings if one.state == "fail"] == []
    assert all(one.remedy for one in findings if one.state != "ok")
    assert {"python", "sqlite", "sealed memfd", "peer pidfd", "statx", "open files", "memory", "clock", "daemon", "journal"} <= {
        one.check for one in findings
    }


def test_an_old_sqlite(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite3, "sqlite_version_info", (3, 36, 0))
    told(about("sqlite", settings), "fail", "STRICT", "SQLite 3.37.0 or newer")


def test_a_kernel_or_sandbox_without_what_is_needed(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> int:
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr(os, "memfd_create", refused)
    monkeypatch.setattr("wcache.cli.host_checks._SO_PEERPIDFD", 9999)
    monkeypatch.setattr("wcache.core.wire.peer._SO_PEERGROUPS", 9999)
    monkeypatch.setattr("wcache.core.checkpoint.identity._statx_call", lambda: None)
    told(about("sealed memfd", settings), "fail", "not implemented", "Linux 3.17")
    told(about("peer pidfd", settings), "warn", "Linux 6.5", "nothing has to be done")
    told(about("peer groups", settings), "warn", "SO_PEERGROUPS", "without --shared")
    told(about("statx", settings), "warn", "statx", "network_fs = refuse")


def test_a_low_limit_of_open_files(settings: Settings) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "wcache.cli", "doctor", "--json", "--runtime-dir", str(settings.runtime_dir)],
        env={**os.environ, "WCACHE_STATE_DIR": str(settings.state_dir)},
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256)),
        capture_output=True,
        text=True,
        check=True,
    )
    rows = {row["check"]: row for row in json.loads(done.stdout)["checks"]}
    assert rows["open files"]["state"] == rows["descriptors in flight"]["state"] == "warn"
    assert "LimitNOFILE=" in rows["open files"]["remedy"]
    assert "ETOOMANYREFS" in rows["descriptors in flight"]["found"]


def test_little_memory(settings: Settings, tmp_path: Path) -> None:
    group = tmp_path / "sys/fs/cgroup/box"
    group.mkdir(parents=True)
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/cgroup").write_text("0::/box\n")
    for name, text in (("memory.max", "536870912"), ("memory.current", "0"), ("memory.stat", "inactive_file 0\n")):
        (group / name).write_text(text)
    (tmp_path / "proc/meminfo").write_text("MemAvailable: 99999999 kB\n")
    told(about("memory", settings, root=tmp_path), "warn", "cgroup/box", "limit of this control group")
    (tmp_path / "proc/meminfo").write_text("MemAvailable: 200000 kB\n")
    told(about("memory", settings, root=tmp_path), "warn", "by MemAvailable", "release weights")


def test_a_clock_that_is_wrong(settings: Settings) -> None:
    with freeze_time("1999-12-31"):
        told(about("clock", settings), "fail", "1999-12-31", "set the clock right")
    with freeze_time("2099-01-01"), Ledger.open(settings.ledger) as ledger:
        ledger.append_batch([(NewEvent(event=history.decided("a-1", Outcome.FALLBACK)),)])
    told(about("ledger's clock", settings), "warn", "in the future", "set the clock right")


def test_directories_that_are_not_private(settings: Settings) -> None:
    run = settings.runtime_dir
    run.chmod(0o750)
    told(about("runtime directory", settings), "fail", "mode 0750 lets others in", f"chmod 700 {run} (or start the daemon with --shared)")
    run.chmod(0o777)
    told(about("runtime directory", settings), "fail", "mode 0777 lets others in", f"chmod 700 {run}")
    run.rmdir()
    run.touch()
    told(about("runtime directory", settings), "fail", "is no directory", "set WCACHE_RUNTIME_DIR to a directory")


@as_root
def test_a_directory_of_another_user(settings: Settings) -> None:
    os.chown(settings.runtime_dir, 12345, 12345)
    told(about("runtime directory", settings), "fail", "belongs to uid 12345", "run as that user")


def test_files_that_others_may_read_or_write(settings: Settings) -> None:
    Ledger.open(settings.ledger).close()
    seed = load_or_create_seed(settings.state_dir)
    settings.ledger.chmod(0o666)
    told(about("ledger's permissions", settings), "fail", "lets others write it", f"chmod 600 {settings.ledger}")
    path = settings.state_dir / "seeds" / f"seed-{seed.id}.key"
    path.chmod(0o644)
    told(about("seed's permissions", settings), "fail", "where samples are taken", f"delete {path}")


def test_a_device_is_never_to_be_changed(settings: Settings) -> None:
    """Who wants no record may name /dev/null: what others may write there is as it must be."""
    nowhere = load_settings({"WCACHE_CONFIG": os.devnull}, runtime_dir=os.devnull, state_dir=settings.state_dir, ledger=os.devnull)
    told(about("ledger's permissions", nowhere), "fail", "/dev/null: this is no regular file", "name a file by WCACHE_LEDGER")
    told(about("runtime directory", nowhere), "fail", "is no directory", "set WCACHE_RUNTIME_DIR to a directory")


def test_a_group_that_is_not_there(settings: Settings) -> None:
    shared = load_settings(
        {"WCACHE_CONFIG": os.devnull},
        runtime_dir=str(settings.runtime_dir),
        state_dir=str(settings.state_dir),
        shared_group="no-such-group",
    )
    told(about("group", shared), "fail", "no group 'no-such-group'", "groupadd")


def test_a_socket_path_that_is_too_long(settings: Settings) -> None:
    command = [sys.executable, "-m", "wcache.cli", "doctor", "--json", "--runtime-dir", "/tmp/" + "d" * 110]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    (row,) = json.loads(done.stdout)["checks"]
    assert (done.returncode, row["check"], row["state"]) == (1, "settings", "fail")
    assert "107" in row["found"] and "WCACHE_RUNTIME_DIR" in row["remedy"]


def test_a_ledger_on_a_network_file_system(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wcache.ledger.database.filesystem_kind", lambda directory: "nfs")
    told(about("file systems", settings), "fail", "nfs", "WCACHE_LEDGER")


@pytest.mark.skipif(not Path("/dev/shm").is_dir() or filesystem_kind("/dev/shm") != "tmpfs", reason="no tmpfs")
def test_state_and_checkpoint_in_memory(settings: Settings, tmp_path_factory: pytest.TempPathFactory) -> None:
    import tempfile

    with tempfile.TemporaryDirectory(dir="/dev/shm") as place:
        told_of = load_settings({"WCACHE_CONFIG": os.devnull}, runtime_dir=str(settings.runtime_dir), state_dir=f"{place}/state")
        told(about("state's file system", told_of), "warn", "tmpfs", "WCACHE_STATE_DIR")
        checkpoint = make_checkpoint(Path(place) / "model")
        told(about("checkpoint's file system", settings, checkpoint=str(checkpoint)), "warn", "tmpfs", "keep it on a disk")


def test_a_checkpoint(settings: Settings, disk_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checkpoint = make_checkpoint(disk_path / "model", shards=3)
    told(about("checkpoint", settings, checkpoint=str(checkpoint)), "ok", "3 shards", "")
    told(about("checkpoint's file system", settings, checkpoint=str(checkpoint)), "ok", "until a file changes", "")
    monkeypatch.setattr("wcache.core.checkpoint.checkpoint.kind_of_devices", lambda devices: "nfs")
    told(about("checkpoint's file system", settings, checkpoint=str(checkpoint)), "warn", "nfs", "--store")
    told(about("checkpoint", settings, checkpoint=str(disk_path / "none")), "fail", "no such file", "")


@pytest.fixture
def mount(short_path: Path) -> Iterator[Callable[..., Path]]:
    """A tmpfs of a size, below the state directory's place."""
    place = short_path / "mount"
    place.mkdir()

    def make(*options: str) -> Path:
        subprocess.run(["mount", "-t", "tmpfs", "-o", ",".join(options), "none", str(place)], check=True)
        return place

    try:
        yield make
    finally:
        subprocess.run(["umount", str(place)], check=False, capture_output=True)


@as_root
def test_a_disk_that_is_nearly_full_or_read_only(settings: Settings, mount: Callable[..., Path]) -> None:
    place = mount("size=2m")
    there = load_settings({"WCACHE_CONFIG": os.devnull}, runtime_dir=str(settings.runtime_dir), state_dir=str(place / "state"))
    told(about("ledger's disk", there), "warn", "MiB free", "free space at")
    subprocess.run(["mount", "-o", "remount,ro", str(place)], check=True)
    told(about("ledger's disk", there), "fail", "read-only", "WCACHE_LEDGER")
    told(about("state directory", there), "fail", "may not be written", "WCACHE_STATE_DIR")


def test_no_daemon_a_stale_socket_and_one_that_does_not_answer(settings: Settings) -> None:
    told(about("daemon", settings), "warn", "daemon_absent", "wcache daemon start")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(settings.socket_path))
        listener.listen()
        told(about("daemon", settings), "fail", "daemon_silent", "")
        lock = settings.runtime_dir / "daemon.lock"
        with holding(lock) as pid:
            told(about("daemon", settings), "fail", f"pid {pid} holds its lock", f"kill -CONT {pid}")
    told(about("daemon", settings), "fail", "stale socket", "it takes the socket away")
    settings.socket_path.unlink()
    with holding(lock) as pid:
        told(about("daemon", settings), "fail", "its socket is gone", f"end pid {pid}")


class holding:
    """Another process that holds flock(2) of a file."""

    def __init__(self, path: Path) -> None:
        code = "import fcntl, sys; f = open(sys.argv[1], 'a'); fcntl.flock(f, fcntl.LOCK_EX); print(flush=True); input()"
        self._process = subprocess.Popen([sys.executable, "-c", code, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def __enter__(self) -> int:
        assert self._process.stdout is not None
        self._process.stdout.readline()
        return self._process.pid

    def __exit__(self, *_: object) -> None:
        self._process.communicate(b"\n", timeout=60)


def test_a_ledger_that_somebody_has_locked(settings: Settings) -> None:
    Ledger.open(settings.ledger).close()
    with holding(settings.ledger.with_name(settings.ledger.name + ".lock")) as pid:
        told(about("ledger's lock", settings), "fail", f"pid {pid}", "kill -CONT")
    told(about("ledger's lock", settings), "ok", "is free", "")


def test_a_journal_that_waits(settings: Settings) -> None:
    Journal(settings.runtime_dir / "journal.jsonl").write((NewEvent(event=history.decided("a-1", Outcome.FALLBACK)),))
    told(about("journal", settings), "warn", "1 decisions wait", "make the ledger writable again")
    member = load_settings(
        {"WCACHE_CONFIG": os.devnull},
        runtime_dir=str(settings.runtime_dir),
        state_dir=str(settings.state_dir),
        daemon_uid=os.geteuid() + 1,
    )
    Journal(settings.state_dir / "journal.jsonl").write((NewEvent(event=history.decided("a-2", Outcome.FALLBACK)),))
    told(about("journal", member), "warn", "are in no ledger", f"give the file to uid {os.geteuid() + 1}")


def test_a_daemon_that_answers_with_its_vault_and_another_ledger(daemon: DaemonProcess, short_path: Path) -> None:
    places = {"runtime_dir": str(daemon.settings.runtime_dir), "state_dir": str(daemon.settings.state_dir)}
    found = load_settings({"WCACHE_CONFIG": os.devnull}, **places)
    told(about("daemon", found), "ok", f"pid {daemon.pid}", "")
    told(about("vault", found), "ok", f"pid {daemon.vault_pid}", "")
    other = load_settings({"WCACHE_CONFIG": os.devnull}, ledger=str(short_path / "other.sqlite"), **places)
    told(about("daemon's ledger", other), "warn", str(daemon.settings.ledger), f"use --ledger {daemon.settings.ledger}")
