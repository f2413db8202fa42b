"""Deployment files say what the code says: paths, ids, modes."""

from __future__ import annotations

import configparser
import os
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any
from unittest.mock import patch

import click
import pytest
import yaml

from wcache.core.settings import load_settings

DEPLOY = Path(__file__).resolve().parent.parent / "deploy"


@pytest.fixture(scope="module")
def defaults() -> tuple[str, str]:
    """The runtime and state directory of a daemon that the system runs."""
    with patch("os.geteuid", lambda: 0):
        settings = load_settings({"WCACHE_CONFIG": os.devnull})
    return str(settings.runtime_dir), str(settings.state_dir)


def _service() -> configparser.ConfigParser:
    unit = configparser.ConfigParser(interpolation=None, strict=False)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read(DEPLOY / "systemd" / "wcache.service")
    return unit


def _environment(text: str) -> dict[str, str]:
    return dict(pair.split("=", 1) for pair in shlex.split(text))


def test_the_unit_uses_the_systems_places(defaults: tuple[str, str]) -> None:
    service = _service()["Service"]
    found = _environment(service["Environment"])
    expanded = {name: value.replace("%t", "/run").replace("%S", "/var/lib") for name, value in found.items() if name != "FDSTORE"}
    assert (expanded["WCACHE_RUNTIME_DIR"], expanded["WCACHE_STATE_DIR"]) == defaults
    assert (f"/run/{service['RuntimeDirectory']}", f"/var/lib/{service['StateDirectory']}") == defaults
    assert (service["RuntimeDirectoryMode"], service["StateDirectoryMode"]) == ("0700", "0700")
    assert service["Type"] == "notify"
    assert service["ExecStart"].split()[1:] == ["daemon", "start", "--foreground"]


def test_the_daemon_knows_how_much_systemd_keeps_of_it() -> None:
    """What is stored beyond `FileDescriptorStoreMax=` would be lost without a word; systemd before 254 does not say the number itself."""
    service = _service()["Service"]
    assert _environment(service["Environment"])["FDSTORE"] == service["FileDescriptorStoreMax"]
    assert service.get("FileDescriptorStorePreserve", "restart") == "restart", "a stop is the end of what is resident"


def test_the_unit_does_not_forbid_what_the_daemon_needs() -> None:
    service = _service()["Service"]
    for option in ("PrivateUsers", "MemoryDenyWriteExecute", "PrivatePIDs", "PrivateNetwork"):
        assert option not in service, option
    assert service["ProtectHome"] == "read-only"
    assert "AF_UNIX" in service["RestrictAddressFamilies"]


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd-analyze")
def test_systemd_finds_nothing_wrong_with_the_unit(tmp_path: Path) -> None:
    """With a program that is there; the user is made at installation."""
    program = tmp_path / "wcache"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    text = (DEPLOY / "systemd" / "wcache.service").read_text().replace("/opt/wcache/bin/wcache", str(program))
    unit = tmp_path / "wcache.service"
    unit.write_text(text)
    drop_in = tmp_path / "wcache.service.d"
    drop_in.mkdir()
    shutil.copy(DEPLOY / "systemd" / "shared.conf", drop_in)
    done = subprocess.run(["systemd-analyze", "verify", "--man=no", str(unit)], capture_output=True, text=True, check=False)
    ours = [line for line in (done.stdout + done.stderr).splitlines() if "wcache" in line]
    assert (done.returncode, ours) == (0, []), done.stderr


def test_the_timer_runs_a_command_that_there_is_in_the_daemons_places() -> None:
    from wcache.cli.main import cli

    unit = configparser.ConfigParser(interpolation=None)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read(DEPLOY / "systemd" / "wcache-checkpoint.service")
    service, daemon = unit["Service"], _service()["Service"]
    assert _environment(service["Environment"]).items() <= _environment(daemon["Environment"]).items()
    assert (service["User"], service["Group"]) == (daemon["User"], daemon["Group"])
    program, *words = shlex.split(service["ExecStart"])
    assert program == daemon["ExecStart"].split()[0]
    context, command = click.Context(cli), cli
    for word in words[:2]:
        command = command.get_command(context, word)  # type: ignore[attr-defined]
    assert {word for word in words if word.startswith("--")} <= {name for option in command.params for name in option.opts}
    timer = configparser.ConfigParser(interpolation=None)
    timer.read(DEPLOY / "systemd" / "wcache-checkpoint.timer")
    assert timer["Install"]["WantedBy"] == "timers.target"


def test_sharing_the_unit_gives_its_directory_the_mode_of_shared_mode() -> None:
    from wcache.daemon.sharing import DIRECTORY_MODE, GROUP_VARIABLE

    drop_in = configparser.ConfigParser(interpolation=None)
    drop_in.optionxform = str  # type: ignore[assignment,method-assign]
    drop_in.read(DEPLOY / "systemd" / "shared.conf")
    service = drop_in["Service"]
    assert int(service["RuntimeDirectoryMode"], 8) == DIRECTORY_MODE
    assert _environment(service["Environment"]) == {GROUP_VARIABLE: service["SupplementaryGroups"]}


def _yaml(name: str) -> Any:
    return yaml.safe_load((DEPLOY / "kubernetes" / name).read_text())


def _pods() -> dict[str, Any]:
    return {"daemon": _yaml("daemonset.yaml")["spec"]["template"]["spec"], "engine": _yaml("engine-pod.yaml")["spec"]}


@pytest.mark.parametrize("name", ["daemon", "engine"])
def test_pods_share_the_systems_places_by_host_path(name: str, defaults: tuple[str, str]) -> None:
    pod = _pods()[name]
    (container,) = pod["containers"]
    env = {item["name"]: item["value"] for item in container["env"]}
    assert (env["WCACHE_RUNTIME_DIR"], env["WCACHE_STATE_DIR"]) == defaults
    host = {volume["name"]: volume["hostPath"]["path"] for volume in pod["volumes"]}
    mounted = {mount["mountPath"]: host[mount["name"]] for mount in container["volumeMounts"]}
    assert all(inside == outside for inside, outside in mounted.items()), "one path on both sides"
    assert set(defaults) < set(mounted)
    assert not {"hostPID", "hostIPC", "hostNetwork"} & set(pod)
    assert all("emptyDir" not in volume for volume in pod["volumes"])


def test_daemon_and_engine_are_the_same_user_and_see_the_same_models() -> None:
    pods = _pods()
    ids = {name: (pod["securityContext"]["runAsUser"], pod["securityContext"]["runAsGroup"]) for name, pod in pods.items()}
    assert ids["daemon"] == ids["engine"]
    command = pods["daemon"]["initContainers"][0]["command"]
    assert command[command.index("-o") + 1] == str(ids["daemon"][0])
    assert command[command.index("-m") + 1] == "0700"
    models = {name: [volume["hostPath"] for volume in pod["volumes"] if volume["name"] == "models"] for name, pod in pods.items()}
    assert models["daemon"] == models["engine"]


def test_the_daemon_set_selects_its_own_pods_and_is_not_rolled() -> None:
    spec = _yaml("daemonset.yaml")["spec"]
    assert spec["selector"]["matchLabels"] == spec["template"]["metadata"]["labels"]
    assert spec["updateStrategy"] == {"type": "OnDelete"}
    limits = spec["template"]["spec"]["containers"][0]["resources"]["limits"]
    assert "memory" in limits
