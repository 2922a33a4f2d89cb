"""Tests for the API of storage versions."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from nodeagent.testing.apiserver import started_apiserver

from .conftest import Api, Server

pytestmark = pytest.mark.integration
VERSIONS = "/apis/internal.apiserver.k8s.io/v1alpha1/storageversions"
SERVED = "--runtime-config=internal.apiserver.k8s.io/v1alpha1=true"


def checks(api: Api) -> str:
    """Return the checks of a ready server."""
    limit = time.monotonic() + 30
    while (found := api.raw("GET", "/readyz?verbose"))[0] != 200:
        assert time.monotonic() < limit, found
        time.sleep(0.05)
    return found[2].decode()


@pytest.mark.row("gate.StorageVersionAPI")
def test_server_reports_versions_before_it_is_ready(tmp_path: Path) -> None:
    server = Server(tmp_path, "--feature-gates=StorageVersionAPI=true", SERVED)
    api = server.api(close=True)
    try:
        passed = checks(api)
        found = api.ok("GET", f"{VERSIONS}/apps.deployments")
        leases = api.ok("GET", "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases")["items"]
        table = server.kubectl("get", "storageversions", "core.pods", "--no-headers").split()
    finally:
        server.stop()

    assert "poststarthook/built-in-resources-storage-version-updater ok" in passed
    (entry,) = found["status"]["storageVersions"]
    assert entry["apiServerID"] in {lease["metadata"]["name"] for lease in leases}
    assert entry["encodingVersion"] == found["status"]["commonEncodingVersion"] == "apps/v1"
    assert table[:3] == ["core.pods", "v1", f"{entry['apiServerID']}=v1"]


def test_server_without_the_gate_reports_no_versions() -> None:
    with started_apiserver(SERVED) as server:
        assert server.request("GET", VERSIONS)["items"] == []
