"""Asking a daemon's health port as a probe and as Prometheus would."""

from __future__ import annotations

import json
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

from prometheus_client.parser import text_string_to_metric_families
from support.daemon import DaemonProcess


def fetch(port: int | None, path: str) -> tuple[int, str]:
    try:
        with urlopen(f"http://127.0.0.1:{port}{path}", timeout=60) as answer:
            return answer.status, answer.read().decode()
    except HTTPError as error:
        return error.code, error.read().decode()


def health_of(daemon: DaemonProcess) -> tuple[int, dict[str, Any]]:
    status, body = fetch(daemon.status().health_port, "/health")
    return status, json.loads(body)


def metrics_of(daemon: DaemonProcess) -> dict[str, float]:
    """`name{label="value",...}` with its labels in order of their names -> value, as Prometheus' own parser reads it."""
    status, body = fetch(daemon.status().health_port, "/metrics")
    assert status == 200
    found = {}
    for family in text_string_to_metric_families(body):
        for sample in family.samples:
            labels = ",".join(f'{name}="{value}"' for name, value in sorted(sample.labels.items()))
            found[sample.name + (f"{{{labels}}}" if labels else "")] = sample.value
    return found
