"""Tests for ranges of cluster IPs that are added to a running server."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from nodeagent.testing.apiserver import ApiServerHandle, started_apiserver
from tests.integration.docs.blocks import blocks

pytestmark = pytest.mark.integration
PAGE = "docs/api-server.md"
RANGES = "/apis/networking.k8s.io/{}/servicecidrs"


@pytest.fixture(scope="module")
def server() -> Iterator[ApiServerHandle]:
    with started_apiserver("--compatibility-version=1.36", "--service-cluster-ip-range=10.96.0.0/24") as server:
        yield server


def test_documented_range_extends_the_service_network(server: ApiServerHandle, tmp_path: Path) -> None:
    for block in blocks(PAGE):
        if file := dict(block.notes).get("file"):
            (tmp_path / file).write_text(block.text)
    (block,) = [item for item in blocks(PAGE) if "kubectl get ipaddress" in item.text]
    environment = {**os.environ, "KUBECONFIG": str(server.kubeconfig)}
    for step in block.text.split("$ ")[1:]:
        command, _, expected = step.partition("\n")
        result = subprocess.run(
            ["bash", "-c", command],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert result.stdout == expected, result.stderr

    server.request("DELETE", f"{RANGES.format('v1')}/more")
    limit = time.monotonic() + 10
    while not (conditions := server.request("GET", f"{RANGES.format('v1')}/more")["status"].get("conditions")) or (
        conditions[0]["status"] == "True"
    ):
        assert time.monotonic() < limit, conditions
        time.sleep(0.05)
    assert conditions[0]["reason"] == "Terminating"


@pytest.mark.row("gate.MultiCIDRServiceAllocator")
def test_gate_of_the_oldest_release_allocates_addresses_as_objects() -> None:
    options = ("--feature-gates=MultiCIDRServiceAllocator=true", "--runtime-config=networking.k8s.io/v1alpha1=true")
    with started_apiserver(*options, "--service-cluster-ip-range=10.96.0.0/24") as server:
        (found,) = server.request("GET", RANGES.format("v1alpha1"))["items"]
        (address,) = server.request("GET", "/apis/networking.k8s.io/v1alpha1/ipaddresses")["items"]

    assert found["spec"]["cidrs"] == ["10.96.0.0/24"]
    assert address["metadata"]["name"] == "10.96.0.1"
    assert address["spec"]["parentRef"] == {"resource": "services", "namespace": "default", "name": "kubernetes"}
