"""`/health` and `/metrics`: what probes and Prometheus are told, and that asking costs nobody else anything."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support.attaching import attach
from support.corpus import make_checkpoint
from support.daemon import DaemonProcess, links_of, wait_until, zeros_shard
from support.probes import fetch, health_of, metrics_of

from wcache.core.model.vocabulary import Outcome, Reason, Tier
from wcache.core.settings import load_settings
from wcache.core.wire.messages import LoadRequest, ReleaseRequest
from wcache.daemon.health import HealthServer
from wcache.daemon.http import bind
from wcache.daemon.loop import Loop
from wcache.daemon.metrics import METRICS
from wcache.ledger.audit import Audit

ROOT = Path(__file__).resolve().parents[2]


def release(daemon: DaemonProcess, residency: str) -> None:
    channel = daemon.connect()
    channel.call(ReleaseRequest(residency=residency))
    channel.close()


def test_without_an_expectation_a_daemon_that_serves_is_healthy(watched: DaemonProcess, checkpoint: Path) -> None:
    assert health_of(watched)[0] == 200
    loaded = watched.load(checkpoint)
    status, body = health_of(watched)
    assert (status, body["status"], body["why"], body["state"]) == (200, "ok", [], "ready")
    (residency,) = body["residencies"]
    assert (residency["residency"], residency["state"]) == (loaded.residency.residency, "resident")
    assert fetch(watched.status().health_port, "/")[0] == 404


def test_a_daemon_without_a_health_port_listens_on_no_port(daemon: DaemonProcess) -> None:
    assert daemon.status().health_port is None
    listening = {f"socket:[{line.split()[9]}]" for line in Path(f"/proc/{daemon.pid}/net/tcp").read_text().splitlines()[1:]}
    assert not listening.intersection(links_of(daemon.pid))


def test_it_is_healthy_only_while_every_expected_checkpoint_can_be_served(disk: Path, checkpoint: Path, twin: Path) -> None:
    """503 before, 200 while, 503 after; an expected checkpoint may be named by another spelling than it was loaded by."""
    link = disk / "by-another-name"
    link.symlink_to(twin)
    process = DaemonProcess(environ={"WCACHE_HEALTH_PORT": "0", "WCACHE_EXPECT": f"{checkpoint}:{link}"})
    try:
        daemon = process.start()
        status, body = health_of(daemon)
        assert status == 503
        assert body["why"] == [f"{one}: it is not resident, and nobody loads it" for one in (checkpoint, link)]
        daemon.load(checkpoint)
        status, body = health_of(daemon)
        assert (status, [one["served"] for one in body["expected"]]) == (503, [True, False])
        loaded = daemon.load(twin)
        wait_until(lambda: health_of(daemon)[0] == 200)
        metrics = metrics_of(daemon)
        assert metrics["wcache_healthy"] == metrics[f'wcache_expected_served{{checkpoint="{link}"}}'] == 1
        release(daemon, loaded.residency.residency)
        wait_until(lambda: health_of(daemon)[0] == 503)
        assert health_of(daemon)[1]["why"] == [f"{link}: it is not resident, and nobody loads it"]
    finally:
        process.cleanup()
        link.unlink()


def test_a_load_in_progress_is_told_with_its_phase_and_progress(tmp_path: Path) -> None:
    """D10: a fresh file settles first, which gives the probe its time."""
    shard = zeros_shard(tmp_path / "big" / "model.safetensors", 300 << 20)
    process = DaemonProcess(environ={"WCACHE_HEALTH_PORT": "0", "WCACHE_EXPECT": str(shard.parent)})
    try:
        daemon = process.start()
        channel = daemon.connect()
        channel.send(LoadRequest(spelling=str(shard.parent)))
        seen: list[tuple[str, int]] = []

        def loading() -> bool:
            status, body = health_of(daemon)
            (one,) = body["expected"]
            if one["phase"] and one["total_bytes"]:
                seen.append((one["phase"], one["done_bytes"]))
                assert one["total_bytes"] >= 300 << 20
                assert one["served"] is False and "it is loading, " in one["why"]
            return status == 200

        wait_until(loading)
        assert {phase for phase, _ in seen} & {"settle", "read"}
        channel.close()
    finally:
        process.cleanup()


def test_a_server_that_does_not_answer_its_own_thread_is_not_healthy(tmp_path: Path) -> None:
    settings = load_settings({"WCACHE_CONFIG": "", "HOME": str(tmp_path)}, runtime_dir=str(tmp_path), health_port=0)
    stuck: Any = SimpleNamespace(loop=Loop(), settings=settings, recorder=None)  # a loop that nobody runs
    health = HealthServer(stuck, 0)
    health.start()
    try:
        status, body = fetch(health.port, "/health")
        assert status == 503 and "has not answered" in json.loads(body)["why"][0]
        assert fetch(health.port, "/metrics")[0] == 503
    finally:
        health.stop()


def test_a_port_that_is_taken_ends_the_start_in_one_line() -> None:
    with bind(0) as taken:
        process = DaemonProcess(environ={"WCACHE_HEALTH_PORT": str(taken.getsockname()[1])})
        try:
            with pytest.raises(AssertionError, match="choose another --health-port"):
                process.start()
        finally:
            process.cleanup()


def test_every_metric_with_every_label_value_is_there_from_the_start(watched: DaemonProcess) -> None:
    metrics = metrics_of(watched)
    for reason in Reason:
        for decision in ("strict_miss", "fallback"):
            assert metrics[f'wcache_decisions_total{{decision="{decision}",reason="{reason}"}}'] == 0
    for tier in Tier:
        assert metrics[f'wcache_hits_total{{tier="{tier}"}}'] == 0
    told = {sample.partition("{")[0] for sample in metrics}
    only_with_a_subject = {name for name, about in METRICS.items() if {"residency", "checkpoint"} & set(about.labels)}
    assert set(METRICS) - told == only_with_a_subject
    assert told <= set(METRICS)


def test_the_counters_are_what_the_audit_says_and_go_on_after_a_restart(watched: DaemonProcess, checkpoint: Path, twin: Path) -> None:
    watched.load(checkpoint)
    for path in (checkpoint, checkpoint, twin):
        attach(watched.settings.socket_path, path).close()
    wait_until(lambda: not watched.status().leases)

    def said(metrics: dict[str, float]) -> dict[str, float]:
        return {name: value for name, value in metrics.items() if name.partition("{")[0].endswith("_total") and value}

    before = said(metrics_of(watched))
    assert before['wcache_decisions_total{decision="hit",reason=""}'] == before['wcache_hits_total{tier="pinned"}'] == 2
    assert before['wcache_loads_total{result="completed"}'] == 1
    with Audit(watched.settings.ledger) as audit:
        summary = audit.summary()
    misses = {reason: number for reason, number in summary["reasons"].items() if reason}
    counted = {
        match[1]: value
        for name, value in before.items()
        if (match := re.match(r'wcache_decisions_total\{decision="(?:fallback|strict_miss)",reason="(.+)"\}', name))
    }
    assert counted == misses
    watched.stop()
    watched.start()
    after = said(metrics_of(watched))
    after.pop("wcache_residencies_lost_total")  # the stop said so
    assert after == before


def test_a_server_that_died_is_replaced_on_the_same_port_with_the_same_counters(checkpoint: Path) -> None:
    with bind(0) as free:
        port = free.getsockname()[1]
    process = DaemonProcess(environ={"WCACHE_HEALTH_PORT": str(port), "WCACHE_EXPECT": str(checkpoint)})
    try:
        daemon = process.start()
        daemon.load(checkpoint)
        attach(daemon.settings.socket_path, checkpoint).close()
        wait_until(lambda: not daemon.status().leases)
        before = metrics_of(daemon)['wcache_decisions_total{decision="hit",reason=""}']
        os.kill(daemon.pid, signal.SIGKILL)
        assert health_of(daemon)[0] == 200  # whoever connects waits for the next server
        after = metrics_of(daemon)
        assert after['wcache_decisions_total{decision="hit",reason=""}'] == before == 1
        assert after["wcache_residencies_readopted_total"] == 1 and after["wcache_residencies_lost_total"] == 0
    finally:
        process.cleanup()


def test_resident_weights_leases_and_idle_bytes_are_told(watched: DaemonProcess, checkpoint: Path) -> None:
    loaded = watched.load(checkpoint).residency
    attached = attach(watched.settings.socket_path, checkpoint)
    metrics = metrics_of(watched)
    assert metrics["wcache_resident_bytes"] == loaded.bytes and metrics["wcache_idle_bytes"] == 0
    assert metrics["wcache_leases"] == 1 and metrics['wcache_residencies{state="resident"}'] == 1
    assert metrics["wcache_ledger_up"] == metrics["wcache_ledger_readable"] == 1
    assert metrics["wcache_ledger_head_seq"] == watched.status().ledger_seq
    assert 0 < metrics["wcache_ledger_commit_seconds"] < 10
    attached.close()
    wait_until(lambda: metrics_of(watched)["wcache_idle_bytes"] == loaded.bytes)


FLOOD = r"""
import socket, sys
while True:
    with socket.create_connection(("127.0.0.1", int(sys.argv[1]))) as sock:
        sock.sendall(b"GET /metrics HTTP/1.1\r\n\r\n")
"""


def test_idle_slow_and_flooding_http_clients_do_not_delay_an_attach(watched: DaemonProcess, checkpoint: Path) -> None:
    watched.load(checkpoint)
    port = watched.status().health_port
    assert port is not None
    with ExitStack() as opened:
        for number in range(100):
            sock = opened.enter_context(socket.create_connection(("127.0.0.1", port), timeout=5))
            sock.sendall(b"GET /metrics HTTP/1.1\r\n\r\n"[: number % 27])
        flooding = subprocess.Popen([sys.executable, "-c", FLOOD, str(port)], stderr=subprocess.DEVNULL)
        opened.callback(flooding.wait)
        opened.callback(flooding.kill)
        for _ in range(5):
            began_s = time.monotonic()
            attached = attach(watched.settings.socket_path, checkpoint)
            assert attached.decided.decision.outcome is Outcome.HIT
            assert time.monotonic() - began_s < 20  # waiting for each of them in turn would take minutes
            attached.close()
    wait_until(lambda: health_of(watched)[0] == 200)


def test_the_command_line_hands_port_and_expectations_on(short_path: Path, tmp_path: Path) -> None:
    """`wcache daemon start --health-port 0 --expect RELATIVE`, in the background."""
    make_checkpoint(tmp_path / "model")
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("WCACHE_", "XDG_"))}
    places = {"WCACHE_RUNTIME_DIR": str(short_path / "run"), "WCACHE_STATE_DIR": str(short_path / "state"), "HOME": str(short_path)}

    def wcache(*arguments: str) -> dict[str, Any]:
        command = [sys.executable, "-m", "wcache.cli", *arguments, "--json"]
        done = subprocess.run(command, capture_output=True, text=True, env=environ | places, cwd=tmp_path, timeout=60)
        assert done.returncode == 0, done.stderr
        document: dict[str, Any] = json.loads(done.stdout)
        return document

    wcache("daemon", "start", "--health-port", "0", "--expect", "model")
    try:
        port = wcache("status")["health_port"]
        assert f"{tmp_path}/model: it is not resident" in fetch(port, "/health")[1]
        wcache("load", "model")
        assert fetch(port, "/health")[0] == 200
    finally:
        wcache("daemon", "stop")


def test_the_dashboard_asks_only_for_metrics_that_there_are() -> None:
    dashboard = json.loads((ROOT / "deploy" / "grafana" / "wcache.json").read_text(encoding="utf-8"))
    asked = [target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", ())]
    asked += [variable["query"] for variable in dashboard["templating"]["list"] if isinstance(variable["query"], str)]
    names = {name for query in asked for name in re.findall(r"wcache_\w+", query)}
    assert asked and names <= set(METRICS), names - set(METRICS)
    identifiers = [panel["id"] for panel in dashboard["panels"]]
    assert len(identifiers) == len(set(identifiers))


def test_the_operations_page_names_only_metrics_that_there_are() -> None:
    text = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
    names = set(re.findall(r"wcache_\w+", text))
    assert names and names <= set(METRICS), names - set(METRICS)
