"""Tests for the agent's process: start, health, files, exit codes."""

from __future__ import annotations

import json
import os
import socket
import ssl
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from nodeagent.base.extras import MODULES
from tests.integration.programs import IMAGE, NodeAgent, free_port, simple_pod, wait_until
from tests.integration.test_extras import BLOCKER


@pytest.fixture
def agent(containerd, tmp_path: Path) -> Iterator[NodeAgent]:
    """Agent without an API server."""
    started = NodeAgent(tmp_path, containerd.endpoint)
    yield started
    started.kill()
    containerd.remove_pods()


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "nodeagent", *arguments], capture_output=True, text=True, timeout=60, check=False
    )


@pytest.mark.row("path.agent.healthz", "config.healthzPort", "config.healthzBindAddress")
def test_only_the_configured_health_port_is_served(agent: NodeAgent) -> None:
    address = "127.0.0.2"
    agent.begin(healthzBindAddress=address)

    wait_until(lambda: _get(address, agent.health_port, "/healthz") == (200, "ok"), "health is good")

    assert _get(address, agent.health_port, "/healthz/ping")[0] == 200
    for path in ("/", "/metrics", "/debug/pprof/", "/pods", "/configz"):
        assert _get(address, agent.health_port, path)[0] == 404
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", agent.health_port)) != 0


def test_agent_runs_static_pod_without_extras(
    agent: NodeAgent, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = {module.partition(".")[0] for modules in MODULES.values() for module in modules}
    (tmp_path / "sitecustomize.py").write_text(BLOCKER.format(names=names))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)

    agent.start()
    agent.write_pod(simple_pod("web", hostNetwork=True))

    wait_until(lambda: "Started container main" in agent.log.read_text(), "the pod runs")
    mapped = Path(f"/proc/{agent.pid}/maps").read_text()
    assert agent.stop() == 0
    assert "Traceback" not in agent.log.read_text()
    assert "/grpc/" in mapped
    assert not [library for library in ("aiohttp", "cryptography", "multidict") if f"/{library}/" in mapped]


@pytest.mark.row("config.healthzPort")
def test_health_port_zero_is_disabled(agent: NodeAgent) -> None:
    agent.begin(healthzPort=0)
    agent.write_pod(simple_pod("web", hostNetwork=True))
    wait_until(lambda: "Started container main" in agent.log.read_text(), "the agent works")

    assert not _listeners(agent.pid)


@pytest.mark.row("config.logging", "config.syncFrequency")
def test_log_format_and_sync_frequency_are_configurable(agent: NodeAgent) -> None:
    port = free_port()
    agent.begin(logging={"format": "json"}, syncFrequency="1s", readOnlyPort=port)
    agent.write_pod(simple_pod("web", hostNetwork=True))
    wait_until(lambda: "Started container main" in agent.log.read_text(), "the pod runs")

    seen = _synced(port)
    wait_until(lambda: _synced(port) >= seen + 3, "a pod where nothing happens is looked at again and again")

    agent.stop()
    assert all(json.loads(line)["ts"] for line in agent.log.read_text().splitlines())


def _synced(port: int) -> int:
    """Return the number of syncs of running pods."""
    _, text = _get("127.0.0.1", port, "/metrics")
    name = 'kubelet_pod_worker_duration_seconds_count{operation_type="sync"} '
    return sum(int(float(line.removeprefix(name))) for line in text.splitlines() if line.startswith(name))


@pytest.mark.row("flag.cert-dir")
def test_self_signed_certificate_is_stored_in_its_directory(agent: NodeAgent) -> None:
    agent.start()
    directory = agent.directory / "pki"
    certificate, key = directory / "kubelet.crt", directory / "kubelet.key"

    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key)
    before = certificate.read_bytes()
    assert agent.stop() == 0
    agent.start()
    assert certificate.read_bytes() == before


@pytest.mark.row("config.runOnce")
def test_run_once_runs_the_pods_and_leaves_them_running(agent: NodeAgent, containerd) -> None:
    agent.write_pod(simple_pod("once"))

    agent.begin(runOnce=True)

    assert agent.process is not None
    assert agent.process.wait(30) == 0, agent.tail()
    assert len(containerd.ctr("tasks", "ls", "-q").split()) == 2  # The sandbox and its container.


@pytest.mark.row("config.runOnce")
def test_run_once_reports_failed_pods(agent: NodeAgent) -> None:
    broken = {"name": "broken", "image": IMAGE, "imagePullPolicy": "IfNotPresent", "command": ["/bin/false"]}
    agent.write_pod(simple_pod("bad", restartPolicy="Never", initContainers=[broken]))

    agent.begin(runOnce=True)

    assert agent.process is not None
    assert agent.process.wait(30) == 1
    assert 'pod="default/bad-node-1"' in agent.tail()


def test_invalid_configuration_reports_every_error(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(
        "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"
        "maxPodz: 3\nport: 70000\ncontainerRuntimeEndpoint: unix:///run/none.sock\n"
    )

    result = run("run", "--config", str(file))

    assert result.returncode == 2
    assert "maxPods" in result.stderr  # The most similar name.
    assert "port: 70000" in result.stderr


def test_disabled_required_plugin_is_reported(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(
        "apiVersion: nodeagent.config.k8s.io/v1beta1\nkind: NodeAgentConfiguration\n"
        "containerRuntimeEndpoint: unix:///run/none.sock\nhealthzPort: 0\nenableServer: false\n"
    )

    result = run("run", "--config", str(file), "--root-dir", str(tmp_path / "root"), "--disable-plugin", "cri")

    assert result.returncode == 2
    assert "no plugin provides runtime" in result.stderr


def test_plugins_are_listed_with_origin_version_and_hooks() -> None:
    listed = json.loads(run("plugins", "list", "-o", "json").stdout)["plugins"]

    cri = next(plugin for plugin in listed if plugin["name"] == "cri")
    assert (cri["origin"], cri["state"]) == ("nodeagent", "loaded")
    assert "nodeagent_provide_runtime" in cri["hooks"]


def _get(address: str, port: int, path: str) -> tuple[int, str]:
    import http.client

    connection = http.client.HTTPConnection(address, port, timeout=5)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        return response.status, response.read().decode()
    except OSError:
        return 0, ""
    finally:
        connection.close()


def _listeners(pid: int) -> list[str]:
    """Return the TCP ports on which a process listens."""
    import psutil

    return [str(c.laddr) for c in psutil.Process(pid).net_connections("tcp") if c.status == psutil.CONN_LISTEN]
