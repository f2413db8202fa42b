"""No usable daemon: each cause has its own reason, the weights come from disk, and the ledger says so (CASES A1, A2)."""

from __future__ import annotations

import logging
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest
import safetensors.torch
import torch
from support.corpus import make_checkpoint
from support.ledgers import Record

from wcache.core.model.errors import StrictMiss, UsageError
from wcache.core.model.events import AttachDecided, FallbackCompleted, FallbackFailed, MapCompleted
from wcache.core.settings import Settings
from wcache.core.wire.frames import encode_frame
from wcache.core.wire.messages import Welcome, encode
from wcache.ledger.journal import Journal
from wcache.loader import load_file, safe_open
from wcache.loader.attach import Attachment, attach, settle_reports


@contextmanager
def fake_server(settings: Settings, behave: Callable[[socket.socket], None]) -> Iterator[None]:
    """Something that listens on the daemon's socket and treats each connection like this."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(str(settings.socket_path))
        listener.listen(8)
        stop = threading.Event()
        held: list[socket.socket] = []

        def serve() -> None:
            while not stop.is_set():
                connection, _ = listener.accept()
                held.append(connection)
                with suppress(BrokenPipeError):  # the loader gave up first
                    behave(connection)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield
        stop.set()
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as last:
            last.connect(str(settings.socket_path))
        thread.join()
        for connection in held:
            connection.close()


def _half_a_frame(connection: socket.socket) -> None:
    connection.sendall(b"\0\0\0\x40half")
    connection.close()


def _garbage(connection: socket.socket) -> None:
    connection.sendall(encode_frame(b"HTTP/1.1 400 Bad Request"))


def _other_version(connection: socket.socket) -> None:
    welcome = Welcome(protocol=99, version="9.9", instance="d-x", server_pid=1, ledger="")
    connection.sendall(encode_frame(encode(welcome)))


def _silent(connection: socket.socket) -> None:
    return


def _polite_then_silent(connection: socket.socket) -> None:
    welcome = Welcome(protocol=1, version="0", instance="d-x", server_pid=1, ledger="")
    connection.sendall(encode_frame(encode(welcome)))


SERVERS = {
    "daemon_silent": _silent,
    "daemon_closed": _half_a_frame,
    "protocol_error": _garbage,
    "version_mismatch": _other_version,
}


@contextmanager
def cause(reason: str, settings: Settings) -> Iterator[None]:
    if reason == "daemon_absent":
        yield
    elif reason == "daemon_refused":
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as dead:
            dead.bind(str(settings.socket_path))
        yield
    elif reason == "daemon_timeout":
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as busy, socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as first:
            busy.bind(str(settings.socket_path))
            busy.listen(0)
            first.connect(str(settings.socket_path))
            yield
    else:
        with fake_server(settings, SERVERS[reason]):
            yield


REASONS = ("daemon_absent", "daemon_refused", "daemon_timeout", *SERVERS)


@pytest.mark.parametrize("reason", REASONS)
def test_every_way_to_have_no_daemon_has_its_own_reason_and_the_disk_is_read(
    reason: str, settings: Settings, record: Record, disk_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A1."""
    path = make_checkpoint(disk_path / "m") / "model.safetensors"
    with cause(reason, settings), caplog.at_level(logging.INFO, "wcache"):
        found = load_file(path, settings=settings)
    expected = safetensors.torch.load_file(path)
    assert found.keys() == expected.keys()
    assert all(torch.equal(found[name].view(torch.uint8) if found[name].ndim else found[name], _same(expected[name])) for name in found)
    decided = record.last(AttachDecided)
    assert decided.reason == reason and decided.outcome == "fallback" and decided.decided_by == "loader"
    assert decided.asked.spelling == str(path) and decided.asked.root == str(path.parent)
    completed = record.last(FallbackCompleted)
    assert completed.attach == decided.attach and completed.bytes == sum(tensor.nbytes for tensor in expected.values())
    lines = [entry.getMessage() for entry in caplog.records if entry.name == "wcache"]
    assert len(lines) == 1
    assert lines[0].startswith(f"Weight cache unusable ({reason}); falling back to disk loading rank=0 tier=- seq=1")


def _same(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.view(torch.uint8) if tensor.ndim else tensor


@pytest.mark.parametrize("reason", ["daemon_absent", "daemon_refused", "version_mismatch"])
def test_strict_refuses_to_start_and_records_it(reason: str, settings: Settings, record: Record, disk_path: Path) -> None:
    path = make_checkpoint(disk_path / "m") / "model.safetensors"
    with cause(reason, settings), pytest.raises(StrictMiss) as caught:
        load_file(path, settings=settings, on_miss="strict")
    assert caught.value.reason == reason and caught.value.exit_code == 10 and caught.value.seq == 1
    assert record.last(AttachDecided).outcome == "strict_miss"
    assert not record.of(FallbackCompleted)


def test_a_daemon_that_falls_silent_after_the_handshake_is_a_timeout(
    settings: Settings, record: Record, disk_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("wcache.core.wire.channel.Channel.call.__kwdefaults__", {"timeout_s": 0.2, "on_progress": None})
    path = make_checkpoint(disk_path / "m") / "model.safetensors"
    with fake_server(settings, _polite_then_silent):
        load_file(path, settings=settings)
    assert record.last(AttachDecided).reason == "daemon_timeout"


def test_a_fallback_that_fails_is_recorded_and_raises_what_the_reference_raises(
    settings: Settings, record: Record, disk_path: Path
) -> None:
    with pytest.raises(FileNotFoundError):
        load_file(disk_path / "nowhere.safetensors", settings=settings)
    (disk_path / "bad.safetensors").write_bytes(b"\0" * 64)
    with pytest.raises(safetensors.SafetensorError):
        safe_open(disk_path / "bad.safetensors", "pt", settings=settings)
    assert [event.code for event in record.of(FallbackFailed)] == ["FileNotFoundError", "SafetensorError"]
    assert not record.of(FallbackCompleted)


def test_a_fallback_counts_what_was_read_even_through_slices_and_without_a_with(
    settings: Settings, record: Record, disk_path: Path
) -> None:
    path = make_checkpoint(disk_path / "m") / "model.safetensors"
    file = safe_open(path, "np", settings=settings)
    part = file.get_slice("model.rope.freqs")[:2]
    assert part.shape == (2, 32) and file.get_slice("model.rope.freqs").get_shape() == [32, 32]
    del file
    assert record.last(FallbackCompleted).bytes == part.nbytes


def test_a_decision_that_the_ledger_cannot_take_goes_to_the_journal(settings: Settings, disk_path: Path) -> None:
    """L2 on the loader's side: nothing is lost, nothing stands in the engine's way."""
    path = make_checkpoint(disk_path / "m") / "model.safetensors"
    settings.state_dir.write_text("a file where the state directory should be")
    load_file(path, settings=settings)
    assert Journal(settings.runtime_dir / "journal.jsonl").pending() == 2


def test_unknown_settings_are_refused_by_name(settings: Settings, disk_path: Path) -> None:
    with pytest.raises(UsageError, match="akzept"):
        attach(disk_path, settings=settings, akzept="header")
    with pytest.raises(UsageError, match="policy"):
        attach(disk_path, settings=settings, accept="nothing")


def test_overrides_replace_single_settings_and_none_leaves_them(settings: Settings, disk_path: Path) -> None:
    found = attach(disk_path, settings=settings, accept="header", on_miss=None)
    expected = msgspec.structs.replace(settings.policy, accept="header")
    assert found.settings.policy == expected and found.settings.runtime_dir == settings.runtime_dir
    found.close()


def test_importing_the_loader_imports_no_torch() -> None:
    heavy = "{'torch', 'transformers', 'sqlalchemy'}"
    code = f"import sys, wcache.loader, wcache.loader.attach, wcache.loader.check; print({heavy} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def _mapped_while_the_daemon_hangs(host: Any, place: Path) -> tuple[Attachment, dict[str, torch.Tensor]]:
    host.daemon.load(place)
    attachment = attach(place, settings=host.settings)
    os.kill(host.daemon.pid, signal.SIGSTOP)
    return attachment, attachment.tensors()


def test_a_map_is_on_record_although_the_daemon_died_before_it_said_so(host: Any, disk_path: Path) -> None:
    """CASES A1: the engine does not wait for the daemon's answer to `map.completed`; where none comes, it records that itself."""
    attachment, held = _mapped_while_the_daemon_hangs(host, make_checkpoint(disk_path / "m"))
    host.daemon.kill()
    assert host.record.last(MapCompleted).tensors == len(held)
    assert host.record.last(MapCompleted).attach == attachment.attach
    attachment.close()
    assert len(host.record.of(MapCompleted)) == 1


def test_a_map_is_on_record_once_however_the_daemon_goes_on(host: Any, disk_path: Path) -> None:
    """The daemon was only slow: both record the same event under the same id, which the ledger takes as one."""
    attachment, held = _mapped_while_the_daemon_hangs(host, make_checkpoint(disk_path / "m"))
    os.kill(host.daemon.pid, signal.SIGCONT)
    settle_reports()
    attachment.close()
    assert [event.tensors for event in host.record.of(MapCompleted)] == [len(held)]


def test_a_process_that_ends_leaves_its_map_on_record(host: Any, disk_path: Path) -> None:
    place = make_checkpoint(disk_path / "m")
    host.daemon.load(place)
    code = f"from wcache.loader.attach import attach; kept = attach({str(place)!r}, on_miss='strict'); held = kept.tensors()"
    subprocess.run([sys.executable, "-c", code], env=host.daemon.env, check=True)
    assert len(host.record.of(MapCompleted)) == 1
