"""Tests for the API server fixture of third-party tests."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from nodeagent.testing.apiserver import ApiServerFailed, ApiServerHandle, started_apiserver

USER_TESTS = """
import os
import pytest
from nodeagent.testing.apiserver import started_apiserver

def test_server_stores_objects(nodeagent_apiserver):
    server = nodeagent_apiserver
    made = server.request("POST", "/api/v1/namespaces/default/configmaps", {"metadata": {"name": "mine"}})
    assert made["kind"] == "ConfigMap"
    assert server.kubeconfig.stat().st_mode & 0o777 == 0o600

def test_next_server_is_empty(nodeagent_apiserver):
    found = nodeagent_apiserver.request("GET", "/api/v1/namespaces/default/configmaps/mine")
    assert (found["kind"], found["code"]) == ("Status", 404)
"""


def test_fixture_is_available_with_the_installed_package(tmp_path: Path) -> None:
    (tmp_path / "test_user.py").write_text(USER_TESTS)

    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:asyncio", str(tmp_path)]
    result = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)

    assert "2 passed" in result.stdout, result.stdout + result.stderr


def test_server_can_be_configured_shared_and_restarted(tmp_path: Path) -> None:
    leases = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
    for expected in (201, 409):
        with started_apiserver("--event-ttl=5m", data_dir=tmp_path) as server:
            response = server.request("POST", leases, {"metadata": {"name": "one"}})
        assert response.get("code", 201) == expected
        with pytest.raises(OSError, match="refused"):
            server.request("GET", leases)


def test_kubectl_accepts_the_kubeconfig(nodeagent_apiserver: ApiServerHandle) -> None:
    command = ["kubectl", f"--kubeconfig={nodeagent_apiserver.kubeconfig}", "get", "namespaces", "-o", "name"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert "namespace/default" in result.stdout


def test_failed_start_has_a_reason() -> None:
    with pytest.raises(ApiServerFailed, match="unknown flag: --nope"), started_apiserver("--nope=1"):
        pass
