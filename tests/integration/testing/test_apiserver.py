"""Other people's tests get an API server by naming a fixture."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from nodeagent.testing.apiserver import ApiServerFailed, ApiServerHandle, started_apiserver

THEIRS = """
import os
import pytest
from nodeagent.testing.apiserver import started_apiserver

def test_it_serves(nodeagent_apiserver):
    server = nodeagent_apiserver
    made = server.request("POST", "/api/v1/namespaces/default/configmaps", {"metadata": {"name": "mine"}})
    assert made["kind"] == "ConfigMap"
    assert server.kubeconfig.stat().st_mode & 0o777 == 0o600

def test_the_next_one_is_empty(nodeagent_apiserver):
    found = nodeagent_apiserver.request("GET", "/api/v1/namespaces/default/configmaps/mine")
    assert (found["kind"], found["code"]) == ("Status", 404)
"""


def test_the_fixture_is_there_for_whoever_installed_the_package(tmp_path: Path) -> None:
    (tmp_path / "test_theirs.py").write_text(THEIRS)

    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:asyncio", str(tmp_path)]
    result = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)

    assert "2 passed" in result.stdout, result.stdout + result.stderr


def test_a_server_can_be_shared_configured_and_started_again_on_its_objects(tmp_path: Path) -> None:
    leases = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
    for expected in (201, 409):
        with started_apiserver("--event-ttl=5m", data_dir=tmp_path) as server:
            answer = server.request("POST", leases, {"metadata": {"name": "one"}})
        assert answer.get("code", 201) == expected
        with pytest.raises(OSError, match="refused"):
            server.request("GET", leases)


def test_kubectl_uses_its_kubeconfig(nodeagent_apiserver: ApiServerHandle) -> None:
    command = ["kubectl", f"--kubeconfig={nodeagent_apiserver.kubeconfig}", "get", "namespaces", "-o", "name"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert "namespace/default" in result.stdout


def test_a_server_that_does_not_start_says_why() -> None:
    with pytest.raises(ApiServerFailed, match="unknown flag: --nope"), started_apiserver("--nope=1"):
        pass
