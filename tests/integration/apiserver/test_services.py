"""Tests for services on a running server: allocation, and the ``kubernetes`` Service."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from apiserver_stub.controllers import kubernetes_service

from .conftest import Api, Server
from .in_process import start

SERVICES = "/api/v1/namespaces/default/services"
OWN = "/api/v1/namespaces/default/endpoints/kubernetes"
FOREIGN = [{"addresses": [{"ip": "192.0.2.77"}], "ports": [{"name": "https", "port": 1, "protocol": "TCP"}]}]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Server with dual-stack ranges and a node port of its ``kubernetes`` Service."""
    found = Server(
        tmp_path_factory.mktemp("services"),
        "--service-cluster-ip-range=10.96.0.0/28,fd00:96::/112",
        "--service-node-port-range=31000-31003",
        "--platform-service-node-port=31000",
    )
    yield found
    assert found.stop() == 0


def _new(name: str, **spec: Any) -> Any:
    return {"metadata": {"name": name}, "spec": {"ports": [{"port": 80}], "selector": {"a": "b"}, **spec}}


@pytest.mark.row("opt.service-cluster-ip-range", "opt.service-node-port-range")
def test_addresses_and_ports_come_from_the_ranges(server: Server, api: Api) -> None:
    api.call("DELETE", f"{SERVICES}/both")  # left by a failed run
    both = api.ok("POST", SERVICES, _new("both", ipFamilyPolicy="RequireDualStack", type="NodePort"))["spec"]
    assert both["clusterIPs"][0].startswith("10.96.0.")
    assert both["clusterIPs"][1].startswith("fd00:96::")
    assert 31001 <= both["ports"][0]["nodePort"] <= 31003

    code, rejection = api.call("POST", SERVICES, _new("same", clusterIP=both["clusterIP"]))
    assert (code, rejection["details"]["causes"][0]["field"]) == (422, "spec.clusterIPs")
    assert "provided IP is already allocated" in rejection["message"]
    assert api.call("POST", SERVICES, _new("out", clusterIP="10.96.1.1"))[0] == 422
    assert api.call("POST", SERVICES, _new("port", type="NodePort", ports=[{"port": 1, "nodePort": 30000}]))[0] == 422
    other = "10.96.0.9" if both["clusterIP"] != "10.96.0.9" else "10.96.0.8"
    assert api.call("PATCH", f"{SERVICES}/both", {"spec": {"clusterIP": other}}, content_type=MERGE)[0] == 422

    api.ok("DELETE", f"{SERVICES}/both")
    again = api.ok("POST", SERVICES, _new("again", clusterIP=both["clusterIP"]))
    assert again["spec"]["clusterIPs"] == [both["clusterIP"]]
    api.ok("DELETE", f"{SERVICES}/again")


MERGE = "application/merge-patch+json"


@pytest.mark.row("opt.platform-service-node-port", "opt.service-cluster-ip-range")
def test_kubernetes_service_is_created(server: Server, api: Api) -> None:
    spec = api.ok("GET", f"{SERVICES}/kubernetes")["spec"]

    assert spec["clusterIP"] == "10.96.0.1"
    assert (spec["type"], spec["ports"][0]["nodePort"]) == ("NodePort", 31000)
    assert server.kubectl("get", "service", "kubernetes").splitlines()[1].split()[1:3] == ["NodePort", "10.96.0.1"]
    code, rejection = api.call("POST", SERVICES, _new("thief", type="NodePort", ports=[{"port": 1, "nodePort": 31000}]))
    assert code == 422, rejection


@pytest.mark.row("opt.platform-service-node-port")
def test_kubernetes_service_without_node_port_is_cluster_ip(server: Server) -> None:
    server.stop()
    before, server._arguments = server._arguments, ("--endpoint-reconciler-type=none",)
    server.start()
    spec = server.api().ok("GET", f"{SERVICES}/kubernetes")["spec"]
    server.stop()
    server._arguments = before
    server.start()

    assert spec["type"] == "ClusterIP"
    assert "nodePort" not in spec["ports"][0]


@pytest.mark.row("opt.endpoint-reconciler-type")
@pytest.mark.parametrize("kind", ["none", "master-count", "lease"])
def test_endpoint_reconciler_types(server: Server, kind: str) -> None:
    server.stop()
    before, server._arguments = server._arguments, (f"--endpoint-reconciler-type={kind}",)
    try:
        server.start()
        server.api().ok("PUT", OWN, {"metadata": {"name": "kubernetes"}, "subsets": FOREIGN})
        server.stop()
        server.start()
        subsets = server.api().ok("GET", OWN)["subsets"]
        server.stop()
    finally:
        server._arguments = before
        server.start()
    after = server.api().ok("GET", OWN)["subsets"]

    assert (subsets == FOREIGN) == (kind == "none")
    assert [item["ip"] for item in after[0]["addresses"]] == ["127.0.0.1"]


async def test_deleted_kubernetes_service_is_restored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kubernetes_service, "_RENEW_SECONDS", 0.05)
    running = await start(tmp_path / "data")
    context = ssl.create_default_context(cafile=str(running.ca_file))
    headers = {"Authorization": f"Bearer {running.token}"}
    try:
        async with aiohttp.ClientSession(running.url, headers=headers) as client:

            async def read(path: str, what: str) -> Any:
                async with asyncio.timeout(30):
                    while True:
                        async with client.get(path, ssl=context) as response:
                            found = await response.json()
                        if found.get(what):
                            return found
                        await asyncio.sleep(0.05)

            for kind, what in (("services", "spec"), ("endpoints", "subsets")):
                path = f"/api/v1/namespaces/default/{kind}/kubernetes"
                before = await read(path, what)  # The endpoints are deleted with the Service.
                async with client.delete(path, ssl=context) as response:
                    assert response.status == 200
                found = await read(path, what)
                assert found["metadata"]["uid"] != before["metadata"]["uid"]
                assert found[what] == before[what]
    finally:
        await running.stop()
